"""Verdict on a benchmark and the actions to take.

The rules here decide when a verdict or an advice applies. Their texts are in `messages.yaml`. The page, the Markdown
file, and the terminal print the same texts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from robustify.report.format import at, counted
from robustify.report.messages import catalogue, cue_words, filled, is_trial
from robustify.report.rows import heuristics
from robustify.report.tables import Tone
from robustify.stats.tests import LEVEL, items_to_detect, significantly_positive

MOST, MOST_CUES = 8, 3
ONE_PLACE = 0.9
"""Share of keys at one position that decides the verdict if no item is flagged."""
MARGIN = 0.05
"""Largest share of items with a shortcut for the verdict `few` if the run records no margin."""
Words = Mapping[str, Any]
Tree = Mapping[str, Any]
State = Literal["passed", "failed", "not evaluated"]
STATES: Mapping[str | None, State] = {
    "certified": "passed", "not certified": "failed", "adjusted": "passed",
}  # fmt: skip
"""State of the audit of kept items and of the adjusted score. Any other value is `not evaluated`."""
UNSEEN = {"no_independent_auditor", "no_auditor", "nothing_to_see", "could_not_see"}
"""Reasons of a certificate that another auditor could remove."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Values derived from a summary that decide the verdict and the advice.

    `flagged` of `of` items are flagged, and `judged` items have a verdict. `by_chance` is the share of flagged items that
    are flagged by chance, as a quantity. `real` is the share of all items that are flagged beyond chance, or 0 if there may
    be none. `audit` is the result of the audit of the kept items. `reasons` maps the codes of the certificate's reasons to
    their parameters. `one_place` is the position of nearly all keys, or None. `hidden` is the part of an item that voters
    did not see.
    """

    verdict: str | None
    audit: State
    trial: bool
    flagged: int | None
    of: int | None
    judged: int | None
    robust: int | None
    by_chance: Mapping[str, Any] | None
    real: float | None
    margin: float
    halted: tuple[str, ...]
    reasons: Mapping[str, Words]
    one_place: Mapping[str, Any] | None
    hidden: str

    @property
    def whole(self) -> str:
        """Total for the flagged items in words: `of 360 items` or `of the 143 items judged`."""
        if self.judged is None or self.judged == self.of:
            return "items" if not self.of else f"of {counted(self.of, 'item')}"
        return f"of the {counted(self.judged, 'item')} judged"

    @property
    def kept(self) -> str:
        """Word for the items that were not flagged: `robust` if their audit passed, otherwise `kept`."""
        return "robust" if self.audit == "passed" else "kept"

    @property
    def flagged_by_chance(self) -> int | None:
        """Number of items flagged by chance, or None if it is unknown."""
        return self.flagged - self.answerable[0] if self.flagged and self.by_chance else None

    @property
    def answerable(self) -> tuple[int, ...]:
        """Number of items answerable without their question, then the ends of its interval if there is one."""
        share, n = self.by_chance or {"value": 0.0, "ci": None}, self.flagged or 0
        return tuple(round(n * (1 - x)) for x in (share["value"], *(share["ci"] or ())[::-1]))


def facts(s: Tree) -> Facts:
    """Return the facts of a summary."""
    flagged = at(s, "screen.flagged")
    share, n = at(flagged, "value"), at(flagged, "n")
    found, of = at(s, "splits.shortcut") if s["screen"] else None, at(s, "splits.all")
    if s["screen"] and found is None:
        found, of = None if share is None or n is None else round(share * n), n
    margin, place = at(s, "residual.margin"), at(s, "benchmark.key_places.off")
    verdict = at(s, "certificate.verdict")
    # A failed guardrail changes the certificate, but it is not evidence of a shortcut.
    audit = verdict if verdict in (None, "not judged") else at(s, "residual.verdict") or verdict
    return Facts(
        verdict=verdict,
        audit=STATES.get(audit, "not evaluated"),
        trial=is_trial(s),
        flagged=found,
        of=of,
        judged=n,
        robust=at(s, "splits.robust"),
        by_chance=by_chance(s),
        real=_real_share(s),
        margin=MARGIN if margin is None else margin,
        halted=tuple(
            g["name"] or "a guardrail" for g in s["guardrails"] if g["halts_export"] and not g["passed"]
        ),
        reasons={r["code"]: r["params"] for r in at(s, "certificate.reasons") or ()},
        one_place=place if (at(place, "share") or 0.0) >= ONE_PLACE else None,
        hidden=at(s, "screen.hidden") or "question",
    )


def by_chance(s: Tree) -> Mapping[str, Any] | None:
    """Return the share of flagged items that are flagged by chance.

    The share comes from the screen, or from the latent shortcut rate if the screen does not estimate it. It is not the
    number expected under the null, which assumes a benchmark without any shortcut.
    """
    screen = at(s, "screen") or {}
    given = at(screen, "cut.false_share") if at(screen, "cut") else at(screen, "false_share")
    if at(given, "value") is not None:
        return dict(given)
    removed, latent = (
        at(screen, "flagged.value"),
        at(screen.get("by_place") or screen, "latent_shortcut_rate"),
    )
    if not removed or at(latent, "value") is None:
        return None
    left = [min(1.0, max(0.0, (removed - x) / removed)) for x in (latent["value"], *(latent["ci"] or ()))]
    return {"value": left[0], "ci": left[:0:-1] or None}


def _real_share(s: Tree) -> float | None:
    screen = at(s, "screen") or {}
    excess = at(screen.get("by_place") or screen, "excess_over_chance")
    flagged, p = at(screen, "flagged.value"), at(excess, "p")
    if flagged is None:
        return None
    level = LEVEL if screen.get("level") is None else screen["level"]
    if not screen.get("cut") and p is not None and not significantly_positive(p, excess["ci"], level):
        return 0.0
    return float(flagged * (1 - (at(by_chance(s), "value") or 0.0)))


# The verdict


def verdict_of(s: Tree, f: Facts) -> tuple[Tone, str]:
    """Return the tone and the sentence of the verdict."""
    tone, text = catalogue()["verdicts"][_verdict_code(f)]
    return tone, filled(text, {"f": f})


def _verdict_code(f: Facts) -> str:
    if f.trial or f.verdict == "not judged":
        return "trial" if f.trial else "by_letter"
    if f.one_place and not f.flagged:
        return "one_place"
    if f.reasons.keys() & {"too_few", "no_screen"}:
        return "too_few" if "too_few" in f.reasons else "no_screen"
    refuted = f.verdict == "not certified" and "above_chance" in f.reasons
    if not f.flagged:
        found = "unscreened" if f.flagged is None else "none"
        kind = {"certified": "certified", "not certified": "stopped", None: "unaudited"}.get(
            f.verdict, "open"
        )
        return f"{found}_{'refuted' if refuted else kind}"
    if refuted:
        return "refuted"
    if f.real == 0:
        return "by_chance"
    return "few" if f.real is not None and f.real <= f.margin else "many"


# What to do


When = Callable[[Tree, Facts], Sequence[Words]]
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


def recommendations(s: Tree, f: Facts) -> tuple[Recommendation, ...]:
    """Return the advice for a run, the most urgent first."""
    rules = {**(UNJUDGED if f.trial or f.verdict == "not judged" else JUDGED), **ALWAYS}
    found = (_said(code, {"f": f, **words}) for code, when in rules.items() for words in when(s, f))
    return tuple(islice(found, MOST))


def _said(code: str, words: Words) -> Recommendation:
    texts = {name: filled(text, words) for name, text in catalogue()["advice"][code].items()}
    return Recommendation(code, n=words["n"], **texts)


def _if(there: object, **words: Any) -> Sequence[Words]:
    return (words,) if there and words["n"] is not None else ()


def _report(s: Tree, f: Facts) -> Sequence[Words]:
    """Recommend the score on robust items if their audit passed, otherwise the adjusted score."""
    adjusted = at(s, "adjustment.status") in ("adjusted", "partly adjusted") and f.audit != "passed"
    there = f.robust and f.of and not f.halted and f.flagged and f.real
    return _if(there, n=at(s, "adjustment.n") if adjusted else f.robust, adjusted=adjusted)


def _cues(s: Tree, f: Facts) -> Sequence[Words]:
    """Return the commonest cues. Each flagged item counts under its first cue."""
    cues, mends = at(s, "evidence.cues") or {}, cue_words("advice")
    sizes = sorted(((_size(q), cue) for cue, q in cues.items() if cue in mends), key=lambda one: -one[0])
    largest = [one for one in sizes[:MOST_CUES] if one[0]]
    return [{"n": n, "cue": cue, "mend": mends[cue], "more": i > 0} for i, (n, cue) in enumerate(largest)]


def _other_cues(s: Tree, f: Facts) -> Sequence[Words]:
    named, cues = _cues(s, f), at(s, "evidence.cues")
    rest = (f.flagged or 0) - sum(one["n"] for one in named)
    some = None if cues is None else len(cues.keys() & cue_words("advice").keys()) > len(named)
    return _if(rest > 0, n=rest, more=bool(named), some=some)


def _best_rule(s: Tree, f: Facts) -> Sequence[Words]:
    """Return the most accurate rule without a model if no cue is counted."""
    found = [(at(row, "all.value"), name, at(row, "all.p_holm")) for name, row in heuristics(s).items()]
    above = sorted((x, name) for x, name, p in found if x is not None and _below(p))
    return [{"name": name, "share": x, "n": f.of} for x, name in above[-1:] if not at(s, "evidence.cues")]


def _more(s: Tree, f: Facts) -> Sequence[Words]:
    """Recommend more items if the audit of the kept items lacks power."""
    chance, margin = at(s, "residual.chance"), at(s, "residual.margin")
    if f.verdict != "inconclusive" or not (f.robust and f.of and chance and margin):
        return ()
    needed = items_to_detect(chance, margin)
    if needed <= f.robust:
        return ()
    more = needed * f.of / f.robust - f.of
    step = 10 ** max(0, len(str(int(more))) - 2)
    return _if(True, n=math.ceil(more / step) * step)


def _below(p: float | None) -> bool:
    return p is not None and p <= LEVEL


def _defects(s: Tree, f: Facts) -> Sequence[Words]:
    sizes = [(e["n"], kind) for kind, e in (at(s, "benchmark.defects") or {}).items() if e["n"]]
    return [{"n": n, "kind": kind} for n, kind in sorted(sizes)[-1:]]


def _voted(s: Tree) -> bool:
    return bool(at(s, "screen.voters"))


def _sized(path: str) -> When:
    """Return an advice rule that applies if the share at `path` is above zero."""
    return lambda s, f: _if(_size(at(s, path)), n=_size(at(s, path)))


def _size(share: Any) -> int:
    return round((at(share, "value") or 0.0) * (at(share, "n") or 0))


UNJUDGED: Mapping[str, When] = {
    "run_whole": lambda s, f: _if(f.trial, **{**f.reasons.get("trial_run", {}), "n": f.of}),
    "ask_by_text": lambda s, f: _if(not f.trial, n=f.of),
}
JUDGED: Mapping[str, When] = {
    "mend_guardrail": lambda s, f: [{"name": name, "n": f.of} for name in f.halted[:1]],
    "report": _report,
    "keep": lambda s, f: _if(f.audit == "passed" and not (f.halted or (f.flagged and f.real)), n=f.robust),
    "mend_cue": _cues,
    "other_cues": _other_cues,
    "mend_rule": _best_rule,
    "audit": lambda s, f: _if(UNSEEN & f.reasons.keys(), n=f.robust),
    "screen_again": lambda s, f: _if(
        f.verdict == "not certified" and not UNSEEN & f.reasons.keys(), n=f.robust, voted=_voted(s)
    ),
    "ask_more": _more,
    "give_texts": lambda s, f: _if(s["heuristics"] is None and f.of, n=f.of),
    "ask_models": lambda s, f: _if("no_screen" in f.reasons and s["heuristics"] and not _voted(s), n=f.of),
}
ALWAYS: Mapping[str, When] = {
    "mend_defects": _defects,
    "replace_seen": _sized("contamination.overlap.found"),
    "review_keys": _sized("label_noise.flagged"),
    "shuffle_keys": lambda s, f: _if(_below(at(s, "benchmark.key_places.p")), n=f.of),
    "ask_again": lambda s, f: _if(at(s, "screen.unanswered"), n=at(s, "screen.unanswered")),
}
"""Rules for runs that were not judged, for judged runs, and for all runs, the most urgent first."""
