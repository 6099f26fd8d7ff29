"""Looks of one model: the points that it owes to options that look like keys, and the number to quote."""

from typing import Literal

from robustify.judging.summary.quantity import Quantity, Reason

LooksState = Literal["claimed", "wrong picks only", "cannot tell"]
LooksSourceName = Literal["wrong", "blind", "panel"]


class LooksSource(Quantity):
    """Share of its right answers that a model owes to looks, by one source, with the number of picks that the source
    used."""

    picks: int


class Looks(Quantity):
    """Share of items that a model got right by looks, by the source with the smallest. It is `claimed` if at least two
    sources have a lower limit above 0, and an association if only `wrong` picks are known. The 95 % interval spans
    those of all sources, so that it holds if any of them is sound. Its lower limit alone is one-sided at 97.5 %. With
    `unanswered` rows, it also spans all answers that they could have been.
    `less` is the score less this share, with its own interval. `reason` says why the run cannot tell."""

    state: LooksState
    sources: dict[LooksSourceName, LooksSource]
    wrong_picks: int
    unanswered: int
    reason: Reason | None = None
    less: Quantity | None = None


class Quoted(Quantity):
    """Number to quote of a model: its score, less looks where these are claimed, or its cloze score."""

    kind: Literal["score less looks", "score", "cloze"]


def number_to_quote(full: Quantity | None, looks: Looks | None) -> Quoted | None:
    """Return the number to quote, given the score on the full question. Return None if the model was not asked it."""
    if looks is not None and looks.state == "claimed" and looks.less is not None:
        return Quoted.from_rate(looks.less, kind="score less looks")
    return None if full is None or full.value is None else Quoted.from_rate(full, kind="score")
