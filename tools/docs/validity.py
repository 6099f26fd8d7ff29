"""The generated blocks of docs/validity.md: tables of what results/calibration holds.

A file that is absent is said to be absent; nothing is filled in.
"""

from typing import Any

from bench.calibrate.arms import ESTIMANDS, TESTS, alarm_verdict, coverage_verdict
from tools.docs import measured
from tools.docs.measured import RESULTS, percent, table

_PLOTS = {
    "coverage": "Share of 95 % intervals that hold the true value, by estimator",
    "power": "How often the shortcuts of a set are significant, by its size and rate",
    "latent_bias": "Mean error of the latent shortcut rate by size, rate and correlation",
    "correlated": "The latent rate as voters err more and more alike, beside the product formula",
}


def _of(*names: str) -> Any:
    return measured.measured(*(f"calibration/{name}.json" for name in names), by="make calibrate")


def _plot(name: str) -> str:
    if not (RESULTS / "calibration" / f"{name}.svg").is_file():
        return ""
    return f"![{_PLOTS[name]}](../results/calibration/{name}.svg)\n\n"


def _between(ci: list[float]) -> str:
    return f"{100 * ci[0]:.1f} to {100 * ci[1]:.1f}"


def _points(value: float) -> str:
    return f"{100 * value:+.2f}"


def _marked(verdict: str) -> str:
    return f"**{verdict}**" if verdict in ("wide", "narrow", "no") else verdict


@_of("calibration")
def validity_made(found: Any) -> str:
    grid = "; ".join(
        f"{name.replace('_', ' ')} {', '.join(map(str, values))}"
        for name, values in found["simulations"].items()
    )
    depth = found["benchmarks_by_depth"]
    return (
        f"Grid: {grid}. {found['benchmarks']:,} benchmarks: {depth['worded']:,} judged whole, {depth['whole']:,} without "
        f"what reads text, {depth['screen']:,} by the screen alone.\n"
    )


@_of("calibration")
def validity_coverage(found: Any) -> str:
    rows = [
        [
            f"`{name}`", ESTIMANDS.get(name, "-"), f"{row['intervals']:,}", f"{row['benchmarks']:,}",
            f"{percent(row['share'])} ({_between(row['ci'])})", _points(row["bias"]), f"{100 * row['half_width']:.1f}",
            _marked(coverage_verdict(row["ci"])),
        ]
        for name, row in found["coverage_detail"].items()
    ]  # fmt: skip
    head = (
        "estimator | its true value | intervals | benchmarks | hold the truth (Monte Carlo) | mean error, points | "
        "half width, points | 93 to 97 %"
    )
    return _plot("coverage") + table(head, rows, 2)


@_of("calibration")
def validity_alarms(found: Any) -> str:
    rows = [
        [
            f"`{name}`", TESTS.get(name, "-"), f"{row['benchmarks']:,}",
            f"{percent(row['share'])} ({_between(row['ci'])})", _marked(alarm_verdict(row["ci"])),
        ]
        for name, row in found["false_alarm_detail"].items()
    ]  # fmt: skip
    return table("test | says yes when | clean sets | said yes (Monte Carlo) | at most 5 %", rows, 2)


@_of("calibration")
def validity_latent(found: Any) -> str:
    rows = [
        [
            f"{row['items']:,}", f"{100 * row['shortcut_rate']:g} %", str(row["correlation"]), f"{row['benchmarks']:,}",
            f"{_points(row['bias'])} ({100 * row['bias_ci'][0]:+.2f} to {100 * row['bias_ci'][1]:+.2f})",
            f"{100 * row['sd']:.1f}", percent(row["coverage"]), _points(row["bias_by_independence"]),
        ]
        for row in found["latent"]
    ]  # fmt: skip
    head = (
        "items | true rate | correlation | benchmarks | mean error, points | standard deviation | coverage | "
        "mean error of the product formula"
    )
    return _plot("latent_bias") + table(head, rows) + "\n" + _plot("correlated")


@_of("power")
def validity_power(found: Any) -> str:
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
    return _plot("power") + table(head, rows) + f"\nThree voters, four options, {n} benchmarks a cell.\n"


@_of("calibration", "stress")
def validity_audit(found: Any, stress: Any) -> str:
    rows = [
        [
            "grid", f"{row['items']:,}", f"{100 * row['shortcut_rate']:g} %",
            *(percent(row[f"residual_{word}"]["share"]) if row[f"residual_{word}"] else "-" for word in _VERDICTS),
        ]
        for row in found["audit"]
    ] + [
        [
            world["says"], f"{world['items']:,}", f"{100 * world['shortcut_rate']:g} %",
            *(percent(world["alarms"][f"residual_{word}"]["share"]) for word in _VERDICTS),
        ]
        for world in stress["simulations"]
        if "outside" in world["says"]
    ]  # fmt: skip
    return table("world | items | shortcuts that all voters see | `certified` | `not certified`", rows)


_VERDICTS = ("certified", "not_certified")


@_of("calibration")
def validity_lost(found: Any) -> str:
    rows = [
        [
            f"{100 * row['shortcut_rate']:g} %", str(row["correlation"]), percent(row["clean_flagged"]),
            percent(row["expected_share"]), percent(row["found_beyond_latent"]),
        ]
        for row in found["clean_items_lost"]
    ]  # fmt: skip
    head = (
        "true rate | correlation | clean items flagged, of all | `expected_false_flags` / n | "
        "flagged less latent rate"
    )
    return table(head, rows)


@_of("stress")
def validity_stress(found: Any) -> str:
    rows = []
    for world in found["simulations"]:
        cover = world["coverage"]
        alarm = world["alarms"].get("excess_significant")
        rows.append([
            world["says"], f"{world['items']:,}", f"{100 * world['shortcut_rate']:g} %",
            "-" if world["latent_truth"] is None else percent(world["latent_truth"]),
            "-" if world["latent_mean"] is None else percent(world["latent_mean"]),
            *(percent(cover[name]["share"]) if name in cover else "-" for name in _STRESSED),
            "-" if alarm is None else percent(alarm["share"]),
        ])  # fmt: skip
    head = (
        "world | items | shortcuts | latent rate to be found | found (mean) | "
        + " | ".join(f"`{name}` covers" for name in _STRESSED)
        + " | significant"
    )
    n = found["simulations"][0]["benchmarks"]
    return (
        table(head, rows)
        + f"\n{n} benchmarks a row: a share of 95 % may come out between 88 and 99 % by chance.\n"
    )


@_of("stress")
def validity_places(found: Any) -> str:
    rows = []
    for world in found["simulations"]:
        if "own order" not in world["says"]:
            continue
        cover, alarms = world["coverage"], world["alarms"]
        rows.append([
            world["says"], f"{world['items']:,}",
            *(percent(cover[name]["share"]) for name in ("excess_over_chance", "excess_over_chance_by_place")),
            *(percent(alarms[name]["share"]) for name in ("excess_p_without_places", "excess_p", "excess_significant")),
        ])  # fmt: skip
    head = (
        "world | items | excess covers, keys drawn evenly | excess covers, keys drawn by place | p at most 0.05, evenly | "
        "p at most 0.05, by place | significant"
    )
    return table(head, rows)


_STRESSED = ("flagged_rate", "excess_over_chance", "latent_shortcut_rate", "topic_retention")


@_of("calibration")
def validity_not_holding(found: Any) -> str:
    off = found["does_not_hold"]
    if not off:
        return "No cell of the grid lies outside 93 to 97 % beyond doubt.\n"
    out = []
    for name in dict.fromkeys(row["estimator"] for row in off):
        here = [row for row in off if row["estimator"] == name]
        coarse = [row for row in here if len(row["where"]) == 2]
        places = "; ".join(
            f"{r['where']['items']:,} items, {100 * r['where']['shortcut_rate']:g} %: {percent(r['share'])}"
            for r in coarse
        )
        out.append([f"`{name}`", here[0]["is"], places or "-", str(len(here) - len(coarse))])
    return table("estimator | its intervals are | by size and rate | single cells", out, 3)


@_of("fdr")
def validity_fdr(found: Any) -> str:
    rows = [
        [
            row["says"] + (", `fdr_exact`" if row["exact"] else ""), str(row["planted"]), str(row["benchmarks"]),
            f"{percent(row['false_share'])} ({_between(row['ci'])})", _marked(row["verdict"]),
            *("-" if row[name] is None else percent(row[name]) for name in ("estimated", "interval_holds", "any_flag")),
            percent(row["planted_flagged"]) if row["planted"] else "-", percent(row["clean_flagged"]),
        ]
        for row in found["simulations"]
    ]  # fmt: skip
    head = (
        "world | planted | benchmarks | false share (Monte Carlo) | at most q | estimated, where any | interval holds | "
        "any flag | planted flagged | clean flagged"
    )
    return f"{found['items']} items, q = {100 * found['q']:g} %.\n\n" + table(head, rows)


@_of("chance")
def validity_by_chance(found: Any) -> str:
    rows = [
        [
            f"{row['items']:,}", percent(row["follows"]), " ".join(map(str, row["options"])), str(row["benchmarks"]),
            f"{percent(row['by_removal']['share'])} ({_between(row['by_removal']['ci'])})",
            f"{percent(row['by_decoys']['share'])} ({_between(row['by_decoys']['ci'])})", f"{row['by_decoys']['n']:,}",
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
            row["says"], f"{row['items']:,}", str(row["benchmarks"]), percent(row["truth"]),
            f"{percent(row['mean'])} ({_between(row['mean_ci'])})",
            f"{percent(row['coverage']['share'])} ({_between(row['coverage']['ci'])})", percent(row["ratio_of_sums"]),
        ]
        for row in found["latent"]
    ]  # fmt: skip
    under = (
        "shortcuts where | items | benchmarks | true rate | found (mean) | interval holds it | ratio of sums"
    )
    return table(head, rows) + "\n" + table(under, latent)


BLOCKS = measured.named(
    validity_made,
    validity_coverage,
    validity_alarms,
    validity_latent,
    validity_power,
    validity_audit,
    validity_lost,
    validity_stress,
    validity_places,
    validity_not_holding,
    validity_fdr,
    validity_by_chance,
)
