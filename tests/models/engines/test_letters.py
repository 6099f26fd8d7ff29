"""Letters from servers that show few probabilities or none: shares of a chat's replies, letters known by a bound alone,
and texts that end where a letter was asked for."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from robustify.wings import wings

pytest.importorskip("openai", reason="the openai extra is not installed")

from robustify.items.answers import Answer, Answers, Asked, answer
from robustify.items.item import Item
from robustify.items.views import Asking, Request
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screen.votes import UNANSWERED
from robustify.models.asking import ask, plan
from robustify.models.engines.cache import Cache
from robustify.models.engines.openai.engine import OpenAIServer
from robustify.models.engines.protocols import Logprob
from robustify.pipeline import steps
from tests.support.cases import contents
from tests.support.fake_scorer import FakeScorer
from tests.support.openai_stub import Stub, Toy, config, model, scored, stub
from tests.support.rules import collect_votes

LETTERS = [Request("A. blue\nB. red\nC. green\nAnswer:", f" {letter}") for letter in "ABC"]
CASES = contents("models")
CHAT: dict[str, Any] = {"completions": False, "letters": "structured"}


def answers(server: Stub, home: Path, items: Sequence[Item], asking: Asking, **changes: Any) -> list[Answer]:
    with Cache(home) as cache, OpenAIServer(model(server, **changes), cache) as engine:
        return list(ask(plan(items, asking), engine))


def item(name: str, k: int = 4, key: int = 1) -> Item:
    return Item(name, f"Which is it, {name}?", tuple(f"thing {j}" for j in range(k)), key, "")


# a server that only chats


@pytest.mark.parametrize("letters", ["structured", "first"])
@pytest.mark.parametrize("several", [True, False])
def test_shares_of_replies_are_the_probabilities_but_for_the_noise_of_drawing(
    letters: str, several: bool, tmp_path: Path
) -> None:
    n = 300
    with stub(completions=False, letters=letters, several=several) as server:
        found = scored(server, tmp_path, LETTERS, samples=n)
    assert [(s.n_tokens, s.draws) for s in found] == [(1, n)] * 3
    brain = Toy()
    after = {brain.text(t): lp for t, lp in brain.scored(brain.encode(LETTERS[0].context))[-1].items()}
    known = np.exp([after[f" {c}"] for c in "ABC"])
    for one, true in zip(found, known / known.sum(), strict=True):
        assert abs(math.exp(one.total) - true) < 5 * math.sqrt(true * (1 - true) / n) + 1 / n
    assert sum(math.exp(s.total) for s in found) == pytest.approx(1)


def test_replies_that_name_no_letter_are_no_answer_and_no_wrong_one(tmp_path: Path) -> None:
    items = [item(f"i{n}") for n in range(6)]
    asking = Asking(views=("full",), orders=1)
    with stub(**CHAT, mute=2) as server:
        rows = answers(server, tmp_path / "half", items, asking, samples=4, concurrency=1)
    assert {(r.pick, r.correct, r.scores, r.error) for r in rows} == {
        (None, None, (), "no_letter_in_replies")
    }
    with stub(**CHAT, mute=4) as server:
        rows = answers(server, tmp_path / "quarter", items, asking, samples=4, concurrency=1)
    assert all(r.pick is not None and r.draws == 3 for r in rows)


def test_a_question_that_a_filter_stops_is_unanswered_and_the_others_are_not(tmp_path: Path) -> None:
    items = [item("plain"), item("forbidden"), item("other")]
    with stub(**CHAT, filtered="forbidden") as server:
        rows = answers(server, tmp_path, items, Asking(views=("full",), orders=1))
    assert [r.error for r in rows] == [None, "no_letter_in_replies", None]


def test_replies_that_were_kept_are_not_drawn_again(tmp_path: Path) -> None:
    with stub(**CHAT) as server:
        first = scored(server, tmp_path, LETTERS)
        server.bodies = []
        assert scored(server, tmp_path, LETTERS) == first
        assert not any("green" in str(body) for body in server.bodies)
        # Another number of replies, or other letters to choose among, is another question.
        assert {s.draws for s in scored(server, tmp_path, LETTERS, samples=6)} == {6}
        asked = sum("green" in str(body) for body in server.bodies)
        scored(server, tmp_path, LETTERS[:2])
        assert sum("green" in str(body) for body in server.bodies) > asked > 0


def test_a_chat_votes_and_its_own_error_reaches_the_answers_the_summary_and_the_report(
    tmp_path: Path, items: Path
) -> None:
    with stub(**CHAT) as server:
        asked = config(server, items, asking={"views": ["choices_only", "full"]})
        run = steps.robustify(asked, tmp_path / "run", tmp_path / "cache", wings())
        server.bodies = []
        again = steps.robustify(asked, tmp_path / "warm", tmp_path / "cache", wings())
        assert not any("cup number" in str(body) for body in server.bodies)
    assert again.summary == run.summary
    table = pq.read_table(run.folder / "answers.parquet")
    drawn = {
        d for v, d in zip(table["view"].to_pylist(), table["draws"].to_pylist(), strict=True) if v == "full"
    }
    assert drawn == {5}
    voter = run.summary.tree()["screen"]["voters"]["toy"]
    assert voter["replies"] == 5
    assert voter["answered"] == 8
    assert run.summary.tree()["calibration"]["toy"]["full"] is None
    assert "5 replies" in (run.folder / "report.html").read_text()
    told = json.loads((run.folder / "run.json").read_text())["models"]["toy"]
    assert told["samples"] == "5"
    assert steps.rejudge(run, {}, tmp_path / "judged").summary == run.summary


# letters that are not among the likeliest


class Bounded(FakeScorer):
    """Scores by letter; a letter without one is not shown, and no likelier than -9."""

    def __init__(self, known: dict[str, float]) -> None:
        super().__init__(lambda _: 0.0)
        self.known = known

    def loglikelihoods(self, requests: Sequence[Request], progress: Any = None) -> list[Logprob]:
        totals = [self.known.get(r.continuation.strip()) for r in requests]
        return [Logprob(-9.0, 0) if total is None else Logprob(total, 1) for total in totals]


@pytest.mark.parametrize(("known", "pick"), CASES["shown_letters"])
def test_one_letter_that_is_shown_is_the_pick_where_no_other_can_be_likelier(
    known: dict[str, float], pick: int | None
) -> None:
    (row,) = ask(plan([item("x")], Asking(views=("full",), orders=1)), Bounded(known))
    assert row.pick == pick
    assert row.error == (None if pick is not None else "letter_not_shown")
    if pick is not None:
        assert row.at_most == -9.0
        assert [None if math.isnan(s) else s for s in row.scores] == [known.get(c) for c in "ABCD"]
        assert row.tie == list(known.values()).count(-0.1)


def by_rotation(items: Sequence[Sequence[dict[int, float]]], at_most: float = -9.0) -> Answers:
    """The rows of items of four options, each shown at every place once: by item and order what is known of each."""
    rows = []
    for number, known in enumerate(items):
        for turn, scores in enumerate(known):
            order = tuple((j + turn) % 4 for j in range(4))
            values = [scores.get(j, math.nan) for j in range(4)]
            ranked = [scores.get(j, -math.inf) for j in range(4)]
            bound = None if len(scores) == 4 else at_most
            asked = Asked(f"x{number}", "choices_only", "toy", order, "t", 0)
            rows.append(answer(asked, values, ranked, at_most=bound))
    return Answers.of(rows)


@pytest.mark.parametrize(("known", "choice"), CASES["shown_in_orders"])
def test_orders_are_averaged_as_far_as_the_bounds_fix_the_pick(
    known: list[dict[int, float]], choice: int | None
) -> None:
    (votes,) = collect_votes(by_rotation([known]), ScreenRules(), ["x0"]).pick.tolist()
    assert votes == [UNANSWERED if choice is None else choice]


@pytest.mark.parametrize(("bound", "counts"), [(-1.0, (11, 391)), (-2.5, (80, 400)), (-5.0, (252, 400))])
def test_a_pick_by_bounds_is_the_pick_that_all_numbers_would_have_given(
    bound: float, counts: tuple[int, int]
) -> None:
    """`counts`: the items whose pick the bound fixes, and those with a letter shown in each order."""
    rng = np.random.default_rng(3)
    drawn = np.log(rng.dirichlet([0.25] * 4, size=(400, 4))).tolist()
    full = [[dict(enumerate(row)) for row in one] for one in drawn if min(max(row) for row in one) > bound]
    shown = [[{j: lp for j, lp in row.items() if lp > bound} for row in one] for one in full]
    names = [f"x{i}" for i in range(len(full))]
    whole, found = (
        collect_votes(table, ScreenRules(), names).pick[:, 0]
        for table in (by_rotation(full), by_rotation(shown, bound))
    )
    fixed = found != UNANSWERED
    assert (found[fixed] == whole[fixed]).all()
    assert (fixed.sum(), len(full)) == counts


# texts that end at once


def test_where_a_text_always_ends_a_letter_is_read_from_a_prompt_or_is_not_shown() -> None:
    with stub() as server, OpenAIServer(model(server, concurrency=1)) as engine:
        first = engine.loglikelihoods(LETTERS)
        server.manner.ended = 10**6
        found = engine.loglikelihoods(LETTERS)
        assert [s.total for s in found] == pytest.approx([s.total for s in first])
    with stub(echo="none") as server, OpenAIServer(model(server, concurrency=1)) as engine:
        engine.fingerprint()
        server.manner.ended = 10**6
        (row,) = ask(plan([item("x")], Asking(views=("full",), orders=1)), engine)
    assert (row.pick, row.error) == (None, "letter_not_shown")


@pytest.mark.parametrize("ended", [0, 10**6])
def test_an_echo_is_the_prompt_whether_or_not_a_token_follows_it(ended: int) -> None:
    texts = [Request("Question: the secret cat\nAnswer:", f" {t}") for t in ("blue", "blue mat", "red")]
    with stub(usage=False) as server, OpenAIServer(model(server)) as engine:
        first = engine.loglikelihoods(texts)
        server.manner.ended = ended
        assert engine.loglikelihoods(texts) == first
