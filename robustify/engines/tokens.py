"""Text to tokens by the rules of lm-eval 0.4.13 (`TemplateLM._encode_pair`, `HFLM.tok_encode`).

Context and continuation are encoded together and split where the context's own tokens end; blanks at the end of
the context move to the continuation; an empty context becomes the prefix token. One difference, on purpose: text
that looks like a special token stays text, because it comes from items.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from robustify.engines.base import Request
from robustify.engines.plan import Encoded, Tokens
from robustify.errors import DataError, ModelError


def split_blanks(request: Request) -> tuple[str, str]:
    """Context and continuation with the context's trailing blanks moved (`_encode_pair`)."""
    context = request.context.rstrip()
    return context, request.context[len(context) :] + request.continuation


def prefix_token(tokenizer: Any) -> int:
    """What stands for an empty context: the begin token, else the end token (`HFLM.prefix_token_id`).

    Raises:
        ModelError: the tokenizer has neither.
    """
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise ModelError(
        f"{type(tokenizer).__name__}: has no begin and no end token; expected one to stand for an empty context"
    )


def encode(tokenizer: Any, requests: Sequence[Request]) -> list[Encoded]:
    """The tokens of each request, in their order. Each distinct text is tokenised once.

    Raises:
        DataError: a continuation that has no tokens of its own. Its position is told, never its text.
    """
    pairs = {request: split_blanks(request) for request in requests}
    known = _known(tokenizer, pairs.values())
    done = {request: _pair(tokenizer, *pair, known) for request, pair in pairs.items()}
    faults = [
        f"request {i}: its continuation ({len(r.continuation)} characters) has no tokens of its own; expected at least one"
        for i, r in enumerate(requests)
        if not done[r].continuation
    ]
    if faults:
        raise DataError.gather(faults)
    return [done[request] for request in requests]


def plain(tokenizer: Any, texts: Iterable[str], *, special: bool = True) -> dict[str, Tokens]:
    """The tokens of each distinct text. `special`: with the begin token, where the tokenizer adds one of itself."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return {}
    # lm-eval leaves `add_special_tokens` at the tokenizer's default, which is True.
    ids = tokenizer(
        distinct, add_special_tokens=special, split_special_tokens=True, return_attention_mask=False
    )
    return {text: tuple(row) for text, row in zip(distinct, ids["input_ids"], strict=True)}


def _known(tokenizer: Any, pairs: Iterable[tuple[str, str]]) -> dict[bool, dict[str, Tokens]]:
    pairs = list(pairs)
    joined = [
        text for context, continuation in pairs if context for text in (context, context + continuation)
    ]
    alone = [continuation for context, continuation in pairs if not context]
    return {True: plain(tokenizer, joined), False: plain(tokenizer, alone, special=False)}


def _pair(tokenizer: Any, context: str, continuation: str, known: dict[bool, dict[str, Tokens]]) -> Encoded:
    if context:
        begin = known[True][context]
        return Encoded(begin, known[True][context + continuation][len(begin) :])
    alone, prefix = known[False][continuation], prefix_token(tokenizer)
    # As lm-eval: a continuation that brings the prefix token itself is not given a second one.
    return Encoded(alone[:1], alone[1:]) if alone[:1] == (prefix,) else Encoded((prefix,), alone)
