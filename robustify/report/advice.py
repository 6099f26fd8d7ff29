"""Verdict on a benchmark: the grounds that decide it.

The rules here decide when a verdict applies. The texts are in `messages.yaml`. The page, the Markdown file, and the
terminal print the same texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from robustify.judging.measures import READER, SET
from robustify.judging.stats.tests import significantly_positive
from robustify.judging.summary.quantity import Measured, Quantity, Score
from robustify.judging.summary.result import State, Summary
from robustify.judging.summary.screened import OffPosition
from robustify.report.cells import Tone
from robustify.report.format import counted, percent
from robustify.report.messages import catalogue, filled

ONE_PLACE = 0.9
"""Share of keys at one position that decides the verdict if no item is flagged."""
DEGREES = {"most": 0.4, "much": 0.15, "some": 0.05, "few": 0.0}
"""Share of the keys that is given away, above which each verdict holds."""
Words = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Grounds:
    """Values derived from a summary that decide the verdict and the advice.

    `flagged` of `of` items are flagged, and `judged` items have a verdict. `by_chance` is the share of flagged items that
    are flagged by chance, as a quantity. `real` is the share of all items that are flagged beyond chance, or 0 if there may
    be none, and `latent` estimates the share with a shortcut. `reader` is the accuracy of a reader who never sees a
    question, on all items. `state` is that of the run, `reasons` has its codes and parameters, and `audit` is that of the
    audit of the kept items. `one_position` is that of nearly all keys, or None. `hidden` is the part of an item that voters
    did not see.
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

    @property
    def whole(self) -> str:
        """Total for the flagged items in words: `of 360 items` or `of the 143 items judged`."""
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
        return (
            round(self.flagged * (self.by_chance.value or 0.0)) if self.flagged and self.by_chance else None
        )

    @property
    def answerable(self) -> tuple[int, ...]:
        """Number of items answerable without their question and the ends of its interval. Empty if chance explains all."""
        found = self.latent
        if not self.flagged or self.real == 0 or found is None or found.value is None:
            return ()
        return tuple(round((self.judged or 0) * x) for x in (found.value, *(found.ci or ())))

    @property
    def read(self) -> float:
        """Share of the keys that the reader finds beyond chance, or 0 if it is not significant."""
        score = self.reader
        if score is None or score.value is None or score.chance is None or not score.significant:
            return 0.0
        return max(0.0, (score.value - score.chance) / (1 - score.chance))


def grounds(s: Summary) -> Grounds:
    """Return the grounds of the verdict on a summary."""
    off, read = s.benchmark.key_spread.off, READER.of(s).get(SET, Measured()).all
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
        by_chance=by_chance(s),
        real=_real_share(s),
        latent=(s.screen.by_position or s.screen).latent_shortcut_rate if s.screen else None,
        reader=read if read and None not in (read.value, read.n, read.chance) else None,
        halted=tuple(check.name for check in s.halting),
        reasons={reason.code: reason.params for reason in s.reasons},
        one_position=off if off is not None and off.share >= ONE_PLACE else None,
        hidden=s.screen.hidden if s.screen else "question",
    )


def by_chance(s: Summary) -> Quantity | None:
    """Return the share of flagged items that are flagged by chance.

    The share comes from the screen, or from the latent shortcut rate if the screen does not estimate it. It is not the
    number expected under the null, which assumes a benchmark without any shortcut.
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


def _real_share(s: Summary) -> float | None:
    screen = s.screen
    if screen is None or screen.flagged.value is None:
        return None
    excess, share = (screen.by_position or screen).excess_over_chance, by_chance(s) or Quantity()
    tested = excess if excess and excess.p is not None and not screen.cut else None
    if tested and not significantly_positive(tested.p, tested.ci, screen.level):
        return 0.0
    return screen.flagged.value * (1 - (share.value or 0.0))


# The verdict


def headline(g: Grounds) -> tuple[Tone, str]:
    """Return the tone and the sentence of the verdict."""
    tone, text = catalogue()["verdicts"][_verdict_code(g)]
    read = (g.reader.value if g.reader else None) or 0.0
    who = f": a reader who never sees a question gets {percent(read)}" if g.read else ""
    return tone, filled(text, {"g": g, "who": who})


def _verdict_code(g: Grounds) -> str:
    if g.trial or g.by_letter:
        return "trial" if g.trial else "by_letter"
    if g.one_position and not g.flagged:
        return "one_position"
    if unscreened := [code for code in ("too_few", "dependent") if code in g.reasons]:
        return unscreened[0]
    if share := max(g.read, g.real or 0.0):
        return next(code for code, least in DEGREES.items() if share > least)
    if g.flagged is None:
        return "no_screen"
    if g.flagged:
        return "by_chance"
    refuted = g.state == "failed" and "above_chance" in g.reasons
    kinds = {"passed": "passed", "failed": "stopped", "not evaluated": "open"}
    return "refuted" if refuted else kinds[g.state]
