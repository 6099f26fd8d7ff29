"""What is made anew for a release, from counts that are released anyway.

Topics are counted again after the small ones were merged, so that no divergence, p or guardrail describes a topic
that is not shown; surface features are released by class; reasons are replaced, because they name topics and exact
numbers. `validate` and `heuristics` show of a restricted set counts of k or more, whole percents and classes of cues;
no topic, because a run names them in one partition that all its tables share; and no line, id or file.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustify.disclosure.coarse import (
    FINEST,
    TopicBlock,
    flagged_rate,
    one_digit_up,
    plain_rate,
    rounded,
    three_digits,
    withheld,
)
from robustify.disclosure.select import NAME, Measure, Tree
from robustify.judge.removal_effects import topics
from robustify.loaders import Loaded
from robustify.stats.intervals import wilson

FIXED = ("kl_nats", "kl_null", "p")
"""What of the topic table is not a row of a topic."""
FEATURE_CLASSES = {
    "length": ("longest_answer", "shortest_answer", "longest_words", "shortest_words"),
    "place": ("first_option", "last_option", "most_common_position"),
    "alphabet": ("alphabetical_first",),
    "numbers": ("most_numeric",),
    "likeness of options": ("odd_one_out", "most_overlap", "least_overlap"),
    "words of the question": ("stem_overlap", "least_stem_overlap"),
    "wording": ("fewest_absolutes", "most_hedges", "all_of_the_above"),
}
"""The classes of surface features. Of each the strongest member on all items is shown, under the name of the class."""
REMADE = {
    "benchmark.topics": "the topics with their items, by the one partition",
    "heuristics": "one row a class of surface features",
    "topics": "counted again from the merged topics",
    "splits.robust": "if every cell of the totals is large enough",
    "splits.shortcut": "if every cell of the totals is large enough",
    "splits.cloze": "unless fewer than k items cannot be asked so; n of numbers on it is then rounded down to a multiple "
    "of k",
    "screen.flagged": "the shortcuts over the items answered",
    "expected flags of a rule": "what is flagged less the excess, both as they are shown",
    "calibration.*.*.bins": "bins of k items or more",
    "guardrails.[].reason": "never the reason of the judgement, which holds topics and exact numbers",
    "certificate.reasons": "the names of the guardrails that failed, that it was a trial run, and voters with their place",
}
"""What is made anew for a release from what else is released."""


def topic_table(parts: Sequence[TopicBlock]) -> Tree:
    """`topics` of the summary for these parts: a function of their counts alone."""
    topic_of = [p.name for p in parts for _ in range(p.before)]
    kept = [i < p.after for p in parts for i in range(p.before)]
    table = topics(topic_of, np.array(kept, dtype=bool)).tree()
    rows = {
        name: {
            **{end: row[end] for end in ("before", "after")},
            "retention": _percents(row["before"], row["after"]),
            **{p: None if row[p] is None else one_digit_up(row[p]) for p in ("p", "p_bh")},
        }
        for name, row in table["by_topic"].items()
    }
    return {"by_topic": rows, **{name: _fixed(name, table[name]) for name in FIXED}}


def features(found: object, measure: Measure) -> Tree | None:
    """`heuristics` of the summary by class; each class by its strongest member on all items.

    The strongest is the one with the smallest p after Holm over all cues, so that the choice is paid for.
    """
    if not isinstance(found, Mapping):
        return None
    everywhere = found.get("all")
    best = {} if not isinstance(everywhere, Mapping) else _strongest(everywhere)
    return {
        split: None
        if not isinstance(rows, Mapping)
        else {c: _feature(rows[name], str(split), measure) for c, name in best.items() if name in rows}
        for split, rows in found.items()
        if split in ("all", "robust", "shortcut", "cloze")
    }


def _strongest(rows: Mapping[str, object]) -> dict[str, str]:
    out = {}
    for name, members in FEATURE_CLASSES.items():
        there = [(_rarity(rows[m]), i, m) for i, m in enumerate(members) if m in rows]
        if there:
            out[name] = min(there)[2]
    return out


def _rarity(row: object) -> float:
    p = row.get("p_holm") if isinstance(row, Mapping) else None
    return float(p) if isinstance(p, int | float) else 2.0


def _feature(row: object, split: str, measure: Measure) -> Tree | None:
    if not isinstance(row, Mapping):
        return None
    if split in ("all", "cloze"):
        p = row.get("p_holm")
        rare = one_digit_up(float(p)) if isinstance(p, int | float) else None
        return {**_by_count(row, measure.k), "ties": row.get("ties"), "p_holm": rare}
    step = measure.steps["surface features"]
    if step is None:
        return withheld("bit budget")
    size = measure.sizes["robust" if split == "robust" else "shortcut"]
    return flagged_rate(row, size, measure.k, step)


def flagged(answered: object, n_shortcut: int, k: int) -> Tree:
    """The share flagged, from two counts that are shown."""
    if not isinstance(answered, int) or answered - n_shortcut < k or n_shortcut < k:
        return withheld(f"< {k}")
    return {**_percents(answered, n_shortcut)}


def expect(rule: object, flagged: object) -> None:
    """Put the flags expected under the null into a released rule: those flagged less the excess, both as shown."""
    if not isinstance(rule, dict) or not isinstance(flagged, dict):
        return
    for node in (rule, rule.get("by_place")):
        for excess, expected in (("excess_over_chance", "expected_flags"), ("excess", "expected")):
            over = node.get(excess) if isinstance(node, dict) else None
            if not isinstance(node, dict) or not isinstance(over, dict):
                continue
            share, n, above = flagged.get("value"), flagged.get("n"), over.get("value")
            if isinstance(share, float) and isinstance(n, int) and isinstance(above, float):
                node[expected] = {"value": max(0, round((share - above) * n)), "ci": None}
            else:
                node[expected] = withheld(str(over.get("withheld") or flagged.get("withheld") or "not shown"))


def bins(found: object, k: int) -> list[Tree]:
    """The bins of a reliability plot; one of fewer than k items is empty."""
    empty: Tree = {"confidence": None, "accuracy": None, "n": None, "ci": None}
    out = []
    for one in found if isinstance(found, list) else []:
        if not isinstance(one, Mapping):
            continue
        n, right, sure = (one.get(name) for name in ("n", "accuracy", "confidence"))
        if not isinstance(n, int) or n < k or right is None or sure is None:
            out.append(empty)
        else:
            out.append(
                {"confidence": rounded(sure, FINEST), "accuracy": rounded(right, FINEST), "n": n,
                 "ci": [rounded(end, FINEST) for end in wilson(right * n, n)]}
            )  # fmt: skip
    return out


def few_without_cloze(out: Tree, every: int, k: int) -> None:
    """Where fewer than k items cannot be asked as cloze, their number comes from no subtraction: the cloze split's size
    is not shown, and n of numbers on it is rounded down to a multiple of k.
    """
    splits = out.get("splits")
    size = splits.get("cloze") if isinstance(splits, dict) else None
    if isinstance(splits, dict) and isinstance(size, int) and 0 < every - size < k:
        splits["cloze"] = withheld(f"< {k} cannot be asked so")
        _round_down(out, every, k, inside=False)


def _round_down(node: object, every: int, k: int, *, inside: bool) -> None:
    if isinstance(node, list):
        for one in node:
            _round_down(one, every, k, inside=inside)
    if not isinstance(node, dict):
        return
    for name in ("n", "ties", "tied"):
        n = node.get(name)
        # The bins of a reliability plot add up to the whole.
        if inside and isinstance(n, int) and (0 < every - n < k or "confidence" in node):
            node[name] = n // k * k
    for name, one in node.items():
        on_cloze = name.startswith("cloze") or name == "format_gap"
        _round_down(one, every, k, inside=inside or on_cloze)


def guardrails(shown: object, exact: object, table: Mapping[str, object] | None) -> list[Tree]:
    """The outcome of each guardrail; of the topics the lowest share kept that the table shows.

    `exact` are those of the summary, whose reason says whether there was anything to judge.
    """
    rows = [row for row in shown if isinstance(row, dict)] if isinstance(shown, list) else []
    reasons = (
        [row.get("reason") for row in exact if isinstance(row, Mapping)] if isinstance(exact, list) else []
    )
    return [
        {
            **row,
            "value": _lowest(table) if row.get("name") == "topic_collapse" else None,
            "reason": {"code": "not_judged" if _unjudged(reason) else "not_shown"},
        }
        for row, reason in zip(rows, reasons, strict=False)
    ]


def unjudged(reasons: object) -> list[Tree]:
    """Why nothing was judged: the number of items, which every release shows, and voters with the place they pick."""
    rows = [row for row in reasons if isinstance(row, dict)] if isinstance(reasons, list | tuple) else []
    out: list[Tree] = []
    for row in rows:
        if row.get("code") == "trial_run":
            out.append(row)
        elif row.get("code") == "one_place":
            voter = row.get("voter")
            # What is no name stays inside.
            name = voter if isinstance(voter, str) and NAME.fullmatch(voter) else "a voter"
            out.append({**{key: row.get(key) for key in ("code", "place", "forced")}, "voter": name})
    return out


def failed(checks: Sequence[Mapping[str, object]]) -> list[Tree]:
    """The reasons of a released certificate: which guardrails failed."""
    return [
        {"code": "guardrail_failed", "name": row.get("name")} for row in checks if row.get("passed") is False
    ]


def _unjudged(reason: object) -> bool:
    """Also of an older file, whose reasons are sentences."""
    if not isinstance(reason, Mapping):
        return False
    return reason.get("code") == "not_judged" or str(reason.get("text")).startswith("not judged")


def _lowest(table: Mapping[str, object] | None) -> float | None:
    rows: Any = (table or {}).get("by_topic") or {}
    return min((float(row["retention"]["value"]) for row in rows.values() if row["retention"]), default=None)


def _percents(n: int, x: int) -> Tree:
    ci = wilson(x, n)
    return {"value": rounded(x / n, FINEST), "n": n, "ci": [rounded(end, FINEST) for end in ci]}


def _fixed(name: str, x: object) -> float | None:
    if not isinstance(x, int | float):
        return None
    return one_digit_up(x) if name == "p" else three_digits(x)


def described(bench: Loaded, k: int) -> dict[str, Any]:
    """The benchmark in counts; a count between 0 and `k` is "< k", and nothing can be found by subtraction."""
    items = bench.items
    n = len(items)
    return {
        "name": bench.name,
        "layout": bench.layout,
        "n_items": n,
        "n_quarantined": _cell(len(bench.quarantined), k),
        "option_counts": _cells(Counter(item.k for item in items), k),
        "key_positions": _cells(Counter(item.key for item in items), k),
        "chance_accuracy": rounded(sum(1 / item.k for item in items) / n, FINEST) if n else None,
        "n_topics": len({item.topic for item in items}),
        "defects": {
            kind: _cell(count, k) for kind, count in sorted(Counter(d.kind for d in bench.defects).items())
        },
    }


def _by_count(row: Mapping[str, Any], k: int) -> Tree:
    """A rule's rate with the interval of its count: the narrower one of shared credit would say how many items share."""
    value, n = row.get("value"), row.get("n")
    ci = list(wilson(value * n, n)) if value is not None and n else None
    return plain_rate({**row, "ci": ci}, k)


def feature_classes(table: Mapping[str, Any], k: int) -> dict[str, Any]:
    """What `heuristics.table` found, by class of cue: the member that is right most often, in whole percents."""
    rows = table["heuristics"]
    best = {
        name: max((rows[cue] for cue in members if cue in rows), key=lambda row: row["value"] or 0.0)
        for name, members in FEATURE_CLASSES.items()
        if any(cue in rows for cue in members)
    }
    chance = table["chance_accuracy"]
    return {
        "n": table["n"],
        "chance_accuracy": None if chance is None else rounded(chance, FINEST),
        "cues": {name: _by_count(row, k) for name, row in best.items()},
    }


def _cell(n: int, k: int) -> int | str:
    return n if n == 0 or n >= k else f"< {k}"


def _cells(counts: Mapping[int, int], k: int) -> dict[str, int] | None:
    """The counts of a partition of all items; None where one of them is too small to be shown."""
    if any(n < k for n in counts.values()):
        return None
    return {str(number): n for number, n in sorted(counts.items())}
