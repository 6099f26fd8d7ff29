"""The generated blocks of docs/report.md and docs/policy_brief.md. Each block of results ends by naming its file.

A file that is absent is said to be absent; nothing is filled in.
"""

from importlib.resources import files
from typing import Any

import yaml

from bench.calibrate.arms import alarm_verdict, coverage_verdict
from robustify.views import BY_CHAT, VIEWS, names, template
from tools.docs.measured import ends, measured, named, percent, read, table

LEVEL = 0.05
ATLAS = "atlas/index.json"
CALIBRATION = "calibration/calibration.json"
CUES = "bench/cues.json"
PLAN = "bench/plan.json"


def _from(*names_: str) -> str:
    """The line that says where a block's numbers come from."""
    return "Source: " + ", ".join(f"[results/{name}](../results/{name})" for name in names_) + ".\n"


@measured(CUES, CALIBRATION, PLAN)
def report_summary(cues: Any, calibration: Any, plan: Any) -> str:
    """The numbers of the abstract."""
    ours, votes = cues["demo"]["fdr"], cues["demo"]["unanimous"]
    shares = [row["share"] for row in calibration["coverage_detail"].values()]
    atlas, names_ = read(ATLAS), [CUES, CALIBRATION, PLAN]
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
        f"On a made-up benchmark with planted shortcuts the filter removes {ends(ours['removed'])} of the planted items "
        f"and {ends(ours['clean_removed'])} of the others: {ends(ours['false_share'])} of what it removes is clean, "
        f"where it promises {percent(cues['q'], 0)}. Counting the votes of the same two small models removes "
        f"{ends(votes['removed'])} of the planted items, and {ends(votes['false_share'])} of what it removes is clean. "
        f"On {calibration['benchmarks']:,} simulated benchmarks the intervals of {len(shares)} estimators hold the truth "
        f"in {percent(min(shares))} to {percent(max(shares))} of the cases. {real}A certificate with a margin of five "
        f"points takes {rule['kept_items']:,} kept items under three auditors; a set of the size of WMDP-Chem would keep "
        f"{chem['kept']} after a removal like the published one. " + _from(*names_)
    )


@measured(CUES, by="python -m bench.cues")
def report_demo(cues: Any) -> str:
    """What each rule removes of the demo, whose planted items are known."""
    rules = {"the filter": "fdr", "the filter, exact rule": "fdr_exact", "the filter, no model asked": "without_voters",
             "all voters right": "unanimous"}  # fmt: skip
    rows = [
        [
            says,
            *(ends(cues["demo"][name][column]) for column in ("removed", "clean_removed", "false_share")),
        ]
        for says, name in rules.items()
    ]
    rows.append(["the filter, cues outside every list", *(
        ends(cues["unlisted"]["all"][column]) for column in ("removed", "clean_removed", "false_share")
    )])  # fmt: skip
    return table("rule | planted removed | clean removed | of the removed, clean", rows) + "\n" + _from(CUES)


@measured(CALIBRATION, "calibration/fdr.json", by="make calibrate")
def report_calibration(found: Any, fdr: Any) -> str:
    """How many estimators and tests do what they say, on known truth."""
    cover = [coverage_verdict(row["ci"]) for row in found["coverage_detail"].values()]
    alarm = [alarm_verdict(row["ci"]) for row in found["false_alarm_detail"].values()]
    planted = [s for s in fdr["simulations"] if s["planted"]]
    worst = max(fdr["simulations"], key=lambda s: s["false_share"])
    broken = sum(s["verdict"] == "no" for s in fdr["simulations"])
    return (
        f"Of {len(cover)} estimators {cover.count('narrow')} have intervals that are too narrow beyond doubt and "
        f"{cover.count('wide')} too wide, at 95 %. Of {len(alarm)} tests {alarm.count('no')} raise more than 5 % of false "
        f"alarms beyond doubt. Of {len(fdr['simulations'])} simulations of the filter at q = {percent(fdr['q'], 0)} "
        f"{broken} exceed it beyond doubt; the largest mean false share is {percent(worst['false_share'])} "
        f"({worst['says']}, {worst['planted']} planted of {fdr['items']}). With shortcuts planted the filter finds between "
        f"{percent(min(s['planted_flagged'] for s in planted), 0)} and "
        f"{percent(max(s['planted_flagged'] for s in planted), 0)} of them: few where they are few.\n\n"
        + _from(CALIBRATION, "calibration/fdr.json")
    )


@measured("bench/leak.json", by="make leak-test")
def leak_report(found: Any) -> str:
    """What the leak test counted, in a sentence."""
    planted = found["planted_leaks"]
    return (
        f"{found['canaries']:,} canaries, {found['commands']} command lines, {found['streams']:,} streams searched through "
        f"{found['encodings']} disguises: {len(found['hits'])} hits. Of {planted} leaks planted on purpose "
        f"{planted - len(found['planted_leaks_missed'])} were found. {_from('bench/leak.json')}"
    )


@measured(ATLAS, "atlas/biases.json", by="make atlas")
def report_atlas(atlas: Any, biases: Any) -> str:
    """The real sets in three sentences (the fields of the files: bench/atlas/index.py)."""
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


def _rule(plan: Any, margin: float, auditors: int, left: float) -> Any:
    wanted = (margin, auditors, left)
    return next(r for r in plan["certificate"]["rules"] if (r["margin"], r["auditors"], r["left"]) == wanted)


@measured(PLAN, by="python -m bench.plan")
def plan_asking(plan: Any) -> str:
    """What asking the trio and the older model takes, by set."""
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
    return table(head, rows) + (
        f"\nAssumed: characters of a stem and of an option ({lengths}; the range in brackets), {assumed['teraflops']:g} "
        f"Tflop/s a device of which {percent(assumed['share_of_them'], 0)} is reached, {assumed['start_minutes']:g} "
        f"minutes for which eight devices wait while a model loads, {assumed['dollars_an_hour']:g} US $ a device "
        "and hour.\n\n" + _from(PLAN)
    )


@measured(PLAN, by="python -m bench.plan")
def plan_certificate(plan: Any) -> str:
    """How many kept items the certification rule costs."""
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
        f"{percent(plan['certificate']['power'], 0)} probability:\n\n"
        + table(head, rows)
        + "\n"
        + _from(PLAN)
    )


@measured(PLAN, by="python -m bench.plan")
def plan_sets(plan: Any) -> str:
    """What each of the three sets could show."""
    rows = [
        [
            name, f"{s['items']:,}", f"{s['kept']:,}", percent(s["certified_by_three"], 0),
            f"{100 * s['smallest_margin']:.1f} points", f"{100 * s['detectable_above_chance']:.1f} points",
            f"± {100 * s['half_width_at_half']:.1f} points",
        ]
        for name, s in plan["certificate"]["sets"].items()
    ]  # fmt: skip
    head = (
        "set | questions | kept, if as many are removed as published | a clean set is certified | smallest margin it can "
        "meet | smallest knowledge it can show | a score of 50 % is known to"
    )
    return table(head, rows) + "\n" + _from(PLAN)


@measured(PLAN, by="python -m bench.plan")
def plan_simulated(plan: Any) -> str:
    """Simulated benchmarks of these sizes, judged whole."""
    rows = [
        [
            row["set"], percent(row["shortcut_rate"], 0), percent(row["sight"], 0),
            {"fdr": "the filter", "unanimous": "all voters right"}[row["criterion"]],
            percent(row["removed"], 0), percent(row["planted_removed"], 0), percent(row["false_share"], 0),
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
        table(head, rows, 4)
        + f"\n{n} benchmarks a row; three voters, each left out in turn, and one outside model audit.\n\n"
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


BLOCKS = named(
    report_summary,
    report_demo,
    report_calibration,
    leak_report,
    report_atlas,
    plan_asking,
    plan_certificate,
    plan_sets,
    plan_simulated,
    prompts,
)
