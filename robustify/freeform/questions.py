"""Questions without options: made from multiple-choice items, and asked of any `Writer`.

An item that cannot be asked keeps its reason. Each answer is on the disk before the next batch is asked. It is identified
by item, model, prompt and parameters, so that a killed run continues where it was and a changed template asks anew.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from robustify.engines.protocols import Progress, Reply, Writer, no_progress
from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.freeform.answer_text import split_reasoning
from robustify.freeform.grade.quantities import whole_quantity
from robustify.freeform.jsonl import appending, read_jsonl
from robustify.freeform.judge.prompting import prompt_sha256, rendered, sealed_digest
from robustify.freeform.judge.store import PromptTemplate, TemplateStore, get_store
from robustify.freeform.schema import AnswerRow, FreeItem, Kind, answer_from
from robustify.item import Item
from robustify.judge.cloze import exclusion
from robustify.redaction import muted

SHORT, MIDDLE = 5, 12
"""Most words of a key that is a short text; up to `MIDDLE` it is asked and flagged `check_unique`."""
SMALL_COUNT = 20
"""Whole numbers below this are often counts, for which a relative tolerance is lax."""
_OTHER = "another text"


def convert_item(
    item: Item, *, explanations: bool = False, options_shown: bool = False, restricted: bool = False, adapter: str = "",
) -> FreeItem:  # fmt: skip
    """The question of an item, with its kind, its reference and, where it cannot be asked, the reason.

    `explanations` also asks items whose key is longer than 12 words; without it they are excluded as `long_answer`,
    because a long text is neither right nor wrong by comparison. With `options_shown` every item is asked, by letter.
    """
    reference = " ".join(item.choices[item.key].split())
    kind, flags = ("short_text", ()) if options_shown else route(reference)
    return FreeItem(
        item.id, item.stem, kind, reference, options=item.choices, correct=item.key, topic=item.topic,
        group=item.group, restricted=restricted, flags=flags, adapter=adapter,
        excluded_reason="" if options_shown else _reason(item, kind, explanations), options_shown=options_shown,
    )  # fmt: skip


def with_options(item: FreeItem) -> FreeItem:
    """An item asked with its options; one that has none is as it was."""
    if item.correct is None:
        return item
    return replace(item, kind="short_text", options_shown=True, excluded_reason="")


def route(reference: str) -> tuple[Kind, tuple[str, ...]]:
    """The kind of answer that a key's text wants, and what a person should look at."""
    quantity = whole_quantity(reference)
    words = len(reference.split())
    if quantity is not None:
        if quantity.value == 0:
            return "numeric", ("zero_reference_needs_abs",)
        whole = quantity.value == quantity.value.to_integral_value()
        return "numeric", ("small_count",) if whole and abs(quantity.value) < SMALL_COUNT else ()
    if words <= SHORT:
        return "short_text", ()
    if words <= MIDDLE:
        return "short_text", ("check_unique",)
    return "explanation", ()


def _reason(item: Item, kind: Kind, explanations: bool) -> str:
    # The reasons are those of the strict cloze profile, but only the key's own words can spoil a free answer.
    alone = Item(item.id, item.stem, (item.choices[item.key], _OTHER), 0, item.topic, item.group)
    reason = exclusion(alone, "strict")
    if reason not in (None, "long_answer"):
        return str(reason)
    return "long_answer" if kind == "explanation" and not explanations else ""


def exclusions(items: Iterable[FreeItem]) -> dict[str, Any]:
    """How many items each reason excluded, in all and by topic, and how many are left to ask.

    `{"n", "asked", "kinds": {KIND: n}, "excluded": {REASON: n}, "topics": {TOPIC: {"n", "asked", REASON: n}}}`
    """
    counts: dict[str, Any] = {"n": 0, "asked": 0, "kinds": {}, "excluded": {}, "topics": {}}
    for item in items:
        topic: dict[str, int] = counts["topics"].setdefault(item.topic, {"n": 0, "asked": 0})
        reason = item.excluded_reason
        for part in (counts, topic):
            part["n"] += 1
            part["asked"] += not reason
        for part in (counts["excluded"], topic) if reason else ():
            part[reason] = part.get(reason, 0) + 1
        if not reason:
            counts["kinds"][item.kind] = counts["kinds"].get(item.kind, 0) + 1
    return counts


BATCH = 8
MISTRAL = "answer/mistral_instruct"
BY_KIND: Mapping[str, str] = {
    "numeric": "answer/numeric@2.0",
    "short_text": "answer/short@2.0",
    "explanation": "answer/explanation@2.0",
}
"""The template of each kind, where none is named."""
BY_LETTER = "answer/letter@2.0"
"""The template of a question that is asked with its options."""


@dataclass(frozen=True, slots=True)
class Generation:
    """How a model is asked: one template for all items or one by kind, a language, and the length of a reply.

    `max_tokens` 512 suits short answers; a model that writes its reasoning needs 4,096.
    """

    template: str | None = None
    language: str | None = None
    max_tokens: int = 512
    batch: int = BATCH
    store: TemplateStore = field(default_factory=get_store, compare=False)
    seal: bytes | None = field(default=None, repr=False, compare=False)
    """The subkey under which the digests of a restricted set's prompts are kept."""

    def of(self, item: FreeItem) -> PromptTemplate:
        """The template that asks this item.

        Raises:
            UsageError: a template that does not ask for an answer.
        """
        template = self.store.get(self.template or (BY_LETTER if item.options_shown else BY_KIND[item.kind]))
        if template.reads != "text":
            raise UsageError(f"template {template.id}: reads {template.reads}; expected one for an answer")
        return template

    @property
    def params(self) -> dict[str, Any]:
        """What an answer depends on beside its prompt."""
        return {"max_tokens": self.max_tokens, "temperature": 0, "language": self.language}


def prompt_of(item: FreeItem, how: Generation, *, has_chat_template: bool = False) -> tuple[str, str]:
    """The text that asks an item, and the digest of its prompt.

    The Mistral text is complete as it stands; a writer that puts its own chat template around a prompt gets what stands
    between the marks, so that they are not there twice.
    """
    template = how.of(item)
    known = {"question": item.asked, "unit": item.unit, "language": how.language}
    variables = {
        name: value
        for name, value in known.items()
        if name in template.variables or (name in template.optional and value is not None)
    }
    messages = rendered(template, variables, how.store)
    text = "\n\n".join(message.content for message in messages)
    if has_chat_template and template.name == MISTRAL:
        text = text.removeprefix("[INST] ").removesuffix(" [/INST]")
    return text, prompt_sha256(messages)


def answer_key(item_id: str, model: str, prompt: str, params: Mapping[str, Any]) -> str:
    """The digest that identifies an answer."""
    return hashlib.sha256(
        json.dumps([item_id, model, prompt, dict(params)], sort_keys=True).encode()
    ).hexdigest()


def generate(
    items: Sequence[FreeItem], writer: Writer, how: Generation, path: Path, progress: Progress = no_progress
) -> list[AnswerRow]:
    """Ask every item that may be asked and has no answer yet; all answers in the order of the items.

    Raises:
        DataError: the file holds something else than answers.
        ResourceError: it cannot be written.
        AuthorisationError: restricted items, and no subkey for the digests of their prompts.
    """
    private = any(item.restricted for item in items)
    if private and how.seal is None:
        raise AuthorisationError(
            "items: restricted, and no key is at hand; expected one: a plain digest of a prompt tells which item it is"
        )
    chat = bool(getattr(writer, "has_chat_template", False))
    prompts = [(i, *prompt_of(i, how, has_chat_template=chat)) for i in items if not i.excluded_reason]
    if how.seal is not None:
        prompts = [(i, t, sealed_digest(how.seal, "prompt", d) if i.restricted else d) for i, t, d in prompts]
    keys = [answer_key(item.id, writer.name, sha256, how.params) for item, _, sha256 in prompts]
    earlier = read_jsonl(path, answer_from) if path.is_file() else []
    known = {answer_key(row.item_id, row.model, row.prompt_sha256, row.params): row for row in earlier}
    left = [place for place, key in enumerate(keys) if key not in known]
    progress(len(prompts) - len(left))
    with appending(path, private=private) as append:
        for start in range(0, len(left), max(1, how.batch)):
            batch = left[start : start + max(1, how.batch)]
            written = _written([prompts[place][1] for place in batch], writer, how.max_tokens)
            for place, text in zip(batch, written, strict=True):
                item, _, sha256 = prompts[place]
                known[keys[place]] = _row(item, writer.name, text, sha256, how)
                append(asdict(known[keys[place]]))
            progress(len(batch))
    return [known[key] for key in keys]


def _written(prompts: Sequence[str], writer: Writer, max_tokens: int) -> Iterator[str | None]:
    """The replies of a batch; None for a prompt that does not fit, which affects no other."""
    try:
        with muted():
            replies = writer.write(prompts, max_tokens=max_tokens)
    except DataError:
        if len(prompts) == 1:
            yield None
            return
        for prompt in prompts:
            yield from _written([prompt], writer, max_tokens)
        return
    yield from replies


def _row(item: FreeItem, model: str, text: str | None, sha256: str, how: Generation) -> AnswerRow:
    template = how.of(item)
    return AnswerRow(
        item.id, model, str(text or ""), template.id, template.sha256, sha256, how.params,
        reasoning=split_reasoning(text or "").reasoning,
        finish_reason=text.finish_reason if isinstance(text, Reply) else None,
        error="prompt_too_long" if text is None else None,
    )  # fmt: skip
