"""Settings of free response: the `free:` block of a config.

Templates are imported only if a method needs them, because configs without this block must load fast.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import Field, field_validator

from robustify.base.errors import DataError
from robustify.base.settings_files import Settings
from robustify.models.model_settings import Address, Variable

if TYPE_CHECKING:
    from robustify.items.prompt_templates import Message, PromptTemplate

Kind = Literal["numeric", "short_text", "explanation"]
GradedKind = Literal["numeric", "short_text", "explanation", "nuggets"]
NuggetScore = Literal["strict_vital", "vital", "strict_all", "all", "weighted"]
NUGGET_SCORES: tuple[NuggetScore, ...] = get_args(NuggetScore)
FormatType = Literal["json", "yaml", "xml", "csv", "markdown", "adaptive"]
FORMAT_TYPES: tuple[FormatType, ...] = get_args(FormatType)
"""Formats in which a judge may write labels."""
Mode = Literal["deterministic", "auto", "judge", "both"]
Rubric = Literal["mcq", "numeric", "explanation"]
RUBRICS: Mapping[str, Kind] = {"mcq": "short_text", "numeric": "numeric", "explanation": "explanation"}
"""Kind of answer that each judge template `grader/NAME` grades."""


class JudgeSettings(Settings):
    """Settings of the judge, a model on an OpenAI-compatible server, as explained in docs/freeform.md."""

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
            raise ValueError("the number is even; expected an odd number, so that two verdicts cannot tie")
        return votes


class FreeSettings(Settings):
    """Settings of free response, as explained in docs/freeform.md.

    `models` defaults to every model that can generate text, `template` to one per kind of answer, and `scale` and
    `format_type` to those of the template. `rubrics` names a version of the judge's template by kind (`mcq: "1.0"`), or a
    template of yours.
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
        """Grading mode: whether rules or the judge grade. The default is `judge` with `rubrics`, and `auto` otherwise."""
        return self.mode or ("judge" if self.rubrics else "auto")

    @property
    def asking(self) -> JudgeSettings:
        """Settings for judge calls, with defaults if no judge is configured."""
        return self.judge or JudgeSettings(model="judge", base_url="http://127.0.0.1")

    def template_named(self, template_id: str) -> "PromptTemplate":
        """Return the template with this ID, from the package or from `template_dir`."""
        from robustify.items.prompt_templates import template_named

        return template_named(template_id, tuple(map(Path, self.template_dir)))

    @cached_property
    def _solved(self) -> "list[tuple[PromptTemplate, Mapping[str, Any]]]":
        from robustify.reading.jsonl import read_jsonl

        def solved(row: Mapping[str, Any]) -> "tuple[PromptTemplate, Mapping[str, Any]]":
            match row:
                case {"template": str(name), "reply": str(reply)} if reply.strip():
                    return self.template_named(name), row
            fault = "The row is not an example. Expected template, reply, and its other variables."
            raise DataError(fault, code="not-an-example")

        return read_jsonl(Path(self.examples), solved) if self.examples else []

    def solved(self, template: "PromptTemplate", given: Mapping[str, object]) -> "list[Message]":
        """Return the examples of a judge's template as turns of a conversation. All share the variables `given`."""
        from robustify.items.prompt_templates import Message, rendered

        turns = list[Message]()
        for number, (example_template, example) in enumerate(self._solved):
            if example_template.name == template.name:
                n_nuggets = len(example.get("nuggets", ()))
                variables = {"num_nuggets": n_nuggets, "nonce": f"example:{number}", **example}
                turns += [
                    rendered(template, {**given, **variables})[-1],
                    Message("assistant", example["reply"]),
                ]
        return turns

    def judged_by(self, kind: GradedKind) -> "PromptTemplate":
        """Return the template with which a judge grades answers of this kind."""
        rubric: Rubric = "mcq" if kind == "short_text" else kind if kind != "nuggets" else "explanation"
        name = self.nugget_template if kind == "nuggets" else self.rubrics.get(rubric, "2.0")
        if "/" not in name:
            name = f"nugget/{name}" if kind == "nuggets" else f"grader/{rubric}@{name.removeprefix('v')}"
        return self.template_named(name)
