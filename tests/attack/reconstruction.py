"""The reconstruction attack: who knows what every item did under public models, and every published number, asks an
integer program whether only one flagged set fits.

The votes themselves are not known: who reruns the screen has its result, and no release can change that. What is known
of an item is its credit under each measure of which a number was published, and its topic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from robustify.base.arrays import Bools, Floats, Ints
from robustify.restricted.disclosure.released import Released

KEPT = ", items kept"


@dataclass(frozen=True)
class Facts:
    """Rows of `low <= matrix @ x <= high` that the kept items x (n,) fulfil."""

    matrix: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Known:
    """The credits (n,) of the items by the name of the number that is on those kept, their topics, and the truth."""

    credits: Mapping[str, Floats]
    topics: Sequence[str]
    kept: Bools


def facts(page: Released, known: Known) -> Facts:
    """Return what a page says of the kept items. The attacker is granted how many they are."""
    n_kept = float(known.kept.sum())
    rows = [(np.ones(len(known.kept)), n_kept, n_kept)]
    half = page.step / 2 + 1e-9
    for number in page.numbers:
        credit = known.credits.get(number.name)
        if credit is not None and number.value is not None:
            rows.append((credit, (number.value - half) * n_kept, (number.value + half) * n_kept))
    named = {topic.name for topic in page.topics.rows} if page.topics is not None else set()
    for topic in page.topics.rows if page.topics is not None else ():
        mine = [
            (t == topic.name) if topic.name in set(known.topics) else (t not in named) for t in known.topics
        ]
        assert sum(mine) == topic.n
        rows.append(
            (np.array(mine, dtype=float), (topic.kept - half) * topic.n, (topic.kept + half) * topic.n)
        )
    return _stacked(rows)


def exact_facts(known: Known) -> Facts:
    """Return what the exact numbers say: the control, in which the attack succeeds."""
    rows = [(np.ones(len(known.kept)), float(known.kept.sum()), float(known.kept.sum()))]
    for credit in known.credits.values():
        right = float(credit[known.kept].sum())
        rows.append((credit, right - 1e-6, right + 1e-6))
    for topic in dict.fromkeys(known.topics):
        mine = np.array([t == topic for t in known.topics], dtype=float)
        rows.append((mine, float(mine[known.kept].sum()), float(mine[known.kept].sum())))
    return _stacked(rows)


def together(released: Sequence[tuple[Facts, Ints]], n: int) -> Facts:
    """Return what several releases say of the same flags, each with the positions (m,) of its items among all `n`."""
    wide = []
    for one, places in released:
        matrix = np.zeros((len(one.matrix), n))
        matrix[:, places] = one.matrix
        wide.append(matrix)
    low, high = (np.concatenate([getattr(one, end) for one, _ in released]) for end in ("low", "high"))
    return Facts(np.vstack(wide), low, high)


def another(told: Facts, kept: Bools, where: Bools, seconds: float = 20.0) -> Bools | None:
    """Return a set that fits everything told and differs from the true one among the items of `where` (n,).

    None if there is none, which the solver proves. An answer is checked against the facts before it counts.

    Raises:
        TimeoutError: the solver found none and proved nothing in time.
    """
    n = len(kept)
    differs = np.where(where, np.where(kept, -1.0, 1.0), 0.0)
    at_least_one = 1.0 - float((where & kept).sum())
    constraints = LinearConstraint(
        np.vstack([told.matrix, differs]), np.append(told.low, at_least_one), np.append(told.high, np.inf)
    )
    done = milp(np.zeros(n), integrality=np.ones(n, dtype=np.int64), bounds=Bounds(0, 1), constraints=constraints,
                options={"time_limit": seconds})  # fmt: skip
    if done.x is None:
        if done.status != 2:
            raise TimeoutError(f"solver status {done.status}")
        return None
    found = np.asarray(done.x > 0.5)
    fit = told.matrix @ found
    assert bool((fit >= told.low - 1e-6).all() and (fit <= told.high + 1e-6).all())
    assert bool((found != kept)[where].any())
    return found


def settled(told: Facts, kept: Bools) -> Bools:
    """Return the items (n,) whose flag is the same in every set that fits."""
    closed = np.ones(len(kept), dtype=bool)
    while closed.any():
        found = another(told, kept, closed)
        if found is None:
            break
        closed &= found == kept
    return closed


def _stacked(rows: Sequence[tuple[Floats, float, float]]) -> Facts:
    matrix, low, high = zip(*rows, strict=True)
    return Facts(np.array(matrix), np.array(low), np.array(high))
