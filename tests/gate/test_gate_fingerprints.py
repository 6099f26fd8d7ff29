"""The fingerprint layer: what it recognises, what it leaves alone, and what its index gives away."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.errors import DataError
from robustify.gate.build import build_index, read_texts
from robustify.gate.check import changed, scan
from robustify.gate.fingerprints import COVER, HINT, Fingerprints, read_index, write_index
from robustify.gate.words import kept_words, streams
from tests.gate.corpus import CARRIERS, EDITS, FORMS, GOALS, made, whole
from tests.gate.sets import KEY, key, mock_items, mock_prints, mock_tables, opened, rules_of


def blocked(content: str | bytes) -> bool:
    """Return whether a content is refused: as registered text, or as what cannot be read."""
    return bool(rules_of(content, mock_prints()) & {"RBG301", "RBG501", "RBG502"})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GOALS)
def test_edited_leaks_are_refused_as_often_as_asked(name: str, form: str) -> None:
    rng = random.Random(f"{name} {form}")
    edit, carriers = EDITS[name], list(CARRIERS.values())
    found = [
        blocked(carriers[i % len(carriers)](edit(FORMS[form](item), rng)))
        for i, item in enumerate(mock_items())
    ]
    assert sum(found) / len(found) >= GOALS[name][form == "stem"]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_the_finding_names_the_line_of_the_leak(carrier: str) -> None:
    for item in mock_items()[:5]:
        text = CARRIERS[carrier](item.stem)
        (found,) = [f for f in scan(text.encode(), mock_prints()) if f.rule.id == "RBG301"]
        assert item.stem.split()[0] in text.split("\n")[found.line - 1]
        assert 'set "mock"' in found.says
        assert not set(kept_words(found.says)) & (
            set(kept_words(item.stem)) - set(kept_words("set mock whole text a the cover words"))
        )


def test_choices_in_another_order_and_apart_from_their_stem_are_refused() -> None:
    for item in mock_items()[:40]:
        turned = "\n".join(reversed(item.choices))
        assert blocked(f"{item.stem}\n{turned}")
    together = sum(blocked(" / ".join(item.choices)) for item in mock_items())
    assert together / len(mock_items()) >= 0.95


def test_text_of_the_same_words_in_another_order_is_left_alone() -> None:
    for item in mock_items()[:50]:
        mixed = item.stem.split()
        random.Random(item.stem).shuffle(mixed)
        assert not blocked(" ".join(mixed))


def test_another_set_from_the_same_templates_is_mostly_left_alone() -> None:
    others = made(200, 99)
    assert sum(blocked(item.stem) for item in others) / len(others) <= 0.1


def test_a_set_is_only_recognised_with_its_own_key() -> None:
    stranger = Fingerprints(mock_tables(), key("another"))
    assert not any(match.refuses for item in mock_items() for match in stranger.matches(whole(item)))


TREES = "amber birch cedar delta ember fern grove hazel iris juniper"


@pytest.mark.parametrize("n", [COVER - 1, COVER])
def test_the_number_of_words_that_refuse_is_the_documented_one(n: int) -> None:
    (match,) = opened({"trees": [(TREES,)]}).matches("zinc " + " ".join(TREES.split()[1 : 1 + n]) + " opal")
    assert (match.cover, match.refuses) == (n, n >= COVER)


BEGIN, END = " ".join(TREES.split()[:4]), " ".join(TREES.split()[4:8])


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        (f"{BEGIN}{' stone' * 60} {END}", False),
        (f"{BEGIN}{' stone' * 8} {END}", True),
        ("amber birch cedar stone " * 20, False),
    ],
    ids=["far apart", "near", "a phrase again and again"],
)
def test_words_add_up_within_a_window_and_each_shingle_once(text: str, refuses: bool) -> None:
    assert any(match.refuses for match in opened({"trees": [(TREES,)]}).matches(text)) == refuses


def test_the_same_few_words_said_twice_are_a_hint_and_no_refusal() -> None:
    text = "amber birch of amber cedar birch of amber delta"
    prints = opened({"trees": [(text,)]})
    (match,) = prints.matches("birch of amber cedar birch of amber stone")
    assert (match.cover, match.refuses) == (HINT, False)
    assert any(match.refuses for match in prints.matches(text))


def test_phrases_of_ordinary_text_are_left_out_of_an_index(tmp_path: Path) -> None:
    phrase = "the painted gate stands open on every market day"
    (tmp_path / "prose.md").write_text(f"As always, {phrase}.\n")
    item = (f"{phrase} because the lamplighter Vopeku lost his brass whistle near the orchard",)
    with_it = build_index({"one": [item]}, KEY, library=False)
    without = build_index({"one": [item]}, KEY, [tmp_path], library=False)
    assert without.dropped > with_it.dropped
    assert any(m.refuses for m in Fingerprints(with_it.tables, KEY).matches(phrase))
    assert not any(m.refuses for m in Fingerprints(without.tables, KEY).matches(phrase))
    assert any(m.refuses for m in Fingerprints(without.tables, KEY).matches(item[0]))


def test_words_are_known_again_after_the_memory_of_them_was_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustify.gate.fingerprints._MOST_WORDS", 20)
    prints = Fingerprints(mock_tables(), KEY)
    for item in (*mock_items()[:5], *mock_items()[:5]):
        assert any(match.refuses for match in prints.matches(item.stem))
        assert not any(match.refuses for match in prints.matches("a painted tub was seen twice by the pond"))


def test_a_match_names_the_set_that_the_text_is_of() -> None:
    prints = opened({"trees": [(TREES,)], "short": [("Why do tall reeds whisper?",)]})
    assert [m.set_name for m in prints.matches(TREES)] == ["trees"]
    assert [(m.set_name, m.whole) for m in prints.matches("why do tall reeds whisper")] == [("short", True)]


def test_an_item_of_a_large_template_is_recognised_although_few_of_its_likes_are_kept() -> None:
    items = [(f"Amber birch cedar delta number {n} ember fern grove hazel iris",) for n in range(100, 400)]
    tables = build_index({"trees": items}, KEY, library=False).tables
    assert len(tables.tags) < 300 * 4
    assert all(any(m.refuses for m in Fingerprints(tables, KEY).matches(items[n][0])) for n in (0, 150, 299))


def test_registering_says_which_items_cannot_be_recognised() -> None:
    ordinary = ("Which of the following is", "most likely to be the")
    items = [("Why so?", "yes", "no"), ordinary, mock_items()[0].texts]
    built = build_index({"mixed": items}, KEY, library=False)
    assert (built.items, built.blind) == (3, 2)


# The index file.


def test_an_index_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_index(tmp_path / "index", mock_tables(), KEY)
    assert read_index(tmp_path / "index", KEY) == mock_tables()
    first = (tmp_path / "index").read_bytes()
    write_index(tmp_path / "index", mock_tables(), KEY)
    assert (tmp_path / "index").read_bytes() == first


def test_an_index_shows_no_word_and_no_order_of_items_without_its_key(tmp_path: Path) -> None:
    write_index(tmp_path / "index", mock_tables(), KEY)
    raw = (tmp_path / "index").read_bytes()
    for item in mock_items()[:50]:
        for word in kept_words(item.stem):
            assert len(word) < 6 or word not in raw
    texts = [item.texts for item in mock_items()]
    turned = build_index({"mock": texts[::-1]}, KEY, library=False).tables
    assert turned == mock_tables()
    other = build_index({"mock": texts}, key("another"), library=False).tables
    for name in ("tags", "starts", "marks"):
        mine, theirs = set(getattr(mock_tables(), name)), set(getattr(other, name))
        assert len(mine) == len(theirs)
        assert not mine & theirs


def test_an_index_with_another_key_or_a_changed_byte_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "index"
    write_index(place, mock_tables(), KEY)
    with pytest.raises(DataError, match="was made with key"):
        read_index(place, key("another"))
    raw = place.read_bytes()
    flipped = [
        raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :] for at in (20, 60, len(raw) // 2, len(raw) - 1)
    ]
    for content in (*flipped, raw[:-500]):
        place.write_bytes(content)
        with pytest.raises(DataError, match="changed or cut"):
            read_index(place, KEY)
    place.write_bytes(b"no index")
    with pytest.raises(DataError, match="not a gate index"):
        read_index(place, KEY)


@pytest.mark.parametrize(
    ("name", "text", "n"),
    [
        ("a.jsonl", '{"id": 1, "q": "one two three four"}\n\n{"q": {"stem": "five six"}}\n', 2),
        ("a.json", '{"meta": ["x"], "rows": [{"q": "one"}, {"q": "two"}, {"q": "three"}]}', 3),
        ("a.json", '["one two", "three"]', 1),
        ("a.json", '{"q": "one", "rows": [], "n": 4}', 1),
        ("a.json", '"one two"', 1),
        ("a.csv", 'one,"two\nthree",four\nfive,six,\n', 2),
        ("a.tsv", "one\ttwo\nthree\tfour\n", 2),
        ("a.txt", "one two\nthree\n\nfour\n", 2),
    ],
)
def test_items_are_read_from_any_common_file(tmp_path: Path, name: str, text: str, n: int) -> None:
    (tmp_path / name).write_text(text)
    assert len(read_texts(tmp_path / name)) == n


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jsonl", b"{\n"), ("a.json", b"\xff\xfe"), ("a.txt", b" \n"), ("a.json", b"[" * 99999)],
)
def test_what_holds_no_items_is_refused_without_its_text(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
        read_texts(tmp_path / name)


# The canon.

TEXT = st.text(st.characters(codec="utf-8"), max_size=80)


@given(TEXT)
@settings(max_examples=200, deadline=None)
def test_folding_is_stable_and_never_fails(text: str) -> None:
    (first, *_) = streams(text)
    again = streams(first.folded.decode("utf-8", "replace"))[0]
    assert again.words == first.words
    assert first.folded.count(b"\n") == text.count("\n")


@given(
    st.lists(
        st.sampled_from(["lamp", "straße", "naïve", "ОКО", "Ωmega", "42", "pond's"]), min_size=1, max_size=12
    )
)
def test_case_and_accents_make_no_difference(parts: list[str]) -> None:
    import unicodedata

    text = " ".join(parts)
    assert (
        kept_words(text.upper()) == kept_words(text.lower()) == kept_words(unicodedata.normalize("NFD", text))
    )


@given(TEXT, st.integers(0, 5))
def test_the_unchanged_lines_of_an_unwrapped_text_are_left_blank(text: str, at: int) -> None:
    lines = [f"line {i}" for i in range(60)]
    raw = "\n".join(lines)
    lines[at * 10] = "changed" + text.replace("\n", " ")
    new = changed(raw.split("\n"), "\n".join(lines)).split("\n")
    assert len(new) == 60
    assert new[at * 10] == lines[at * 10]
    assert sum(bool(line) for line in changed(raw.split("\n"), "\n".join(lines), 6).split("\n")) <= 13
