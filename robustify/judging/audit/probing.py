"""Fresh probes: classifiers of several kinds that look for the keys in the options alone, and what they gain over chance.

The filter uses none of them. `form` is gradient boosting on the features of `baselines.features`, `words`
and `characters` are logits on TF-IDF, and `meaning` is a logit on the vectors of a sentence encoder. All are cross-fitted.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints
from robustify.items.item import Item, kept_for_last
from robustify.judging.baselines.artifact_probe import padded, places
from robustify.judging.baselines.conditional_logit import boosting, centred, drawn
from robustify.judging.baselines.features import amounts
from robustify.judging.stats.intervals import NORMAL, group_sums
from robustify.judging.stats.tests import LEVEL, holm
from robustify.judging.summary.scored import Gain

Kind = Literal["form", "words", "characters", "meaning"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FROM_TEXT: tuple[Kind, ...] = ("form", "words", "characters")
"""Kinds that need no encoder."""
MOST_LEARNED = 5_000
"""Most items in one fit. They are sampled with a fixed seed."""
TO_SEE = 0.03
"""Gain over chance that an audit should be able to see."""
_TOKEN = r"(?u)\b\w+\b|[^\w\s]"


def probed(
    items: Sequence[Item],
    fold: Ints,
    kinds: Sequence[Kind] = KINDS,
    *,
    seed: int = 0,
    vectors: Floats | None = None,
) -> dict[str, Floats]:
    """Cross-fit a probe of each kind, and return the logits that each gives to the options. They are (n, K), centered
    within the item. Fits use one thread.

    Each `fold` (n,) is predicted by a fit on the others, so copies and passages must share one (`artifact_probe.folds`).
    `vectors` (sum of k, d) are the encoder's, and without them there is no `meaning`.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    k = np.array([item.k for item in items], dtype=np.int64)
    there = np.arange(int(k.max(initial=1))) < k[:, None]
    key = (np.arange(there.shape[1]) == np.array([item.key for item in items])[:, None])[there]
    # A limit holds only for libraries that are loaded, so it comes after the classifiers.
    models = {kind: classifier(kind, seed) for kind in kinds if kind != "meaning" or vectors is not None}
    found: dict[str, Floats] = {}
    with threadpool_limits(1):
        for kind, model in models.items():
            x, logits = _columns(kind, items, there, vectors), np.zeros(len(key))
            for f in np.unique(fold).tolist():
                learned = np.zeros(len(items), dtype=bool)
                learned[drawn(fold != f, MOST_LEARNED)] = True
                train, test = np.repeat(learned, k), np.repeat(fold == f, k)
                logits[test] = model.fit(x[train], key[train]).decision_function(x[test])
            found[kind] = centred(padded(logits[:, None], there)[:, :, 0], there)
    return found


def _columns(kind: Kind, items: Sequence[Item], there: Bools, vectors: Floats | None) -> Any:
    match kind:
        case "form":
            return compared(padded(amounts(items), there), there)[there]
        case "words":
            return _words(items)
        case "characters":
            return _characters(items)
        case "meaning":
            assert vectors is not None
            return places(vectors, there)[there]


@kept_for_last
def _words(items: Sequence[Item]) -> Any:
    return tf_idf("words", [choice for item in items for choice in item.choices])


@kept_for_last
def _characters(items: Sequence[Item]) -> Any:
    return tf_idf("characters", [choice for item in items for choice in item.choices])


def tf_idf(kind: Literal["words", "characters"], texts: Sequence[str]) -> Any:
    """Return the TF-IDF weights of words and pairs of words, or of sequences of 2 to 4 characters (n, terms)."""
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import TfidfVectorizer  # type: ignore[import-untyped]

    units = (
        {"ngram_range": (1, 2), "token_pattern": _TOKEN}
        if kind == "words"
        else {"ngram_range": (2, 4), "analyzer": "char_wb"}
    )
    try:
        return TfidfVectorizer(min_df=2, sublinear_tf=True, **units).fit_transform(texts)
    except ValueError:  # no two texts share a term
        return csr_array((len(texts), 1))


def compared(raw: Floats, there: Bools) -> Floats:
    """Append each feature's deviation from the item mean and its rank in the item. Shape (n, K, f) becomes (n, K, 3 f)."""
    shown = np.where(there[:, :, None], raw, np.nan)
    ranks: Floats = np.zeros(raw.shape)
    for option in range(there.shape[1]):
        other = shown[:, [option]]
        ranks += (shown > other) * 1.0 - (shown < other)
    k = there.sum(axis=1)[:, None, None]
    mean = np.where(there[:, :, None], raw, 0.0).sum(axis=1, keepdims=True) / k
    return np.concatenate([raw, raw - mean, ranks / np.maximum(k - 1, 1)], axis=2)


def classifier(kind: Kind, seed: int) -> Any:
    """Return an unfitted classifier for a kind of probe."""
    if kind == "form":
        return boosting(60, 8, seed)
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    return LogisticRegression(C=0.1 if kind == "meaning" else 2.0, max_iter=300)


def gains(credits: Mapping[str, Floats], k: Ints, groups: Ints | None = None) -> dict[str, Gain]:
    """Return how much more accurate each auditor is than chance, 1 / `k`. `credits` (n,) are NaN if unanswered.

    Items of one of `groups` (n,) count together. p-values are one-sided and corrected by Holm over the auditors. `power` is
    that to see 3 points at their joint level.
    """
    found, z = dict[str, Gain](), NORMAL.inv_cdf(0.975)
    answered = {name: ~np.isnan(won) for name, won in credits.items()}
    level = NORMAL.inv_cdf(1 - LEVEL / max(1, sum(map(np.any, answered.values()))))
    for name, won in credits.items():
        if (of := answered[name]).any():
            beyond, chance = (won - 1 / k)[of], 1 / k[of]
            n, together, value = len(beyond), None if groups is None else groups[of], float(beyond.mean())
            error = float(np.linalg.norm(group_sums(beyond - value, together))) / n
            if error < ROUNDING:
                # Credits that are all alike, such as all right, show no spread, so they get that of picks by chance.
                error = float(np.linalg.norm(group_sums(np.sqrt(chance * (1 - chance)), together))) / n
            p = NORMAL.cdf(-value / error)
            found[name] = Gain(
                value=value, n=n, ci=(value - z * error, value + z * error), chance=float(chance.mean()), p=p, p_holm=p,
                power=NORMAL.cdf(TO_SEE / error - level),
            )  # fmt: skip
    corrected = holm([one.p for one in found.values()])
    return {
        name: one.model_copy(update={"p_holm": p})
        for (name, one), p in zip(found.items(), corrected, strict=True)
    }
