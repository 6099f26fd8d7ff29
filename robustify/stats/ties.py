"""Which scores share the best one."""

from collections.abc import Sequence

RELATIVE_TIE = 1e-6


def tied_best(scores: Sequence[float]) -> tuple[int, ...]:
    """The indices that share the best score, lowest first; equal means within a relative 1e-6.

    An argmax alone gives every tie to the first place: on public bf16 logs that moved accuracy by a point.
    """
    best = max(scores)
    slack = RELATIVE_TIE * max(abs(best), 1e-300)
    return tuple(i for i, s in enumerate(scores) if best - s <= slack)
