"""Say in one line whether a benchmark may be trusted, and what to do about it: a table of rules over the summary.

A rule says when it applies. What to do and why, where to look and what the advice rests on are in
`messages.yaml`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from robustify.report.figures import heuristics
from robustify.report.format import at, counted
from robustify.report.messages import catalogue, cue_words, filled, finding, is_trial
from robustify.report.tables import Tone
from robustify.stats.tests import (
    LEVEL,
    items_to_detect,
    minimum_detectable_difference,
    significantly_positive,
)

MOST, MOST_CUES = 5, 2
ONE_PLACE = 0.9
"""The share of keys at one position from which that is the verdict, if nothing else was found."""
MARGIN = 0.05
"""The share of items with a shortcut up to which a full score may be used with care, if no margin is recorded."""
Words = Mapping[str, Any]
Tree = Mapping[str, Any]
UNSEEN = {"no_independent_auditor", "no_auditor", "nothing_to_see", "could_not_see"}
"""Reasons of a certificate for which another auditor would help."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a summary says of its benchmark as a whole: the derived values of the verdict and of the advice.

    `flagged` of `of` items, of which `judged` have a verdict; `by_chance` is the share of chance among the flagged, a
    quantity; `real` the share of all items that is flagged beyond chance, 0 if that may be none. `one_place`: the position
    of nearly all keys, None if there is none. `hidden`: the part of an item that voters did not see.
    """

    verdict: str | None
    trial: bool
    flagged: int | None
    of: int | None
    judged: int | None
    robust: int | None
    undecided: int | None
    by_chance: Mapping[str, Any] | None
    real: float | None
    margin: float
    halted: tuple[str, ...]
    reasons: tuple[Any, ...]
    one_place: Mapping[str, Any] | None
    hidden: str

    @property
    def whole(self) -> str:
        """What the flagged are a part of: `of 360 items`, or `of the 143 items judged`."""
        if self.judged is None or self.judged == self.of:
            return "items" if not self.of else f"of {counted(self.of, 'item')}"
        return f"of the {counted(self.judged, 'item')} judged"


def facts(s: Tree) -> Facts:
    """Return the derived values of a summary; what it does not say is None."""
    flagged = at(s, "screen.flagged")
    share, n = at(flagged, "value"), at(flagged, "n")
    found, of = at(s, "splits.shortcut") if s["screen"] else None, at(s, "splits.all")
    if s["screen"] and found is None:
        found, of = None if share is None or n is None else round(share * n), n
    margin, place = at(s, "residual.margin"), at(s, "benchmark.key_places.off")
    return Facts(
        verdict=at(s, "certificate.verdict"),
        trial=is_trial(s),
        flagged=found,
        of=of,
        judged=n,
        robust=at(s, "splits.robust"),
        undecided=at(s, "splits.undecided"),
        by_chance=by_chance(s),
        real=_real_share(s),
        margin=MARGIN if margin is None else margin,
        halted=tuple(
            g["name"] or "a guardrail" for g in s["guardrails"] if g["halts_export"] and not g["passed"]
        ),
        reasons=tuple(at(s, "certificate.reasons") or ()),
        one_place=place if (at(place, "share") or 0.0) >= ONE_PLACE else None,
        hidden=at(s, "screen.hidden") or "question",
    )


def by_chance(s: Tree) -> Mapping[str, Any] | None:
    """Return the share of chance among the flagged: as the screen gives it, or what latent shortcuts leave of them.

    It is not the expected over the flagged: that expectation is of a benchmark without a single shortcut.
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


# The verdict in one line

TONES: Mapping[str | None, Tone] = {"certified": "good", "not certified": "bad"}


def verdict_in_short(s: Tree) -> tuple[Tone, str]:
    """Return whether the benchmark may be trusted: the tone, and one line of at most twenty words."""
    f = facts(s)
    codes = {r["code"]: r["params"] for r in f.reasons}
    line = finding("verdict", s, f=f, codes=codes)
    if f.trial or f.verdict == "not judged":
        return "unsure", line
    if f.one_place and not f.flagged:
        return "bad", line
    if codes.keys() & {"no_screen", "too_few"} or (f.flagged and f.real == 0):
        return "unsure", line
    few = f.flagged and f.real is not None and f.real <= f.margin
    if not f.flagged or not f.of or f.verdict == "not certified" or few:
        return TONES.get(f.verdict, "unsure"), line
    return "bad", line


# What to do


When = Callable[[Tree, Facts], Sequence[Words]]
"""The words of each case in which a kind of advice applies; `n` among them is the number of items it is about."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One thing to do; its texts are in `messages.yaml`.

    `action`: at most ten words; `section` of the report to look at; `source`: what the advice rests on; `filters`: those
    of the explorer; `n`: the items it is about.
    """

    code: str
    action: str
    why: str
    section: str
    source: str
    n: int | None = None
    filters: str = ""

    def link(self, explorer: bool) -> str:
        """Return where to look: the explorer under these filters if there is one, else the section of the report."""
        return f"explorer.html#{self.filters}" if explorer and self.filters else f"#{self.section}"


def recommendations(s: Tree) -> tuple[Recommendation, ...]:
    """Return what to do now, the most pressing first, at most five."""
    f = facts(s)
    rules = {**(UNJUDGED if f.trial or f.verdict == "not judged" else JUDGED), **ALWAYS}
    found = (_said(code, {"f": f, **words}) for code, when in rules.items() for words in when(s, f))
    return tuple(islice(found, MOST))


def _said(code: str, words: Words) -> Recommendation:
    texts = {name: filled(text, words) for name, text in catalogue()["advice"][code].items()}
    return Recommendation(code, n=words.get("n"), **texts)


def _if(there: object, **words: Any) -> Sequence[Words]:
    return (words,) if there else ()


def _by_letter(s: Tree, f: Facts) -> Sequence[Words]:
    picking = [r["params"]["voter"] for r in f.reasons if r["code"] == "one_place"]
    return _if(not f.trial, voters=" and ".join(picking) or "a voter")


def _use_robust(s: Tree, f: Facts) -> Sequence[Words]:
    return _if(f.robust and f.of and not f.halted and f.flagged and f.real, n=f.robust)


def _keep(s: Tree, f: Facts) -> Sequence[Words]:
    there = f.robust and f.of and not f.halted and f.verdict == "certified" and not (f.flagged and f.real)
    return _if(there, n=f.of)


def _cues(s: Tree, f: Facts) -> Sequence[Words]:
    cues, mends = at(s, "evidence.cues") or {}, cue_words("advice")
    sizes = sorted(((_size(cues.get(cue)), cue) for cue in mends), key=lambda one: -one[0])
    return [{"n": n, "cue": cue, "mend": mends[cue]} for n, cue in sizes[:MOST_CUES] if n]


def _best_rule(s: Tree, f: Facts) -> Sequence[Words]:
    """Return the rule without a model that scores most, if no cue is counted."""
    found = [(at(row, "all.value"), name, at(row, "all.p_holm")) for name, row in heuristics(s).items()]
    above = sorted((x, name) for x, name, p in found if x is not None and p is not None and p <= LEVEL)
    return [{"name": name, "share": x} for x, name in above[-1:] if not at(s, "evidence.cues")]


def _audit(s: Tree, f: Facts) -> Sequence[Words]:
    return _if(UNSEEN & {r["code"] for r in f.reasons})


def _screen_again(s: Tree, f: Facts) -> Sequence[Words]:
    return _if(f.verdict == "not certified" and not _audit(s, f))


def _more(s: Tree, f: Facts) -> Sequence[Words]:
    """Ask for more items if even an auditor at chance could hardly be shown to stay below the margin."""
    chance, margin = at(s, "residual.chance"), at(s, "residual.margin")
    if f.verdict != "inconclusive" or not (f.robust and f.of and chance and margin):
        return ()
    needed, least = items_to_detect(chance, margin), minimum_detectable_difference(f.robust, chance)
    if needed <= f.robust or math.isnan(least):
        return ()
    more = needed * f.of / f.robust - f.of
    step = 10 ** max(0, len(str(int(more))) - 2)
    return _if(True, n=math.ceil(more / step) * step, least=least, margin=margin)


def _defects(s: Tree, f: Facts) -> Sequence[Words]:
    sizes = [(e["n"], kind) for kind, e in (at(s, "benchmark.defects") or {}).items() if e["n"]]
    return [{"n": n, "kind": kind} for n, kind in sorted(sizes)[-1:]]


def _sized(path: str) -> When:
    """Return a rule that applies if the share at this path is of any item."""
    return lambda s, f: _if(_size(at(s, path)), n=_size(at(s, path)))


def _size(share: Any) -> int:
    return round((at(share, "value") or 0.0) * (at(share, "n") or 0))


def _uneven(s: Tree, f: Facts) -> Sequence[Words]:
    p = at(s, "benchmark.key_places.p")
    return _if(p is not None and p <= LEVEL)


def _unanswered(s: Tree, f: Facts) -> Sequence[Words]:
    return _if(at(s, "screen.unanswered"), n=at(s, "screen.unanswered"))


UNJUDGED: Mapping[str, When] = {
    "run_whole": lambda s, f: [{**r["params"], "n": f.of} for r in f.reasons if r["code"] == "trial_run"],
    "ask_by_text": _by_letter,
}
JUDGED: Mapping[str, When] = {
    "mend_guardrail": lambda s, f: [{"name": name} for name in f.halted[:1]],
    "use_robust": _use_robust,
    "keep": _keep,
    "mend_cue": _cues,
    "mend_rule": _best_rule,
    "audit": _audit,
    "screen_again": _screen_again,
    "ask_more": _more,
}
ALWAYS: Mapping[str, When] = {
    "mend_defects": _defects,
    "replace_seen": _sized("contamination.overlap.found"),
    "review_keys": _sized("label_noise.flagged"),
    "shuffle_keys": _uneven,
    "ask_again": _unanswered,
}
"""When each kind of advice applies, the most pressing first: to a run not judged, to a judged one, to every run."""
