"""Simulated benchmarks of known truth: items, answers of voters and models, and their true values.

Everything follows from the parameters and their seed. The rows have the normal format, so the judge treats them like rows
of real models. No model is asked and no text is taken from a benchmark.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.special import log_softmax

from bench.simulate.parameters import TOPICS, Kind, Simulation
from bench.simulate.truth import CLOZE_LIKING, FULL_LIKING, topic_name
from bench.simulate.wording import choices, repeated
from robustify.base.arrays import Bools, Floats, Ints
from robustify.items import orders
from robustify.items.answer_columns import SCHEMA
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.items.scoring import picks
from robustify.judging.baselines.heuristics import guess
from robustify.judging.response_data import Facts
from robustify.judging.screen.votes import TIED

SURE, UNSURE, LETTER = 4.0, 0.5, 1.0
"""Strength of a voter's preference for its pick in nats if it is sure or unsure, and for the first letter."""
CHARS = 10
TEMPLATES = {"choices_only": "made-up-v1", "full": "made-up-full-v1", "cloze": "made-up-cloze-v1"}


@dataclass(frozen=True)
class Drawn:
    """A simulated benchmark as arrays.

    `k`, `key`, `topic`, `group` (n,); `kind` one name per item; `source` (n,): the item that it repeats, or itself; `picks`
    (n, people) of the voters, then of the outside models: an option, or -2 without a favourite; `unsure` (n, people);
    `full` and `cloze` (n, tested): the option that a model under test believes in; `words`: the seed of the text.
    """

    sim: Simulation
    k: Ints
    key: Ints
    kind: tuple[Kind, ...]
    source: Ints
    topic: Ints
    group: Ints
    picks: Ints
    unsure: Bools
    full: Ints
    cloze: Ints
    words: int

    def __len__(self) -> int:
        return len(self.key)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Names of the items."""
        return names(len(self))

    @property
    def facts(self) -> Facts:
        """Return the facts that the judge knows in addition to the rows."""
        topics = {name: topic_name(t) for name, t in zip(self.ids, self.topic.tolist(), strict=True)}
        passages = {name: f"passage {g + 1}" for name, g in zip(self.ids, self.group.tolist(), strict=True)}
        return Facts("made up", topics, {} if self.sim.passage == 1 else passages)

    def items(self) -> list[Item]:
        """Return the items with made-up text."""
        rng = np.random.default_rng(self.words)
        text = choices(self.key, self.k, self.kind, rng)
        for i in np.flatnonzero(self.source != np.arange(len(self))).tolist():
            text[i] = repeated(text[int(self.source[i])], self.sim.replaced, rng)
        groups = self.facts.groups
        return [
            Item(name, f"Made-up question {name}", text[i], int(self.key[i]), topic_name(int(self.topic[i])),
                 group=groups.get(name, ""))
            for i, name in enumerate(self.ids)
        ]  # fmt: skip

    def answers(self, items: Sequence[Item] | None = None) -> Answers:
        """Return all rows: the screen, the models under test, and the rules on `items`."""
        people = (*self.sim.voter_names, *self.sim.outside_names)
        parts = [self._screen(p, name) for p, name in enumerate(people)]
        for t, name in enumerate(self.sim.tested_names):
            parts += [self._full(t, name), self._cloze(t, name)]
        return Answers.concat([*parts, guess(items or ())])

    def _screen(self, person: int, name: str) -> Answers:
        own = self.sim.asked == "own"
        shown = _own(self.k)[:, None] if own else _shown(self.ids, self.k, None)
        item, order = _rows_of(shown)
        pick = self.picks[item, person]
        k = self.k[item]
        unsure, picked = self.unsure[item, person], np.arange(order.shape[1]) == pick[:, None]
        sure, others = self._likings(person)
        liking = np.where(unsure, UNSURE, sure[item])
        scores = np.where(picked, liking[:, None], np.where(unsure[:, None], 0.0, others[item]))
        if self.sim.letter_bias:
            scores[np.arange(len(item)), order[:, 0]] += LETTER
        right, wrong = self.sim.unread
        chance = np.where(self.picks[:, person] == self.key, right, wrong)
        scores[(np.random.default_rng([self.words, 3, person]).random(len(self)) < chance)[item]] = np.nan
        return self._table(item, "choices_only", name, order, _logs(scores, k))

    def _likings(self, person: int) -> tuple[Floats, Floats]:
        """Return the preference of a sure voter for its pick (n,) and for the other options (n, K).

        Graded: 1.2 to 2.8 nats for the pick, 2.4 to 5.6 nats if the voter sees a shortcut, and up to 1.1 nats for the
        others.
        """
        shape = (len(self), int(self.k.max()))
        if not self.sim.graded:
            return np.full(shape[0], SURE), np.zeros(shape)
        rng = np.random.default_rng([self.words, 2, person])
        planted = np.array([kind != "clean" for kind in self.kind])
        seen, drawn = planted & (self.picks[:, person] == self.key), rng.random(shape[0])
        return np.where(seen, 2.4 + 3.2 * drawn, 1.2 + 1.6 * drawn), 1.1 * rng.random(shape)

    def _full(self, tested: int, name: str) -> Answers:
        shown = _shown(self.ids, self.k, self.sim.orders)
        item, order = _rows_of(shown)
        k = self.k[item]
        rng = np.random.default_rng([self.words, 1, tested])
        loose = rng.random(len(item)) >= self.sim.firmness
        pick = np.where(loose, rng.integers(0, k), self.full[item, tested])
        scores = np.where(np.arange(order.shape[1]) == pick[:, None], FULL_LIKING, 0.0)
        return self._table(item, "full", name, order, _logs(scores, k))

    def _cloze(self, tested: int, name: str) -> Answers:
        item, order = _rows_of(_own(self.k)[:, None])
        pick = self.cloze[item, tested]
        scores = -CHARS * np.where(np.arange(order.shape[1]) == pick[:, None], 1.0, 1.0 + CLOZE_LIKING)
        return self._table(item, "cloze", name, order, np.where(order >= 0, scores, np.nan))

    def _table(self, item: Ints, view: str, model: str, order: Ints, scores: Floats) -> Answers:
        """Return the rows of a model; `order`, `scores` (r, K) have -1 and NaN beyond a row's choices."""
        key, k, n = self.key[item], self.k[item], len(item)
        won, pick, tie = picks(scores, key, k)
        if self.sim.bare and view == "choices_only":
            scores = np.full_like(scores, np.nan)
        lengths = _lists(np.where(order >= 0, CHARS, -1), k, pa.int32())
        columns = {
            "item": pa.array(self.ids, pa.string()).take(pa.array(item)),
            "view": _same(view, n), "model": _same(model, n), "template": _same(TEMPLATES[view], n),
            "order": _lists(order, k, pa.int16()),
            "key": pa.array(key, pa.int16()),
            "pick": pa.array(pick, pa.int16()),
            "correct": pa.array(won, pa.float64()),
            "scores": _lists(scores, k, pa.float64()),
            "n_chars": lengths, "n_bytes": lengths, "n_tokens": lengths,
            "tie": pa.array(tie, pa.int16()),
            "error": pa.nulls(n, pa.string()),
        }  # fmt: skip
        return Answers(pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA))


def draw(sim: Simulation) -> Drawn:
    """Draw a benchmark; equal parameters give equal benchmarks."""
    rng = np.random.default_rng(sim.seed)
    n = sim.items
    group = np.arange(n) // sim.passage
    kinds = list(sim.kinds)
    drawn = rng.choice(len(kinds), size=n, p=list(sim.kinds.values()))
    kind = drawn if sim.each_its_own else drawn[group]
    k = rng.choice(np.asarray(sim.options, dtype=np.int64), size=n)
    key = _placed(sim, k, rng)
    topic = rng.choice(len(TOPICS), size=n, p=TOPICS)
    picks = _picks(sim, kind > 0, k, key, rng)
    right = np.array([sim.full_accuracy(name) for name in kinds])[kind]
    full, cloze = (
        _believed(chance, sim.tested, k, key, rng) for chance in (right, np.full(n, sim.cloze_accuracy))
    )
    unsure = rng.random(picks.shape) < sim.letter_bias
    originals = n - round(n * sim.copies)
    source = np.where(np.arange(n) < originals, np.arange(n), rng.integers(0, originals, size=n))
    k, key, kind, topic, picks, full, cloze = (
        part[source] for part in (k, key, kind, topic, picks, full, cloze)
    )
    unsure = unsure[source]
    named = tuple(kinds[c] for c in kind.tolist())
    out = Drawn(
        sim, k, key, named, source, topic, group, picks, unsure, full, cloze, int(rng.integers(2**31))
    )
    if not sim.longest:
        return out
    longest = np.array([np.argmax([len(choice) for choice in item.choices]) for item in out.items()])
    liked = (kind == 0)[:, None] & (rng.random(picks.shape) < sim.longest)
    return replace(out, picks=np.where(liked, longest[:, None], picks))


@lru_cache(maxsize=8)
def names(n: int) -> tuple[str, ...]:
    """Return the IDs of n items, which share no word with made-up choices."""
    return tuple(f"q{i + 1:06d}" for i in range(n))


def _placed(sim: Simulation, k: Ints, rng: np.random.Generator) -> Ints:
    """Return keys (n,) at uniform positions, or skewed with weights from k to 1 by position."""
    out = rng.integers(0, k)
    for options in sorted(set(sim.options)) if sim.places == "skewed" else ():
        here = k == options
        weight = np.arange(options, 0, -1, dtype=np.float64)
        out[here] = rng.choice(options, size=int(here.sum()), p=weight / weight.sum())
    return out


def _picks(sim: Simulation, planted: Bools, k: Ints, key: Ints, rng: np.random.Generator) -> Ints:
    shape = (len(key), sim.voters + sim.outside)
    favourite = rng.integers(0, k)[:, None]
    alone = rng.integers(0, np.repeat(k[:, None], shape[1], axis=1))
    guessed = np.where(rng.random(shape) < sim.correlation, favourite, alone)
    picks = np.where(planted[:, None], key[:, None], guessed)
    return np.where(rng.random(shape) < sim.ties, TIED, picks)


def _believed(chance: Floats, models: int, k: Ints, key: Ints, rng: np.random.Generator) -> Ints:
    k_, key_ = (np.repeat(a[:, None], models, axis=1) for a in (k, key))
    wrong = (key_ + rng.integers(1, k_)) % k_
    return np.where(rng.random(key_.shape) < chance[:, None], key_, wrong)


def _shown(ids: Sequence[str], k: Ints, n: int | None) -> Ints:
    """Return the orders in which each item is shown, (n, orders, K): item, order, position; -1 beyond its choices."""
    out = np.full((len(ids), n or int(k.max()), int(k.max())), -1)
    for i, (name, options) in enumerate(zip(ids, k.tolist(), strict=True)):
        known = _orders(name, options, n)
        out[i, : len(known), :options] = known
    return out


@lru_cache(maxsize=1 << 14)
def _orders(name: str, k: int, n: int | None) -> Ints:
    """Return all rotations of the item's base order, or `n` evenly spread orders."""
    known = orders.rotations(orders.base(name, k)) if n is None else orders.spread(name, k, n)
    return np.array(known, dtype=np.int64)


def _own(k: Ints) -> Ints:
    places = np.arange(int(k.max()))
    return np.where(places < k[:, None], places, -1)


def _rows_of(shown: Ints) -> tuple[Ints, Ints]:
    """Return the item (r,) and order (r, K) of every row in (n, orders, K), item by item."""
    item, asking = np.nonzero(shown[:, :, 0] >= 0)
    return item, shown[item, asking]


def _logs(scores: Floats, k: Ints) -> Floats:
    there = np.arange(scores.shape[1]) < k[:, None]
    return np.where(there, log_softmax(np.where(there, scores, -np.inf), axis=1), np.nan)


def _lists(values_: npt.NDArray[np.generic], lengths: Ints, kind: pa.DataType) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    flat = values_[np.arange(values_.shape[1]) < lengths[:, None]]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(flat, kind))


def _same(text: str, n: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), n)
