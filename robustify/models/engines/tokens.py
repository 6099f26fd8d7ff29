"""Tokenization by the rules of lm-eval 0.4.13 (`TemplateLM._encode_pair`, `HFLM.tok_encode`).

There is one intended difference: text that looks like a special token remains text, because it comes from items.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from robustify.base.errors import DataError, ModelError, RequestError
from robustify.items.views import Request
from robustify.models.engines.plan import Encoded, Tokens

_MARK = "\u241fPROMPT\u241f"


def split_blanks(request: Request) -> tuple[str, str]:
    """Return context and continuation after moving trailing spaces of the context to the continuation."""
    context = request.context.rstrip()
    return context, request.context[len(context) :] + request.continuation


class Speller:
    """Wrapper around a transformers tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @property
    def prefix(self) -> int:
        """ID of the beginning-of-sequence token, or of the end-of-sequence token if the former is missing.
        Raise `ModelError` if the tokenizer has neither token."""
        for token in (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        raise ModelError(
            f"{type(self._tokenizer).__name__}: the tokenizer has neither a beginning-of-sequence nor an "
            "end-of-sequence token. One of them is needed to represent an empty context."
        )

    def spell(self, texts: Iterable[str], *, special: bool) -> dict[str, Tokens]:
        """Return the tokens of each distinct text. If `special` is true, the tokenizer may add its beginning-of-sequence
        token. Text that looks like a special token is encoded as text."""
        if not (distinct := list(dict.fromkeys(texts))):
            return {}
        # lm-eval uses the tokenizer's default of `add_special_tokens`, which is True.
        ids = self._tokenizer(
            distinct, add_special_tokens=special, split_special_tokens=True, return_attention_mask=False
        )
        return dict(zip(distinct, map(tuple, ids["input_ids"]), strict=True))


def as_prompt(tokenizer: Any, name: str, text: str) -> list[int]:
    """Return the tokens of a single-turn prompt, using the chat template if there is one.
    The text cannot become a special token. Raise `ModelError` if the chat template drops the user's message."""
    speller = Speller(tokenizer)
    if not getattr(tokenizer, "chat_template", None):
        return list(speller.spell([text], special=True)[text]) or [speller.prefix]
    turn = [{"role": "user", "content": _MARK}]
    shell = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    before, mark, after = shell.partition(_MARK)
    if not mark:
        raise ModelError(
            f"{name}: the chat template of the model drops the user's message. Use a model whose template includes it."
        )
    ends = [tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, after)]
    return [*ends[0], *speller.spell([text], special=False)[text], *ends[1]]


def check_room(encoded: Sequence[Sequence[int]], name: str, max_tokens: int, longest: int) -> None:
    """Raise `DataError` with the positions of prompts that leave no room for a reply of `max_tokens`."""
    faults = [
        f"prompt {i}: {len(ids)} tokens plus {max_tokens} for the reply; {name} accepts at most {longest} together"
        for i, ids in enumerate(encoded)
        if len(ids) + max_tokens > longest
    ]
    if faults:
        raise DataError.gather(faults)


def check_lengths(encoded: Sequence[Encoded], name: str, longest: int) -> None:
    """Raise `RequestError` with the positions of requests that total more than `longest` tokens."""
    faults = {
        i: f"{len(e.context)} tokens of context plus {len(e.continuation)} of continuation; {name} accepts at most "
        f"{longest} together. Use a model with a longer context, or fewer shots."
        for i, e in enumerate(encoded)
        if len(e.context) + len(e.continuation) > longest
    }
    if faults:
        raise RequestError.of(faults)


def encode(speller: Speller, requests: Sequence[Request]) -> list[Encoded]:
    """Return the tokens of each request, in order: context and continuation encoded together and split, an empty context as
    the prefix token. Raise `RequestError` with the positions of continuations that have no tokens."""
    pairs = {request: split_blanks(request) for request in requests}
    joined = speller.spell((text for c, d in pairs.values() if c for text in (c, c + d)), special=True)
    alone = speller.spell((d for c, d in pairs.values() if not c), special=False)

    def encoded(context: str, continuation: str) -> Encoded:
        if context:
            begin = joined[context]
            return Encoded(begin, joined[context + continuation][len(begin) :])
        tokens, prefix = alone[continuation], speller.prefix
        # Like lm-eval, add no second prefix token if the continuation begins with one.
        return Encoded(tokens[:1], tokens[1:]) if tokens[:1] == (prefix,) else Encoded((prefix,), tokens)

    done = {request: encoded(*pair) for request, pair in pairs.items()}
    faults = {
        i: f"the continuation ({len(r.continuation)} characters) adds no tokens; expected at least one"
        for i, r in enumerate(requests)
        if not done[r].continuation
    }
    if faults:
        raise RequestError.of(faults)
    return [done[request] for request in requests]
