"""At which places the keys of a benchmark are, and whether they are spread evenly.

A voter that always answers the first option is right wherever the key is first, which says nothing about what the
choices give away.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from robustify.arrays import Floats, Ints

LEVEL = 0.05
FEWEST_A_PLACE = 5
"""Expected keys a place below which the chi-square limit is not trusted and keys are drawn instead."""
DRAWS = 9999

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True, slots=True)
class Places:
    """Where the keys of `n` items stand: `shares` by place from the first, as many as the longest item has.

    `p` of keys drawn evenly over the places of each item, by a chi-square summed over the items of equally
    many options; `exact` says that keys were drawn because places were too few for the limit. `chi_square` on
    `df` degrees of freedom. `clause` says in words where the keys stand, None where they may stand evenly.
    """

    n: int
    shares: tuple[float, ...]
    chi_square: float
    df: int
    p: float
    exact: bool
    clause: str | None


def where_keys_stand(key: Ints, k: Ints) -> Places | None:
    """The places of the keys, `key` and `k` (n,); None without items."""
    if not len(key):
        return None
    counts = {options: _counts(key, k, options) for options in np.unique(k).tolist()}
    chi = sum(_chi_square(c[None, :])[0] for c in counts.values())
    df = sum(len(c) - 1 for c in counts.values())
    exact = any(c.sum() / len(c) < FEWEST_A_PLACE for c in counts.values())
    if df == 0:
        p, exact = 1.0, True
    else:
        p = _drawn(list(counts.values()), float(chi)) if exact else float(chdtrc(df, chi))
    width = max(counts)
    total, even = np.zeros(width), np.zeros(width)
    for c in counts.values():
        total[: len(c)] += c
        even[: len(c)] += c.sum() / len(c)
    clause = _clause(total, even, len(key)) if p < LEVEL else None
    return Places(len(key), tuple((total / len(key)).tolist()), float(chi), df, p, exact, clause)


def key_places(key: Ints, k: Ints) -> dict[str, object]:
    """The places of the keys as a part of summary.json; `key` and `k` (n,), items without a row left out.

    `shares` by place from the first, `by_options` the same for items of equally many options; `p` against keys
    spread evenly, `test` how it was found; `sentence` where p < 0.05. Without items all but `n` are null.
    """
    there = (k > 0) & (key >= 0)
    key, k = key[there], k[there]
    found = where_keys_stand(key, k)
    if found is None:
        return dict.fromkeys(("shares", "by_options", "chi_square", "df", "p", "test", "sentence")) | {"n": 0}
    sizes = {str(options): _counts(key, k, options) for options in np.unique(k).tolist()}
    return {
        "n": found.n,
        "shares": list(found.shares),
        "by_options": {
            name: {"n": int(c.sum()), "shares": (c / c.sum()).tolist()} for name, c in sizes.items()
        },
        "chi_square": found.chi_square,
        "df": found.df,
        "p": found.p,
        "test": "drawn" if found.exact else "chi-square",
        "sentence": _sentence(found),
    }


def key_shares(key: Ints, k: Ints, width: int) -> Floats:
    """For each item the share of keys at each place among the items of as many options, (n, width).

    The item itself is counted. So its expected flags are exactly those of the benchmark's own keys dealt anew
    among items of as many options, whatever their number. Without it less would be
    expected of a right item than of a wrong one, and an item alone with its number of options would have no share.
    """
    out = np.zeros((len(key), width))
    for options in np.unique(k).tolist():
        counts = _counts(key, k, options)
        out[k == options, :options] = counts / counts.sum()
    return out


def ordinal(place: int) -> str:
    """A place, counted from 0, in words: first, second, ... 11th."""
    if place < len(_ORDINALS):
        return _ORDINALS[place]
    number = place + 1
    return f"{number}{'th' if number % 100 in (11, 12, 13) else _ENDINGS.get(number % 10, 'th')}"


def _counts(key: Ints, k: Ints, options: int) -> Ints:
    return np.bincount(key[k == options], minlength=options).astype(np.int64)


def _chi_square(counts: Ints) -> Floats:
    even = counts.sum(axis=1, keepdims=True) / counts.shape[1]
    return np.asarray(((counts - even) ** 2 / even).sum(axis=1), dtype=np.float64)


def _drawn(counts: list[Ints], chi: float) -> float:
    rng = np.random.default_rng(0)
    draws = np.zeros(DRAWS)
    for c in counts:
        draws += _chi_square(rng.multinomial(int(c.sum()), np.full(len(c), 1 / len(c)), size=DRAWS))
    # The observed keys are one of the draws, so p is never 0 (Davison and Hinkley 1997, 4.2).
    return float((1 + np.count_nonzero(draws >= chi - 1e-9)) / (1 + DRAWS))


def _clause(found: Floats, even: Floats, n: int) -> str:
    off = (found - even) / np.sqrt(np.maximum(even, 1e-300))
    place = int(np.abs(off).argmax())
    return (
        f"the key stands {ordinal(place)} in {_share(found[place] / n)} of the items "
        f"({_share(even[place] / n)} if keys were spread evenly)"
    )


def _sentence(found: Places) -> str | None:
    if found.clause is None:
        return None
    said = "< 0.001" if found.p < 0.001 else f"= {found.p:.3f}"
    test = "keys drawn evenly" if found.exact else "chi-square"
    return f"In the benchmark's own order {found.clause}; n = {found.n}, p {said} ({test})."


def _share(share: float) -> str:
    return f"{100 * share:.0f} %" if share in (0.0, 1.0) else f"{100 * share:.1f} %"
