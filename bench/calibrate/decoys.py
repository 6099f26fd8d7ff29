"""How many removals of the filter are there by chance, where it is known: simulations for criterion `fdr`, and of decoys.

Every benchmark draws its clean keys anew, so an item without a shortcut is a true null. Answers go the whole way: votes,
cross-fitted ranking, cut. Beside them are the models that err as voters do, which random removals alone take for a fall.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.calibrate.arms import alarm_verdict, rounded, share_of
from bench.simulate.drawing import draw
from bench.simulate.parameters import Simulation
from robustify.judge.accuracy import Parts
from robustify.judge.removal_effects import random_removal
from robustify.screen.chance import chance
from robustify.screen.consensus import SHORTCUT
from robustify.screen.decoy_filter import flags
from robustify.screen.item_index import item_index
from robustify.screen.ranking import Ranker
from robustify.screen.screen_rules import ScreenRules
from robustify.stats.intervals import wilson

Q = 0.1
ITEMS = 360
PLANTED = (0, 15, 40, 126)
REPEATS = {False: 200, True: 20}
"""Benchmarks of a world by whether their text is ranked too, which costs twenty times as much."""
SEEDS = 500_000_000
KINDS: dict[str, dict[str, Any]] = {
    "four options": {},
    "three to six options": {"options": (3, 4, 5, 6)},
    "two to six options": {"options": (2, 3, 4, 5, 6)},
    "passages of five items": {"passage": 5},
    "one vote in ten is a tie": {"ties": 0.1},
    "letters in the own order, keys skewed": {"asked": "own", "places": "skewed", "letter_bias": 0.3},
    "voters err alike: correlation 0.9": {"correlation": 0.9},
    "with the options' text": {"text": True},
}
EXACT = ("four options", "three to six options")
"""Simulations in which the rule for finite samples is measured too."""


@dataclass(frozen=True, slots=True)
class World:
    """One world: how many of its items are planted, and whether text is ranked and the exact rule is asked."""

    says: str
    planted: int
    sim: Simulation
    text: bool
    exact: bool


@dataclass(frozen=True, slots=True)
class Filtered:
    """What one benchmark gave: flags, how many of them are clean, planted and clean items, and D / H with its ends."""

    flagged: int
    clean_flagged: int
    planted: int
    clean: int
    estimate: float | None
    ends: tuple[float, float] | None


def simulations() -> Iterator[World]:
    """All of them."""
    for says, changed in KINDS.items():
        settings = dict(changed)
        text = bool(settings.pop("text", False))
        for planted in PLANTED:
            sim = Simulation(
                items=ITEMS,
                shortcut_rate=planted / ITEMS,
                outside=0,
                tested=0,
                graded=True,
                **{"correlation": 0.3, **settings},
            )
            for exact in (False, True) if says in EXACT else (False,):
                yield World(says, planted, sim, text, exact)


def filtered(world: World, seed: int) -> Filtered:
    """One benchmark of a world, filtered at q = 0.1."""
    drawn = draw(world.sim.model_copy(update={"seed": seed}))
    answers = drawn.answers()
    index = item_index(answers, answers.items)
    rules = ScreenRules(voters=world.sim.voter_names)
    items = drawn.items() if world.text else None
    ranking = Ranker(answers, index, items, groups=drawn.facts.groups).rank(rules)
    decision = flags(ranking, index.key, Q, exact=world.exact)
    flagged = decision.outcome == SHORTCUT
    clean = np.array([kind == "clean" for kind in drawn.kind])
    return Filtered(
        int(flagged.sum()), int((flagged & clean).sum()), int((~clean).sum()), int(clean.sum()),
        decision.cut.estimate, decision.cut.interval,
    )  # fmt: skip


def fdr(pool: Executor, scale: float) -> dict[str, Any]:
    """fdr.json: by world the mean false share, with its Monte Carlo interval, and what was found and lost."""
    rows = []
    for i, world in enumerate(simulations()):
        repeats = max(2, round(scale * REPEATS[world.text]))
        seeds = range(SEEDS + 10_000 * i, SEEDS + 10_000 * i + repeats)
        rows.append(_row(world, list(pool.map(filtered, [world] * repeats, seeds, chunksize=8))))
    return {"format": 1, "q": Q, "items": ITEMS, "simulations": rows}


def _row(world: World, found: list[Filtered]) -> dict[str, Any]:
    share = np.array([f.clean_flagged / f.flagged if f.flagged else 0.0 for f in found])
    any_flag = sum(f.flagged > 0 for f in found)
    error = 1.96 * float(share.std(ddof=1)) / len(share) ** 0.5
    mean = float(share.mean())
    # Without a planted item every flag is false: the false share is whether there is one. Where it does not vary it is
    # not known exactly.
    varied = world.planted > 0 and share.std() > 0
    low, high = (mean - error, mean + error) if varied else wilson(any_flag if mean else 0, len(found))
    inside = [
        f.ends[0] <= f.clean_flagged / f.flagged <= f.ends[1]
        for f in found
        if f.flagged and f.ends is not None
    ]
    estimates = [f.estimate for f in found if f.estimate is not None]
    return {
        "says": world.says, "planted": world.planted, "exact": world.exact, "benchmarks": len(found),
        "false_share": rounded(mean), "ci": [rounded(max(0.0, low)), rounded(high)],
        "verdict": alarm_verdict((low, high), Q),
        "estimated": rounded(float(np.mean(estimates))) if estimates else None,
        "interval_holds": rounded(float(np.mean(inside))) if inside else None,
        "any_flag": rounded(any_flag / len(found)),
        "planted_flagged": rounded(sum(f.flagged - f.clean_flagged for f in found) / max(1, sum(f.planted for f in found))),
        "clean_flagged": rounded(sum(f.clean_flagged for f in found) / sum(f.clean for f in found)),
    }  # fmt: skip


# Models that err as the voters do, and shortcuts that go with the number of options


def by_chance(pool: Executor, scale: float) -> dict[str, Any]:
    """chance.json: false alarms of random removal with and without decoys; the latent rate where s goes with k."""
    repeats = max(2, round(300 * scale))
    alike = []
    for n in (150, 400, 1000):
        for follows in (0.0, 0.5, 1.0):
            for options in ((4,), (2, 3, 5)):
                seeds = range(SEEDS, SEEDS + repeats)
                found = list(pool.map(_alike, seeds, [(n, follows, options)] * repeats, chunksize=16))
                alike.append({
                    "items": n, "follows": follows, "options": list(options), "benchmarks": repeats,
                    "by_removal": share_of([a for a, _ in found]),
                    "by_decoys": share_of([b for _, b in found if b is not None]),
                })  # fmt: skip
    latent = []
    for says, rates in (("few options", (0.4, 0.1, 0, 0, 0)), ("many options", (0, 0, 0, 0.1, 0.4))):
        for n in (300, 1000):
            found_ = list(
                pool.map(_latent, range(SEEDS, SEEDS + repeats), [(n, rates)] * repeats, chunksize=16)
            )
            value, inside, old = (np.array(column) for column in zip(*found_, strict=True))
            half = 1.96 * float(value.std(ddof=1)) / repeats**0.5
            latent.append({
                "says": says, "items": n, "benchmarks": repeats, "truth": 0.1, "mean": rounded(float(value.mean())),
                "mean_ci": [rounded(float(value.mean()) - half), rounded(float(value.mean()) + half)],
                "coverage": share_of([bool(x) for x in inside]), "ratio_of_sums": rounded(float(old.mean())),
            })  # fmt: skip
    return {"format": 1, "alike": alike, "latent": latent}


def _alike(seed: int, world: tuple[int, float, tuple[int, ...]]) -> tuple[bool, bool | None]:
    """A clean set: whether random removals, and decoys, find that a model falls that guesses what voters like."""
    n, follows, options = world
    rng = np.random.default_rng(seed)
    k = rng.choice(options, n)
    key, favourite = rng.integers(0, k), rng.integers(0, k)
    votes = np.where(rng.random((n, 2)) < 0.6, favourite[:, None], rng.integers(0, k[:, None], (n, 2)))
    agreed = np.where(votes[:, 0] == votes[:, 1], votes[:, 0], -1)
    guess = np.where(rng.random(n) < follows, favourite, rng.integers(0, k))
    pick = np.where(rng.random(n) < 0.5, key, guess)
    every, nothing = np.ones(n, dtype=bool), np.full(n, np.nan)
    parts = Parts(
        agreed == key, agreed != key, every, nothing, np.zeros(n, dtype=np.int64), k=k, agreed=agreed
    )
    found = random_removal({"full": (pick == key).astype(np.float64)}, parts, pick)
    if found is None or found.p is None:
        return False, None
    decoys = None if found.by_decoys is None else found.by_decoys.p
    return found.p <= 0.05, None if decoys is None else decoys <= 0.05


def _latent(seed: int, world: tuple[int, tuple[float, ...]]) -> tuple[float, bool, float]:
    """The latent rate, whether its interval holds 10 %, and the ratio of sums that it was before."""
    n, rates = world
    rng = np.random.default_rng(seed)
    k = rng.integers(2, 7, n)
    key, shortcut = rng.integers(0, k), rng.random(n) < np.array(rates)[k - 2]
    votes = np.where(
        rng.random((n, 3)) < 0.8, rng.integers(0, k)[:, None], rng.integers(0, k[:, None], (n, 3))
    )
    votes = np.where(shortcut[:, None], key[:, None], votes)
    would = (votes[:, :, None] == np.arange(6)).all(axis=1)
    flagged = would[np.arange(n), key]
    found = chance(flagged, would, k)
    low, high = found.latent_ci or (np.nan, np.nan)
    return found.latent or 0.0, low <= 0.1 <= high, float((found.excess or 0.0) / np.mean(1 - 1 / k))
