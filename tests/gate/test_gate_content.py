"""What a content is refused for, and what passes: one table of each, by content and rule.

The contents are put together by code, so that the gate does not find them here; the items are made up and harmless.
"""

import base64
import gzip
import json
import random
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.base.folded_words import lexicon_file
from robustify.gate.check import RULES
from robustify.gate.fingerprints import Fingerprints
from robustify.gate.refused_content import MOST_BYTES
from tests.gate.corpus import DISGUISES, FORMS, Made, made, zipped
from tests.gate.layouts import KEY_STYLES, LAYOUTS
from tests.gate.repo import mock_items, mock_prints, opened, rules_of, scan

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
_SPLIT = {"format": "robustify.hashed-split/1", "dataset": "mock", "dataset_version": "1", "split": "kept",
          "canon": "rbcanon-1", "key_id": "0123456789abcdef", "n": len(_IDS), "ids": _IDS}  # fmt: skip
_CANARY = "canary " + "GUID 00000000-1111-2222-3333-444444444444"
_NOISE = random.Random(3).randbytes(3000)


def _text(*lines: str) -> bytes:
    return "\n".join(lines).encode()


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _table(head: str, row: list[str], n: int) -> bytes:
    return _text(head, *[",".join(row)] * n)


_ROW_OF_CHOICES = (f"({letter}) {choice}" for letter, choice in zip("ABCD", _CHOICES, strict=True))
REFUSED: list[tuple[str, str, bytes]] = [
    ("RBG101", "a record", _json(_RECORD)),
    ("RBG101", "records without keys", b"\n".join([_json({"stem": _STEM, "options": _CHOICES})] * 3)),
    ("RBG101", "yaml", _text("- question: " + _STEM, "  choices:", *(f"    - {c}" for c in _CHOICES), "  answer: 2")),
    ("RBG101", "rows", _table("question,option_a,option_b,option_c,option_d,answer", [_STEM, *_CHOICES, "B"], 2)),
    ("RBG101", "rows without a head", _table("", [_STEM, *_CHOICES, "C"], 3)),
    ("RBG101", "a block", _text(_STEM, *_LINES, "Answer: B")),
    ("RBG101", "blocks without keys", _text(*([_STEM, *_LINES, ""] * 3))),
    ("RBG101", "a block in a line", " ".join(("//", _STEM, *_ROW_OF_CHOICES, "Answer: (C)")).encode()),
    ("RBG104", "a block without a key", _text(_STEM, *_LINES)),
    ("RBG201", "a block that names regimes", _text(f"On {_TREATIES}.", "", _STEM, *_LINES)),
    ("RBG301", "a stem", _text(REGISTERED[0][0] + "?")),
    ("RBG301", "a stem in escapes of Rust", "".join(f"\\u{{{ord(c):x}}}" for c in REGISTERED[0][0]).encode()),
    ("RBG301", "a stem in long escapes", "".join(f"\\U{ord(c):08x}" for c in REGISTERED[0][0]).encode()),
    ("RBG301", "a stem with codes of a terminal", REGISTERED[0][0].replace("e", "\x1b[Ke\x1b[m").encode()),
    ("RBG502", "base64 behind an address without a scheme", b"://" + base64.b64encode(bytes(range(256)) * 4)),
    ("RBG301", "some words", _text("# COPPER lantern does (the ferryman) Dovaru, hang: above the eastern quay")),
    ("RBG502", "choices in base64", base64.b64encode(_text(*REGISTERED[0][1:]))),
    ("RBG401", "a canary", _text(f"data {_CANARY}")),
    ("RBG401", "a canary with the line ends of old programs", f"a\rb\rdata {_CANARY}".encode()),
    ("RBG402", "a key", _text(f"export KEY={_KEY}")),
    ("RBG402", "a key in entities", "".join(f"&#{ord(c)};" for c in _KEY).encode()),
    ("RBG502", "a key in base64", base64.b64encode(f"the key is {_KEY}".encode())),
    ("RBG403", "a manifest", _json({"config": {"sensitivity": "restricted"}, "files": {"summary.json": "00"}})),
    ("RBG403", "a former manifest", _json({"sensitivity": "restricted", "files": {}, "mac": "00"})),
    ("RBG403", "a summary", _json({"format": 1, "release": {"level": "evaluator", "min_cell": 10}})),
    ("RBG404", "a score cache", b"SQLite format 3\0" + bytes(52) + b"RBST" + bytes(40)),
    ("RBG404", "registered sets", _json({"format": "robustify.registered/1", "secret": "0" * 64, "sets": {}})),
    ("RBG405", "a split with topics", _json(_SPLIT | {"topics": ["ponds"]})),
    ("RBG405", "a split with scores", _json(_SPLIT | {"ids": [[one, 0.25] for one in _IDS]})),
    ("RBG405", "a split of another number", _json(_SPLIT | {"n": 7})),
    ("RBG405", "a split that is named by a text", _json(_SPLIT | {"dataset": _STEM})),
    ("RBG405", "an unsorted split", _json(_SPLIT | {"ids": _IDS[::-1]})),
    ("RBG405", "ids with scores", _text(*(f"{name},0.25" for name in _IDS))),
    *(("RBG501", says, data) for says, data in (
        ("noise", _NOISE), ("a gzip stream", gzip.compress(b"a note")), ("a zip archive", zipped({"a": b"a note"})),
        ("a table", b"PAR1" + _NOISE + b"PAR1"), ("a pickle", b"\x80\x04\x95\x0b\0\0\0"), ("a PDF", b"%PDF-1.7\n1 0 obj"),
        ("PostScript", b"%!PS-Adobe-3.0 EPSF-3.0\n(a) show"), ("rich text", b"{\\rtf1\\ansi a}"),
        ("UTF-16", "a note".encode("utf-16")), ("Latin-1", "blé".encode("latin-1")), ("control characters", b"a\0note"),
    )),
    ("RBG502", "base64", base64.b64encode(_NOISE[:150])),
    ("RBG502", "hex", _NOISE[:90].hex().encode()),
    ("RBG502", "a pickle in base64", base64.encodebytes(b"\x80\x04\x95" + _NOISE[:200])),
    ("RBG503", "too many bytes", b"word " * (MOST_BYTES // 5 + 1)),
    ("RBG502", "symbols", "".join(chr(0x2800 + n) for n in range(200)).encode()),
    ("RBG505", "a link into an annex", b"../.git/annex/objects/Kj/9Q/MD5E-s12--0/MD5E-s12--0.jsonl"),
    ("RBG505", "a pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12\n"),
]  # fmt: skip
"""A rule, what its content is, and the content."""
_HASHES = [_NOISE[32 * i : 32 * i + 32] for i in range(60)]
_LOCK = [{"integrity": f"sha512-{base64.b64encode(h * 2).decode()}", "resolved": "left-pad"} for h in _HASHES]
_NAMES = "from audit import AuditLogListResponse, ConvBnReLU2d, ConvBnReLU3d, IPv4Address, utf8, float32x4"
_FIELDS = ("{question}?", "A) {a}", "B) {b}", "C) {c}", "Answer: {answer}")
_ENUM = {
    n: {"description": f"Which {n} should be used?", "enum": ["a", "b", "c"], "default": "a"} for n in "xyz"
}


def _template(before: str, question: str, *choices: str, after: str = "") -> bytes:
    text = f"{before}Question: {question}\nAnswer:{after}"
    told = json.dumps({"template": text, "answer_choices": choices})
    return told.removesuffix("}").encode() + b', "answer": "{{label}}"}'


_SHOT = "Question: Which lamp is lit first?\nA) the red one\nB) the blue one\nC) none\nAnswer: B\n\n"
REFUSED += [
    ("RBG101", "a template with a solved item", _template("{{premise}}\n" + _SHOT, "{{question}}", "A", "B", "C")),
    ("RBG101", "a placeholder after the question", _template("", _STEM, "red", "green", "blue", after=" {{answer}}")),
    ("RBG101", "long choices below a placeholder", _template("{{passage}}\n", _STEM, *_CHOICES)),
]  # fmt: skip

PASSING: list[tuple[str, bytes]] = [
    ("an open question", _json({"question": _STEM, "answer": "the raft"})),
    ("a setting", _json({"name": "ferry", "choices": ["red", "green"], "default": "red"})),
    ("an option of a program", _text("add('--boat', choices=['ferry', 'raft'], help='which boat to take')")),
    ("a table", _table("id,boat,length,width,price", ["7", "a painted tub", "3", "2", "90"], 9)),
    ("clauses", _text("You may copy this work if you", "(a) keep this notice;", "(b) name us; and", "(c) ask nobody.")),
    ("steps", _text("To build:", "1. Get the source.", "2. Run make.", "3. Copy the result.")),
    ("prose", _text(_PROSE, _STEM)),
    ("options", _text(*_LINES)),
    ("a glossary", _text("question,a query put to somebody,noun", "choices,what is picked,noun", "answer,a reply,noun")),
    ("questions", _text("question = " + json.dumps([_STEM, _STEM[::-1]]), 'note = "a: the pond"')),
    ("a brief", _text(f"{_TREATIES} meet.", _PROSE)),
    ("other words", _text("The ferryman hung a copper lantern over the towpath in the east when the bell had rung.")),
    ("a bird", _text("A canary sang in the mine.")),
    ("the form of a key", _text("the form is rbk1:ID:SECRET")),
    ("a published summary", _json({"format": 1, "release": {"level": "published", "min_cell": 10}})),
    ("a public manifest", _json({"config": {"sensitivity": "public"}, "files": {"summary.json": "00"}})),
    ("a config", _text("id: mock", "sensitivity: restricted")),
    ("the name of a format", _text('FORMAT = "robustify.registered/1"')),
    ("a split", _json(_SPLIT)),
    ("an id", _text("An id is rb1_ and 26 letters:", *_IDS[:2])),
    ("marks that could begin a text", _text("MZ is a county code", "ORC is a format", "PK is a mark", "x^2 + y^2")),
    ("a signature", b"-----BEGIN PGP SIGNATURE-----\n"),
    ("a talk of pointers", b"The version is at https://git-lfs.github.com/spec/\n"),
    ("a lock file", _text(*(f"pkg=={i} --hash=sha256:{one.hex()}" for i, one in enumerate(_HASHES)))),
    ("a package lock", _json(_LOCK)),
    ("names", _text(*[_NAMES] * 60)),
    ("colours", _json([f"#{one[:3].hex()}" for one in _HASHES])),
    ("a table of numbers", _text(", ".join(f"0x{one[:4].hex()}" for one in _HASHES), "1, 22, 333, " * 90)),
    ("other scripts", "Лодка стоит у пруда, и никто её не трогает. 小船停在池塘边，没有人动它。".encode() * 9),
    ("a prompt template", _text(*_FIELDS)),
    ("a template for a text", _template("{{ review }}\n", "What is the mood of this review?", "bad", "so so", "good")),
    ("a schema", json.dumps({"properties": _ENUM}, indent=1).encode()),
    ("revisions to ignore", _text("# ruff format", *(_HASHES[i].hex()[:40] for i in range(12)))),
    ("an emoji", "A family: \U0001f469\u200d\U0001f469\u200d\U0001f467 and a flag \U0001f3f4".encode()),
    ("a log", b"\x1b[0;31mred\x1b[0m and \x07 a bell\r\n"),
    ("a changelog in colors", _text(*(f"\x1b[1m{n}\x1b[0m\x1b[3{n}m" + _PROSE.replace(" ", "\x1b[C") for n in range(8)))),
    ("nothing", b""),
]  # fmt: skip
"""What a harmless content is, and the content."""


@pytest.fixture(scope="module")
def prints() -> Fingerprints:
    return opened({"cases": REGISTERED})


CASES = [*REFUSED, *(("", says, content) for says, content in PASSING)]


@pytest.mark.parametrize(
    ("rule", "content"), [(r, c) for r, _, c in CASES], ids=[f"{r} {s}" for r, s, _ in CASES]
)
def test_a_rule_finds_what_it_says_and_what_is_harmless_passes(
    rule: str, content: bytes, prints: Fingerprints
) -> None:
    found = rules_of(content, prints)
    assert rule in found if rule else found == set()


def test_rules_have_numbers_and_names_of_their_own_and_a_case_each() -> None:
    ids = {rule.id for rule in RULES}
    assert len(ids) == len({rule.name for rule in RULES}) == len(RULES)
    assert {rule for rule, _, _ in REFUSED} == ids
    assert {rule.id for rule in RULES if not rule.allowable} == {"RBG301", "RBG402", "RBG403", "RBG404"}


# Shapes.


@pytest.mark.parametrize("style", KEY_STYLES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_five_items_are_refused_in_every_layout(layout: str, style: str) -> None:
    text = LAYOUTS[layout](made(5, 11), style)
    assert "RBG101" in rules_of(text)
    assert "RBG101" in rules_of(text.replace("\r\n", "\n").replace("\n", "\r"))  # line ends of old programs


# Rows without any name and without a header say nothing if there is only one of them.
_NEED_COMPANY = {"json_unnamed", "csv_no_header"}


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in _NEED_COMPANY])
def test_one_item_is_refused_in_every_layout_that_names_its_parts_and_by_its_words(layout: str) -> None:
    refused = ["RBG101" in rules_of(LAYOUTS[layout]([item], "letter")) for item in made(20, 12)]
    assert sum(refused) >= 19
    assert all("RBG301" in rules_of(LAYOUTS[layout]([i], "letter"), mock_prints()) for i in mock_items()[:5])


_ROW = 'Which boat of number {0} is meant?,"a\ntub","an\noar","a\nmast",B\n'
_TSV = "Which boat of number {0} is meant?\ttub\toar\tmast\tB\n"
_FRAME = {
    "question": {"0": _STEM},
    **{f"choice_{c}": {"0": "tub", "1": "oar"} for c in "abc"},
    "answer": {"0": 1},
}
ODD: dict[str, str] = {
    "choices in quotes over several lines": "question,A,B,C,answer\n" + "".join(map(_ROW.format, range(4))),
    "a quote that never ends": '"question\tA\tB\tC\tanswer\n' + "".join(map(_TSV.format, range(4))),
    "a capital that is longer when small": 'İ\nquestion = ["Which knot is this?"]\nanswer = 0\n'
    'choices = ["a tub", "oar", "mast"]\n',
    "a frame as JSON": json.dumps(_FRAME),
    "another script": "哪一盏铜灯笼挂在东边小路上？\nＡ）那一盏\nＢ）编织灯笼\nＣ）木桶\n答案：Ｂ",
    "an html comment": f"<html><!--\n{_STEM}\n" + "\n".join(_LINES) + "\nAnswer: C\n--></html>",
}  # fmt: skip


UNNAMED: dict[str, Callable[[Made], str]] = {
    "short names": lambda i: json.dumps({"q": i.stem, "o": i.choices, "k": i.key}),
    "German": lambda i: json.dumps({"frage": i.stem, "antworten": i.choices, "richtig": i.key}),
    "other names": lambda i: json.dumps({"text": i.stem, "items": i.choices, "n": i.key}),
    "scores": lambda i: json.dumps({"input": i.stem, "target_scores": dict.fromkeys(i.choices, 0)}),
    "by stem": lambda i: json.dumps({i.stem: {"options": i.choices, "key": i.key}}),
    "Lisp": lambda i: f"(:q {json.dumps(i.stem)} :c ({' '.join(map(json.dumps, i.choices))}) :k {i.key})",
    "R": lambda i: f"list(t = {json.dumps(i.stem)}, o = c({', '.join(map(json.dumps, i.choices))}), k = {i.key}L)",
    "Rust": lambda i: f"Item {{ t: {json.dumps(i.stem)}, o: vec!{json.dumps(i.choices)}, k: {i.key} }},",
}  # fmt: skip


ODD |= {name: "\n".join(map(form, made(3, 11))) for name, form in UNNAMED.items()}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_odd_notations_and_names_of_any_kind_hide_no_item(text: str) -> None:
    assert "RBG101" in rules_of(text)


def test_a_finding_names_the_line_where_the_first_item_stands() -> None:
    text = "# Notes\n\nNothing here.\n\n" + LAYOUTS["plain"](made(3, 13), "letter")
    (found,) = scan(text.encode())
    assert text.splitlines()[found.line - 1].startswith("A) ")


# The lexicon.


def test_the_lexicon_is_short_reviewed_and_holds_categories_only() -> None:
    words = lexicon_file()
    terms = [*words["regimes"], *words["categories"]]
    assert len(terms) == len(set(terms)) <= 80
    assert terms == sorted(words["regimes"]) + sorted(words["categories"])
    assert [t for t in terms if not t.islower() or any(map(str.isdigit, t))] == ["resolution 1540"]
    assert words["reviewed"] >= "2026"


# Registered text in every dress.


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", DISGUISES)
def test_every_disguise_of_every_item_is_refused(name: str, form: str) -> None:
    rng = random.Random(f"{name} {form}")
    refusals = {"RBG301", "RBG501", "RBG502"}
    texts = [DISGUISES[name](FORMS[form](item), rng) for item in mock_items()[:15]]
    assert all(rules_of(text, mock_prints()) & refusals for text in texts)


@pytest.mark.parametrize(
    "hide",
    [lambda s: "".join(f"{c}\b{c}" for c in s), lambda s: s.replace(" ", "\u3164"),
     lambda s: "".join(f"={ord(c):02X}" for c in s), lambda s: re.sub(r"(\w\w)(?=\w)", "\\1<!-- b -->", s),
     *(lambda s, mark=mark: re.sub(r"(\w\w)(?=\w)", rf"\1{mark}", s) for mark in "\u2800\ufffa\ufffc\b\a\u0640"),
     *(lambda s, mark=mark: s.replace(" ", mark) for mark in ("\x1b[0m", "\x1b]8;;a\a", "\u0640")),
     lambda s: re.sub(r"(\w)(\w)", r"\1xy\b\b\2", s)],
    ids=["struck over", "blanks that are letters", "quoted-printable", "comments", "Braille", "notes", "objects",
         "backspaces", "bells", "Arabic joiners", "colors between words", "links between words", "joiners between words",
         "two struck over"],
)  # fmt: skip
def test_marks_that_nobody_sees_hide_no_words(hide: Callable[[str], str], prints: Fingerprints) -> None:
    assert "RBG301" in rules_of(hide(REGISTERED[0][0]), prints)


# Bounds and odd input.


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused_and_never_crash(data: bytes) -> None:
    for start in (b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a"):
        assert all(found.line >= 1 for found in scan(start + data))


PIECES = (
    "<", "&#", "%4", "\\u", "A) ", '{"question": "', "[", "=\n", "-\n", "| a ", "question: ", "```", "INSERT INTO a (",
    "B. ", "\u200b", "question: which old lamp is lit? choices: ", "INSERT INTO a VALUES ('x',\n", "what is it? answer: a ",
    "question  ", '\\"', '\'a" ', '"a" ', "<td>a ", "a & b \\\\ ", "0.5 a\n", "12345, ", "[1, 2, ", "Ġa Ċ", "a ##b ",
    'a,"b', '["a", ', "ab12 ", "-1.5 ab ", "0x1, ", "aB3dE5g", "\\x41", "a\tb\n", "  ",
    "}{", "`", "`a` ", "a| ", "{[", "@@ ", "'a', ", "a\n\n",
    '{"a": "b"}', "a. ", "a\b", "\x1b]8;", "\x1b[1", "\u0640", "-----BEGIN PGP SIGNATURE-----\n", "{{a_b}} ",
)  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_hostile_repetition_costs_no_more_than_its_size(piece: str) -> None:
    def seconds(n: int) -> float:
        """Return those of the processor, the least of three scans: a busy machine makes one longer, none shorter."""
        data = (piece * (n // len(piece))).encode()
        taken = []
        for _ in range(3):
            begin = time.process_time()
            scan(data, mock_prints())
            taken.append(time.process_time() - begin)
        return min(taken)

    # Four times as much costs four times as much; a cost of the square would be sixteen. Some clocks tick every 4 ms.
    assert seconds(48_000) <= 10 * max(seconds(12_000), 0.008)
