"""What each rule must find and what it must leave alone: the rules' own hits and misses.

A scan never loads this module. The contents are put together by code, so that the gate does not find them here; the
items are made up and harmless.
"""

import gzip
import json
from dataclasses import dataclass

REGISTERED = (
    ("Which copper lantern does the ferryman Dovaru hang above the eastern towpath before the second bell",
     "the dented one that Pelimo mended", "a knitted lantern from the glass pavilion"),
)  # fmt: skip
"""A set that a test registers before it tries the fingerprint rules."""
_STEM = " ".join(("Which boat", "carries the lantern", "across the pond?"))
_CHOICES = ["the narrow ferry", "a painted tub", "the miller's raft", "no boat at all"]
_RECORD = {"question": _STEM, "choices": _CHOICES, "answer": 2}
_LINES = [f"{letter}) {choice}" for letter, choice in zip("ABCD", _CHOICES, strict=True)]
_PROSE = "The pond has two boats. A ferry runs before noon, and a raft after it; which one is faster depends on the wind."
_KEY = ":".join(("rbk1", "0123456789abcdef", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0U1v"))
_IDS = ["rb1_" + letter * 26 for letter in "abcdefgh"]
_SPLIT = {"format": "robustify.hashed-split/1", "dataset": "mock", "dataset_version": "1", "split": "robust",
          "canon": "rbcanon-1", "key_id": "0123456789abcdef", "n": len(_IDS), "ids": _IDS}  # fmt: skip
_CANARY = "canary " + "GUID 00000000-1111-2222-3333-444444444444"


@dataclass(frozen=True, slots=True)
class Cases:
    """Contents that a rule must find and contents that it must not."""

    hits: tuple[bytes, ...]
    misses: tuple[bytes, ...]


def _text(*lines: str) -> bytes:
    return "\n".join(lines).encode()


def _json(held: object) -> bytes:
    return json.dumps(held).encode()


def _jsonl(*rows: object) -> bytes:
    return b"\n".join(map(_json, rows))


def _table(head: str, *rows: list[str]) -> bytes:
    return _text(head, *(",".join(row) for row in rows))


CASES: dict[str, Cases] = {
    "RBG101": Cases(
        hits=(
            _json(_RECORD),
            _jsonl(*[{"stem": _STEM, "options": _CHOICES}] * 3),
            _text(
                "- question: " + _STEM,
                "  choices:",
                *(f"    - {choice}" for choice in _CHOICES),
                "  answer: 2",
            ),
        ),
        misses=(
            _json({"question": _STEM, "answer": "the raft"}),
            _json({"name": "ferry", "choices": ["red", "green"], "default": "red"}),
            _text("parser.add_argument('--boat', choices=['ferry', 'raft'], help='which boat to take')"),
        ),
    ),
    "RBG102": Cases(
        hits=(
            _table("question,option_a,option_b,option_c,option_d,answer", *[[_STEM, *_CHOICES, "B"]] * 2),
            _table("", *[[_STEM, *_CHOICES, "C"]] * 3),
        ),
        misses=(
            _table(
                "id,boat,length,width,price", *[[str(n), "a painted tub", "3", "2", "90"] for n in range(9)]
            ),
        ),
    ),
    "RBG103": Cases(
        hits=(
            _text(_STEM, *_LINES, "Answer: B"),
            _text(*([_STEM, *_LINES, ""] * 3)),
            _text(
                " ".join(
                    (
                        "//",
                        _STEM,
                        *(f"({'ABCD'[i]}) {choice}" for i, choice in enumerate(_CHOICES)),
                        "Answer: (C)",
                    )
                )
            ),
        ),
        misses=(
            _text(
                "You may copy this work if you",
                "(a) keep this notice;",
                "(b) name the authors; and",
                "(c) ask nobody.",
            ),
            _text("To build:", "1. Get the source.", "2. Run make.", "3. Copy the result."),
            _text(_PROSE),
        ),
    ),
    "RBG104": Cases(
        hits=(_text(_STEM, *_LINES), _json({"question": _STEM, "choices": _CHOICES})),
        misses=(_text(_STEM), _text(*_LINES)),
    ),
    "RBG201": Cases(
        hits=(_text("On the Australia Group and the Wassenaar Arrangement.", "", _STEM, *_LINES),),
        misses=(
            _text("The Australia Group and the Wassenaar Arrangement meet.", _PROSE),
            _text(_STEM, *_LINES),
        ),
    ),
    "RBG301": Cases(
        hits=(
            _text(REGISTERED[0][0] + "?"),
            _text("# to self: COPPER lantern does (the ferryman) Dovaru, hang: above the eastern quay"),
            gzip.compress(_text(REGISTERED[0][1], REGISTERED[0][2]), mtime=0),
        ),
        misses=(
            _text("The ferryman hung a copper lantern over the towpath in the east when the bell had rung."),
        ),
    ),
    "RBG302": Cases(
        hits=(_text("He lost the copper lantern does the ferryman Dovaru know it?"),),
        misses=(_text("a copper lantern"), _text(_PROSE)),
    ),
    "RBG401": Cases(hits=(_text(f"data {_CANARY}"),), misses=(_text("A canary sang in the mine."),)),
    "RBG402": Cases(hits=(_text(f"export KEY={_KEY}"),), misses=(_text("the form is rbk1:ID:SECRET"),)),
    "RBG403": Cases(
        hits=(
            _json({"config": {"sensitivity": "restricted"}, "files": {"summary.json": "00"}}),
            _json({"sensitivity": "restricted", "files": {}, "mac": "00"}),
            _json({"format": 1, "release": {"level": "evaluator", "min_cell": 10}}),
        ),
        misses=(
            _json({"format": 1, "release": {"level": "published", "min_cell": 10}}),
            _json({"config": {"sensitivity": "public"}, "files": {"summary.json": "00"}}),
            _text("id: mock", "sensitivity: restricted"),
        ),
    ),
    "RBG404": Cases(
        hits=(
            b"SQLite format 3\0" + bytes(52) + b"RBST" + bytes(40),
            _json({"format": "robustify.registered/1", "secret": "0" * 64, "sets": {}}),
            _json({"format": "robustify.licences/1", "accepted": []}),
        ),
        misses=(
            b"SQLite format 3\0" + bytes(96),
            _text('FORMAT = "robustify.registered/1"'),
        ),
    ),
    "RBG405": Cases(
        hits=(
            _json(_SPLIT | {"topics": ["ponds"]}),
            _json(_SPLIT | {"ids": _IDS[::-1]}),
            _text(*(f"{name},0.25" for name in _IDS)),
        ),
        misses=(
            _json(_SPLIT),
            json.dumps(_SPLIT, indent=1).encode(),
            _text("An id is rb1_ and 26 letters:", *_IDS[:2]),
        ),
    ),
    "RBG501": Cases(
        hits=(bytes(range(256)) * 4, b"%PDF-1.7\n1 0 obj"),
        misses=(b"plain text\n", "blé\n".encode("latin-1")),
    ),
    "RBG502": Cases(
        hits=(
            b"-----BEGIN " + b"PGP MESSAGE-----\n\nhQEMA",
            b"Salted__" + bytes(range(200, 240)),
            _text("A note.", "", "-----BEGIN " + "AGE ENCRYPTED FILE-----", "YWdlLWVuY3J5cHRpb24"),
        ),
        misses=(b"-----BEGIN PGP SIGNATURE-----\n",),
    ),
    "RBG503": Cases(
        hits=(gzip.compress(bytes(8 << 20), mtime=0),), misses=(gzip.compress(b"a few words", mtime=0),)
    ),
    "RBG504": Cases(
        hits=(gzip.compress(b"a few words", mtime=0)[:-9], b"PK\x03\x04 no archive"),
        misses=(b"PK is a mark",),
    ),
    "RBG505": Cases(
        hits=(b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12\n",),
        misses=(b"The version is at https://git-lfs.github.com/spec/\n",),
    ),
}
