"""Simulated items whose keys tend to look like keys, and a reader that learns these looks from other items' options.

An option has real-valued features. Those of keys are shifted: the first by a lot in *cued* items, as if only their key were
explained at length, the second a little in all items. The others are noise. The reader is an audit's conditional logit,
cross-fitted over groups, so that it errs as real readers do and never sees its item.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from robustify.base.arrays import Bools, Floats, Ints
from robustify.judging.baselines.conditional_logit import centred, fit_conditional_logit

FOLDS, RIDGE = 5, 10.0
SHIFT, SLIGHT = 1.5, 0.25
"""Shift of a cued key's first feature, and of every key's second one, in standard deviations."""
WEIGHTS = (0.6, 0.35)
"""Weights of these two features in the true looks."""


@dataclass(frozen=True, slots=True)
class Form:
    """Parameters of a set of items; shares are per item.

    `options`: numbers of options, equally likely. `cued`: share of cued items. `noise`: features without meaning.
    `passage`: items that share a passage, hence some difficulty and whether they are cued. `copies`: rows of one question
    with the same options, `rotated` or not. `grouped`: copies are declared. `first`: share of keys moved to the first
    place. `wrong_keys`: share of items whose key is a wrong option. `alike`: share of items whose options hardly differ.
    `flipped`: share of items, one topic, whose first cue points away from the key. `in_sample`: the reader saw its items.
    """

    n: int = 600
    options: tuple[int, ...] = (4,)
    cued: float = 0.3
    noise: int = 4
    passage: int = 1
    copies: int = 1
    rotated: bool = False
    grouped: bool = True
    first: float = 0.0
    wrong_keys: float = 0.0
    alike: float = 0.0
    flipped: float = 0.0
    in_sample: bool = False


@dataclass(frozen=True, slots=True)
class CuedItems:
    """Simulated items of n rows and up to K options.

    `there` (n, K) marks options; `right` (n,) is the correct option and `key` (n,) the recorded one; `cued` and `flipped`
    (n,); `true_looks` and `reader` (n, K): the true and the reader's logit that an option is the key, standardized;
    `source` (n,): the question of a row; `passages` and `groups` (n,): items that share a passage, and declared groups.
    """

    there: Bools
    right: Ints
    key: Ints
    cued: Bools
    flipped: Bools
    features: Floats
    true_looks: Floats
    reader: Floats
    source: Ints
    passages: Ints
    groups: Ints

    def __len__(self) -> int:
        return len(self.key)


def standardized(logits: Floats, there: Bools) -> Floats:
    """Center logits (n, K) in each item, scale them to one standard deviation over all options, and clip them at 3."""
    x = centred(logits, there)
    return np.asarray(np.where(there, np.clip(x / (x[there].std() or 1.0), -3, 3), 0.0))


def drawn_items(form: Form, draw: Generator) -> CuedItems:
    """Draw the items of a set and read them."""
    n = form.n // form.copies
    passages = np.arange(n) // form.passage
    k = draw.choice(form.options, n)
    width = int(k.max())
    there = np.arange(width) < k[:, None]
    right = (draw.random(n) * k).astype(np.int64)
    right = np.where(draw.random(n) < form.first, 0, right)
    cued = (draw.random(n) < form.cued)[passages * form.passage]
    flipped = np.arange(n) < form.flipped * n
    x = draw.normal(size=(n, width, 2 + form.noise))
    rows = np.arange(n)
    x[rows, right, 0] += SHIFT * cued * np.where(flipped, -1, 1)
    x[rows, right, 1] += SLIGHT
    x = np.where((rows < form.alike * n)[:, None, None], 0.15 * x, x)
    key = np.where(
        draw.random(n) < form.wrong_keys, (right + 1 + (draw.random(n) * (k - 1)).astype(np.int64)) % k, right
    )
    source = np.repeat(rows, form.copies)
    turn = np.tile(np.arange(form.copies), n) if form.rotated else np.zeros(len(source), np.int64)
    place = (np.arange(width) + turn[:, None]) % np.maximum(k[source], 1)[:, None]
    place = np.where(there[source], place, np.arange(width))
    x = np.take_along_axis(x[source], place[:, :, None], 1)
    key, right = ((at[source] - turn) % k[source] for at in (key, right))
    there, passages = there[source], passages[source]
    groups = passages if form.passage > 1 else source if form.grouped else np.arange(len(source))
    looks = standardized(x[:, :, :2] @ np.array(WEIGHTS), there)
    reader = standardized(read(x, key, there, groups, in_sample=form.in_sample), there)
    return CuedItems(
        there, right, key, cued[source], flipped[source], x, looks, reader, source, passages, groups
    )


def read(x: Floats, key: Ints, there: Bools, groups: Ints, *, in_sample: bool = False) -> Floats:
    """Return a reader's logits (n, K) from features (n, K, f), fitted to the keys of other folds, or of all items."""
    if in_sample:
        return np.asarray(x @ fit_conditional_logit(x, key, there, RIDGE / 100))
    logits, fold = np.zeros(there.shape), np.unique(groups, return_inverse=True)[1] % FOLDS
    for f in range(FOLDS):
        train, test = fold != f, fold == f
        logits[test] = x[test] @ fit_conditional_logit(x[train], key[train], there[train], RIDGE, 12)
    return logits
