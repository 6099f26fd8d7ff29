"""Text to tokens by the rules of lm-eval 0.4.13 (`TemplateLM._encode_pair`, `HFLM.tok_encode`).

Context and continuation are encoded together and split where the context's own tokens end; blanks at the end of
the context move to the continuation; an empty context becomes the prefix token. One difference, on purpose: text
that looks like a special token stays text, because it comes from items.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from robustify.engines.plan import Encoded, Tokens
from robustify.errors import DataError, ModelError, RequestError
from robustify.views import Request

_MARK = "\u241fPROMPT\u241f"


def split_blanks(request: Request) -> tuple[str, str]:
    """Return context and continuation with the context's trailing blanks moved (`_encode_pair`)."""
    context = request.context.rstrip()
    return context, request.context[len(context) :] + request.continuation


class Speller:
    """A tokenizer as transformers loads it."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @property
    def prefix(self) -> int:
        """The begin token, else the end token (`HFLM.prefix_token_id`). Raises `ModelError`: the tokenizer has neither."""
        for token in (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        raise ModelError(
            f"{type(self._tokenizer).__name__}: has no begin and no end token; expected one to stand for an "
            "empty context"
        )

    def spell(self, texts: Sequence[str], *, special: bool) -> list[Tokens]:
        """Return the tokens of each text; `special`: with the begin token, where the tokenizer adds one of itself. Text
        that looks like a special token is spelled as text."""
        # lm-eval leaves `add_special_tokens` at the tokenizer's default, which is True.
        ids = self._tokenizer(
            list(texts), add_special_tokens=special, split_special_tokens=True, return_attention_mask=False
        )
        return [tuple(row) for row in ids["input_ids"]]


def as_prompt(tokenizer: Any, name: str, text: str) -> list[int]:
    """Return the tokens of one turn, through the chat template if there is one. The text cannot become a special token.
    Raises `ModelError`: a chat template that does not show the user's turn."""
    speller = Speller(tokenizer)
    if not getattr(tokenizer, "chat_template", None):
        return list(speller.spell([text], special=True)[0]) or [speller.prefix]
    turn = [{"role": "user", "content": _MARK}]
    shell = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    before, mark, after = shell.partition(_MARK)
    if not mark:
        raise ModelError(f"{name}: its chat template drops the user's turn; expected one that shows it")
    ends = [tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, after)]
    return [*ends[0], *speller.spell([text], special=False)[0], *ends[1]]


def check_room(encoded: Sequence[Sequence[int]], name: str, max_tokens: int, longest: int) -> None:
    """Refuse prompts that leave no room for a reply of `max_tokens`.
    Raises `DataError`: all of them, by their positions."""
    faults = [
        f"prompt {i}: {len(ids)} tokens and {max_tokens} for the reply; {name} takes {longest}"
        for i, ids in enumerate(encoded)
        if len(ids) + max_tokens > longest
    ]
    if faults:
        raise DataError.gather(faults)


def check_lengths(encoded: Sequence[Encoded], name: str, longest: int) -> None:
    """Refuse requests of more than `longest` tokens, context and continuation together.
    Raises `RequestError`: all of them, by their positions."""
    faults = {
        i: f"{len(e.context)} tokens of context and {len(e.continuation)} of continuation; {name} takes "
        f"{longest} together; use a model with a longer context, or fewer shots"
        for i, e in enumerate(encoded)
        if len(e.context) + len(e.continuation) > longest
    }
    if faults:
        raise RequestError.of(faults)


def encode(speller: Speller, requests: Sequence[Request]) -> list[Encoded]:
    """Return the tokens of each request, in order. Each distinct text is tokenised once.
    Raises `RequestError`: a continuation that has no tokens of its own. Its position is named, never its text."""
    pairs = {request: split_blanks(request) for request in requests}
    joined = _spelled(speller, (text for c, d in pairs.values() if c for text in (c, c + d)), special=True)
    alone = _spelled(speller, (d for c, d in pairs.values() if not c), special=False)

    def encoded(context: str, continuation: str) -> Encoded:
        if context:
            begin = joined[context]
            return Encoded(begin, joined[context + continuation][len(begin) :])
        tokens, prefix = alone[continuation], speller.prefix
        # As lm-eval: a continuation that brings the prefix token itself is not given a second one.
        return Encoded(tokens[:1], tokens[1:]) if tokens[:1] == (prefix,) else Encoded((prefix,), tokens)

    done = {request: encoded(*pair) for request, pair in pairs.items()}
    faults = {
        i: f"its continuation ({len(r.continuation)} characters) has no tokens of its own; expected at least one"
        for i, r in enumerate(requests)
        if not done[r].continuation
    }
    if faults:
        raise RequestError.of(faults)
    return [done[request] for request in requests]


def _spelled(speller: Speller, texts: Iterable[str], *, special: bool) -> dict[str, Tokens]:
    distinct = list(dict.fromkeys(texts))
    spelled = speller.spell(distinct, special=special) if distinct else []
    return dict(zip(distinct, spelled, strict=True))
