"""Every code that judging writes has a sentence, and it names what it is about."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from robustify.judging.summary.quantity import Quantity, Reason
from robustify.report.format import cell, ordinal, rated
from robustify.report.printing import catalogue, sentence
from tests.report.test_advice import numbers
from tests.support.cases import cases

SOURCE = Path(__file__).parents[2] / "robustify"
SENTENCES = cases("report", "sentences")


WRONG = re.compile(
    r"\b1 (?:\w+ ){0,2}?(?:items|answers|models|auditors|groups|orders)\b"  # 1 items
    r"|\b1 (?:of 1 )?(?:\w+ ){0,2}?(?:item|answer|model|auditor)s? (?:are|were|have|share)\b"
    r"|\b1 of [\d,]+ \w+ (?:are|were|have|share)\b|\b[Aa]bout (?:0|1 are)\b|\b([\d.]+) to \1\b|\([; ]*\)"
    r"|[{}%]{2}|\bNone\b|[.]$| [,;:]"
)
"""What a sentence says that does not follow its numbers."""


def at_bounds(params: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield parameters whose numbers are the smallest and the largest that they can be."""
    for n, x in ((0, 0.0), (1, 1.0)):
        whole = {name: n for name, value in params.items() if type(value) is int and name != "position"}
        yield {**params, **whole, **{name: x for name, value in params.items() if isinstance(value, float)}}


@pytest.mark.parametrize(("code", "params", "shown", "word"), SENTENCES)
def test_a_sentence_follows_its_numbers(code: str, params: dict[str, Any], shown: str, word: str) -> None:
    reason = Reason.model_validate({"code": code, "params": params})
    said = sentence(reason)
    assert numbers(said) == shown
    assert word in said
    assert all(sentence(inner) in said for name in params for inner in reason.nested(name))
    for edge in (params, *at_bounds(params)):
        said = sentence(Reason.model_validate({"code": code, "params": edge}))
        assert said == " ".join(said.split())
        assert not WRONG.search(said), said


@pytest.mark.parametrize("code", {*catalogue()["sentences"]} - {code for code, *_ in SENTENCES})
def test_every_other_code_has_a_sentence_without_parameters(code: str) -> None:
    assert not WRONG.search(sentence(Reason.of(code)))


@pytest.mark.parametrize(("value", "n", "ci", "says", "shown"), cases("report", "intervals"))
def test_an_interval_is_shown_only_as_far_as_the_share_can_go(
    value: float, n: int, ci: Any, says: str, shown: str
) -> None:
    q = Quantity(value=value, n=n, ci=ci)
    assert (rated(q), cell(q).spread) == (says, shown)


def test_the_catalogue_knows_every_code_that_is_written() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    written = set(re.findall(r'Reason\.of\(\s*"(\w+)"', source)) | {"no_item_kept", "no_auditor"}
    assert written - set(catalogue()["sentences"]) == set()


def test_a_name_in_a_sentence_is_safe() -> None:
    assert sentence(Reason.of("voter_under_test", name="\x1b[31m<b>")).startswith("\\x1b[31m<b> is")


def test_positions_are_counted_in_words_from_the_first() -> None:
    assert [ordinal(j) for j in (0, 9, 10, 11, 20, 21, 22)] == [
        "first", "tenth", "11th", "12th", "21st", "22nd", "23rd",
    ]  # fmt: skip
