"""Known surface cues: put into copies of items to see who would notice them, and found where they stand already.

The copies are in memory only. Each kind changes its own trait and as little else as it can: where one option gets a
word, the others get words of about the same length, and no two of them the same.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Literal, get_args

from robustify.baselines.wording import ABSOLUTES, FUNCTION_WORDS, HEDGES, words_of
from robustify.item import Item

Cue = Literal["longer", "absolute", "hedge", "repeated", "format", "grammar"]
CUES: tuple[Cue, ...] = get_args(Cue)

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
