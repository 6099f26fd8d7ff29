"""Consultation before a set is composed: a writer for what the pools lack, and models and people against second keys.

A model has a voice only if it finds the key among all candidates in most items, because a weak model would take the best
distractors for second keys. A candidate is a second key only if all voices say so. On the 12,032 questions of MMLU-Pro,
the best of 21 models contradicts 35 % of the keys, but the best three agree on another option in 7 %.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from robustify.base.arrays import RELATIVE_TIE, Floats
from robustify.base.redaction import HoldsText
from robustify.composing.pool import Candidate, Pool, without_doubtful
from robustify.composing.review import Review, Votes, reviewed
from robustify.composing.shortage import CandidateRequest, requests
from robustify.composing.typography import same_form
from robustify.composing.writers import CandidateWriter, WriterSettings
from robustify.freeform.running import Watch
from robustify.items.answers import Answers
from robustify.items.item import MOST, Item
from robustify.items.scoring import FULL_OF, Mode, as_compared
from robustify.judging.stats.intervals import Rate, rate
from robustify.models.asking import Asking, ask, plan
from robustify.models.engines import check_model, open_scorer
from robustify.models.engines.settings import ModelSettings
from robustify.models.replies import Replies

ROUNDS = 3
"""How often a writer is asked at most, because new candidates can be unfit, or lack a form themselves."""
MOST_ITEMS = 0.5
"""A model has a voice if it finds the key in more than this share of the items, by the lower bound of its interval."""
ORDERS = 4
"""Number of orders of the options over which probabilities are averaged."""
Grow = Callable[[Sequence[Sequence[Candidate]]], tuple[Pool, ...]]
"""Function that returns the pools with the given candidates added to each."""


@dataclass(frozen=True, slots=True)
class Consulting:
    """Who is consulted: a writer, models that see the question in `mode`, the items and answers of a run, and people."""

    writer: WriterSettings | None = None
    models: tuple[ModelSettings, ...] = ()
    mode: Mode = "letter"
    run: tuple[Sequence[Item], Answers] | None = None
    votes: Votes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checked:
    """Models that saw the question. `found` is the share of pools in which each prefers the key to all candidates that it
    saw, and `voices` names those that have a voice."""

    found: dict[str, Rate]
    voices: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Consulted(HoldsText):
    """Pools after the consultation, the numbers of the writer, and what models and people said of the candidates."""

    pools: tuple[Pool, ...]
    writer: Mapping[str, Any] | None
    checks: tuple[Checked, ...]
    review: Review

    def tree(self) -> dict[str, Any]:
        """Return the numbers as a JSON object, without text."""
        said = {name: getattr(self.review, name) for name in ("raters", "verdicts", "unmatched")}
        said["agreement"] = [{"raters": pair, **one.json()} for pair, one in self.review.agreements.items()]
        return {"writer": self.writer, "checks": [asdict(one) for one in self.checks], "review": said}


def wanted(pools: Sequence[Pool], shown: tuple[int, int]) -> list[CandidateRequest]:
    """Return what a writer is asked for: the requests of the pools, and as many candidates as make twice those shown."""
    asked = {one.at: one for one in requests(pools, shown)}
    for at, pool in enumerate(pools):
        one = asked.get(at, CandidateRequest(at, 0))
        asked[at] = replace(one, n=max(one.n, 2 * (shown[1] - 1) - len(pool.candidates)))
    return [one for _, one in sorted(asked.items()) if one.n > 0]


def consulted(
    pools: Sequence[Pool], grow: Grow, shown: tuple[int, int], how: Consulting, cache: Path, watch: Watch
) -> Consulted:
    """Ask a writer, then models, then people, and set second keys aside.

    Raises:
        UsageError: the engine of the writer only scores options.
        ModelError: a model cannot be opened, or keeps failing.
        UnaskableError: questions do not fit into a model.
    """
    # A wrong model must not be noticed after a writer was paid.
    for one in how.models:
        check_model(one, cache, asking_with_question(how.mode).templates())
    pools, said = tuple(pools), None
    if how.writer is not None:
        with Replies(cache) as kept, open_scorer(how.writer.model, cache) as model:
            writer = CandidateWriter(model, kept, how.writer)
            pools = _asked(writer, pools, grow, shown, watch)
        said = {
            "writer": how.writer.model.name, "replies": writer.replies, "unread": dict(writer.unread.most_common()),
            "unasked": writer.unasked, "lacking": len(wanted(pools, shown)), "spent": dict(writer.spent),
        }  # fmt: skip
    sources, checks = [] if how.run is None else [how.run], list[Checked]()
    if how.models:
        questions = [*whole_questions(pools)]
        sources.append((questions, _answers(questions, how, cache, watch)))
    for source in sources:
        pools, found = second_keys(pools, *source)
        checks.append(found)
    pools, review = reviewed(pools, how.votes)
    return Consulted(without_doubtful(pools, shown[0] - 1), said, tuple(checks), review)


def _asked(
    writer: CandidateWriter, pools: tuple[Pool, ...], grow: Grow, shown: tuple[int, int], watch: Watch
) -> tuple[Pool, ...]:
    """Ask a writer in rounds, and return the pools with its candidates."""
    offered: list[tuple[Candidate, ...]] = [()] * len(pools)
    for number in range(1, ROUNDS + 1):
        if not (lacking := wanted(pools, shown)):
            break
        with watch(f"candidates, round {number}", len(lacking)) as progress:
            new = writer.candidates(pools, lacking, progress)
        offered = [(*old, *more) for old, more in zip(offered, new, strict=True)]
        pools = grow(offered)
    return pools


def _answers(questions: Sequence[Item], how: Consulting, cache: Path, watch: Watch) -> Answers:
    planned = plan(questions, asking_with_question(how.mode))
    n, tables = sum(len(one.requests) for one in planned), []
    for model in how.models:
        with watch(f"loading {model.name}", n) as progress, open_scorer(model, cache) as scorer:
            tables.append(Answers.of(ask(planned, scorer, progress)))
    return Answers.concat(tables)


def asking_with_question(mode: Mode) -> Asking:
    """Return how models are asked for the right one of all candidates."""
    how = {"mode": mode, "views": (FULL_OF[mode],), "orders": ORDERS, "full_rotations": False}
    return Asking.model_validate(how)


def whole_questions(pools: Sequence[Pool]) -> Iterator[Item]:
    """Yield an item with all candidates of each pool, or several for more than 25 candidates. The key is the first
    option of an item, and among the others in most of the orders in which it is asked."""
    for pool in pools:
        (key, *others), about = pool.texts, pool.item
        for start in range(0, len(others), MOST - 1):
            shown = (key, *others[start : start + MOST - 1])
            yield Item(f"{about.id}\0{start}" if start else about.id, about.stem, shown, 0)


def second_keys(
    pools: Sequence[Pool], items: Sequence[Item], answers: Answers
) -> tuple[tuple[Pool, ...], Checked]:
    """Check candidates by the answers of models that saw the question, from a run or to `whole_questions`.

    The ratio of a candidate is its probability divided by that of the key or by an even share, whichever is larger: the
    least of all voices, unless an earlier check found more. From 1 on, it is a second key. Candidates are found in the
    options of `items` by their texts.
    """
    by_model = {name: _ratios(pools, items, answers, view, name) for name, view in _views(answers).items()}
    found, voices = dict[str, Rate](), list[str]()
    for name, ratios in by_model.items():
        seen = [some[~np.isnan(some)] for some in ratios]
        found[name] = rate(np.array([float((some < 1).all()) for some in seen if len(some)]))
        if (interval := found[name].ci) is not None and interval[0] > MOST_ITEMS:
            voices.append(name)
    made = list(pools)
    for at, pool in enumerate(pools if voices else ()):
        least = np.fmin.reduce([by_model[name][at] for name in voices])
        ratios = np.fmax(least, [one.ratio for one in pool.candidates]).tolist()
        rated = (replace(one, ratio=r) for one, r in zip(pool.candidates, ratios, strict=True))
        made[at] = replace(pool, candidates=tuple(rated))
    return tuple(made), Checked(found, tuple(voices))


def _views(answers: Answers) -> dict[str, str]:
    """Return the view in which each model saw the question, by letter if possible."""
    asked = answers.askings()
    return {m: view for view in ("cloze", *reversed(FULL_OF.values())) for v, m, _ in asked if v == view}


def _ratios(
    pools: Sequence[Pool], items: Sequence[Item], answers: Answers, view: str, model: str
) -> list[Floats]:
    """Return the ratios of one model, by pool and candidate. A row without scores has only its pick."""
    block = as_compared(answers.block(view, model), view)
    scores = np.where(np.isnan(block.scores), -np.inf, block.scores)
    bare = np.isneginf(scores).all(axis=1) & (block.pick >= 0)
    scores[bare, block.pick[bare]] = 0.0
    shares: dict[str, Floats] = {}
    for row in np.flatnonzero(np.isfinite(scores).any(axis=1)).tolist():
        name = answers.items[block.item[row]]
        shares[name] = shares.get(name, np.zeros(1)) + softmax(scores[row])
    ratios: dict[str, dict[str, float]] = {}
    for item in items:
        if item.id in shares:
            share = shares[item.id][: item.k] / shares[item.id][: item.k].sum()
            likely = share / max(share[item.key], (1 + RELATIVE_TIE) / item.k)
            of = zip(map(same_form, item.choices), likely.tolist(), strict=True)
            ratios.setdefault(item.id.partition("\0")[0], {}).update(of)
    found = []
    for pool in pools:
        key, *others = map(same_form, pool.texts)
        seen = ratios.get(pool.item.id, {})
        found.append(np.array([seen.get(one, np.nan) if key in seen else np.nan for one in others]))
    return found
