"""What would other rules have removed? The rule of the run first, then its alternatives.

A filter whose removed set changes with a template or a mode is a fact about the filter. Nothing here chooses
among the rules: the run's own was fixed before anybody looked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from robustify.answers import Answers
from robustify.arrays import Bools, Ints
from robustify.judge.audit.fresh import FreshProbe
from robustify.judge.screening import excess, expected, false_share, flagged_share
from robustify.screen.chance import Chance
from robustify.screen.consensus import SHORTCUT, outcome, screen_chance
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import FDR, ScreenRules
from robustify.screen.variants import criterion_words, differs, resolved, rule_identity, variants
from robustify.screen.votes import Votes, cast_by_rotation, cast_votes
from robustify.summary.result import RuleByPlace, RuleRow


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
    left = None if probe is None else probe.audit(votes, rule)
    by = chance.by_place
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
        flagged=flagged_share(chance),
        expected=expected(chance),
        false_share=false_share(chance),
        excess=excess(chance),
        by_place=None if by is None else RuleByPlace(expected=expected(by), excess=excess(by)),
        residual_probe=None if left is None else left.entry(),
        jaccard=jaccard(own.removed, outcome(votes, rule) == SHORTCUT) if chance.n else None,
    )
