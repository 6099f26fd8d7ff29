"""The generated blocks of docs/performance.md: tables of what results/bench holds.

A file that is absent is said to be absent; nothing is filled in.
"""

from collections import Counter
from typing import Any

from tools.docs.measured import RESULTS, ends, measured, named, percent, table

WORK = ("zero_shot", "long_stems", "five_shot", "audit", "audit_five_shot", "vllm", "warm")
NEAR = 1e-3
"""Nats that a log-likelihood may differ from lm-eval's (design, section 6)."""
_SCORING = (
    "work | peer, s | ours, s | ratio: median (range, pairs) | goal | met"
    " | largest difference, nats | other picks"
)
_GROWTH = (
    "what grows | to | items | requests | planned | lm-eval's | naive | naive / planned"
    " | s | tokens a second | peak, GiB"
)
_GROWS = {"items": "items", "options": "options an item", "stem": "tokens a stem"}


@measured("bench/scoring.json")
def bench_scoring(found: Any) -> str:
    works = table(_SCORING, [_work(name, found.get(name)) for name in WORK])
    return f"{works}\n{_rate(found.get('matrix_rate'))}\n\n{_machine(found)}\n"


def _work(name: str, case: dict[str, Any] | None) -> list[str]:
    if case is None:
        return [name.replace("_", " "), *["not measured"] * 3, *["-"] * 4]
    lo, hi = case["ratio_range"]
    if "batch_size" in case:
        peer = f"lm-eval, batch {case['batch_size']}"
    else:
        peer = f"vLLM {case['vllm']}" if "vllm" in case else "itself, cold"
    differ = case.get("picks_that_differ")
    most = case.get("goal_seconds")
    return [
        case["says"],
        f"{case['seconds_peer']:.1f} ({peer})",
        f"{case['seconds_ours']:.1f}",
        f"{_ratio(case['ratio_median'])} ({_ratio(lo)} to {_ratio(hi)}, {case['pairs']})",
        f"{case['goal']:g}" + (f", at most {most:g} s" if most else ""),
        "yes" if met(case) else "**no**",
        f"{case['max_abs_diff']:.2g}",
        "-" if differ is None else str(differ),
    ]


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def met(case: dict[str, Any]) -> bool:
    """Whether a case is as fast as its goal, with the same numbers and the same picks."""
    return bool(
        case["ratio_median"] >= case["goal"]
        and case["seconds_ours"] <= case.get("goal_seconds", float("inf"))
        and case["max_abs_diff"] <= NEAR
        and not case.get("picks_that_differ")
    )


def _rate(rate: dict[str, Any] | None) -> str:
    if rate is None:
        return "Share of the machine's own float32 matrix rate: not measured."
    lo, hi = rate["share_range"]
    return (
        f"Share of the machine's own float32 matrix rate, each distinct prefix token counted once: "
        f"{percent(rate['share'])} ({percent(lo)} to {percent(hi)}), "
        f"{rate['gflops_used']:,.0f} of {rate['gflops_measured']:,.0f} GFLOP/s"
        f" measured in the same run; goal {percent(rate['goal'])}, "
        + ("met." if rate["share"] >= rate["goal"] else "**not met**.")
    )


def _machine(found: dict[str, Any]) -> str:
    machine = found.get("machine", {})
    words = [f"{name.replace('_', '-')} {machine[name]}" for name in machine if name != "date"]
    loads = [case["load_before"] for case in found.values() if "load_before" in case]
    if loads:
        words.append(f"load before each case {min(loads):g} to {max(loads):g}")
    return f"Machine: {', '.join(words)}. Last measured on {machine.get('date', 'a day not recorded')}."


@measured("bench/scoring.json")
def bench_sizes(found: Any) -> str:
    """The ratio to lm-eval as the model grows."""
    cases = [case for name, case in found.items() if name.startswith("size_")]
    rows = []
    for case in sorted(cases, key=lambda case: case["parameters"]):
        lo, hi = case["ratio_range"]
        rows.append(
            [
                f"{case['parameters'] / 1e6:,.0f} million",
                f"{case['seconds_peer']:.1f} (batch {case['batch_size']})",
                f"{case['seconds_ours']:.1f}",
                f"{_ratio(case['ratio_median'])} ({_ratio(lo)} to {_ratio(hi)}, {case['pairs']})",
                f"{case['load_before']:g}",
            ]
        )
    heads = "parameters | lm-eval, s | ours, s | ratio: median (range, pairs) | load before"
    return f"{table(heads, rows)}\nThe work: {cases[0]['says'] if cases else 'not measured'}.\n"


@measured("bench/growth.json")
def bench_growth(found: Any) -> str:
    rows = [
        [
            _GROWS[p["series"]],
            *(f"{p[name]:,}" for name in ("x", "items", "requests", "planned", "rows", "naive")),
            f"{p['naive'] / p['planned']:.1f}",
            f"{p['seconds']:.1f}",
            f"{p['planned'] / p['seconds']:,.0f}",
            f"{p['peak_gib']:.2f}",
        ]
        for p in found["points"]
    ]
    machine = found["machine"]
    says = f"Machine: {machine['cores']} cores, load before {machine['load_before']:g}."
    return f"{_plot()}{table(_GROWTH, rows)}\n{says}\n"


def _plot() -> str:
    if not (RESULTS / "bench" / "growth.svg").is_file():
        return "The plot is not drawn: `python -m bench.growth --plot` draws it.\n\n"
    return (
        "![Tokens planned and naive, and seconds, as items, options and stem length grow]"
        "(../results/bench/growth.svg)\n\n"
    )


@measured("bench/profile.json")
def bench_profile(found: Any) -> str:
    parts = sorted(found["parts"], key=lambda part: -part["share"])
    total = found["total_seconds"]
    rows = [[part["name"], percent(part["share"]), f"{part['share'] * total:.2f}"] for part in parts]
    return f"{table('part | share | s', rows)}\nIn all {total:.1f} s: {found['says']}.{_before(found.get('before'))}\n"


def _before(turns: dict[str, Any] | None) -> str:
    if turns is None:
        return ""
    return (
        f"\n\nThe engine before this work took {turns['seconds_before']:.1f} s for the same, this one "
        f"{turns['seconds_now']:.1f} s, in turns: {_ratio(turns['ratio_median'])} times as fast"
        f" (median of {turns['pairs']} pairs)."
    )


@measured("bench/judging.json")
def bench_judging(found: Any) -> str:
    rows = [
        [
            _JUDGED[row["case"]],
            f"{row['items']:,}",
            f"{row['seconds']:.1f} ({row['range'][0]:.1f} to {row['range'][1]:.1f})",
            f"{row['processor_seconds']:.1f}",
            f"{row['peak_gib']:.2f}",
        ]
        for row in found["rows"]
    ]
    goal = (
        f"at most {found['goal_seconds']:g} s and {found['goal_gib']:g} GiB for a million items of the screen"
    )
    says = (
        f"{found['voters']} voters, {found['says']}; three runs each. Goal: {goal}, "
        f"{'met' if found['met'] else '**not met**'}."
        f" Machine: {found['machine']['cores']} cores, load afterwards {found['machine']['load_after']:g}."
    )
    return f"{table('what each voter answered | items | s: median (range) | processor s | peak, GiB', rows)}\n{says}\n"


_JUDGED = {"screen": "the choices alone", "whole": "the choices alone, the full question, cloze"}


@measured("bench/importing.json")
def bench_importing(found: Any) -> str:
    """What an import of logs costs, by shape."""
    rows = [
        [
            row["shape"].replace("_", " "),
            f"{row['items']:,}",
            f"{row['megabytes']:.0f}",
            f"{row['seconds']:.1f}",
            f"{row['cpu_seconds']:.1f}",
            f"{row['peak_gib']:.2f}",
            f"{row['load_before']:g}",
        ]
        for row in found["rows"]
    ]
    heads = "logs | items | MB | s | processor s | peak, GiB | load before"
    return (
        f"{table(heads, rows)}\nEach {found['rows'][0]['rows']:,} rows: {found['says']}. Goal: at most "
        f"{found['goal_seconds']:g} processor seconds for the first, {'met' if found['met'] else '**not met**'}.\n"
    )


@measured("bench/load.json")
def bench_load(found: Any) -> str:
    """What a command costs on a million made-up items, or a hundred thousand where models are asked."""
    rows = [
        [
            part,
            of,
            f"{one['seconds']:.0f}",
            f"{one['processor_seconds']:.0f}",
            f"{one['peak_mib']:,}",
            f"{one['load_before']:g}",
        ]
        for part, cases in found.items()
        for of, one in cases.items()
    ]
    return table("what | of | s | processor s | peak, MiB | load before", rows)


@measured("bench/cues.json")
def filter_power(found: Any) -> str:
    """What the filter removes of planted and clean items, and its false share, by set of items."""
    sets = {
        "demo, 126 of 360 planted": found["demo"]["fdr"],
        "the same, exact rule": found["demo"]["fdr_exact"],
        "the same, no voters": found["demo"]["without_voters"],
        "the same, all voters right": found["demo"]["unanimous"],
        "other sets with listed kinds in a third of the items": found["other_listed"]["all"],
        "eight kinds outside every list, one in a third of the items": found["unlisted"]["all"],
        "the same eight, by the listed features alone": found["unlisted_by_listed_features_alone"]["all"],
    }
    columns = ("removed", "clean_removed", "false_share")
    rows = [[name, *(ends(one[column]) for column in columns)] for name, one in sets.items()]
    return table("items | planted removed | clean removed | of the removed, clean", rows)


@measured("bench/cues.json")
def filter_redrawn(found: Any) -> str:
    """The same demo with the keys of all items drawn anew but those of some planted ones."""
    rows = [
        [
            planted,
            str(one["draws"]),
            rule,
            f"{100 * one[kind]['false_share']:.1f} % ({100 * one[kind]['error']:.1f})",
            f"{100 * one[kind]['any_flag']:.0f} %",
            f"{100 * one[kind]['removed']:.0f} %",
        ]
        for planted, one in found["keys_redrawn"].items()
        for kind, rule in (("fdr", "pooled"), ("fdr_exact", "exact"))
    ]
    heads = "planted items that keep their key | draws | rule | mean false share (standard error)"
    return table(f"{heads} | any flag | planted removed", rows)


@measured("bench/coverage.json", by="make coverage")
def bench_coverage(found: Any) -> str:
    """Lines and branches that the fast tests reach."""
    rows = []
    for package, one in found["packages"].items():
        shares = [
            f"{one[f'{of}_reached']:,} of {one[of]:,} ({percent(one[f'{of}_reached'] / one[of])})"
            for of in ("lines", "branches")
        ]
        rows.append([f"`{package}`", *shares])
    return f"{table('package | lines reached | branches reached', rows)}\nCounted by {found['tool']}.\n"


@measured("bench/torture.json")
def bench_torture(found: Any) -> str:
    """What `make torture` tried and what broke."""
    parts = {part: found.get(part, {}) for part in ("kills", "files", "pairs", "surroundings")}
    broken = Counter(fault["kind"] for part in parts.values() for fault in part.get("faults", ()))
    rows = []
    for what, part, count, kind in (
        ("runs killed at random moments and repeated (same bytes)", "kills", "killed", "kills"),
        ("files with random bytes changed", "files", "bytes", "bytes"),
        ("files of valid syntax with odd values", "files", "structured", "structured"),
        ("pairs of runs at once", "pairs", "tried", "pairs"),
        ("commands in odd surroundings", "surroundings", "tried", "surroundings"),
    ):
        one = parts[part]
        found_of = (
            [one["commit"], f"{one[count]:,}", str(broken[kind])] if one else ["-", "not measured", "-"]
        )
        rows.append([what, *found_of])
    limits, mended = found["limits"], found.get("mended")
    measured_parts = [part for part in parts.values() if part]
    again = (
        ""
        if mended is None
        else f"\nThe draws that broke a promise, repeated after the mend: {mended['tried']}, broken {mended['faults']}.\n"
    )
    return (
        table("what was tried | commit | times | promises broken", rows, left=2)
        + f"\nOver {len(found['seeds'])} pairs of a command and a file it reads. Limits for each changed file: "
        f"{limits['processor_seconds']:g} processor seconds, {limits['more_memory_mib']:,} MiB more memory. "
        f"It took {sum(part['minutes'] for part in measured_parts):.0f} minutes in all; "
        f"load at most {max(part['load_after'] for part in measured_parts):g}.\n{again}"
    )


@measured("bench/mutation.json", by="make mutation")
def bench_mutation(found: Any) -> str:
    """How many faults the tests of each part notice, and what became of the others."""
    heads = "part | commit | faults | killed | share, 95 % | not run, too long | survived | now killed | equivalent | left"
    rows = []
    for name, part in found["parts"].items():
        judged = [one["judged"] for one in part["survivors"]]
        fates = [sum(word.startswith(fate) for word in judged) for fate in ("now killed", "equivalent")]
        apart = part["not_imported"] + part["timed_out"]
        numbers = (part["killed"], ends(part["score"]), apart, len(judged), *fates, len(judged) - sum(fates))
        rows.append([f"`{name}`", part["commit"], *(str(n) for n in (part["mutants"], *numbers))])
    return (
        f"{table(heads, rows)}\nOne fault at each of the places that seed {found['seed']} draws; {found['tool']}. "
        f"The share is of those that ran, by the tests of that commit; now killed: by a test added since.\n"
    )


BLOCKS = named(
    bench_scoring,
    bench_sizes,
    bench_growth,
    bench_profile,
    bench_judging,
    bench_importing,
    bench_load,
    filter_power,
    filter_redrawn,
    bench_coverage,
    bench_torture,
    bench_mutation,
)
