"""Text to tokens, as lm-eval 0.4.13 does it, so that our log-likelihoods can be held to its.

Context and continuation are encoded together and split at the context's length; trailing blanks of the
context move to the continuation; the tokenizer's own rule decides on a BOS. One departure: special tokens
spelled out in the text of an item stay text, because an item must not be able to end a turn.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from robustify.engines.base import Request
from robustify.engines.plan import Pair, Tokens
from robustify.errors import DataError


def encode(tokenizer: Any, requests: Sequence[Request], longest: int, model: str) -> list[Pair]:
    """One pair for each request.

    `longest`: how many tokens fit into the model. A continuation whose tokens all merge into the context is
    scored from its first token apart (lm-eval stops there).

    Raises:
        DataError: an empty continuation, or a request longer than the model's context; all of them at once.
    """
    moved = [_moved(r) for r in requests]
    ids = _each(tokenizer, {text for context, rest in moved if context for text in (context, context + rest)})
    bare = _each(tokenizer, {rest for context, rest in moved if not context}, special=False)
    pairs = [_pair(ids, bare, context, rest, _prefix(tokenizer)) for context, rest in moved]
    _refuse_what_cannot_be_scored(pairs, longest, model)
    return pairs


def _moved(request: Request) -> tuple[str, str]:
    context = request.context.rstrip()
    return context, request.context[len(context) :] + request.continuation


def _each(tokenizer: Any, texts: Iterable[str], *, special: bool = True) -> dict[str, Tokens]:
    distinct = sorted(texts)
    if not distinct:
        return {}
    encoded = tokenizer(distinct, add_special_tokens=special, split_special_tokens=True)["input_ids"]
    return {text: tuple(ids) for text, ids in zip(distinct, encoded, strict=True)}


def _prefix(tokenizer: Any) -> int:
    bos = tokenizer.bos_token_id
    return int(bos if bos is not None else tokenizer.eos_token_id)


def _pair(ids: dict[str, Tokens], bare: dict[str, Tokens], context: str, rest: str, prefix: int) -> Pair:
    if not context:
        tokens = bare[rest]
        return Pair(tokens[:1], tokens[1:]) if tokens[:1] == (prefix,) else Pair((prefix,), tokens)
    n = len(ids[context])
    whole = ids[context + rest]
    return Pair(whole[:n], whole[n:])


def _refuse_what_cannot_be_scored(pairs: Sequence[Pair], longest: int, model: str) -> None:
    faults = []
    for number, pair in enumerate(pairs):
        n = len(pair.context) + len(pair.continuation)
        if not pair.context or not pair.continuation:
            faults.append(
                f"request {number}: no token of its own to score; expected a continuation with text"
            )
        elif n - 1 > longest:
            faults.append(
                f"request {number}: {n - 1} tokens, but {model} takes {longest}; expected a shorter item, fewer shots "
                "or a model with a longer context (nothing is cut off in silence)"
            )
    if faults:
        raise DataError.gather(faults)
