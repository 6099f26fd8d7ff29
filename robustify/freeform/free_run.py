"""Free response within a run: models write answers while they are loaded, and rules and a judge grade the answers later.

Replies are cached after every batch, so that an interrupted run resumes. If the template or model changes, the questions
are asked again. Replies of a restricted set are not cached, and only numbers leave this module for it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from robustify.base.errors import UsageError
from robustify.freeform.grade.graders import GRADERS, grade_answers, require_grading
from robustify.freeform.llm_judge.judges import open_judge, refuse_self_judging
from robustify.freeform.metrics import HumanLabel, calibrate, human_from
from robustify.freeform.questions import convert_item, read_predictions, with_facts
from robustify.freeform.schema import AnswerRow, FreeItem, GradeResult
from robustify.items.item import Item
from robustify.items.prompt_templates import PromptTemplate, rendered
from robustify.judging.free_response import FreeGrades
from robustify.models.engines.protocols import Progress, Watch, Writer, no_progress
from robustify.models.replies import Purpose, Replies, replies_to
from robustify.pipeline.free_settings import FreeSettings
from robustify.reading.jsonl import read_jsonl

NOT_ASKED = "limit"
"""Reason for items beyond `free.limit`."""


def require_free(settings: FreeSettings, models: Sequence[str]) -> None:
    """Check the `free:` block before any model is asked. Raise `UsageError` or `DataError` if it cannot work."""
    if unknown := [name for name in settings.models if name not in models]:
        expected = f"Expected one of {', '.join(models)}." if models else "Add it to `models`."
        fault = f"free.models: {unknown[0]} is not a model of this config. {expected}"
        raise UsageError(fault, code="model-not-in-config")
    require_grading(settings, settings.judge)
    if settings.judge is not None:
        refuse_self_judging(settings.judge, [AnswerRow("", name, "") for name in settings.models or models])
    shared = {"scale": settings.scale or "binary", "format_type": "json"}
    for kind in GRADERS:
        settings.solved(settings.judged_by(kind), shared)
    if settings.template is not None:
        settings.template_named(settings.template)
    human_labels(settings)


def human_labels(settings: FreeSettings) -> list[HumanLabel]:
    """Read the human labels in the files that the settings name."""
    return read_jsonl(Path(settings.people), human_from) if settings.people else []


def prompts_in_words(settings: FreeSettings, items: Sequence[Item]) -> list[str]:
    """Return the free-response prompts that each model receives."""
    free_items = (item for item in _convert(settings, items) if not item.excluded_reason)
    return [prompt_of(item, settings) for item in islice(free_items, settings.limit)]


def _convert(settings: FreeSettings, items: Sequence[Item]) -> list[FreeItem]:
    shown = settings.options_shown
    return [convert_item(item, explanations=settings.explanations, options_shown=shown) for item in items]


def _template_of(item: FreeItem, settings: FreeSettings) -> PromptTemplate:
    default = "letter" if item.options_shown else item.kind.removesuffix("_text")
    template = settings.template_named(settings.template or f"answer/{default}@2.0")
    if template.reads != "text":
        fault = f"Template {template.id} asks for {template.reads}. Choose a template whose ID begins with answer/."
        raise UsageError(fault, code="template-of-another-kind")
    return template


def prompt_of(item: FreeItem, settings: FreeSettings, *, has_chat_template: bool = False) -> str:
    """Render the prompt of an item. Raise `UsageError` if the template does not ask for an answer. The Mistral template
    contains its chat markers, which are removed if the model adds its own chat template."""
    template = _template_of(item, settings)
    variables = {"question": item.asked, "unit": item.unit, "language": settings.language}
    text = "\n\n".join(message.content for message in rendered(template, variables))
    if has_chat_template and template.name == "answer/mistral_instruct":
        text = text.removeprefix("[INST] ").removesuffix(" [/INST]")
    return text


def generate(
    items: Sequence[FreeItem], writer: Writer, settings: FreeSettings, kept: Replies,
    progress: Progress = no_progress,
) -> list[AnswerRow]:  # fmt: skip
    """Let a model answer all items that may be asked, and return its answers in order. Cached replies are reused."""
    chat = bool(getattr(writer, "has_chat_template", False))
    asked_items = [item for item in items if not item.excluded_reason]
    prompts = [prompt_of(item, settings, has_chat_template=chat) for item in asked_items]
    replies = replies_to(prompts, writer, kept, Purpose("answer", settings.max_tokens), progress)
    rows = zip(asked_items, replies, strict=True)
    return [AnswerRow(i.id, writer.name, template=_template_of(i, settings).id, **reply) for i, reply in rows]


class FreeResponse:
    """Free-response results of one run."""

    def __init__(
        self, settings: FreeSettings, items: Sequence[Item], cache: Path, *, restricted: bool
    ) -> None:
        self._settings, self._restricted = settings, restricted
        converted = _convert(settings, items)
        self._items = with_facts(converted, Path(settings.facts)) if settings.facts else converted
        self._asked = [item for item in self._items if not item.excluded_reason][: settings.limit]
        self._rows = [*read_predictions([*map(Path, settings.answers)], self._items, restricted=restricted)]
        self._kept = Replies(None if restricted else cache)

    def ask(self, name: str, model: object, watch: Watch) -> None:
        """Ask a loaded model the questions, unless it cannot generate text or is not among the models in the settings.
        Raise `UsageError` if the settings name a model that cannot generate text."""
        wanted = name in self._settings.models
        if (self._settings.models and not wanted) or (not wanted and not isinstance(model, Writer)):
            return
        if not isinstance(model, Writer):
            fault = f"free.models: the engine of {name} only scores options."
            raise UsageError(f"{fault} Choose a model that generates text.", code="engine-cannot-write")
        with watch(f"{name}, in words", len(self._asked)) as progress:
            self._rows += generate(self._asked, model, self._settings, self._kept, progress)

    def graded(self, watch: Watch) -> FreeGrades:
        """Return the graded answers of the run, and the calibration of the judge."""
        settings = self._settings
        refuse_self_judging(settings.judge, self._rows)
        opened = open_judge(settings.judge, self._kept, restricted=self._restricted)
        with opened as judge, watch("grading", len(self._rows)) as progress:
            grades = grade_answers(self._items, self._rows, settings, judge, progress)
        self._kept.close()
        calibration = calibrate(grades, human_labels(settings))
        reasons = sorted(item.excluded_reason for item in self._items if item.excluded_reason)
        beyond = len(self._items) - len(reasons) - len(self._asked)
        left_out = Counter([*reasons, *[NOT_ASKED] * beyond])
        return FreeGrades(tuple(free_lines(self._items, self._rows, grades)), calibration, left_out)


def start(settings: FreeSettings, items: Sequence[Item], cache: Path, *, restricted: bool) -> FreeResponse:
    """Start the free response of a run: convert the items, and read answers from the files that the settings name."""
    return FreeResponse(settings, items, cache, restricted=restricted)


def free_lines(
    items: Sequence[FreeItem], answers: Sequence[AnswerRow], grades: Sequence[GradeResult]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of free.jsonl: each grade with its question and answer."""
    questions = {item.id: item.asked for item in items}
    for row, grade in zip(answers, grades, strict=True):
        yield {
            **grade.json(),
            "question": questions[row.item_id],
            "answer": row.text,
            "template": row.template,
        }
