"""Compute verdicts on items from votes and a ranking, by the rule of the run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import Bools
from robustify.base.errors import UsageError
from robustify.items.answers import Answers
from robustify.items.scoring import VIEW_OF
from robustify.judging.readers.reader_rows import ProbeSettings
from robustify.judging.response_data import ResponseData
from robustify.judging.screen.consensus import ScreenResult, Verdicts, apply_rule
from robustify.judging.screen.decoy_filter import FilterDecision, flags
from robustify.judging.screen.ranking import Ranker, Ranking
from robustify.judging.screen.screen_rules import FDR, ScreenRules
from robustify.judging.screen.votes import FLAGGED, KEPT, Votes, cast_votes, models_asked, who_votes

DEPENDENT_ITEMS = "not evaluated: items depend on each other"
_CONFLICT = "conflicting_key: the same question and choices have a different key elsewhere"


@dataclass(frozen=True, eq=False)
class ItemScreen:
    """Screen of all items by the run's own rule. `ranking` is the question-free scorer's, and `decision` its cutoff at the
    run's q, whichever rule decides. `flagged` and `kept` (n,) are what `verdicts` say."""

    rules: ScreenRules
    ranker: Ranker
    votes: Votes
    ranking: Ranking
    decision: FilterDecision
    result: ScreenResult
    verdicts: Verdicts
    flagged: Bools
    kept: Bools

    @property
    def voters(self) -> tuple[str, ...]:
        """Models that voted."""
        return self.votes.voters

    @property
    def was_done(self) -> bool:
        """Whether voters or a ranking screened the items."""
        ranked = self.rules.criterion == FDR and bool((self.ranking.top >= 0).any())
        return self.votes.template is not None or ranked

    def by_rule(self, votes: Votes, rules: ScreenRules) -> ScreenResult:
        """Return the result of screening the items with other votes or by another rule."""
        if rules.criterion != FDR:
            return apply_rule(votes, rules)
        ranking = self.ranking
        if votes.voters != self.voters:
            voted = self.rules.model_copy(update={"voters": votes.voters})
            ranking = self.ranker.rank(voted, explained=False)
        return apply_rule(votes, rules, flags(ranking, self.votes.key, rules.fdr))


def screen_items(responses: ResponseData, rules: ScreenRules, probe: ProbeSettings) -> ItemScreen:
    """Cast the votes, rank the items, find the cutoff, and assign verdicts. Raise `UsageError` if the rules name voters or
    a template that the answers do not contain."""
    answers, index, facts = responses.answers, responses.index, responses.facts
    _check_rules(answers, rules)
    votes = cast_votes(answers, rules, index)
    ranker = Ranker(answers, index, responses.items, probe, facts.groups)
    ranking = ranker.rank(rules.model_copy(update={"voters": votes.voters}))
    decision = flags(ranking, index.key, rules.fdr)
    result = apply_rule(votes, rules, decision)
    verdicts = result.verdicts()
    is_disputed = _disputed(index.items, facts.defects) & (result.outcome == KEPT)
    if decision.cutoff.groups is not None and rules.criterion == FDR:
        verdicts = verdicts.undecided(np.ones(len(verdicts), dtype=bool), DEPENDENT_ITEMS)
    if is_disputed.any():
        verdicts = verdicts.undecided(is_disputed, _CONFLICT)
    flagged, kept = result.outcome == FLAGGED, (result.outcome == KEPT) & ~is_disputed
    return ItemScreen(rules, ranker, votes, ranking, decision, result, verdicts, flagged, kept)


def _disputed(items: Iterable[str], defects: Iterable[Mapping[str, object]]) -> Bools:
    """Mark the items with a conflicting key (n,). One of two conflicting keys must be wrong."""
    disputed = {defect["item"] for defect in defects if defect["kind"] == "conflicting_key"}
    return np.array([item in disputed for item in items], dtype=bool)


def _check_rules(answers: Answers, rules: ScreenRules) -> None:
    """Raise UsageError if the answers cannot satisfy the rules. Without a screen, any model with answers may be a voter."""
    askings, view = answers.askings(), VIEW_OF[rules.mode]
    templates = sorted({t for v, _, t in askings if v == view})
    other_mode = next((mode for mode, mode_view in VIEW_OF.items() if models_asked(answers, mode_view)), None)
    if templates:
        voters = models_asked(answers, view, who_votes(answers, rules)[0])
    else:
        voters = () if other_mode else tuple({m: None for _, m, _ in askings})
    if rules.template not in (None, *templates):
        code, setting, candidates = "unasked-template", f"template: {rules.template}", templates
    elif missing := [name for name in rules.voters if name not in voters]:
        code, setting, candidates = "unasked-voters", f"voters: {', '.join(missing)}", list(voters)
    else:
        return
    instead = f"Expected some of {', '.join(candidates)}." if candidates else "Remove it."
    instead = instead if templates or other_mode is None else f"Set `mode: {other_mode}`, which was asked."
    raise UsageError(f"screen.{setting} matches no answers in the view {view}. {instead}", code=code)
