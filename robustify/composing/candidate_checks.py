"""Prepare the pools of candidates: writers fill gaps, and models and people search for candidates that are also correct.

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
from robustify.items.views import Asking
from robustify.judging.stats.intervals import Agreement, Rate, agreement, majority_vote, rate
from robustify.models.asking import ask, plan
from robustify.models.engines import check_model, open_scorer
from robustify.models.engines.protocols import Watch
from robustify.models.model_settings import ModelSettings
from robustify.models.replies import Replies
from robustify.reading.jsonl import read_jsonl

MOST_ITEMS = 0.5
"""A model has a voice if it finds the key in more than this share of the items, by the lower bound of its interval."""
ORDERS = 4
"""Number of orders of the options over which probabilities are averaged."""
_SPELLED = {
    spelling: verdict
    for n, verdict in enumerate(VERDICTS, start=1)
    for spelling in (verdict, str(n), f"{n}.0")
}
Votes = Mapping[str, Mapping[str, str]]
"""Verdict by code of the candidate and rater."""


@dataclass(frozen=True, slots=True)
class Consultants:
    """Sources of candidates and of verdicts on them. `writer` adds candidates. `models` are asked the question, and answer
    in `mode`. `run` has the items and answers of a run, and `votes` has the verdicts of people."""

    writer: WriterSettings | None = None
    models: tuple[ModelSettings, ...] = ()
    mode: Mode = "letter"
    run: tuple[Sequence[Item], Answers] | None = None
    votes: Votes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """Result of checking candidates with models that saw the question. `prefers_key` is the share of pools in which a model
    prefers the key to all candidates that it saw. `voices` are the models whose opinion counts."""

    prefers_key: dict[str, Rate]
    voices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Review:
    """Verdicts of people on candidates. `verdicts` is the number of candidates with each final verdict. There is an
    agreement for each pair of `raters` with common candidates. `unmatched` counts rated candidates that are in no pool."""

    verdicts: Mapping[str, int]
    raters: tuple[str, ...]
    agreements: Mapping[tuple[str, str], Agreement]
    unmatched: int


@dataclass(frozen=True, slots=True, repr=False)
class Consultation(HoldsText):
    """Result of `consult`: the checked pools, the writer's statistics, and the verdicts of models and people on
    candidates."""

    pools: tuple[Pool, ...]
    writer: Mapping[str, Any] | None
    checks: tuple[ModelCheck, ...]
    review: Review

    def tree(self) -> dict[str, Any]:
        """Return the numbers as a JSON object, without text."""
        review = {name: getattr(self.review, name) for name in ("raters", "verdicts", "unmatched")}
        agreements = self.review.agreements.items()
        review["agreement"] = [{"raters": pair, **agreement.json()} for pair, agreement in agreements]
        checks = [{"found": asdict(check)["prefers_key"], "voices": check.voices} for check in self.checks]
        return {"writer": self.writer, "checks": checks, "review": review}


def consult(
    pools: Sequence[Pool],
    grow: Grow,
    shown: tuple[int, int],
    consultants: Consultants,
    cache: Path,
    watch: Watch,
) -> Consultation:
    """Let a writer add candidates, and set aside candidates that models or people also consider correct.

    Raises:
        UsageError: the engine of the writer only scores options.
        ModelError: a model cannot be opened, or keeps failing.
        UnaskableError: questions do not fit into a model.
    """
    # A wrong model must not be noticed after a writer was paid.
    for settings in consultants.models:
        check_model(settings, cache, asking_with_question(consultants.mode).templates())
    pools, writer_numbers = tuple(pools), None
    if (writer := consultants.writer) is not None:
        with Replies(cache) as kept, open_scorer(writer.model, cache) as model:
            pools, writer_numbers = CandidateWriter(model, kept, writer).fill_pools(pools, grow, shown, watch)
    sources, checks = [] if consultants.run is None else [consultants.run], list[ModelCheck]()
    if consultants.models:
        questions = [*full_questions(pools)]
        sources.append((questions, _answers(questions, consultants, cache, watch)))
    for source in sources:
        pools, check = find_second_keys(pools, *source)
        checks.append(check)
    pools, review = apply_votes(pools, consultants.votes)
    return Consultation(without_doubtful(pools, shown[0] - 1), writer_numbers, tuple(checks), review)


def _answers(questions: Sequence[Item], consultants: Consultants, cache: Path, watch: Watch) -> Answers:
    planned = plan(questions, asking_with_question(consultants.mode))
    n, tables = sum(len(asking.requests) for asking in planned), []
    for model in consultants.models:
        with watch(f"loading {model.name}", n) as progress, open_scorer(model, cache) as scorer:
            tables.append(Answers.of(ask(planned, scorer, progress)))
    return Answers.concat(tables)


def asking_with_question(mode: Mode) -> Asking:
    """Return the settings for asking models a question with all its candidates."""
    settings = {"mode": mode, "views": (FULL_OF[mode],), "orders": ORDERS, "full_rotations": False}
    return Asking.model_validate(settings)


def full_questions(pools: Sequence[Pool]) -> Iterator[Item]:
    """Yield an item for each pool, with the key and all candidates. More than 25 candidates are divided among several
    items. The key is the first option of an item, but in most of the orders in which the item is asked, it is elsewhere."""
    for pool in pools:
        (key, *others), about = pool.texts, pool.item
        for start in range(0, len(others), MOST - 1):
            shown = (key, *others[start : start + MOST - 1])
            yield Item(f"{about.id}\0{start}" if start else about.id, about.stem, shown, 0)


def find_second_keys(
    pools: Sequence[Pool], items: Sequence[Item], answers: Answers
) -> tuple[tuple[Pool, ...], ModelCheck]:
    """Find candidates that models consider correct when they see the question, in a run or in `full_questions`.

    The ratio of a candidate is its probability divided by that of the key or by an even share, whichever is larger: the
    least of all voices, unless an earlier check found more. From 1 on, it is a second key. Candidates are found in the
    options of `items` by their texts.
    """
    # Each model is read in one view in which it saw the question, by letter if possible.
    askings, preference = answers.askings(), ("cloze", *reversed(FULL_OF.values()))
    views = {model: view for preferred in preference for view, model, _ in askings if view == preferred}
    by_model = {name: _ratios(pools, items, answers, view, name) for name, view in views.items()}
    prefers_key, voices = dict[str, Rate](), list[str]()
    for name, ratios in by_model.items():
        seen_ratios = [pool_ratios[~np.isnan(pool_ratios)] for pool_ratios in ratios]
        prefers_key[name] = rate(np.array([float((seen < 1).all()) for seen in seen_ratios if len(seen)]))
        if (interval := prefers_key[name].ci) is not None and interval[0] > MOST_ITEMS:
            voices.append(name)
    rated_pools = list(pools)
    for i, pool in enumerate(pools if voices else ()):
        least = np.fmin.reduce([by_model[name][i] for name in voices])
        ratios = np.fmax(least, [candidate.ratio for candidate in pool.candidates]).tolist()
        rated = (replace(candidate, ratio=r) for candidate, r in zip(pool.candidates, ratios, strict=True))
        rated_pools[i] = replace(pool, candidates=tuple(rated))
    return tuple(rated_pools), ModelCheck(prefers_key, tuple(voices))


def _ratios(
    pools: Sequence[Pool], items: Sequence[Item], answers: Answers, view: str, model: str
) -> list[Floats]:
    """Return each candidate's probability divided by the key's, for each pool. A row without scores has only a pick."""
    block = as_compared(answers.block(view, model), view)
    scores = np.where(np.isnan(block.scores), -np.inf, block.scores)
    unscored = np.isneginf(scores).all(axis=1) & (block.pick >= 0)
    scores[unscored, block.pick[unscored]] = 0.0
    shares: dict[str, Floats] = {}
    for row in np.flatnonzero(np.isfinite(scores).any(axis=1)).tolist():
        name = answers.items[block.item[row]]
        shares[name] = shares.get(name, np.zeros(1)) + softmax(scores[row])
    ratios: dict[str, dict[str, float]] = {}
    for item in items:
        if item.id in shares:
            share = shares[item.id][: item.k] / shares[item.id][: item.k].sum()
            likely = share / max(share[item.key], (1 + RELATIVE_TIE) / item.k)
            by_form = zip(map(same_form, item.choices), likely.tolist(), strict=True)
            ratios.setdefault(item.id.partition("\0")[0], {}).update(by_form)
    pool_ratios = []
    for pool in pools:
        key, *forms = map(same_form, pool.texts)
        seen = ratios.get(pool.item.id, {})
        pool_ratios.append(np.array([seen.get(form, np.nan) if key in seen else np.nan for form in forms]))
    return pool_ratios


def candidate_code(item: Item, text: str) -> str:
    """Return the code that identifies a candidate in verdicts. It does not depend on typography or on the pool."""
    identity = f"{item.id}\0{same_form(text)}".encode("utf-8", "surrogatepass")
    return f"c{sha256(identity).hexdigest()[:15]}"


def read_votes(paths: Iterable[Path]) -> Votes:
    """Read verdicts from CSV or JSON Lines files. A row has `code`, `verdict`, and optionally `rater`, which is by default
    the file name. Rows without a verdict are skipped. Raise `DataError` if a row has no code or an unknown verdict."""
    votes: dict[str, dict[str, str]] = {}
    for path in paths:
        for code, rater, verdict in read_jsonl(path, partial(_vote, path.stem)):
            if verdict:
                votes.setdefault(code, {})[rater] = verdict
    return votes


def _vote(name: str, cells: Mapping[str, Any]) -> tuple[str, str, str]:
    code, verdict, rater = (str(cells.get(part) or "").strip() for part in ("code", "verdict", "rater"))
    spelled = " ".join(verdict.casefold().replace("_", " ").split())
    if not code or (spelled and spelled not in _SPELLED):
        expected = ", ".join(f"{n} ({verdict})" for n, verdict in enumerate(VERDICTS, start=1))
        fault = f"found {'another verdict' if code else 'no code'}; expected a code and {expected}"
        raise DataError(fault, code="unknown-verdict" if code else "no-candidate-code")
    return code, rater or name, _SPELLED.get(spelled, "")


def apply_votes(pools: Sequence[Pool], votes: Votes) -> tuple[tuple[Pool, ...], Review]:
    """Return the pools with people's verdicts on their candidates. Also return the review, with the agreement of raters.

    If raters differ, the majority counts, and without one the candidate is unclear.
    """
    pool_of_code = {candidate_code(p.item, c.text): i for i, p in enumerate(pools) for c in p.candidates}
    matched = {code: votes[code] for code in pool_of_code if votes.get(code)}
    raters = sorted({rater for by_rater in votes.values() for rater in by_rater})
    agreements = {}
    for pair in combinations(raters, 2):
        if common := [code for code, by_rater in matched.items() if by_rater.keys() >= {*pair}]:
            first, second = ([matched[code][rater] for code in common] for rater in pair)
            groups = np.array([pool_of_code[code] for code in common])
            agreements[pair] = agreement(first, second, VERDICTS, groups=groups)
    verdicts = {code: majority_vote([*by.values()]).verdict or UNCLEAR for code, by in matched.items()}
    reviewed = []
    for pool in pools:
        codes = (candidate_code(pool.item, candidate.text) for candidate in pool.candidates)
        marked = (
            replace(c, verdict=verdicts.get(code, "")) for c, code in zip(pool.candidates, codes, strict=True)
        )
        reviewed.append(replace(pool, candidates=tuple(marked)))
    unmatched = len(votes.keys() - pool_of_code.keys())
    return tuple(reviewed), Review(Counter(verdicts.values()), tuple(raters), agreements, unmatched)


def review_sheet(pools: Sequence[Pool], which: Sequence[Sequence[Candidate]], name: str) -> dict[str, Any]:
    """Return the data of a page on which people review the candidates `which` of each pool. Writers are not shown, because
    they could influence a rater."""
    items, codes = list[dict[str, Any]](), list[str]()
    for pool, chosen in zip(pools, which, strict=True):
        if chosen:
            item_codes = [candidate_code(pool.item, c.text) if c in chosen else "" for c in pool.candidates]
            fields = {"id": pool.item.id, "stem": pool.item.stem, "choices": list(pool.texts), "key": 0}
            items.append({**fields, "codes": ["", *item_codes]})
            codes += item_codes
    sheet = sha256("".join(codes).encode()).hexdigest()[:16]
    return {"name": name, "sheet": sheet, "verdicts": list(VERDICTS), "items": items}
