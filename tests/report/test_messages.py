"""Every code that judging writes has a sentence that names what it is about; sentences on cues are true of the options."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.items.item import Item
from robustify.judging.baselines.words import WordUse
from robustify.judging.lint.rules import CUES as LINT
from robustify.judging.lint.rules import FIXES, clearest_cue
from robustify.judging.summary.quantity import Quantity, Reason
from robustify.judging.summary.screen_parts import CUES, CueCode
from robustify.report.explaining import cue_sentence, mends
from robustify.report.format import cell, ordinal, rated
from robustify.report.printing import catalogue, cue_words, sentence, templates
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


@pytest.mark.parametrize("value", [("a", 1), {"a": 1}, None, Quantity(value=0.5)])
def test_a_template_prints_no_structure(value: object) -> None:
    """Both pages of compare printed the rows of their plot as Python writes them."""
    with pytest.raises(TypeError):
        templates(autoescape=True).from_string("{{ value }}").render(value=value)


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


@pytest.mark.parametrize("code", sorted({*catalogue()["sentences"]} - {code for code, *_ in SENTENCES}))
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


LONG = ("it asks a server for the address", "a page", "a port", "a saved cookie")


def item(choices: Sequence[str], key: int = 0) -> Item:
    return Item("i", "What is it?", tuple(choices), key % len(choices))


@pytest.mark.parametrize(("code", "choices", "says"), cases("report", "cue_sentences"))
def test_a_sentence_says_what_stands_there(
    code: CueCode, choices: tuple[str, ...], says: tuple[str, ...]
) -> None:
    sentence = cue_sentence(code, item(choices), 0)
    assert all(part in sentence for part in says), sentence


def test_length_and_words_are_named_with_their_counts() -> None:
    assert "longest" not in cue_sentence("length", item(LONG, 3), 3)
    assert "shortest" in cue_sentence("length", item((*LONG[:2], "aaa", "bbbbbbbb")), 2)
    use = WordUse("zebra", True, 11, 9, 2.75, 0.001)
    said = cue_sentence("words", item(LONG), 0, [use])
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
    at = pick % len(choices)
    said = cue_sentence(code, item(choices, at if is_key else at - 1), at)
    assert said
    assert said.isprintable()


CHOICES = ("the key is this long one", "bit", "middling", "other")


def edits(
    verdict: str, reason: str, cues: list[str], key: int = 0, *, cloze: bool = False, **row: object
) -> tuple[str, ...]:
    tree = {"verdict": verdict, "reason": reason, "pick": key, "cues": [{"cue": cue} for cue in cues], **row}
    return mends(tree, item(CHOICES, key), cloze=cloze)


@pytest.mark.parametrize("cue", CUES)
def test_every_cue_has_a_mend_and_cloze_is_offered_where_it_can_be_asked(cue: str) -> None:
    assert cue_words("label")[cue]
    with_cloze = edits("flagged", "", [cue], cloze=True)
    assert len(with_cloze) == 2
    assert edits("flagged", "", [cue]) == with_cloze[:1]


def test_alike_mends_are_said_once_and_only_of_flagged_items_and_disputed_keys() -> None:
    assert len(edits("flagged", "", ["text_votes", "text_votes"])) == 1
    for verdict in ("kept", "undecided"):
        assert edits(verdict, "1 of 2 voters right", ["length"], cloze=True) == ()
        assert len(edits(verdict, "conflicting_key: elsewhere", ["length"], cloze=True)) == 1


def test_a_mend_names_the_words_and_traits_of_the_key_but_only_of_its_own_pick() -> None:
    uses = [
        asdict(WordUse(word, picked, 11, 9, 2.75, 0.001))
        for word, picked in (("zebra", True), ("yak", False))
    ]
    (words,) = edits("flagged", "", ["words"], words=uses)
    assert all(part in words for part in ("“zebra” occurs", "“yak”, which another option has", "9 of 11"))
    (form,) = edits("flagged", "", ["form"], key=1)
    assert "single word" in form
    assert edits("flagged", "", ["form"], pick=2) == edits("flagged", "", [])
    row = {"verdict": "flagged", "reason": "", "pick": 0, "cues": [{"cue": "number_values"}]}
    (numbers,) = mends(row, item(("5", "4", "6")), cloze=False)
    assert "none" not in numbers
    assert "between other" in numbers


def test_a_word_of_several_options_is_named_once() -> None:
    """Three options, two of them with "all": the edit does not say so twice."""
    row = {"verdict": "flagged", "reason": "fdr", "pick": 0, "cues": [{"cue": "certainty"}]}
    (said,) = mends(
        row, item(("Some were copied", "All were printed", "All of them had pictures")), cloze=False
    )
    assert said.count("“all”") == 1


@pytest.mark.parametrize("cue", [cue for cue in CUES if not cue.endswith("_votes")])
@pytest.mark.parametrize("key", range(4))
def test_every_advice_names_what_shows_in_the_options(cue: str, key: int) -> None:
    """Also of options whose words in combination gave the key away, and of those in which no cue shows."""
    for choices in (CHOICES, ("box", "cup", "jar", "pot"), ("6", "7", "8", "9")):
        row = {"verdict": "flagged", "reason": "", "pick": key, "cues": [{"cue": cue}]}
        (edit,) = mends(row, item(choices, key), cloze=False)
        assert ": " in edit
        assert "key" in edit.partition(": ")[2]


@pytest.mark.parametrize("cue", ["words", "certainty", "pointer", "none"])
def test_a_cue_that_no_option_shows_gets_the_fix_and_the_finding_of_lint(cue: str) -> None:
    clearest = clearest_cue(CHOICES, "What is it?", 1)
    assert clearest is not None
    assert edits("flagged", "", [cue], key=1)[0].lower() == f"{FIXES[clearest[0]]}: {clearest[2]}.".lower()


def test_all_of_the_above_and_both_a_and_b_are_one_rule_with_one_advice() -> None:
    pointing = ("All of the above", "Both A and B", "Neither A nor B", "None of the above", "A and C")
    rules = LINT["R041"], LINT["R031"], LINT["R033"]
    for text in pointing:
        choices = ("two red cups", "one jar", text)
        about, absolute, negation = (rule.marks(choices, "") for rule in rules)
        assert list(about) == [False, False, True]
        assert not any((*absolute, *negation))
        for cue in ("pointer", "words", "none", "certainty"):
            row = {"verdict": "flagged", "reason": "", "pick": 2, "cues": [{"cue": cue}]}
            (edit,) = mends(row, item(choices, 2), cloze=False)
            assert edit.count("other options") == 2
    letters = ("both A and B", "A and C", "B and C", "A and B")
    assert not any(LINT["R041"].marks(letters, "")), "letters as options are no references"
