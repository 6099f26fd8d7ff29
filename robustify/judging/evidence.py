"""Why an item is flagged: the option that was picked without the question, how sure that pick is, and what carried it.

From the question-free scorer's ranking and the votes; numbers and codes alone, so that nothing here holds text. What the
scorer's W says of an item is measured on the items themselves: h(W), the share of hits at that W (`decoy_filter`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress

import numpy as np

from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.likeness import LEAST, TEMPLATES, VIEW
from robustify.item import Item
from robustify.judging.context import Context
from robustify.stats.intervals import rate
from robustify.summary import screened as entries
from robustify.summary.quantity import Quantity
from robustify.summary.screened import CUES, CueCode

LISTED = 20
"""Items that the summary names."""
MOST_NAMED = 3
NO_CUE = -1
SURFACE = "surface"
LEAST_SHARE = 0.25
"""Of all that speaks for a pick, the share from which on a cue is said to have carried it."""
_FEATURES: dict[CueCode, str] = {
    "length": "characters words longer_than_longest_other longer_than_shortest_other",
    "word_length": "mean_word_length longest_word",
    "certainty": "hedges absolutes negations",
    "numbers": "digits numbers unit far_from_middle_number",
    "form": "commas other_punctuation brackets full_stop capital_first capitals odd_form",
    "shared_words": "mean_likeness greatest_likeness same_first_word same_last_word contains_another",
    "grammar": "article_first",
    "repetition": "repeated_words",
    "function_words": "function_words",
    "pointer": "points_elsewhere",
}
CUE_OF = {name: cue for cue, names in _FEATURES.items() for name in names.split()}
"""The cue of each surface feature; features that measure one thing are one cue."""
PART_OF: dict[str, CueCode] = {
    "words": "words",
    "text votes": "text_votes",
    "letter votes": "letter_votes",
}
"""The cue of each other part of the scorer."""
BY_LENGTH = ("words", "commas", "other_punctuation", "brackets", "repeated_words", "odd_form", "longest_word")
"""What a much longer option has more of because it is longer, words that no list names among them; there it counts as
length."""
MUCH_LONGER, MORE_CHARACTERS = 1.5, 10
"""So many times the next longest option's characters, and so many more, are much longer."""
TEXTUAL = tuple(c for c in CUES if c not in ("text_votes", "letter_votes", "none"))
"""Cues that stand in the item's own text."""


@dataclass(frozen=True, repr=False)
class Evidence:
    """The evidence on n items, from m voters and c cues.

    `pick` (n,): the option picked without the question, -1 none and -2 a tie. `weight` (n,): W, the scorer's probability
    of it; `p_key` (n,): that of the key; `chance` (n,) that of an item without a shortcut; `posterior` (n,): h(W);
    `shortcut` (n,): P(shortcut | hit), NaN if the pick is not the key. `carried` (n, c): what each cue adds to the pick's
    logit over the mean of the options. `likeness`: by kind, how like the real question those are that models inferred from
    the options, (n,).
    """

    items: tuple[str, ...]
    key: Ints
    pick: Ints
    weight: Floats
    chance: Floats
    posterior: Floats
    shortcut: Floats
    voters: tuple[str, ...]
    choice: Ints
    cues: tuple[CueCode, ...]
    carried: Floats
    features: Mapping[str, Floats]
    group: Ints
    p_key: Floats
    likeness: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def inferred(self) -> Floats:
        """1 where a question counts as inferred, 0 where not, NaN where nobody wrote one: by meaning, else by words."""
        kind = next(iter(self.likeness))
        return np.where(np.isnan(self.likeness[kind]), np.nan, self.likeness[kind] >= LEAST[kind])

    @property
    def hit(self) -> Bools:
        """Where the pick is the key, (n,)."""
        return np.asarray((self.pick >= 0) & (self.pick == self.key))

    @cached_property
    def picked_by(self) -> tuple[tuple[str, ...], ...]:
        """The voters that picked the same option, of each item."""
        agree = (self.pick >= 0)[:, None] & (self.choice == self.pick[:, None])
        return tuple(tuple(compress(self.voters, row)) for row in agree.tolist())

    @cached_property
    def named(self) -> Ints:
        """The cues that are named, the first first, as indices of `cues`, (n, MOST_NAMED); -1 where there is none.

        Those that are at least `LEAST_SHARE` of all that speaks for the pick, cues in the text before the models'
        votes, and the larger before the smaller; of a pick that nothing carries that far the largest alone.
        """
        n, c = self.carried.shape
        out = np.full((n, MOST_NAMED), NO_CUE)
        if not c:
            return out
        for_it = np.maximum(np.nan_to_num(self.carried), 0.0)
        total = for_it.sum(axis=1, keepdims=True)
        share = np.divide(for_it, total, out=np.zeros_like(for_it), where=total > 0)
        enough = (share >= LEAST_SHARE) | (share == share.max(axis=1, keepdims=True)) & (share > 0)
        rank = np.where(enough, share + np.isin(self.cues, TEXTUAL), -1.0)
        order = np.argsort(-rank, axis=1, kind="stable")[:, :MOST_NAMED]
        there = np.take_along_axis(rank, order, axis=1) > 0
        out[:, : order.shape[1]] = np.where(there, order, NO_CUE)
        return out

    @property
    def leading(self) -> tuple[CueCode, ...]:
        """The cue that is named first, of each item."""
        # The last one is that of -1.
        return tuple(map((*self.cues, "none").__getitem__, self.named[:, 0].tolist()))


def evidence(ctx: Context) -> Evidence | None:
    """Return the evidence on each item, whatever rule flags; None if the ranking has no pick.

    If the items' text is known, features that a longer option has more of (`BY_LENGTH`) count as length in a pick that is
    much longer.
    """
    ranking, decision, votes, items = ctx.ranking, ctx.decision, ctx.votes, ctx.items
    pick = ranking.top
    if not (pick >= 0).any():
        return None
    features = {name: _of_pick(table, pick) for name, table in ranking.surface.items()}
    long = np.zeros(len(pick), dtype=bool) if items is None else _much_longer(items, pick)
    parts = {name: _of_pick(table, pick) for name, table in ranking.parts.items() if name != SURFACE}
    by_cue: list[tuple[CueCode, Floats]] = []
    for code, name, values in (
        *((CUE_OF[name], name, values) for name, values in features.items()),
        *((PART_OF[name], name, values) for name, values in parts.items()),
    ):
        brought = long & (name in BY_LENGTH)
        by_cue.append((code, np.where(brought, 0.0, values)))
        if brought.any():
            by_cue.append(("length", np.where(brought, values, 0.0)))
    cues, carried = _sums(by_cue, len(pick))
    return Evidence(
        items=ranking.items,
        key=votes.key,
        pick=pick,
        weight=ranking.weight,
        chance=ranking.null,
        posterior=decision.posterior,
        shortcut=np.where(decision.hit, decision.shortcut, np.nan),
        voters=votes.voters,
        choice=votes.choice,
        cues=cues,
        carried=carried,
        features=features,
        group=ranking.group,
        p_key=np.exp(np.take_along_axis(ranking.log_p, np.maximum(votes.key, 0)[:, None], axis=1)[:, 0]),
        likeness=likenesses(ctx),
    )


def likenesses(ctx: Context) -> Mapping[str, Floats]:
    """Return by kind the greatest likeness of any model's question, (n,), NaN if none was written; only kinds asked."""
    found: dict[str, Floats] = {}
    for kind, template in TEMPLATES.items():
        asked = [model for view, model, name in ctx.answers.askings() if (view, name) == (VIEW, template)]
        blocks = [ctx.answers.block(VIEW, model, template) for model in asked]
        if blocks:
            found[kind] = np.fmax.reduce([ctx.index.spread(block, block.correct) for block in blocks])
    return found


def inference(found: Evidence, flagged: Bools) -> entries.Inference | None:
    """Return how many of the flagged items (n,), and of the others, have a question that can be inferred from the options.

    None if nobody was asked to infer any.
    """
    if not found.likeness:
        return None
    inferred, asked = found.inferred, ~np.isnan(found.inferred)
    kind = next(iter(found.likeness))
    one, other = (Quantity.of(rate(inferred[part & asked])) for part in (flagged, ~flagged))
    return entries.Inference(
        by=kind, least=LEAST[kind], flagged=one, others=other, unasked=int(np.count_nonzero(~asked))
    )


def cue_counts(found: Evidence, flagged: Bools) -> entries.CueCounts:
    """The flagged items (n,) by the cue that is named first, and those that most likely hold a shortcut."""
    leading, names = found.named[:, 0], (*found.cues, "none")
    among = flagged & (found.pick >= 0)
    codes = {cue: (at if at < len(found.cues) else NO_CUE) for at, cue in enumerate(names)}
    shares = {cue: rate((leading[among] == codes[cue]).astype(np.float64)) for cue in CUES if cue in codes}
    shown = {cue: Quantity.of(share) for cue, share in shares.items() if share.value}
    likely = np.where(flagged, np.nan_to_num(found.shortcut, nan=-1.0), -1.0)
    order = np.lexsort((-np.nan_to_num(found.weight), -likely))[:LISTED].tolist()
    return entries.CueCounts(
        n=int(np.count_nonzero(among)),
        cues=dict(sorted(shown.items(), key=lambda one: -(one[1].value or 0.0))),
        likeliest=tuple(
            entries.LikelyItem(
                item=found.items[at], p_shortcut=float(found.shortcut[at]), cue=names[leading[at]]
            )
            for at in order
            if likely[at] > 0
        ),
    )


def _of_pick(table: Floats, pick: Ints) -> Floats:
    """The column of each row's pick; NaN without one."""
    found = np.take_along_axis(table, np.maximum(pick, 0)[:, None], axis=1)[:, 0]
    return np.where(pick >= 0, found, np.nan)


def _much_longer(items: Sequence[Item], pick: Ints) -> Bools:
    """Where the pick is the longest option by far, (n,)."""
    out = np.zeros(len(items), dtype=bool)
    for at, (item, p) in enumerate(zip(items, pick.tolist(), strict=True)):
        if p >= 0:
            sizes = [len(choice.strip()) for choice in item.choices]
            own = sizes.pop(p)
            out[at] = own >= max(MUCH_LONGER * max(sizes), max(sizes) + MORE_CHARACTERS)
    return out


def _sums(parts: Sequence[tuple[CueCode, Floats]], n: int) -> tuple[tuple[CueCode, ...], Floats]:
    """The cues that these parts make up, in the order of `CUES`, and their sums, (n, c)."""
    total: dict[CueCode, Floats] = {}
    for cue, values in parts:
        total[cue] = total[cue] + values if cue in total else values
    cues = tuple(cue for cue in CUES if cue in total)
    return cues, np.stack([total[cue] for cue in cues], axis=1) if cues else np.empty((n, 0))
