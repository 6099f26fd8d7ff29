"""The generated blocks of docs/responsible_release.md: the levels, the budget, and what it leaves of the demo."""

import json
from pathlib import Path
from typing import Any

from robustify.disclosure import LEAST_CELL, LEVELS, TABLE, USUAL_CELL, budgeted, cost
from robustify.disclosure.coarse import STEPS
from robustify.disclosure.remade import FEATURE_CLASSES, REMADE
from robustify.summary.format_1 import read
from robustify.summary.quantity import GROUPS
from robustify.summary.result import PLACES
from tools.docs.measured import named

DEMO = Path(__file__).parents[2] / "results" / "benign_demo" / "summary.json"


def release_levels() -> str:
    head = f"| what | {' | '.join(LEVELS)} |\n|---|---|---|---|\n"
    rows = "".join(f"| {' | '.join(row)} |\n" for row in TABLE)
    floor = f"{USUAL_CELL} unless it says otherwise, never below {LEAST_CELL}"
    return f"{head}{rows}\nk is `min_cell` of the adapter's manifest: {floor}.\n"


def release_budget() -> str:
    summary: dict[str, Any] = read(json.loads(DEMO.read_text(encoding="utf-8"))).tree()
    plan = budgeted(summary, "published", USUAL_CELL)
    fine, coarse = STEPS
    rows = []
    for group in GROUPS:
        bits = cost(summary, group, fine)
        shown = {fine: "whole percents", coarse: "steps of 5 points", None: "withheld"}[
            plan.spending.steps[group]
        ]
        rows.append(f"| {group} | {bits:.0f} | {shown if bits else 'not in this run'} |")
    head = (
        f"Were the demo's {summary['splits']['all']} items a restricted set, {plan.spending.available:.0f} bits could be "
        f"spent on them and {plan.spending.spent:.0f} would be:\n\n"
    )
    return (
        head
        + "| group, in the order of the budget | bits in whole percents | shown |\n|---|---|---|\n"
        + "\n".join(rows)
        + "\n"
    )


def release_list() -> str:
    made = "".join(f"| `{place}` | {how} |\n" for place, how in REMADE.items())
    classes = "; ".join(
        f"{name} ({', '.join(f'`{m}`' for m in members)})" for name, members in FEATURE_CLASSES.items()
    )
    plain, flagged = (sum(bool(e.group) is with_group for e in PLACES) for with_group in (False, True))
    return (
        f"The summary declares {plain} shown places that depend on no flag and {flagged} that do. Made anew are:\n\n"
        f"| place | from what |\n|---|---|\n{made}\nClasses of surface features: {classes}.\n"
    )


BLOCKS = named(release_levels, release_budget, release_list)
