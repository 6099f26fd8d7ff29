"""Which other rules the answers can support, one change at a time, and when two rules are one.

A rule is followed only as far as every voter of the run was asked for it. Rules that cannot differ for these
voters (a majority of two is unanimity, any rotation rule of a single order) are one rule.
"""

from collections.abc import Collection
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from robustify.answers import Answers
from robustify.screen.screen_rules import (
    FDR,
    VIEW_OF,
    Mode,
    Rotation,
    ScreenRules,
    TextNorm,
    criterion_name,
    require_voters,
    votes_needed,
)
from robustify.screen.votes import first_template, models_asked

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
    view = VIEW_OF[rule.mode]
    template = rule.template or first_template(answers, view, rule.voters)
    voters = rule.voters or (() if template is None else models_asked(answers, view, template))
    return rule.model_copy(update={"template": template, "voters": voters})


def rule_identity(answers: Answers, rule: ScreenRules) -> Identity:
    """What a resolved rule comes to: two rules with one identity flag the same items.

    Raises:
        UsageError: the criterion is for another number of voters.
    """
    votes = _votes(rule)
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


def criterion_words(rule: ScreenRules) -> str:
    """The criterion with its share of false flags, where it has one."""
    if rule.criterion != FDR:
        return rule.criterion
    return f"{FDR} at {rule.fdr:g}{' by e-values' * rule.fdr_exact}"


def _one_change(answers: Answers, rule: ScreenRules, *, ranked: bool) -> list[ScreenRules]:
    if not rule.voters or rule.template is None:
        return []
    votes = _votes(rule)
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
        changes += [
            {"norm": norm}
            for norm, column in _COLUMN.items()
            if all(_holds(answers, rule, voter, name) for voter in rule.voters for name in {"scores", column})
        ]
    return [rule.model_copy(update=change) for change in changes]


def _asked_of_all(answers: Answers, view: str, voters: tuple[str, ...]) -> list[str]:
    templates = dict.fromkeys(t for v, _, t in answers.askings() if v == view)
    return [t for t in templates if set(voters) <= set(models_asked(answers, view, t))]


def _votes(rule: ScreenRules) -> int:
    return len(rule.voters) + (rule.probe_vote == "with")


def _turned(answers: Answers, rule: ScreenRules) -> Rotation:
    """The rule for rotations as far as it can matter for what was asked."""
    if rule.rotation == "averaged":
        return "averaged"
    orders = max((_orders(answers, rule, voter) for voter in rule.voters), default=0)
    if orders < 2:
        return "averaged"
    # Of two orders, more than half is both.
    return "every" if orders == 2 else rule.rotation


def _orders(answers: Answers, rule: ScreenRules, voter: str) -> int:
    """In how many orders a voter was asked an item, at most; no asking is repeated."""
    items = answers.table["item"].filter(_rows(answers, rule, voter))
    return int(pc.max(pc.value_counts(items).field("counts")).as_py() or 0)


def _holds(answers: Answers, rule: ScreenRules, voter: str, column: str) -> bool:
    lists = answers.table[column].filter(_rows(answers, rule, voter))
    return bool(pc.max(pc.list_value_length(lists)).as_py())


def _rows(answers: Answers, rule: ScreenRules, voter: str) -> pa.ChunkedArray:
    asked = {"view": VIEW_OF[rule.mode], "model": voter, "template": rule.template}
    return reduce(pc.and_, (pc.equal(answers.table[name], wanted) for name, wanted in asked.items()))
