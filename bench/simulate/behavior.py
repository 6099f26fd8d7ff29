"""Models that answer simulated items with cues: what they know, and how they pick if they do not know.

A model picks from a softmax of utilities: knowledge, plausibility, and habits, and in addition what the *looks* of options
bring. Both are returned as exact probabilities, with looks and without, so the truth needs no draws.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator
from scipy.special import expit, logit

from bench.simulate.cued import CuedItems, standardized
from robustify.base.arrays import Bools, Floats, Ints

SURE = 40.0
"""Utility of a known key in nats: no habit matters beside it."""
CORRELATION_OF_RULES = 0.5
Rule = Literal["looks", "best", "other", "reader", "first places", "longest in half"]


@dataclass(frozen=True, slots=True)
class Behavior:
    """Parameters of a model; strengths are in nats or logits, shares are per item.

    `ability`: share of items whose answer it knows. `ease`, `topic`: logits more of knowing a cued item, or one of the
    flipped topic; `steep`: the same by the looks of the key, squared. `graded`: instead of knowing, it has this much
    evidence for the key on average, with noise that correlates with looks by `rho`. `follows`: strength with which picks
    follow a `rule` in `on` of the items. `overrides`: share of items in which it takes the best-looking option, whatever
    it knows. `plausible`: strength with which it follows the plausibility of wrong options. `eliminates`: it excludes one
    or two wrong options. `misled`: share of items with a misconception, in which it believes a wrong option if it `holds`
    it, as this share of models does. `first`: preference for the first place. Without the question, it follows looks with
    the strength `blind` (`follows` by default), the key with `meaning`, and the plausibility of wrong options with
    `guessed`."""

    ability: float = 0.5
    ease: float = 0.0
    steep: float = 0.0
    topic: float = 0.0
    graded: float = 0.0
    rho: float = 0.0
    follows: float = 0.0
    rule: Rule = "looks"
    on: float = 1.0
    overrides: float = 0.0
    plausible: float = 0.0
    eliminates: Literal["none", "random", "worst"] = "none"
    misled: float = 0.0
    holds: float = 1.0
    first: float = 0.0
    blind: float | None = None
    meaning: float = 0.3
    guessed: float = 0.0


@dataclass(frozen=True, slots=True)
class Shared:
    """What is common to all models: `hard` (n,), the difficulty; `plausible` and `other` (n, K), the plausibility of
    options and their looks by another rule; `belief` (n,), the wrong option of a misconception, and `misled` (n,),
    uniform draws."""

    hard: Floats
    plausible: Floats
    other: Floats
    belief: Ints
    misled: Floats


@dataclass(frozen=True, slots=True)
class Chances:
    """Probabilities (n, K) that a model picks an option: with looks, without looks, and without the question."""

    full: Floats
    bare: Floats
    blind: Floats

    def truth(self, key: Ints) -> Floats:
        """Return what looks bring to the chance of the recorded key (n,)."""
        rows = np.arange(len(key))
        return np.asarray(self.full[rows, key] - self.bare[rows, key])


def softmax(utility: Floats, there: Bools) -> Floats:
    """Return probabilities (n, K) of the options in the mask `there`."""
    shown = np.where(there, utility, -np.inf)
    e = np.exp(shown - shown.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


def shared(items: CuedItems, like_keys: float, beliefs_by_looks: float, draw: Generator) -> Shared:
    """Draw what all models find; the plausibility of options correlates with looks by `like_keys`."""
    shape, of = items.there.shape, items.source
    questions = int(of.max()) + 1

    def noise() -> Floats:
        return _by_question(items, draw.normal(size=(questions, shape[1])))

    looks, wrong = items.true_looks, items.there & (np.arange(shape[1]) != items.right[:, None])
    hard = draw.normal(size=questions)[of] + draw.normal(size=int(items.passages.max()) + 1)[
        items.passages
    ] * (len(np.unique(items.passages)) < questions)
    plausible = like_keys * looks + np.sqrt(1 - like_keys**2) * noise()
    r = CORRELATION_OF_RULES
    other = standardized(r * looks + np.sqrt(1 - r**2) * noise(), items.there)
    gumbel = _by_question(items, draw.gumbel(size=(questions, shape[1])))
    belief = np.where(wrong, beliefs_by_looks * looks + gumbel, -np.inf).argmax(1)
    return Shared(hard, plausible, other, belief, draw.random(questions)[of])


def _by_question(items: CuedItems, values: Floats) -> Floats:
    """Return a question's values (questions, K) in the order of each row's options (n, K): the key's value stays its."""
    k = items.there.sum(1)
    place = (np.arange(values.shape[1]) - items.right[:, None]) % k[:, None]
    return np.asarray(np.take_along_axis(values[items.source], np.where(items.there, place, 0), 1))


RULES: dict[Rule, Callable[[CuedItems, Shared], Floats]] = {
    "looks": lambda items, _: items.true_looks,
    "reader": lambda items, _: items.reader,
    "other": lambda _, found: found.other,
    "best": lambda items, _: np.asarray(
        2.0 * (items.true_looks >= np.where(items.there, items.true_looks, -9).max(1, keepdims=True))
    ),
    "first places": lambda items, _: (
        items.true_looks * np.where(np.arange(items.there.shape[1]) < 2, 1.6, 0.2)
    ),
    "longest in half": lambda items, _: standardized(items.features[:, :, 0], items.there),
}


def chances(items: CuedItems, model: Behavior, found: Shared, draw: Generator) -> Chances:
    """Draw what a model knows and believes. Return its exact probabilities."""
    rows, k = np.arange(len(items)), items.there.sum(1)
    wrong = items.there & (np.arange(items.there.shape[1]) != items.right[:, None])
    base = np.where(wrong, model.plausible * found.plausible, 0.0)
    base[:, 0] += model.first
    if model.eliminates != "none":
        key = _by_question(items, draw.random((int(items.source.max()) + 1, items.there.shape[1])))
        rank = (
            np.where(wrong, key if model.eliminates == "random" else items.true_looks, np.inf)
            .argsort(1)
            .argsort(1)
        )
        gone = (
            rank
            < np.minimum(np.where(draw.random(int(items.source.max()) + 1) < 0.5, 1, 2)[items.source], k - 2)[
                :, None
            ]
        )
        base = np.where(gone, -SURE / 2, base)
    base = base + _knowledge(items, model, found, draw)
    pull = model.follows * RULES[model.rule](items, found)
    pull = np.where((draw.random(len(rows)) < model.on)[:, None], pull, 0.0)
    there = items.there
    full, bare = softmax(base + pull, there), softmax(base, there)
    taken = (draw.random(len(rows)) < model.overrides)[:, None]
    looks = np.where(there, items.true_looks, -9)
    full = np.where(taken, looks >= looks.max(1, keepdims=True), full)
    follows = model.follows if model.blind is None else model.blind
    unseen = follows * RULES[model.rule](items, found) + model.guessed * np.where(wrong, found.plausible, 0.0)
    unseen[rows, items.right] += model.meaning
    unseen[:, 0] += model.first
    return Chances(full, bare, softmax(unseen, there))


def _knowledge(items: CuedItems, model: Behavior, found: Shared, draw: Generator) -> Floats:
    """Return what a model knows and believes in nats (n, K)."""
    rows, questions, width = np.arange(len(items)), int(items.source.max()) + 1, items.there.shape[1]
    out: Floats = np.zeros((len(items), width))
    if model.graded:
        noise = _by_question(items, draw.normal(size=(questions, width)))
        out += 1.5 * (model.rho * items.true_looks + np.sqrt(1 - model.rho**2) * noise)
        out[rows, items.right] += model.graded - found.hard
    else:
        at_key = items.true_looks[rows, items.right]
        logits = (
            -1.5 * found.hard
            + model.ease * items.cued
            + model.topic * items.flipped
            + model.steep * at_key**2
        )
        logits = logits - logits.mean() + 1.3 * logit(np.clip(model.ability, 0.001, 0.999))
        known = draw.random(questions)[items.source] < expit(logits)
        out[rows, items.right] += SURE * known
    holds = draw.random(questions)[items.source] < model.holds
    believes = (found.misled < model.misled) & holds
    out[rows, found.belief] += 2 * SURE * believes
    return out


def picked(p: Floats, gumbel: Floats) -> Ints:
    """Return the picks (n,) of probabilities (n, K) by the Gumbel-max rule, so that models can share their noise."""
    with np.errstate(divide="ignore"):
        return np.asarray((np.log(p) + gumbel).argmax(1))
