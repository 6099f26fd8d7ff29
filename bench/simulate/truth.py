"""True values of the intervals in a simulated benchmark's summary.json, with the estimator and the path of each.

A true value refers to the population of items that the parameters describe, asked to the same models. It is computed from
the parameters alone. The rule of the run is unanimity, asked in rotations.
"""

import math
from collections.abc import Callable, Iterator
from itertools import combinations, product

from bench.simulate.parameters import TOPICS, Case, Probabilities, Simulation, cases, screen_probabilities

Mixture = list[tuple[Case, Probabilities]]
Known = tuple[str, str, float]
"""An estimator, the path of one of its intervals in summary.json (names joined by `/`), and the true value."""

FULL_LIKING, CLOZE_LIKING = 2.0, 1.0
"""Strength of a tested model's preference for its pick in nats (cloze: per character), believed or guessed."""


def true_values(sim: Simulation) -> list[Known]:
    """Return the true value of each known interval of summary.json."""
    mix = [(case, screen_probabilities(sim, case)) for case in cases(sim)]
    parts = _screen, _audits, _scores, _pairs, _calibrated, _suspects, _topics, _stability
    return [known for part in parts for known in part(sim, mix) if not math.isnan(known[2])]


def _screen(sim: Simulation, mix: Mixture) -> Iterator[Known]:
    yield "flagged_rate", "screen/flagged", _mean(mix, lambda o: o.flagged)
    excess = _mean(mix, lambda o: o.flagged - o.by_chance)
    yield "excess_over_chance", "screen/excess_over_chance", excess
    latent = sum(c.weight * (o.flagged - o.by_chance) / (1 - 1 / c.k) for c, o in mix)
    yield "latent_shortcut_rate", "screen/latent_shortcut_rate", latent
    right = _mean(mix, lambda o: o.right)
    for name in sim.voter_names:
        yield "voter_choices_only_accuracy", f"measures/model/choices_only/{name}/all", right


def _audits(sim: Simulation, mix: Mixture) -> Iterator[Known]:
    left_out = _mean(mix, lambda o: o.left_out_right), _mean(mix, lambda o: o.left_out)
    for name in sim.voter_names if sim.voters > 1 else ():
        yield "residual_leave_one_out", f"residual/leave_one_out/{name}", _over(*left_out)
    kept = _over(_mean(mix, lambda o: o.right_kept), _mean(mix, lambda o: o.kept))
    for name in sim.outside_names:
        yield "residual_non_voters", f"residual/non_voters/{name}", kept
    if set(sim.planted) == {"wordless"} or not sim.shortcut_rate:
        yield "residual_probe", "residual/probe", _among_open(mix)


def _among_open(mix: Mixture) -> float:
    """Return 1 / (number of open options) for items with at least two that the text does not tell apart.

    Votes flag one option at most. It is closed in items that were kept although all voters picked it.
    """
    part = whole = 0.0
    for case, o in mix:
        free, closed = 1 - case.k * o.by_chance, case.k * o.by_chance - o.flagged
        part += case.weight * (free / case.k + (closed / (case.k - 1) if case.k > 2 else 0.0))
        whole += case.weight * (free + (closed if case.k > 2 else 0.0))
    return _over(part, whole)


def _scores(sim: Simulation, mix: Mixture) -> Iterator[Known]:
    def full(case: Case) -> float:
        return full_accuracy(sim, case)

    def cloze(_: Case) -> float:
        return sim.cloze_accuracy

    parts = {"all": lambda o: 1.0, "kept": lambda o: o.kept, "flagged": lambda o: o.flagged}
    gap = _share(mix, parts["all"], lambda c: full(c) - cloze(c))
    for name in sim.tested_names:
        yield "format_gap", f"measures/model/format_gap/{name}/all", gap
        for (measure, accuracy), (part, among) in product(
            (("full", full), ("cloze_chars", cloze)), parts.items()
        ):
            where = f"measures/model/{measure}/{name}/{part}"
            yield f"accuracy_{measure}_{part}", where, _share(mix, among, accuracy)
        yield "heuristic_gap_full", f"measures/model/longest_gap/{name}/all", _gap(mix, full)


def full_accuracy(sim: Simulation, case: Case) -> float:
    """Return the probability that a model under test is right once on the full question."""
    return sim.firmness * sim.full_accuracy(case.kind) + (1 - sim.firmness) / case.k


def _gap(mix: Mixture, accuracy: Callable[[Case], float]) -> float:
    """Return how much more accurate the model is on items whose longest answer is right."""

    def where(longest: Callable[[Case], float]) -> float:
        part = sum(c.weight * longest(c) * accuracy(c) for c, _ in mix)
        return _over(part, sum(c.weight * longest(c) for c, _ in mix))

    def right(case: Case) -> float:
        return 1.0 if case.kind == "length" else 1 / case.k

    return where(right) - where(lambda case: 1 - right(case))


def _pairs(sim: Simulation, mix: Mixture) -> Iterator[Known]:
    # All models under test are alike, so every true difference is 0.
    for a, b in combinations(sim.tested_names, 2):
        for split in ("all", "kept"):
            yield f"pair_difference_{split}", f"pairs/{a} vs {b}/full/{split}/difference", 0.0


def _calibrated(sim: Simulation, mix: Mixture) -> Iterator[Known]:
    gaps: dict[int, float] = {}
    for case, _ in mix:
        sure = math.exp(FULL_LIKING) / (math.exp(FULL_LIKING) + case.k - 1)
        gaps[case.k] = gaps.get(case.k, 0.0) + case.weight * (full_accuracy(sim, case) - sure)
    # Items with equally many options share a confidence; if several share a bin, the error is unknown.
    bins = {int(15 * math.exp(FULL_LIKING) / (math.exp(FULL_LIKING) + k - 1)) for k in gaps}
    for name in sim.tested_names if len(bins) == len(gaps) else ():
        yield "ece", f"calibration/{name}/full/ece", sum(map(abs, gaps.values()))


def _suspects(sim: Simulation, mix: Mixture) -> Iterator[Known]:
    def alike(case: Case) -> float:
        # All are wrong and pick the same one of k - 1 options.
        return float((case.k - 1) * ((1 - full_accuracy(sim, case)) / (case.k - 1)) ** sim.tested)

    if sim.tested > 1:
        yield "label_noise_flagged", "label_noise/flagged", _share(mix, lambda o: 1.0, alike)


def _topics(sim: Simulation, mix: Mixture) -> Iterator[Known]:
    kept = _mean(mix, lambda o: o.kept)
    for t in range(len(TOPICS)):
        yield "topic_retention", f"topics/by_topic/{topic_name(t)}/retention", kept


def topic_name(t: int) -> str:
    """Return the name of topic t, from 0."""
    return f"topic {t + 1}"


def _stability(sim: Simulation, mix: Mixture) -> Iterator[Known]:
    flips = _share(mix, lambda o: 1.0, lambda case: (1 - sim.firmness**2) * (1 - 1 / case.k))
    for name in sim.tested_names if sim.orders > 1 else ():
        yield "flip_rate", f"permutation/by_model/{name}/flip_rate", flips


def _mean(mix: Mixture, of: Callable[[Probabilities], float]) -> float:
    return sum(case.weight * of(o) for case, o in mix)


def _share(mix: Mixture, among: Callable[[Probabilities], float], of: Callable[[Case], float]) -> float:
    """Return the mean of `of` over the items, weighted by `among`."""
    weight = [case.weight * among(o) for case, o in mix]
    return _over(sum(w * of(case) for w, (case, _) in zip(weight, mix, strict=True)), sum(weight))


def _over(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan
