"""Verdict on a benchmark and the actions to take.

The rules here decide when a verdict or an advice applies. Their texts are in `messages.yaml`. The page, the Markdown
file, and the terminal print the same texts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from robustify.judging.measures import RULE
from robustify.judging.stats.tests import LEVEL, items_to_detect, significantly_positive
from robustify.judging.summary.quantity import Quantity
from robustify.judging.summary.result import State, Summary
from robustify.judging.summary.screened import OffPosition
from robustify.report.cells import Tone
from robustify.report.format import counted
from robustify.report.messages import catalogue, cue_words, filled, in_items

MOST, MOST_CUES = 8, 3
ONE_PLACE = 0.9
"""Share of keys at one position that decides the verdict if no item is flagged."""
MARGIN = 0.05
"""Largest share of items with a shortcut for the verdict `few` if the run records no margin."""
Words = Mapping[str, Any]
UNSEEN = {"no_independent_auditor", "no_auditor", "nothing_to_see", "could_not_see"}
"""Reasons of a state that another auditor could remove."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """Values derived from a summary that decide the verdict and the advice.

    `flagged` of `of` items are flagged, and `judged` items have a verdict. `by_chance` is the share of flagged items that
    are flagged by chance, as a quantity. `real` is the share of all items that are flagged beyond chance, or 0 if there may
    be none. `state` is that of the run, `reasons` has its codes and parameters, and `audit` is that of the audit
    of the kept items. `one_position` is that of nearly all keys, or None. `hidden` is the part of an item that voters
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
    margin: float
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
        return self.flagged - self.answerable[0] if self.flagged and self.by_chance else None

    @property
    def answerable(self) -> tuple[int, ...]:
        """Number of items answerable without their question, then the ends of its interval if there is one."""
        share, n = self.by_chance or Quantity(value=0.0), self.flagged or 0
        return tuple(round(n * (1 - x)) for x in (share.value or 0.0, *(share.ci or ())[::-1]))


def grounds(s: Summary) -> Grounds:
    """Return the grounds of the verdict on a summary."""
    off = s.benchmark.key_spread.off
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
        margin=s.residual.margin if s.residual else MARGIN,
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
    return tone, filled(text, {"g": g})


def _verdict_code(g: Grounds) -> str:
    if g.trial or g.by_letter:
        return "trial" if g.trial else "by_letter"
    if g.one_position and not g.flagged:
        return "one_position"
    if unscreened := [code for code in ("too_few", "no_screen", "dependent") if code in g.reasons]:
        return unscreened[0]
    refuted = g.state == "failed" and "above_chance" in g.reasons
    if not g.flagged:
        found = "unscreened" if g.flagged is None else "none"
        kind = {"passed": "passed", "failed": "stopped", "not evaluated": "open"}[g.state]
        return f"{found}_{'refuted' if refuted else kind}"
    if refuted:
        return "refuted"
    if g.real == 0:
        return "by_chance"
    return "few" if g.real is not None and g.real <= g.margin else "many"


# What to do


When = Callable[[Summary, Grounds], Sequence[Words]]
"""Function that returns the template values for each case in which an advice applies. `n` is the number of items."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Advice and the number of items that it applies to.

    `action` begins with that number. `section` is the anchor of the report section with the evidence.
    """

    code: str
    action: str
    section: str
    n: int


def recommendations(s: Summary, g: Grounds) -> tuple[Recommendation, ...]:
    """Return the advice for a run, the most urgent first."""
    rules = {**(UNJUDGED if g.trial or g.by_letter else JUDGED), **ALWAYS}
    found = (_said(code, {"g": g, **words}) for code, when in rules.items() for words in when(s, g))
    return tuple(islice(found, MOST))


def _said(code: str, words: Words) -> Recommendation:
    texts = {name: filled(text, words) for name, text in catalogue()["advice"][code].items()}
    return Recommendation(code, n=words["n"], **texts)


def _if(there: object, **words: Any) -> Sequence[Words]:
    return (words,) if there and words["n"] is not None else ()


def _report(s: Summary, g: Grounds) -> Sequence[Words]:
    """Recommend the score on the kept items if their audit passed, otherwise the adjusted score."""
    there = g.kept and g.of and not g.halted and g.flagged and g.real
    if s.adjustment and s.adjustment.status != "withheld" and g.audit != "passed":
        return _if(there, n=s.adjustment.n, adjusted=True)
    return _if(there, n=g.kept, adjusted=False)


def _cues(s: Summary, g: Grounds) -> Sequence[Words]:
    """Return the commonest cues. Each flagged item counts under its first cue."""
    cues, mends = s.evidence.cues if s.evidence else {}, cue_words("advice")
    sizes = sorted(((in_items(q), cue) for cue, q in cues.items() if cue in mends), key=lambda one: -one[0])
    largest = [one for one in sizes[:MOST_CUES] if one[0]]
    return [{"n": n, "cue": cue, "mend": mends[cue], "more": i > 0} for i, (n, cue) in enumerate(largest)]


def _other_cues(s: Summary, g: Grounds) -> Sequence[Words]:
    named = _cues(s, g)
    rest = (g.flagged or 0) - sum(one["n"] for one in named)
    some = len(s.evidence.cues.keys() & cue_words("advice").keys()) > len(named) if s.evidence else None
    return _if(rest > 0, n=rest, more=bool(named), some=some)


def _best_rule(s: Summary, g: Grounds) -> Sequence[Words]:
    """Return the most accurate rule without a model if no cue is counted."""
    rules = ((name, parts.all) for name, parts in RULE.of(s).items())
    above = sorted((q.value, name) for name, q in rules if q and q.value is not None and _below(q.p_holm))
    counted_cues = s.evidence and s.evidence.cues
    return [{"name": name, "share": x, "n": g.of} for x, name in above[-1:] if not counted_cues]


def _more(s: Summary, g: Grounds) -> Sequence[Words]:
    """Recommend more items if the audit of the kept items lacks power."""
    audit = s.residual
    if g.state != "not evaluated" or not (g.kept and g.of and audit and audit.chance and audit.margin):
        return ()
    needed = items_to_detect(audit.chance, audit.margin)
    if needed <= g.kept:
        return ()
    more = needed * g.of / g.kept - g.of
    step = 10 ** max(0, len(str(int(more))) - 2)
    return _if(True, n=math.ceil(more / step) * step)


def _below(p: float | None) -> bool:
    return p is not None and p <= LEVEL


def _defects(s: Summary, g: Grounds) -> Sequence[Words]:
    sizes = [(found.n, kind) for kind, found in s.benchmark.defects.items() if found.n]
    return [{"n": n, "kind": kind} for n, kind in sorted(sizes)[-1:]]


def _voted(s: Summary) -> bool:
    return bool(s.screen and s.screen.voters)


def _sized(n: int) -> Sequence[Words]:
    return _if(n, n=n)


UNJUDGED: Mapping[str, When] = {
    "run_whole": lambda s, g: _if(g.trial, **{**g.reasons.get("trial_run", {}), "n": g.of}),
    "ask_by_text": lambda s, g: _if(not g.trial, n=g.of),
}
JUDGED: Mapping[str, When] = {
    "mend_guardrail": lambda s, g: [{"name": name, "n": g.of} for name in g.halted[:1]],
    "report": _report,
    "keep": lambda s, g: _if(g.audit == "passed" and not (g.halted or (g.flagged and g.real)), n=g.kept),
    "mend_cue": _cues,
    "other_cues": _other_cues,
    "mend_rule": _best_rule,
    "audit": lambda s, g: _if(UNSEEN & g.reasons.keys(), n=g.kept),
    "screen_again": lambda s, g: _if(
        g.state == "failed" and not UNSEEN & g.reasons.keys(), n=g.kept, voted=_voted(s)
    ),
    "ask_more": _more,
    "give_texts": lambda s, g: _if(not RULE.of(s) and g.of, n=g.of),
    "ask_models": lambda s, g: _if("no_screen" in g.reasons and RULE.of(s) and not _voted(s), n=g.of),
}
ALWAYS: Mapping[str, When] = {
    "mend_defects": _defects,
    "replace_seen": lambda s, g: _sized(in_items(s.contamination.overlap.found) if s.contamination else 0),
    "review_keys": lambda s, g: _sized(in_items(s.label_noise.flagged) if s.label_noise else 0),
    "name_passages": lambda s, g: _sized(s.benchmark.parallel_items),
    "shuffle_keys": lambda s, g: _if(_below(s.benchmark.key_spread.p), n=g.of),
    "ask_again": lambda s, g: _sized(s.screen.unanswered if s.screen else 0),
}
"""Rules for runs that were not judged, for judged runs, and for all runs, the most urgent first."""
