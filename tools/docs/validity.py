"""The generated blocks of docs/validity.md: tables of what results/calibration holds.

A file that is absent is said to be absent; nothing is filled in.
"""

import json
from pathlib import Path
from typing import Any

from bench.calibrate.estimands import ESTIMANDS, TESTS, alarm_verdict, coverage_verdict

RESULTS = Path(__file__).parents[2] / "results" / "calibration"
_PLOTS = {
    "coverage": "Share of 95 % intervals that hold the true value, by estimator",
    "power": "How often the shortcuts of a set are significant, by its size and rate",
    "latent_bias": "Mean error of the latent shortcut rate by size, rate and correlation",
    "correlated": "The latent rate as voters err more and more alike, beside the product formula",
}


def _read(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _absent(name: str) -> str:
    return f"Not measured: `results/calibration/{name}.json` is absent; `make calibrate` writes it.\n"


def _plot(name: str) -> str:
    if not (RESULTS / f"{name}.svg").is_file():
        return ""
    return f"![{_PLOTS[name]}](../results/calibration/{name}.svg)\n\n"


def _table(head: str, rows: list[list[str]], left: int = 1) -> str:
    rule = "|".join(["---"] * left + ["---:"] * (head.count("|") + 1 - left))
    return f"| {head} |\n|{rule}|\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _between(ci: list[float]) -> str:
    return f"{100 * ci[0]:.1f} to {100 * ci[1]:.1f}"


def _points(value: float) -> str:
    return f"{100 * value:+.2f}"


def _marked(verdict: str) -> str:
    return f"**{verdict}**" if verdict in ("wide", "narrow", "no") else verdict


def validity_made() -> str:
    found = _read("calibration")
    if found is None:
        return _absent("calibration")
    grid = "; ".join(
        f"{name.replace('_', ' ')} {', '.join(map(str, values))}"
        for name, values in found["simulations"].items()
    )
    depth = found["benchmarks_by_depth"]
    return (
        f"Grid: {grid}. {found['benchmarks']:,} benchmarks: {depth['worded']:,} judged whole, {depth['whole']:,} without "
        f"what reads text, {depth['screen']:,} by the screen alone.\n"
    )


def validity_coverage() -> str:
    found = _read("calibration")
    if found is None:
        return _absent("calibration")
    rows = [
        [
            f"`{name}`", ESTIMANDS.get(name, "-"), f"{row['intervals']:,}", f"{row['benchmarks']:,}",
            f"{_share(row['share'])} ({_between(row['ci'])})", _points(row["bias"]), f"{100 * row['half_width']:.1f}",
            _marked(coverage_verdict(row["ci"])),
        ]
        for name, row in found["coverage_detail"].items()
    ]  # fmt: skip
    head = (
        "estimator | its true value | intervals | benchmarks | hold the truth (Monte Carlo) | mean error, points | "
        "half width, points | 93 to 97 %"
    )
    return _plot("coverage") + _table(head, rows, 2)


def validity_alarms() -> str:
    found = _read("calibration")
    if found is None:
        return _absent("calibration")
    rows = [
        [
            f"`{name}`", TESTS.get(name, "-"), f"{row['benchmarks']:,}",
            f"{_share(row['share'])} ({_between(row['ci'])})", _marked(alarm_verdict(row["ci"])),
        ]
        for name, row in found["false_alarm_detail"].items()
    ]  # fmt: skip
    return _table("test | says yes when | clean sets | said yes (Monte Carlo) | at most 5 %", rows, 2)


def validity_latent() -> str:
    found = _read("calibration")
    if found is None:
        return _absent("calibration")
    rows = [
        [
            f"{row['items']:,}", f"{100 * row['shortcut_rate']:g} %", str(row["correlation"]), f"{row['benchmarks']:,}",
            f"{_points(row['bias'])} ({100 * row['bias_ci'][0]:+.2f} to {100 * row['bias_ci'][1]:+.2f})",
            f"{100 * row['sd']:.1f}", _share(row["coverage"]), _points(row["bias_by_independence"]),
        ]
        for row in found["latent"]
    ]  # fmt: skip
    head = (
        "items | true rate | correlation | benchmarks | mean error, points | standard deviation | coverage | "
        "mean error of the product formula"
    )
    return _plot("latent_bias") + _table(head, rows) + "\n" + _plot("correlated")


def validity_power() -> str:
    found = _read("power")
    if found is None:
        return _absent("power")
    sizes = sorted({p["items"] for p in found["points"]})
    by = {
        (p["correlation"], p["shortcut_rate"], p["items"]): p["significant"]["share"] for p in found["points"]
    }
    rows = [
        [level, f"{100 * s:g} %", *(f"{100 * by[level, s, n]:.0f} %" for n in sizes)]
        for level in ("low", "high")
        for s in sorted({p["shortcut_rate"] for p in found["points"]})
    ]
    head = "correlation | true rate | " + " | ".join(f"{n:,} items" for n in sizes)
    n = found["points"][0]["significant"]["n"]
    return _plot("power") + _table(head, rows) + f"\nThree voters, four options, {n} benchmarks a cell.\n"


def validity_audit() -> str:
    found, stress = _read("calibration"), _read("stress")
    if found is None or stress is None:
        return _absent("calibration" if found is None else "stress")
    rows = [
        [
            "grid", f"{row['items']:,}", f"{100 * row['shortcut_rate']:g} %",
            *(_share(row[f"residual_{word}"]["share"]) if row[f"residual_{word}"] else "-" for word in _VERDICTS),
        ]
        for row in found["audit"]
    ] + [
        [
            world["says"], f"{world['items']:,}", f"{100 * world['shortcut_rate']:g} %",
            *(_share(world["alarms"][f"residual_{word}"]["share"]) for word in _VERDICTS),
        ]
        for world in stress["simulations"]
        if "outside" in world["says"]
    ]  # fmt: skip
    return _table("world | items | shortcuts that all voters see | `certified` | `not certified`", rows)


_VERDICTS = ("certified", "not_certified")


def validity_lost() -> str:
    found = _read("calibration")
    if found is None:
        return _absent("calibration")
    rows = [
        [
            f"{100 * row['shortcut_rate']:g} %", str(row["correlation"]), _share(row["clean_flagged"]),
            _share(row["expected_share"]), _share(row["found_beyond_latent"]),
        ]
        for row in found["clean_items_lost"]
    ]  # fmt: skip
    head = (
        "true rate | correlation | clean items flagged, of all | `expected_false_flags` / n | "
        "flagged less latent rate"
    )
    return _table(head, rows)


def validity_stress() -> str:
    found = _read("stress")
    if found is None:
        return _absent("stress")
    rows = []
    for world in found["simulations"]:
        cover = world["coverage"]
        alarm = world["alarms"].get("excess_significant")
        rows.append([
            world["says"], f"{world['items']:,}", f"{100 * world['shortcut_rate']:g} %",
            "-" if world["latent_truth"] is None else _share(world["latent_truth"]),
            "-" if world["latent_mean"] is None else _share(world["latent_mean"]),
            *(_share(cover[name]["share"]) if name in cover else "-" for name in _STRESSED),
            "-" if alarm is None else _share(alarm["share"]),
        ])  # fmt: skip
    head = (
        "world | items | shortcuts | latent rate to be found | found (mean) | "
        + " | ".join(f"`{name}` covers" for name in _STRESSED)
        + " | significant"
    )
    n = found["simulations"][0]["benchmarks"]
    return (
        _table(head, rows)
        + f"\n{n} benchmarks a row: a share of 95 % may come out between 88 and 99 % by chance.\n"
    )


def validity_places() -> str:
    found = _read("stress")
    if found is None:
        return _absent("stress")
    rows = []
    for world in found["simulations"]:
        if "own order" not in world["says"]:
            continue
        cover, alarms = world["coverage"], world["alarms"]
        rows.append([
            world["says"], f"{world['items']:,}",
            *(_share(cover[name]["share"]) for name in ("excess_over_chance", "excess_over_chance_by_place")),
            *(_share(alarms[name]["share"]) for name in ("excess_p_without_places", "excess_p", "excess_significant")),
        ])  # fmt: skip
    head = (
        "world | items | excess covers, keys drawn evenly | excess covers, keys drawn by place | p at most 0.05, evenly | "
        "p at most 0.05, by place | significant"
    )
    return _table(head, rows)


_STRESSED = ("flagged_rate", "excess_over_chance", "latent_shortcut_rate", "topic_retention")


def validity_not_holding() -> str:
    found = _read("calibration")
    if found is None:
        return _absent("calibration")
    off = found["does_not_hold"]
    if not off:
        return "No cell of the grid lies outside 93 to 97 % beyond doubt.\n"
    out = []
    for name in dict.fromkeys(row["estimator"] for row in off):
        here = [row for row in off if row["estimator"] == name]
        coarse = [row for row in here if len(row["where"]) == 2]
        places = "; ".join(
            f"{r['where']['items']:,} items, {100 * r['where']['shortcut_rate']:g} %: {_share(r['share'])}"
            for r in coarse
        )
        out.append([f"`{name}`", here[0]["is"], places or "-", str(len(here) - len(coarse))])
    return _table("estimator | its intervals are | by size and rate | single cells", out, 3)


def validity_fdr() -> str:
    found = _read("fdr")
    if found is None:
        return _absent("fdr")
    rows = [
        [
            row["says"] + (", `fdr_exact`" if row["exact"] else ""), str(row["planted"]), str(row["benchmarks"]),
            f"{_share(row['false_share'])} ({_between(row['ci'])})", _marked(row["verdict"]),
            *("-" if row[name] is None else _share(row[name]) for name in ("estimated", "interval_holds", "any_flag")),
            _share(row["planted_flagged"]) if row["planted"] else "-", _share(row["clean_flagged"]),
        ]
        for row in found["simulations"]
    ]  # fmt: skip
    head = (
        "world | planted | benchmarks | false share (Monte Carlo) | at most q | estimated, where any | interval holds | "
        "any flag | planted flagged | clean flagged"
    )
    return f"{found['items']} items, q = {100 * found['q']:g} %.\n\n" + _table(head, rows)


def validity_by_chance() -> str:
    found = _read("chance")
    if found is None:
        return _absent("chance")
    rows = [
        [
            f"{row['items']:,}", _share(row["follows"]), " ".join(map(str, row["options"])), str(row["benchmarks"]),
            f"{_share(row['by_removal']['share'])} ({_between(row['by_removal']['ci'])})",
            f"{_share(row['by_decoys']['share'])} ({_between(row['by_decoys']['ci'])})", f"{row['by_decoys']['n']:,}",
            _marked(alarm_verdict(row["by_decoys"]["ci"])),
        ]
        for row in found["alike"]
    ]  # fmt: skip
    head = (
        "items | guesses the voters' favourite | options | clean sets | p at most 0.05, random removals | by decoys | "
        "sets with decoys | at most 5 %"
    )
    latent = [
        [
            row["says"], f"{row['items']:,}", str(row["benchmarks"]), _share(row["truth"]),
            f"{_share(row['mean'])} ({_between(row['mean_ci'])})",
            f"{_share(row['coverage']['share'])} ({_between(row['coverage']['ci'])})", _share(row["ratio_of_sums"]),
        ]
        for row in found["latent"]
    ]  # fmt: skip
    under = (
        "shortcuts where | items | benchmarks | true rate | found (mean) | interval holds it | ratio of sums"
    )
    return _table(head, rows) + "\n" + _table(under, latent)
