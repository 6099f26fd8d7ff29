"""Every text that content holds: as it stands, unwrapped, decoded and unpacked, with the line where it begins.

What cannot be read is said, not skipped. Depth, members and bytes are bounded, so that a scan ends.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from robustify.gate.decode.encoded import runs
from robustify.gate.decode.lines import Lines
from robustify.gate.decode.magic import Kind, kind_of
from robustify.gate.decode.textual import decoded, strings
from robustify.gate.decode.unpack import MOST_BYTES, MOST_DEPTH, PACKED, Budget, Columns, Obstacle, opened
from robustify.gate.decode.unwrap import untagged, unwrapped
from robustify.gate.detect.state import holds_split

_ARMOUR = re.compile(r"^-----BEGIN (?:PGP MESSAGE|AGE ENCRYPTED FILE)-----\s*$", re.MULTILINE)
NOISE = 4096
"""Bytes from which an encoded run that is neither text nor packed is refused: less is a digest or a certificate."""


@dataclass(frozen=True, slots=True, repr=False)
class Reading:
    """One text. `line`: where it begins in the file; `exact`: its own newlines are the file's; `source`: which
    content it was read from, the same for its raw and its unwrapped form; `raw`: as it stands there; `words`: it
    is only fit for words (what reads as text within binary content)."""

    text: str
    line: int
    exact: bool
    source: int
    raw: bool
    words: bool = False

    def line_at(self, line: int) -> int:
        """The file's line of a line of this text (both from 1)."""
        return self.line + line - 1 if self.exact else self.line


@dataclass(frozen=True, slots=True)
class Unread:
    """Content that could not be read: the id of the rule, the line, and fixed words."""

    rule: str
    line: int
    says: str


Part = Reading | Unread | Columns


class Reader:
    """Reads one file's content; its budget covers everything packed in it."""

    def __init__(self) -> None:
        self._budget = Budget()
        self._sources = 0
        self._seen: set[int] = set()

    def read(self, data: bytes) -> Iterator[Part]:
        """All readings of a file, and what of it could not be read."""
        if len(data) > MOST_BYTES:
            yield Unread(
                "RBG503", 1, f"{len(data):,} bytes; the gate reads at most {MOST_BYTES >> 20} MiB of a file"
            )
            return
        yield from self._content(data, 1, 0)

    def _content(self, data: bytes, line: int, depth: int) -> Iterator[Part]:
        kind = kind_of(data)
        text = decoded(data) if kind in ("text", "pointer") else None
        if text is not None:
            yield from self._text(text, line, depth)
            if kind == "pointer":
                yield Unread("RBG505", line, "(a large-file pointer)")
            return
        yield Reading(strings(data), line, False, self._source(), raw=True, words=True)
        match kind:
            case "encrypted":
                yield Unread("RBG502", line, "(by its first bytes)")
            case "cache":
                yield Unread("RBG404", line, "(a score cache)")
            case "binary" | "text" | "pointer":
                yield Unread("RBG501", line, "(its text could hide in what is not text)")
            case _:
                yield from self._packed(kind, data, line, depth)

    def _packed(self, kind: Kind, data: bytes, line: int, depth: int) -> Iterator[Part]:
        if depth >= MOST_DEPTH:
            yield Unread("RBG503", line, f"(packed more than {MOST_DEPTH} deep)")
            return
        try:
            for member in opened(kind, data, self._budget):
                yield from [member] if isinstance(member, Columns) else self._content(member, line, depth + 1)
        except Obstacle as obstacle:
            yield Unread(obstacle.rule, line, f"({obstacle.says})")

    def _text(self, text: str, line: int, depth: int) -> Iterator[Part]:
        exact, source = depth == 0, self._source()
        yield Reading(text, line, exact, source, raw=True)
        if holds_split(text):
            return
        plain = unwrapped(text)
        if plain != text:
            yield Reading(plain, line, exact, source, raw=False)
        bare = untagged(plain)
        if bare != plain:
            yield Reading(bare, line, exact, source, raw=False)
        lines = Lines(text)
        for armour in _ARMOUR.finditer(text) if "-----BEGIN " in text else ():
            at = line + lines.of(armour.start()) - 1 if exact else line
            yield Unread("RBG502", at, "(an encrypted message in text)")
        for form in (text, plain) if plain != text else (text,):
            lines = Lines(form)
            for offset, data in runs(form):
                if hash(data) not in self._seen:
                    self._seen.add(hash(data))
                    at = line + lines.of(offset) - 1 if exact else line
                    yield from self._run(data, at, depth + 1)

    def _run(self, data: bytes, line: int, depth: int) -> Iterator[Part]:
        """What an encoded run decodes to: most are digests and identifiers, which say nothing."""
        kind = kind_of(data)
        text = decoded(data, certain=True) if kind == "text" else None
        if text is not None and depth <= MOST_DEPTH:
            yield from self._text(text, line, depth)
        elif text is not None:
            yield Unread("RBG503", line, f"(encoded more than {MOST_DEPTH} deep)")
        elif kind == "encrypted":
            yield Unread("RBG502", line, "(an encoded run, by its first bytes)")
        else:
            found = list(self._packed(kind, data, line, depth)) if kind in PACKED else []
            damaged = any(isinstance(part, Unread) and part.rule == "RBG504" for part in found)
            yield from (part for part in found if not (isinstance(part, Unread) and part.rule == "RBG504"))
            if (damaged or not found) and len(data) >= NOISE:
                yield Unread("RBG501", line, f"(an encoded run of {len(data):,} bytes that is no text)")

    def _source(self) -> int:
        self._sources += 1
        return self._sources
