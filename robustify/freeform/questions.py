"""Open-ended questions, converted from multiple-choice items and sent to a model.

An item that cannot be asked keeps its reason. Replies are cached after every batch, so that an interrupted run resumes.
If the template or model changes, the questions are asked again.
"""

from collections.abc import Mapping, Sequence
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
BY_KIND: Mapping[Kind, str] = {"numeric": "numeric", "short_text": "short", "explanation": "explanation"}
"""Name of the default template of each kind."""


def convert_item(item: Item, *, explanations: bool = False, options_shown: bool = False) -> FreeItem:
    """Convert an item to an open-ended question with kind and reference, or with the reason why it cannot be asked.

    With `explanations`, items whose key is longer than 12 words are also asked. Otherwise they are excluded as
    `long_answer`, because comparison cannot decide a long text. With `options_shown`, every item is asked by letter.
    """
    key = item.choices[item.key]
    reference = " ".join(key.split())
    kind = route(reference)
    # The reasons are those of the strict cloze profile, but only the words of the key matter for a free answer.
    reason = exclusion(Item(item.id, item.stem, (key, "another text"), 0), "strict")
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


def template_of(item: FreeItem, settings: FreeSettings) -> PromptTemplate:
    """Return the prompt template of an item. Raise `UsageError` if the template does not ask for an answer."""
    default = "letter" if item.options_shown else BY_KIND[item.kind]
    template = settings.template_named(settings.template or f"answer/{default}@2.0")
    if template.reads != "text":
        raise UsageError(f"Template {template.id} asks for {template.reads}. Choose an answer/ template.")
    return template


def prompt_of(item: FreeItem, settings: FreeSettings, *, has_chat_template: bool = False) -> str:
    """Render the prompt of an item. The Mistral template contains its chat markers, which are removed if the model adds
    its own chat template."""
    template = template_of(item, settings)
    known = {"question": item.asked, "unit": item.unit, "language": settings.language}
    text = "\n\n".join(message.content for message in rendered(template, known))
    if has_chat_template and template.name == MISTRAL:
        text = text.removeprefix("[INST] ").removesuffix(" [/INST]")
    return text


def generate(
    items: Sequence[FreeItem], writer: Writer, settings: FreeSettings, kept: Replies,
    progress: Progress = no_progress,
) -> list[AnswerRow]:  # fmt: skip
    """Ask every item that may be asked, and return the answers in order. Cached replies are reused."""
    chat = bool(getattr(writer, "has_chat_template", False))
    asked = [item for item in items if not item.excluded_reason]
    prompts = [prompt_of(item, settings, has_chat_template=chat) for item in asked]
    said = replies_to(prompts, writer, kept, Purpose("answer", settings.max_tokens), progress)
    return [
        AnswerRow(item.id, writer.name, template=template_of(item, settings).id, **one)
        for item, one in zip(asked, said, strict=True)
    ]
