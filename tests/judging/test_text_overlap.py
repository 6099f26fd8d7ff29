"""Items are found in text however it is laid out, and counted by part and by split without a word of them."""

import gzip
import hashlib
import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.items.item import Item
from robustify.judging.text_overlap import BREAK, Hit, Overlap, SearchedFile, overlap, search_words
from robustify.judging.text_overlap import contamination as judge_contamination
from tests.support.cases import refuses
from tests.support.trees import in_trees

LONG = Item(
    "long",
    "When the tide turned and the boats came home, how many lanterns did the keeper of the harbour light?",
    ("seven small ones", "twelve", "one large lantern", "none at all"),
    2,
)
SHORT = Item("short", "How many legs has a spider?", ("six", "eight", "ten"), 1)
TINY = Item("tiny", "2 + 2?", ("4", "5"), 0)
ITEMS = (LONG, SHORT, TINY)
FILLER = "Nothing of interest happens in this line of words, nor in the one after it. "


def put(folder: Path, text: str, name: str = "corpus.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def parts(found: Overlap) -> dict[str, tuple[str, ...]]:
    return {h.item: h.parts for h in found.hits}


def within(folder: Path, text: str, items: tuple[Item, ...] = ITEMS) -> dict[str, tuple[str, ...]]:
    return parts(overlap(items, [put(folder, FILLER + text + " " + FILLER)]))


@pytest.mark.parametrize(
    "text",
    [
        LONG.stem,
        LONG.stem.replace(" ", " \r\n\t  "),
        LONG.stem.replace(",", " -").replace("?", " ..."),
        LONG.stem.replace(" ", "\u00a0").replace("f", "\uff46"),
        "\u00ad".join(LONG.stem),
        f"<p>{LONG.stem}</p>",
        f'"question": "{LONG.stem}"',
    ],
    ids=[
        "plain", "ragged", "punctuation", "full width", "soft hyphens", "html", "json",
    ],
)  # fmt: skip
def test_a_stem_is_found_however_it_is_laid_out(tmp_path: Path, text: str) -> None:
    found = overlap(ITEMS, [put(tmp_path, FILLER + text + FILLER)])
    assert parts(found) == {"long": ("stem",)}
    assert found.hits[0].coverage == 1.0
    assert found.found == {"long"}


def test_twelve_words_in_a_row_are_too_few_and_thirteen_are_enough(tmp_path: Path) -> None:
    words = LONG.stem.split()
    assert within(tmp_path, " ".join(words[2:14])) == {}
    assert within(tmp_path, " ".join(words[2:15])) == {"long": ("stem",)}
    found = overlap(ITEMS, [put(tmp_path, " ".join(words[2:16]))])
    assert found.hits[0].coverage == pytest.approx(2 / (len(words) - 12))


def test_the_key_and_the_options_are_found_where_they_follow_the_stem(tmp_path: Path) -> None:
    assert within(tmp_path, f"{LONG.stem} One large lantern") == {"long": ("stem", "stem_key")}
    assert within(tmp_path, f"Q: {LONG.stem}\nAnswer: one large lantern") == {"long": ("stem", "stem_key")}
    assert within(tmp_path, f"{LONG.stem} twelve") == {"long": ("stem",)}
    choices = ("the keeper of the old mill by the river", "the owner of the new barn", "a passing trader")
    item = Item("i", "Who?", choices, 0)
    assert within(tmp_path, "\n".join(map(". ".join, zip("ABC", choices, strict=True))), (item,)) == {
        "i": ("choices",)
    }
    assert within(tmp_path, choices[0], (item,)) == {}, "one option alone"
    listed = "\n".join(f"({c}) {choice}" for c, choice in zip("ABCD", LONG.choices, strict=True))
    assert within(tmp_path, f"{LONG.stem}\n{listed}") == {"long": ("stem", "choices")}
    row = json.dumps({"question": LONG.stem, "choices": LONG.choices, "answer": 2})
    assert within(tmp_path, row) == {"long": ("stem", "choices")}


@pytest.mark.parametrize(
    "text",
    [
        "How many legs has a spider? Eight",
        "Q. How many legs has a spider? Answer: eight",
        "How many legs has a spider?\nA. six\nB. eight\nC. ten",
        "How many legs has a spider?,six,eight,ten,1",
        '{"question": "How many legs has a spider?", "options": ["six", "eight", "ten"]}',
        '{"q": {"stem": "How many legs has a spider?", "choices": [{"text": "six", "label": "A"}, '
        '{"text": "eight", "label": "B"}, {"text": "ten", "label": "C"}]}}',
        'As JSON: {"question": "How many legs has a spider?", "options": ["six", "eight", "ten"]}',
    ],
)
def test_a_short_stem_counts_with_its_key_or_its_options(tmp_path: Path, text: str) -> None:
    found = overlap(ITEMS, [put(tmp_path, text)])
    assert found.found == {"short"}
    assert found.hits[0].coverage is None
    alone = overlap(ITEMS, [put(tmp_path, "How many legs has a spider? Nobody knows. Eight, some say.")])
    assert (parts(alone), alone.found) == ({"short": ("stem",)}, frozenset())


def test_items_too_short_to_be_told_from_other_text_are_counted_apart(tmp_path: Path) -> None:
    found = overlap(ITEMS, [put(tmp_path, "2 + 2? 4 5 2 2 4 2 2 a 4 b 5")])
    assert (found.items, found.short, found.not_checkable) == (3, ("short",), ("tiny",))
    assert found.checked == {"stem": 2, "stem_key": 2, "choices": 2}
    assert found.hits == ()


def test_gzip_and_json_lines_are_told_by_their_content(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"text": t, "meta": {"n": 1}}) + "\n" for t in (FILLER, LONG.stem, FILLER))
    packed = tmp_path / "shard.bin"
    packed.write_bytes(gzip.compress(lines[:80].encode()) + gzip.compress(lines[80:].encode()))
    plain = tmp_path / "stem.gz"
    plain.write_text(LONG.stem, encoding="utf-8-sig")
    n_words = len((LONG.stem + " " + FILLER + FILLER).split())
    for path, words in ((packed, n_words), (plain, len(LONG.stem.split()))):
        found = overlap(ITEMS, [path])
        assert parts(found) == {"long": ("stem",)}
        file = found.files[0]
        assert (file.name, file.bytes, file.words) == (path.name, path.stat().st_size, words)
    assert overlap(ITEMS, [packed]).files[0].sha256 == hashlib.sha256(packed.read_bytes()).hexdigest()


def test_escapes_of_json_lines_are_read_and_documents_do_not_run_together(tmp_path: Path) -> None:
    wrapped = json.dumps({"text": LONG.stem.replace(" ", "\n")})
    assert parts(overlap(ITEMS, [put(tmp_path, f"\n{wrapped}\n\n")])) == {"long": ("stem",)}
    words = LONG.stem.split()
    halves = "\n".join(json.dumps({"text": " ".join(w)}) for w in (words[:9], words[9:]))
    assert parts(overlap(ITEMS, [put(tmp_path, halves)])) == {}
    talk = {"messages": [{"role": "user", "content": LONG.stem}, {"role": "assistant", "content": 8}]}
    assert parts(overlap(ITEMS, [put(tmp_path, json.dumps(talk))])) == {"long": ("stem",)}


def test_a_break_in_an_item_does_not_bridge_documents(tmp_path: Path) -> None:
    words = LONG.stem.split()
    item = Item("i", " ".join([*words[:9], BREAK, *words[9:]]), ("a", "b"), 0)
    halves = "\n".join(json.dumps({"text": " ".join(w)}) for w in (words[:9], words[9:]))
    assert parts(overlap([item], [put(tmp_path, halves)])) == {}
    assert parts(overlap([item], [put(tmp_path, LONG.stem)])) == {"i": ("stem",)}


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "missing-text-file"),
    "blank": (b" \n\n\t ", "not-a-text-file"),
    "binary": (b"PAR1\x00\x00\x01", "not-a-text-file"),
    "utf-16": ("word".encode("utf-16"), "not-utf-8"),
    "latin-1": ("caf\xe9 ".encode("latin-1"), "not-utf-8"),
    "zip": (b"PK\x03\x04\x00\x00", "not-a-text-file"),
    "cut gzip": (gzip.compress(os.urandom(5000).hex().encode())[:-900], "unreadable-text-file"),
    "broken gzip": (b"\x1f\x8bnothing of the kind", "unreadable-text-file"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "not-a-text-file"),
    "json document": (b'[{"text": "secret words"}]', "not-json-lines"),
    "pretty json": (b'{\n  "text": "secret words"\n}', "not-json-lines"),
    "json lines with a hole": (b'{"text": "a"}\n\n["secret words"]\n', "not-json-lines"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_text_is_refused_by_its_path_with_the_mend(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "shard"
    path.write_bytes(BAD[kind][0])
    with refuses(BAD[kind][1], hidden="secret") as caught:
        overlap(ITEMS, [path])
    assert caught.value.exit_code == 3
    assert caught.value.lines[0].startswith(str(path))


def test_missing_files_folders_and_pipes_are_refused_together_before_anything_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with refuses(*["missing-text-file"] * 3):
        overlap(ITEMS, [put(tmp_path, LONG.stem), tmp_path / "nowhere.txt", tmp_path, tmp_path / "pipe"])


def test_what_was_found_survives_the_run_s_file(tmp_path: Path) -> None:
    found = overlap(ITEMS, [put(tmp_path, f"{LONG.stem} twelve {SHORT.stem} eight")])
    kept = json.loads(json.dumps(found.json()))
    assert Overlap.from_json(kept) == found
    assert not any(word in json.dumps(kept) for word in ("lantern", "spider", "eight"))
    for tree in ({**kept, "files": [{"name": "x"}]}, {n: value for n, value in kept.items() if n != "hits"}):
        with refuses("damaged-overlap-record"):
            Overlap.from_json(tree)


WORDS = st.sampled_from(
    ["a", "be", "the", "Of", "42", "\u00c9t\u00e9", "na\u00efve", "\u6c34", "stra\u00dfe"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, min_size=5, max_size=40), st.lists(WORDS, min_size=5, max_size=8), st.integers(5, 8))
def test_the_search_agrees_with_looking_at_every_window(
    tmp_path_factory: pytest.TempPathFactory, text: list[str], wanted: list[str], n: int
) -> None:
    n = min(n, len(wanted))
    path = put(tmp_path_factory.mktemp("text"), " ".join(text[:20]) + "\n" + " ".join(text[20:]))
    found = overlap([Item("i", " ".join(wanted), ("x", "y"), 0)], [path], n)

    def windows(words: list[str]) -> list[tuple[str, ...]]:
        return [tuple(w.casefold() for w in words[i : i + n]) for i in range(len(words) - n + 1)]

    there = set(windows(text))
    share = sum(w in there for w in windows(wanted)) / len(windows(wanted))
    assert [hit.coverage for hit in found.hits] == ([share] if share else [])


def test_words_are_runs_of_letters_digits_and_marks() -> None:
    assert len(search_words("It's the 2nd \u201cwell-known\u201d case_of 1,000")) == 10
    assert len(search_words("\u6c34\u306f\u4f55\u5ea6")) == 4
    assert len(search_words("\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e")) == 2
    assert search_words("Caf\u00e9") == search_words("CAFE\u0301") != search_words("cafe")
    assert search_words("\ufb01n \u2460") == ["fin", "1"]
    assert search_words("") == search_words(" .,! ") == []
    assert search_words(f"a {BREAK} b") == ["a", BREAK, "b"]


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustify.judging.text_overlap.PIECE", 1 << 15)
    peaks = []
    overlap(ITEMS, [put(tmp_path, FILLER * 9)])
    for times in (3_000, 24_000):  # of 7 and 56 pieces
        path = put(tmp_path, FILLER * times)
        tracemalloc.start()
        overlap(ITEMS, [path])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.05 * peaks[0]


contamination = in_trees(judge_contamination)

FILE = SearchedFile("web.txt", "0" * 64, 1000, 200)


def made(**changes: object) -> Overlap:
    """Ten items: i0 to i5 long, i6 to i8 short, i9 too short; found are i0, i1 and i6, i7 by its stem alone."""
    fields: dict[str, object] = {
        "ngram": 13,
        "files": (FILE,),
        "items": 10,
        "checked": {"stem": 9, "stem_key": 9, "choices": 9},
        "short": ("i6", "i7", "i8"),
        "not_checkable": ("i9",),
        "hits": (
            Hit("i0", ("stem", "stem_key"), 1.0),
            Hit("i1", ("stem",), 0.5),
            Hit("i6", ("stem", "choices"), None),
            Hit("i7", ("stem",), None),
        ),
    }
    return Overlap(**{**fields, **changes})


TEN = [f"i{i}" for i in range(10)]
KEPT = np.array([True, False, True, True, False, False, True, True, False, True])


def test_the_overlap_is_counted_by_mode_by_part_and_by_split() -> None:
    tree = contamination(made(), TEN, KEPT, ~KEPT)["overlap"]
    assert tree["files"] == [{"name": "web.txt", "sha256": "0" * 64, "bytes": 1000, "words": 200}]
    assert (tree["ngram"], tree["n"], tree["not_checkable"]) == (13, 6, 1)
    assert (tree["found"]["value"], tree["found"]["n"]) == (pytest.approx(2 / 6), 6)
    assert tree["short_mode"]["n"] == 3
    assert tree["short_mode"]["found"]["value"] == pytest.approx(1 / 3)
    assert tree["coverage"]["value"] == pytest.approx(1.5 / 6)
    assert tree["parts"]["stem"]["value"] == pytest.approx(4 / 9)
    assert tree["parts"]["stem_key"]["value"] == pytest.approx(1 / 9)
    assert (tree["in_kept"]["value"], tree["in_kept"]["n"]) == (pytest.approx(2 / 5), 5)
    assert (tree["in_flagged"]["value"], tree["in_flagged"]["n"]) == (pytest.approx(1 / 4), 4)
    assert tree["items"] == ["i0", "i1", "i6"]


@pytest.mark.parametrize("changes", [{"items": 11}, {"short": ("i6", "i7", "other")}])
def test_an_overlap_of_other_items_is_refused(changes: dict[str, object]) -> None:
    with refuses("overlap-of-other-items"):
        contamination(made(**changes), TEN, KEPT, ~KEPT)


def test_from_items_and_a_file_to_the_summary_without_a_word_of_them(
    toys: list[Item], tmp_path: Path
) -> None:
    path = tmp_path / "page.txt"
    path.write_text(f"12) {toys[3].stem}\nAnswer: {toys[3].choices[toys[3].key]}", encoding="utf-8")
    kept = json.loads(json.dumps(overlap(toys, [path]).json()))
    mask = np.array([True] * 4 + [False] * 4)
    tree = contamination(Overlap.from_json(kept), [item.id for item in toys], mask, ~mask)
    assert tree["overlap"]["items"] == ["t3"]
    assert tree["overlap"]["short_mode"]["n"] == 8
    assert tree["overlap"]["found"]["value"] is None
    assert tree["overlap"]["in_kept"]["value"] == 0.25
    assert not any(word in json.dumps([tree, kept]) for word in ("meant", "grey", str(tmp_path)))
