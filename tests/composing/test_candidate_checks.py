"""Candidates: files in every form and what is none; second keys: who has a voice, what a voice must say, and people who
overrule models on a sheet."""

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustify.composing import candidate_checks
from robustify.composing.candidate_checks import Votes, apply_votes, candidate_code, read_votes, review_sheet
from robustify.composing.candidates import read_candidates
from robustify.composing.composed_folder import write_review_sheet
from robustify.composing.pool import (
    OWN,
    VERDICTS,
    Candidate,
    Pool,
    make_pool,
    make_pools,
    same_form,
    unify_typography,
    without_doubtful,
)
from robustify.gate.shapes import shapes_of
from robustify.items.answers import Answers, Asked, answer
from robustify.items.item import Item
from robustify.items.views import Asking
from robustify.models.asking import ask, plan
from robustify.models.model_settings import HFModel
from robustify.pipeline.run_input import unwatched
from robustify.reading.loaders import Source
from robustify.report.explorer import page
from robustify.wings import GUARD
from tests.support.cases import Texts, cases, contents, refuses
from tests.support.fake_logs import jsonl, sheet
from tests.support.fake_scorer import FakeScorer, finds, opens

N = 12
SECOND = 5
"""The item that has a second key."""


def pools(extra: int = 3, n: int = N) -> tuple[Pool, ...]:
    texts = [(f"Which thing is number {at}?", (f"wrong {at}", f"right {at}")) for at in range(n)]
    offered = [[Candidate(f"extra {at} {number}", "file") for number in range(extra)] for at in range(n)]
    return make_pools([Item(f"i{at}", *both, 1) for at, both in enumerate(texts)], offered)


def knows(prefers: str = "") -> FakeScorer:
    """A model that picks the key, except in one item, where it prefers another text."""
    right, other = finds("right"), finds(prefers or "right")

    def taste(request: Any) -> float:
        return (other if f"number {SECOND}?" in request.context and prefers else right)(request)

    return FakeScorer(taste, prefers or "m")


def asked_of(scorers: Sequence[FakeScorer], some: Sequence[Pool]) -> Answers:
    items = [*candidate_checks.full_questions(some)]
    planned = plan(items, candidate_checks.asking_with_question("letter"))
    return Answers.concat([Answers.of(ask(planned, one)) for one in scorers])


def checked(some: Sequence[Pool], answers: Answers) -> tuple[tuple[Pool, ...], candidate_checks.ModelCheck]:
    return candidate_checks.find_second_keys(some, [*candidate_checks.full_questions(some)], answers)


def doubted(some: Sequence[Pool]) -> list[tuple[int, str]]:
    return [(at, one.text) for at, pool in enumerate(some) for one in pool.candidates if one.doubt]


def ratios(some: Sequence[Pool]) -> list[np.ndarray[Any, Any]]:
    return [np.array([one.ratio for one in pool.candidates]) for pool in some]


@pytest.mark.parametrize(
    ("prefers", "expected"), (keys := contents("composing")["second_keys"]).values(), ids=keys
)
def test_a_second_key_is_what_every_voice_prefers(prefers: list[str], expected: list[Any]) -> None:
    weak = FakeScorer(finds("extra"), "weak")
    scorers = [
        weak if text == "weak" else FakeScorer(knows(text).taste, f"model {n}")
        for n, text in enumerate(prefers)
    ]
    assert [[*one] for one in doubted(checked(pools(), asked_of(scorers, pools()))[0])] == expected


def test_a_voice_finds_the_key_in_most_items_beyond_luck() -> None:
    some = pools()
    found = checked(some, asked_of([knows(), FakeScorer(finds("extra"), "weak")], some))[1]
    assert found.voices == ("m",)
    rates = [(rate.value, rate.n) for rate in map(found.prefers_key.__getitem__, ("m", "weak"))]
    assert rates == [(1.0, N), (0.0, N)]
    few = pools(n=3)
    assert checked(few, asked_of([knows()], few))[1].voices == ()


def test_the_key_is_not_always_first_and_many_candidates_are_asked_in_parts() -> None:
    some = pools(extra=60, n=10)
    items = [*candidate_checks.full_questions(some)]
    assert [item.k for item in items[:3]] == [26, 26, 12]
    answers = asked_of([FakeScorer(lambda one: -0.1 if one.continuation == " A" else -3.0, "first")], some)
    assert checked(some, answers)[1].voices == ()
    found = ratios(checked(some, asked_of([knows("extra 5 44")], some))[0])
    assert [(of >= 1).sum() for of in found] == [0] * 5 + [1] + [0] * 4
    assert not np.isnan(found[0]).any()


def test_answers_of_a_run_check_the_options_that_it_showed_and_picks_are_enough() -> None:
    some = pools()
    items = [pool.item for pool in some]

    def row(at: int, pick: int, scores: Sequence[float] = ()) -> Any:
        asked = Asked(items[at].id, "full", "m", (0, 1), "mmlu-v1", 1)
        only = [0.0 if j == pick else math.nan for j in range(2)]
        return answer(asked, scores or only, [float(j == pick) for j in range(2)])

    rows = [row(at, 0 if at == SECOND else 1, (-3.0, -0.1) if at == 1 else ()) for at in range(N)]
    made, _ = candidate_checks.find_second_keys(some, items, Answers.of(rows))
    own, extra = (np.array([of[at] for of in ratios(made)]) for at in (0, 1))
    assert [at for at in range(N) if own[at] >= 1] == [SECOND]
    assert own[1] == pytest.approx(math.exp(-2.9))
    assert np.isnan(extra).all()


def test_another_version_of_an_item_says_nothing() -> None:
    some = pools()
    other = [Item(pool.item.id, pool.item.stem, ("a", "b"), 0) for pool in some]
    planned = plan(other, candidate_checks.asking_with_question("letter"))
    answers = Answers.of(ask(planned, FakeScorer(finds("a"), "m")))
    assert np.isnan(np.concatenate(ratios(candidate_checks.find_second_keys(some, other, answers)[0]))).all()


def test_a_second_check_keeps_what_the_first_one_found() -> None:
    some = pools()
    for prefers in ("extra 5 1", ""):
        some, _ = checked(some, asked_of([knows(prefers)], pools()))
    assert doubted(some) == [(SECOND, "extra 5 1")]


@pytest.mark.parametrize(
    ("rated", "writers", "aside"),
    [((1.0, 0.5, math.nan), ["file"] * 2, ("second_key",)), ((1.0, 1.0, 2.0), [OWN], ("second_key",) * 2)],
)
def test_no_item_is_lost_and_reasons_are_kept(rated: Any, writers: list[str], aside: Texts) -> None:
    (pool,) = pools(extra=2, n=1)
    candidates = tuple(replace(one, ratio=r) for one, r in zip(pool.candidates, rated, strict=True))
    (found,) = without_doubtful([replace(pool, candidates=candidates)], fewest=1)
    assert ([c.writer for c in found.candidates], found.aside) == (writers, aside)


def consultation_of(
    some: tuple[Pool, ...],
    model: FakeScorer | None,
    votes: candidate_checks.Votes,
    tmp_path: Path,
    **how: Any,
) -> candidate_checks.Consultation:
    asks = candidate_checks.Consultants(models=(HFModel(name="m"),) if model else (), votes=votes, **how)
    with pytest.MonkeyPatch.context() as patch:
        opens(patch, lambda _: model, candidate_checks)
        return candidate_checks.consult(some, lambda _: some, (3, 3), asks, tmp_path, unwatched)


def votes_on(some: tuple[Pool, ...], text: str, *verdicts: str) -> candidate_checks.Votes:
    code = candidate_checks.candidate_code(some[SECOND].item, text)
    return {code: {f"rater {n}": said for n, said in enumerate(verdicts)}}


OVERRULED: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = contents("composing")["overruled"]


@pytest.mark.parametrize(("preferred", "verdicts", "aside"), OVERRULED.values(), ids=OVERRULED)
def test_people_overrule_models(preferred: str, verdicts: Texts, aside: Texts, tmp_path: Path) -> None:
    some = pools()
    found = consultation_of(some, knows(preferred), votes_on(some, "extra 5 1", *verdicts), tmp_path)
    assert [*found.pools[SECOND].aside] == aside
    assert ("extra 5 1" in found.pools[SECOND].texts) == (not aside)
    assert sum(len(pool.aside) for pool in found.pools) == len(aside)
    assert [check.voices for check in found.checks] == [(preferred or "m",)]
    assert sum(found.review.verdicts.values()) == bool(verdicts)


def test_a_run_is_asked_nothing_and_its_second_keys_count(tmp_path: Path) -> None:
    some = pools()
    items = [pool.item for pool in some]
    answers = Answers.of(ask(plan(items, Asking(views=("full",))), knows("wrong 5")))
    found = consultation_of(some, None, {}, tmp_path, run=(items, answers))
    assert found.pools[SECOND].aside == ("second_key",)
    assert "wrong 5" not in found.pools[SECOND].texts


def review_pools(n: int = 3) -> tuple[Pool, ...]:
    texts = [(f"Which of these is number {at}?", (f"right {at}", f"own {at}")) for at in range(n)]
    items = [Item(f"i{at}", *both, 0) for at, both in enumerate(texts)]
    offered = [[Candidate(f"=new {at}", "gpt"), Candidate(f"last {at}", "gpt")] for at in range(n)]
    return make_pools(items, offered)


def new(n: int) -> list[tuple[Candidate, ...]]:
    return [pool.candidates[1:] for pool in review_pools(n)]


def verdicts_on(n: int, votes: Votes) -> list[tuple[str, ...]]:
    return [tuple(one.verdict for one in pool.candidates) for pool in apply_votes(review_pools(n), votes)[0]]


def sheet_at(path: Path, n: int = 3) -> list[dict[str, str]]:
    write_review_sheet(path, review_sheet(review_pools(n), new(n), "s"))
    return list(csv.DictReader(path.open(encoding="utf-8", newline="")))


def filled(path: Path, said: list[str], rater: str = "") -> Path:
    rows = sheet_at(path, len(said) // 2)
    return sheet(path, [{**row, "verdict": one, "rater": rater} for row, one in zip(rows, said, strict=True)])


def test_a_sheet_has_a_row_for_each_candidate_and_runs_no_formula(tmp_path: Path) -> None:
    rows = sheet_at(tmp_path / "review.csv")
    assert [row["candidate"] for row in rows[:2]] == ["'=new 0", "last 0"]
    assert {row["verdict"] for row in rows} == {""}
    assert "gpt" not in (tmp_path / "review.csv").read_text()
    assert len({row["code"] for row in rows}) == 6


@pytest.mark.parametrize("name", ["review.csv", "review.html"])
def test_the_gate_knows_a_sheet_by_its_shape(tmp_path: Path, name: str) -> None:
    write_review_sheet(tmp_path / "review.csv", sheet := review_sheet(review_pools(), new(3), "s"))
    (tmp_path / "review.html").write_text(page(sheet, "review"), "utf-8")
    assert shapes_of((tmp_path / name).read_text("utf-8"))


SPELLED = {
    "1": "wrong", "1.0": "wrong", " Wrong ": "wrong", "2": "right too", "RIGHT_TOO": "right too", "3": "unclear", "": "",
}  # fmt: skip


@pytest.mark.parametrize(("written", "read"), SPELLED.items())
def test_verdicts_are_read_as_people_write_them(tmp_path: Path, written: str, read: str) -> None:
    votes = read_votes([filled(tmp_path / "anna.csv", [written, "1"])])
    assert verdicts_on(1, votes) == [("", read, "wrong")]
    assert apply_votes(review_pools(1), votes)[1].raters == ("anna",)


def test_an_unknown_verdict_is_named_by_its_line_and_not_by_its_text(tmp_path: Path) -> None:
    with refuses("unknown-verdict", hidden="right 0") as error:
        read_votes([filled(tmp_path / "anna.csv", ["right 0?", "1"])])
    assert str(error.value).startswith("anna.csv:2: ")
    (tmp_path / "b.csv").write_text("item,verdict\ni0,1\n")
    with refuses("no-candidate-code"):
        read_votes([tmp_path / "b.csv"])


@pytest.mark.parametrize(
    ("said", "settled", "reason"),
    [("11", "wrong", ""), ("22", "right too", "right_too"), ("12", "unclear", "unclear")],
)
def test_two_raters_must_agree(tmp_path: Path, said: str, settled: str, reason: str) -> None:
    files = [filled(tmp_path / f"{who}.csv", [one, "1"]) for who, one in zip("ab", said, strict=True)]
    ((pool,), found) = apply_votes(review_pools(1), read_votes(files))
    assert [one.verdict for one in pool.candidates] == ["", settled, "wrong"]
    assert [one.doubt for one in pool.candidates] == ["", reason, ""]
    assert sum(found.verdicts.values()) == 2


def test_a_third_rater_decides_and_each_pair_has_its_kappa(tmp_path: Path) -> None:
    said = {"a": ["1", "2"] * 6, "b": ["1", "1"] * 6, "c": ["1", "2"] * 5 + ["", ""]}
    votes = read_votes([filled(tmp_path / f"{who}.csv", some) for who, some in said.items()])
    found = apply_votes(review_pools(6), votes)[1]
    assert verdicts_on(6, votes)[::5] == [("", "wrong", "right too"), ("", "wrong", "unclear")]
    kappas = {pair: (one.n, one.kappa.value) for pair, one in found.agreements.items()}
    assert (len(kappas), kappas["b", "c"][0]) == (3, 10)
    assert (kappas["a", "b"], kappas["a", "c"]) == ((12, 0.0), (10, 1.0))
    assert found.agreements["a", "c"].labels == VERDICTS


def test_verdicts_of_the_page_fit_a_pool_that_has_grown_and_was_retyped(tmp_path: Path) -> None:
    codes = {"i0": candidate_code(review_pools(1)[0].item, " =new  0"), "gone": "c0"}
    rows = [{"item": name, "code": code, "verdict": "wrong", "rater": "anna"} for name, code in codes.items()]
    votes = read_votes([jsonl(tmp_path / "votes.jsonl", rows)])
    found = apply_votes(review_pools(3), votes)[1]
    assert (verdicts_on(3, votes)[0][1], found.raters, found.unmatched) == ("wrong", ("anna",), 1)


def test_the_page_holds_its_texts_as_data_and_names_no_writer() -> None:
    item = Item("i", "Is <b>this</b> </script> a question?", ("a", "b"), 0)
    some = make_pools([item], [[Candidate("<img src=x>", "gpt")]])
    written = page(review_sheet(some, [some[0].candidates[1:]], "a & b"), "review")
    assert "a &amp; b: review" in written
    assert written.count("</script>") == 2
    assert "<img" not in written
    assert "gpt" not in written
    assert "http" not in written.replace("http-equiv", "")


ITEMS = [
    Item("q1", "Which colour has a ripe lemon?", ("yellow", "blue"), 0),
    Item("q2", "Which animal lays eggs in water?", ("frog", "horse"), 0),
    Item("q3", "Which animal lays eggs in water?", ("newt", "horse"), 0),
]
FROST = Item("frost", "What covers the grass at dawn?", ("Rain falls.", "A thin frost.", "Warm sand."), 1)


def _read(path: Path, text: str, columns: Any) -> tuple[list[list[list[str]]], dict[str, int]]:
    path.write_text(text)
    found, unmatched = read_candidates(ITEMS, [Source(path=str(path))], GUARD, columns)
    return [[[one.text, one.writer] for one in of] for of in found], unmatched


@pytest.mark.parametrize(("name", "text", "columns", "first"), cases("composing", "candidates_read"))
def test_files_of_any_form_are_read(tmp_path: Path, name: str, text: str, columns: Any, first: Any) -> None:
    assert _read(tmp_path / name, text, columns)[0] == [first, [], []]


def test_an_id_decides_only_where_the_question_does_not(tmp_path: Path) -> None:
    rows = [
        ("q2", ITEMS[0].stem, "by question"), ("q3", ITEMS[1].stem, "by both"), ("zz", ITEMS[1].stem, "for twins"),
        ("q1", "Which colour has a ripe yellow lemon?", "edited"), ("q1", "How far away is the moon?", "by chance"),
    ]  # fmt: skip
    lines = [json.dumps(dict(zip(("id", "question", "candidate"), row, strict=True))) for row in rows]
    found, unmatched = _read(tmp_path / "a.jsonl", "\n".join(lines), [])
    texts = [[text for text, _ in of] for of in found]
    assert texts == [["by question", "edited"], ["for twins"], ["by both", "for twins"]]
    assert unmatched == {"a.jsonl": 1}


@pytest.mark.parametrize(("text", "columns", "code"), cases("composing", "candidates_refused"))
def test_a_file_without_candidates_is_refused(tmp_path: Path, text: str, columns: Any, code: str) -> None:
    with refuses(code):
        _read(tmp_path / "a.jsonl", text, columns)


@pytest.mark.parametrize(("text", "reason"), cases("composing", "pool_aside"))
def test_what_is_no_candidate_is_set_aside_with_its_reason(text: str, reason: str) -> None:
    pool = make_pool(FROST, [Candidate(text, "file")])
    assert pool.aside == ((reason,) if reason else ())
    assert [one.writer for one in pool.candidates] == [OWN, OWN, *["file"] * (not reason)]


@pytest.mark.parametrize(("key", "text"), cases("composing", "pool_parts"))
def test_a_number_a_formula_or_a_part_of_a_word_is_a_candidate(key: str, text: str) -> None:
    item = Item("x", "Which one?", (key, "other"), 0)
    assert make_pool(item, [Candidate(text, "file")]).texts == (key, "other", text)


def test_the_key_of_another_item_with_the_same_question_is_no_candidate() -> None:
    twin = Item("twin", FROST.stem, ("Dew drops", "Warm sand"), 0)
    pools = make_pools([FROST, twin], [[Candidate("dew drops.", "file")], []])
    assert [pool.aside for pool in pools] == [("other_key",), ()]
    assert "frost" not in f"{pools!r} {pools[0].candidates!r}"


@pytest.mark.parametrize(("options", "same"), cases("composing", "pool_typography"))
def test_options_get_the_same_typography_and_keep_it(options: list[str], same: list[str]) -> None:
    assert [*unify_typography(options)] == [*unify_typography(same)] == same
    assert [same_form(one) for one in options] == [same_form(one) for one in same]


@pytest.mark.parametrize(("one", "other", "same"), cases("composing", "pool_repeated"))
def test_an_article_or_a_quote_makes_no_other_candidate(one: str, other: str, same: bool) -> None:
    for first, second in ((one, other), (other, one)):
        made = make_pool(Item("i", "Which?", ("green moss", first), 0), [Candidate(second, "w")])
        assert made.aside == (("repeated",) if same else ())
        assert len(made.candidates) == 2 - same
