"""The generated blocks of docs/security.md: the gate's rules, and what results/bench/gate.json measured.

A file that is absent is said to be absent; nothing is filled in.
"""

from collections.abc import Callable, Mapping
from typing import Any

from robustify.gate.policy import RULES
from tools.docs.measured import measured, named, table

_NAMES = {
    "verbatim": "verbatim",
    "one_word": "one word changed",
    "substituted_10": "10 % of words changed",
    "substituted_20": "20 % of words changed",
    "substituted_30": "30 % of words changed",
    "deleted_10": "10 % of words left out",
    "deleted_20": "20 % of words left out",
    "inserted_10": "10 % more words",
    "inserted_20": "20 % more words",
}


def gate_rules() -> str:
    rows = [
        [
            f"`{rule.id}` {rule.name}", rule.says, "refuses" if rule.refuses else "warns",
            "yes" if rule.lifted_by_demo else "no", "yes" if rule.allowable else "**no**",
        ]
        for rule in RULES
    ]  # fmt: skip
    return table("rule | finds | effect | lifted by SAFE_DEMO | by an allow-list entry", rows, 5)


@measured("bench/gate.json")
def bench_gate(found: Any) -> str:
    printed: dict[str, Callable[[], str]] = {
        "recall": lambda: f"{_edits(found)}\n{_disguises(found)}",
        "arranged": lambda: _arranged(found["arranged"]),
        "layouts": lambda: _layouts(found["layouts"]),
        "false_positives": lambda: _false(found["false_positives"]),
        "speed": lambda: _speed(found["speed"]),
    }
    parts = [put() if name in found else f"Not measured: {name}.\n" for name, put in printed.items()]
    return "\n".join([*parts, _machine(found)]) + "\n"


def _edits(found: Mapping[str, Any]) -> str:
    stand = found.get("stand_in")
    head = ["edit", "whole item", "stem alone", "asked for", "met"]
    if stand:
        head += [f"{stand['set']}: whole", "stem alone"]
    rows = []
    for name in _NAMES:
        case = found["recall"]["edits"][name]
        row = [_NAMES[name], _rate(case["item"]), _rate(case["stem"]), *_goal(case)]
        if stand:
            row += [_rate(stand["recall"][name]["item"]), _rate(stand["recall"][name]["stem"])]
        rows.append(row)
    says = (
        f"{found['items']} made-up items, each edited anew for five kinds of files; n counts files, so that the intervals"
        " (Wilson, exact at 0 and 100 %) are a little too narrow."
    )
    if stand:
        others = ", ".join(
            f"{name} {_rate(rate)}" for name, rate in stand["other_sets_of_the_domain"].items()
        )
        says += (
            f" {stand['set']} stands in for a real set: {stand['items']:,} items, many with stems of fewer than ten"
            f" words. Items of other sets of the same school subjects that are refused by mistake: {others}."
        )
    return f"{table(' | '.join(head), rows, len(head))}\n{says}\n"


def _goal(case: Mapping[str, Any]) -> tuple[str, str]:
    if not case["goal"]:
        return "-", "-"
    item, stem = case["goal"]
    met = case["item"]["value"] >= item and case["stem"]["value"] >= stem
    return f"{100 * item:g} / {100 * stem:g} %", "yes" if met else "**no**"


def _arranged(found: Mapping[str, Any]) -> str:
    rates = ", ".join(f"{name.replace('_', ' ')} {_rate(case)}" for name, case in found.items())
    return f"Refused in the same files: {rates}.\n"


def _disguises(found: Mapping[str, Any]) -> str:
    disguises = found["recall"]["disguises"]
    missed = [
        name for name, case in disguises.items() if min(case["item"]["value"], case["stem"]["value"]) < 1
    ]
    n = sum(case[form]["n"] for case in disguises.values() for form in ("item", "stem"))
    names = ", ".join(name.replace("_", " ") for name in disguises)
    verdict = "all are refused" if not missed else f"**not all are refused: {', '.join(missed)}**"
    leaks = f"{len(disguises)} kinds, {n:,} leaks of whole items and of stems alone"
    return f"Disguises ({leaks}): {verdict}. They are: {names}.\n"


def _layouts(found: Mapping[str, Any]) -> str:
    rates = []
    for name, case in found.items():
        missed = ", ".join(f"{key.replace('_', ' ')} {n}" for key, n in case["missed"].items())
        size = name.removesuffix("_items")
        rates.append(
            f"files of {'one item' if size == '1' else f'{size} items'} {_rate(case)}"
            + (f" (missed: {missed})" if missed else "")
        )
    return f"Structure alone, in every layout and style of key: {'; '.join(rates)}.\n"


def _false(found: Mapping[str, Any]) -> str:
    rows, refused = [], list[str]()
    for name, case in found.items():
        if isinstance(case, dict):
            cells = [_rate(case[layer]) for layer in ("fingerprints", "structure", "warned", "inspection")]
            rows.append([name.replace("_", " "), f"{case['files']:,}", *cells])
            refused += [f"`{path}`{_known(path, case['known'])}" for path in case["structure"]["files"]]
    says = f"Registered: {found['registered']}. Refused by structure: {', '.join(refused) or 'none'}."
    return f"{table('harmless files | n | fingerprints | structure | warned | cannot be read', rows, 6)}\n{says}\n"


def _known(path: str, known: Mapping[str, str]) -> str:
    return next((f" ({says})" for name, says in known.items() if path.endswith(name)), "")


def _speed(found: Mapping[str, Any]) -> str:
    names = {
        "ours": "the gate's hook, all layers",
        "ours_without_fingerprints": "the same without fingerprints",
        "start_up": "its start-up alone",
        "detect_secrets": f"detect-secrets {found['detect_secrets_version']}",
    }
    rows = []
    for name, says in names.items():
        if name in found:
            case = found[name]
            lo, hi = case["range"]
            clock = f"{case['median']:.2f} ({lo:.2f} to {hi:.2f})"
            rows.append([f"{says}, {case['runs']} runs", clock, f"{case['processor_median']:.2f}"])
    before, after = found["load"]
    busy = found["busy"]
    return (
        table("whole process | seconds: median (range) | of the processor", rows)
        + f"\n{found['files']} files, {found['megabytes']:g} MB, in turns, on {found['cores']} cores"
        f" under a load of {before:g} before and {after:g} after; goal {found['goal_seconds']:g} s with start-up:"
        f" {_met(found['ours'], found['goal_seconds'])}. Loading the gate's modules takes"
        f" {found['import']['median']:.2f} s ({found['import']['processor_median']:.2f} of the processor; goal"
        f" {found['goal_import_seconds']:g} s: {_met(found['import'], found['goal_import_seconds'])})."
        + (
            f" pre-commit's first run of the hook: {found['hook_first_seconds']:g} s."
            if found["hook_first_seconds"]
            else ""
        )
        + f" Beside {busy['processes']} processes that never wait the hook, all layers, takes {busy['median']:.2f} s"
        f" ({busy['range'][0]:.2f} to {busy['range'][1]:.2f}), {busy['processor_median']:.2f} of the processor; goal"
        f" {found['goal_seconds']:g} s: {_met(busy, found['goal_seconds'])}."
        + ("" if "detect_secrets" in found else " detect-secrets was not installed.")
        + "\n"
    )


def _met(case: Mapping[str, Any], goal: float) -> str:
    """The clock decides; where other programs kept it waiting, what the processor took is said beside it."""
    if case["median"] <= goal:
        return "met"
    return "**not met** on the clock" + (
        ", met by the processor's" if case["processor_median"] <= goal else ""
    )


def _machine(found: Mapping[str, Any]) -> str:
    machine = found["machine"]
    return f"Machine: {machine['cores']} cores, Python {machine['python']}. Measured on {machine['date']}."


def _rate(rate: Mapping[str, Any]) -> str:
    lo, hi = rate["ci"]
    return f"{_percent(rate['value'])} ({_percent(lo)} to {_percent(hi)}, n {rate['n']:,})"


def _percent(share: float) -> str:
    text = f"{100 * share:.2f}" if 0 < share < 0.01 or 0.99 < share < 1 else f"{100 * share:.1f}"
    return text.removesuffix(".0") + " %"


BLOCKS = named(gate_rules, bench_gate)
