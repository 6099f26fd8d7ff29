"""The gate's key and index: what a key file must be, what is registered, recognised and left alone, what an index shows."""

import json
import os
import random
import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from robustify.base.errors import AuthorisationError, DataError
from robustify.base.folded_words import kept_words
from robustify.base.key_file import FILE_VARIABLE, VARIABLE, Key, load_key
from robustify.gate.command import INDEX_VARIABLE
from robustify.gate.command import run_gate as main
from robustify.gate.fingerprints import COVER, Fingerprints, build_index, read_index, read_texts, write_index
from tests.gate.corpus import CARRIERS, EDITS, FORMS, GOALS, made
from tests.gate.repo import (
    KEY,
    codes_in,
    key,
    key_file,
    mock_index,
    mock_items,
    mock_prints,
    opened,
    rules_of,
    scan,
)
from tests.support.cases import refuses

pytestmark = pytest.mark.usefixtures("alone")


# Keys.


def test_a_key_comes_from_a_file_or_a_secret_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_key() is None
    assert load_key(str(key_file(tmp_path))) == KEY
    monkeypatch.setenv(VARIABLE, KEY.as_text())
    assert load_key() == KEY
    monkeypatch.setenv(FILE_VARIABLE, str(key_file(tmp_path, key("other"))))
    assert load_key() == key("other")
    assert KEY.secret.hex() not in repr(KEY)
    assert KEY.derived("a") != KEY.derived("b") != KEY.secret


@pytest.mark.parametrize(
    ("text", "code"),
    [("", "no-key-in-file"), ("a passphrase", "no-key-in-file"), (KEY.as_text()[:40], "no-key-in-file"),
     (KEY.as_text().replace(KEY.id, "0" * 16), "damaged-key"), ("rbk1:" + "0" * 16 + ":" + "A" * 43, "weak-key"),
     (Key.of(bytes(range(15)) + bytes([3]) * 17).as_text(), "weak-key"),
     *((Key.of(bytes(range(n))).as_text(), "no-key-in-file") for n in (31, 33))],
)  # fmt: skip
def test_a_key_that_is_none_is_refused(tmp_path: Path, text: str, code: str) -> None:
    place = tmp_path / "key"
    place.write_text(text)
    place.chmod(0o600)
    with pytest.raises(AuthorisationError) as caught:
        load_key(str(place))
    assert caught.value.code == code
    assert not any(word in str(caught.value) for word in text.strip().split(":") if len(word) > 8)


@pytest.mark.parametrize(
    "fault", ["mode", "link", "folder", "missing", "in git", "pipe", "a key itself", "owner"]
)
def test_a_key_file_that_others_could_reach_is_refused_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    place = key_file(tmp_path)
    named = {"folder": tmp_path, "a key itself": KEY.as_text().strip()}.get(fault, tmp_path / fault)
    match fault:
        case "mode":
            named = place
            place.chmod(0o644)
        case "link":
            (tmp_path / "link").symlink_to(place)
        case "in git":
            named = place
            (tmp_path / ".git").mkdir()
        case "pipe":
            os.mkfifo(tmp_path / "pipe", 0o600)
        case "owner":
            named, owner = place, place.stat().st_uid
            monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert main(["index", "items.jsonl", "--key", str(named), "-o", "out"]) == 4
    assert KEY.as_text()[:40] not in "".join(capsys.readouterr())
    assert not Path("out").exists()


# What is recognised.


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GOALS)
def test_edited_leaks_are_refused_as_often_as_asked(name: str, form: str) -> None:
    rng, carriers = random.Random(f"{name} {form}"), list(CARRIERS.values())
    leaks = [EDITS[name](FORMS[form](item), rng) for item in mock_items()]
    texts = [carriers[i % len(carriers)](leak) for i, leak in enumerate(leaks)]
    found = ["RBG301" in rules_of(text, mock_prints()) for text in texts]
    assert sum(found) / len(found) >= GOALS[name][form == "stem"]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_the_finding_names_the_line_of_the_leak_and_no_word_of_it(carrier: str) -> None:
    for item in mock_items()[:5]:
        text = CARRIERS[carrier](item.stem)
        (found,) = [f for f in scan(text.encode(), mock_prints()) if f.rule.id == "RBG301"]
        assert item.stem.split()[0] in text.split("\n")[found.line - 1]
        assert re.fullmatch(r'\(set "mock", (a whole text|cover \d+ words)\)', found.says)


def test_choices_without_their_stem_are_refused_and_other_text_is_left_alone() -> None:
    def refused(text: str) -> bool:
        return "RBG301" in rules_of(text, mock_prints())

    together = [refused(" / ".join(reversed(item.choices))) for item in mock_items()]
    assert sum(together) / len(together) >= 0.95
    for item in mock_items()[:50]:
        mixed = item.stem.split()
        random.Random(item.stem).shuffle(mixed)
        assert not refused(" ".join(mixed))
    others = [refused(item.stem) for item in made(200, 99)]  # from the same templates
    assert sum(others) / len(others) <= 0.1


TREES = "amber birch cedar delta ember fern grove hazel iris juniper"
BEGIN, END = " ".join(TREES.split()[:4]), " ".join(TREES.split()[4:8])
FIVE = "amber birch cedar delta amber ember cedar grove hazel iris juniper"
TWICE = "amber birch of amber cedar birch of amber delta"


@pytest.mark.parametrize(
    ("item", "text", "refused"),
    [
        (TREES, "zinc " + " ".join(TREES.split()[1:COVER]) + " opal", False),
        (TREES, "zinc " + " ".join(TREES.split()[1 : 1 + COVER]) + " opal", True),
        (TREES, f"{BEGIN}{' stone' * 60} {END}", False),
        (TREES, f"{BEGIN}{' stone' * 8} {END}", True),
        (TREES, "amber birch cedar stone " * 20, False),
        (TWICE, "birch of amber cedar birch of amber stone", False),
        (FIVE, "zinc amber birch cedar delta amber ember cedar opal", False),
        (TWICE, TWICE, True),
        ("Why do tall reeds whisper?", "why do tall reeds whisper", True),
        ("Why do tall reeds whisper?", "why do tall reeds bend", False),
    ],
    ids=["six", "seven", "far apart", "near", "a phrase again", "few different", "seven of five words", "whole",
         "a short stem", "another"],
)  # fmt: skip
def test_words_of_an_item_refuse_from_the_documented_number_on(item: str, text: str, refused: bool) -> None:
    assert [name for name, _, _ in opened({"it": [(item,)]}).matches(text)] == ["it"] * refused


def test_phrases_of_the_library_are_left_out_of_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    phrase = "the painted gate stands open on every market day"
    (tmp_path / "prose.md").write_text(f"As always, {phrase}.\n")
    item = (f"{phrase} because the lamplighter Vopeku lost his brass whistle near the orchard",)
    for library in (False, True):
        prints = Fingerprints(build_index({"one": [item]}, KEY, library=library), KEY)
        assert any(prints.matches(phrase)) != library
        assert any(prints.matches(item[0]))


def test_words_are_known_again_after_the_memory_of_them_was_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustify.gate.fingerprints._MOST_WORDS", 20)
    prints = Fingerprints(mock_index(), KEY)
    for item in (*mock_items()[:5], *mock_items()[:5]):
        assert any(prints.matches(item.stem))
        assert not any(prints.matches("a painted tub was seen twice by the pond"))


def test_an_item_of_a_large_template_is_recognised_although_few_of_its_likes_are_kept() -> None:
    items = [(f"Amber birch cedar delta number {n} ember fern grove hazel iris",) for n in range(100, 400)]
    index = build_index({"trees": items}, KEY, library=False)
    assert len(index.shingles) < 2 * 300 * 4
    assert all(any(Fingerprints(index, KEY).matches(items[n][0])) for n in (0, 150, 299))


# The index file.


def test_an_index_comes_back_and_shows_no_word_and_no_order_without_its_key(tmp_path: Path) -> None:
    write_index(tmp_path / "index", mock_index(), KEY)
    assert read_index(tmp_path / "index", KEY) == mock_index()
    raw = (tmp_path / "index").read_bytes()
    words = {word for item in mock_items()[:50] for word in kept_words(item.stem) if len(word) > 5}
    assert not any(word in raw for word in words)
    texts = [item.texts for item in mock_items()]
    assert build_index({"mock": texts[::-1]}, KEY, library=False) == mock_index()
    other = build_index({"mock": texts}, key("another"), library=False)
    assert len(other.words) == len(mock_index().words)
    assert not set(other.words) & set(mock_index().words)
    assert not set(other.shingles[::2]) & set(mock_index().shingles[::2])
    stranger = Fingerprints(mock_index(), key("another"))
    assert not any(match for item in mock_items() for match in stranger.matches(item.stem))


def test_an_index_with_another_key_or_a_changed_byte_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "index"
    write_index(place, mock_index(), KEY)
    with refuses("other-index-key"):
        read_index(place, key("another"))
    raw, flips = place.read_bytes(), (20, 60, -1)
    flipped = [raw[:at] + bytes([raw[at] ^ 1]) + raw[at:][1:] for at in (*flips, len(raw) // 2)]
    codes = {raw[:-500]: "changed-index", b"no index": "invalid-index"} | dict.fromkeys(
        flipped, "changed-index"
    )
    for content, code in codes.items():
        place.write_bytes(content)
        with refuses(code):
            read_index(place, KEY)


@pytest.mark.parametrize(
    ("name", "text", "n"),
    [
        ("a.jsonl", '{"id": 1, "q": "one two three four"}\n\n{"q": {"stem": "five six"}}\n', 2),
        ("a.json", '{"meta": ["x"], "rows": [{"q": "one"}, {"q": "two"}, {"q": "three"}]}', 3),
        ("a.json", '["one two", "three"]', 1),
        ("a.json", '{"q": "one", "rows": [], "n": 4}', 1),
        ("a.csv", 'one,"two\nthree",four\nfive,six,\n', 2),
        ("a.tsv", "one\ttwo\nthree\tfour\n", 2),
        ("a.txt", "one two\nthree\n\nfour\n", 2),
        ("a.jsonl", "{\n", 0), ("a.json", "\udcff\udcfe", 0), ("a.txt", " \n", 0), ("a.json", "[" * 99999, 0),
    ],
)  # fmt: skip
def test_items_are_read_from_any_common_file_or_it_is_named(
    tmp_path: Path, name: str, text: str, n: int
) -> None:
    (tmp_path / name).write_text(text, errors="surrogateescape")
    with nullcontext() if n else pytest.raises(DataError, match=name):
        assert len(read_texts(tmp_path / name)) == n


# The index command.


@pytest.fixture
def no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own library is no background: reading it takes seconds."""
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "library"))


@pytest.mark.usefixtures("no_library")
def test_an_index_is_made_and_used_and_says_what_it_cannot_recognise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [*(item.texts for item in mock_items()[:5]), ("Why so?", "yes", "no")]
    Path("mock.json").write_text(json.dumps(items))
    monkeypatch.setenv(FILE_VARIABLE, str(key_file(tmp_path)))
    assert main(["index", "mock.json", "-o", "mock.idx", "--name", "ponds"]) == 0
    out, err = capsys.readouterr()
    assert re.fullmatch(rf"mock\.idx: 6 items, [\d,]+ shingles, key {KEY.id}\n", out)
    assert codes_in(err) == ["blind-items"]
    monkeypatch.setenv(INDEX_VARIABLE, "mock.idx")
    Path("a.md").write_text(f"A note.\n\n{mock_items()[3].stem}\n")
    assert main(["a.md", "--require-fingerprints"]) == 4
    assert capsys.readouterr().out == 'a.md:3: RBG301 fingerprint (set "ponds", a whole text)\n'


@pytest.mark.usefixtures("no_library")
def test_an_index_of_too_little_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("short.csv").write_text("Why?,yes,no\n")
    key = ["--key", str(key_file(tmp_path))]
    for args, ends, code in (
        (["short.csv", *key], 3, "items-too-short"), (["gone.csv", *key], 2, "file-not-readable"),
        (["short.csv"], 4, "missing-gate-key"),
    ):  # fmt: skip
        assert main(["index", *args, "-o", "out.idx"]) == ends
        assert codes_in(capsys.readouterr().err) == [code]
        assert not Path("out.idx").exists()
    assert main(["short.csv", "--index", "gone.idx", *key]) == 2
