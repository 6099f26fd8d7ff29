"""`robustify/permute`, `choices_only` and the scorer `picked`, found by their entry point and run by real
inspect-ai; its Python is looked for as in `test_inspect.py`."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import tomllib

from robustify.items.item import Item
from robustify.runs.run import Run, write_items
from tests.export.test_inspect import ROOT, UNREADABLE, asked, folder, needs_inspect

pytestmark = [needs_inspect, pytest.mark.proof, pytest.mark.oracle]
__all__ = ["folder"]
ENTRY = {"robustify": "robustify.inspect_extension"}
KINDS = ("right", "wrong", "place", "unreadable")


def kind(at: int) -> str:
    return KINDS[at % 4]


def sayings(items: list[Item], *, blind: bool = False) -> list[list[Any]]:
    """A model that knows, one that is wrong, one that always says A, one that nobody can read."""
    said = []
    for at, i in enumerate(items):
        wanted = {"right": i.choices[i.key], "wrong": i.choices[(i.key + 1) % i.k]}.get(kind(at))
        reply = "ANSWER: A" if kind(at) == "place" else UNREADABLE
        said.append([list(i.choices) if blind else [i.stem], wanted, reply])
    return said


@pytest.fixture(scope="module")
def known(run: Run, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What Inspect says of one task over all items, under each solver."""
    place = tmp_path_factory.mktemp("extension")
    items = list(run.items or ())
    write_items(place / "kept.jsonl", items)
    (place / "kept.py").write_text((folder / "kept.py").read_text("utf-8"))
    # The entry point as an installed package has it; the wheel's own is that of pyproject.toml.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    entry = project.get("entry-points", {}).get("inspect_ai", ENTRY)
    assert entry == ENTRY
    info = place / "robustify_entry-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: robustify-entry\nVersion: 0\n")
    (info / "entry_points.txt").write_text(f"[inspect_ai]\nrobustify = {entry['robustify']}\n")
    task = {"file": str(place / "kept.py"), "task": "kept", "format": "eval", "says": sayings(items)}
    later = {"score": False, "scorer": "robustify/picked"}
    blind = {**task, "says": sayings(items, blind=True)}
    plans = {
        "plain": {**task, **later},
        "permute": {**task, **later, "solver": "robustify/permute"},
        "spread": {**task, **later, "solver": "robustify/permute", "solver_args": {"orders": "spread", "n": 3}},
        "own scorer": {**task, "solver": "robustify/permute"},
        "choices only": {**blind, **later, "solver": "robustify/choices_only", "solver_args": {"orders": "own"}},
    }  # fmt: skip
    (place / "plan.json").write_text(json.dumps(list(plans.values())))
    found = asked(place / "plan.json", place, with_robustify=True, path=[place], ends=False)
    return dict(zip(plans, found, strict=True))


def right_of(items: list[Item], at: int, rotations: int) -> float:
    """Right answers of one sample, as a share of its orders; an answer that is always A is right once in a turn."""
    return {"right": 1.0, "wrong": 0.0, "place": 1 / items[at].k if rotations else float(items[at].key == 0)}[
        kind(at)
    ]


@pytest.mark.parametrize(("name", "rotations"), [("plain", 0), ("permute", 1), ("choices only", 0)])
def test_coverage_and_bounds_stand_beside_the_accuracy(
    known: dict[str, dict[str, Any]], run: Run, name: str, rotations: int
) -> None:
    items = list(run.items or ())
    read = [at for at in range(len(items)) if kind(at) != "unreadable"]
    right = sum(right_of(items, at, rotations) for at in read)
    found = {measure: metrics["mean"] for measure, metrics in known[name]["measures"].items()}
    assert found["coverage"] == pytest.approx(len(read) / len(items))
    assert found["accuracy"] == pytest.approx(right / len(read))
    assert found["low"] == pytest.approx(right / len(items))
    assert found["high"] == pytest.approx((right + len(items) - len(read)) / len(items))


def test_every_item_is_asked_in_every_rotation(known: dict[str, dict[str, Any]], run: Run) -> None:
    items = list(run.items or ())
    assert len(known["permute"]["asked"]) == sum(i.k for i in items)
    assert len(set(known["permute"]["asked"])) == sum(i.k for i in items)
    assert len(known["spread"]["asked"]) == sum(min(3, math.factorial(i.k)) for i in items)


def test_inspect_s_own_scorer_takes_the_most_frequent_pick(
    known: dict[str, dict[str, Any]], run: Run
) -> None:
    n = len(run.items or ())
    knows = sum(kind(at) == "right" for at in range(n))
    always_a = sum(kind(at) == "place" for at in range(n))
    assert knows / n <= known["own scorer"]["accuracy"] <= (knows + always_a) / n


def test_without_the_question_no_stem_is_asked(known: dict[str, dict[str, Any]], run: Run) -> None:
    items = run.items or ()
    assert len(known["choices only"]["asked"]) == len(items)
    assert not any(i.stem in prompt for prompt in known["choices only"]["asked"] for i in items)
