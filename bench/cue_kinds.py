"""Kinds of cue that no feature of the probe is made for, to measure power on what nobody listed.

Written down on 22 November 2026 before any scorer had been run on one of them. `UNLISTED` are for measuring alone;
`TUNING` are others, on which choices of the scorer were made. Every kind adds to each option of an item as many words
of about the same length, so that neither length nor punctuation nor the counted families of words tell them apart.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from bench.simulate.wording import NEUTRAL
from robustify.item import Item

Plant = Callable[[Item, np.random.Generator], tuple[str, ...]]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _drawn(words: Sequence[str], rng: np.random.Generator, n: int) -> list[str]:
    return [str(w) for w in rng.choice(np.asarray(words), size=n, replace=n > len(words))]


def _beside(key: Sequence[str], others: Sequence[str], n: int = 1) -> Plant:
    """Every option ends with n words more, the key's from one list and the others' from another."""

    def plant(item: Item, rng: np.random.Generator) -> tuple[str, ...]:
        return tuple(
            f"{choice} {' '.join(_drawn(key if j == item.key else others, rng, n))}"
            for j, choice in enumerate(item.choices)
        )

    return plant


_DOUBLED = tuple(w for w in NEUTRAL if any(a == b for a, b in pairwise(w)))
_SINGLE = tuple(w for w in NEUTRAL if w not in _DOUBLED)

# Words of five to seven letters, most of them in pairs of one length.
_RISING = _words(
    "baking boating camping cooking cycling dancing diving drawing fishing gliding hiking knitting mowing painting "
    "packing planting playing reading resting riding rowing sailing sewing singing skating sowing walking weaving"
)
_OTHER_FORMS = _words(
    "bakery boater campsite cookery cyclist dancer divers drawer fishery glider hikers knitted mower painter packer "
    "planter player reader rested rider rower sailor sewers singer skater sower walker weaver"
)
_SEA = _words(
    "anchor beach bay coral coast deck dock ferry foam gull harbour island lagoon mast oar ocean pier port reef sail "
    "sand shell shore tide wave whale"
)
_LAND = _words(
    "acorn barn barley bench bridge cabin canyon desk door field fence garden gate hedge hill lamp ladder lane meadow "
    "orchard path roof shed stable tree wall window"
)
_BRITISH = _words(
    "centre metre litre theatre fibre organise realise recognise apologise analyse defence offence licence catalogue "
    "grey kerb tyre cheque plough storey draught moulded"
)
_AMERICAN = _words(
    "center meter liter theater fiber organize realize recognize apologize analyze defense offense license catalogs "
    "gray curb tire checks plows story drafty molded"
)
_FILLERS = _words("namely indeed notably namely indeed chiefly overall")
_OTHER_FILLERS = _words("clearly simply plainly anyway besides instead further")
_PHRASES = (
    "in the evening", "by the river", "at the market", "on the hill", "near the mill", "for the feast",
)  # fmt: skip


def _mark(item: Item, rng: np.random.Generator) -> tuple[str, ...]:
    """Every option ends with a mark that no feature counts; the key's is a tilde."""
    other = _drawn(("^", "*", "=", "|", "+", "#"), rng, item.k)
    return tuple(f"{c} {'~' if j == item.key else other[j]}" for j, c in enumerate(item.choices))


def _phrase_first(item: Item, rng: np.random.Generator) -> tuple[str, ...]:
    """A phrase stands before the key and behind the other options: word order."""
    said = _drawn(_PHRASES, rng, item.k)
    return tuple(f"{said[j]} {c}" if j == item.key else f"{c} {said[j]}" for j, c in enumerate(item.choices))


def _same_letter(item: Item, rng: np.random.Generator) -> tuple[str, ...]:
    """Two words are added; the key's begin with one letter."""
    out = []
    for j, choice in enumerate(item.choices):
        first = _drawn(NEUTRAL, rng, 1)[0]
        second = [w for w in NEUTRAL if (w[0] == first[0]) == (j == item.key) and w != first]
        out.append(f"{choice} {first} {_drawn(second or NEUTRAL, rng, 1)[0]}")
    return tuple(out)


def _vowel_last(item: Item, rng: np.random.Generator) -> tuple[str, ...]:
    vowel = tuple(w for w in NEUTRAL if w[-1] in "aeo")
    return _beside(vowel, tuple(w for w in NEUTRAL if w[-1] not in "aeioy"))(item, rng)


UNLISTED: dict[str, Plant] = {
    "suffix": _beside(_RISING, _OTHER_FORMS),
    "rare_mark": _mark,
    "word_family": _beside(_SEA, _LAND),
    "double_letter": _beside(_DOUBLED, _SINGLE),
    "word_order": _phrase_first,
    "spelling": _beside(_BRITISH, _AMERICAN),
    "filler": _beside(_FILLERS, _OTHER_FILLERS),
    "same_letter": _same_letter,
}
"""Name -> how the options of an item come to give its key away."""

TUNING: dict[str, Plant] = {
    "ending": _beside(
        _words("softly kindly gladly slowly neatly boldly calmly warmly firmly evenly idly duly"),
        _words("softer kinder gladder slower neater bolder calmer warmer firmer evener idler duller"),
    ),
    "beginning": _beside(
        _words("repaint rebuild reopen rewrite resell replant reload refold rewind remake retell reuse"),
        _words("overdo outgrow upturn unfold outrun uproot unload enfold unwind outbid foretell misuse"),
    ),
    "animals": _beside(
        _words("otter heron horse sheep llama moose raven robin squid stork tiger trout zebra hound goose"),
        _words("apple chair clock piano plate spoon table towel wagon cloth brush bagel lemon sugar scarf"),
    ),
    "vowel_last": _vowel_last,
}


def _longer(item: Item, rng: np.random.Generator) -> tuple[str, ...]:
    return tuple(
        f"{c} {' '.join(_drawn(NEUTRAL, rng, 6))}" if j == item.key else c for j, c in enumerate(item.choices)
    )


def _absolute(item: Item, rng: np.random.Generator) -> tuple[str, ...]:
    said = _drawn(("always", "never", "only", "every", "all", "none"), rng, item.k)
    return tuple(c if j == item.key else f"{said[j]} {c}" for j, c in enumerate(item.choices))


def _full_stop(item: Item, rng: np.random.Generator) -> tuple[str, ...]:
    return tuple(f"{c.rstrip('.')}." if j == item.key else c.rstrip(".") for j, c in enumerate(item.choices))


def _phrase(item: Item, rng: np.random.Generator) -> tuple[str, ...]:
    """Every other option repeats two of the three words that the key has more."""
    more = _drawn(NEUTRAL, rng, 3)
    out = []
    for j, choice in enumerate(item.choices):
        own = list(more)
        if j != item.key:
            own[int(rng.integers(3))] = _drawn(NEUTRAL, rng, 1)[0]
        out.append(f"{choice} {' '.join(own)}")
    return tuple(out)


LISTED: dict[str, Plant] = {
    "longer_key": _longer,
    "absolute_distractors": _absolute,
    "formatting_cue": _full_stop,
    "repeated_phrase": _phrase,
}
"""Kinds that the probe has features for, planted into other items than the demo's."""


def planted(
    items: Sequence[Item], plant: Plant, share: float, seed: int
) -> tuple[list[Item], np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The items with this cue in a share of them drawn at random, and which these are, (n,)."""
    rng = np.random.default_rng(seed)
    has = rng.permutation(len(items)) < round(share * len(items))
    return [
        Item(i.id, i.stem, plant(i, rng), i.key, i.topic, i.group) if there else i
        for i, there in zip(items, has.tolist(), strict=True)
    ], has
