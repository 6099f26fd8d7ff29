"""In how many ways choices stand under a stem, by the parsers of JSON and of names in any notation."""

import json

import pytest

from robustify.gate.detect.named import named_items
from robustify.gate.detect.records import json_items

STEM = " ".join(("Which boat", "carries the lantern", "across the pond?"))
BOATS = ["the narrow ferry", "a painted tub", "the miller's raft"]
LABELLED = dict(zip("ABC", BOATS, strict=True))


@pytest.mark.parametrize(
    ("choices", "found"),
    [
        (BOATS, 1),
        (BOATS[:1], 0),
        ([{"text": boat} for boat in BOATS], 1),
        ([[boat] for boat in BOATS], 0),
        ([boat * 1 for boat in BOATS] * 9, 0),
        (LABELLED, 1),
        ({"one": BOATS[0], "two": BOATS[1], "three": BOATS[2]}, 0),
        ({"text": BOATS, "label": ["A", "B", "C"]}, 1),
        (dict.fromkeys(BOATS, 0), 1),
        ({BOATS[0]: 1}, 0),
        ("a ) 38 , b ) 27 , c ) 41", 1),
        ("a ) 38 , b ) 27", 0),
        (3, 0),
    ],
)
def test_choices_in_json(choices: object, found: int) -> None:
    assert len(list(json_items(json.dumps({"question": STEM, "options": choices})))) == found


def test_lines_of_json_that_are_mostly_faulty_are_given_up() -> None:
    good = json.dumps({"question": STEM, "options": BOATS})
    for faults, found in ((20, 2), (21, 1)):
        assert len(list(json_items("\n".join([good, *["{"] * faults, good])))) == found


@pytest.mark.parametrize(
    ("choices", "found"),
    [
        ("options = [" + ", ".join(f'"{boat}"' for boat in BOATS) + "]", 1),
        ('options = ["one ferry"]', 0),
        ("options: [ferry, tub, raft]", 1),
        ("options: [ferry]", 0),
        ("options:\n  - ferry\n  - tub", 1),
        ("options: 'A) ferry B) tub C) raft'", 1),
        ("options: 'ferry, tub or raft'", 0),
        ("A: ferry\nB: tub\nC: raft", 1),
        ("option_1: ferry\noption_2: tub\noption_3: raft", 1),
        ("A: ferry\nB: tub", 0),
        ("A: ferry\nB: tub\nD: raft", 0),
        ("A: ferry\nB: tub\n" + "the pond is calm " * 40 + "\nC: raft", 0),
    ],
)
def test_choices_under_names(choices: str, found: int) -> None:
    assert len(list(named_items(f"question: {STEM}\nchoice below\n{choices}\n"))) == found
