"""Made-up harmless items, the ways in which a leak of them may be edited or disguised, and the files it lies in.

Everything comes from a seed. The items are nonsense about gardens, boats and clocks with invented names; nothing in
them is true, and nothing in them is from any benchmark.
"""

import base64
import bz2
import gzip
import html
import io
import json
import lzma
import quopri
import random
import re
import string
import tarfile
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

from tests.support.cases import CASES

LETTERS = "ABCDEFGH"


_PARTS: dict[str, Any] = yaml.safe_load((CASES / "made_items.yaml").read_text(encoding="utf-8"))
_NAMES = ("things", "kinds", "deeds", "people", "when", "events", "order", "where", "spots")
_THINGS, _KINDS, _DEEDS, _PEOPLE, _WHEN, _EVENTS, _ORDER, _WHERE, _SPOTS = (_PARTS[n].split() for n in _NAMES)


@dataclass(frozen=True)
class Made:
    """A made-up item."""

    stem: str
    choices: tuple[str, ...]
    key: int

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.stem, *self.choices)


def made(n: int, seed: int) -> list[Made]:
    """`n` items; another seed gives other names, and so other items."""
    rng = random.Random(f"items {seed}")
    names = [_name(rng) for _ in range(max(40, n // 2))]
    return [_item(rng, names) for _ in range(n)]


def _item(rng: random.Random, names: list[str]) -> Made:
    stem = _filled(rng, rng.choice(_PARTS["asks"]), names)
    choices: list[str] = []
    while len(choices) < 4:
        choice = _filled(rng, rng.choice(_PARTS["says"]), names)
        if choice not in choices:
            choices.append(choice)
    return Made(stem[0].upper() + stem[1:] + "?", tuple(choices), rng.randrange(4))


def _name(rng: random.Random) -> str:
    return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(3)).capitalize()


def _filled(rng: random.Random, form: str, names: list[str]) -> str:
    thing, thing2 = rng.sample(_THINGS, 2)
    return form.format(
        kind=rng.choice(_KINDS), thing=thing, thing2=thing2, deed=rng.choice(_DEEDS), person=rng.choice(_PEOPLE),
        time=f"{rng.choice(_WHEN)} the {rng.choice(_ORDER)} {rng.choice(_EVENTS)}",
        place=f"{rng.choice(_WHERE)} the {rng.choice(_KINDS)} {rng.choice(_SPOTS)}",
        name=rng.choice(names), town=rng.choice(names),
    )  # fmt: skip


def whole(item: Made) -> str:
    """Stem and lettered choices, as a person would paste them."""
    return "\n".join((item.stem, *(f"{LETTERS[i]}. {choice}" for i, choice in enumerate(item.choices))))


# Edits of words. Each takes a text and a generator and gives an edited text.


Edit = Callable[[str, random.Random], str]


def edited(share: float, change: Callable[[str, random.Random], list[str]]) -> Edit:
    """An edit of a share of the words (at least one), each changed into other words of the same domain, or none."""
    return lambda text, rng: _edited(text, rng, share, lambda word: change(word, rng))


def _edited(text: str, rng: random.Random, share: float, change: Callable[[str], list[str]]) -> str:
    lines = [line.split(" ") for line in text.split("\n")]
    places = [(i, j) for i, line in enumerate(lines) for j in range(len(line))]
    n = max(1, round(share * len(places)))
    chosen = set(rng.sample(places, n))
    out = []
    for i, line in enumerate(lines):
        kept = [word for j, old in enumerate(line) for word in (change(old) if (i, j) in chosen else [old])]
        out.append(" ".join(kept))
    return "\n".join(out)


def _other(rng: random.Random, word: str) -> str:
    return rng.choice([other for other in (*_THINGS, *_KINDS, *_DEEDS, *_PEOPLE) if other != word])


EDITS: dict[str, Edit] = {
    "one_word": edited(0, lambda word, rng: [_other(rng, word)]),
    **{f"substituted_{p}": edited(p / 100, lambda word, rng: [_other(rng, word)]) for p in (10, 20, 30)},
    **{f"deleted_{p}": edited(p / 100, lambda word, rng: []) for p in (10, 20)},
    **{f"inserted_{p}": edited(p / 100, lambda word, rng: [word, _other(rng, word)]) for p in (10, 20)},
}

GOALS: dict[str, tuple[float, float]] = {
    "one_word": (1.0, 0.98),
    "substituted_10": (0.99, 0.88),
    "substituted_20": (0.97, 0.68),
    "substituted_30": (0.85, 0.42),
}
"""What safety.md, 8.3 asks of edited leaks, for whole items and for stems alone."""
FORMS: dict[str, Callable[[Made], str]] = {"item": whole, "stem": lambda item: item.stem}

# Disguises: the same words in another dress. Each gives the bytes of a file.

_LIKE = dict(zip("aeopcxyijsABEHKMOPTXdqhnuv", "аеорсхуіјѕАВЕНКМОРТХԁԛһոսν", strict=True))


def _like(text: str, rng: random.Random) -> str:
    return "".join(_LIKE[c] if c in _LIKE and rng.random() < 0.3 else c for c in text)


def _between(text: str, rng: random.Random, marks: str, share: float) -> str:
    return "".join(c + rng.choice(marks) if c.isalpha() and rng.random() < share else c for c in text)


def _styled(text: str) -> str:
    letters = {ord(c): 0x1D400 + ord(c) - 65 for c in string.ascii_uppercase}
    return text.translate(letters | {ord(c): 0x1D41A + ord(c) - 97 for c in string.ascii_lowercase})


def _hyphenated(text: str) -> str:
    words = text.split(" ")
    return " ".join(
        w[: len(w) // 2] + "-\n" + w[len(w) // 2 :] if i % 3 == 2 and len(w) > 4 else w
        for i, w in enumerate(words)
    )


def zipped(members: dict[str, bytes]) -> bytes:
    """A zip archive of these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def _tarred(text: str) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        info = tarfile.TarInfo("notes.txt")
        info.size = len(text.encode())
        archive.addfile(info, io.BytesIO(text.encode()))
    return held.getvalue()


DISGUISES: dict[str, Callable[[str, random.Random], str | bytes]] = {
    "verbatim": lambda t, r: t,
    "upper_case": lambda t, r: t.upper(),
    "title_case": lambda t, r: t.title(),
    "double_spaces": lambda t, r: t.replace(" ", "  "),
    "tabs": lambda t, r: t.replace(" ", "\t"),
    "no_break_spaces": lambda t, r: t.replace(" ", "\u00a0"),
    "punctuation": lambda t, r: "".join(
        w + r.choice([",", " -", ";", " ...", ""]) + " " for w in t.split(" ")
    ),
    "smart_quotes": lambda t, r: "“" + t.replace("'", "’") + "”",
    "markdown_marks": lambda t, r: " ".join(
        f"**{w}**" if i % 3 == 0 else f"_{w}_" for i, w in enumerate(t.split(" "))
    ),
    "emphasis_in_words": lambda t, r: re.sub(r"(\w)(\w+)(\w)", r"\1**\2**\3", t),
    "wiki_marks_in_words": lambda t, r: re.sub(r"(\w)(\w+)(\w)", r"\1'''\2'''\3", t),
    "struck_words": lambda t, r: re.sub(r"(\w)(\w+)", r"\1~~\2~~", t),
    "tags_with_values": lambda t, r: re.sub(r"(\w)(\w+)", r"""\1<b title='a "> b' id="2>1">\2</b>""", t),
    "comments_in_words": lambda t, r: re.sub(r"(\w)(\w+)", r"\1<!-- -->\2", t),
    "look_alikes_30": _like,
    "zero_width": lambda t, r: _between(t, r, "\u200b\u200c\u200d\u2060\ufeff", 0.4),
    "zero_width_spaces": lambda t, r: t.replace(" ", "\u200b"),
    "soft_hyphens": lambda t, r: _between(t, r, "\u00ad", 0.4),
    "combining_marks": lambda t, r: _between(t, r, "\u0301\u0323\u0332", 0.4),
    "full_width": lambda t, r: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in t),
    "styled_letters": lambda t, r: _styled(t),
    "digits_for_letters": lambda t, r: t.translate(str.maketrans("oieast", "013457")),
    "one_word_a_line": lambda t, r: t.replace(" ", "\n"),
    "hyphenated": lambda t, r: _hyphenated(t),
    "diff": lambda t, r: "\n".join(f"+ {line}" for line in t.split("\n")),
    "comments": lambda t, r: "\n".join(f"    # {line}" for line in t.split("\n")),
    "json_string": lambda t, r: json.dumps({"note": t}),
    "json_escapes": lambda t, r: '{"note": "' + "".join(f"\\u{ord(c):04x}" for c in t) + '"}',
    "python_escapes": lambda t, r: 'note = "' + "".join(f"\\x{b:02x}" for b in t.encode()) + '"',
    "html_words": lambda t, r: "<p>" + " ".join(f"<b>{html.escape(w)}</b>" for w in t.split(" ")) + "</p>",
    "html_letters": lambda t, r: "".join(f"{c}<wbr>" if c.isalpha() else html.escape(c) for c in t),
    "html_entities": lambda t, r: "".join(f"&#{ord(c)};" for c in t),
    "html_hex_entities": lambda t, r: "".join(f"&#x{ord(c):x};" for c in t),
    "percent": lambda t, r: "https://a.invalid/?q=" + urllib.parse.quote(t),
    "percent_all": lambda t, r: "".join(f"%{b:02X}" for b in t.encode()),
    "quoted_printable": lambda t, r: quopri.encodestring(t.encode()).decode() + "=20",
    "base64": lambda t, r: base64.b64encode(t.encode()).decode(),
    "base64_wrapped": lambda t, r: base64.encodebytes(t.encode()).decode(),
    "base64_url": lambda t, r: base64.urlsafe_b64encode(t.encode()).decode(),
    "base64_utf16": lambda t, r: base64.b64encode(t.encode("utf-16-le")).decode(),
    "hex": lambda t, r: t.encode().hex(),
    "base64_twice": lambda t, r: base64.b64encode(base64.b64encode(t.encode())).decode(),
    "utf16": lambda t, r: t.encode("utf-16"),
    "utf16_no_mark": lambda t, r: t.encode("utf-16-be"),
    "utf32": lambda t, r: t.encode("utf-32"),
    "gzip": lambda t, r: gzip.compress(t.encode(), mtime=0),
    "bzip2": lambda t, r: bz2.compress(t.encode()),
    "xz": lambda t, r: lzma.compress(t.encode()),
    "zlib": lambda t, r: zlib.compress(t.encode()),
    "zip": lambda t, r: zipped({"notes.txt": t.encode()}),
    "tar_gzip": lambda t, r: _tarred(t),
    "zip_in_base64": lambda t, r: base64.b64encode(zipped({"notes.txt": t.encode()})).decode(),
    "inside_binary": lambda t, r: bytes(range(256)) + t.encode() + bytes(range(256)),
}

# Carriers: the file that a leak lies in, with harmless text around it.

_BEFORE = "Notes on the release.\n\nThe parser reads one line at a time and keeps the last error.\n\n"
_AFTER = "\n\nThe tests run in a minute on two cores; see the contributing page for the rest.\n"


def notebook(**cell: object) -> str:
    """A notebook of one cell."""
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def output(source: str, text: str) -> str:
    """A notebook of one cell with a printed output."""
    printed = {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}
    return notebook(cell_type="code", metadata={}, source=[source], outputs=[printed], execution_count=1)


CARRIERS: dict[str, Callable[[str], str]] = {
    "python_comment": lambda t: (
        "import re\n\n" + "\n".join(f"# {line}" for line in t.split("\n")) + "\nx = re.compile('a+')\n"
    ),
    "markdown": lambda t: f"# Notes\n\n{_BEFORE}> " + t.replace("\n", "\n> ") + _AFTER,
    "json": lambda t: json.dumps({"version": 3, "notes": [_BEFORE, t, _AFTER]}, indent=2),
    "notebook": lambda t: output("print(rows[3])", t),
    "commit_message": lambda t: f"Mend the parser\n\n{_BEFORE}{t}{_AFTER}",
}
