"""Simulations in which looks bring a model points, or do not: a set, a model, blind picks, and a panel of other models.

`BY_NAME` names them as `docs/validity.md` counts them. Those of `OWN` were invented to break the estimator.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.random import Generator

from bench.simulate.behavior import Behavior, Chances, chances, picked, shared
from bench.simulate.cued import CuedItems, Form, drawn_items
from robustify.base.arrays import Floats, Ints

Kind = Literal["none", "follows", "other"]
"""Whether looks bring the model nothing, points, or something that the estimator does not claim to see."""


PLAIN = Form()


@dataclass(frozen=True, slots=True)
class World:
    """A model, a set, and a panel of `size` other models with abilities from `weakest` to `strongest`.

    A panel behaves like the model unless `others` says differently. `weak_ease`: logits more of knowing a cued item,
    only for models weaker than half. `weak_follow`: strength with which other models follow looks, more if they are
    weaker. `like_keys`: correlation of plausibility and looks. `beliefs_by_looks`: strength with which misconceptions
    follow looks. `alike`: share of items on which models share their errors. `unread`: probability that a pick is not read
    if it looks better than the mean option, and if it looks worse."""

    kind: Kind
    model: Behavior
    form: Form = PLAIN
    others: Behavior | None = None
    size: int = 10
    weakest: float = 0.25
    strongest: float = 0.85
    weak_ease: float = 0.0
    weak_follow: float = 0.0
    like_keys: float = 0.0
    beliefs_by_looks: float = 0.0
    alike: float = 0.0
    unread: tuple[float, float] = (0.0, 0.0)

    @property
    def panel(self) -> tuple[Behavior, ...]:
        """Behavior of each other model."""
        like = self.others or self.model
        return tuple(
            replace(
                like, ability=float(ability), graded=like.graded and like.graded + 4 * (float(ability) - 0.5),
                ease=like.ease + self.weak_ease * (ability < 0.5),
                follows=like.follows + self.weak_follow * max(0.0, 1 - float(ability) / 0.6),
            )
            for ability in np.linspace(self.weakest, self.strongest, self.size)
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answered:
    """A drawn world: items, the model's probabilities, its picks with (-1 if not read) and without the question (n,), and
    the panel's (M, n). `truth`: the share of its expected score that looks bring."""

    items: CuedItems
    chances: Chances
    pick: Ints
    blind: Ints
    others: Ints
    truth: float


def answered(world: World, seed: int) -> Answered:
    """Draw the set of this seed and all answers."""
    draw = np.random.default_rng(seed)
    items = drawn_items(world.form, draw)
    found = shared(items, world.like_keys, world.beliefs_by_looks, draw)
    model = replace(world.model, ease=world.model.ease + world.weak_ease * (world.model.ability < 0.5))
    own, common = chances(items, model, found, draw), draw.gumbel(size=items.there.shape)

    def pick(p: Floats) -> Ints:
        same = draw.random((len(items), 1)) < world.alike
        return picked(p, np.where(same, common, draw.gumbel(size=p.shape)))

    mine, blind = pick(own.full), pick(own.blind)
    others = [pick(chances(items, one, found, draw).full) for one in world.panel]
    truth = float(own.truth(items.key).mean())
    return Answered(items, own, unread(mine, items, world, draw), blind, np.array(others), truth)


def unread(pick: Ints, items: CuedItems, world: World, draw: Generator) -> Ints:
    """Return picks (n,) of which some are not read, depending on their looks."""
    better = items.true_looks[np.arange(len(items)), pick] > 0
    lost = np.where(better, world.unread[0], world.unread[1])
    return np.where(draw.random(len(pick)) < lost, -1, pick)


F, N = Behavior(follows=0.85), Behavior()
HALF = Behavior(follows=0.5)
PLAUSIBLE = Behavior(plausible=1.0)
GRADED = Behavior(graded=2.5)

SKETCHED: Mapping[str, World] = {
    "none": World("none", N),
    "none, cued harder": World("none", Behavior(ease=-1.5)),
    "none, cued easier": World("none", Behavior(ease=1.5)),
    "none, cued easier for it only": World("none", Behavior(ease=1.5), others=N),
    "none, cued easier for weak only": World("none", N, weak_ease=1.5),
    "none, eliminates 1-2 (random)": World("none", Behavior(eliminates="random")),
    "none, eliminates worst-looking": World("none", Behavior(eliminates="worst")),
    "none, graded, rho 0": World("none", GRADED),
    "none, graded, rho .4": World("none", replace(GRADED, rho=0.4)),
    "none, plausible look like keys": World("none", PLAUSIBLE, like_keys=0.5),
    "none, misconceptions 20 %": World("none", Behavior(misled=0.2)),
    "none, misconceptions by looks": World("none", Behavior(misled=0.2), beliefs_by_looks=1.0),
    "none, reader in sample": World("none", N, Form(noise=40, in_sample=True)),
    "none, 5 % wrong keys, strong": World("none", Behavior(ability=0.85), Form(wrong_keys=0.05)),
    "none, k=3": World("none", N, Form(options=(3,))),
    "none, k=10": World("none", N, Form(options=(10,))),
    "none, n=100": World("none", N, Form(n=100)),
    "none, n=3000": World("none", N, Form(n=3000)),
    "none, ability .05": World("none", Behavior(ability=0.05)),
    "none, ability .95": World("none", Behavior(ability=0.95)),
    "none, passages of 8": World("none", N, Form(passage=8)),
    "none, prefers A": World("none", Behavior(first=1.0)),
    "none, prefers A, keys 40 % A": World("none", Behavior(first=1.0), Form(first=0.2)),
    "none, blind follows": World("none", Behavior(blind=1.0)),
    "none, panel of 5": World("none", N, size=5),
    "none, plausible, panel of 5": World("none", PLAUSIBLE, size=5, like_keys=0.5),
    "follows": World("follows", F),
    "follows, cued easier": World("follows", replace(F, ease=1.5)),
    "follows, cued easier, n=1500": World("follows", replace(F, ease=1.5), Form(n=1500)),
    "follows, others do not": World("follows", F, others=N),
    "follows, eliminates random": World("follows", replace(F, eliminates="random")),
    "follows .5, graded, rho 0": World("follows", replace(GRADED, follows=0.5)),
    "follows .5, graded, rho .4": World("other", replace(GRADED, follows=0.5, rho=0.4)),
    "follows, plausible look like keys": World("follows", replace(F, plausible=1.0), like_keys=0.5),
    "follows, misconceptions 20 %": World("follows", replace(F, misled=0.2)),
    "follows, noisy reader": World("follows", F, Form(noise=60)),
    "follows .5, reader in sample": World("follows", HALF, Form(noise=40, in_sample=True)),
    "follows, 5 % wrong keys, strong": World("follows", replace(F, ability=0.85), Form(wrong_keys=0.05)),
    "follows, k=3": World("follows", F, Form(options=(3,))),
    "follows, k=5": World("follows", F, Form(options=(5,))),
    "follows, k=10": World("follows", F, Form(options=(10,))),
    "follows, k mixed 2-10": World("follows", F, Form(options=tuple(range(2, 11)))),
    "follows, n=100": World("follows", F, Form(n=100)),
    "follows, n=3000": World("follows", F, Form(n=3000)),
    "follows, ability .05": World("follows", replace(F, ability=0.05)),
    "follows, ability .95": World("follows", replace(F, ability=0.95)),
    "follows, passages of 8": World("follows", F, Form(passage=8)),
    "follows, copies x3": World("follows", F, Form(copies=3)),
    "follows, prefers A": World("follows", replace(F, first=1.0)),
    "follows on 30 % of items": World("follows", replace(F, follows=1.5, on=0.3)),
    "follows another rule (r .5)": World("follows", replace(F, rule="other")),
    "follows the best only": World("follows", replace(F, follows=0.6, rule="best")),
    "follows, panel of 5": World("follows", F, size=5),
    "follows .5, blind 2 x": World("follows", replace(HALF, blind=1.0)),
    "cue overrides knowledge 20 %": World("other", Behavior(overrides=0.2)),
    "cue overrides 20 %, no cue in set": World("other", Behavior(overrides=0.2), Form(cued=0.0)),
    "avoids the looks": World("other", Behavior(follows=-0.5)),
}
OWN: Mapping[str, World] = {
    "none, half of the items have options that are alike": World(
        "none", PLAUSIBLE, Form(alike=0.5), like_keys=0.5
    ),
    "none, models share their errors": World("none", Behavior(ease=1.5), alike=0.6),
    "none, a cue turned round in a topic that it knows worse": World(
        "none", Behavior(topic=-1.5), Form(flipped=0.3)
    ),
    "none, picks that look worse are not read": World("none", N, unread=(0.0, 0.1)),
    "none, picks that look better are not read": World("none", N, unread=(0.1, 0.0)),
    "none, undeclared copies x3": World("none", N, Form(copies=3, grouped=False)),
    "none, undeclared copies x3, plausible look like keys": World(
        "none", PLAUSIBLE, Form(copies=3, grouped=False), like_keys=0.5
    ),
    "none, four rotations as rows": World("none", Behavior(first=1.0), Form(n=600, copies=4, rotated=True)),
    "none, four rotations, undeclared": World(
        "none", Behavior(first=1.0), Form(n=600, copies=4, rotated=True, grouped=False)
    ),
    "none, panel of twins": World("none", PLAUSIBLE, weakest=0.48, strongest=0.52, alike=0.8, like_keys=0.5),
    "none, weak panel": World("none", Behavior(ease=1.5), weakest=0.05, strongest=0.3),
    "none, strong panel": World("none", Behavior(ease=1.5), weakest=0.8, strongest=0.95),
    "none, ease not linear": World("none", Behavior(steep=0.8)),
    "none, few cued, all easy": World("none", Behavior(ease=4.0), Form(cued=0.08)),
    "none, every key cued": World("none", Behavior(ease=1.5), Form(cued=1.0)),
    "none, mostly two options": World("none", PLAUSIBLE, Form(options=(2, 2, 2, 4)), like_keys=0.5),
    "none, weak others follow": World("none", Behavior(ability=0.8), others=N, weak_follow=2.0),
    "none, others follow, plausible look like keys": World(
        "none", PLAUSIBLE, others=replace(PLAUSIBLE, follows=1.0), like_keys=0.5
    ),
    "none, misconceptions of its own by looks": World(
        "none", Behavior(misled=0.2), others=N, beliefs_by_looks=1.0
    ),
    "none, misconceptions by looks that half hold": World(
        "none", Behavior(misled=0.3, holds=0.5), beliefs_by_looks=1.0
    ),
    "none, graded, rho .4, cued easier": World("none", replace(GRADED, rho=0.4, ease=1.5)),
    "none, blind follows, plausible look like keys": World(
        "none", Behavior(plausible=1.0, blind=1.0), like_keys=0.5
    ),
    "none, plausible look like keys, blind too": World(
        "none", Behavior(plausible=1.0, guessed=1.0), like_keys=0.5
    ),
    "none, plausible, cued easier for weak only": World("none", PLAUSIBLE, weak_ease=1.5, like_keys=0.5),
    "none, passages of 20, plausible look like keys": World(
        "none", PLAUSIBLE, Form(passage=20), like_keys=0.5
    ),
    "follows, the reader's twin": World("follows", replace(F, rule="reader")),
    "follows in the first places": World("follows", replace(F, rule="first places")),
    "follows, a cue turned round in one topic": World("follows", F, Form(flipped=0.3)),
    "follows, picks that look worse are not read": World("follows", F, unread=(0.0, 0.1)),
    "follows, four rotations as rows": World(
        "follows", replace(F, first=1.0), Form(n=2400, copies=4, rotated=True)
    ),
    "follows, panel of twins": World("follows", F, weakest=0.48, strongest=0.52, alike=0.8),
    "follows 2, only its longest": World("follows", replace(F, follows=2.0, rule="longest in half")),
}
BY_NAME: Mapping[str, World] = {**SKETCHED, **OWN}
DECIDE = (
    "none", "none, cued easier", "none, plausible look like keys", "none, graded, rho .4", "none, misconceptions by looks",
    "follows", "follows, cued easier, n=1500", "follows, k=5", "follows, k=10", "follows, passages of 8",
    "follows, misconceptions 20 %",
)  # fmt: skip
"""Those of which a hundred sets are drawn: those of the bars, and those nearest to them."""
