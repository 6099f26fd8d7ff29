"""One made-up benchmark, judged by the production code and compared with its truth."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from bench.calibrate.arms import Cell
from bench.simulate.drawing import Drawn, draw
from bench.simulate.parameters import tested_accuracy
from bench.simulate.proof import estimates_beside, judged, value_at
from bench.simulate.proof import rules as voting_rules
from bench.simulate.truth import true_values
from robustify.judging.context import context
from robustify.judging.screening import excess, screen
from robustify.screen.chance import Chance
from robustify.summary.quantity import Quantity
from robustify.summary.result import Summary


@dataclass(frozen=True, slots=True)
class Interval:
    """One interval: the estimator it belongs to, whether it holds the truth, its error and its width."""

    estimator: str
    inside: bool
    error: float
    width: float


@dataclass(frozen=True, slots=True)
class Trial:
    """What one benchmark gave: its intervals, which tests raised an alarm, and numbers to be averaged."""

    cell: int
    intervals: list[Interval]
    alarms: dict[str, bool]
    numbers: dict[str, float] = field(default_factory=dict)


def trial(index: int, cell: Cell, seed: int) -> Trial:
    """Make the benchmark of this seed and judge it to the cell's depth."""
    sim = cell.sim.model_copy(update={"seed": seed})
    drawn = draw(sim)
    robust = shortcut = None
    if cell.depth == "screen":
        summary, chance = _screen(drawn)
    else:
        items = drawn.items() if cell.depth == "worded" else None
        found_ = judged(drawn, drawn.answers(items), items)
        summary = found_.summary.tree()
        verdict = np.array([v.verdict for v in found_.verdicts])
        robust, shortcut = verdict == "robust", verdict == "shortcut"
    true = known_values(cell.sim)
    found = [
        Interval(estimator(e.path), e.inside, e.value - e.truth, e.high - e.low)
        for e in estimates_beside(true, summary)
    ]
    if robust is not None and shortcut is not None and sim.asked == "rotated":
        found += _given_the_split(drawn, summary, {"robust": robust, "shortcut": shortcut})
    if cell.depth == "screen" and sim.sight == 1 and not sim.knowing:
        found += _false_share(drawn, chance.deciding)
    clean = not sim.shortcut_rate and not sim.knowing
    if clean:
        found += _null_intervals(summary)
    return Trial(index, found, alarms(summary), numbers(summary))


known_values = lru_cache(maxsize=8)(true_values)
"""The true values of a benchmark's parameters, computed once for all benchmarks drawn with them."""


def screen_part(drawn: Drawn) -> dict[str, Any]:
    """The screen's part of summary.json, without what the other parts cost."""
    return _screen(drawn)[0]


def _screen(drawn: Drawn) -> tuple[dict[str, Any], Chance]:
    rules = voting_rules(drawn.sim)
    ctx = context(drawn.answers(), drawn.facts, rules)
    tree = Summary(screen=screen(ctx)).tree()
    if drawn.sim.voters > 2:
        tree["majority"] = _flags(ctx.screen(ctx.votes, rules.alternatives[0]).chance())
    return tree, ctx.chance


def _flags(chance: Chance) -> dict[str, Any]:
    by = chance.by_position
    share, over = Quantity.of(chance.share), excess(chance)
    return {
        "flagged": share.tree(),
        "excess_over_chance": None if over is None else over.tree(),
        "by_place": None
        if by is None or (known := excess(by)) is None
        else {"excess_over_chance": known.tree()},
    }


def _false_share(drawn: Drawn, chance: Chance) -> list[Interval]:
    """The share of the flags that is there by chance against the clean items among those flagged."""
    share = chance.false_share
    if share.value is None or share.ci is None or not chance.flagged:
        return []
    clean = np.array([kind in ("clean", "hidden") for kind in drawn.kind])
    votes = drawn.picks[:, : drawn.sim.voters]
    lost = int((clean & (votes == drawn.key[:, None]).all(axis=1)).sum()) / chance.flagged
    low, high = share.ci
    return [Interval("false_share", low - 1e-9 <= lost <= high + 1e-9, share.value - lost, high - low)]


def estimator(path: str) -> str:
    """The estimator that a path of summary.json belongs to: names of models, topics and rules left out."""
    match path.split("/"):
        case ["screen", "voters", _, _]:
            return "voter_choices_only_accuracy"
        case [*_, "by_place", name]:
            return f"{name}_by_place" if path.startswith("screen") else "majority_excess_by_place"
        case ["screen", "d4_rule", name]:
            return f"d4_{name}"
        case ["screen", name]:
            return "flagged_rate" if name == "flagged" else name
        case ["majority", name]:
            return f"majority_{name.removesuffix('_over_chance')}"
        case ["accuracy", _, measure, "heuristic_gap"]:
            return f"heuristic_gap_{measure}"
        case ["accuracy", _, measure, split]:
            return f"accuracy_{measure}_{split}"
        case ["heuristics", split, _]:
            return f"heuristic_rate_{split}"
        case ["topics", *_]:
            return "topic_retention"
        case ["residual", _, _, "before"]:
            return "residual_before"
        case ["residual", "non_voters", *_]:
            return "residual_non_voters"
        case ["residual", kind, *_]:
            return f"residual_{kind}"
        case ["accuracy", _, "format_gap"]:
            return "format_gap"
        case ["pairs", _, _, split, _]:
            return f"pair_difference_{split}"
        case ["calibration", _, _, name]:
            return name
        case ["permutation", _, _, name]:
            return "mean_over_orders" if name == "mean" else name
        case ["position_bias", *_, name]:
            return f"position_{name}"
        case ["label_noise", name]:
            return f"label_noise_{name}"
    raise ValueError(path)


def _given_the_split(drawn: Drawn, summary: Any, splits: dict[str, Any]) -> list[Interval]:
    """The same rates against the mean probability of the very items of this split."""
    sim, out = drawn.sim, []
    loose = 1 - sim.firmness
    full = np.array([tested_accuracy(sim, kind)[0] for kind in drawn.kind]) * sim.firmness + loose / drawn.k
    for name in sim.tested_names:
        for split, mask in splits.items():
            node: Any = value_at(summary, f"accuracy/{name}/full/{split}")
            if mask.any() and node["ci"] is not None:
                truth, (low, high) = float(full[mask].mean()), node["ci"]
                inside, error = low <= truth <= high, node["value"] - truth
                out.append(Interval(f"accuracy_full_{split}_given_the_split", inside, error, high - low))
    return out


def _null_intervals(summary: Any) -> list[Interval]:
    """Intervals of what chance does, on sets where nothing but chance is at work."""
    out = []
    for name, path in (("expected_flags", "screen"), ("d4_expected_flags", "screen/d4_rule")):
        node: Any = value_at(summary, path)
        by_chance: Any = (node.get("by_place") or node)["expected_flags"] if node else None
        if by_chance:
            low, high = by_chance["ci"]
            n = node["flagged"]["n"]
            flagged = round(node["flagged"]["value"] * n)
            error = (by_chance["value"] - flagged) / n
            out.append(Interval(name, low <= flagged <= high, error, (high - low) / n))
    removal: Any = summary.get("random_removal") or {}
    for row in removal.values():
        low, high = row["ci"]
        value = row["robust"]["value"]
        out.append(Interval("random_removal", low <= value <= high, row["mean"] - value, high - low))
    return out


def alarms(summary: Any) -> dict[str, bool]:
    """Which tests said yes. What a summary does not hold is left out."""
    out: dict[str, bool] = {}
    for name, path in (
        ("excess", "screen/excess_over_chance"),
        ("d4_excess", "screen/d4_rule/excess_over_chance"),
        ("majority_excess", "majority/excess_over_chance"),
    ):
        parent, leaf = path.rsplit("/", 1)
        evenly: Any = value_at(summary, path)
        # Where voters could see places, the null that knows them decides.
        node: Any = value_at(summary, f"{parent}/by_place/{leaf}") or evenly
        if node and node["p"] is not None:
            out[f"{name}_p"] = node["p"] <= 0.05
            out[f"{name}_significant"] = out[f"{name}_p"] and bool(node["ci"] and node["ci"][0] > 0)
            if node is not evenly:
                out[f"{name}_p_without_places"] = evenly["p"] <= 0.05
    audit: Any = value_at(summary, "residual/verdict")
    if audit:
        out["residual_not_certified"] = audit == "not certified"
        out["residual_certified"] = audit == "certified"
    failed = [c["name"] for c in summary["guardrails"] if not c["passed"]]
    if summary["guardrails"]:
        out |= {name: name in failed for name in ("topic_collapse", "topic_drift")}
        out["topic_mix_p"] = summary["topics"]["p"] <= 0.05
        adjusted = [row["p_bh"] for row in summary["topics"]["by_topic"].values() if row["p_bh"]]
        if adjusted:
            out["topic_any_p_bh"] = min(adjusted) <= 0.05
    for split in ("all", "robust"):
        rules: Any = value_at(summary, f"heuristics/{split}")
        if rules:
            out[f"heuristics_holm_{split}"] = any((r["p_holm"] or 1) <= 0.05 for r in rules.values())
    leaning: Any = summary.get("position_bias") or {}
    one = next((found for found in leaning.values() if found), None)
    if one:
        out["position_bias_holm"] = min(place["p_holm"] for place in one["places"]) <= 0.05
    compared: Any = summary.get("pairs") or {}
    leaves = [view[split] for pair in compared.values() for name, view in pair.items()
              if name in ("full", "cloze_chars") and view for split in ("all", "robust")]  # fmt: skip
    if leaves:
        out["pairs_mcnemar_p"] = leaves[0]["p"] is not None and leaves[0]["p"] <= 0.05
        out["pairs_mcnemar_holm_any"] = any(
            leaf["p_holm"] is not None and leaf["p_holm"] <= 0.05 for leaf in leaves
        )
    return out


def numbers(summary: Any) -> dict[str, float]:
    """Return the latent rate, which is averaged and not judged."""
    node: Any = summary["screen"]
    if not node["flagged"]["n"]:
        return {}
    return {"latent": (node["by_place"] or node)["latent_shortcut_rate"]["value"]}
