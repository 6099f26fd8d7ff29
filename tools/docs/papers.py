"""The generated blocks of docs/report.md and docs/policy_brief.md. Each block of results ends by naming its file.

A file that is absent is said to be absent; nothing is filled in.
"""

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from bench.calibrate.estimands import alarm_verdict, coverage_verdict
from robustify.views import BY_CHAT, VIEWS, names, template

RESULTS = Path(__file__).parents[2] / "results"
LEVEL = 0.05


def _read(name: str) -> Any | None:
    path = RESULTS / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _from(*names_: str) -> str:
    """The line that says where a block's numbers come from."""
    return "Source: " + ", ".join(f"[results/{name}](../results/{name})" for name in names_) + ".\n"


def _table(head: str, rows: list[list[str]], left: int = 1) -> str:
    rule = "|".join(["---"] * left + ["---:"] * (head.count("|") + 1 - left))
    return f"| {head} |\n|{rule}|\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows) + "\n"


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def _ends(rate: dict[str, Any]) -> str:
    low, high = rate["ci"]
    return f"{_percent(rate['value'])} ({100 * low:.1f} to {100 * high:.1f})"


def _absent(name: str, command: str) -> str:
    return f"Not measured: `results/{name}` is absent; `{command}` writes it.\n"


def report_summary() -> str:
    """The numbers of the abstract."""
    cues, calibration, plan = _read("bench/cues.json"), _read("calibration/calibration.json"), _read(PLAN)
    if cues is None or calibration is None or plan is None:
        return _absent("bench/cues.json", "python -m bench.cues")
    ours, votes = cues["demo"]["fdr"], cues["demo"]["unanimous"]
    shares = [row["share"] for row in calibration["coverage_detail"].values()]
    atlas, names_ = _read(ATLAS), ["bench/cues.json", "calibration/calibration.json", PLAN]
    real = ""
    if atlas is not None:
        names_.append(ATLAS)
        real = (
            f"On {_above(atlas)} of {len(atlas['sets'])} public sets a probe of surface features finds keys above "
            f"chance, and on {sum(s['flagged']['value'] > 0.01 for s in atlas['sets'].values())} the filter removes "
            "more than 1 % of the items. "
        )
    chem, rule = plan["certificate"]["sets"]["chem"], _rule(plan, 0.05, 3, 0.0)
    return (
        f"On a made-up benchmark with planted shortcuts the filter removes {_ends(ours['removed'])} of the planted items "
        f"and {_ends(ours['clean_removed'])} of the others: {_ends(ours['false_share'])} of what it removes is clean, "
        f"where it promises {_percent(cues['q'], 0)}. Counting the votes of the same two small models removes "
        f"{_ends(votes['removed'])} of the planted items, and {_ends(votes['false_share'])} of what it removes is clean. "
        f"On {calibration['benchmarks']:,} simulated benchmarks the intervals of {len(shares)} estimators hold the truth "
        f"in {_percent(min(shares))} to {_percent(max(shares))} of the cases. {real}A certificate with a margin of five "
        f"points takes {rule['kept_items']:,} kept items under three auditors; a set of the size of WMDP-Chem would keep "
        f"{chem['kept']} after a removal like the published one. " + _from(*names_)
    )


def report_demo() -> str:
    """What each rule removes of the demo, whose planted items are known."""
    cues = _read("bench/cues.json")
    if cues is None:
        return _absent("bench/cues.json", "python -m bench.cues")
    rules = {"the filter": "fdr", "the filter, exact rule": "fdr_exact", "the filter, no model asked": "without_voters",
             "all voters right": "unanimous"}  # fmt: skip
    rows = [
        [says, *(_ends(cues["demo"][name][column]) for column in ("removed", "clean_removed", "false_share"))]
        for says, name in rules.items()
    ]
    rows.append(["the filter, cues outside every list", *(
        _ends(cues["unlisted"]["all"][column]) for column in ("removed", "clean_removed", "false_share")
    )])  # fmt: skip
    return _table("rule | planted removed | clean removed | of the removed, clean", rows) + _from(
        "bench/cues.json"
    )


def report_calibration() -> str:
    """How many estimators and tests do what they say, on known truth."""
    found, fdr = _read("calibration/calibration.json"), _read("calibration/fdr.json")
    if found is None or fdr is None:
        return _absent("calibration/calibration.json", "make calibrate")
    cover = [coverage_verdict(row["ci"]) for row in found["coverage_detail"].values()]
    alarm = [alarm_verdict(row["ci"]) for row in found["false_alarm_detail"].values()]
    planted = [s for s in fdr["simulations"] if s["planted"]]
    worst = max(fdr["simulations"], key=lambda s: s["false_share"])
    broken = sum(s["verdict"] == "no" for s in fdr["simulations"])
    return (
        f"Of {len(cover)} estimators {cover.count('narrow')} have intervals that are too narrow beyond doubt and "
        f"{cover.count('wide')} too wide, at 95 %. Of {len(alarm)} tests {alarm.count('no')} raise more than 5 % of false "
        f"alarms beyond doubt. Of {len(fdr['simulations'])} simulations of the filter at q = {_percent(fdr['q'], 0)} "
        f"{broken} exceed it beyond doubt; the largest mean false share is {_percent(worst['false_share'])} "
        f"({worst['says']}, {worst['planted']} planted of {fdr['items']}). With shortcuts planted the filter finds between "
        f"{_percent(min(s['planted_flagged'] for s in planted), 0)} and "
        f"{_percent(max(s['planted_flagged'] for s in planted), 0)} of them: few where they are few.\n\n"
        + _from("calibration/calibration.json", "calibration/fdr.json")
    )


def leak_report() -> str:
    """What the leak test counted, in a sentence."""
    found = _read("bench/leak.json")
    if found is None:
        return _absent("bench/leak.json", "make leak-test")
    planted = found["planted_leaks"]
    return (
        f"{found['canaries']:,} canaries, {found['commands']} command lines, {found['streams']:,} streams searched through "
        f"{found['encodings']} disguises: {len(found['hits'])} hits. Of {planted} leaks planted on purpose "
        f"{planted - len(found['planted_leaks_missed'])} were found. {_from('bench/leak.json')}"
    )


ATLAS = "atlas/index.json"


def report_atlas() -> str:
    """The real sets in three sentences (the fields of the files: bench/atlas/index.py)."""
    atlas, biases = _read(ATLAS), _read("atlas/biases.json")
    if atlas is None or biases is None:
        return _absent(ATLAS, "make atlas")
    sets = atlas["sets"]
    some, left = (sum(s[name]["ci"][0] > 0 for s in sets.values()) for name in ("latent", "residual"))
    found = sum(one["p_corrected"] <= LEVEL for one in biases["biases"])
    return (
        f"On {_above(atlas)} of {len(sets)} public sets the probe finds keys above chance (p at most {LEVEL:g}, Holm over "
        f"the sets); on {some} the interval of the latent rate lies above zero, and on {left} a fresh probe still finds "
        f"keys among the items that the filter keeps, if its interval is taken as it is. Of {biases['hypotheses']} pairs "
        f"of a set and a rule {found} are above chance after Holm's correction over all. Fitted scorers are means over "
        f"{atlas['seeds']} seeds; small models were asked at most {atlas['sample']} items of a set.\n\n"
        + _from(ATLAS, "atlas/biases.json")
    )


def _above(atlas: Any) -> int:
    """On how many sets the probe finds keys above chance, corrected over the sets."""
    return sum(s["probe"]["p_corrected"] <= LEVEL for s in atlas["sets"].values())


PLAN = "bench/plan.json"


def _planned() -> Any:
    found = _read(PLAN)
    assert found is not None, "results/bench/plan.json: absent; python -m bench.plan writes it"
    return found


def _rule(plan: Any, margin: float, auditors: int, left: float) -> Any:
    wanted = (margin, auditors, left)
    return next(r for r in plan["certificate"]["rules"] if (r["margin"], r["auditors"], r["left"]) == wanted)


def plan_asking() -> str:
    """What asking the trio and the older model takes, by set."""
    plan = _planned()
    rows = []
    for name, by_length in plan["asking"].items():
        short, middle, long = (by_length[length] for length in ("short", "middle", "long"))
        rows.append([
            name, f"{plan['sets'][name]:,}", f"{middle['requests']:,}", f"{middle['tokens_sent'] / 1e6:.1f} "
            f"({short['tokens_sent'] / 1e6:.1f} to {long['tokens_sent'] / 1e6:.1f})", f"{middle['tokens_once'] / 1e6:.1f}",
            f"{middle['gpu_hours_all']:g} ({short['gpu_hours_all']:g} to {long['gpu_hours_all']:g})",
            f"{middle['dollars']:,}",
        ])  # fmt: skip
    assumed = plan["assumed"]
    lengths = "; ".join(f"{n} {c['stem']} and {c['option']}" for n, c in assumed["characters"].items())
    head = "set | items | requests a model | million tokens a model | each beginning once | GPU hours, 4 models | US $"
    return _table(head, rows) + (
        f"Assumed: characters of a stem and of an option ({lengths}; the range in brackets), {assumed['teraflops']:g} "
        f"Tflop/s a device of which {_percent(assumed['share_of_them'], 0)} is reached, {assumed['start_minutes']:g} "
        f"minutes for which eight devices wait while a model loads, {assumed['dollars_an_hour']:g} US $ a device "
        "and hour.\n\n" + _from(PLAN)
    )


def plan_certificate() -> str:
    """How many kept items the certification rule costs."""
    plan = _planned()
    margins = sorted({r["margin"] for r in plan["certificate"]["rules"]}, reverse=True)
    columns = [(1, 0.0), (3, 0.0), (3, 0.01), (3, 0.02)]
    rows = [
        [
            f"{100 * margin:g} points",
            *(f"{found:,}" if (found := _rule(plan, margin, *c)["kept_items"]) else "-" for c in columns),
        ]
        for margin in margins
    ]
    head = (
        "margin above chance | one auditor at chance | three at chance | three, one point left | "
        "three, two points left"
    )
    return (
        "Kept questions of four options, for a certificate with "
        f"{_percent(plan['certificate']['power'], 0)} probability:\n\n" + _table(head, rows) + _from(PLAN)
    )


def plan_sets() -> str:
    """What each of the three sets could show."""
    plan = _planned()
    rows = [
        [
            name, f"{s['items']:,}", f"{s['kept']:,}", _percent(s["certified_by_three"], 0),
            f"{100 * s['smallest_margin']:.1f} points", f"{100 * s['detectable_above_chance']:.1f} points",
            f"± {100 * s['half_width_at_half']:.1f} points",
        ]
        for name, s in plan["certificate"]["sets"].items()
    ]  # fmt: skip
    head = (
        "set | questions | kept, if as many are removed as published | a clean set is certified | smallest margin it can "
        "meet | smallest knowledge it can show | a score of 50 % is known to"
    )
    return _table(head, rows) + _from(PLAN)


def plan_simulated() -> str:
    """Simulated benchmarks of these sizes, judged whole."""
    plan = _planned()
    rows = [
        [
            row["set"], _percent(row["shortcut_rate"], 0), _percent(row["sight"], 0),
            {"fdr": "the filter", "unanimous": "all voters right"}[row["criterion"]],
            _percent(row["removed"], 0), _percent(row["planted_removed"], 0), _percent(row["false_share"], 0),
            f"{100 * row['latent_half_width']:.1f}", str(row["outside_below"]),
            *(str(row["audits"].get(v, 0)) for v in ("below_margin", "not_below_margin", "above_chance")),
        ]
        for row in plan["simulated"]
    ]  # fmt: skip
    head = (
        "set | shortcuts | each seen by a voter in | rule | removed | shortcuts removed | of the removed, clean | latent "
        "rate, ± points | outside model below the margin | all auditors below | one not below | one above chance"
    )
    n = plan["simulated"][0]["benchmarks"]
    return (
        _table(head, rows, 4)
        + f"{n} benchmarks a row; three voters, each left out in turn, and one outside model audit.\n\n"
        + _from(PLAN)
    )


def prompts() -> str:
    """The words of every template, those of several views that are alike once."""
    same: dict[tuple[str, str, bool], list[str]] = {}
    for view in VIEWS:
        for name in names(view):
            text = (files("robustify") / "templates" / view / f"{name}.yaml").read_text(encoding="utf-8")
            parts = yaml.safe_load(text)
            key = (
                parts["description"] + parts["context"],
                parts["continuation"],
                template(view, name).by_letter,
            )
            same.setdefault(key, []).append(f"`{view}` {name}")
    shown = [
        f"{'; '.join(where)}: a {'letter' if by_letter else 'text'} is scored after\n\n"
        f"```text\n{context}\n```\n\nas `{continuation}`.\n"
        for (context, continuation, by_letter), where in same.items()
    ]
    chat = f"A server that only chats is asked, after the words above:\n\n```text\n{BY_CHAT}\n```\n"
    return "\n".join([*shown, chat])


BLOCKS: dict[str, Callable[[], str]] = {
    "report-summary": report_summary,
    "report-demo": report_demo,
    "report-calibration": report_calibration,
    "report-atlas": report_atlas,
    "leak-report": leak_report,
    "plan-asking": plan_asking,
    "plan-certificate": plan_certificate,
    "plan-sets": plan_sets,
    "plan-simulated": plan_simulated,
    "prompts": prompts,
}
