"""Every text in a content: as it is, unescaped, decoded and unpacked, with the line where it begins.

What cannot be read is reported, not skipped. Depth, members and bytes are bounded, so that a scan ends.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from robustify.gate.reading.apart import apart, token_ids
from robustify.gate.reading.cells import Lines
from robustify.gate.reading.encoded import RETURN, legacy, runs, strings, text_of, unescaped, without_tags
from robustify.gate.reading.unpack import (
    MOST_BYTES,
    MOST_DEPTH,
    PACKED,
    Budget,
    ColumnNames,
    FileKind,
    Obstacle,
    file_kind,
    unpacked,
)

_ARMOUR = re.compile(r"^-----BEGIN (?:PGP MESSAGE|AGE ENCRYPTED FILE)-----\s*$", re.MULTILINE)
NOISE = 4096
"""Bytes from which an encoded run that is neither text nor packed is refused: less is a digest or a certificate."""
_ESCAPED = 16
"""Escapes from which a record of tokens may be written in them."""


@dataclass(frozen=True, slots=True, repr=False)
class DecodedText:
    """One text. `line`: where it begins in the file; `exact`: its own newlines are the file's; `source`: number of the
    content it was decoded from, the same for its raw and its unescaped form; `raw`: not unescaped; `words`: only fit
    for the search of words (what reads as text within binary content); `joined`: of tokens, without rows and names."""

    text: str
    line: int
    exact: bool
    source: int
    raw: bool
    words: bool = False
    joined: bool = False

    def line_at(self, line: int) -> int:
        """The file's line of a line of this text (both from 1)."""
        return self.line + line - 1 if self.exact else self.line


@dataclass(frozen=True, slots=True)
class Undecoded:
    """Content that could not be read: the id of the rule, the line, and fixed words."""

    rule: str
    line: int
    says: str


Decoded = DecodedText | Undecoded | ColumnNames


class Decoder:
    """Decodes one file's content; the budget covers everything packed in it. `plain`: texts with no encoded runs;
    `apart`: whether tokens that lie apart are joined."""

    def __init__(self, plain: Callable[[str], bool], *, apart: bool = True) -> None:
        self._plain = plain
        self._joins = apart
        self._budget = Budget()
        self._sources = 0
        self._seen: set[int] = set()

    def read(self, data: bytes) -> Iterator[Decoded]:
        """All readings of a file, and what of it could not be read."""
        if len(data) > MOST_BYTES:
            yield Undecoded("RBG503", 1, f"{len(data):,} bytes; at most {MOST_BYTES >> 20} MiB are read")
            return
        yield from self._content(data, 1, 0)

    def _content(self, data: bytes, line: int, depth: int) -> Iterator[Decoded]:
        kind = file_kind(data)
        text = text_of(data) if kind in ("text", "pointer") else None
        if text is not None:
            yield from self._text(text, line, depth)
            for form in legacy(data):
                yield DecodedText(form, line, depth == 0, self._sources, raw=False)
            if kind == "pointer":
                yield Undecoded("RBG505", line, "(a pointer to content elsewhere)")
            return
        yield DecodedText(strings(data), line, False, self._source(), raw=True, words=True)
        match kind:
            case "encrypted":
                yield Undecoded("RBG502", line, "(by its first bytes)")
            case "cache":
                yield Undecoded("RBG404", line, "(a score cache)")
            case "binary" | "text" | "pointer":
                yield Undecoded("RBG501", line, "(its text could hide in what is not text)")
            case _:
                yield from self._packed(kind, data, line, depth)

    def _packed(self, kind: FileKind, data: bytes, line: int, depth: int) -> Iterator[Decoded]:
        if depth >= MOST_DEPTH:
            yield Undecoded("RBG503", line, f"(packed more than {MOST_DEPTH} deep)")
            return
        try:
            for member in unpacked(kind, data, self._budget):
                yield from (
                    [member] if isinstance(member, ColumnNames) else self._content(member, line, depth + 1)
                )
        except Obstacle as obstacle:
            yield Undecoded(obstacle.rule, line, f"({obstacle.says})")

    def _text(self, text: str, line: int, depth: int) -> Iterator[Decoded]:
        source = self._source()
        yield from self._readings(text, line, depth, source, exact=depth == 0)
        # A carriage return alone ends a line for some programs and not for git: such a text is read both ways.
        if "\r" in text and (ended := RETURN.sub("\n", text)) != text:
            yield from self._readings(ended, line, depth, source, exact=False)

    def _readings(self, text: str, line: int, depth: int, source: int, *, exact: bool) -> Iterator[Decoded]:
        yield DecodedText(text, line, exact, source, raw=True)
        if self._plain(text):
            return
        plain = unescaped(text)
        if plain != text:
            yield DecodedText(plain, line, exact, source, raw=False)
        bare = without_tags(plain)
        if bare != plain:
            yield DecodedText(bare, line, exact, source, raw=False)
        escaped = text.count("&") >= _ESCAPED or text.count("\\t") >= _ESCAPED
        forms = dict.fromkeys((text, plain if escaped else text, bare if bare != plain else text))
        for form in forms if self._joins else ():
            yield from self._apart(form, line, exact, source)
        lines = Lines(text)
        for armour in _ARMOUR.finditer(text) if "-----BEGIN " in text else ():
            at = line + lines.of(armour.start()) - 1 if exact else line
            yield Undecoded("RBG502", at, "(an encrypted message in text)")
        for form in (text, plain) if plain != text else (text,):
            lines = Lines(form)
            for offset, data in runs(form):
                if hash(data) not in self._seen:
                    self._seen.add(hash(data))
                    at = line + lines.of(offset) - 1 if exact else line
                    yield from self._run(data, at, depth + 1)

    def _apart(self, text: str, line: int, exact: bool, source: int) -> Iterator[Decoded]:
        """Tokens of a text that lie apart, joined, and a long array of their ids."""
        lines = Lines(text)
        parts = list(apart(text))
        if parts:
            at = line + lines.of(min(offset for offset, _ in parts)) - 1 if exact else line
            joined = "\n\n".join(dict.fromkeys(part for _, part in parts))
            yield DecodedText(joined, at, False, source, raw=False, joined=True)
        ids = token_ids(text)
        if ids is not None:
            at = line + lines.of(ids[0]) - 1 if exact else line
            yield Undecoded("RBG506", at, f"({ids[1]:,} numbers)")

    def _run(self, data: bytes, line: int, depth: int) -> Iterator[Decoded]:
        """What an encoded run decodes to: most are digests and identifiers, which are no finding."""
        kind = file_kind(data)
        text = text_of(data, certain=True) if kind == "text" else None
        if text is not None and depth <= MOST_DEPTH:
            yield from self._text(text, line, depth)
        elif text is not None:
            yield Undecoded("RBG503", line, f"(encoded more than {MOST_DEPTH} deep)")
        elif kind == "encrypted":
            yield Undecoded("RBG502", line, "(an encoded run, by its first bytes)")
        else:
            parts = list(self._packed(kind, data, line, depth)) if kind in PACKED else []
            whole = [part for part in parts if not (isinstance(part, Undecoded) and part.rule == "RBG504")]
            yield from whole
            if (len(whole) < len(parts) or not parts) and len(data) >= NOISE:
                yield Undecoded("RBG501", line, f"(an encoded run of {len(data):,} bytes that is no text)")

    def _source(self) -> int:
        self._sources += 1
        return self._sources
