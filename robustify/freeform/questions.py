"""Open-ended questions, converted from multiple-choice items and sent to a model.

An item that cannot be asked keeps its reason. Replies are cached after every batch, so that an interrupted run resumes.
If the template or model changes, the questions are asked again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from robustify.base.errors import UsageError
from robustify.freeform.grade.numbers import whole_quantity
from robustify.freeform.prompt_templates import PromptTemplate, rendered
from robustify.freeform.schema import AnswerRow, FreeItem, Kind
from robustify.freeform.settings import FreeSettings
from robustify.items.item import Item
from robustify.judging.cloze import exclusion
from robustify.models.engines.protocols import Progress, Writer, no_progress
from robustify.models.replies import Purpose, Replies, replies_to

MIDDLE = 12
"""Longest key of a short text, in words."""
MISTRAL = "answer/mistral_instruct"
BY_KIND: Mapping[Kind, str] = {
    "numeric": "answer/numeric@2.0", "short_text": "answer/short@2.0", "explanation": "answer/explanation@2.0",
}  # fmt: skip
"""Default template of each kind."""
BY_LETTER = "answer/letter@2.0"
"""Default template of a question with shown options."""


def convert_item(item: Item, *, explanations: bool = False, options_shown: bool = False) -> FreeItem:
    """Convert an item to an open-ended question with kind and reference, or with the reason why it cannot be asked.

    With `explanations`, items whose key is longer than 12 words are also asked. Otherwise they are excluded as
    `long_answer`, because comparison cannot decide a long text. With `options_shown`, every item is asked by letter.
    """
    reference = " ".join(item.choices[item.key].split())
    kind = route(reference)
    # The reasons are those of the strict cloze profile, but only the words of the key matter for a free answer.
    alone = Item(
        item.id, item.stem, (item.choices[item.key], "another text"), 0, item.topic, group=item.group
    )
    reason = exclusion(alone, "strict")
    if reason in (None, "long_answer"):
        reason = "long_answer" if kind == "explanation" and not explanations else ""
    free = FreeItem(
        item.id, item.stem, kind, reference, options=item.choices, correct=item.key, topic=item.topic, group=item.group,
        excluded_reason=str(reason),
    )  # fmt: skip
    return with_options(free) if options_shown else free


def with_options(item: FreeItem) -> FreeItem:
    """Return the item with its options shown. An item without options is unchanged."""
    if item.correct is None:
        return item
    return replace(item, kind="short_text", options_shown=True, excluded_reason="")


def route(reference: str) -> Kind:
    """Return the kind of question that a reference answers: numeric, short text or explanation."""
    if whole_quantity(reference) is not None:
        return "numeric"
    return "short_text" if len(reference.split()) <= MIDDLE else "explanation"


def exclusions(items: Iterable[FreeItem]) -> dict[str, int]:
    """Count the excluded items by reason."""
    return dict(sorted(Counter(item.excluded_reason for item in items if item.excluded_reason).items()))


def template_of(item: FreeItem, settings: FreeSettings) -> PromptTemplate:
    """Return the prompt template of an item. Raise `UsageError` if the template does not ask for an answer."""
    default = BY_LETTER if item.options_shown else BY_KIND[item.kind]
    template = settings.template_named(settings.template or default)
    if template.reads != "text":
        raise UsageError(
            f"Template {template.id} asks for {template.reads}. Choose an answer/ template instead."
        )
    return template


def prompt_of(item: FreeItem, settings: FreeSettings, *, has_chat_template: bool = False) -> str:
    """Render the prompt of an item.

    The Mistral template contains its chat markers. If the model adds its own chat template, the markers are removed, so
    that they do not appear twice.
    """
    template = template_of(item, settings)
    known = {"question": item.asked, "unit": item.unit, "language": settings.language}
    text = "\n\n".join(message.content for message in rendered(template, template.taken(known)))
    if has_chat_template and template.name == MISTRAL:
        text = text.removeprefix("[INST] ").removesuffix(" [/INST]")
    return text


def generate(
    items: Sequence[FreeItem],
    writer: Writer,
    settings: FreeSettings,
    kept: Replies,
    progress: Progress = no_progress,
) -> list[AnswerRow]:
    """Ask every item that may be asked, and return the answers in order. Cached replies are reused."""
    chat = bool(getattr(writer, "has_chat_template", False))
    asked = [item for item in items if not item.excluded_reason]
    prompts = [prompt_of(item, settings, has_chat_template=chat) for item in asked]
    said = replies_to(prompts, writer, kept, Purpose("answer", settings.max_tokens), progress)
    return [
        AnswerRow(item.id, writer.name, template=template_of(item, settings).id, **one)
        for item, one in zip(asked, said, strict=True)
    ]
