"""Sentences about a cue are true of the options, name what is there, and never fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.judging.baselines.words import WordUse
from robustify.judging.summary.screened import CUES, CueCode
from robustify.report.explaining import cue_sentence, mends
from robustify.report.printing import cue_words

LONG = ("it asks a server for the address", "a page", "a port", "a saved cookie")
SURE = ("it often works", "it always works", "it never works", "it must work")
SHARED = (
    "three lines with five parts",
    "four lines with five parts",
    "three lines with nine parts",
    "two odd ends",
)
FORMED = ("the heart.", "the liver", "the lungs", "the kidneys")


@pytest.mark.parametrize(
    ("code", "choices", "says"),
    [
        ("length", LONG, ("longest", "2.3 x")),
        ("certainty", SURE, ("only the key has no absolute word", "only the key has a hedge")),
        ("shared_words", SHARED, ("lines", "parts", "2 of 3")),
        ("form", FORMED, ("only the key", "punctuation mark")),
        ("grammar", ("the one", "one", "two", "three"), ("only the key begins with an article",)),
        ("numbers", ("6", "ten", "four", "two"), ("only the key holds a number",)),
        ("outer_space", (" one", "two", "three"), ("only the key begins with a space",)),
        ("outer_space", ("one", " two", " three"), ("only the key does not begin with a space",)),
        ("outer_space", ("one\n", "two", "three"), ("only the key ends with a line break",)),
        ("outer_space", ("\tone\xa0", "two", "three"), ("begins with a tab", "ends with a no-break space")),
        ("outer_space", ("one\u200b", "two", "three"), ("only the key ends with another blank character",)),
        ("odd_characters", ("on\u0435", "two", "three"), ("only the key has an invisible or look-alike character",)),
        ("pointer", ("all of the above", "one", "two", "three"), ("only the key refers to the other options",)),
    ],
)  # fmt: skip
def test_a_sentence_says_what_stands_there(
    code: CueCode, choices: tuple[str, ...], says: tuple[str, ...]
) -> None:
    sentence = cue_sentence(code, choices, 0, is_key=True)
    assert all(part in sentence for part in says), sentence


def test_length_and_words_are_named_with_their_counts() -> None:
    assert "longest" not in cue_sentence("length", LONG, 3, is_key=True)
    assert "shortest" in cue_sentence("length", (*LONG[:2], "aaa", "bbbbbbbb"), 2, is_key=False)
    use = WordUse("zebra", True, 11, 9, 2.75, 0.001)
    said = cue_sentence("words", LONG, 0, is_key=True, uses=[use])
    assert all(part in said for part in ("zebra", "9 of 11", "2.8"))


@given(
    st.sampled_from(CUES),
    st.lists(st.text(max_size=20), min_size=2, max_size=6),
    st.integers(min_value=0, max_value=5),
    st.booleans(),
)
def test_any_options_get_a_sentence_without_control_characters(
    code: CueCode, choices: list[str], pick: int, is_key: bool
) -> None:
    said = cue_sentence(code, choices, pick % len(choices), is_key=is_key)
    assert said
    assert said.isprintable()


CHOICES = ("the key is this long one", "bit", "middling", "other")


def edits(
    verdict: str, reason: str, cues: list[str], key: int = 0, *, cloze: bool = False, **row: object
) -> tuple[str, ...]:
    tree = {"verdict": verdict, "reason": reason, "pick": key, "cues": [{"cue": cue} for cue in cues], **row}
    return mends(tree, CHOICES, key, cloze=cloze)


@pytest.mark.parametrize("cue", CUES)
def test_every_cue_has_a_mend_and_cloze_is_offered_where_it_can_be_asked(cue: str) -> None:
    assert cue_words("label")[cue]
    with_cloze = edits("flagged", "", [cue], cloze=True)
    assert len(with_cloze) == 2
    assert edits("flagged", "", [cue]) == with_cloze[:1]


def test_alike_mends_are_said_once_and_only_of_flagged_items_and_disputed_keys() -> None:
    (one,) = edits("flagged", "", ["text_votes", "letter_votes"])
    assert edits("flagged", "", []) == (one,)
    for verdict in ("kept", "undecided"):
        assert edits(verdict, "1 of 2 voters right", ["length"], cloze=True) == ()
        assert len(edits(verdict, "conflicting_key: elsewhere", ["length"], cloze=True)) == 1


def test_a_mend_names_the_words_and_traits_of_the_key_but_only_of_its_own_pick() -> None:
    uses = [{"word": "zebra"}, {"word": "key"}]
    assert edits("flagged", "", ["words"], words=uses) == ("Vary words that mark the key: “zebra”, “key”.",)
    (form,) = edits("flagged", "", ["form"], key=1)
    assert form.endswith(": the key is a single word.")
    assert edits("flagged", "", ["form"], pick=2) == edits("flagged", "", [])
    row = {"verdict": "flagged", "reason": "", "pick": 0, "cues": [{"cue": "number_values"}]}
    (numbers,) = mends(row, ("5", "4", "6"), 0, cloze=False)
    assert "none" not in numbers
    assert numbers.endswith("the key is between other numbers.")


def test_a_word_of_several_options_is_named_once() -> None:
    """Three options, two of them with "all": the edit does not say so twice."""
    row = {"verdict": "flagged", "reason": "fdr", "pick": 0, "cues": [{"cue": "certainty"}]}
    (said,) = mends(row, ("Some were copied", "All were printed", "All of them had pictures"), 0, cloze=False)
    assert said.count("has no “all”") == 1
