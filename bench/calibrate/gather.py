"""From trials to the files of results/calibration: shares with their Monte Carlo intervals, nothing smoothed.

A share of intervals that come from one benchmark is not a share of independent ones: its interval counts
benchmarks.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bench.calibrate.arms import ALARM, BAND, Cell, alarm_verdict, coverage_verdict, rounded, share_of
from bench.calibrate.trial import Trial
from bench.simulate.truth import true_values
from robustify.stats.intervals import wilson

SURE = 0.99
"""The level at which a cell is said not to hold: many cells are looked at."""
PLACED_EVENLY_ONLY = ("heuristics_holm_all", "heuristics_holm_robust", "position_bias_holm")
"""Where keys favour a place, a blind rule of places rightly beats chance, and even errors rightly differ from
the keys: no false alarms."""
FEWEST = 20
"""Benchmarks below which a cell is not said to hold or not to hold."""
POWER_ONLY = ("residual_certified",)

Pairs = list[tuple[Cell, Trial]]


def gathered(cells: Sequence[Cell], trials: Iterable[Trial]) -> dict[str, dict[str, Any]]:
    """The files by name: `calibration`, `power`, `stress`."""
    by_arm: dict[str, Pairs] = defaultdict(list)
    for t in trials:
        by_arm[cells[t.cell].arm].append((cells[t.cell], t))
    return {
        "calibration": calibration(by_arm["grid"]),
        "power": {"format": 1, "points": [_powered(c, pairs) for c, pairs in _by_cell(by_arm["power"])]},
        "stress": {"format": 1, "simulations": [_stressed(c, pairs) for c, pairs in _by_cell(by_arm["stress"])]},
    }  # fmt: skip


def calibration(pairs: Pairs) -> dict[str, Any]:
    """The main file: coverage and false alarms over the grid, then by its dimensions and where they do not hold."""
    clean = [(c, t) for c, t in pairs if not c.sim.shortcut_rate]
    covered, alarmed = coverage(pairs), false_alarms(clean)
    depths = sorted({c.depth for c, _ in pairs})
    return {
        "format": 1,
        "benchmarks": len(pairs),
        "benchmarks_by_depth": {d: sum(c.depth == d for c, _ in pairs) for d in depths},
        "band": list(BAND),
        "coverage": {name: row["share"] for name, row in covered.items()},
        "false_alarms": {name: row["share"] for name, row in alarmed.items()},
        "coverage_detail": covered,
        "false_alarm_detail": alarmed,
        "false_alarms_by": {
            label: {str(v): {n: r["share"] for n, r in false_alarms(part).items()} for v, part in _split(clean, label)}
            for label in ("items", "voters", "correlation", "places")
        },
        "latent": [_latent(dict(labels), part) for labels, part
                   in _cells(pairs, ("items", "shortcut_rate", "correlation"))],
        "audit": [_audited(dict(labels), part) for labels, part in _cells(pairs, ("items", "shortcut_rate"))],
        "does_not_hold": does_not_hold(pairs),
        "simulations": _label_values(pairs),
    }  # fmt: skip


def coverage(pairs: Pairs) -> dict[str, Any]:
    """By estimator the share of intervals that hold the truth, its interval, bias and width."""
    rows: dict[str, Any] = {}
    by = {label: {str(v): _shares(part) for v, part in _split(pairs, label)} for label in pairs[0][0].labels}
    for name, found in sorted(_intervals(pairs).items()):
        inside = np.array([i.inside for _, i in found])
        error, width = (np.array([getattr(i, part) for _, i in found]) for part in ("error", "width"))
        benchmarks = len({b for b, _ in found})
        share = float(inside.mean())
        rows[name] = {
            "share": rounded(share),
            "ci": [rounded(x) for x in wilson(share * benchmarks, benchmarks)],
            "intervals": len(found),
            "benchmarks": benchmarks,
            "bias": rounded(float(error.mean())),
            "sd": rounded(float(error.std())),
            "half_width": rounded(float(width.mean() / 2)),
            "by": {
                label: {v: rounded(shares[name]) for v, shares in parts.items() if name in shares}
                for label, parts in by.items()
            },
        }
    return rows


def false_alarms(clean: Pairs) -> dict[str, Any]:
    """By test the share of sets without a shortcut on which it was positive."""
    said: dict[str, list[bool]] = defaultdict(list)
    for cell, t in clean:
        for name, yes in t.alarms.items():
            if name not in POWER_ONLY and (cell.sim.places == "uniform" or name not in PLACED_EVENLY_ONLY):
                said[name].append(yes)
    return {
        name: {
            "share": rounded(float(np.mean(yes))),
            "ci": [rounded(x) for x in wilson(sum(yes), len(yes))],
            "benchmarks": len(yes),
        }
        for name, yes in sorted(said.items())
    }


def does_not_hold(pairs: Pairs) -> list[dict[str, Any]]:
    """Where coverage is outside the band beyond doubt: by size and rate, and cell by cell of the grid."""
    out = []
    for labels in (("items", "shortcut_rate"), tuple(pairs[0][0].labels)):
        for where, part in _cells(pairs, labels):
            for name, found in sorted(_intervals(part).items()):
                benchmarks = len({b for b, _ in found})
                if benchmarks < FEWEST:
                    continue
                share = float(np.mean([i.inside for _, i in found]))
                low, high = wilson(share * benchmarks, benchmarks, SURE)
                if low > BAND[1] or high < BAND[0]:
                    out.append({
                        "estimator": name, "where": dict(where), "share": rounded(share),
                        "ci99": [rounded(low), rounded(high)],
                        "intervals": len(found), "benchmarks": benchmarks,
                        "is": "too wide" if low > BAND[1] else "too narrow",
                    })  # fmt: skip
    return out


def _latent(labels: dict[str, Any], pairs: Pairs) -> dict[str, Any]:
    found = [t.numbers for _, t in pairs if "latent" in t.numbers]
    s = float(labels["shortcut_rate"])
    error = np.array([f["latent"] - s for f in found])
    return {
        **labels, "benchmarks": len(found), "bias": rounded(float(error.mean())),
        "bias_ci": _around(error), "sd": rounded(float(error.std())),
        "coverage": rounded(_shares(pairs)["latent_shortcut_rate"]),
    }  # fmt: skip


def _audited(labels: dict[str, Any], pairs: Pairs) -> dict[str, Any]:
    names = ("residual_certified", "residual_not_certified")
    return {**labels, **{name: _yes(pairs, name) for name in names}}


def _powered(cell: Cell, pairs: Pairs) -> dict[str, Any]:
    return {**cell.labels, "significant": _yes(pairs, "excess_significant"), "p": _yes(pairs, "excess_p")}


def _stressed(cell: Cell, pairs: Pairs) -> dict[str, Any]:
    true = true_values(cell.sim)
    numbers = [t.numbers for _, t in pairs if t.numbers]
    return {
        **cell.labels,
        "shortcut_rate": cell.sim.shortcut_rate,
        "latent_truth": rounded(true["screen/latent_shortcut_rate"]) if "screen/latent_shortcut_rate" in true else None,
        "latent_mean": rounded(float(np.mean([n["latent"] for n in numbers]))) if numbers else None,
        "benchmarks": len(pairs),
        "coverage": {n: {k: r[k] for k in ("share", "ci", "intervals")} for n, r in coverage(pairs).items()},
        "alarms": {name: _yes(pairs, name) for name in sorted({n for _, t in pairs for n in t.alarms})},
    }  # fmt: skip


def _label_values(pairs: Pairs) -> dict[str, list[Any]]:
    labels = pairs[0][0].labels
    return {label: sorted({c.labels[label] for c, _ in pairs}, key=str) for label in labels}


def _yes(pairs: Pairs, name: str) -> dict[str, Any] | None:
    said = [t.alarms[name] for _, t in pairs if name in t.alarms]
    return share_of(said) if said else None


def _shares(pairs: Pairs) -> dict[str, float]:
    return {name: float(np.mean([i.inside for _, i in found])) for name, found in _intervals(pairs).items()}


def _intervals(pairs: Pairs) -> dict[str, list[tuple[int, Any]]]:
    out: dict[str, list[tuple[int, Any]]] = defaultdict(list)
    for benchmark, (_, t) in enumerate(pairs):
        for i in t.intervals:
            out[i.estimator].append((benchmark, i))
    return out


def _split(pairs: Pairs, label: str) -> list[tuple[Any, Pairs]]:
    return [(where[0][1], part) for where, part in _cells(pairs, (label,))]


def _cells(pairs: Pairs, labels: Sequence[str]) -> list[tuple[tuple[tuple[str, Any], ...], Pairs]]:
    return _grouped(pairs, lambda c: tuple((label, c.labels[label]) for label in labels))


def _by_cell(pairs: Pairs) -> list[tuple[Cell, Pairs]]:
    return [
        (part[0][0], part) for _, part in _grouped(pairs, lambda c: tuple(sorted(c.labels.items(), key=str)))
    ]


def _grouped(pairs: Pairs, by: Callable[[Cell], tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], Pairs]]:
    out: dict[tuple[Any, ...], Pairs] = {}
    for cell, t in pairs:
        out.setdefault(by(cell), []).append((cell, t))
    return list(out.items())


def _around(values_: Any) -> list[float]:
    half = 1.96 * float(values_.std()) / max(1, len(values_)) ** 0.5
    return [rounded(float(values_.mean()) - half), rounded(float(values_.mean()) + half)]


def closing_lines(files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The closing lines of a calibration."""
    main = files["calibration"]
    off = [
        f"{n} {r['share']:.3f}"
        for n, r in main["coverage_detail"].items()
        if coverage_verdict(r["ci"]) in ("wide", "narrow")
    ]
    loud = [
        f"{n} {r['share']:.3f}"
        for n, r in main["false_alarm_detail"].items()
        if alarm_verdict(r["ci"]) == "no"
    ]
    return [
        f"{main['benchmarks']} benchmarks; {len(main['coverage'])} estimators, {len(main['false_alarms'])} tests",
        f"coverage outside {BAND[0]:.0%} to {BAND[1]:.0%}: {', '.join(off) or 'none'}",
        f"false alarms above {ALARM:.0%}: {', '.join(loud) or 'none'}",
    ]
