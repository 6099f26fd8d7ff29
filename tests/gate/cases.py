"""What each rule must find and what it must leave alone.

The contents are put together by code, so that the gate does not find them here; the items are made up and harmless.
"""

import gzip
import json
from collections.abc import Iterator

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
_TREATIES = "the Australia Group and the Wassenaar Arrangement"
_KEY = ":".join(("rbk1", "0123456789abcdef", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0U1v"))
_IDS = ["rb1_" + letter * 26 for letter in "abcdefgh"]
_SPLIT = {"format": "robustify.hashed-split/1", "dataset": "mock", "dataset_version": "1", "split": "robust",
          "canon": "rbcanon-1", "key_id": "0123456789abcdef", "n": len(_IDS), "ids": _IDS}  # fmt: skip
_CANARY = "canary " + "GUID 00000000-1111-2222-3333-444444444444"
_FEW = gzip.compress(b"a few words", mtime=0)


def _text(*lines: str) -> bytes:
    return "\n".join(lines).encode()


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _table(head: str, row: list[str], n: int) -> bytes:
    return _text(head, *[",".join(row)] * n)


def _hits() -> Iterator[tuple[str, bytes]]:
    choices = [f"    - {choice}" for choice in _CHOICES]
    yield "RBG101", _json(_RECORD)
    yield "RBG101", b"\n".join([_json({"stem": _STEM, "options": _CHOICES})] * 3)
    yield "RBG101", _text("- question: " + _STEM, "  choices:", *choices, "  answer: 2")
    yield "RBG102", _table("question,option_a,option_b,option_c,option_d,answer", [_STEM, *_CHOICES, "B"], 2)
    yield "RBG102", _table("", [_STEM, *_CHOICES, "C"], 3)
    yield "RBG103", _text(_STEM, *_LINES, "Answer: B")
    yield "RBG103", _text(*([_STEM, *_LINES, ""] * 3))
    in_a_row = [f"({letter}) {choice}" for letter, choice in zip("ABCD", _CHOICES, strict=True)]
    yield "RBG103", " ".join(("//", _STEM, *in_a_row, "Answer: (C)")).encode()
    yield "RBG104", _text(_STEM, *_LINES)
    yield "RBG104", _json({"question": _STEM, "choices": _CHOICES})
    yield "RBG201", _text(f"On {_TREATIES}.", "", _STEM, *_LINES)
    yield "RBG301", _text(REGISTERED[0][0] + "?")
    yield (
        "RBG301",
        _text("# to self: COPPER lantern does (the ferryman) Dovaru, hang: above the eastern quay"),
    )
    yield "RBG301", gzip.compress(_text(*REGISTERED[0][1:]), mtime=0)
    yield "RBG302", _text("He lost the copper lantern does the ferryman Dovaru know it?")
    yield "RBG401", _text(f"data {_CANARY}")
    yield "RBG402", _text(f"export KEY={_KEY}")
    yield "RBG403", _json({"config": {"sensitivity": "restricted"}, "files": {"summary.json": "00"}})
    yield "RBG403", _json({"sensitivity": "restricted", "files": {}, "mac": "00"})
    yield "RBG403", _json({"format": 1, "release": {"level": "evaluator", "min_cell": 10}})
    yield "RBG404", b"SQLite format 3\0" + bytes(52) + b"RBST" + bytes(40)
    yield "RBG404", _json({"format": "robustify.registered/1", "secret": "0" * 64, "sets": {}})
    yield "RBG404", _json({"format": "robustify.licences/1", "accepted": []})
    yield "RBG405", _json(_SPLIT | {"topics": ["ponds"]})
    yield "RBG405", _json(_SPLIT | {"ids": _IDS[::-1]})
    yield "RBG405", _text(*(f"{name},0.25" for name in _IDS))
    yield "RBG501", bytes(range(256)) * 4
    yield "RBG501", b"%PDF-1.7\n1 0 obj"
    yield "RBG502", b"-----BEGIN " + b"PGP MESSAGE-----\n\nhQEMA"
    yield "RBG502", b"Salted__" + bytes(range(200, 240))
    yield "RBG502", _text("A note.", "", "-----BEGIN " + "AGE ENCRYPTED FILE-----", "YWdlLWVuY3J5cHRpb24")
    yield "RBG503", gzip.compress(bytes(8 << 20), mtime=0)
    yield "RBG504", _FEW[:-9]
    yield "RBG504", b"PK\x03\x04 no archive"
    yield "RBG505", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12\n"
    yield "RBG506", _json({"input_ids": [7919 * i * i % 50_021 for i in range(1, 40)]})


def _misses() -> Iterator[tuple[str, bytes]]:
    yield "RBG101", _json({"question": _STEM, "answer": "the raft"})
    yield "RBG101", _json({"name": "ferry", "choices": ["red", "green"], "default": "red"})
    yield (
        "RBG101",
        _text("parser.add_argument('--boat', choices=['ferry', 'raft'], help='which boat to take')"),
    )
    yield "RBG102", _table("id,boat,length,width,price", ["7", "a painted tub", "3", "2", "90"], 9)
    clauses = ("(a) keep this notice;", "(b) name the authors; and", "(c) ask nobody.")
    yield "RBG103", _text("You may copy this work if you", *clauses)
    yield "RBG103", _text("To build:", "1. Get the source.", "2. Run make.", "3. Copy the result.")
    yield "RBG103", _text(_PROSE)
    yield "RBG104", _text(_STEM)
    yield "RBG104", _text(*_LINES)
    yield "RBG201", _text(f"{_TREATIES} meet.", _PROSE)
    yield "RBG201", _text(_STEM, *_LINES)
    yield (
        "RBG301",
        _text("The ferryman hung a copper lantern over the towpath in the east when the bell had rung."),
    )
    yield "RBG302", _text("a copper lantern")
    yield "RBG302", _text(_PROSE)
    yield "RBG401", _text("A canary sang in the mine.")
    yield "RBG402", _text("the form is rbk1:ID:SECRET")
    yield "RBG403", _json({"format": 1, "release": {"level": "published", "min_cell": 10}})
    yield "RBG403", _json({"config": {"sensitivity": "public"}, "files": {"summary.json": "00"}})
    yield "RBG403", _text("id: mock", "sensitivity: restricted")
    yield "RBG404", b"SQLite format 3\0" + bytes(96)
    yield "RBG404", _text('FORMAT = "robustify.registered/1"')
    yield "RBG405", _json(_SPLIT)
    yield "RBG405", json.dumps(_SPLIT, indent=1).encode()
    yield "RBG405", _text("An id is rb1_ and 26 letters:", *_IDS[:2])
    yield "RBG501", b"plain text\n"
    yield "RBG501", "blé\n".encode("latin-1")
    yield "RBG502", b"-----BEGIN PGP SIGNATURE-----\n"
    yield "RBG503", _FEW
    yield "RBG504", b"PK is a mark"
    yield "RBG505", b"The version is at https://git-lfs.github.com/spec/\n"
    yield "RBG506", _json({"ids": list(range(1000, 9000, 100)), "tokens": [3, 4, 2] * 40})


HITS, MISSES = list(_hits()), list(_misses())
"""The id of a rule, and a content that it must find or must not."""
