"""Harmless made-up choices, so that heuristics and the probe have text to read.

Without a planted cue, all options of an item are drawn alike, so no rule can find the key. No word has a meaning, and
nothing is taken from a benchmark.
"""

import re
from collections.abc import Sequence

import numpy as np

from robustify.base.arrays import Bools, Ints

# All words and numbers have five characters, so equally many words are equally many characters.
_NEUTRAL = """
amber apple april aspen attic bacon badge bagel basil basin beach berry birch bison blade blaze block bloom
board brick brook broom brush cabin camel canal candy canoe cedar chair chalk charm chess chime cider clasp
cliff clock cloth cloud clove coast cocoa coral couch crane creek crown curry daisy dance delta diner dough
dress drift drums eagle easel elbow ember fable fence ferry fiber field finch flame flask fleet flint flora
flour flute forge frame frost fruit globe glove grain grape grass gravy green guest guide habit hazel hedge
heron hobby honey horse hotel house igloo inlet islet ivory jelly jewel joint juice kayak kiosk knoll label
lapis larch latch lemon level light lilac linen llama lodge lotus lunar lunch mango manor maple march marsh
medal melon metal mixer model moose motor mount mouse music north novel nylon oasis ocean olive onion opera
orbit otter paint panda paper pasta patch peach pearl pecan petal piano pilot plain plank plant plate plaza
plume point polka pouch prism prize pulse quail quart quest quill quilt radio ranch raven reeds ridge river
roast robin rover royal salad sauce scarf scone shale shawl sheep shelf shell shire shore silky skate slate
sleet slope smock snack solar spark spice spoon spray squid stair stamp steam steel stone stork storm stove
straw sugar sunny swing syrup table tango thyme tiger toast topaz torch tower trail train trout trunk tulip
tunic umbra villa viola wagon waltz water whale wheat wheel woods yacht zebra
"""
NEUTRAL: tuple[str, ...] = tuple(_NEUTRAL.split())
HEDGING = ("might", "could", "often", "tends")
SWEEPING = ("never", "every")

FEWEST_WORDS, MOST_WORDS = 3, 7
EXTRA_WORDS = 2
"""Words that a length cue adds to the longest other choice, more than commas could outweigh."""
COMMAS = 0.06
_WORD = re.compile("[a-z]+")
_HEDGE, _SWEEP, _NUMBER = -1, -2, -3
_ODD_WORDS = {_HEDGE: 0.05, _SWEEP: 0.05, _NUMBER: 0.05}


def choices(key: Ints, k: Ints, kind: Sequence[str], rng: np.random.Generator) -> list[tuple[str, ...]]:
    """Return the choices of each item; `key`, `k` (n,), `kind` one name per item.

    `length`: the key has the most words, by two. `hedge`: only the key hedges, at least twice. Otherwise nothing tells
    options apart.
    """
    n, width = len(key), int(k.max(initial=2))
    words = rng.integers(FEWEST_WORDS, MOST_WORDS + 1, size=(n, width))
    options = np.arange(width)
    others = np.where((options < k[:, None]) & (options != key[:, None]), words, 0).max(axis=1)
    drawn = _drawn((n, width, MOST_WORDS + EXTRA_WORDS), rng)
    cued = np.flatnonzero([name == "length" for name in kind])
    _lengthen(drawn, key, words, cued, rng)
    words[cued, key[cued]] = others[cued] + EXTRA_WORDS
    _hedge(drawn, key, np.array([name == "hedge" for name in kind], dtype=bool), rng)
    commas = rng.random(drawn.shape) < COMMAS
    text = _spelled(drawn, rng)
    return [
        tuple(_joined(text[i][j][:w], commas[i, j]) for j, w in enumerate(words[i, : k[i]].tolist()))
        for i in range(n)
    ]


def repeated(text: Sequence[str], share: float, rng: np.random.Generator) -> tuple[str, ...]:
    """Return copies of the choices with a share of their distinct words replaced."""
    words = {word for choice in text for word in choice.replace(",", "").split()}
    own, new = (sorted(part) for part in (words & set(NEUTRAL), set(NEUTRAL) - words))
    old = rng.choice(own, size=min(len(own), round(share * len(words))), replace=False).tolist()
    becomes = dict(zip(old, rng.choice(new, size=len(old), replace=False).tolist(), strict=True))
    return tuple(_WORD.sub(lambda found: becomes.get(found[0], found[0]), choice) for choice in text)


def _drawn(shape: tuple[int, int, int], rng: np.random.Generator) -> Ints:
    """Draw numbers of neutral words, and negative ones for odd words; the first words of an item differ."""
    code = rng.integers(0, len(NEUTRAL), size=shape)
    odd, edges = rng.random(shape), np.cumsum([0.0, *_ODD_WORDS.values()])
    for what, low, high in zip(_ODD_WORDS, edges[:-1], edges[1:], strict=True):
        code[(odd >= low) & (odd < high)] = what
    code[:, :, 0] = np.argpartition(rng.random((shape[0], len(NEUTRAL))), shape[1], axis=1)[:, : shape[1]]
    return code


def _lengthen(code: Ints, key: Ints, words: Ints, cued: Ints, rng: np.random.Generator) -> None:
    # Added words are neutral, so a longer key does not also have more hedges or numbers.
    own = code[cued, key[cued]]
    added = np.arange(own.shape[1]) >= words[cued, key[cued]][:, None]
    code[cued, key[cued]] = np.where(added, rng.integers(0, len(NEUTRAL), size=own.shape), own)


def _hedge(code: Ints, key: Ints, cued: Bools, rng: np.random.Generator) -> None:
    here = code[cued]
    plain = rng.integers(0, len(NEUTRAL), size=here.shape)
    row = np.arange(len(here))
    own = here[row, key[cued]]
    here = np.where(here == _HEDGE, plain, here)
    own[:, 1:3] = _HEDGE
    here[row, key[cued]] = own
    code[cued] = here


def _spelled(code: Ints, rng: np.random.Generator) -> list[list[list[str]]]:
    lexicon = np.array(NEUTRAL)
    text = lexicon[np.maximum(code, 0)]
    for what, options in ((_HEDGE, HEDGING), (_SWEEP, SWEEPING)):
        there = code == what
        text[there] = np.array(options)[rng.integers(0, len(options), size=int(there.sum()))]
    there = code == _NUMBER
    text[there] = rng.integers(10_000, 100_000, size=int(there.sum())).astype(str)
    out: list[list[list[str]]] = text.tolist()
    return out


def _joined(words: list[str], commas: Bools) -> str:
    last = len(words) - 1
    return " ".join(
        word + "," if comma and i < last else word
        for i, (word, comma) in enumerate(zip(words, commas.tolist(), strict=False))
    )
