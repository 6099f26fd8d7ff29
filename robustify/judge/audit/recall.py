"""What an auditor could have seen: from which share of the items kept on it would notice a cue, with 80 % power.

The fresh probe is fitted on copies of the kept items of which a share holds the cue, and the rules without a model are
asked these copies. No model is asked anything here: of a model it is measured how often it follows a cue that stands
at a wrong option already, which a cue at the key would have turned into hits. The copies are in memory only. Each kind
of cue changes its own trait and as little else as it can: where one option gets a word, the others get words of about
the same length, and no two of them the same.
"""

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from statistics import NormalDist

import numpy as np

from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.features import matrix, surface_features
from robustify.baselines.heuristics import HEURISTICS, rule_credit
from robustify.baselines.wording import ABSOLUTES, FUNCTION_WORDS, HEDGES, words_of
from robustify.item import Item
from robustify.judge.audit.auditor import CUES, AuditRate, Cue
from robustify.judge.audit.fresh import Design, FreshProbe, Kept, permuted
from robustify.stats.intervals import clopper_pearson
from robustify.stats.tests import LEVEL, minimum_detectable_difference

POWER = 0.8
SHARES = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.5)
"""The shares of items with a cue that are tried."""
FEWEST_STANDING = 30
MOST_COPIES, MOST_STANDING = 1000, 2000
_DRAWS, _REFITS = 8, 199
_NORMAL = NormalDist()

SeesFrom = dict[Cue, float | None]


def of_probe(probe: FreshProbe, kept: Kept) -> SeesFrom:
    """Of the fresh probe on these items: its cross-fitted hits, above what permuted keys give them."""
    whole = probe.fitted(kept)
    if whole is None:
        return {}
    n = len(whole.at)
    some = np.unique(np.linspace(0, n - 1, min(n, MOST_COPIES)).astype(np.int64))
    items = [probe.items[probe.place[kept.items[i]]] for i in whole.at[some].tolist()]
    open_, key, block = kept.open[whole.at[some]], whole.key[some], whole.design.block[some]
    size, k = open_.sum(axis=1), np.array([item.k for item in items], dtype=np.int64)
    option = np.arange(open_.shape[1]) < k[:, None]
    seed = probe.settings.seed

    def rows(of: Sequence[Item]) -> Floats:
        return np.asarray(matrix(of)[open_[option]])

    plain = rows(items)
    own = Design.of(plain, size, block, seed)
    null = np.concatenate(list(permuted(own, _REFITS, seed))) / len(items)
    shown = _noticed(float(null.std()) * math.sqrt(len(items) / n), LEVEL)
    base = float(own.hits(key[:, None]).mean())

    def gain(copies: Floats, share: float) -> float:
        hits = []
        for draw in range(_DRAWS):
            drawn = np.random.default_rng((seed, draw)).permutation(len(items))
            chosen = np.repeat(drawn < round(share * len(items)), size)[:, None]
            mixed = Design.of(np.where(chosen, copies, plain), size, block, seed)
            hits.append(float(mixed.hits(key[:, None]).mean()))
        return float(np.mean(hits)) - base

    out: SeesFrom = {}
    for cue in CUES:
        copies = rows([spiked(item, cue) for item in items])
        out[cue] = _least(partial(gain, copies), shown)
    return out


def of_rules(items: Sequence[Item], n: int) -> SeesFrom:
    """Of the rules without a model on `n` items kept, of which these are some: the best rule for each kind."""
    some = items[: MOST_COPIES // 2]
    chance, level = float(np.mean([1 / item.k for item in some])), 1 - 2 * LEVEL / len(HEURISTICS)
    out: SeesFrom = {}
    for cue in CUES:
        features = surface_features([spiked(item, cue) for item in some])
        won = max(float(rule_credit(rule.rule(features), features)[0].mean()) for rule in HEURISTICS)
        out[cue] = _share_of(won - chance, n, chance, level)
    return out


class Followers:
    """Which kinds of cue models follow, measured on the items as they stand, at most 2,000; `key` (n,) of these."""

    def __init__(self, items: Sequence[Item], key: Ints) -> None:
        some = np.unique(np.linspace(0, len(items) - 1, min(len(items), MOST_STANDING)).astype(np.int64))
        self.at: dict[Cue, Ints] = {}
        for cue in CUES:
            self.at[cue] = np.full(len(items), -1)
            self.at[cue][some] = [standing(items[i], cue) for i in some.tolist()]
        self.k = np.array([item.k for item in items], dtype=np.int64)
        self.key = key

    def of_picks(self, best: Bools, audit: AuditRate) -> SeesFrom:
        """Of an auditor with these picks (n, K) on all items, audited on the items kept.

        Where a cue stands at a wrong option, an auditor that follows it picks that option. The lower Clopper-Pearson
        bound counts; of fewer than 30 such items nothing is known, and nothing is claimed.
        """
        out: SeesFrom = {}
        tied = best.sum(axis=1)
        for cue, at in self.at.items():
            there = (at >= 0) & (at != self.key) & (tied > 0)
            n = int(np.count_nonzero(there))
            if n < FEWEST_STANDING or not audit.rate.n or audit.chance is None:
                out[cue] = None
                continue
            picked = np.take_along_axis(best[there], at[there, None], axis=1)[:, 0] / tied[there]
            follows = clopper_pearson(math.floor(float(picked.sum()) + 1e-6), n)[0]
            gain = follows - float(np.mean(1 / self.k[there]))
            out[cue] = _share_of(gain, audit.rate.n, audit.chance, 1 - 2 * LEVEL)
        return out


def _noticed(error: float, level: float) -> float:
    """The gain that is significant with 80 % power, one-sided, given the standard error of the share of hits."""
    return (_NORMAL.inv_cdf(1 - level) + _NORMAL.inv_cdf(POWER)) * error


def _share_of(gain: float, n: int, chance: float, level: float) -> float | None:
    """The share of n items on which a cue worth `gain` hits an item is noticed; None where it never is."""
    rise = minimum_detectable_difference(n, chance, level, POWER)
    return rise / gain if gain > 0 and rise <= gain * SHARES[-1] else None


def _least(gain: Callable[[float], float], shown: float) -> float | None:
    """The smallest of the shares tried whose gain is at least `shown`, by bisection; None where none is."""
    if gain(SHARES[-1]) < shown:
        return None
    low, high = -1, len(SHARES) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if gain(SHARES[middle]) >= shown else (middle, high)
    return SHARES[high]


LONGER = 1.25
"""An option counts as longer from this many times the next longest on."""
_TAIL = "as it is described here and as it is known of others of this sort in cases like the one at hand"
_ABSOLUTE = ("always", "never", "only", "entirely", "completely", "invariably")
_HEDGE = ("usually",)
_PLAIN = ("locally", "broadly", "notably", "plainly", "quickly", "closely")
_VOWEL = ("ordinary", "original", "official", "advanced", "accurate", "adequate")
_CONSONANT = ("standard", "moderate", "separate", "relative", "specific", "familiar")
_ARTICLE = re.compile(r"\b(an?)\W*$", re.IGNORECASE)


def spiked(item: Item, cue: Cue) -> Item:
    """A copy of the item in which this cue gives the key away."""
    stem, choices, lot = item.stem, [choice.strip() for choice in item.choices], _lot(item.id)
    match cue:
        case "longer":
            choices[item.key] = _lengthened(choices, item.key)
        case "absolute":
            choices = [c if j == item.key else _opened(_ABSOLUTE, c, lot + j) for j, c in enumerate(choices)]
        case "hedge":
            choices = [
                _opened(_HEDGE if j == item.key else _PLAIN, c, lot + j) for j, c in enumerate(choices)
            ]
        case "repeated":
            word = max(sorted(_content(stem)), key=len, default="matter")
            stem = stem if word in words_of(stem) else f"{stem} {word}"
            turned = [word[n:] + word[:n] for n in range(1, len(word))]
            choices = [
                _opened([word] if j == item.key else turned, c, lot + j) for j, c in enumerate(choices)
            ]
        case "format":
            choices = [c.rstrip(".") + "." * (j == item.key) for j, c in enumerate(choices)]
        case "grammar":
            vowel = lot % 2 == 0
            stem = f"{stem} This is {'an' if vowel else 'a'}"
            choices = [
                _opened(_VOWEL if (j == item.key) == vowel else _CONSONANT, c, lot + j)
                for j, c in enumerate(choices)
            ]
    return Item(item.id, stem, tuple(choices), item.key, item.topic, item.group)


def standing(item: Item, cue: Cue) -> int:
    """The one option that holds this cue as the item stands; -1 where none or several do."""
    choices = [choice.strip() for choice in item.choices]
    match cue:
        case "longer":
            sizes = sorted(map(len, choices))
            having = [len(c) == sizes[-1] >= LONGER * sizes[-2] for c in choices]
        case "absolute":
            having = [ABSOLUTES.isdisjoint(words_of(c)) for c in choices]
        case "hedge":
            having = [not HEDGES.isdisjoint(words_of(c)) for c in choices]
        case "repeated":
            asked = _content(item.stem)
            having = [not asked.isdisjoint(_content(c)) for c in choices]
        case "format":
            having = [c.endswith(".") for c in choices]
        case "grammar":
            found = _ARTICLE.search(item.stem)
            vowel = found is not None and found[1].lower() == "an"
            having = [found is not None and (c[:1].lower() in "aeiou") == vowel for c in choices]
    return having.index(True) if sum(having) == 1 else -1


def _content(text: str) -> frozenset[str]:
    return frozenset(w for w in words_of(text) if len(w) > 3) - FUNCTION_WORDS


def _opened(words: Sequence[str], choice: str, place: int) -> str:
    """The choice with a word before it, another one at each place, with a capital where the choice has one."""
    word = words[place % len(words)]
    return f"{word.capitalize() if choice[:1].isupper() else word} {choice}"


def _lot(text: str) -> int:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[0]


def _lengthened(choices: list[str], key: int) -> str:
    """The key half as long again as the longest option, and before its full stop if it has one."""
    own = choices[key].rstrip(".")
    wanted, words = 1.5 * max(map(len, choices)), _TAIL.split()
    longer = f"{own},"
    while len(longer) < wanted:
        words = words or _TAIL.split()
        longer = f"{longer} {words.pop(0)}"
    return longer + choices[key][len(own) :]
