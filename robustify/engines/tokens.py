"""Text to tokens by the rules of lm-eval 0.4.13 (`TemplateLM._encode_pair`, `HFLM.tok_encode`).

Context and continuation are encoded together and split where the context's own tokens end; blanks at the end of
the context move to the continuation; an empty context becomes the prefix token. One difference, on purpose: text
that looks like a special token stays text, because it comes from items.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import tokenizers

from robustify.engines.plan import Encoded, Tokens
from robustify.errors import ModelError, RequestError
from robustify.views import Request


def split_blanks(request: Request) -> tuple[str, str]:
    """Context and continuation with the context's trailing blanks moved (`_encode_pair`)."""
    context = request.context.rstrip()
    return context, request.context[len(context) :] + request.continuation


class Speller(Protocol):
    """Text to tokens."""

    @property
    def prefix(self) -> int:
        """The token that stands for an empty context."""
        ...

    def spell(self, texts: Sequence[str], *, special: bool) -> list[Tokens]:
        """The tokens of each text; `special`: with the begin token, where the tokenizer adds one of itself. Text
        that looks like a special token is spelled as text."""
        ...


class Transformers:
    """A tokenizer as transformers loads it."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @property
    def prefix(self) -> int:
        """The begin token, else the end token (`HFLM.prefix_token_id`).

        Raises:
            ModelError: the tokenizer has neither.
        """
        for token in (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        raise ModelError(
            f"{type(self._tokenizer).__name__}: has no begin and no end token; expected one to stand for an "
            "empty context"
        )

    def spell(self, texts: Sequence[str], *, special: bool) -> list[Tokens]:
        """See `Speller`."""
        # lm-eval leaves `add_special_tokens` at the tokenizer's default, which is True.
        ids = self._tokenizer(
            list(texts), add_special_tokens=special, split_special_tokens=True, return_attention_mask=False
        )
        return [tuple(row) for row in ids["input_ids"]]


class Saved:
    """The same tokenizer without transformers, whose import takes longer than a warm run: a file that holds what
    transformers had made of the model's own files, and the model's length.
    """

    def __init__(self, path: Path) -> None:
        parts = json.loads(path.read_text(encoding="utf-8"))
        self.prefix = int(parts["prefix"])
        self.max_length = int(parts["max_length"])
        self._tokenizer = tokenizers.Tokenizer.from_str(parts["tokenizer"])
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = True

    def spell(self, texts: Sequence[str], *, special: bool) -> list[Tokens]:
        """See `Speller`."""
        spelled = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=special)
        return [tuple(one.ids) for one in spelled]


def save(tokenizer: Any, max_length: int, path: Path) -> None:
    """Write what `Saved` reads, where the tokenizer is one of the `tokenizers` library. A folder that cannot be
    written costs time and nothing else."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return
    parts = {
        "prefix": Transformers(tokenizer).prefix,
        "max_length": max_length,
        "tokenizer": backend.to_str(),
    }
    partial = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(parts), encoding="utf-8")
        os.replace(partial, path)
    except OSError:
        return


def encode(speller: Speller, requests: Sequence[Request]) -> list[Encoded]:
    """The tokens of each request, in their order. Each distinct text is tokenised once.

    Raises:
        RequestError: a continuation that has no tokens of its own. Its position is told, never its text.
    """
    pairs = {request: split_blanks(request) for request in requests}
    known = _known(speller, pairs.values())
    done = {request: _pair(speller, *pair, known) for request, pair in pairs.items()}
    faults = {
        i: f"its continuation ({len(r.continuation)} characters) has no tokens of its own; expected at least one"
        for i, r in enumerate(requests)
        if not done[r].continuation
    }
    if faults:
        raise RequestError.of(faults)
    return [done[request] for request in requests]


def _known(speller: Speller, pairs: Iterable[tuple[str, str]]) -> dict[bool, dict[str, Tokens]]:
    pairs = list(pairs)
    joined = [
        text for context, continuation in pairs if context for text in (context, context + continuation)
    ]
    alone = [continuation for context, continuation in pairs if not context]
    return {
        special: _each_once(speller, texts, special) for special, texts in ((True, joined), (False, alone))
    }


def _each_once(speller: Speller, texts: Iterable[str], special: bool) -> dict[str, Tokens]:
    distinct = list(dict.fromkeys(texts))
    spelled = speller.spell(distinct, special=special) if distinct else []
    return dict(zip(distinct, spelled, strict=True))


def _pair(speller: Speller, context: str, continuation: str, known: dict[bool, dict[str, Tokens]]) -> Encoded:
    if context:
        begin = known[True][context]
        return Encoded(begin, known[True][context + continuation][len(begin) :])
    alone, prefix = known[False][continuation], speller.prefix
    # As lm-eval: a continuation that brings the prefix token itself is not given a second one.
    return Encoded(alone[:1], alone[1:]) if alone[:1] == (prefix,) else Encoded((prefix,), alone)
