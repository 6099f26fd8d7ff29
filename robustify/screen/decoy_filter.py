"""The filter with a bounded share of false removals: which items of a ranking are shortcuts.

Of each group of near-duplicates or of one passage a representative enters the cut, and the others follow its verdict.
An item that is not flagged, but whose ranking lacks an answer or has no single best option, is undecided.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robustify.answers import Answers
from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.artifact_probe import ProbeSettings
from robustify.item import Item
from robustify.screen.consensus import ROBUST, SHORTCUT, UNDECIDED
from robustify.screen.item_index import ItemIndex
from robustify.screen.ranking import Ranker, Ranking
from robustify.screen.screen_rules import ScreenRules
from robustify.screen.votes import Flagging, Votes
from robustify.stats.decoys import (
    Cut,
    decoy_cut,
    exact_hits,
    hit_probability,
    hits_per_miss,
    shortcut_probability,
)
from robustify.stats.intervals import Rate


@dataclass(frozen=True, repr=False)
class Decision:
    """The filter's outcome on n items.

    `outcome` (n,) 1 shortcut, 0 robust, -1 undecided. `cut` counts representatives above the cut; under the exact rule
    all that are flagged, without a threshold. `hit` (n,): the top is the key. `posterior`
    (n,) h(W), the probability that the top is the key at this weight; `shortcut` (n,) the probability that an item
    has a shortcut, given that its top is its key; both NaN where there is no top.
    """

    outcome: Ints
    cut: Cut
    hit: Bools
    posterior: Floats
    shortcut: Floats


def flags(ranking: Ranking, key: Ints, q: float, *, exact: bool = False) -> Decision:
    """Flag items so that at most a share `q` of them is there by chance, in expectation; `key` (n,), -1 unknown.

    `exact`: the finite-sample rule (`exact_hits`), for a ranking made without linear probes (`vectors=False`).
    """
    n = len(ranking.items)
    # Where places alone always give the key, no answer can be distinguished from chance.
    ranked = (ranking.top >= 0) & (key >= 0) & (ranking.null < 1)
    hit = ranked & (ranking.top == key)
    enter = np.flatnonzero(ranked & (ranking.group == np.arange(n)))
    weight, won, null = ranking.weight[enter], hit[enter], ranking.null[enter]
    rho = hits_per_miss(null)
    flagged = np.zeros(n, dtype=bool)
    if exact:
        names = [ranking.items[i] for i in enter.tolist()]
        chosen, cut = exact_hits(weight, won, rho, ranking.fold[enter], names, q)
        flagged[enter[chosen]] = True
    else:
        cut = decoy_cut(weight, won, rho, q)
        if cut.threshold is not None:
            flagged[enter[won & (weight >= cut.threshold)]] = True
    posterior, shortcut = np.full(n, np.nan), np.full(n, np.nan)
    posterior[ranked] = np.maximum(hit_probability(weight, won, ranking.weight[ranked]), ranking.null[ranked])
    shortcut[ranked] = shortcut_probability(posterior[ranked], ranking.null[ranked])
    settled = ranked & ranking.complete
    outcome = np.where(flagged, SHORTCUT, np.where(settled, ROBUST, UNDECIDED))
    return Decision(outcome[ranking.group], cut, hit, posterior, shortcut)


class DecoyFilter:
    """`criterion: fdr` on one set of answers: items are ranked once for each set of voters, and cut once for each q.

    `own`: the run's rule, whose mode and template say who the voters are and how their texts are compared; `items`
    their texts, None where there are none; `groups` names passages by item, where there are no texts.
    """

    def __init__(
        self,
        answers: Answers,
        index: ItemIndex,
        own: ScreenRules,
        items: Sequence[Item] | None,
        settings: ProbeSettings,
        groups: Mapping[str, str],
    ) -> None:
        self._index, self._own = index, own
        self._ranker = Ranker(answers, index, items, settings, groups)
        self._most: tuple[str, ...] = ()
        self._rankings: dict[tuple[frozenset[str], bool], Ranking] = {}
        self._decisions: dict[tuple[frozenset[str], float, bool], Decision] = {}
        self._flagged: dict[tuple[frozenset[str], float, bool], Flagging] = {}

    def ranking(self, voters: tuple[str, ...], *, vectors: bool = True) -> Ranking:
        """The ranking by these voters."""
        wanted = frozenset(voters), vectors
        self._most = max(self._most, voters, key=len)
        if wanted not in self._rankings:
            rules = self._own.model_copy(update={"voters": voters})
            self._rankings[wanted] = self._ranker.rank(rules, vectors=vectors)
        return self._rankings[wanted]

    def decision(self, voters: tuple[str, ...], rules: ScreenRules) -> Decision:
        """What is flagged by these voters at the rules' q."""
        wanted = frozenset(voters), rules.fdr, rules.fdr_exact
        if wanted not in self._decisions:
            ranking = self.ranking(voters, vectors=not rules.fdr_exact)
            self._decisions[wanted] = flags(ranking, self._index.key, rules.fdr, exact=rules.fdr_exact)
        return self._decisions[wanted]

    def flagging(self, voters: tuple[str, ...], rules: ScreenRules) -> Flagging:
        """The same for every option, as if it were the key."""
        wanted = frozenset(voters), rules.fdr, rules.fdr_exact
        if wanted not in self._flagged:
            self._flagged[wanted] = self._flagging(voters, rules)
        return self._flagged[wanted]

    def _flagging(self, voters: tuple[str, ...], rules: ScreenRules) -> Flagging:
        ranking, made = self.ranking(voters, vectors=not rules.fdr_exact), self.decision(voters, rules)
        # Rankings without a voter were needed for this alone, and a million items take much room.
        for one in [one for one in self._rankings if len(one[0]) < len(self._most)]:
            del self._rankings[one]
        flagged = made.outcome == SHORTCUT
        leads = ranking.group == np.arange(len(flagged))
        above = flagged & leads
        if made.cut.threshold is not None:
            # By e-values no threshold is drawn, and of the misses none is known to lie above a cut.
            ranked = leads & (ranking.top >= 0) & (ranking.null < 1)
            above |= ranked & (np.nan_to_num(ranking.weight, nan=-np.inf) >= made.cut.threshold)
        at = np.flatnonzero(above)
        would = np.zeros((len(flagged), self._index.width), dtype=bool)
        would[at, ranking.top[at]] = True
        would[flagged & ~leads] = True
        share = Rate(made.cut.estimate, made.cut.hits, made.cut.interval)
        return Flagging(would, made.outcome == UNDECIDED, share)

    def ranked(self, votes: Votes) -> Votes:
        """The votes, with what `fdr` flags beside them."""
        return replace(votes, ranked=self.flagging)
