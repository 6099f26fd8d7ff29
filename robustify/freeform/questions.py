"""Questions without options: made from multiple-choice items, and asked of any `Writer`.

An item that cannot be asked keeps its reason. Each reply is in the cache before the next batch is asked, so that a run that
was stopped continues where it was; a changed template or model asks again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from robustify.engines.protocols import Progress, Writer, no_progress
from robustify.errors import UsageError
from robustify.freeform.grade.quantities import whole_quantity
from robustify.freeform.llm_judge.prompting import rendered
from robustify.freeform.llm_judge.store import PromptTemplate
from robustify.freeform.replies import Replies, replies_to
from robustify.freeform.schema import AnswerRow, FreeItem, Kind
from robustify.freeform.settings import FreeSettings
from robustify.item import Item
from robustify.judging.cloze import exclusion

SHORT, MIDDLE = 5, 12
"""Most words of a key that is a short text. Up to `MIDDLE` words are asked, though another wording may be right too."""
_OTHER = "another text"


def convert_item(item: Item, *, explanations: bool = False, options_shown: bool = False) -> FreeItem:
    """Return the question of an item with its kind and reference, and the reason if it cannot be asked.

    `explanations` also asks items whose key is longer than 12 words. Otherwise they are excluded as `long_answer`, because
    a long text is neither right nor wrong by comparison. With `options_shown` every item is asked, by letter.
    """
    reference = " ".join(item.choices[item.key].split())
    kind: Kind = "short_text" if options_shown else route(reference)
    return FreeItem(
        item.id, item.stem, kind, reference, options=item.choices, correct=item.key, topic=item.topic, group=item.group,
        excluded_reason="" if options_shown else _reason(item, kind, explanations), options_shown=options_shown,
    )  # fmt: skip


def with_options(item: FreeItem) -> FreeItem:
    """Return the item asked with its options; an item without options is returned unchanged."""
    if item.correct is None:
        return item
    return replace(item, kind="short_text", options_shown=True, excluded_reason="")


def route(reference: str) -> Kind:
    """Return the kind of answer that a key's text wants."""
    if whole_quantity(reference) is not None:
        return "numeric"
    return "short_text" if len(reference.split()) <= MIDDLE else "explanation"


def _reason(item: Item, kind: Kind, explanations: bool) -> str:
    # The reasons are those of the strict cloze profile, but only the key's own words can spoil a free answer.
    alone = Item(item.id, item.stem, (item.choices[item.key], _OTHER), 0, item.topic, item.group)
    reason = exclusion(alone, "strict")
    if reason not in (None, "long_answer"):
        return str(reason)
    return "long_answer" if kind == "explanation" and not explanations else ""


def exclusions(items: Iterable[FreeItem]) -> dict[str, int]:
    """Return how many items each reason excludes: {REASON: n}."""
    return dict(sorted(Counter(item.excluded_reason for item in items if item.excluded_reason).items()))


MISTRAL = "answer/mistral_instruct"
BY_KIND: Mapping[str, str] = {
    "numeric": "answer/numeric@2.0",
    "short_text": "answer/short@2.0",
    "explanation": "answer/explanation@2.0",
}
"""The template of each kind if none is named."""
BY_LETTER = "answer/letter@2.0"
"""The template of a question that is asked with its options."""


def template_of(item: FreeItem, settings: FreeSettings) -> PromptTemplate:
    """Return the template that asks an item; raise `UsageError` if it does not ask for an answer."""
    default = BY_LETTER if item.options_shown else BY_KIND[item.kind]
    template = settings.store.get(settings.template or default)
    if template.reads != "text":
        raise UsageError(f"template {template.id}: reads {template.reads}; expected one for an answer")
    return template


def prompt_of(item: FreeItem, settings: FreeSettings, *, has_chat_template: bool = False) -> str:
    """Return the text that asks an item.

    The Mistral text is complete as it is. A writer that adds its own chat template gets the text between the marks, so
    that they are not there twice.
    """
    template = template_of(item, settings)
    known = {"question": item.asked, "unit": item.unit, "language": settings.language}
    variables = {
        name: value
        for name, value in known.items()
        if name in template.variables or (name in template.optional and value is not None)
    }
    text = "\n\n".join(message.content for message in rendered(template, variables))
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
    """Return the answers to every item that may be asked, in their order; replies that are kept are not asked again."""
    chat = bool(getattr(writer, "has_chat_template", False))
    asked = [item for item in items if not item.excluded_reason]
    prompts = [prompt_of(item, settings, has_chat_template=chat) for item in asked]
    said = replies_to(prompts, writer, kept, "answer", settings.max_tokens, progress)
    return [
        AnswerRow(item.id, writer.name, template=template_of(item, settings).id, **one)
        for item, one in zip(asked, said, strict=True)
    ]
