"""Looks for what was planted: canaries in every reading of a stream, runs of five words, token ids, digests."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tools.leak.encodings import readings

WINDOW = 5
# Two letters first and the rest in a look-ahead: fast, and canaries that overlap are found.
_MARK = re.compile(rb"qx(?=([a-z]{10}))")
_FOREIGN = re.compile("щю[а-я]{10}|水[一-龥]{11}|🜁[🜀-🝳]{7}")
_NUMBERS = re.compile(rb"\d{1,6}(?:(?:, ?|\s+)\d{1,6}){3,}")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Hit:
    """One find: in which stream, in which reading, what kind; never what it says."""

    stream: str
    reading: str
    kind: str


@dataclass(slots=True)
class Search:
    """What was planted. `vocabularies`: for each tokenizer the text of every token by its id; `more_digests`: keys of
    a cache as they would be without the evaluator's key; `innocent`: texts that may stand there, whose runs of five words
    prove nothing."""

    texts: Sequence[str]
    vocabularies: Sequence[Sequence[str]] = ()
    more_digests: Sequence[bytes] = ()
    innocent: Sequence[str] = ()
    seen: dict[bytes, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    _marks: set[str] = field(init=False)
    _windows: set[tuple[str, ...]] = field(init=False)
    _rare: set[str] = field(init=False)
    _digests: set[str] = field(init=False)
    _starts: "np.ndarray[tuple[int], np.dtype[np.uint64]]" = field(init=False)

    def __post_init__(self) -> None:
        joined = "\n".join(self.texts)
        self._marks = {f"qx{m.decode()}" for m in _MARK.findall(joined.encode())} | set(
            _FOREIGN.findall(joined)
        )
        common = {"the", "of", "is", "by", "which", "when", "and", "a", "in"}
        self._rare = {w for text in self.texts for w in _WORD.findall(text.casefold())} - common
        self._windows = {w for text in self.texts for w in _windowed(_WORD.findall(text.casefold()))}
        self._windows -= {w for text in self.innocent for w in _windowed(_WORD.findall(text.casefold()))}
        raw = [digest for text in self.texts for digest in _digests(text)] + list(self.more_digests)
        self._digests = {digest.hex() for digest in raw}
        self._starts = np.unique(np.frombuffer(b"".join(digest[:8] for digest in raw), dtype=np.uint64))

    @property
    def n_marks(self) -> int:
        """Canaries that are looked for."""
        return len(self._marks)

    @property
    def marks(self) -> list[str]:
        """The canaries."""
        return sorted(self._marks)

    @property
    def n_windows(self) -> int:
        """Runs of five words that are looked for."""
        return len(self._windows)

    def hits(self, stream: str, data: bytes) -> list[Hit]:
        """Every kind of find in a stream, once for each reading."""
        key = hashlib.sha256(data).digest()
        if key not in self.seen:
            self.seen[key] = tuple(dict.fromkeys(self._found(data)))
        return [Hit(stream, reading, kind) for reading, kind in self.seen[key]]

    def _found(self, data: bytes) -> Iterator[tuple[str, str]]:
        for name, found in readings(data):
            yield from ((name, kind) for kind in self._in_text(found))
        yield from (("tokens", kind) for text in self._spelled(data) for kind in self._in_text(text))
        if self._digest_in(data):
            yield "plain", "digest"

    def _in_text(self, data: bytes) -> Iterator[str]:
        if any(f"qx{m.decode()}" in self._marks for m in _MARK.findall(data.lower())):
            yield "canary"
        if len(data) > 16 << 20:
            return
        text = data.decode("utf-8", "ignore")
        folded = text.casefold()
        if any(m in self._marks for m in _FOREIGN.findall(folded)):
            yield "canary"
        words = _WORD.findall(folded)
        if not self._rare.isdisjoint(words) and not self._windows.isdisjoint(_windowed(words)):
            yield "words"

    def _spelled(self, data: bytes) -> Iterator[bytes]:
        """The stream read as token ids: lists of numbers, and arrays of 2, 4 and 8 bytes."""
        for words in self.vocabularies:
            runs = [re.findall(rb"\d+", run[0]) for run in _NUMBERS.finditer(data)]
            yield "\n".join("".join(_word(words, int(n)) for n in run) for run in runs).encode()
            for width in (2, 4, 8):
                for start in range(width):
                    yield _spelled_array(data[start:], width, words)

    def _digest_in(self, data: bytes) -> bool:
        if any(run.decode().lower() in self._digests for run in re.findall(rb"[0-9a-fA-F]{32,128}", data)):
            return True
        for start in range(8):
            part = data[start : start + (len(data) - start) // 8 * 8]
            if np.isin(np.frombuffer(part, dtype=np.uint64), self._starts).any():
                return True
        return False


def vocabulary(folder: str) -> list[str]:
    """The text of every token of a byte-level tokenizer, by its id."""
    from tokenizers import Tokenizer

    found = Tokenizer.from_file(f"{folder}/tokenizer.json").get_vocab()
    words = [""] * (max(found.values()) + 1)
    for word, number in found.items():
        words[number] = word.replace("Ġ", " ").replace("▁", " ")
    return words


def _word(words: Sequence[str], number: int) -> str:
    return words[number] if number < len(words) else "\n"


def _spelled_array(data: bytes, width: int, words: Sequence[str]) -> bytes:
    kind = {2: np.uint16, 4: np.uint32, 8: np.uint64}[width]
    numbers = np.frombuffer(data[: len(data) // width * width], dtype=kind)
    known = numbers < len(words)
    # A text takes several tokens in a row; lone small numbers are everywhere.
    beside = np.zeros_like(known)
    beside[1:] |= known[:-1]
    beside[:-1] |= known[1:]
    known &= beside
    gaps = np.diff(np.flatnonzero(known), prepend=-2) > 1
    return "".join(
        ("\n" if gap else "") + words[number]
        for gap, number in zip(gaps, numbers[known].tolist(), strict=True)
    ).encode()


def _windowed(words: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return (tuple(words[i : i + WINDOW]) for i in range(len(words) - WINDOW + 1))


def _digests(text: str) -> Iterator[bytes]:
    """Digests without a key, by which a guess can be confirmed."""
    for form in {text, text.strip(), text.casefold(), " ".join(text.split()), " " + text}:
        raw = form.encode("utf-8", "surrogatepass")
        for name in ("sha256", "sha1", "md5", "blake2b", "sha512"):
            yield hashlib.new(name, raw).digest()
