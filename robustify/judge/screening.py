"""What the benchmark is made of, what rules without a model score on it, and what the screen flagged.

Pure functions of answers and verdicts. Every rate has its n and its interval, and what was not asked is null.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.heuristics import heuristic_scores
from robustify.judge.positions import favoured_place, position_share, row_groups
from robustify.screen.chance import Chance
from robustify.screen.consensus import d4_rule
from robustify.screen.decoy_filter import Cut
from robustify.screen.item_index import ItemIndex, Places, shares_by_options, where_keys_stand
from robustify.screen.screen_rules import VIEW_OF, ScreenRules
from robustify.screen.voters import agreement_intervals, independence, redrawn, voter_agreement
from robustify.screen.votes import PROBE, UNANSWERED, Votes, first_template
from robustify.stats.intervals import Rate, rate
from robustify.stats.tests import LEVEL
from robustify.summary import screened as entries
from robustify.summary.quantity import Quantity
from robustify.summary.result import RuleByPlace

LISTED_DEFECTS = 20
UNNAMED = "(none)"


def benchmark(
    name: str,
    index: ItemIndex,
    topic_of: Sequence[str],
    n_quarantined: int,
    defects: Sequence[Mapping[str, object]],
) -> entries.Benchmark:
    """What the benchmark is made of; `topic_of` has one name an item ("" where it has none)."""
    asked = index.k > 0
    k, key = index.k[asked], index.key[asked]
    places = np.bincount(key, minlength=index.width)
    return entries.Benchmark(
        name=name,
        n_items=len(index),
        n_quarantined=n_quarantined,
        option_counts={str(options): int(n) for options, n in enumerate(np.bincount(k)) if n},
        chance_accuracy=float(np.mean(1 / k)) if len(k) else None,
        topics=dict(sorted(Counter(t or UNNAMED for t in topic_of).items())) if any(topic_of) else {},
        key_positions=tuple(float(n / len(k)) for n in places) if len(k) else None,
        key_places=key_places(index.key, index.k),
        defects=_defects(defects),
    )


def key_places(key: Ints, k: Ints) -> entries.KeyPlaces:
    """Key positions against an even spread; `key` and `k` (n,), items without a row are left out."""
    there = (k > 0) & (key >= 0)
    key, k = key[there], k[there]
    places = where_keys_stand(key, k)
    if places is None:
        return entries.KeyPlaces(n=0)
    return entries.KeyPlaces(
        n=places.n,
        shares=places.shares,
        by_options={
            str(options): entries.KeysAmong(n=n, shares=shares)
            for options, (n, shares) in shares_by_options(key, k).items()
        },
        chi_square=places.chi_square,
        df=places.df,
        p=places.p,
        test="drawn" if places.exact else "chi-square",
        off=_off(places),
    )


def heuristics(
    answers: Answers, index: ItemIndex, splits: Mapping[str, Bools], could: Mapping[str, Bools]
) -> entries.Heuristics | None:
    """The heuristics on each split (n,); None where no heuristic was asked.

    `could`, of the splits that the keys had a say in: the options (n, K) that as the key would have put an item there.
    """
    if first_template(answers, "heuristic") is None:
        return None
    there = index.place >= 0
    out: dict[str, dict[str, entries.HeuristicRow] | None] = {}
    for name, mask in splits.items():
        keep = np.zeros(len(index.place), dtype=bool)
        keep[there] = mask[index.place[there]]
        options = None
        if name in could:
            options = np.zeros((len(index.place), index.width), dtype=bool)
            options[there] = could[name][index.place[there]]
        rows = heuristic_scores(answers, keep, options) if keep.any() else None
        out[name] = (
            None if rows is None else {h: entries.HeuristicRow.model_validate(row) for h, row in rows.items()}
        )
    return entries.Heuristics(**out)


def screen(
    answers: Answers,
    index: ItemIndex,
    votes: Votes,
    rules: ScreenRules,
    chance: Chance,
    groups: Ints | None = None,
    level: float = LEVEL,
    cut: Cut | None = None,
) -> entries.Screen:
    """The screen: its rule, its voters, what it flagged, and how much of that is expected under the null.

    `groups` (n,) of items that are resampled together; `level` at which an excess is significant; `cut`: that of
    `criterion: fdr`.
    """
    by_accuracy, by_chance = independence(_mean(votes.credit()), index.k[index.k > 0])
    agreement = {
        **voter_agreement(votes.choice, votes.key, votes.k),
        **agreement_intervals(votes.choice, votes.key, votes.k, groups),
    }
    return entries.Screen(
        criterion=rules.criterion,
        mode=rules.mode,
        norm=rules.norm if rules.mode == "text" else None,
        template=votes.template,
        rotations=votes.rotations,
        rotation=rules.rotation,
        probe_vote=rules.probe_vote,
        probe_confidence=rules.probe_confidence,
        force_letters=rules.force_letters,
        voters=_voters(answers, index, votes, rules, groups),
        asked=len(index),
        answered=chance.n,
        unanswered=len(index) - chance.n,
        cut=None if cut is None else decoy_cut(cut, rules),
        chance_flag_rate=chance.rate,
        independence=entries.Independence(unanimous_by_accuracy=by_accuracy, unanimous_by_chance=by_chance),
        by_place=None
        if chance.by_place is None
        else entries.ScreenByPlace(**_by_place(chance, chance.by_place)),
        **_flags(chance),
        agreement=entries.VoterAgreement.model_validate(agreement),
        d4_rule=_d4(answers, index, votes, rules, groups),
        level=level,
    )


def decoy_cut(cut: Cut, rules: ScreenRules) -> entries.DecoyCut:
    """The cut as in the summary."""
    share = Quantity(value=cut.estimate, n=cut.hits, ci=cut.interval)
    return entries.DecoyCut(
        q=rules.fdr,
        exact=rules.fdr_exact,
        ranked=cut.n,
        threshold=cut.threshold,
        hits=cut.hits,
        misses=cut.misses,
        decoys=cut.decoys,
        false_share=share if cut.hits else Quantity(n=0),
    )


def rule_row(chance: Chance) -> dict[str, Any]:
    """What a rule flagged, as in a row of the sensitivity table."""
    by = chance.by_place
    return {
        # The share flagged among the items whose outcome depends on no missing answer.
        "flagged": Quantity.of(chance.share),
        "expected": expected(chance),
        # Of the flags, the share that is there by chance, by decoys; against places where voters could see them.
        "false_share": Quantity.of(chance.deciding.false_share),
        "excess": excess(chance),
        "by_place": None if by is None else RuleByPlace(expected=expected(by), excess=excess(by)),
    }


def expected(chance: Chance) -> Quantity | None:
    """The flags expected under the null, a number of items."""
    return Quantity(value=chance.expected, ci=chance.expected_ci) if chance.n else None


def latent(chance: Chance) -> Quantity:
    """The share of the items with a real shortcut; absent where chance alone could explain every flag."""
    if chance.latent is None:
        return Quantity(n=0)
    return Quantity(value=chance.latent, n=chance.n, ci=chance.latent_ci)


def excess(chance: Chance) -> entries.ExcessOverChance | None:
    """Flagged minus expected, a share of the items, and how often chance flags as many."""
    if chance.excess is None:
        return None
    return entries.ExcessOverChance(value=chance.excess, ci=chance.excess_ci, p=chance.p)


def _flags(chance: Chance) -> dict[str, Any]:
    row = rule_row(chance)
    return {
        "flagged": row["flagged"],
        "false_share": row["false_share"],
        "expected_flags": row["expected"],
        "excess_over_chance": row["excess"],
        "latent_shortcut_rate": latent(chance),
    }


def _by_place(chance: Chance, knowing: Chance) -> dict[str, Any]:
    return {
        "expected_flags": expected(knowing),
        "excess_over_chance": excess(knowing),
        "latent_shortcut_rate": latent(knowing),
        "key_places_p": None if chance.places is None else chance.places.p,
        "key_place": None if chance.places is None else _off(chance.places),
    }


def _off(places: Places) -> entries.OffPlace | None:
    if places.off is None:
        return None
    place, share, even = places.off
    return entries.OffPlace(place=place, share=share, even=even)


def _voters(
    answers: Answers, index: ItemIndex, votes: Votes, rules: ScreenRules, groups: Ints | None
) -> dict[str, entries.Voter]:
    view, credit = VIEW_OF[rules.mode], votes.credit()
    out: dict[str, entries.Voter] = {}
    for m, name in enumerate(votes.voters):
        shares = favoured = sampled = None
        if rules.mode == "letter":
            block = answers.block(view, name, votes.template)
            shares = position_share(block)
            judged = block.where(index.place[block.item] >= 0)
            favoured = favoured_place(judged, row_groups(groups, index, judged))
            sampled = _sampled(judged, votes.choice[:, m], index, groups)
        ties = votes.best[:, m].sum(axis=1) > 1
        voter = _voter(rate(credit[:, m], groups), shares, votes.choice[:, m] == UNANSWERED, ties, "model")
        out[name] = voter.model_copy(update={"favoured": favoured, "sampled": sampled})
    if votes.probe is not None:
        block = answers.block(PROBE, PROBE).first()
        accuracy = rate(index.spread(block, block.correct), groups)
        out[PROBE] = _voter(accuracy, None, votes.probe == UNANSWERED, block.tie > 1, "probe")
    return out


def _sampled(
    block: Block, choice: Ints, index: ItemIndex, groups: Ints | None
) -> entries.SampledVoter | None:
    again = redrawn(block, choice, index, groups)
    if again is None:
        return None
    return entries.SampledVoter(replies=int(block.draws.max()), redrawn=Quantity.of(again))


def _voter(
    accuracy: Rate, places: list[float] | None, unanswered: Bools, ties: Bools, kind: str
) -> entries.Voter:
    return entries.Voter(
        choices_only_accuracy=Quantity.of(accuracy),
        position_share=None if places is None else tuple(places),
        unanswered=int(np.count_nonzero(unanswered)),
        ties=int(np.count_nonzero(ties)),
        kind=kind,
    )


def _d4(
    answers: Answers, index: ItemIndex, votes: Votes, rules: ScreenRules, groups: Ints | None
) -> entries.D4Rule | None:
    template = votes.template if rules.mode == "letter" else None
    own = votes if rules.mode == "letter" else None
    found = d4_rule(answers, votes.voters, template, index, own, groups) if votes.voters else None
    if found is None:
        return None
    chance, asked_by = found
    places = None if chance.by_place is None else entries.ByPlace(**_by_place(chance, chance.by_place))
    return entries.D4Rule(by_place=places, template=asked_by, **_flags(chance))


def _defects(defects: Sequence[Mapping[str, object]]) -> dict[str, entries.DefectCount]:
    by_kind: dict[str, list[str]] = {}
    for d in defects:
        by_kind.setdefault(str(d["kind"]), []).append(str(d["item"]))
    return {
        kind: entries.DefectCount(n=len(names), items=tuple(dict.fromkeys(names))[:LISTED_DEFECTS])
        for kind, names in by_kind.items()
    }


def _mean(credit: Floats) -> Floats:
    answered = ~np.isnan(credit)
    n = answered.sum(axis=0)
    return np.where(n > 0, np.where(answered, credit, 0.0).sum(axis=0) / np.maximum(n, 1), np.nan)
