"""What free response may say of a restricted set: counts of k or more, whole percents, and no rate of none or all.

A released summary is built from a list of places; what is not on the list is not in it. Where a part is too small, the
parts beside it are not told either, so that nothing is found by subtraction.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from robustify.disclosure.coarse import FINEST, one_digit_up, plain_rate, rounded, withheld

MIN_CELL = 10
"""The smallest count that is shown, where no manifest says another."""
_SETTINGS = ("format", "repeats")


def cell(n: int, k: int) -> int | str:
    """A count, or "< k"."""
    return n if n == 0 or n >= k else f"< {k}"


def share(x: float, n: int, k: int) -> float | None:
    """A share of n in whole percents; None where n is small."""
    return rounded(x, FINEST) if n >= k else None


def cells(counts: Mapping[str, int], k: int) -> dict[str, int] | None:
    """The counts of the parts of a whole; None where one of them is too small to be told."""
    return None if any(0 < n < k for n in counts.values()) else dict(counts)


def prepared(told: Mapping[str, Any], k: int) -> dict[str, Any]:
    """`convert.excluded` without topics: how many items can be asked, by kind, and how many cannot, by reason."""
    left = told["n"] - told["asked"]
    whole = cells({"asked": told["asked"], "left": left}, k)
    kinds, reasons = cells(told["kinds"], k), cells(told["excluded"], k)
    return {
        "n": cell(told["n"], k),
        "asked": None if whole is None else told["asked"],
        "kinds": None if whole is None else kinds,
        "excluded": None if whole is None else reasons,
    }


def few_rate(node: Mapping[str, Any], k: int) -> dict[str, Any]:
    """A rate in whole percents; withheld where fewer than k are counted, or fewer than k are right or wrong."""
    value, n = node.get("value"), node.get("n")
    if isinstance(value, int | float) and isinstance(n, int) and n >= k and min(value * n, n - value * n) < k:
        return withheld(f"< {k} right or wrong")
    return plain_rate(node, k)


def released(summary: Mapping[str, Any], k: int) -> dict[str, Any]:
    """The summary of `report.summarise`, as far as it may be shown of a restricted set."""
    models = {name: _model(told, k) for name, told in summary["models"].items()}
    hidden = {name for name, told in models.items() if told["all"]["accuracy"]["value"] is None}
    differences = {
        a: {b: _between(node, {a, b} & hidden, k) for b, node in row.items()}
        for a, row in summary["differences"].items()
    }
    return {
        "format": summary["format"],
        "restricted": True,
        "min_cell": k,
        "n_items": cell(summary["n_items"], k),
        "models": models,
        "calibration": _calibration(summary["calibration"], k),
        "differences": differences,
        "against_base": _against(summary["against_base"], hidden, k),
    }


def _model(told: Mapping[str, Any], k: int) -> dict[str, Any]:
    kinds = {name: _part(part, k) for name, part in told["kinds"].items()}
    small = any(part["accuracy"]["value"] is None for part in kinds.values())
    statuses: dict[str, int] = {}
    for part in told["kinds"].values():
        for name, n in part["statuses"].items():
            statuses[name] = statuses.get(name, 0) + n
    return {
        # One kind that is left out is the whole less the others.
        "kinds": {} if small else kinds,
        "all": _part(told["all"], k),
        "statuses": cells(statuses, k),
        "judges": told["judges"],
        "templates": told["templates"],
        "self_judging": cell(told["self_judging"], k),
    }


def _part(part: Mapping[str, Any], k: int) -> dict[str, Any]:
    accuracy = few_rate(part["accuracy"], k)
    shown = accuracy["value"] is not None
    return {
        "n": cell(part["n"], k),
        "accuracy": accuracy,
        "lower": _step(part["lower"]) if shown else None,
        "upper": _step(part["upper"]) if shown else None,
        "coverage": plain_rate(part["coverage"], k),
        "by_judge": _all_or_few(part["by_judge"], k),
    }


def _all_or_few(node: Mapping[str, Any], k: int) -> dict[str, Any]:
    """Who judged: all or none of the answers may be told, for it says nothing of what was right."""
    return plain_rate(node, k) if node.get("value") in (0, 1, None) else few_rate(node, k)


def _between(node: Mapping[str, Any], hidden: set[str], k: int) -> dict[str, Any]:
    # With one model's rate and the difference, the other's would be known.
    return withheld("a rate of one of them") if hidden else plain_rate(node, k)


def _against(found: Mapping[str, Any] | None, hidden: set[str], k: int) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "base": found["base"],
        "models": {
            name: _pair(told, {name, found["base"]} & hidden, k) for name, told in found["models"].items()
        },
    }


def _pair(told: Mapping[str, Any], hidden: set[str], k: int) -> dict[str, Any]:
    small = bool(hidden) or told["n_both"] < k
    few = small or min(told["gained"], told["lost"]) < k
    p = {name: None if small or told[name] is None else one_digit_up(told[name]) for name in ("p", "p_holm")}
    return {
        "n_both": cell(told["n_both"], k),
        "difference": _between(told["difference"], hidden, k),
        "lower": None if small else _step(told["lower"]),
        "upper": None if small else _step(told["upper"]),
        "gained": None if few else told["gained"],
        "lost": None if few else told["lost"],
        **p,
    }


def _calibration(found: Mapping[str, Any], k: int) -> dict[str, Any]:
    parts = {name: found[name] for name in ("verdicts", "nuggets") if name in found}
    return {"status": found["status"], **{n: None if p is None else coarse(p, k) for n, p in parts.items()}}


def _agreement(part: Mapping[str, Any], k: int) -> dict[str, Any]:
    """How far judge and people agree; the table of who said what only where each of its cells is large enough."""
    table: Sequence[Sequence[int]] = part["confusion"]
    whole = part["n"] >= k and all(n >= k for row in table for n in row)
    n = part["n"]
    counts = ("n_labelled", "n_without_judge", "n_judge_unread", "n_people_undecided")
    kappa, corrected = part["kappa"], part.get("corrected_rate")
    return {
        "n": cell(n, k),
        "labels": part["labels"],
        "base_rates": coarse(part["base_rates"], k) if whole else {"first": {}, "second": {}},
        "raw": few_rate(part["raw"], k),
        "kappa": plain_rate(kappa, k) if whole else withheld(f"< {k} in a cell"),
        "confusion": [list(row) for row in table] if whole else None,
        **{name: cell(part[name], k) for name in counts if name in part},
        **{
            name: _step(part.get(name)) if whole else None for name in ("alpha", "sensitivity", "specificity")
        },
        "corrected_rate": few_rate(corrected, k) if whole and corrected else None,
    }


def coarse(told: Any, k: int) -> Any:
    """Any other result: small counts as "< k", everything else in whole percents.

    Its rates are of a judge's words, not of what a model knows: none and all may be told, on k or more.
    """
    if isinstance(told, Mapping):
        if "confusion" in told:
            return _agreement(told, k)
        if {"value", "n"} <= told.keys():
            return plain_rate(told, k)
        return {name: held if name in _SETTINGS else coarse(held, k) for name, held in told.items()}
    if isinstance(told, list | tuple):
        return [coarse(held, k) for held in told]
    if isinstance(told, int) and not isinstance(told, bool):
        return cell(told, k)
    return _step(told) if isinstance(told, float) else told


def _step(x: Any) -> float | None:
    return rounded(x, FINEST) if isinstance(x, int | float) else None
