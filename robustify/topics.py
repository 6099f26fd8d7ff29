"""Whether the filter changed what the benchmark is about: topics before and after, and what chance would do.

Keeping fewer items moves the shares of the topics by itself, so the divergence is read against random
removals of the same size. Small topics are counted, never hidden.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from robustify.stats import rate

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

DRAWS = 1_000
TAKEN = ("kl_nats", "kl_null", "p")


def topics(topic_of: Sequence[str], kept: Bools, *, draws: int = DRAWS, seed: int = 0) -> dict[str, object]:
    """`{TOPIC: {before, after, retention}, kl_nats, kl_null, p}`; both arguments have one entry an item.

    `kl_nats` is KL(after || before) in nats with Jeffreys smoothing; `kl_null` its mean over `draws` random
    removals of as many items (multivariate hypergeometric), `p` the share of them that diverge as much. All
    three are None where no item is kept. A topic named like one of them gets a trailing "_".
    """
    names, index = np.unique(np.asarray(topic_of, dtype=object).astype(str), return_inverse=True)
    before = np.bincount(index, minlength=len(names))
    after = np.bincount(index[kept], minlength=len(names))
    rows: dict[str, object] = {
        (name + "_" if name in TAKEN else name): {
            "before": int(b),
            "after": int(a),
            "retention": rate(np.repeat([1.0, 0.0], [a, b - a])).json(),
        }
        for name, b, a in zip(names.tolist(), before, after, strict=True)
    }
    return {**rows, **drift(before, after, draws=draws, seed=seed)}


def drift(before: Ints, after: Ints, *, draws: int = DRAWS, seed: int = 0) -> dict[str, float | None]:
    """KL(after || before), its mean under random removal, how often that reaches it; counts (t,) by topic."""
    n = int(after.sum())
    if n == 0:
        return {"kl_nats": None, "kl_null": None, "p": None}
    found = float(divergence(after, before))
    rng = np.random.default_rng(seed)
    null = divergence(rng.multivariate_hypergeometric(before, n, size=draws, method="marginals"), before)
    reached = int(np.count_nonzero(null >= found - 1e-12))
    return {"kl_nats": found, "kl_null": float(null.mean()), "p": (1 + reached) / (1 + draws)}


def divergence(after: Ints, before: Ints) -> Floats:
    """KL(after || before) in nats of counts (..., t) against counts (t,), each with 0.5 added (Jeffreys)."""
    p, q = _shares(after), _shares(before)
    return np.asarray(np.sum(p * np.log(p / q), axis=-1))


def _shares(counts: Ints) -> Floats:
    return np.asarray((counts + 0.5) / (counts.sum(axis=-1, keepdims=True) + 0.5 * counts.shape[-1]))
