"""Asking a model in words, through any `Writer`. Each answer is on the disk before the next batch is asked.

An answer is identified by item, model, prompt and parameters, so that a killed run continues where it was and a changed
template asks anew. Options are never shown. The file has text: of a restricted set only its owner may read it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from robustify.engines.protocols import Progress, Reply, Writer, no_progress
from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.freeform.answer_text import split_reasoning
from robustify.freeform.jsonl import appending, read_rows
from robustify.freeform.judge.prompting import prompt_sha256, rendered, sealed_digest
from robustify.freeform.judge.store import PromptTemplate, TemplateStore, get_store
from robustify.freeform.schema import AnswerRow, FreeItem, answer_from, plain
from robustify.redaction.silence import muted
from robustify.redaction.text import KeptHere

BATCH = 8
MISTRAL = "answer/mistral_instruct"
BY_KIND: Mapping[str, str] = {
    "numeric": "answer/numeric@2.0",
    "short_text": "answer/short@2.0",
    "explanation": "answer/explanation@2.0",
}
"""The template of each kind, where none is named."""


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
        template = self.store.get(self.template or BY_KIND[item.kind])
        if template.reads != "text":
            raise UsageError(
                f"template {template.id}: reads {template.reads}; expected one that asks for an answer"
            )
        return template

    @property
    def params(self) -> dict[str, Any]:
        """What an answer depends on beside its prompt."""
        return {"max_tokens": self.max_tokens, "temperature": 0, "language": self.language}


@dataclass(frozen=True, slots=True, repr=False)
class _Prompt(KeptHere):
    item: FreeItem
    text: str
    sha256: str
    template: PromptTemplate
    key: str


def prompt_of(item: FreeItem, how: Generation, *, has_chat_template: bool = False) -> tuple[str, str]:
    """The text that asks an item, and the digest of its prompt.

    The Mistral text is complete as it stands; a writer that puts its own chat template around a prompt gets what stands
    between the marks, so that they are not there twice.
    """
    template = how.of(item)
    known = {"question": item.question, "unit": item.unit, "language": how.language}
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
        json.dumps([item_id, model, prompt, plain(params)], sort_keys=True).encode()
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
    prompts = [_prompt(item, writer.name, how, chat) for item in items if not item.excluded_reason]
    known = {_key(row): row for row in read_rows(path, answer_from)} if path.is_file() else {}
    left = [p for p in prompts if p.key not in known]
    progress(len(prompts) - len(left))
    with appending(path, private=private) as append:
        for batch in _batches(left, how.batch):
            for prompt, text, error in _written(batch, writer, how.max_tokens):
                row = _row(prompt, writer.name, text, error, how.params)
                append(asdict(row))
                known[prompt.key] = row
            progress(len(batch))
    return [known[p.key] for p in prompts]


def _prompt(item: FreeItem, model: str, how: Generation, chat: bool) -> _Prompt:
    text, sha256 = prompt_of(item, how, has_chat_template=chat)
    if item.restricted and how.seal is not None:
        sha256 = sealed_digest(how.seal, "prompt", sha256)
    return _Prompt(item, text, sha256, how.of(item), answer_key(item.id, model, sha256, how.params))


def _key(row: AnswerRow) -> str:
    return answer_key(row.item_id, row.model, row.prompt_sha256, row.params)


def _batches(prompts: Sequence[_Prompt], size: int) -> Iterator[Sequence[_Prompt]]:
    for start in range(0, len(prompts), max(1, size)):
        yield prompts[start : start + max(1, size)]


Written = tuple[_Prompt, str, str | None]


def _written(batch: Sequence[_Prompt], writer: Writer, max_tokens: int) -> Iterator[Written]:
    """The replies of a batch; a prompt that does not fit is reported alone and affects no other."""
    try:
        with muted():
            texts = writer.write([p.text for p in batch], max_tokens=max_tokens)
    except DataError:
        if len(batch) == 1:
            yield batch[0], "", "prompt_too_long"
            return
        for prompt in batch:
            yield from _written([prompt], writer, max_tokens)
        return
    for prompt, text in zip(batch, texts, strict=True):
        yield prompt, text, None


def _row(prompt: _Prompt, model: str, text: str, error: str | None, params: Mapping[str, Any]) -> AnswerRow:
    return AnswerRow(
        item_id=prompt.item.id,
        model=model,
        text=str(text),
        finish_reason=text.finish_reason if isinstance(text, Reply) else None,
        reasoning=split_reasoning(text).reasoning,
        template_id=prompt.template.id,
        template_sha256=prompt.template.sha256,
        prompt_sha256=prompt.sha256,
        params=params,
        error=error,
    )
