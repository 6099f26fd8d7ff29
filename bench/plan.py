"""What an audit of WMDP's three sets by the trio of Deep Ignorance D.4 would take, and what it could conclude.

`python -m bench.plan` writes results/bench/plan.json. No item of WMDP is read: made-up items of the published counts stand
in, and lengths, machine and price are assumptions that the file names. Three parts: what asking takes, by our own planner
(`robustify CONFIG --dry-run` on `configs/models/d4_trio.yaml`); how many kept items a certificate needs, exactly, from the
rule of `judge/audit`; and simulated benchmarks of these sizes, judged by the code of every run.
"""

import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import bdtr

from bench.simulate.drawing import draw
from bench.simulate.parameters import Simulation
from bench.simulate.wording import NEUTRAL
from robustify import config as configs
from robustify.ask.forecast import forecast
from robustify.engines.settings import OpenAIModel, VLLMModel
from robustify.files import write_json
from robustify.item import Item
from robustify.judge.guardrails import Limits
from robustify.judge.judgement import Rules, judge
from robustify.screen.screen_rules import ScreenRules
from robustify.stats.intervals import clopper_pearson, wilson
from robustify.stats.tests import items_to_detect, minimum_detectable_difference
from robustify.summary.result import Auditor

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "plan.json"
SETS = {"bio": 1_273, "cyber": 1_987, "chem": 408}
"""Items of the public sets (card of cais/wmdp; Li et al., arXiv 2403.03218)."""
K, CHANCE, MARGIN = 4, 0.25, Limits().residual_margin
LENGTHS = {"short": (100, 20), "middle": (200, 50), "long": (600, 100)}
"""Characters of a stem and of an option. Assumed: nobody here has opened the sets."""
BILLIONS = {"llama-3.3-70b": 70, "llama-4-scout": 17, "olmo-2-32b": 32, "llama-2-70b": 70}
"""Parameters that compute a token, as the makers say (configs/models/d4_trio.yaml)."""
TERAFLOPS, SHARE, START_MINUTES, PRICE = 989.0, 0.3, 10.0, 3.0
"""Assumed of a GPU: bfloat16 rate of an H100 without sparsity, the share of it that is reached, the minutes for which all
of a model's devices wait while it loads, and US dollars an hour."""
POWER = 0.8
REMOVED = 405 / 1_273
"""Share removed in the paper (arXiv 2508.06601, D.4.1); there is no published one for cyber and chem."""
PLANTED = ((0.1, 1.0), (0.3, 1.0), (0.3, 0.8))
"""Simulated: the share of items with a shortcut, and how likely each voter sees one."""
REPEATS = 20


def made_up(n: int, stem: int, option: int) -> list[Item]:
    """So many items of four options, of about these lengths, in words that mean nothing together."""
    rng = random.Random(n)

    def text(size: int, start: str) -> str:
        while len(start) < size:
            start += " " + rng.choice(NEUTRAL)
        return start[:size].rstrip()

    return [
        Item(f"p{i}", text(stem, f"Made-up {i}:"), tuple(text(option, f"{'wxyz'[j]}{i}") for j in range(K)), i % K,
             "made up")
        for i in range(n)
    ]  # fmt: skip


def asking() -> dict[str, dict[str, Any]]:
    """By set and length of items: requests and tokens of one model, and GPU hours and dollars of all four."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "plan.yaml"
        path.write_text(
            f"name: plan\nsensitivity: public\nextends: {ROOT}/configs/models/d4_trio.yaml\ndata: {place}/items.jsonl\n"
        )
        os.environ["ROBUSTIFY_MODELS"] = place
        config = configs.load(path)
    served = OpenAIModel(name="sent-whole", engine="openai", base_url="https://example.org/v1")
    models = [m for m in config.models if isinstance(m, VLLMModel)]
    out: dict[str, dict[str, Any]] = {}
    for name, n in SETS.items():
        for length, (stem, option) in LENGTHS.items():
            needs = forecast(
                name, made_up(n, stem, option), config.asking, (models[0], served), (), Path()
            ).needs
            planned, sent = needs[0], needs[1].tokens or 0
            hours = {m.name: _gpu_hours(m, sent) for m in models}
            total = sum(hours.values())
            out.setdefault(name, {})[length] = {
                "requests": planned.requests, "tokens_once": planned.tokens, "tokens_sent": sent,
                "gpu_hours": {model: round(h, 2) for model, h in hours.items()},
                "gpu_hours_all": round(total, 1), "dollars": round(PRICE * total),
            }  # fmt: skip
    return out


def _gpu_hours(model: VLLMModel, tokens: int) -> float:
    """Two operations a parameter and token, and the wait for the weights on every device."""
    computing = 2e9 * BILLIONS[model.name] * tokens / (SHARE * TERAFLOPS * 1e12)
    return computing / 3600 + model.tensor_parallel_size * START_MINUTES / 60


def certified(n: int, auditors: int, margin: float = MARGIN, left: float = 0.0) -> float:
    """How likely so many independent auditors, each `left` above chance, all stay below chance plus `margin` on n items.

    The rule is that of `judge.audit.residual`: the upper Clopper-Pearson bound of each. Exact but for what selection and
    shared errors do to auditors.
    """
    low, high = -1, n
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if clopper_pearson(middle, n)[1] < CHANCE + margin else (low, middle)
    return float(bdtr(low, n, CHANCE + left)) ** auditors if low >= 0 else 0.0


def items_needed(auditors: int, margin: float = MARGIN, left: float = 0.0) -> int | None:
    """The kept items from which on a certificate comes with 80 % power; None above 50,000."""
    sizes: Iterable[int] = range(100, 50_000, 20)
    good = 0
    for n in sizes:
        # The chance of a whole number of hits is a saw: three sizes in a row must do.
        good = good + 1 if certified(n, auditors, margin, left) >= POWER else 0
        if good == 3:
            return n - 40
    return None


def certificate() -> dict[str, Any]:
    """What the rule costs in items, and what each set could show after a removal of the published size."""
    rules = [
        {
            "margin": margin,
            "auditors": auditors,
            "left": left,
            "kept_items": items_needed(auditors, margin, left),
        }
        for margin in (0.03, MARGIN, 0.1)
        for auditors, left in ((1, 0.0), (3, 0.0), (3, 0.01), (3, 0.02))
    ]
    return {
        "chance": CHANCE, "power": POWER, "by_our_advice": items_to_detect(CHANCE, MARGIN), "rules": rules,
        "sets": {name: _shown(n) for name, n in SETS.items()},
    }  # fmt: skip


def _shown(n: int) -> dict[str, Any]:
    kept = round(n * (1 - REMOVED))
    margins = (m / 1000 for m in range(20, 300))
    low, high = wilson(kept / 2, kept)
    return {
        "items": n, "kept": kept, "certified_by_three": round(certified(kept, 3), 3),
        "smallest_margin": next(m for m in margins if certified(kept, 3, m) >= POWER),
        "detectable_above_chance": round(minimum_detectable_difference(kept, CHANCE), 4),
        "half_width_at_half": round((high - low) / 2, 4),
    }  # fmt: skip


def simulated() -> Iterator[dict[str, Any]]:
    """By set, simulation and rule: what is removed, and how often what is left is certified."""
    for name, n in SETS.items():
        for rate, sight in PLANTED:
            for criterion in ("fdr", "unanimous"):
                sim = Simulation(items=n, shortcut_rate=rate, sight=sight, graded=True, tested=0, outside=1)
                yield {"set": name, "items": n, "shortcut_rate": rate, "sight": sight, "criterion": criterion,
                       **_judged(sim, criterion)}  # fmt: skip


def _judged(sim: Simulation, criterion: str) -> dict[str, Any]:
    """Without text, so that models alone audit: all are below the margin, one is not, or one is above chance.

    `outside_below`: how often the outside model is below it, which audits what was kept; a voter left out audits what
    the others alone would have kept.
    """
    audits: Counter[str] = Counter()
    outside = 0
    found: list[tuple[float, float, float, float]] = []
    for seed in range(REPEATS):
        drawn = draw(sim.model_copy(update={"seed": 700_000_000 + seed}))
        rules = ScreenRules.model_validate({"criterion": criterion, "voters": sim.voter_names})
        done = judge(drawn.answers(), drawn.facts, Rules(rules), None)
        removed = np.array([v.verdict == "shortcut" for v in done.verdicts])
        planted = np.array([kind != "clean" for kind in drawn.kind])
        screen, residual = done.summary.screen, done.summary.residual
        rate = None if screen is None else screen.latent_shortcut_rate
        width = (rate.ci[1] - rate.ci[0]) / 2 if rate is not None and rate.ci is not None else float("nan")
        share = float((removed & ~planted).sum() / max(1, removed.sum()))
        found.append((float(removed.mean()), float((removed & planted).sum() / planted.sum()), share, width))
        codes = {reason.code for reason in residual.reasons or ()}
        audits[
            next((code for code in ("above_chance", "not_below_margin") if code in codes), "below_margin")
        ] += 1
        outside += all(map(_below, (residual.non_voters or {}).values()))
    removed_, planted_, false, half = np.nanmean(np.array(found), axis=0).tolist()
    print(criterion, sim.items, dict(audits), outside, file=sys.stderr, flush=True)
    return {
        "benchmarks": REPEATS, "removed": round(removed_, 4), "planted_removed": round(planted_, 4),
        "false_share": round(false, 4), "latent_half_width": round(half, 4), "outside_below": outside,
        "audits": dict(sorted(audits.items())),
    }  # fmt: skip


def _below(audit: Auditor) -> bool:
    """Whether an auditor's upper bound is below chance plus the margin, as `judge.audit.residual` decides it."""
    limit = CHANCE if audit.chance is None else min(CHANCE, audit.chance)
    return clopper_pearson((audit.value or 0.0) * audit.n, audit.n)[1] < limit + MARGIN


def main() -> None:
    """Write the file."""
    assumed = {
        "characters": {name: {"stem": s, "option": o} for name, (s, o) in LENGTHS.items()},
        "teraflops": TERAFLOPS, "share_of_them": SHARE, "start_minutes": START_MINUTES, "dollars_an_hour": PRICE,
        "billions_of_parameters_a_token": BILLIONS,
    }  # fmt: skip
    tree = {
        "says": "a plan and a simulation for sets of WMDP's sizes; no item of WMDP was read",
        "sets": SETS, "assumed": assumed, "asking": asking(), "certificate": certificate(),
        "simulated": list(simulated()),
    }  # fmt: skip
    write_json(RESULTS, tree)


if __name__ == "__main__":
    main()
