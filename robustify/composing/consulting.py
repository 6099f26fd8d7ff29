"""Consultation before a set is composed: a writer for what the pools lack, and models and people against second keys."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from robustify.base.redaction import HoldsText
from robustify.composing.pool import Candidate, Pool, without_doubtful
from robustify.composing.review import Review, Votes, reviewed
from robustify.composing.right_answers import Checked, asking_with_question, second_keys, whole_questions
from robustify.composing.shortage import CandidateRequest, requests
from robustify.composing.writers import CandidateWriter, WriterSettings
from robustify.freeform.running import Watch
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.items.scoring import Mode
from robustify.models.asking import ask, plan
from robustify.models.engines import check_model, open_scorer
from robustify.models.engines.settings import ModelSettings
from robustify.models.replies import Replies

ROUNDS = 3
"""How often a writer is asked at most, because new candidates can be unfit, or lack a form themselves."""
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


@dataclass(frozen=True, slots=True, repr=False)
class Consulted(HoldsText):
    """Pools after the consultation, the numbers of the writer, and what models and people said of the candidates."""

    pools: tuple[Pool, ...]
    writer: Mapping[str, Any] | None
    checks: tuple[Checked, ...]
    review: Review

    def tree(self) -> dict[str, Any]:
        """Return the numbers as a JSON object, without text."""
        agreements = [{"raters": pair, **one.json()} for pair, one in self.review.agreements.items()]
        return {
            "writer": self.writer,
            "checks": [asdict(one) for one in self.checks],
            "review": {
                "raters": self.review.raters,
                "verdicts": self.review.verdicts,
                "unmatched": self.review.unmatched,
                "agreement": agreements,
            },
        }


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
    tables = []
    for model in how.models:
        n = sum(len(one.requests) for one in planned)
        with watch(f"loading {model.name}", n) as progress, open_scorer(model, cache) as scorer:
            tables.append(Answers.of(ask(planned, scorer, progress)))
    return Answers.concat(tables)
