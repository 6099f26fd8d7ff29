"""The generated blocks of docs/performance.md: tables of what results/bench holds.

A file that is absent is said to be absent; nothing is filled in.
"""

import json
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parents[2] / "results" / "bench"
WORK = ("zero_shot", "long_stems", "five_shot", "audit", "audit_five_shot", "warm")
NEAR = 1e-3
"""Nats that a log-likelihood may differ from lm-eval's (design, section 6)."""
_SCORING = (
    "work | lm-eval, s | ours, s | ratio: median (range, pairs) | goal | met"
    " | largest difference, nats | other picks"
)
_GROWTH = (
    "what grows | to | items | requests | planned | lm-eval's | naive | naive / planned"
    " | s | tokens a second | peak, GiB"
)
_GROWS = {"items": "items", "options": "options an item", "stem": "tokens a stem"}


def _read(name: str) -> dict[str, Any] | None:
    path = BENCH / name
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _absent(name: str) -> str:
    return f"Not measured: `results/bench/{name}` is absent.\n"


def _table(head: str, rows: list[list[str]], left: int = 1) -> str:
    rule = "|".join(["---"] * left + ["---:"] * (head.count("|") + 1 - left))
    return f"| {head} |\n|{rule}|\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def bench_scoring() -> str:
    found = _read("scoring.json")
    if found is None:
        return _absent("scoring.json")
    table = _table(_SCORING, [_work(name, found.get(name)) for name in WORK])
    return f"{table}\n{_rate(found.get('matrix_rate'))}\n\n{_machine(found)}\n"


def _work(name: str, case: dict[str, Any] | None) -> list[str]:
    if case is None:
        return [name.replace("_", " "), *["not measured"] * 3, *["-"] * 4]
    lo, hi = case["ratio_range"]
    peer = f"batch {case['batch_size']}" if "batch_size" in case else "itself, cold"
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


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


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
        f"{_percent(rate['share'])} ({_percent(lo)} to {_percent(hi)}), "
        f"{rate['gflops_used']:,.0f} of {rate['gflops_measured']:,.0f} GFLOP/s"
        f" measured in the same run; goal {_percent(rate['goal'])}, "
        + ("met." if rate["share"] >= rate["goal"] else "**not met**.")
    )


def _machine(found: dict[str, Any]) -> str:
    machine = found.get("machine", {})
    words = [f"{name.replace('_', '-')} {machine[name]}" for name in machine if name != "date"]
    loads = [case["load_before"] for case in found.values() if "load_before" in case]
    if loads:
        words.append(f"load before each case {min(loads):g} to {max(loads):g}")
    return f"Machine: {', '.join(words)}. Measured on {machine.get('date', 'a day not recorded')}."


def bench_growth() -> str:
    found = _read("growth.json")
    if found is None:
        return _absent("growth.json")
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
    return f"{_plot()}{_table(_GROWTH, rows)}\n{says}\n"


def _plot() -> str:
    if not (BENCH / "growth.svg").is_file():
        return "The plot is not drawn: `python -m bench.growth --plot` draws it.\n\n"
    return (
        "![Tokens planned and naive, and seconds, as items, options and stem length grow]"
        "(../results/bench/growth.svg)\n\n"
    )


def bench_profile() -> str:
    found = _read("profile.json")
    if found is None:
        return _absent("profile.json")
    parts = sorted(found["parts"], key=lambda part: -part["share"])
    total = found["total_seconds"]
    rows = [[part["name"], _percent(part["share"]), f"{part['share'] * total:.2f}"] for part in parts]
    return f"{_table('part | share | s', rows)}\nIn all {total:.1f} s: {found['says']}.{_before(found.get('before'))}\n"


def _before(turns: dict[str, Any] | None) -> str:
    if turns is None:
        return ""
    return (
        f"\n\nThe engine before this work took {turns['seconds_before']:.1f} s for the same, this one "
        f"{turns['seconds_now']:.1f} s, in turns: {_ratio(turns['ratio_median'])} times as fast"
        f" (median of {turns['pairs']} pairs)."
    )


def bench_judging() -> str:
    found = _read("judging.json")
    if found is None:
        return _absent("judging.json")
    rows = [
        [
            _JUDGED[row["case"]],
            f"{row['items']:,}",
            f"{row['seconds']:.1f}",
            f"{1e6 * row['seconds'] / row['items']:.0f}",
            f"{row['peak_gib']:.2f}",
        ]
        for row in found["rows"]
    ]
    goal = (
        f"at most {found['goal_seconds']:g} s and {found['goal_gib']:g} GiB for a million items of the screen"
    )
    says = (
        f"{found['voters']} voters, {found['says']}. Goal: {goal}, {'met' if found['met'] else '**not met**'}."
        f" Machine: {found['machine']['cores']} cores, load afterwards {found['machine']['load_after']:g}."
    )
    return f"{_table('what each voter answered | items | s | s a million items | peak, GiB', rows)}\n{says}\n"


_JUDGED = {"screen": "the choices alone", "whole": "the choices alone, the full question, cloze"}


def filter_power() -> str:
    """What the filter removes of planted and clean items, and its false share, by set of items."""
    found = _read("cues.json")
    if found is None:
        return _absent("cues.json")
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
    rows = [[name, *(_with_ends(one[column]) for column in columns)] for name, one in sets.items()]
    return _table("items | planted removed | clean removed | of the removed, clean", rows)


def filter_redrawn() -> str:
    """The same demo with the keys of all items drawn anew but those of some planted ones."""
    found = _read("cues.json")
    if found is None:
        return _absent("cues.json")
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
    return _table(f"{heads} | any flag | planted removed", rows)


def _with_ends(rate: dict[str, Any]) -> str:
    low, high = rate["ci"]
    return f"{100 * rate['value']:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def bench_torture() -> str:
    """What `make torture` tried and what broke."""
    found = _read("torture.json")
    if found is None:
        return _absent("torture.json")
    n_tried, kills, around = found["tried"], found["kills"], found["surroundings"]
    by_kind = found["faults_by_kind"]
    rows = [
        [what, f"{times:,}", str(broken)]
        for what, times, broken in (
            ("runs killed at random moments and repeated (same bytes)", kills["in_time"], 0),
            ("files with random bytes changed", n_tried["bytes"], by_kind.get("bytes", 0)),
            ("files of valid syntax with odd values", n_tried["structured"], by_kind.get("structured", 0)),
            ("pairs of runs at once", found["pairs"], by_kind.get("pairs", 0)),
            ("commands in odd surroundings", around["tried"], by_kind.get("surroundings", 0)),
        )
    ]
    limits = found["limits"]
    return (
        _table("what was tried | times | promises broken", rows)
        + f"\nOver {len(found['seeds'])} pairs of a command and a file it reads. Limits for each changed file: "
        f"{limits['processor_seconds']:g} processor seconds, {limits['more_memory_mib']:,} MiB more memory. "
        f"It took {found['minutes']:g} minutes; load at its end {found['load_after']:g}.\n"
    )
