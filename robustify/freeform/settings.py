"""Settings of the `free:` block of a config: how models are asked open-ended questions, and how answers are graded."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from robustify.base.errors import DataError
from robustify.base.settings_files import Settings
from robustify.freeform.prompt_templates import Message, PromptTemplate, rendered, template_named
from robustify.freeform.schema import FormatType, GradedKind, Kind, NuggetScore
from robustify.models.engines.settings import Address, Variable
from robustify.reading.jsonl import read_jsonl

Mode = Literal["deterministic", "auto", "judge", "both"]
Rubric = Literal["mcq", "numeric", "explanation"]
RUBRICS: Mapping[str, Kind] = {"mcq": "short_text", "numeric": "numeric", "explanation": "explanation"}
"""Kind of answer that each judge template `grader/NAME` grades."""


class JudgeSettings(Settings):
    """Settings of the judge model.

    `model` is the name of a model at `base_url`, an OpenAI-compatible server. Its key is in the environment variable
    `api_key_env`. `votes` is odd. `retries` counts new attempts after an unreadable reply. `forbid_self` refuses a
    judge that wrote one of the answers. `json_schema` asks the server to make replies follow a JSON schema.
    """

    model: str = Field(min_length=1)
    base_url: Address
    api_key_env: Variable | None = None
    votes: int = Field(default=1, ge=1, strict=True)
    retries: int = Field(default=2, ge=0, strict=True)
    max_tokens: int = Field(default=1024, ge=16, strict=True)
    seed: int = Field(default=0, strict=True)
    forbid_self: bool = True
    json_schema: bool = False

    @field_validator("votes")
    @classmethod
    def _odd(cls, votes: int) -> int:
        if votes % 2 == 0:
            raise ValueError("is even. Expected an odd number, so that two verdicts cannot tie.")
        return votes


class FreeSettings(Settings):
    """Settings of free response, which docs/freeform.md explains: how models are asked, and how answers are graded.

    `models` defaults to every model that can generate text, `template` to one per kind of answer, `mode` to `judge` if
    `rubrics` are given and otherwise to `auto`, `scale` and `format_type` to those of the template. `rubrics` names a
    version of the judge's template by kind (`mcq: "1.0"`), or a template of yours.
    """

    models: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    template: str | None = None
    language: str | None = None
    max_tokens: int = Field(default=512, ge=1, strict=True)
    limit: int | None = Field(default=None, ge=1, strict=True)
    explanations: bool = False
    options_shown: bool = False
    facts: str | None = None
    people: str | None = None
    examples: str | None = None
    mode: Mode | None = None
    rel_tol: float = Field(default=0.05, ge=0, allow_inf_nan=False)
    abs_tol: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    scale: Literal["binary", "five"] | None = None
    rubrics: dict[Rubric, str] = Field(default_factory=dict)
    nugget_template: str = "nugget/optimized@2.0"
    format_type: FormatType | None = None
    batch_size: int = Field(default=10, ge=1, strict=True)
    nugget_score: NuggetScore = "vital"
    judge: JudgeSettings | None = None
    template_dir: tuple[str, ...] = ()

    @property
    def who(self) -> Mode:
        """Grading mode in effect."""
        return self.mode or ("judge" if self.rubrics else "auto")

    @property
    def asking(self) -> JudgeSettings:
        """Settings for judge calls, with defaults if no judge is configured."""
        return self.judge or JudgeSettings(model="judge", base_url="http://127.0.0.1")

    def template_named(self, template_id: str) -> PromptTemplate:
        """Return a built-in template, or one of `template_dir`."""
        return template_named(template_id, tuple(map(Path, self.template_dir)))

    @cached_property
    def _solved(self) -> list[tuple[PromptTemplate, Mapping[str, Any]]]:
        return read_jsonl(Path(self.examples), self._solved_case) if self.examples else []

    def _solved_case(self, row: Mapping[str, Any]) -> tuple[PromptTemplate, Mapping[str, Any]]:
        match row:
            case {"template": str(name), "reply": str(reply)} if reply.strip():
                return self.template_named(name), row
        raise DataError("The row is no example. Expected template, reply, and the variables of the template.")

    def solved(self, template: PromptTemplate, given: Mapping[str, object]) -> list[Message]:
        """Return the examples of a judge's template as turns of a conversation. `given` are variables that all cases
        share. Raise `DataError` if the file cannot be read, and `UsageError` if an example does not fit its template."""
        turns = list[Message]()
        for at, (of, row) in enumerate(self._solved):
            if of.name == template.name:
                own = {"num_nuggets": len(row.get("nuggets", ())), "nonce": f"example:{at}", **row}
                turns += [rendered(template, {**given, **own})[-1], Message("assistant", row["reply"])]
        return turns

    def judged_by(self, kind: GradedKind) -> PromptTemplate:
        """Return the template with which a judge grades this kind."""
        rubric: Rubric = "mcq" if kind == "short_text" else kind if kind != "nuggets" else "explanation"
        name = self.nugget_template if kind == "nuggets" else self.rubrics.get(rubric, "2.0")
        if "/" not in name:
            name = f"nugget/{name}" if kind == "nuggets" else f"grader/{rubric}@{name.removeprefix('v')}"
        return self.template_named(name)
