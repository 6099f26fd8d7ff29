"""What would other rules have removed? The rule of the run first, then its alternatives, each one change away.

A filter whose removed set changes with a template or a mode is a fact about the filter. Nothing here chooses among the
rules: the run's own was fixed before anybody looked. A rule is followed only as far as every voter of the run was asked
for it. Rules that cannot differ for these voters (a majority of two is unanimity, any rotation rule of a single order)
are one rule.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Ints
from robustify.judge.audit.fresh import FreshProbe, kept_by
from robustify.judge.screening import rule_row
from robustify.screen.chance import Chance
from robustify.screen.consensus import SHORTCUT, outcome, screen_chance
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import (
    FDR,
    VIEW_OF,
    Mode,
    Rotation,
    ScreenRules,
    TextNorm,
    criterion_name,
    criterion_words,
    require_voters,
    votes_needed,
)
from robustify.screen.votes import Votes, cast_by_rotation, cast_votes, models_asked, who_votes
from robustify.summary.result import RuleRow

Identity = tuple[object, ...]

_COLUMN: dict[TextNorm, str] = {"chars": "n_chars", "tokens": "n_tokens", "bytes": "n_bytes", "sum": "scores"}
_PER: dict[TextNorm, str] = {
    "chars": "per character",
    "tokens": "per token",
    "bytes": "per byte",
    "sum": "by the sum",
}
_ORDERS: dict[Rotation, str] = {
    "averaged": "orders averaged",
    "every": "picked in every order",
    "most": "picked in most orders",
}


@dataclass(frozen=True, slots=True)
class Own:
    """The run's own rule (resolved), its votes, what it removed (n,), and what is resampled together."""

    rule: ScreenRules
    votes: Votes
    removed: Bools
    groups: Ints | None


def sensitivity(
    answers: Answers,
    index: ItemIndex,
    rules: Sequence[ScreenRules],
    own: Votes,
    probe: FreshProbe,
    groups: Ints | None = None,
    chance: Chance | None = None,
) -> tuple[RuleRow, ...]:
    """One row a rule: the run's own (`rules[0]`, with its votes `own`), its configured alternatives
    (`rules[1:]`), then every rule one change away that the answers support (`variants`).

    Two rules that come to the same for these voters (a majority of two is unanimity) have one row; a configured
    one is named in `same_as` of an earlier row that it equals. A rule whose voters were not asked has nulls. The
    probe is trained on what a rule leaves for own and configured rules only: `residual_probe` is null for the
    others, as each training costs more than all the rest. `groups` (n,): items that are resampled together; `chance`:
    what chance explains of the run's own flags, where that is known already.

    Raises:
        UsageError: a criterion is for another number of voters.
    """
    run = Own(resolved(answers, rules[0]), own, outcome(own, rules[0]) == SHORTCUT, groups)
    out = {rule_identity(answers, run.rule): _row("this run", run.rule, own, run, probe, chance)}
    for given in rules[1:]:
        rule = resolved(answers, given)
        known = rule_identity(answers, rule)
        if known in out:
            names = (*(out[known].same_as or ()), name(given))
            out[known] = out[known].model_copy(update={"same_as": names})
        else:
            out[known] = _row(name(given), rule, _votes(answers, index, rule, run), run, probe)
    others = _cast(answers, index, variants(answers, run.rule, out, ranked=own.ranked is not None), run)
    return *out.values(), *(_row(differs(rule, run.rule), rule, votes, run, None) for rule, votes in others)


def jaccard(a: Bools, b: Bools) -> float | None:
    """Items in both over items in either, (n,) each; None where both are empty."""
    either = int((a | b).sum())
    return int((a & b).sum()) / either if either else None


def name(rule: ScreenRules) -> str:
    """A rule in a few words."""
    if rule.criterion == FDR:
        return criterion_words(rule)
    orders = (
        "" if rule.rotation == "averaged" else f", {rule.rotation} rotation{'s' * (rule.rotation == 'most')}"
    )
    norm = "" if rule.mode == "letter" or rule.norm == "chars" else f", {rule.norm}"
    probe = "" if rule.probe_vote == "none" else f", probe {rule.probe_vote}"
    return f"{rule.criterion} {rule.mode}{orders}{norm}{probe}"


def _votes(answers: Answers, index: ItemIndex, rule: ScreenRules, own: Own) -> Votes:
    # Another criterion counts the same votes; only another asking needs other votes.
    same = rule.model_copy(update={"criterion": own.rule.criterion}) == own.rule
    return own.votes if same else replace(cast_votes(answers, rule, index), ranked=own.votes.ranked)


def _cast(
    answers: Answers, index: ItemIndex, rules: Sequence[ScreenRules], own: Own
) -> Iterator[tuple[ScreenRules, Votes]]:
    """Every rule with its votes; rules that differ in nothing but the rotation rule are read at once."""
    turned = [r for r in rules if r.rotation != own.rule.rotation]
    for rule in rules:
        if rule not in turned:
            yield rule, _votes(answers, index, rule, own)
    if turned:
        cast = cast_by_rotation(answers, own.rule, index, [r.rotation for r in turned])
        yield from ((rule, cast[rule.rotation]) for rule in turned)


def _row(
    label: str,
    rule: ScreenRules,
    votes: Votes,
    own: Own,
    probe: FreshProbe | None,
    chance: Chance | None = None,
) -> RuleRow:
    """`probe`: None for a rule that nobody configured."""
    chance = screen_chance(votes, rule, own.groups) if chance is None else chance
    left = None if probe is None else probe.of(kept_by(votes, rule))
    return RuleRow(
        name=label,
        differs=differs(rule, own.rule) or None,
        automatic=probe is None,
        same_as=(),
        criterion=rule.criterion,
        mode=rule.mode,
        template=votes.template,
        rotation=rule.rotation,
        norm=rule.norm if rule.mode == "text" else None,
        probe_vote=rule.probe_vote,
        residual_probe=None if left is None else left.entry(),
        jaccard=jaccard(own.removed, outcome(votes, rule) == SHORTCUT) if chance.n else None,
        **rule_row(chance),
    )


def variants(
    answers: Answers, own: ScreenRules, besides: Collection[Identity] = (), *, ranked: bool = False
) -> tuple[ScreenRules, ...]:
    """Every rule that these answers support and that differs from the run's own in exactly one thing.

    Other criteria (k-of-n from three votes on; `fdr` where the items are `ranked`); where votes are counted, the
    other mode, each other template, other rotation rules where two orders or more were asked, other norms in text
    mode. Voters are the run's own, all of them asked. A rule that comes to the same as the own one, as an earlier
    variant, or as one of `besides` is left out, because it would flag the same items.

    Raises:
        UsageError: the own criterion is for another number of voters.
    """
    rule = resolved(answers, own)
    known = {rule_identity(answers, rule), *besides}
    found: dict[Identity, ScreenRules] = {}
    for other in _one_change(answers, rule, ranked=ranked):
        found.setdefault(rule_identity(answers, other), other)
    return tuple(other for identity, other in found.items() if identity not in known)


def resolved(answers: Answers, rule: ScreenRules) -> ScreenRules:
    """The rule with the template and the voters named that it stands for."""
    template, voters = who_votes(answers, rule)
    return rule.model_copy(update={"template": template, "voters": voters})


def rule_identity(answers: Answers, rule: ScreenRules) -> Identity:
    """What a resolved rule comes to: two rules with one identity flag the same items.

    Raises:
        UsageError: the criterion is for another number of voters.
    """
    votes = _count(rule)
    require_voters(rule.criterion, votes)
    if rule.criterion == FDR:
        # It reads every mode in which the voters were asked, so that mode, norm and orders change nothing.
        return FDR, rule.fdr, rule.fdr_exact, frozenset(rule.voters)
    return (
        votes_needed(rule.criterion, votes),
        rule.mode,
        rule.template,
        frozenset(rule.voters),
        None if rule.template is None else _turned(answers, rule),
        rule.norm if rule.mode == "text" else None,
        rule.probe_vote,
        None if rule.probe_vote == "none" else rule.probe_confidence,
    )


def differs(rule: ScreenRules, own: ScreenRules) -> str:
    """In what a resolved rule differs from the run's own, in words; empty where in nothing."""
    pairs = [(criterion_words(rule), criterion_words(own))]
    if rule.criterion != FDR:
        pairs += [
            (f"by {rule.mode}", f"by {own.mode}"),
            (_ORDERS[rule.rotation], _ORDERS[own.rotation]),
            (f"probe {rule.probe_vote}", f"probe {own.probe_vote}"),
        ]
    if rule.criterion != FDR and rule.mode == own.mode:
        pairs.append((f"template {rule.template}", f"template {own.template}"))
    if rule.mode == own.mode == "text":
        pairs.append((_PER[rule.norm], _PER[own.norm]))
    if rule.probe_vote == own.probe_vote != "none":
        pairs.append((f"probe at {rule.probe_confidence:g}", f"probe at {own.probe_confidence:g}"))
    said = [f"{this} instead of {that}" for this, that in pairs if this != that]
    return ", ".join([*said, *(["other voters"] if set(rule.voters) != set(own.voters) else [])])


def _one_change(answers: Answers, rule: ScreenRules, *, ranked: bool) -> list[ScreenRules]:
    if not rule.voters or rule.template is None:
        return []
    votes = _count(rule)
    other: Mode = "text" if rule.mode == "letter" else "letter"
    changes: list[dict[str, str]] = [
        {"criterion": criterion_name(k, votes)} for k in range(votes, 0, -1) if votes >= 3 or k == votes
    ]
    changes += [{"criterion": FDR}] * ranked
    if rule.criterion == FDR:
        return [rule.model_copy(update=change) for change in changes]
    changes += [
        {"mode": other, "template": t} for t in _asked_of_all(answers, VIEW_OF[other], rule.voters)[:1]
    ]
    changes += [{"template": t} for t in _asked_of_all(answers, VIEW_OF[rule.mode], rule.voters)]
    changes += [{"rotation": rotation} for rotation in _ORDERS]
    if rule.mode == "text":
        blocks = _blocks(answers, rule)
        changes += [
            {"norm": norm}
            for norm, column in _COLUMN.items()
            if not any(np.isnan(getattr(b, name)).all() for b in blocks for name in ("scores", column))
        ]
    return [rule.model_copy(update=change) for change in changes]


def _asked_of_all(answers: Answers, view: str, voters: tuple[str, ...]) -> list[str]:
    templates = dict.fromkeys(t for v, _, t in answers.askings() if v == view)
    return [t for t in templates if set(voters) <= set(models_asked(answers, view, t))]


def _count(rule: ScreenRules) -> int:
    return len(rule.voters) + (rule.probe_vote == "with")


def _turned(answers: Answers, rule: ScreenRules) -> Rotation:
    """The rule for rotations as far as it can matter for what was asked."""
    orders = max((int(np.bincount(block.item).max(initial=0)) for block in _blocks(answers, rule)), default=0)
    if rule.rotation == "averaged" or orders < 2:
        return "averaged"
    # Of two orders, more than half is both.
    return "every" if orders == 2 else rule.rotation


def _blocks(answers: Answers, rule: ScreenRules) -> list[Block]:
    """The rows of each voter."""
    return [answers.block(VIEW_OF[rule.mode], voter, rule.template) for voter in rule.voters]
