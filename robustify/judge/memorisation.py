"""Signs that a model may have seen the benchmark: its text in given files, and keys known without the options.

Signs only: what was not looked at cannot be seen, so no benchmark is acquitted here. A model that finds the
place of a key without being shown the options is held against what its own liking for places brings on these
keys, so that one that always says C is not suspected where keys favour C.
"""

import math

import numpy as np

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Floats, Ints
from robustify.errors import DataError
from robustify.ngrams.overlap import PARTS, Overlap
from robustify.scoring import best
from robustify.screen.item_index import ItemIndex
from robustify.screen.votes import first_template
from robustify.stats.intervals import Rate, percent, rate, wilson
from robustify.stats.tests import holm, minimum_detectable_difference

Tree = dict[str, object]

MEMORISED = ("no_choices", "gold_repeated", "empty_choices")
"""Views without a choice to choose from (controls of Balepur et al. 2024, arXiv 2402.12483)."""
LEVEL = 0.05
DRAWS = 20_000


def contamination(
    answers: Answers,
    held: ItemIndex,
    found: Overlap | None,
    robust: Bools,
    shortcut: Bools,
    *,
    named: bool = True,
) -> Tree | None:
    """The signs, as in summary.json; None where nothing was looked for.

    `robust`, `shortcut` (n,) masks of the items held; `named`: whether the ids of found items may be told.

    Raises:
        DataError: the overlap is that of other items.
    """
    recalled = memorisation(answers, held)
    if found is None and recalled is None:
        return None
    return {
        "overlap": None if found is None else overlapped(found, held, robust, shortcut, named=named),
        "memorisation": recalled,
        "sentence": f"{_text_said(found)} {_memory_said(recalled)}",
    }


def overlapped(
    found: Overlap, held: ItemIndex, robust: Bools, shortcut: Bools, *, named: bool = True
) -> Tree:
    """How many items stand in the files: of those checked by n-grams, and of the short ones checked whole.

    `parts` counts each part alone, `coverage` is the share of a stem's n-grams, averaged. `in_robust` and
    `in_shortcut` join both modes. Items too short to check are in no rate.
    """
    silent, short = (_among(held, names) for names in (found.not_checkable, found.short))
    if found.items != len(held) or silent.sum() + short.sum() != len(found.not_checkable) + len(found.short):
        raise DataError(
            f"run.json: the overlap is that of {found.items} items, but {len(held)} others are judged; "
            "expected the same items: run it again"
        )
    ids = found.found
    there = _among(held, ids).astype(np.float64)
    covered = {h.item: h.coverage for h in found.hits}
    coverage = np.array([covered.get(name) or 0.0 for name in held.items], dtype=np.float64)
    grams = ~silent & ~short
    return {
        "files": [
            {"name": f.name, "sha256": f.sha256, "bytes": f.bytes, "words": f.words} for f in found.files
        ],
        "ngram": found.ngram,
        "n": int(grams.sum()),
        "found": rate(there[grams]).json(),
        "short_mode": {"n": int(short.sum()), "found": rate(there[short]).json()},
        "not_checkable": int(silent.sum()),
        "coverage": rate(coverage[grams]).json(),
        "parts": {p: _share(sum(p in h.parts for h in found.hits), found.checked[p]).json() for p in PARTS},
        "in_robust": rate(there[robust & ~silent]).json(),
        "in_shortcut": rate(there[shortcut & ~silent]).json(),
        "items": [name for name in held.items if name in ids] if named else None,
    }


def memorisation(answers: Answers, held: ItemIndex) -> dict[str, Tree] | None:
    """How often each model finds the place of the key with no choice to choose from; None if none was asked.

    `{MODEL: {VIEW: {value, n, ci, unanswered, chance, p, p_holm, mde} or None, told}}`. `chance` and one-sided p
    are by permutation of the keys' places among items of as many options (`by_luck`), Holm over models and
    views; `mde` is the rise above chance that n items tell with a power of 80 %. `told`: some p_holm <= 5 %.
    Where options stand in a natural order, a model that knows the answer may tell its place without memory.
    """
    asked = list(dict.fromkeys((m, v) for v, m, _ in answers.askings() if v in MEMORISED))
    if not asked:
        return None
    entries = {(m, v): _recalled(answers, held, m, v) for m, v in asked}
    known = {name: e["p"] for name, e in entries.items() if isinstance(e["p"], float)}
    corrected = dict(zip(known, holm(list(known.values())), strict=True))
    out: dict[str, Tree] = {}
    for model in dict.fromkeys(m for m, _ in asked):
        views = {
            v: {**entries[model, v], "p_holm": corrected.get((model, v))} if (model, v) in entries else None
            for v in MEMORISED
        }
        told = any(corrected.get((model, v), 1.0) <= LEVEL for v in MEMORISED)
        out[model] = {**views, "told": told}
    return out


def by_luck(
    tied: Bools, place: Ints, k: Ints, draws: int = DRAWS, seed: int = 0
) -> tuple[float, float] | tuple[None, None]:
    """The accuracy that liking places brings, and P(credit >= the observed one), one-sided.

    `tied` (n, K): the places that share an item's best score; `place`, `k` (n,): where its key stands, of how
    many. Keys change places among items of as many options and picks stay, so that how often each place was
    picked and how often it holds a key are both as they were. p is (1 + as good) / (1 + draws), which never
    rejects too often (Phipson and Smyth 2010). None, None without items.
    """
    if not len(k):
        return None, None
    rng = np.random.default_rng(seed)
    expected, total = 0.0, np.zeros(draws)
    for options in np.unique(k).tolist():
        here = k == options
        # A set of places as one number: a million rows of booleans are slow to sort.
        bits = 1 << np.arange(options)
        sets, picked = np.unique(tied[here, :options] @ bits, return_counts=True)
        kinds = (sets[:, None] & bits) > 0
        share = kinds / kinds.sum(axis=1, keepdims=True)
        keys = np.bincount(place[here], minlength=options)
        expected += float(picked @ share @ keys) / int(picked.sum())
        total += _permuted(picked, keys, share, draws, rng)
    won = float((tied / tied.sum(axis=1, keepdims=True))[np.arange(len(k)), place].sum())
    return expected / len(k), float((1 + np.count_nonzero(total >= won - 1e-9)) / (1 + draws))


def _permuted(picked: Ints, keys: Ints, share: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """The credit of each draw: a random table with these rows and columns, cell by cell hypergeometric."""
    left = np.tile(keys, (draws, 1))
    total = np.zeros(draws)
    for row, n in enumerate(picked.tolist()):
        due = np.full(draws, n)
        for column in range(len(keys)):
            drawn = rng.hypergeometric(left[:, column], left[:, column + 1 :].sum(axis=1), due)
            left[:, column] -= drawn
            due -= drawn
            total += share[row, column] * drawn
    return total


def _recalled(answers: Answers, held: ItemIndex, model: str, view: str) -> Tree:
    block = answers.block(view, model, first_template(answers, view, (model,))).first()
    block = block.where(held.place[block.item] >= 0)
    tied, place = _as_shown(block)
    there = tied.any(axis=1)
    tied, place, k = tied[there], place[there], block.k[there]
    credit = (tied / tied.sum(axis=1, keepdims=True))[np.arange(len(k)), place]
    chance, p = by_luck(tied, place, k)
    mde = math.nan if chance is None else minimum_detectable_difference(len(k), chance)
    return {
        **rate(credit).json(),
        "unanswered": int(np.count_nonzero(~there)),
        "chance": chance,
        "p": p,
        "mde": None if math.isnan(mde) else mde,
    }


def _as_shown(block: Block) -> tuple[Bools, Ints]:
    """The places that share the best score, (r, K), none where unanswered; and where the key stands, (r,)."""
    order = block.order
    known = order >= 0
    scores = np.where(known, np.take_along_axis(block.scores, np.where(known, order, 0), axis=1), np.nan)
    tied = best(scores, block.k)
    # A row with a pick but no scores behind it says which place it liked, unless the pick was tied.
    bare = (tied.sum(axis=1) != block.tie) & (block.tie == 1) & (block.pick >= 0)
    tied = np.where(bare[:, None], order == block.pick[:, None], tied & (block.pick >= 0)[:, None])
    return tied, np.asarray((order == block.key[:, None]).argmax(axis=1), dtype=np.int64)


def _among(held: ItemIndex, names: tuple[str, ...] | frozenset[str]) -> Bools:
    wanted = frozenset(names)
    return np.array([name in wanted for name in held.items], dtype=bool)


def _share(x: int, n: int) -> Rate:
    return Rate(x / n, n, wilson(x, n)) if n else Rate(None, 0, None)


def _text_said(found: Overlap | None) -> str:
    if found is None:
        return "No text was given to look for the items in."
    short, silent, hits = set(found.short), len(found.not_checkable), found.found
    grams, whole = found.items - len(short) - silent, len(short & hits)
    words = sum(f.words for f in found.files)
    looked = f"{len(found.files)} text file{'s' if len(found.files) != 1 else ''} of {words} words"
    opening = "Signals found" if hits else "No signal was found"
    return (
        f"{opening} in {looked}: {len(hits) - whole} of {grams} items share {found.ngram} words in a row, "
        f"{whole} of {len(short)} short ones stand there whole; {silent} were too short to check. Other texts, "
        "paraphrases, translations and pictures of the items cannot be seen this way."
    )


def _memory_said(recalled: dict[str, Tree] | None) -> str:
    if recalled is None:
        return "No model was asked for the place of a key without its options."
    told = [f"{name} ({_views_said(views)})" for name, views in recalled.items() if views["told"]]
    if not told:
        return (
            f"None of {len(recalled)} models found the place of the key without the options more often than "
            "luck; knowledge of the key's text cannot be seen this way."
        )
    return (
        f"Found the place of the key without the options more often than luck: {'; '.join(told)}. Options that "
        "stand in a natural order (by size, by date) can do that too."
    )


def _views_said(views: Tree) -> str:
    said = []
    for view in MEMORISED:
        match views[view]:
            case {"value": float(value), "n": int(n), "chance": float(chance), "p_holm": float(p)} if (
                p <= LEVEL
            ):
                said.append(f"{view} {percent(value)} of {n} items, luck {percent(chance)}")
    return ", ".join(said)
