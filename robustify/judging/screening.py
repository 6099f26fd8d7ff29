"""Description of the benchmark, scores of heuristics, sizes of the splits, and results of the screen."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from robustify.base.arrays import Floats, Ints
from robustify.items.answers import Answers
from robustify.items.scoring import VIEW_OF
from robustify.judging.baselines.heuristics import heuristic_scores
from robustify.judging.baselines.near_duplicates import parallel_items
from robustify.judging.context import UNNAMED, Context, Parts
from robustify.judging.response_data import ResponseData
from robustify.judging.screen.consensus import Chance, ScreenResult, d4_votes
from robustify.judging.screen.decoy_filter import cutoffs
from robustify.judging.screen.item_index import key_spread
from robustify.judging.screen.screen_rules import FDR, ScreenRules, criterion_words, votes_needed
from robustify.judging.screen.votes import (
    FLAGGED,
    UNANSWERED,
    Votes,
    cast_votes,
    first_template,
    independence,
    voter_agreement,
    who_votes,
)
from robustify.judging.stats.intervals import clusters, design_effect, rate
from robustify.judging.stats.tests import independent_difference
from robustify.judging.summary import screen_parts as entries
from robustify.judging.summary.quantity import Measured, Quantity, Score
from robustify.judging.summary.result import OtherRule

LISTED_DEFECTS = 20
_FIELDS = {"criterion", "mode", "force_letters"}
SHARES = (0.05, 0.1, 0.2, 0.3)
"""Expected shares of false flags for which every run reports the number of flags."""


def benchmark(responses: ResponseData) -> entries.Benchmark:
    """Return the composition of the benchmark."""
    index, facts, topic_of = responses.index, responses.facts, responses.topics
    has_rows = index.k > 0
    k, key = index.k[has_rows], index.key[has_rows]
    positions = np.bincount(key, minlength=index.width)
    faulty: dict[str, list[str]] = {}
    for defect in facts.defects:
        faulty.setdefault(str(defect["kind"]), []).append(str(defect["item"]))
    return entries.Benchmark(
        name=facts.name,
        n_items=len(index),
        groups=None if responses.groups is None else clusters(len(index), responses.groups),
        n_quarantined=facts.n_quarantined,
        option_counts={str(options): int(n) for options, n in enumerate(np.bincount(k)) if n},
        chance_accuracy=float(np.mean(1 / k)) if len(k) else None,
        topics=dict(sorted(Counter(t or UNNAMED for t in topic_of).items())) if any(topic_of) else {},
        key_positions=tuple(float(n / len(k)) for n in positions) if len(k) else None,
        key_spread=key_spread(index.key, index.k, responses.groups),
        defects={
            kind: entries.DefectCount(n=len(items), items=tuple(dict.fromkeys(items))[:LISTED_DEFECTS])
            for kind, items in faulty.items()
        },
        parallel_items=0 if responses.items is None else parallel_items(responses.items).unnamed or 0,
    )


def split_sizes(responses: ResponseData, parts: Parts, cloze_excluded: Mapping[str, str]) -> entries.Splits:
    """Return the size of each split, and the number of items excluded from cloze for each reason."""
    n = len(responses.index)
    flagged, kept = int(parts.flagged.sum()), int(parts.kept.sum())
    return entries.Splits(
        all=n,
        flagged=flagged,
        kept=kept,
        undecided=n - flagged - kept,
        cloze=None if responses.items is None else int(parts.cloze.sum()),
        cloze_excluded=dict(sorted(Counter(cloze_excluded.values()).items())),
    )


def rule_scores(responses: ResponseData, result: ScreenResult, parts: Parts) -> dict[str, Measured]:
    """Score each heuristic on all items, and on the kept, flagged and cloze items if there are any. If keys
    influenced a split, only the choices that would have put the item there as the key count as possible keys."""
    if first_template(responses.answers, "heuristic") is None:
        return {}
    scores: dict[str, dict[str, Any]] = {}
    for part, mask, possible_keys in (
        ("all", np.ones(len(responses.index), dtype=bool), None),
        ("kept", parts.kept, result.would_keep),
        ("flagged", parts.flagged, result.would),
        ("cloze", parts.cloze, None),
    ):
        if mask.any():
            options = None if possible_keys is None else responses.in_table(possible_keys)
            rows = heuristic_scores(
                responses.answers, responses.in_table(mask), options, responses.table_groups
            )
            for name, row in rows.items():
                scores.setdefault(name, {})[part] = row
    return {name: Measured(**parts) for name, parts in scores.items()}


def heuristic_gap(credit: Floats | None, rule_credit: Floats, groups: Ints | None = None) -> Score | None:
    """Return the difference in a model's accuracy between items whose key is the longest choice and other items. None
    if either accuracy is unknown. An item with tied longest choices counts in both by its tie-fair credit. The
    interval is Newcombe's, with both numbers of items divided by the `design_effect` of groups."""
    if credit is None:
        return None
    answered = ~np.isnan(credit) & ~np.isnan(rule_credit)
    own, rule = credit[answered], rule_credit[answered]
    n_with, n_without = float(rule.sum()), float((1 - rule).sum())
    if not n_with or not n_without:
        return None
    with_rule, without = float(own @ rule) / n_with, float(own @ (1 - rule)) / n_without
    influence = rule * (own - with_rule) / n_with - (1 - rule) * (own - without) / n_without
    effect = design_effect(influence, None if groups is None else groups[answered])
    if effect is None:
        return Score(value=with_rule - without, n=len(own))
    sizes = n_with / effect, n_without / effect
    difference = independent_difference(with_rule * sizes[0], sizes[0], without * sizes[1], sizes[1])
    return Score.from_rate(replace(difference, n=len(own)), mde=difference.mde)


def screen(ctx: Context) -> entries.Screen:
    """Return the results of the screen: its rule, voters and flags, and the flags expected under the null."""
    votes, rules, chance = ctx.screen.votes, ctx.rules.screen, ctx.screen.result.chance(ctx.responses.groups)
    # Tied items are undecided too, but lack no answer.
    missing = ~ctx.screen.ranking.complete if rules.criterion == FDR else ctx.screen.result.missing > 0
    unanswered = int(np.count_nonzero(missing & ~ctx.screen.result.measurable))
    credit = votes.credit()
    accuracy = np.array([rate(own).value for own in credit.T], dtype=np.float64)
    by_accuracy, by_chance = independence(accuracy, ctx.responses.index.k[ctx.responses.index.k > 0])
    agreement = voter_agreement(votes.pick, votes.key, votes.k)
    by_text, cut = rules.mode == "text", asdict(ctx.screen.decision.cutoff)
    d4 = d4_votes(ctx.responses.answers, votes, rules, ctx.responses.index)
    by_d4 = None if d4 is None else flag_fields(ctx.screen.by_rule(d4[1], d4[0]).chance(ctx.responses.groups))
    return entries.Screen(
        **rules.model_dump(include=_FIELDS),
        # The scorer and the probe see only the options, whatever voters would have seen.
        hidden=ctx.rules.hidden if votes.voters else "question",
        norm=rules.norm if rules.mode == "text" else None,
        template=votes.template,
        rotations=votes.rotations,
        voters={
            name: entries.Voter(
                answered=int(np.count_nonzero(~np.isnan(credit[:, m]))),
                unanswered=int(np.count_nonzero(votes.pick[:, m] == UNANSWERED)),
                ties=int(np.count_nonzero(votes.best[:, m].sum(axis=1) > 1)),
                **({"position_share": None} if by_text else _by_letter(ctx, name)),
            )
            for m, name in enumerate(votes.voters)
        },
        asked=len(ctx.responses.index),
        answered=len(ctx.responses.index) - unanswered,
        unanswered=unanswered,
        cut=entries.DecoyCut(q=rules.fdr, ranked=cut.pop("n"), **cut) if rules.criterion == FDR else None,
        cuts=_cuts(ctx),
        independence=entries.Independence(unanimous_by_accuracy=by_accuracy, unanimous_by_chance=by_chance),
        **flag_fields(chance),
        agreement=entries.VoterAgreement.model_validate(agreement),
        d4_rule=None
        if d4 is None or by_d4 is None
        else entries.D4Rule(**by_d4, template=str(d4[1].template)),
        level=ctx.rules.limits.excess_p,
    )


def _cuts(ctx: Context) -> tuple[entries.CutAt, ...]:
    """Return the numbers of flags at several limits of the false share, or () if no items are ranked."""
    if not (ctx.screen.ranking.top >= 0).any():
        return ()
    shares = sorted({*SHARES, ctx.rules.screen.fdr})
    return tuple(
        entries.CutAt(q=q, flagged=cutoff.hits, by_chance=cutoff.decoys if cutoff.hits else 0.0)
        for q, cutoff in zip(
            shares, cutoffs(ctx.screen.ranking, ctx.responses.index.key, shares), strict=True
        )
    )


def _chance_fields(chance: Chance) -> dict[str, Any]:
    """Return the fields that `Flags` and `ByPosition` have in common."""
    # The latent rate is undefined if chance alone could explain every flag.
    is_defined = chance.latent is not None
    excess = entries.ExcessOverChance(value=chance.excess, ci=chance.excess_ci, p=chance.p)
    return {
        "expected_flags": Quantity(value=chance.expected, ci=chance.expected_ci) if chance.n else None,
        "excess_over_chance": None if chance.excess is None else excess,
        "latent_shortcut_rate": Quantity(
            value=chance.latent, n=chance.n if is_defined else 0, ci=chance.latent_ci
        ),
    }


def flag_fields(chance: Chance) -> dict[str, Any]:
    """Return the fields of `Flags`, which compare the flags with chance."""
    by_position, off = chance.by_position, chance.key_position
    return {
        # Share of the items whose outcome depends on no missing answer.
        "flagged": Quantity.from_rate(chance.share),
        # Share of the flags that decoys attribute to chance, given positions if voters could see them.
        "false_share": Quantity.from_rate(chance.deciding.false_share),
        **_chance_fields(chance),
        "by_position": None
        if by_position is None
        else entries.ByPosition(**_chance_fields(by_position), key_position=off),
    }


def _by_letter(ctx: Context, name: str) -> dict[str, Any]:
    """Return the fields of `Voter` that exist only for answers by letter."""
    from robustify.judging.positions import favoured_position, position_share

    block = ctx.responses.answers.block(VIEW_OF["letter"], name, ctx.screen.votes.template)
    rows = block.where(ctx.responses.index.index_of[block.item] >= 0)
    shares = position_share(block)
    return {
        "position_share": None if shares is None else tuple(shares),
        "favoured": favoured_position(rows, ctx.responses.row_groups(rows)),
        "replies": int(rows.draws.max(initial=0)) or None,
    }


def other_rules(ctx: Context) -> tuple[OtherRule, ...]:
    """Compare the flags of each other rule with the flags of the run's own rule. `jaccard` of the flagged items is
    None if neither rule flags an item or the rule's voters were not asked."""
    flagged = ctx.screen.result.outcome == FLAGGED
    rows = []
    for name, rule, votes in _rules(ctx):
        other = ctx.screen.by_rule(votes, rule)
        chance = other.chance(ctx.responses.groups)
        other_flagged = other.outcome == FLAGGED
        n_either = int((flagged | other_flagged).sum())
        jaccard = int((flagged & other_flagged).sum()) / n_either if chance.n and n_either else None
        expected = _chance_fields(chance)["expected_flags"]
        rows.append(
            OtherRule(name=name, flagged=Quantity.from_rate(chance.share), expected=expected, jaccard=jaccard)
        )
    return tuple(rows)


def _rule_name(rule: ScreenRules) -> str:
    if rule.criterion == FDR:
        return criterion_words(rule)
    qualifiers = {
        rule.norm: rule.mode == "text" and rule.norm != "chars",
        f"template {rule.template}": rule.template is not None,
    }
    return ", ".join(
        [f"{rule.criterion} {rule.mode}", *(words for words, apart in qualifiers.items() if apart)]
    )


def _rules(ctx: Context) -> Iterator[tuple[str, ScreenRules, Votes]]:
    """Yield the name, rule and votes of each alternative rule, starting with those that every run reports."""
    run, votes = ctx.rules.screen, ctx.screen.votes
    seen = {_identity(ctx.responses.answers, run)}
    if (d4 := d4_votes(ctx.responses.answers, votes, run, ctx.responses.index)) is not None:
        yield "D.4", *d4
    always = ("unanimous", "majority") if votes.voters else ()
    named = [(name, run.model_copy(update={"criterion": name})) for name in always]
    for name, rule in [*named, *((_rule_name(rule), rule) for rule in ctx.rules.alternatives)]:
        if (identity := _identity(ctx.responses.answers, rule)) in seen:
            continue
        seen.add(identity)
        own_cut = {"criterion": run.criterion, "fdr": run.fdr}
        # A different criterion counts the same votes. Only different questions need new votes.
        same_questions = rule.model_copy(update=own_cut) == run
        yield (
            name,
            rule,
            votes if same_questions else cast_votes(ctx.responses.answers, rule, ctx.responses.index),
        )


def _identity(answers: Answers, rule: ScreenRules) -> ScreenRules:
    """Return a canonical form of the rule, which is equal for all rules that flag the same items."""
    template, voters = who_votes(answers, rule)
    n = max(len(voters), 1)
    criterion = FDR if rule.criterion == FDR else f"{votes_needed(rule.criterion, n)}-of-{n}"
    alike = {"criterion": criterion, "template": template, "voters": tuple(sorted(voters))}
    return rule.model_copy(update=alike)
