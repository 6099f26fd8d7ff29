"""What must come out of a made-up benchmark: the true value of each interval of summary.json, by its path.

The true value is that of the population of items which the world makes, asked to these very models. It is
computed from the world's probabilities alone; where it is not known exactly it is left out.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from robustify.arrays import Floats
from robustify.simulate.parameters import (
    TOPICS,
    Case,
    SimulationParameters,
    cases,
    key_place_probabilities,
    tested_accuracy,
)
from robustify.simulate.probabilities import Probabilities, needed_votes, screen_probabilities

Held = list[tuple[Case, Probabilities]]

_BY_WORDING = ("most_overlap", "least_overlap", "odd_one_out")
_BY_HEDGES = ("most_numeric", "fewest_absolutes", *_BY_WORDING)
BLIND = (
    "longest_answer", "longest_words", "shortest_answer", "shortest_words", "most_hedges", "alphabetical_first",
    "stem_overlap", "least_stem_overlap", "all_of_the_above", *_BY_HEDGES, "first_option", "last_option",
)  # fmt: skip
"""Every rule whose true value can be known; `most_common_position` looks at the keys it is measured on."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One interval of a summary beside its true value."""

    path: str
    truth: float
    value: float
    low: float
    high: float
    n: int | None

    @property
    def inside(self) -> bool:
        """Whether the interval holds the truth; a rounding error does not put it out."""
        return self.low - 1e-12 <= self.truth <= self.high + 1e-12


def estimates_beside(known: Mapping[str, float], summary: Mapping[str, object]) -> list[Estimate]:
    """Each interval of a summary whose true value is known; what the summary lacks is left out."""
    found = ((path, truth, *_shown(summary, path)) for path, truth in known.items())
    return [
        Estimate(path, truth, float(value), float(ci[0]), float(ci[1]), n)
        for path, truth, value, ci, n in found
        if value is not None and ci is not None
    ]


def _shown(summary: Mapping[str, object], path: str) -> tuple[Any, Any, Any]:
    """A value, its interval and its n: of a rate, or of a number whose interval stands beside it as NAME_ci."""
    node = value_at(summary, path)
    if isinstance(node, Mapping):
        return node.get("value"), node.get("ci"), node.get("n")
    return node, value_at(summary, f"{path}_ci"), None


def value_at(tree: object, path: str) -> object:
    """What stands at a path (names and list places joined by `/`); None where there is nothing."""
    for name in path.split("/"):
        match tree:
            case Mapping():
                tree = tree.get(name)
            case list() if name.isdigit() and int(name) < len(tree):
                tree = tree[int(name)]
            case _:
                return None
    return tree


def true_values(world: SimulationParameters) -> dict[str, float]:
    """The true value of each interval of summary.json, by its path (names joined by `/`).

    The run's rule is unanimity and its only alternative majority. The splits' rates are left out where answers
    are missing or places, keys and answers hang together (`asked` own).
    """
    held = [(case, screen_probabilities(world, case)) for case in cases(world)]
    found = dict(_filter(world, "screen", held))
    for name, share in zip(world.voter_names, _means(held, lambda o: o.right), strict=False):
        found[f"screen/voters/{name}/choices_only_accuracy"] = float(share)
    if not world.unanswered and needed_votes("majority", world.voters) < needed_votes(
        "unanimous", world.voters
    ):
        # A majority of two is unanimity, and then has no row of its own.
        majority = [(case, screen_probabilities(world, case, "majority")) for case in cases(world)]
        found |= _filter(world, "sensitivity/1", majority)
    if world.asked == "rotated":
        plain = [(case, screen_probabilities(world, case, plain=True)) for case in cases(world)]
        found |= _filter(world, "screen/d4_rule", plain)
        if not world.unanswered:
            for part in (
                _audits,
                _screen_scores,
                _full_scores,
                _pairs,
                _calibrated,
                _suspects,
                _rules,
                _topics,
                _stability,
                _places,
            ):
                found |= part(world, held)
    return {path: value for path, value in found.items() if not math.isnan(value)}


def _filter(world: SimulationParameters, where: str, held: Held) -> Iterator[tuple[str, float]]:
    weighed, flagged = _mean(held, lambda o: o.weighed), _mean(held, lambda o: o.flagged)
    yield f"{where}/flagged", _over(flagged, weighed)
    evenly = flagged - _mean(held, lambda o: o.luck)
    excess = "excess" if where.startswith("sensitivity") else "excess_over_chance"
    yield f"{where}/{excess}", _over(evenly, weighed)
    room = sum(case.weight * o.weighed * (1 - 1 / case.k) for case, o in held)
    yield f"{where}/latent_shortcut_rate", _cut(_over(evenly, room))
    if world.asked == "own":
        by_place = flagged - _mean(held, lambda o: o.luck_by_place)
        left = sum(
            case.weight * o.weighed * (1 - float(np.sum(key_place_probabilities(world, case.k) ** 2)))
            for case, o in held
        )
        yield f"{where}/by_place/{excess}", _over(by_place, weighed)
        yield f"{where}/by_place/latent_shortcut_rate", _cut(_over(by_place, left))


def _cut(share: float) -> float:
    """As the judge prints a latent rate: between 0 and 1."""
    return share if math.isnan(share) else min(1.0, max(0.0, share))


def _audits(world: SimulationParameters, held: Held) -> Iterator[tuple[str, float]]:
    everywhere, won = _means(held, lambda o: o.right), _means(held, lambda o: o.right_kept)
    left_out, left_out_right = _means(held, lambda o: o.left_out), _means(held, lambda o: o.left_out_right)
    kept = _mean(held, lambda o: o.kept)
    for i, name in enumerate(world.voter_names if world.voters > 1 else ()):
        yield f"residual/leave_one_out/{name}", _over(float(left_out_right[i]), float(left_out[i]))
        yield f"residual/leave_one_out/{name}/before", float(everywhere[i])
    for i, name in enumerate(world.outside_names, start=world.voters):
        yield f"residual/held_out/{name}", _over(float(won[i]), kept)
        yield f"residual/held_out/{name}/before", float(everywhere[i])
    if set(world.kinds) <= {"clean", "wordless", "hidden"} or not world.shortcut_rate:
        # Nothing in the text tells options apart, so no fit can know more than 1/k.
        yield "residual/probe", _share(held, lambda o: o.kept, lambda c: 1 / c.k)


def _screen_scores(world: SimulationParameters, held: Held) -> Iterator[tuple[str, float]]:
    everywhere, won = _means(held, lambda o: o.right), _means(held, lambda o: o.right_kept)
    kept, flagged = _mean(held, lambda o: o.kept), _mean(held, lambda o: o.flagged)
    for i, name in enumerate((*world.voter_names, *world.outside_names)):
        where = f"accuracy/{name}/choices_only"
        yield f"{where}/all", float(everywhere[i])
        yield f"{where}/robust", _over(float(won[i]), kept)
        if name not in world.voter_names:
            # Voters are right on what they flagged by what flagging means: no estimate.
            yield f"{where}/shortcut", _over(float(everywhere[i] - won[i]), flagged)
        yield f"{where}/heuristic_gap", _gap(world, [(c, float(o.right[i])) for c, o in held])


def _full_scores(world: SimulationParameters, held: Held) -> Iterator[tuple[str, float]]:
    def full(case: Case) -> float:
        return full_accuracy(world, case)

    def cloze(case: Case) -> float:
        return _cloze_accuracy(world, case)

    gained = _share(held, lambda o: 1.0, lambda c: full(c) - cloze(c))
    for name in world.tested_names:
        yield f"accuracy/{name}/format_gap", gained
        for measure, accuracy in (("full", full), ("cloze_chars", cloze)):
            where = f"accuracy/{name}/{measure}"
            yield f"{where}/all", _share(held, lambda o: 1.0, accuracy)
            yield f"{where}/robust", _share(held, lambda o: o.kept, accuracy)
            yield f"{where}/shortcut", _share(held, lambda o: o.flagged, accuracy)
            yield f"{where}/heuristic_gap", _gap(world, [(c, accuracy(c)) for c, _ in held])


def full_accuracy(world: SimulationParameters, case: Case) -> float:
    """How often a model under test is right in one asking of the full question."""
    return world.firmness * tested_accuracy(world, case.kind)[0] + (1 - world.firmness) / case.k


def _pairs(world: SimulationParameters, held: Held) -> Iterator[tuple[str, float]]:
    # All models under test are alike, so every true difference is none.
    for a, b in combinations(world.tested_names, 2):
        for view in ("full", "cloze_chars"):
            for split in ("all", "robust"):
                yield f"pairs/{a} vs {b}/{view}/{split}/difference", 0.0


def _calibrated(world: SimulationParameters, held: Held) -> Iterator[tuple[str, float]]:
    asked = (("full", FULL_LIKING, full_accuracy), ("cloze_chars", CLOZE_LIKING, _cloze_accuracy))
    for name, (view, liking, accuracy) in product(world.tested_names, asked):
        told = [(case, _confidence(liking, case.k), accuracy(world, case)) for case, _ in held]
        gaps: dict[int, float] = {}
        for case, sure, won in told:
            gaps[case.k] = gaps.get(case.k, 0.0) + case.weight * (won - sure)
        # Items of as many options share a confidence; where each has a bin of its own the error is known.
        if len({int(15 * sure) for _, sure, _ in told}) == len(gaps):
            yield f"calibration/{name}/{view}/ece", sum(map(abs, gaps.values()))
        yield (
            f"calibration/{name}/{view}/brier",
            sum(c.weight * _brier(c.k, sure, won) for c, sure, won in told),
        )


def _confidence(liking: float, k: int) -> float:
    return math.exp(liking) / (math.exp(liking) + k - 1)


def _brier(k: int, sure: float, won: float) -> float:
    """The expected loss of a model that is `sure` of its pick, even over the others, and right with `won`."""
    other = (1 - sure) / (k - 1)
    missed = sure**2 + (1 - other) ** 2 + (k - 2) * other**2
    return won * ((1 - sure) ** 2 + (k - 1) * other**2) + (1 - won) * missed


def _cloze_accuracy(world: SimulationParameters, case: Case) -> float:
    return tested_accuracy(world, case.kind)[1]


def _suspects(world: SimulationParameters, held: Held) -> Iterator[tuple[str, float]]:
    if world.tested < 2:
        return

    def alike(case: Case) -> float:
        # All are wrong and name the same of k - 1 options.
        return (case.k - 1) * ((1 - full_accuracy(world, case)) / (case.k - 1)) ** world.tested

    robust, shortcut = _share(held, lambda o: o.kept, alike), _share(held, lambda o: o.flagged, alike)
    yield "label_noise/flagged", _share(held, lambda o: 1.0, alike)
    yield "label_noise/in_robust", robust
    yield "label_noise/in_shortcut", shortcut
    yield "label_noise/difference", robust - shortcut


def _rules(world: SimulationParameters, held: Held) -> Iterator[tuple[str, float]]:
    for name in BLIND:
        known = [rule_accuracy(world, name, case) for case, _ in held]
        if None in known:
            continue
        credit = {case: r for (case, _), r in zip(held, known, strict=True) if r is not None}
        for split in ("all", "cloze"):
            yield f"heuristics/{split}/{name}", _share(held, lambda o: 1.0, credit.__getitem__)
        yield f"heuristics/robust/{name}", _share(held, lambda o: o.kept, credit.__getitem__)
        yield f"heuristics/shortcut/{name}", _share(held, lambda o: o.flagged, credit.__getitem__)


def rule_accuracy(world: SimulationParameters, name: str, case: Case) -> float | None:
    """The expected credit of a blind rule on a case; None where a cue changes it in no known way."""
    match name, case.kind:
        case ("longest_answer" | "longest_words", "length") | ("most_hedges", "hedge"):
            return 1.0
        case "shortest_answer" | "shortest_words", "length":
            return 0.0
        case (str(named), "length") if named in _BY_WORDING:
            return None
        case (str(named), "hedge") if named in _BY_HEDGES:
            return None
        case "first_option", _:
            return float(key_place_probabilities(world, case.k)[0])
        case "last_option", _:
            return float(key_place_probabilities(world, case.k)[-1])
    return 1 / case.k


def _topics(world: SimulationParameters, held: Held) -> Iterator[tuple[str, float]]:
    kept = _mean(held, lambda o: o.kept)
    return ((f"topics/{topic_name(t)}/retention", kept) for t in range(len(TOPICS)))


FULL_LIKING, CLOZE_LIKING = 2.0, 1.0
"""How much a model under test likes its pick, in nats (cloze: a character), whether it believes or guesses."""


def topic_name(t: int) -> str:
    """The name of topic t, from 0."""
    return f"topic {t + 1}"


def _stability(world: SimulationParameters, held: Held) -> Iterator[tuple[str, float]]:
    if world.orders < 2:
        return
    firm, loose = world.firmness, 1 - world.firmness

    def same(case: Case) -> float:
        orders = min(world.orders, math.factorial(case.k))
        return (firm + loose / case.k) ** orders + (case.k - 1) * (loose / case.k) ** orders

    mean = _share(held, lambda o: 1.0, lambda case: full_accuracy(world, case))
    flips = _share(held, lambda o: 1.0, lambda case: (1 - firm**2) * (1 - 1 / case.k))
    consistent = _share(held, lambda o: 1.0, same)
    for name in world.tested_names:
        yield f"permutation/{name}/mean", mean
        yield f"permutation/{name}/flip_rate", flips
        yield f"permutation/{name}/consistency", consistent


def _places(world: SimulationParameters, held: Held) -> Iterator[tuple[str, float]]:
    if world.places != "uniform":
        # Errors fall evenly on the other options, so picks stand more evenly than skewed keys do.
        return
    picked = _share(held, lambda o: 1.0, lambda case: 1 / case.k)
    recall = _over(_share(held, lambda o: 1.0, lambda case: full_accuracy(world, case) / case.k), picked)
    for name, place in product(world.tested_names, range(min(world.options))):
        where = f"position_bias/{name}/places/{place}"
        yield f"{where}/picked", picked
        yield f"{where}/excess", 0.0
        yield f"{where}/recall", recall


def _gap(world: SimulationParameters, accuracy: list[tuple[Case, float]]) -> float:
    """Accuracy where the longest answer is right minus where it is wrong; given the case both are independent."""
    longest = [rule_accuracy(world, "longest_answer", case) or 0.0 for case, _ in accuracy]

    def where(side: list[float]) -> float:
        weight = [case.weight * c for (case, _), c in zip(accuracy, side, strict=True)]
        return _over(sum(w * a for w, (_, a) in zip(weight, accuracy, strict=True)), sum(weight))

    return where(longest) - where([1 - c for c in longest])


def _mean(held: Held, of: Callable[[Probabilities], float]) -> float:
    return sum(case.weight * of(o) for case, o in held)


def _means(held: Held, of: Callable[[Probabilities], Floats]) -> Floats:
    return np.asarray(sum((case.weight * of(o) for case, o in held), np.zeros(1)), dtype=np.float64)


def _share(held: Held, among: Callable[[Probabilities], float], of: Callable[[Case], float]) -> float:
    """The mean of `of` over the items, weighted by `among`."""
    weight = [case.weight * among(o) for case, o in held]
    return _over(sum(w * of(case) for w, (case, _) in zip(weight, held, strict=True)), sum(weight))


def _over(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan
