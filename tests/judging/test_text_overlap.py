"""Items are found in text however it is laid out, and counted by part and by split without a word of them."""

import gzip
import hashlib
import json
import os
import tracemalloc
from pathlib import Path
from string import Template

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.items.item import Item
from robustify.judging.text_overlap import BREAK, Overlap, overlap, search_words
from robustify.judging.text_overlap import contamination as judge_contamination
from tests.support.cases import cases, contents, refuses
from tests.support.trees import in_trees

LONG = Item(
    "long",
    "When the tide turned and the boats came home, how many lanterns did the keeper of the harbour light?",
    ("seven small ones", "twelve", "one large lantern", "none at all"),
    2,
)
SHORT = Item("short", "How many legs has a spider?", ("six", "eight", "ten"), 1)
TINY = Item("tiny", "2 + 2?", ("4", "5"), 0)
EVERY = (LONG, SHORT, TINY)
MILL = ("the keeper of the old mill by the river", "the owner of the new barn", "a passing trader")
BROKEN = " ".join([*LONG.stem.split()[:9], BREAK, *LONG.stem.split()[9:]])
"""A stem with the mark that stands between documents."""
ITEMS = {
    item.id: item for item in (*EVERY, Item("mill", "Who?", MILL, 0), Item("broken", BROKEN, ("a", "b"), 0))
}
FILLER = "Nothing of interest happens in this line of words, nor in the one after it. "


contamination = in_trees(judge_contamination)


def put(folder: Path, text: str, name: str = "corpus.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def parts(found: Overlap) -> dict[str, tuple[str, ...]]:
    return {h.item: h.parts for h in found.hits}


@pytest.mark.parametrize(("names", "text", "parts_of", "found"), cases("judging", "overlap_of_texts"))
def test_items_are_found_however_their_text_is_laid_out(
    tmp_path: Path, names: list[str], text: str, parts_of: dict[str, list[str]], found: list[str]
) -> None:
    words = LONG.stem.split()
    filled = Template(text).substitute(
        stem=LONG.stem, ragged=LONG.stem.replace(" ", " \r\n\t  "), hyphens="\u00ad".join(LONG.stem),
        other_marks=LONG.stem.replace(",", " -").replace("?", " ..."), filler=FILLER,
        wide=LONG.stem.replace(" ", "\u00a0").replace("f", "\uff46"), lines=LONG.stem.replace(" ", "\\n"),
        row=json.dumps({"question": LONG.stem, "choices": LONG.choices, "answer": 2}),
        begin=" ".join(words[:9]), end=" ".join(words[9:]), twelve=" ".join(words[2:14]), thirteen=" ".join(words[2:15]),
    )  # fmt: skip
    overlapping = overlap([ITEMS[name] for name in names], [put(tmp_path, filled)])
    assert {hit.item: list(hit.parts) for hit in overlapping.hits} == parts_of
    assert overlapping.found == set(found)


def test_the_coverage_of_a_stem_is_the_share_of_its_windows(tmp_path: Path) -> None:
    words = LONG.stem.split()
    for text, share in (
        (LONG.stem, 1.0),
        (" ".join(words[2:16]), 2 / (len(words) - 12)),
        (f"{SHORT.stem} Eight", None),
    ):
        assert overlap(EVERY, [put(tmp_path, text)]).hits[0].coverage == share


def test_items_too_short_to_be_told_from_other_text_are_counted_apart(tmp_path: Path) -> None:
    found = overlap(EVERY, [put(tmp_path, "2 + 2? 4 5 2 2 4 2 2 a 4 b 5")])
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
        found = overlap(EVERY, [path])
        assert parts(found) == {"long": ("stem",)}
        file = found.files[0]
        assert (file.name, file.bytes, file.words) == (path.name, path.stat().st_size, words)
    assert overlap(EVERY, [packed]).files[0].sha256 == hashlib.sha256(packed.read_bytes()).hexdigest()


@pytest.mark.parametrize(("content", "code"), cases("judging", "not_text_files"))
def test_what_is_no_text_is_refused_by_its_path_with_the_mend(
    tmp_path: Path, content: str, code: str
) -> None:
    path = tmp_path / "shard"
    path.write_bytes(content.encode("latin-1"))
    with refuses(code, hidden="secret") as caught:
        overlap(EVERY, [path])
    assert caught.value.exit_code == 3
    assert caught.value.lines[0].startswith(str(path))


def test_missing_files_folders_and_pipes_are_refused_together_before_anything_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with refuses(*["missing-text-file"] * 3):
        overlap(EVERY, [put(tmp_path, LONG.stem), tmp_path / "nowhere.txt", tmp_path, tmp_path / "pipe"])


def test_what_was_found_survives_the_run_s_file_and_the_summary_without_a_word(tmp_path: Path) -> None:
    found = overlap(EVERY, [put(tmp_path, f"{LONG.stem} twelve {SHORT.stem} eight")])
    kept = json.loads(json.dumps(found.json()))
    assert Overlap.from_json(kept) == found
    split = np.array([True, False, False])
    tree = contamination(found, [item.id for item in EVERY], split, ~split)
    assert tree["overlap"]["items"] == ["long", "short"]
    assert not any(word in json.dumps([kept, tree]) for word in ("lantern", "spider", "eight", str(tmp_path)))
    short = contamination(overlap([SHORT], [tmp_path / "corpus.txt"]), ["short"], split[:1], ~split[:1])
    assert (short["overlap"]["found"]["value"], short["overlap"]["short_mode"]["found"]["value"]) == (
        None,
        1.0,
    )
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
    overlap(EVERY, [put(tmp_path, FILLER * 9)])
    for times in (3_000, 24_000):  # of 7 and 56 pieces
        path = put(tmp_path, FILLER * times)
        tracemalloc.start()
        overlap(EVERY, [path])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.05 * peaks[0]


TREE = contents("judging")["overlap"]
TEN = [f"i{i}" for i in range(10)]
KEPT = np.array([True, False, True, True, False, False, True, True, False, True])


def test_the_overlap_is_counted_by_mode_by_part_and_by_split() -> None:
    tree = contamination(Overlap.from_json(TREE), TEN, KEPT, ~KEPT)["overlap"]
    assert tree["files"] == TREE["files"]
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
        contamination(Overlap.from_json(TREE | changes), TEN, KEPT, ~KEPT)
