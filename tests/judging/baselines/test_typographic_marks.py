"""A typographic mark of the key is found, whatever its kind, in the options as they are written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustify.items.item import Item, item_row
from robustify.items.orders import own
from robustify.items.views import VIEWS, View, template
from robustify.judging.baselines.near_duplicates import near_duplicates
from robustify.judging.lint.findings import cues_of, marks_of
from robustify.judging.readers.reader_rows import ProbeSettings, probe
from robustify.restricted.ids import item_id
from tests.support.cases import contents

WORDS, SPACES, UNSEEN, FORMS, PAIRS = contents("judging")["typographic_marks"].values()
Mark = Callable[[str], str]
MARKS: dict[str, Mark] = {
    **{f"{name} space": (lambda text, new=new: text.replace(" ", new, 1)) for name, new in SPACES.items()},
    **{name: (lambda text, new=new: text[:2] + new + text[2:]) for name, new in UNSEEN.items()},
    **{name: (lambda text, pair=pair: text.replace(*pair, 1)) for name, pair in FORMS.items()},
    "accent": lambda text: text[0] + "\u0323" + text[1:],
    "leading": lambda text: " " + text,
    "trailing": lambda text: text + "\u00a0",
    "quotes": lambda text: f"\u201c{text}\u201d",
    "hyphen": lambda text: text.replace(" ", "\u2010", 1),
    "dash": lambda text: text.replace(" ", "\u2013", 1),
    "ellipsis": lambda text: text + "\u2026",
    "case": lambda text: text[:2] + text[2].upper() + text[3:],
    "period": lambda text: text + ".",
}
HIDDEN = [*(name for name in MARKS if name.endswith(" space")), *UNSEEN, *FORMS, "accent"]
"""Marks that `lint` names in the whole set by their characters."""


def marked(mark: Mark, between: str = " ", n: int = 300) -> list[Item]:
    """Make up items whose keys have a mark, and whose options have this text after the first word."""
    rng = np.random.default_rng(7)

    def item(at: int) -> Item:
        words = [[str(word) for word in rng.choice(kind, size=4)] for kind in WORDS]
        choices = [f"{first}{between}{second} {third}" for first, second, third in zip(*words, strict=True)]
        key = int(rng.integers(4))
        choices[key] = mark(choices[key])
        return Item(f"n{at}", f"Which thing is listed under entry {at}?", tuple(choices), key)

    return [item(at) for at in range(n)]


def hits(items: list[Item]) -> int:
    return sum(row.pick == row.key for row in probe(items, ProbeSettings()))


def test_without_a_mark_keys_are_found_by_chance() -> None:
    assert 45 < hits(marked(str)) < 105


@pytest.mark.parametrize("name", MARKS)
def test_a_reader_finds_the_marked_keys(name: str) -> None:
    assert hits(marked(MARKS[name])) >= 270


@pytest.mark.parametrize("name", PAIRS)
def test_a_reader_tells_like_characters_apart(name: str) -> None:
    before, after = PAIRS[name]
    assert hits(marked(lambda text: text.replace(before, after, 1), before)) >= 270


@pytest.mark.parametrize("name", HIDDEN)
def test_lint_tells_of_marks_that_nobody_sees(name: str) -> None:
    items = marked(MARKS[name], n=40)
    assert cues_of(marks_of(items, {"R009"}), items)["R009"].keys >= 36


@pytest.mark.parametrize("name", ["no-break space", "zero width", "wide", "tab space"])
def test_matching_is_blind_to_marks(name: str) -> None:
    plain, items = marked(str, n=60), marked(MARKS[name], n=60)
    both = [*plain, *(Item(f"m{at}", i.stem, i.choices, i.key) for at, i in enumerate(items))]
    group = near_duplicates(both)
    if name != "zero width":  # it parts a word
        assert (group[60:] == group[:60]).all()
    for one, other in zip(plain, items, strict=True):
        keyed = [item_id(b"0" * 32, "toy", "1", i.stem, i.choices) for i in (one, other)]
        assert keyed[0] == keyed[1]


@pytest.mark.parametrize("view", VIEWS)
def test_models_see_options_as_they_are_written(view: View) -> None:
    item = Item("i", "Which lamp?", ("red\u00a0lamp", "wid\uff45 lamp", "t\u0430ll lamp"), 0)
    requests = template(view).requests(item, own(3))
    texts = {request.context + request.continuation for request in requests}
    assert all(any(choice in text for text in texts) for choice in item.choices)


def test_an_audit_without_models_does_not_pass_marked_keys(
    robustify: Callable[..., Any], tmp_path: Path
) -> None:
    data, out = tmp_path / "items.jsonl", tmp_path / "out"
    rows = (item_row(item) for item in marked(MARKS["thin space"]))
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    robustify(str(data), "--public", "-q", "-o", str(out))
    split = [line for line in (out / "flagged.jsonl").read_text("utf-8").split("\n") if line]
    assert len(split) >= 150
    assert json.loads((out / "summary.json").read_text("utf-8"))["state"] == "failed"
    defects = json.loads(robustify("validate", str(data), "--json").out)["defects"]
    assert defects["odd_character"]["n"] == 300
    lint = json.loads(robustify("lint", str(data), "--json").out)["findings"]
    assert sum("U+2009 THIN SPACE" in one["message"] for one in lint if one["code"] == "R009") == 301
