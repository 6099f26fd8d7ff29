"""Collect candidates for the distractors of an item, exclude unsuitable ones, and unify the typography of options.

Writers differ in quotes, dashes, spaces, look-alike characters, final periods, and first letters, which would tell the key
from the distractors of another writer. All options of an item therefore get the same.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from robustify.base.odd_characters import plainly
from robustify.base.redaction import HoldsText
from robustify.base.texts import bare, is_blank, straight
from robustify.items.item import Item
from robustify.judging.baselines.wording import FUNCTION_WORDS
from robustify.judging.cloze import cross_reference, keeps_order

OWN = "own"
"""Writer of the distractors that an item has already."""
VERDICTS = WRONG, RIGHT_TOO, UNCLEAR = ("wrong", "right too", "unclear")
"""What people say of a candidate. One that is wrong is a good distractor, and one that is right too is a second key."""
_WORD, _SMALL_LETTERS = re.compile(r"[^\W\d_]{3}"), re.compile(r"[^\W\d_A-Z]{3}")
_DASH, _HYPHENS, _SPACES = re.compile(r"\s*[—―]\s*"), re.compile("[‐‑‒–]"), re.compile(r"[^\S\n]+")
_ENDED = re.compile(r"(?<=[^\W\d_]{2})\.$|(?<=[\d)\]\"'%])\.$")
"""A final period after a word, a number, or a closing mark. A period after a single letter may belong to it, as in U.S."""
_SMALL = re.compile(r"([a-z]+)(?=$|[\s,;:.])")
"""First word without capitals. What continues it, as in `sin(x)` or `m/s`, makes it a name or unit."""
_MARKS = re.compile(
    r"""^["']?(?:an?|the)\s+(?=\S)|(?<!\d)"|(?<!\w)'(?=[^']*'(?!\w))|(?<=\w)'$(?<=\w{3}')""", re.IGNORECASE
)
"""First article, double quotation marks except inches, and single ones around words. A prime, as in f', stays."""
_SYMBOLS = frozenset(
    ("sin", "cos", "tan", "log", "exp", "max", "min", "mod", "det", "lim", "mol", "rad", "bar", "ppm")
)


@dataclass(frozen=True, slots=True, repr=False)
class Candidate(HoldsText):
    """Text that may become a distractor. `writer` is `OWN`, or the name of the file, column, or model it comes from.

    `ratio` is its probability for models that see the question, divided by that of the key (`candidate_checks`), NaN if no
    model saw it. `verdict` is that of people, or "".
    """

    text: str
    writer: str
    ratio: float = math.nan
    verdict: str = ""

    @property
    def doubt(self) -> str:
        """Reason why models or people set the candidate aside, or "" if they did not. People overrule models."""
        if self.verdict:
            return "" if self.verdict == WRONG else self.verdict.replace(" ", "_")
        return "second_key" if self.ratio >= 1 else ""


@dataclass(frozen=True, slots=True, repr=False)
class Pool(HoldsText):
    """Item with its candidate distractors, the original distractors first. No candidate repeats the key or another
    candidate.

    `aside` names why each other candidate was set aside: `blank`, `repeats_key`, `contains_key`, `in_key`, `other_key`,
    `refers_to_options`, `repeated`, or a `Candidate.doubt`.
    """

    item: Item
    candidates: tuple[Candidate, ...]
    aside: tuple[str, ...] = ()

    @property
    def stays(self) -> bool:
        """Whether the item keeps its options, because its stem or key refers to other options by their position."""
        return keeps_order(self.item.with_choices((self.item.choices[self.item.key], "?"), 0))

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts of the key and of all candidates. The key is first."""
        return (self.item.choices[self.item.key], *(candidate.text for candidate in self.candidates))

    def by(self, writer: str) -> list[Candidate]:
        """Return the candidates of a writer."""
        return [candidate for candidate in self.candidates if candidate.writer == writer]


def own_candidates(item: Item, writer: str = OWN) -> tuple[Candidate, ...]:
    """Return the distractors of an item, in order, as candidates of a writer."""
    return tuple(Candidate(text, writer) for index, text in enumerate(item.choices) if index != item.key)


def make_pool(item: Item, offered: Iterable[Candidate] = (), other_keys: Collection[str] = ()) -> Pool:
    """Return the pool of an item: its own distractors and the `offered` candidates, without unsuitable ones.

    `other_keys` are keys that other items have to the same question, and may be right here too.
    """
    reasons = {same_form(text): "other_key" for text in other_keys}
    candidates, aside = list[Candidate](), list[str]()
    for candidate in (*own_candidates(item), *offered):
        form, core = same_form(candidate.text), _without_marks(candidate.text)
        if reason := _fault(item, candidate.text) or reasons.get(form, "") or reasons.get(core, ""):
            aside.append(reason)
        else:
            candidates.append(candidate)
            reasons |= {form: "repeated", core: "repeated"}
    return Pool(item, tuple(candidates), tuple(aside))


def make_pools(
    items: Sequence[Item], offered: Sequence[Sequence[Candidate]], *, same_typography: bool = True
) -> tuple[Pool, ...]:
    """Return the pools of items, given the candidates `offered` for each. Items with the same question share their keys.

    If `same_typography`, the options and candidates of each item get the same typography.
    """
    retyped, keys = list[tuple[Item, Sequence[Candidate]]](), dict[str, set[str]]()
    for item, candidates in zip(items, offered, strict=True):
        texts = (*item.choices, *(candidate.text for candidate in candidates))
        texts = unify_typography(texts) if same_typography else texts
        retyped_item, new_texts = item.with_choices(texts[: item.k], item.key), texts[item.k :]
        retyped.append(
            (retyped_item, [replace(c, text=t) for c, t in zip(candidates, new_texts, strict=True)])
        )
        keys.setdefault(same_form(item.stem), set()).add(retyped_item.choices[item.key])
    return tuple(
        make_pool(item, candidates, keys[same_form(item.stem)] - {item.choices[item.key]})
        for item, candidates in retyped
    )


def without_doubtful(pools: Iterable[Pool], fewest: int) -> tuple[Pool, ...]:
    """Return pools without doubtful candidates. An item with fewer than `fewest` remaining candidates keeps its own
    distractors, because no item may be lost."""
    out = []
    for pool in pools:
        spared = OWN if sum(not candidate.doubt for candidate in pool.candidates) < fewest else None
        doubtful = [c for c in pool.candidates if c.doubt and c.writer != spared]
        remaining = tuple(c for c in pool.candidates if c not in doubtful)
        out.append(replace(pool, candidates=remaining, aside=(*pool.aside, *(c.doubt for c in doubtful))))
    return tuple(out)


def _fault(item: Item, text: str) -> str:
    """Return the reason why a text cannot be a distractor of an item, or "" if it can."""
    key = item.choices[item.key]
    form, key_form = same_form(text), same_form(key)
    if is_blank(text) or not form:
        return "blank"
    if form == key_form:
        return "repeats_key"
    if cross_reference(item.with_choices((key, text), 0)):
        return "refers_to_options"
    return "contains_key" if _within(key_form, form) else "in_key" if _within(form, key_form) else ""


def _within(part: str, text: str) -> bool:
    # A part without a word, such as a number or a formula, does not count: 5 is no answer that contains 0.5 or 5x.
    if len(part) >= len(text) or _WORD.search(part) is None:
        return False
    return re.search(rf"(?<![\w-]){re.escape(part)}(?![\w-])", text) is not None


def typed_plainly(text: str) -> str:
    """Write a text in plain characters: straight quotes, hyphens for dashes, and single spaces. Remove blanks at the
    ends."""
    text = _HYPHENS.sub("-", _DASH.sub(" - ", straight(plainly(text))))
    return bare(_SPACES.sub(" ", text))


def same_form(text: str) -> str:
    """Normalize an option for comparison: ignore typography and a final period, and also case if the option has words.
    Options such as TT, Tt, and tt differ."""
    form = _ENDED.sub("", typed_plainly(text))
    return form.casefold() if _SMALL_LETTERS.search(form) else form


def _without_marks(text: str) -> str:
    """Normalize an option like `same_form`, and remove its first article and its quotation marks."""
    return _MARKS.sub("", same_form(text)) or text


def unify_typography(options: Sequence[str]) -> tuple[str, ...]:
    """Return the options of an item with consistent typography.

    If any option begins with a capital, all do, unless one begins with a unit or symbol such as pH or kg. Final periods
    are taken off, because adding one would lengthen a key.
    """
    retyped = tuple(_ENDED.sub("", typed_plainly(option)) or option for option in options)
    small = [option for option in retyped if option[:1].islower()]
    if len(small) < sum(option[:1].isalpha() for option in retyped) and all(map(_is_word_first, small)):
        return tuple(
            option[:1].upper() + option[1:] if option[:1].islower() else option for option in retyped
        )
    return retyped


def _is_word_first(text: str) -> bool:
    match = _SMALL.match(text)
    word = match[1] if match else ""
    return word in FUNCTION_WORDS or (len(word) > 2 and word not in _SYMBOLS)
