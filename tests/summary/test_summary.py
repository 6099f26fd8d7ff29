"""The typed summary: what a field must say, what leaves, and that both formats of the file read alike."""

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import ValidationError

from robustify.disclosure import released_summary
from robustify.errors import DataError
from robustify.summary.format_1 import from_format_1, read
from robustify.summary.quantity import GROUPS, Part, Quantity, Shown, never, places
from robustify.summary.result import PLACES, Summary, schema

ROOT = Path(__file__).parents[2]
FULL: dict[str, Any] = json.loads((ROOT / "tests/data/summary_full.json").read_text(encoding="utf-8"))


def test_a_field_without_a_disclosure_class_does_not_import() -> None:
    with pytest.raises(TypeError, match=r"Bare\.n: no disclosure class"):
        type("Bare", (Part,), {"__annotations__": {"n": int}, "n": 0})
    with pytest.raises(TypeError, match="no disclosure class"):
        type("BareRate", (Part,), {"__annotations__": {"rate": Quantity | None}, "rate": None})


def test_places_follow_the_nesting() -> None:
    class Inner(Part):
        mde: Annotated[float | None, Shown("share", "(outer)")] = None
        secret: Annotated[float | None, never("number")] = None

    class Outer(Part):
        rows: Annotated[dict[str, tuple[Inner, ...]] | None, Shown("rate", "chance", "robust")] = None
        alone: Annotated[Inner | None, Shown("rate", alone=True)] = None

    found = [(p.path, p.kind, p.group, p.base) for p in places(Outer)]
    assert found == [
        ("rows.*.[]", "rate", "chance", "robust"),
        ("rows.*.[].mde", "share", "chance", ""),
        ("alone", "rate", "", ""),
    ]


def test_every_group_of_the_budget_is_used_and_no_place_stands_twice() -> None:
    assert {p.group for p in PLACES} - {""} == set(GROUPS) - {"surface features"}
    assert len({(p.path, p.kind) for p in PLACES}) == len(PLACES)


def test_no_name_id_or_reason_of_an_item_is_shown() -> None:
    assert {p.kind for p in PLACES} <= {
        "rate", "difference", "share", "number", "p", "count", "cell", "setting", "word", "truth"
    }  # fmt: skip
    assert not [p for p in PLACES if p.path.endswith((".items", "sentence", "reasons", "files.[].name"))]


def test_a_file_of_format_1_loses_nothing_and_reads_like_its_twin() -> None:
    summary = read(FULL)
    twin = json.loads(json.dumps(summary.tree()))
    assert read(twin) == summary
    assert not list(_lost(from_format_1(FULL), twin))
    assert set(summary.accuracy) == set(FULL["accuracy"])
    assert summary.topics.kl_nats == FULL["topics"]["kl_nats"]
    assert list(summary.topics.by_topic or {}) == [
        n for n in FULL["topics"] if n not in ("kl_nats", "kl_null", "p")
    ]


def _lost(old: Any, new: Any, at: str = "") -> Any:
    match old:
        case dict():
            for name, value in old.items():
                yield from _lost(value, new.get(name, "absent"), f"{at}.{name}")
        case list():
            for one, other in zip(old, new, strict=True):
                yield from _lost(one, other, at)
        case _ if old != new:
            yield at, old, new


@pytest.mark.parametrize("level", ["evaluator", "published"])
def test_a_released_summary_reads_back(level: Any) -> None:
    summary = released_summary(read(FULL), level)
    assert summary.release.level == level
    assert read(summary.tree()) == summary


def test_what_only_an_older_file_holds_is_left_out_and_what_it_lacks_is_null() -> None:
    old = {"format": 1, "splits": {"all": 3, "gone": 1}, "topics": None, "screen": {"flagged": None}}
    summary = read(old)
    assert (summary.splits.all, summary.splits.robust, summary.topics) == (3, None, None)
    with pytest.raises(ValidationError):
        Summary.model_validate({"splits": {"all": 3, "gone": 1}})


def test_a_file_without_a_format_is_refused() -> None:
    with pytest.raises(DataError, match="format None; expected 1 or 2"):
        read({"splits": {"all": 3}})


def test_a_former_name_reads_alike_in_both_formats() -> None:
    flags = {"value": 12.0, "ci": [7.0, 18.0]}
    rule = {"expected_false_flags": flags, "by_place": {"expected_false_flags": flags}}
    for version in (1, 2):
        tree = {"format": version, "screen": {**rule, "d4_rule": rule}}
        screen = read(tree).screen
        for one in (screen, screen.d4_rule):
            assert one.expected_flags == one.by_place.expected_flags == Quantity(value=12.0, ci=(7.0, 18.0))
        assert "expected_false_flags" in tree["screen"], "the caller's tree is left as it was"


@pytest.mark.parametrize(
    "tree", [{}, {"format": 3}, {"format": 2, "splits": {"all": "many"}}, {"format": 2, "new": 1}]
)
def test_what_is_no_summary_is_refused(tree: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"^summary\.json: "):
        read(tree)


def test_the_schema_says_kind_unit_and_class_of_a_field() -> None:
    found = schema()["$defs"]["Topics"]["properties"]["kl_nats"]
    assert {found["x-kind"], found["x-unit"], found["x-release"]} == {"number", "nats", "remade"}
    whole = json.dumps(schema())
    assert whole.count('"x-release"') > 200
