"""The true value of each interval of a simulated benchmark's summary.json, by its path.

The true value is that of the population of items which the parameters describe, asked to these very models. It is
computed from the parameters alone; where it is not known exactly it is left out.
"""

import math
from collections.abc import Callable, Iterator
from itertools import combinations, product

import numpy as np

from bench.simulate.parameters import (
    TOPICS,
    Case,
    Probabilities,
    Simulation,
    cases,
    needed_votes,
    place_probabilities,
    screen_probabilities,
    tested_accuracy,
)
from robustify.arrays import Floats

Mixture = list[tuple[Case, Probabilities]]

_BY_WORDING = ("most_overlap", "least_overlap", "odd_one_out")
_BY_HEDGES = ("most_numeric", "fewest_absolutes", *_BY_WORDING)
BLIND = (
    "longest_answer", "longest_words", "shortest_answer", "shortest_words", "most_hedges", "alphabetical_first",
    "stem_overlap", "least_stem_overlap", "all_of_the_above", *_BY_HEDGES, "first_option", "last_option",
)  # fmt: skip
"""Every rule whose true value can be known; `most_common_position` looks at the keys it is measured on."""


def true_values(sim: Simulation) -> dict[str, float]:
    """The true value of each interval of summary.json, by its path (names joined by `/`).

    The run's rule is unanimity and its only alternative majority. The splits' rates are left out where answers
    are missing or places, keys and answers hang together (`asked` own).
    """
    mix = [(case, screen_probabilities(sim, case)) for case in cases(sim)]
    found = dict(_filter(sim, "screen", mix))
    for name, share in zip(sim.voter_names, _means(mix, lambda o: o.right), strict=False):
        found[f"screen/voters/{name}/choices_only_accuracy"] = float(share)
    if not sim.unanswered and needed_votes("majority", sim.voters) < needed_votes("unanimous", sim.voters):
        # A majority of two is unanimity, and then has no row of its own.
        majority = [(case, screen_probabilities(sim, case, "majority")) for case in cases(sim)]
        found |= _filter(sim, "majority", majority)
    if sim.asked == "rotated":
        plain = [(case, screen_probabilities(sim, case, plain=True)) for case in cases(sim)]
        found |= _filter(sim, "screen/d4_rule", plain)
        if not sim.unanswered:
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
                found |= part(sim, mix)
    return {path: value for path, value in found.items() if not math.isnan(value)}


def _filter(sim: Simulation, where: str, mix: Mixture) -> Iterator[tuple[str, float]]:
    weighed, flagged = _mean(mix, lambda o: o.weighed), _mean(mix, lambda o: o.flagged)
    yield f"{where}/flagged", _over(flagged, weighed)
    evenly = flagged - _mean(mix, lambda o: o.by_chance)
    yield f"{where}/excess_over_chance", _over(evenly, weighed)
    latent = sum(case.weight * (o.flagged - o.by_chance) / (1 - 1 / case.k) for case, o in mix)
    yield f"{where}/latent_shortcut_rate", _cut(_over(latent, weighed))
    if sim.asked == "own":
        by_place = flagged - _mean(mix, lambda o: o.by_chance_by_position)
        latent = sum(
            case.weight
            * (o.flagged - o.by_chance_by_position)
            / (1 - float(np.sum(place_probabilities(sim, case.k) ** 2)))
            for case, o in mix
        )
        yield f"{where}/by_place/excess_over_chance", _over(by_place, weighed)
        yield f"{where}/by_place/latent_shortcut_rate", _cut(_over(latent, weighed))


def _cut(share: float) -> float:
    """As the judge prints a latent rate: between 0 and 1."""
    return share if math.isnan(share) else min(1.0, max(0.0, share))


def _audits(sim: Simulation, mix: Mixture) -> Iterator[tuple[str, float]]:
    everywhere, won = _means(mix, lambda o: o.right), _means(mix, lambda o: o.right_kept)
    left_out, left_out_right = _means(mix, lambda o: o.left_out), _means(mix, lambda o: o.left_out_right)
    kept = _mean(mix, lambda o: o.kept)
    for i, name in enumerate(sim.voter_names if sim.voters > 1 else ()):
        yield f"residual/leave_one_out/{name}", _over(float(left_out_right[i]), float(left_out[i]))
        yield f"residual/leave_one_out/{name}/before", float(everywhere[i])
    for i, name in enumerate(sim.outside_names, start=sim.voters):
        yield f"residual/non_voters/{name}", _over(float(won[i]), kept)
        yield f"residual/non_voters/{name}/before", float(everywhere[i])
    if set(sim.kinds) <= {"clean", "wordless", "hidden"} or not sim.shortcut_rate:
        yield "residual/probe", _among_open(mix)


def _among_open(mix: Mixture) -> float:
    """One over the options that the selection left open, where at least two are and nothing in the text tells them
    apart. Votes flag one option at most: it is closed in items that were kept although all picked it.
    """
    part = whole = 0.0
    for case, o in mix:
        free, closed = o.weighed - case.k * o.by_chance, case.k * o.by_chance - o.flagged
        part += case.weight * (free / case.k + (closed / (case.k - 1) if case.k > 2 else 0.0))
        whole += case.weight * (free + (closed if case.k > 2 else 0.0))
    return _over(part, whole)


def _screen_scores(sim: Simulation, mix: Mixture) -> Iterator[tuple[str, float]]:
    everywhere, won = _means(mix, lambda o: o.right), _means(mix, lambda o: o.right_kept)
    kept, flagged = _mean(mix, lambda o: o.kept), _mean(mix, lambda o: o.flagged)
    for i, name in enumerate((*sim.voter_names, *sim.outside_names)):
        where = f"accuracy/{name}/choices_only"
        yield f"{where}/all", float(everywhere[i])
        yield f"{where}/robust", _over(float(won[i]), kept)
        if name not in sim.voter_names:
            # Voters are right on what they flagged by what flagging means: no estimate.
            yield f"{where}/shortcut", _over(float(everywhere[i] - won[i]), flagged)
        yield f"{where}/heuristic_gap", _gap(sim, [(c, float(o.right[i])) for c, o in mix])


def _full_scores(sim: Simulation, mix: Mixture) -> Iterator[tuple[str, float]]:
    def full(case: Case) -> float:
        return full_accuracy(sim, case)

    def cloze(case: Case) -> float:
        return _cloze_accuracy(sim, case)

    gained = _share(mix, lambda o: 1.0, lambda c: full(c) - cloze(c))
    for name in sim.tested_names:
        yield f"accuracy/{name}/format_gap", gained
        for measure, accuracy in (("full", full), ("cloze_chars", cloze)):
            where = f"accuracy/{name}/{measure}"
            yield f"{where}/all", _share(mix, lambda o: 1.0, accuracy)
            yield f"{where}/robust", _share(mix, lambda o: o.kept, accuracy)
            yield f"{where}/shortcut", _share(mix, lambda o: o.flagged, accuracy)
            yield f"{where}/heuristic_gap", _gap(sim, [(c, accuracy(c)) for c, _ in mix])


def full_accuracy(sim: Simulation, case: Case) -> float:
    """How often a model under test is right in one asking of the full question."""
    return sim.firmness * tested_accuracy(sim, case.kind)[0] + (1 - sim.firmness) / case.k


def _pairs(sim: Simulation, mix: Mixture) -> Iterator[tuple[str, float]]:
    # All models under test are alike, so every true difference is none.
    for a, b in combinations(sim.tested_names, 2):
        for view in ("full", "cloze_chars"):
            for split in ("all", "robust"):
                yield f"pairs/{a} vs {b}/{view}/{split}/difference", 0.0


def _calibrated(sim: Simulation, mix: Mixture) -> Iterator[tuple[str, float]]:
    asked = (("full", FULL_LIKING, full_accuracy), ("cloze_chars", CLOZE_LIKING, _cloze_accuracy))
    for name, (view, liking, accuracy) in product(sim.tested_names, asked):
        sure_and_right = [(case, _confidence(liking, case.k), accuracy(sim, case)) for case, _ in mix]
        gaps: dict[int, float] = {}
        for case, sure, won in sure_and_right:
            gaps[case.k] = gaps.get(case.k, 0.0) + case.weight * (won - sure)
        # Items of as many options share a confidence; where each has a bin of its own the error is known.
        if len({int(15 * sure) for _, sure, _ in sure_and_right}) == len(gaps):
            yield f"calibration/{name}/{view}/ece", sum(map(abs, gaps.values()))
        yield (
            f"calibration/{name}/{view}/brier",
            sum(c.weight * _brier(c.k, sure, won) for c, sure, won in sure_and_right),
        )


def _confidence(liking: float, k: int) -> float:
    return math.exp(liking) / (math.exp(liking) + k - 1)


def _brier(k: int, sure: float, won: float) -> float:
    """The expected loss of a model that is `sure` of its pick, even over the others, and right with `won`."""
    other = (1 - sure) / (k - 1)
    missed = sure**2 + (1 - other) ** 2 + (k - 2) * other**2
    return won * ((1 - sure) ** 2 + (k - 1) * other**2) + (1 - won) * missed


def _cloze_accuracy(sim: Simulation, case: Case) -> float:
    return tested_accuracy(sim, case.kind)[1]


def _suspects(sim: Simulation, mix: Mixture) -> Iterator[tuple[str, float]]:
    if sim.tested < 2:
        return

    def alike(case: Case) -> float:
        # All are wrong and name the same of k - 1 options.
        return (case.k - 1) * ((1 - full_accuracy(sim, case)) / (case.k - 1)) ** sim.tested

    robust, shortcut = _share(mix, lambda o: o.kept, alike), _share(mix, lambda o: o.flagged, alike)
    yield "label_noise/flagged", _share(mix, lambda o: 1.0, alike)
    yield "label_noise/in_robust", robust
    yield "label_noise/in_shortcut", shortcut
    yield "label_noise/difference", robust - shortcut


def _rules(sim: Simulation, mix: Mixture) -> Iterator[tuple[str, float]]:
    for name in BLIND:
        known = [rule_accuracy(sim, name, case) for case, _ in mix]
        if None in known:
            continue
        credit = {case: r for (case, _), r in zip(mix, known, strict=True) if r is not None}
        for split in ("all", "cloze"):
            yield f"heuristics/{split}/{name}", _share(mix, lambda o: 1.0, credit.__getitem__)
        yield f"heuristics/robust/{name}", _share(mix, lambda o: o.kept, credit.__getitem__)
        yield f"heuristics/shortcut/{name}", _share(mix, lambda o: o.flagged, credit.__getitem__)


def rule_accuracy(sim: Simulation, name: str, case: Case) -> float | None:
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
            return float(place_probabilities(sim, case.k)[0])
        case "last_option", _:
            return float(place_probabilities(sim, case.k)[-1])
    return 1 / case.k


def _topics(sim: Simulation, mix: Mixture) -> Iterator[tuple[str, float]]:
    kept = _mean(mix, lambda o: o.kept)
    return ((f"topics/by_topic/{topic_name(t)}/retention", kept) for t in range(len(TOPICS)))


FULL_LIKING, CLOZE_LIKING = 2.0, 1.0
"""How much a model under test likes its pick, in nats (cloze: a character), whether it believes or guesses."""


def topic_name(t: int) -> str:
    """The name of topic t, from 0."""
    return f"topic {t + 1}"


def _stability(sim: Simulation, mix: Mixture) -> Iterator[tuple[str, float]]:
    if sim.orders < 2:
        return
    firm, loose = sim.firmness, 1 - sim.firmness

    def same(case: Case) -> float:
        orders = min(sim.orders, math.factorial(case.k))
        return (firm + loose / case.k) ** orders + (case.k - 1) * (loose / case.k) ** orders

    mean = _share(mix, lambda o: 1.0, lambda case: full_accuracy(sim, case))
    flips = _share(mix, lambda o: 1.0, lambda case: (1 - firm**2) * (1 - 1 / case.k))
    consistent = _share(mix, lambda o: 1.0, same)
    for name in sim.tested_names:
        yield f"permutation/by_model/{name}/mean", mean
        yield f"permutation/by_model/{name}/flip_rate", flips
        yield f"permutation/by_model/{name}/consistency", consistent


def _places(sim: Simulation, mix: Mixture) -> Iterator[tuple[str, float]]:
    if sim.places != "uniform":
        # Errors fall evenly on the other options, so picks stand more evenly than skewed keys do.
        return
    picked = _share(mix, lambda o: 1.0, lambda case: 1 / case.k)
    for name, place in product(sim.tested_names, range(min(sim.options))):
        where = f"position_bias/{name}/places/{place}"
        yield f"{where}/picked", picked
        yield f"{where}/excess", 0.0


def _gap(sim: Simulation, accuracy: list[tuple[Case, float]]) -> float:
    """Accuracy where the longest answer is right minus where it is wrong; given the case both are independent."""
    longest = [rule_accuracy(sim, "longest_answer", case) or 0.0 for case, _ in accuracy]

    def where(side: list[float]) -> float:
        weight = [case.weight * c for (case, _), c in zip(accuracy, side, strict=True)]
        return _over(sum(w * a for w, (_, a) in zip(weight, accuracy, strict=True)), sum(weight))

    return where(longest) - where([1 - c for c in longest])


def _mean(mix: Mixture, of: Callable[[Probabilities], float]) -> float:
    return sum(case.weight * of(o) for case, o in mix)


def _means(mix: Mixture, of: Callable[[Probabilities], Floats]) -> Floats:
    return np.asarray(sum((case.weight * of(o) for case, o in mix), np.zeros(1)), dtype=np.float64)


def _share(mix: Mixture, among: Callable[[Probabilities], float], of: Callable[[Case], float]) -> float:
    """The mean of `of` over the items, weighted by `among`."""
    weight = [case.weight * among(o) for case, o in mix]
    return _over(sum(w * of(case) for w, (case, _) in zip(weight, mix, strict=True)), sum(weight))


def _over(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan
