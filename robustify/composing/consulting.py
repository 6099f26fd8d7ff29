"""Checks before a set is composed: a writer fills gaps in the pools, and models and people look for candidates that are
also correct.

A model has a voice only if it finds the key among all candidates in most items, because a weak model would take the best
distractors for second keys. A candidate is a second key only if all voices say so. On the 12,032 questions of MMLU-Pro,
the best of 21 models contradicts 35 % of the keys, but the best three agree on another option in 7 %. The author's own
distractors need no review by people.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from robustify.base.arrays import RELATIVE_TIE, Floats
from robustify.base.errors import DataError
from robustify.base.redaction import HoldsText
from robustify.composing.pool import UNCLEAR, VERDICTS, Candidate, Pool, same_form, without_doubtful
from robustify.composing.writers import CandidateWriter, Grow, WriterSettings
from robustify.items.answers import Answers
from robustify.items.item import MOST, Item
from robustify.items.scoring import FULL_OF, Mode, as_compared
from robustify.judging.stats.intervals import Agreement, Rate, agreement, majority_vote, rate
from robustify.models.asking import Asking, ask, plan
from robustify.models.engines import check_model, open_scorer
from robustify.models.engines.protocols import Watch
from robustify.models.engines.settings import ModelSettings
from robustify.models.replies import Replies
from robustify.reading.jsonl import read_jsonl

MOST_ITEMS = 0.5
"""A model has a voice if it finds the key in more than this share of the items, by the lower bound of its interval."""
ORDERS = 4
"""Number of orders of the options over which probabilities are averaged."""
_SPELLED = {
    spelling: said for at, said in enumerate(VERDICTS, start=1) for spelling in (said, str(at), f"{at}.0")
}
Votes = Mapping[str, Mapping[str, str]]
"""Verdict by code of the candidate and rater."""


@dataclass(frozen=True, slots=True)
class Consulting:
    """Sources of candidates and verdicts: a writer, models that see the question in `mode`, a run's answers, and people."""

    writer: WriterSettings | None = None
    models: tuple[ModelSettings, ...] = ()
    mode: Mode = "letter"
    run: tuple[Sequence[Item], Answers] | None = None
    votes: Votes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of checking candidates with models that saw the question. `found` is the share of pools in which each model
    prefers the key to all candidates that it saw, and `voices` names those that have a voice."""

    found: dict[str, Rate]
    voices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Review:
    """Verdicts of people on candidates. `verdicts` counts candidates by the verdict that counts. There is an agreement for
    each pair of `raters` with common candidates. `unmatched` counts candidates that no pool has."""

    verdicts: Mapping[str, int]
    raters: tuple[str, ...]
    agreements: Mapping[tuple[str, str], Agreement]
    unmatched: int


@dataclass(frozen=True, slots=True, repr=False)
class Consulted(HoldsText):
    """Pools after the consultation, statistics of the writer, and the verdicts of models and people on candidates."""

    pools: tuple[Pool, ...]
    writer: Mapping[str, Any] | None
    checks: tuple[Checked, ...]
    review: Review

    def tree(self) -> dict[str, Any]:
        """Return the numbers as a JSON object, without text."""
        said = {name: getattr(self.review, name) for name in ("raters", "verdicts", "unmatched")}
        said["agreement"] = [{"raters": pair, **one.json()} for pair, one in self.review.agreements.items()]
        return {"writer": self.writer, "checks": [asdict(one) for one in self.checks], "review": said}


def consulted(
    pools: Sequence[Pool], grow: Grow, shown: tuple[int, int], how: Consulting, cache: Path, watch: Watch
) -> Consulted:
    """Let a writer add candidates, and set aside those that models or people also consider correct.

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
            pools, said = CandidateWriter(model, kept, how.writer).grown(pools, grow, shown, watch)
    sources, checks = [] if how.run is None else [how.run], list[Checked]()
    if how.models:
        questions = [*whole_questions(pools)]
        sources.append((questions, _answers(questions, how, cache, watch)))
    for source in sources:
        pools, found = second_keys(pools, *source)
        checks.append(found)
    pools, review = reviewed(pools, how.votes)
    return Consulted(without_doubtful(pools, shown[0] - 1), said, tuple(checks), review)


def _answers(questions: Sequence[Item], how: Consulting, cache: Path, watch: Watch) -> Answers:
    planned = plan(questions, asking_with_question(how.mode))
    n, tables = sum(len(one.requests) for one in planned), []
    for model in how.models:
        with watch(f"loading {model.name}", n) as progress, open_scorer(model, cache) as scorer:
            tables.append(Answers.of(ask(planned, scorer, progress)))
    return Answers.concat(tables)


def asking_with_question(mode: Mode) -> Asking:
    """Return the settings for asking models a question with all its candidates."""
    how = {"mode": mode, "views": (FULL_OF[mode],), "orders": ORDERS, "full_rotations": False}
    return Asking.model_validate(how)


def whole_questions(pools: Sequence[Pool]) -> Iterator[Item]:
    """Yield an item for each pool, with the key and all candidates, or several items if there are more than 25 candidates.
    The key is the first option of an item, and among the others in most of the orders in which it is asked."""
    for pool in pools:
        (key, *others), about = pool.texts, pool.item
        for start in range(0, len(others), MOST - 1):
            shown = (key, *others[start : start + MOST - 1])
            yield Item(f"{about.id}\0{start}" if start else about.id, about.stem, shown, 0)


def second_keys(
    pools: Sequence[Pool], items: Sequence[Item], answers: Answers
) -> tuple[tuple[Pool, ...], Checked]:
    """Find the candidates that models consider right when they see the question, in a run or in `whole_questions`.

    The ratio of a candidate is its probability divided by that of the key or by an even share, whichever is larger: the
    least of all voices, unless an earlier check found more. From 1 on, it is a second key. Candidates are found in the
    options of `items` by their texts.
    """
    asked = answers.askings()
    # Each model is read in one view in which it saw the question, by letter if possible.
    views = {m: view for view in ("cloze", *reversed(FULL_OF.values())) for v, m, _ in asked if v == view}
    by_model = {name: _ratios(pools, items, answers, view, name) for name, view in views.items()}
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


def _ratios(
    pools: Sequence[Pool], items: Sequence[Item], answers: Answers, view: str, model: str
) -> list[Floats]:
    """Return, for each pool, each candidate's probability relative to the key. A row without scores has only its pick."""
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


def code_of(item: Item, text: str) -> str:
    """Return the code by which verdicts refer to a candidate. It depends neither on typography nor on the pool."""
    named = f"{item.id}\0{same_form(text)}".encode("utf-8", "surrogatepass")
    return f"c{sha256(named).hexdigest()[:15]}"


def read_votes(paths: Iterable[Path]) -> Votes:
    """Read verdicts from CSV or JSON Lines files. A row has `code`, `verdict`, and maybe `rater`, by default the
    file's name. Rows without a verdict are skipped. Raise `DataError` if rows have no code or another verdict."""
    votes: dict[str, dict[str, str]] = {}
    for path in paths:
        for code, rater, verdict in read_jsonl(path, partial(_vote, path.stem)):
            if verdict:
                votes.setdefault(code, {})[rater] = verdict
    return votes


def _vote(name: str, cells: Mapping[str, Any]) -> tuple[str, str, str]:
    code, said, rater = (str(cells.get(part) or "").strip() for part in ("code", "verdict", "rater"))
    spelled = " ".join(said.casefold().replace("_", " ").split())
    if not code or (spelled and spelled not in _SPELLED):
        expected = ", ".join(f"{at} ({one})" for at, one in enumerate(VERDICTS, start=1))
        raise DataError(f"found {'another verdict' if code else 'no code'}; expected a code and {expected}")
    return code, rater or name, _SPELLED.get(spelled, "")


def reviewed(pools: Sequence[Pool], votes: Votes) -> tuple[tuple[Pool, ...], Review]:
    """Return the pools with people's verdicts on their candidates, and how well each pair of raters agrees.

    If raters differ, the majority counts, and without one the candidate is unclear.
    """
    place = {code_of(pool.item, one.text): at for at, pool in enumerate(pools) for one in pool.candidates}
    known = {code: votes[code] for code in place if votes.get(code)}
    raters = sorted({rater for by in votes.values() for rater in by})
    agreements = {}
    for pair in combinations(raters, 2):
        if both := [code for code, by in known.items() if by.keys() >= {*pair}]:
            one, other = ([known[code][rater] for code in both] for rater in pair)
            groups = np.array([place[code] for code in both])
            agreements[pair] = agreement(one, other, VERDICTS, groups=groups)
    said = {code: majority_vote([*by.values()]).verdict or UNCLEAR for code, by in known.items()}
    made = []
    for pool in pools:
        marked = (replace(c, verdict=said.get(code_of(pool.item, c.text), "")) for c in pool.candidates)
        made.append(replace(pool, candidates=tuple(marked)))
    unmatched = len(votes.keys() - place.keys())
    return tuple(made), Review(Counter(said.values()), tuple(raters), agreements, unmatched)


def review_sheet(pools: Sequence[Pool], which: Sequence[Sequence[Candidate]], name: str) -> dict[str, Any]:
    """Return the data of a page on which people review the candidates `which` of each pool. Writers are not shown,
    because they could sway a rater."""
    items, codes = list[dict[str, Any]](), list[str]()
    for pool, some in zip(pools, which, strict=True):
        if some:
            own = [code_of(pool.item, one.text) if one in some else "" for one in pool.candidates]
            about = {"id": pool.item.id, "stem": pool.item.stem, "choices": list(pool.texts), "key": 0}
            items.append({**about, "codes": ["", *own]})
            codes += own
    sheet = sha256("".join(codes).encode()).hexdigest()[:16]
    return {"name": name, "sheet": sheet, "verdicts": list(VERDICTS), "items": items}
