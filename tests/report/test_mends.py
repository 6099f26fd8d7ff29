"""A mend for each cue, and none where nothing gives an item away."""

import pytest

from robustify.report.mends import mends
from robustify.summary.screened import CUES

CHOICES = ("the key is this long one", "bit", "middling", "other")


@pytest.mark.parametrize("cue", CUES)
def test_every_cue_has_a_mend_and_cloze_is_offered_where_it_can_be_asked(cue: str) -> None:
    with_cloze = mends("shortcut", "", [cue], CHOICES, 0, cloze=True)  # type: ignore[list-item]
    assert len(with_cloze) == 2
    assert mends("shortcut", "", [cue], CHOICES, 0, cloze=False) == with_cloze[:1]  # type: ignore[list-item]


@pytest.mark.parametrize(("key", "numbers"), [(0, ("24", "8")), (1, ("3", "5")), (2, ())])
def test_length_says_from_how_many_characters_to_how_many(key: int, numbers: tuple[str, ...]) -> None:
    (said,) = mends("shortcut", "", ["length"], CHOICES, key, cloze=False)
    assert [word for word in said.split() if word.isdigit()] == list(numbers)


def test_alike_mends_are_said_once_and_a_flagged_item_without_a_cue_has_one() -> None:
    (one,) = mends("shortcut", "", ["text_votes", "letter_votes"], CHOICES, 0, cloze=False)
    assert mends("shortcut", "", [], CHOICES, 0, cloze=False) == (one,)


@pytest.mark.parametrize("verdict", ["robust", "undecided"])
def test_what_gives_nothing_away_has_none_but_a_disputed_key(verdict: str) -> None:
    assert mends(verdict, "1 of 2 voters right", ["length"], CHOICES, 0, cloze=True) == ()
    assert len(mends(verdict, "conflicting_key: elsewhere", ["length"], CHOICES, 0, cloze=True)) == 1
