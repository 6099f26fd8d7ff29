"""Each rule finds what it says and leaves the rest alone, in every layout, in every disguise."""

import json
from datetime import date

import pytest

from robustify.gate.check import scan
from robustify.gate.detect.structure import LEXICON_FILE, lexicon
from robustify.gate.fingerprints import Fingerprints
from robustify.gate.folding import streams
from robustify.gate.policy import RULES, explained
from tests.gate.cases import HITS, MISSES, REGISTERED
from tests.gate.corpus import made
from tests.gate.layouts import KEY_STYLES, LAYOUTS
from tests.gate.sets import opened

STRUCTURE = {"RBG101", "RBG102", "RBG103"}


@pytest.fixture(scope="module")
def prints() -> Fingerprints:
    return opened({"cases": REGISTERED})


@pytest.mark.parametrize(("rule", "content"), HITS, ids=[rule for rule, _ in HITS])
def test_a_rule_finds_its_hits(rule: str, content: bytes, prints: Fingerprints) -> None:
    assert rule in {found.rule.id for found in scan(content, prints)}


@pytest.mark.parametrize(("rule", "content"), MISSES, ids=[rule for rule, _ in MISSES])
def test_a_rule_leaves_its_misses(rule: str, content: bytes, prints: Fingerprints) -> None:
    assert rule not in {found.rule.id for found in scan(content, prints)}


def test_rules_have_numbers_and_names_of_their_own_and_cases_of_both_kinds() -> None:
    ids = {rule.id for rule in RULES}
    assert len(ids) == len({rule.name for rule in RULES}) == len(RULES)
    assert {rule for rule, _ in HITS} == {rule for rule, _ in MISSES} == ids
    for rule in RULES:
        assert any(line.startswith("mend: ") for line in explained(rule))


def test_what_matches_a_registered_set_or_a_key_can_never_be_allowed_nor_lifted_by_a_demo() -> None:
    stuck = {rule.id for rule in RULES if not rule.allowable}
    assert stuck == {"RBG301", "RBG402", "RBG403", "RBG404"}
    assert {rule.id for rule in RULES if rule.lifted_by_demo} == {*STRUCTURE, "RBG104", "RBG201"}


@pytest.mark.parametrize("style", KEY_STYLES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_five_items_are_refused_in_every_layout(layout: str, style: str) -> None:
    found = scan(LAYOUTS[layout](made(5, 11), style).encode())
    assert {f.rule.id for f in found} & STRUCTURE, layout


# Rows without any name and without a header say nothing when there is only one of them.
_NEED_COMPANY = {"json_unnamed", "csv_no_header"}


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in _NEED_COMPANY])
def test_one_item_with_its_key_is_refused_in_every_layout_that_names_its_parts(layout: str) -> None:
    refused = [
        bool({f.rule.id for f in scan(LAYOUTS[layout]([i], "letter").encode())} & STRUCTURE)
        for i in made(20, 12)
    ]
    assert sum(refused) >= 19


def test_a_finding_names_the_line_where_the_first_item_stands() -> None:
    items = made(3, 13)
    text = "# Notes\n\nNothing here.\n\n" + LAYOUTS["plain"](items, "letter")
    (found,) = [f for f in scan(text.encode()) if f.rule.id in STRUCTURE]
    assert text.splitlines()[found.line - 1].startswith("A) ")


def test_the_lexicon_is_short_reviewed_and_holds_categories_only() -> None:
    words = json.loads(LEXICON_FILE.read_text(encoding="utf-8"))
    terms = [*words["regimes"], *words["categories"]]
    assert len(terms) == len(set(terms)) <= 80
    assert terms == sorted(words["regimes"]) + sorted(words["categories"])
    assert all(
        term.islower() and not any(c.isdigit() for c in term) for term in terms if term != "resolution 1540"
    )
    assert lexicon().reviewed >= date(2026, 1, 1)


def test_the_lexicon_alone_refuses_nothing() -> None:
    words = json.loads(LEXICON_FILE.read_text(encoding="utf-8"))
    brief = "This brief compares the " + ", the ".join((*words["regimes"], *words["categories"])) + ".\n"
    assert scan(brief.encode()) == []
    assert lexicon().named(streams(brief)[0]) >= 60
