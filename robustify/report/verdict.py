"""Verdict on a benchmark, and the values in its summary that determine the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from robustify.judging.measures import CHOICES_ONLY, CLOZE, FULL, READER, SET
from robustify.judging.stats.tests import (
    significantly_positive,
)
from robustify.judging.summary.quantity import Measured, Quantity, Score
from robustify.judging.summary.result import State, Summary
from robustify.judging.summary.screen_parts import OffPosition
from robustify.report.format import Tone, counted, percent
from robustify.report.printing import catalogue, filled

ONE_PLACE = 0.9
"""Share of keys at one position that decides the verdict if no item is flagged."""
DEGREES = {"most": 0.4, "much": 0.15, "some": 0.05, "few": 0.0}
"""Share of the keys that is given away, above which each verdict holds if no model was asked with the question."""
POINTS_TO_DISTRUST = 0.01
"""Points that looks brought a model, as a share, from which its full score is not to be trusted."""
Words = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Grounds:
    """Values derived from a summary that determine the verdict and the advice.

    `flagged` of `of` items are flagged, and `judged` items have a verdict. `by_chance` is the share of the flagged
    items, and `real` the share of all items that are flagged beyond chance, 0 if there may be none. `latent` estimates
    the share with a shortcut. `reader` is the accuracy of a reader who never sees a question. `reasons` has codes with
    parameters, `audit` is the state of the audit of the kept items, `one_position` that of nearly all keys, and
    `hidden` what voters did not see. `asked` counts the models that saw the question, and `claimed` has the points that
    looks brought some of them, as shares. `unlooked` means that models have answers, but none without the question.
    """

    state: State
    audit: State
    trial: bool
    by_letter: bool
    flagged: int | None
    of: int | None
    judged: int | None
    kept: int | None
    by_chance: Quantity | None
    real: float | None
    latent: Quantity | None
    reader: Score | None
    halted: tuple[str, ...]
    reasons: Mapping[str, Words]
    one_position: OffPosition | None
    hidden: str
    n_models: int
    claimed: Mapping[str, float]
    unlooked: bool = False

    @property
    def whole(self) -> str:
        """Total from which items were flagged, in words: `of 360 items` or `of the 143 items judged`."""
        if self.judged is None or self.judged == self.of:
            return "items" if not self.of else f"of {counted(self.of, 'item')}"
        return f"of the {counted(self.judged, 'item')} judged"

    @property
    def called(self) -> str:
        """Word for the items that were not flagged: `robust` if the run passed, otherwise `kept`."""
        return "robust" if self.state == "passed" else "kept"

    @property
    def flagged_by_chance(self) -> int | None:
        """Number of items flagged by chance, or None if it is unknown."""
        if not self.flagged or self.by_chance is None:
            return None
        if self.answerable:
            return max(0, self.flagged - self.answerable[0])
        return round(self.flagged * (self.by_chance.value or 0.0))

    @property
    def answerable(self) -> tuple[int, ...]:
        """Number of items answerable without their question, with its interval. Empty if chance could explain all flags."""
        latent = self.latent
        if not self.flagged or self.real == 0 or latent is None or latent.value is None:
            return ()
        return tuple(round((self.judged or 0) * x) for x in (latent.value, *(latent.ci or ())))

    @property
    def read(self) -> float:
        """Share of the keys that the reader finds beyond chance, or 0 if this share is not significant."""
        score = self.reader
        if score is None or score.value is None or score.chance is None or not score.significant:
            return 0.0
        return max(0.0, (score.value - score.chance) / (1 - score.chance))


def grounds(s: Summary) -> Grounds:
    """Return the values of a summary that determine its verdict and its advice."""
    off, read, false = s.benchmark.key_spread.off, READER.read(s).get(SET, Measured()).all, by_chance(s)
    # A failed guardrail changes the state of the run, but it is not evidence of a shortcut.
    return Grounds(
        state=s.state,
        audit=s.residual.state if s.residual else "not evaluated",
        trial=s.trial,
        by_letter=s.by_letter,
        flagged=s.splits.flagged if s.screen else None,
        of=s.splits.all,
        judged=s.screen.flagged.n if s.screen else None,
        kept=s.splits.kept,
        by_chance=false,
        real=_real_share(s, false),
        latent=(s.screen.by_position or s.screen).latent_shortcut_rate if s.screen else None,
        reader=read if read and None not in (read.value, read.n, read.chance) else None,
        halted=tuple(check.name for check in s.halting),
        reasons={reason.code: reason.params for reason in s.reasons},
        one_position=off if off is not None and off.share >= ONE_PLACE else None,
        hidden=s.screen.hidden if s.screen else "question",
        n_models=len({**FULL.read(s), **CLOZE.read(s)}),
        claimed={
            name: looks.value
            for name, looks in ((name, model.looks) for name, model in s.models.items())
            if looks is not None and looks.state == "claimed" and looks.value is not None
        },
        unlooked=bool(s.models) and not CHOICES_ONLY.read(s),
    )


def by_chance(s: Summary) -> Quantity | None:
    """Return the share of flags due to chance, from the screen's estimate or from the latent shortcut rate.

    It is not the number expected under the null, which assumes a benchmark without any shortcut.
    """
    screen = s.screen
    if screen is None:
        return None
    given = screen.cut.false_share if screen.cut else screen.false_share
    if given.value is not None:
        return given
    removed, latent = screen.flagged.value, (screen.by_position or screen).latent_shortcut_rate
    if not removed or latent.value is None:
        return None
    value, *ends = (min(1.0, max(0.0, (removed - x) / removed)) for x in (latent.value, *(latent.ci or ())))
    return Quantity(value=value, ci=(ends[1], ends[0]) if ends else None)


def _real_share(s: Summary, false: Quantity | None) -> float | None:
    screen = s.screen
    if screen is None or screen.flagged.value is None:
        return None
    excess = (screen.by_position or screen).excess_over_chance
    tested = excess if excess and excess.p is not None and not screen.cut else None
    if tested and not significantly_positive(tested.p, tested.ci, screen.level):
        return 0.0
    return screen.flagged.value * (1 - ((false and false.value) or 0.0))


def headline(g: Grounds) -> tuple[Tone, str]:
    """Return the verdict as a tone and a sentence."""
    tone, text = catalogue()["verdicts"][_verdict_code(g)]
    read = (g.reader.value if g.reader else None) or 0.0
    who, gets = "a reader who never sees a question", f"gets {percent(read)}"
    owed = {name: share for name, share in g.claimed.items() if share >= POINTS_TO_DISTRUST} or g.claimed
    words = {"who": f": {who} {gets}" if g.read else "", "reader": f": a reader {gets}" if g.read else ""}
    agrees = tone != "good" or g.state != "failed"
    return tone if agrees else "unsure", filled(text, {"g": g, "owed": owed, **words})


def _verdict_code(g: Grounds) -> str:
    if g.trial or g.by_letter:
        return "trial" if g.trial else "by_letter"
    if g.one_position and not g.flagged:
        return "one_position"
    if unscreened := [code for code in ("too_few", "dependent") if code in g.reasons]:
        return unscreened[0]
    if max(g.claimed.values(), default=0.0) >= POINTS_TO_DISTRUST:
        return "owed"
    if share := max(g.read, g.real or 0.0):
        degree = next(code for code, least in DEGREES.items() if share > least)
        return f"{'few_' if degree == 'few' else ''}keys" if g.n_models else degree
    if g.flagged is None:
        return "no_screen"
    if g.flagged:
        return "by_chance"
    refuted = g.state == "failed" and "above_chance" in g.reasons
    kinds = {"passed": "passed", "failed": "stopped", "not evaluated": "unlooked" if g.unlooked else "open"}
    return "refuted" if refuted else kinds[g.state]
