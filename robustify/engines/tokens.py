"""Text to tokens by the rules of lm-eval 0.4.13 (`TemplateLM._encode_pair`, `HFLM.tok_encode`).

Context and continuation are encoded together and split where the context's own tokens end; blanks at the end of
the context move to the continuation; an empty context becomes the prefix token. One difference, on purpose: text
that looks like a special token stays text, because it comes from items.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import tokenizers

from robustify.engines.plan import Encoded, Tokens
from robustify.errors import DataError, ModelError, RequestError
from robustify.files import write_atomic
from robustify.models import locate
from robustify.models.folder import digests
from robustify.views import Request

_FILES = ("tokenizer", "vocab", "merges", "special_tokens", "added_tokens")
_NO_LENGTH = 2**31 - 1
_MARK = "\u241fPROMPT\u241f"


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
        """The begin token, else the end token (`HFLM.prefix_token_id`). Raises `ModelError`: the tokenizer has neither."""
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
    """The same tokenizer without transformers, whose import takes longer than a warm run: a file with what transformers
    had made of the model's own files, and the model's length.
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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(parts).encode(), sync=False)
    except OSError:
        return


def kept(cache: Path | None, key: str, load: Callable[[], tuple[Any, int]]) -> tuple[Speller, int]:
    """A tokenizer and its model's length: what is saved under this key, else what `load` gives, which is then saved."""
    path = cache and cache / "tokenizers" / f"{key}.json"
    if path and path.is_file():
        try:
            saved = Saved(path)
            return saved, saved.max_length
        # A damaged file is made again; the tokenizers library raises plain exceptions.
        except Exception:
            path.unlink(missing_ok=True)
    tokenizer, max_length = load()
    if path:
        save(tokenizer, max_length, path)
    return Transformers(tokenizer), max_length


@dataclass(frozen=True, slots=True)
class Spelling:
    """The tokenizer of a model that runs in another program, and the digest of its files."""

    speller: Speller
    digest: str


def spelling(reference: str, cache: Path | None) -> Spelling:
    """The tokenizer of a known name, a folder or `hf:owner/name@revision`; without a cache, of a folder.
    Raises `ModelError`: it is not there or cannot be loaded, or transformers is not installed."""
    folder = Path(reference) if Path(reference).is_dir() or cache is None else locate(reference, cache)
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and p.name.startswith(_FILES))
    if not names:
        raise ModelError(f"{folder}: holds no tokenizer; expected tokenizer.json or the like")
    sums = digests(folder, names)
    digest = _sha256("".join(f"{name} {sums[name]}\n" for name in names))
    try:
        key = _sha256(f"{digest} transformers {version('transformers')}")[:32]
    except PackageNotFoundError:
        raise ModelError(
            f"tokenizer {reference}: needs transformers: pip install 'robustcbrn-eval[hf]', or leave out `tokenizer`"
        ) from None
    return Spelling(kept(cache, key, lambda: (_loaded(folder), _NO_LENGTH))[0], digest)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _loaded(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    # transformers and tokenizers raise many kinds of error; all mean the same here.
    except Exception as error:
        raise ModelError(
            f"{folder}: transformers cannot load its tokenizer ({type(error).__name__}); expected a model's folder"
        ) from error


def as_prompt(tokenizer: Any, name: str, text: str) -> list[int]:
    """The tokens of one turn, through the chat template where there is one. The text cannot become a special token.
    Raises `ModelError`: a chat template that does not show the user's turn."""
    speller = Transformers(tokenizer)
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
    """The tokens of each request, in their order. Each distinct text is tokenised once.
    Raises `RequestError`: a continuation that has no tokens of its own. Its position is named, never its text."""
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
    known: dict[bool, dict[str, Tokens]] = {}
    for special, texts in ((True, joined), (False, alone)):
        distinct = list(dict.fromkeys(texts))
        spelled = speller.spell(distinct, special=special) if distinct else []
        known[special] = dict(zip(distinct, spelled, strict=True))
    return known


def _pair(speller: Speller, context: str, continuation: str, known: dict[bool, dict[str, Tokens]]) -> Encoded:
    if context:
        begin = known[True][context]
        return Encoded(begin, known[True][context + continuation][len(begin) :])
    alone, prefix = known[False][continuation], speller.prefix
    # As lm-eval: a continuation that brings the prefix token itself is not given a second one.
    return Encoded(alone[:1], alone[1:]) if alone[:1] == (prefix,) else Encoded((prefix,), alone)
