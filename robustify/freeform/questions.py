"""Questions without options: made from multiple-choice items, and asked of any `Writer`.

An item that cannot be asked keeps its reason. Each reply is in the cache before the next batch is asked, so that a run that
was stopped continues where it was; a changed template or model asks again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from robustify.engines.protocols import Progress, Reply, Writer, no_progress
from robustify.errors import DataError, UsageError
from robustify.freeform.grade.quantities import whole_quantity
from robustify.freeform.llm_judge.prompting import rendered
from robustify.freeform.llm_judge.store import PromptTemplate
from robustify.freeform.replies import Replies, reply_key
from robustify.freeform.schema import AnswerRow, FreeItem, Kind
from robustify.freeform.settings import FreeSettings
from robustify.item import Item
from robustify.judging.cloze import exclusion
from robustify.redaction import muted

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


BATCH = 8
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
    batch_size: int = BATCH,
) -> list[AnswerRow]:
    """Return the answers to every item that may be asked, in their order; replies that are kept are not asked again."""
    chat = bool(getattr(writer, "has_chat_template", False))
    asked = [item for item in items if not item.excluded_reason]
    prompts = [prompt_of(item, settings, has_chat_template=chat) for item in asked]
    print_: Mapping[str, str] = getattr(writer, "fingerprint", dict)()
    keys = [reply_key("answer", writer.name, print_, prompt, settings.max_tokens) for prompt in prompts]
    known = {key: said for key in keys if (said := kept.get(key)) is not None}
    left = list(dict.fromkeys(place for place, key in enumerate(keys) if key not in known))
    progress(len(prompts) - len(left))
    for start in range(0, len(left), batch_size):
        batch = left[start : start + batch_size]
        written = list(_written([prompts[place] for place in batch], writer, settings.max_tokens))
        fresh = [(keys[place], said) for place, said in zip(batch, written, strict=True)]
        kept.put(fresh)
        known |= dict(fresh)
        progress(len(batch))
    return [
        AnswerRow(item.id, writer.name, template=template_of(item, settings).id, **known[key])
        for item, key in zip(asked, keys, strict=True)
    ]


def _written(prompts: Sequence[str], writer: Writer, max_tokens: int) -> Iterator[dict[str, Any]]:
    """Yield the replies of a batch; a prompt that does not fit affects no other."""
    try:
        with muted():
            replies = writer.write(prompts, max_tokens=max_tokens)
    except DataError:
        if len(prompts) == 1:
            yield {"text": "", "error": "prompt_too_long"}
            return
        for prompt in prompts:
            yield from _written([prompt], writer, max_tokens)
        return
    for text in replies:
        finish = text.finish_reason if isinstance(text, Reply) else None
        yield {"text": str(text), "finish_reason": finish}
