"""The `free:` block of a config: how models are asked in words, and how rules and a judge grade their answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, field_serializer, field_validator

from robustify.engines.settings import host_of
from robustify.freeform.llm_judge.store import PromptTemplate, TemplateStore, get_store
from robustify.freeform.schema import FormatType, GradedKind, Kind, NuggetScore
from robustify.settings_files import Settings

Mode = Literal["deterministic", "auto", "judge", "both"]
Rubric = Literal["mcq", "numeric", "explanation"]
RUBRICS: Mapping[str, Kind] = {"mcq": "short_text", "numeric": "numeric", "explanation": "explanation"}
"""The graders of the templates `grader/NAME`, by the kind of answer that each judges."""
NEWEST = "2.0"


class JudgeSettings(Settings):
    """The judge, and how it is asked.

    `model` is the name of a model at `base_url`, an OpenAI-compatible server whose key is in the environment variable
    `api_key_env`. `votes` is odd; `retries` counts new attempts after an unreadable reply.
    `forbid_self` refuses a judge that wrote one of the answers. `check`: test the judge on this many items for
    repeatability and for forged verdicts.
    """

    model: str = Field(min_length=1)
    base_url: str
    api_key_env: str | None = None
    votes: int = Field(default=1, ge=1, strict=True)
    retries: int = Field(default=2, ge=0, strict=True)
    max_tokens: int = Field(default=1024, ge=16, strict=True)
    seed: int = Field(default=0, strict=True)
    forbid_self: bool = True
    check: int = Field(default=0, ge=0, strict=True)

    @field_validator("votes")
    @classmethod
    def _odd(cls, votes: int) -> int:
        if votes % 2 == 0:
            raise ValueError("is even; expected an odd number, so that two verdicts cannot tie")
        return votes

    @field_serializer("base_url", when_used="json")
    def _without_host(self, url: str) -> str:
        # A server's address may name an inner network, and differs from one day to the next.
        return f"http://{'elsewhere' if host_of(url) else 'localhost'}"


class FreeSettings(Settings):
    """Free response: how models are asked, and how their answers are graded.

    `models` names those of the config that are asked (default: every model that can write). `answers` are files with
    answers of other models, by item id. `template` asks every item; the default depends on the kind of answer. Items whose
    key is longer than 12 words are asked with `explanations`; every item is asked by letter with `options_shown`.
    `facts` is a file with nuggets by item id, `people` a file with labels of people.

    `mode`: rules alone (`deterministic`), the judge for what rules leave undecided (`auto`), the judge for everything
    (`judge`, the default if `rubrics` are given), or both with disagreement flagged (`both`). `rubrics` names a version of
    the judge's template by kind (`mcq: "1.0"`), or a template of your own. `scale` and `format_type` default to those of
    the template. `rel_tol` 5 % is lax: 1 % is advised for new sets.
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
        """The mode in force."""
        return self.mode or ("judge" if self.rubrics else "auto")

    @property
    def asking(self) -> JudgeSettings:
        """How the judge is asked, also one that the settings do not name."""
        return self.judge or JudgeSettings(model="judge", base_url="http://127.0.0.1")

    @property
    def store(self) -> TemplateStore:
        """The templates of the package and of `template_dir`."""
        return get_store(tuple(map(Path, self.template_dir)))

    def judged_by(self, kind: GradedKind) -> PromptTemplate:
        """Return the template by which a judge grades this kind."""
        if kind == "nuggets":
            name = self.nugget_template
            return self.store.get(name if "/" in name else f"nugget/{name}")
        rubric: Rubric = "mcq" if kind == "short_text" else kind
        version = self.rubrics.get(rubric, NEWEST)
        return self.store.get(version if "/" in version else f"grader/{rubric}@{version.removeprefix('v')}")
