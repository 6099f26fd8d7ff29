"""What a result may show, and to whom: the one place that decides it. Writers ask; they do not choose.

`released_summary` turns the exact summary of a restricted run into one that may be shown. Only fields whose declaration
(`robustify/summary`) says that they are shown come through, at whole percents, in cells of k items or more, and for
publication within a bit budget.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from robustify.disclosure import remade
from robustify.disclosure.coarse import (
    COARSER,
    STEPS,
    Spending,
    TopicBlock,
    available,
    counts,
    partition,
    spend,
    unlimited,
    values,
)
from robustify.disclosure.select import Measure, Tree, ends, places_in, selected
from robustify.errors import AuthorisationError
from robustify.summary.quantity import GROUPS
from robustify.summary.result import FORMAT, PLACES, Summary

Level = Literal["evaluator", "published"]
PRINTED: tuple[Level, ...] = ("evaluator", "published")
"""The levels at which a restricted run is shown."""
LEAST_CELL = 5
"""No manifest may set `min_cell` lower."""
USUAL_CELL = 10
LEVELS = ("public set", "restricted, on the evaluator's machine", "restricted, published")
TABLE: tuple[tuple[str, str, str, str], ...] = (
    ("text of stems, choices, rationales", "yes", "never", "never"),
    ("rows of single items: answers, verdicts, votes, scores", "yes", "none", "none"),
    ("ids of items", "the benchmark's own", "keyed (HMAC-SHA-256), in hashed splits only", "the same"),
    ("lines of the file (defects, rows set aside)", "yes", "counts of k or more", "the same"),
    ("counts by topic", "all", "cells of k or more, small topics merged into Other", "the same"),
    ("rates", "one decimal, n and interval", "whole percent, n and interval", "the same, within the bit budget"),
    ("rates of none or all of a part", "yes", "`< k`", "the same"),
    ("divergence, calibration, expected numbers", "all digits", "three digits", "the same"),
    ("p values", "three decimals", "one digit, rounded upwards", "the same"),
    ("surface features", "each of them", "by class, the strongest member", "the same"),
    ("items that deserve a second look, items found in texts", "listed", "counted", "counted"),
    ("reasons with exact numbers", "yes", "none", "none"),
    ("tasks for lm-eval", "text", "loader and keyed ids; key and data at run time", "the same"),
)  # fmt: skip
"""What each level shows (reference/safety.md, section 3.6); the documentation prints this table."""


@dataclass(frozen=True, slots=True)
class Budgeted:
    """The topics as they are shown, the roundings, and the bits behind them; `parts` None: a total is too small."""

    parts: list[TopicBlock] | None
    measure: Measure
    spending: Spending


def cell_of(min_cell: int | None) -> int:
    """The smallest cell that is shown. Raises `AuthorisationError`: a manifest that sets it below the floor."""
    k = USUAL_CELL if min_cell is None else min_cell
    if k < LEAST_CELL:
        raise AuthorisationError(f"min_cell: {k}; expected {LEAST_CELL} or more for a restricted set")
    return k


def released_summary(summary: Summary, level: Level, min_cell: int | None = None) -> Summary:
    """The summary as this level may show it; `release` in it says at which level, and what was withheld.
    Raises `AuthorisationError`: `min_cell` below the floor."""
    return Summary.model_validate(released_tree(summary.tree(), level, cell_of(min_cell)))


def released_tree(summary: Mapping[str, object], level: Level, k: int) -> Tree:
    """The same of the content of `summary.json` in the current format."""
    plan = budgeted(summary, level, k)
    if plan.parts is None:
        return _too_small(summary, level, k)
    out = selected(summary, PLACES, plan.measure)
    table = remade.topic_table(plan.parts) if _mapping(summary, "topics") else None
    bench, screen, splits = (_tree(out, name) for name in ("benchmark", "screen", "splits"))
    splits |= {name: plan.measure.sizes[name] for name in ("robust", "shortcut")}
    bench["topics"] = {p.name: p.before for p in plan.parts} if table is not None else {}
    if _mapping(summary, "screen"):
        screen["flagged"] = remade.flagged(screen.get("answered"), plan.measure.sizes["shortcut"], k)
        for rule in (screen, screen.get("d4_rule"), *_rows(out.get("sensitivity"))):
            remade.expect(rule, rule.get("flagged") if isinstance(rule, dict) else None)
    else:
        out["screen"] = None
    out["topics"] = table
    out["heuristics"] = remade.features(summary.get("heuristics"), plan.measure)
    for at, rows in places_in(summary, ("calibration", "*", "*", "bins")):
        if len(at) == 4:
            _tree(_tree(_tree(out, "calibration"), str(at[1])), str(at[2]))["bins"] = remade.bins(rows, k)
    checks = remade.guardrails(out.get("guardrails"), summary.get("guardrails"), table)
    out["guardrails"] = checks
    exact = _mapping(summary, "certificate")
    failed = [] if exact.get("verdict") == "not judged" else remade.failed(checks)
    _tree(out, "certificate")["reasons"] = [*remade.unjudged(exact.get("reasons")), *failed]
    noise = _tree(out, "label_noise") if _mapping(out, "label_noise") else {}
    if _mapping(noise, "reason").get("code") == "sentence":
        # Of a file of format 1: its text is not released.
        noise["reason"] = None
    remade.few_without_cloze(out, _count(_mapping(summary, "splits").get("all")), k)
    out["release"] = _said(level, k, plan, summary)
    return out


def budgeted(summary: Mapping[str, object], level: Level, k: int) -> Budgeted:
    """The partition of the topics and the step of each group of numbers; looks at counts and at no other value."""
    splits = _mapping(summary, "splits")
    sizes = {name: _count(splits.get(name)) for name in ("all", "robust", "shortcut")}
    topics = counts(_mapping(_mapping(summary, "topics"), "by_topic")) or [
        TopicBlock("all", sizes["all"], sizes["robust"])
    ]
    if _mapping(summary, "screen"):
        small = min(sizes["robust"], sizes["shortcut"]) < k
        parts = None if small else partition(topics, k)
    else:
        # Without a screen there are no flags.
        parts = [TopicBlock("all", sizes["all"], 0)] if sizes["all"] >= k else None
    cells = [(p.before, p.after) for p in parts or []]
    costs = {group: {step: cost(summary, group, step) for step in STEPS} for group in GROUPS}
    bits, owed = available(cells), _owed(summary)
    spending = unlimited(GROUPS) if level == "evaluator" else spend(costs, bits, owed=owed)
    if level == "published" and owed > bits and _mapping(summary, "screen"):
        # Not even the outcomes of the guardrails fit.
        parts = None
    measure = Measure(k, {n: sizes[n] for n in ("robust", "shortcut")}, spending.steps)
    return Budgeted(parts, measure, spending)


def cost(summary: Mapping[str, object], group: str, step: float) -> float:
    """In bits, what the numbers of a group may reveal at this step, however they come out."""
    total = 0.0
    for entry in PLACES:
        if entry.group == group:
            steps = entry.path.split(".")
            # A null at the end counts too: whether a number is null may depend on what it would be.
            there = sum(len(at) == len(steps) for at, _ in places_in(summary, steps))
            total += there * values(entry.kind, step, ends(entry))
    if group == "surface features" and _mapping(summary, "heuristics"):
        total += 2 * len(remade.FEATURE_CLASSES) * values("rate", step)
    return total


def _owed(summary: Mapping[str, object]) -> float:
    """Shown in any case: the outcome of each guardrail and the two verdicts, of four and three words."""
    outcomes = sum(len(at) == 2 for at, _ in places_in(summary, ("guardrails", "[]")))
    return outcomes * values("truth", COARSER) + math.log2(4) + math.log2(3)


def _said(level: Level, k: int, plan: Budgeted, summary: Mapping[str, object]) -> Tree:
    assert plan.parts is not None
    steps = plan.spending.steps
    there = [g for g in GROUPS if cost(summary, g, COARSER) > 0]
    merged = sum(p.merged for p in plan.parts if p.merged > 1)
    finite = level == "published"
    return {
        "level": level,
        "min_cell": k,
        "too_small": False,
        "topics_merged": merged,
        "coarser": [g for g in there if steps[g] == COARSER],
        "withheld": [g for g in there if steps[g] is None],
        "bits": {"spent": round(plan.spending.spent), "available": int(plan.spending.available)}
        if finite
        else None,
    }


def _too_small(summary: Mapping[str, object], level: Level, k: int) -> Tree:
    bench = _mapping(summary, "benchmark")
    name, n = bench.get("name"), bench.get("n_items")
    # The evaluator's commands must still end as the guardrails say; whether it is a trial run follows from n.
    said = remade.unjudged(_mapping(summary, "certificate").get("reasons"))
    trial = [reason for reason in said if reason["code"] == "trial_run"]
    shown = [entry for entry in PLACES if entry.path.startswith("guardrails.")]
    checks = selected(summary, shown, Measure(k, {}, {}))
    return {
        "format": FORMAT,
        "benchmark": {"name": name if isinstance(name, str) else None, "n_items": _count(n)},
        "guardrails": []
        if level == "published"
        else remade.guardrails(checks.get("guardrails"), summary.get("guardrails"), None),
        **({"certificate": {"verdict": "not judged", "reasons": trial}} if trial else {}),
        "release": {"level": level, "min_cell": k, "too_small": True, "topics_merged": 0, "coarser": [],
                    "withheld": ["everything but the number of items"], "bits": None},
    }  # fmt: skip


def _mapping(summary: Mapping[str, object], name: str) -> Mapping[str, object]:
    part = summary.get(name)
    return part if isinstance(part, Mapping) else {}


def _tree(out: Tree, name: str) -> Tree:
    part = out.get(name)
    if not isinstance(part, dict):
        part = out[name] = {}
    return part


def _rows(x: object) -> list[object]:
    return x if isinstance(x, list) else []


def _count(x: object) -> int:
    return x if isinstance(x, int) and not isinstance(x, bool) else 0
