"""Say in one line whether a benchmark may be trusted, and what to do about it: a table of rules over the summary.

A rule says when it applies. What to do and why, where its number is, where to look and what the advice rests on are in
`messages.yaml`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from robustify.report.figures import heuristics
from robustify.report.format import at, count, counted, percent, plain, spaced
from robustify.report.messages import catalogue, cue_words, is_trial
from robustify.report.tables import Tone
from robustify.stats.tests import (
    LEVEL,
    items_to_detect,
    minimum_detectable_difference,
    significantly_positive,
)

MOST, MOST_CUES = 5, 2
MARGIN = 0.05
"""The share of items with a shortcut up to which a full score may be used with care, if no margin is recorded."""
Words = Mapping[str, Any]
Tree = Mapping[str, Any]
UNSEEN = {"no_independent_auditor", "no_auditor", "nothing_to_see", "could_not_see"}
"""Reasons of a certificate for which another auditor would help."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a summary says of its benchmark as a whole: the derived values of the verdict and of the advice.

    `flagged` of `of` items; `by_chance` is the share of chance among them, a quantity; `real` the share of all items that
    is flagged beyond chance, 0 if that may be none.
    """

    verdict: str | None
    trial: bool
    flagged: int | None
    of: int | None
    robust: int | None
    undecided: int | None
    by_chance: Mapping[str, Any] | None
    real: float | None
    margin: float
    halted: tuple[str, ...]
    reasons: tuple[Any, ...]


def facts(s: Tree) -> Facts:
    """Return the derived values of a summary; what it does not say is None."""
    flagged = at(s, "screen.flagged")
    share, n = at(flagged, "value"), at(flagged, "n")
    found, of = at(s, "splits.shortcut") if s["screen"] else None, at(s, "splits.all")
    if s["screen"] and found is None:
        found, of = None if share is None or n is None else round(share * n), n
    margin = at(s, "residual.margin")
    return Facts(
        verdict=at(s, "certificate.verdict"),
        trial=is_trial(s),
        flagged=found,
        of=of,
        robust=at(s, "splits.robust"),
        undecided=at(s, "splits.undecided"),
        by_chance=by_chance(s),
        real=_real_share(s),
        margin=MARGIN if margin is None else margin,
        halted=tuple(
            g["name"] or "a guardrail" for g in s["guardrails"] if g["halts_export"] and not g["passed"]
        ),
        reasons=tuple(at(s, "certificate.reasons") or ()),
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
UNSCREENED: Mapping[str | None, str] = {
    "certified": "Trust what was kept: no outside auditor found a shortcut in it.",
    "not certified": "Do not trust it: auditors answer above chance without the question.",
    "inconclusive": "Not settled: the auditors cannot tell whether shortcuts are left.",
    None: "No verdict: nobody was asked the choices without the question.",
}
"""The verdict's line if nothing is known of what was flagged."""
UNFLAGGED: Mapping[str | None, str] = {
    "certified": "Trust it: no item gives its key away, and outside auditors agree.",
    "not certified": "Do not trust it: no item stands out, yet auditors answer above chance without the question.",
    "inconclusive": "No item was found to give its key away, but nobody independent confirms it.",
    None: "No item was found to give its key away, but nobody audited it.",
}
"""The same if nothing was flagged."""


def verdict_in_short(s: Tree) -> tuple[Tone, str]:
    """Return whether the benchmark may be trusted: the tone, and one line of at most twenty words."""
    f = facts(s)
    if f.trial:
        few = next(r for r in f.reasons if r["code"] == "trial_run")
        n, part = at(few, "params.n"), at(few, "params.part")
        asked = (
            "only a part of the set was asked"
            if part or n is None
            else f"{counted(n, 'item')} asked, too few"
        )
        return "unsure", f"A trial run, not judged: {asked}."
    if f.verdict == "not judged":
        return "unsure", "Not judged: by letter these voters see places, not options."
    if any(r["code"] == "no_screen" for r in f.reasons):
        return "unsure", UNSCREENED[None]
    if not f.flagged or not f.of:
        return TONES.get(f.verdict, "unsure"), (UNFLAGGED if f.flagged == 0 else UNSCREENED)[f.verdict]
    said = f"{count(f.flagged)} of {counted(f.of, 'item')} can be answered without the question"
    if f.verdict == "not certified":
        return "bad", f"Do not trust it: {said}, and others still can."
    if f.real == 0:
        return "unsure", f"Nothing certain: {said}, no more than chance explains."
    others = "; the others hold" if f.verdict == "certified" else ""
    if f.real is not None and f.real <= f.margin:
        return "good" if others else "unsure", f"Trust it with care: only {said}{others}."
    return "bad", f"Do not trust the full score: {said}{others}."


# What to do


When = Callable[[Tree, Facts], Sequence[Words]]
"""The words of each case in which a kind of advice applies; `n` among them is the number of items it is about."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One thing to do; its texts are in `messages.yaml`.

    `action`: at most ten words; `path`: where its number is in `summary.json`; `section` of the report to look at;
    `source`: what the advice rests on; `filters`: those of the explorer; `n`: the items it is about.
    """

    code: str
    action: str
    why: str
    path: str
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
    found = (_said(code, words) for code, when in rules.items() for words in when(s, f))
    return tuple(islice(found, MOST))


def _said(code: str, words: Words) -> Recommendation:
    texts = {name: text.format_map(words) for name, text in catalogue()["advice"][code].items()}
    return Recommendation(code, n=words.get("n"), **texts)


def _if(there: object, **words: Any) -> Sequence[Words]:
    return (words,) if there else ()


def _by_letter(s: Tree, f: Facts) -> Sequence[Words]:
    picking = [r["params"]["voter"] for r in f.reasons if r["code"] == "one_place"]
    return _if(not f.trial, voters=" and ".join(map(plain, picking)) or "a voter")


def _halted(s: Tree, f: Facts) -> Sequence[Words]:
    names = [spaced(name) for name in f.halted[:1]]
    return [{"name": name, "short": " ".join(name.split()[:5])} for name in names]


def _robust(s: Tree, f: Facts) -> Sequence[Words]:
    cleared = (
        "an outside audit cleared them"
        if f.verdict == "certified"
        else "no outside audit has cleared them yet"
    )
    there = f.robust and f.of and not f.halted and f.flagged and f.real
    return _if(
        there,
        n=f.robust,
        robust=count(f.robust or 0),
        others=counted(f.flagged or 0, "other"),
        cleared=cleared,
    )


def _keep(s: Tree, f: Facts) -> Sequence[Words]:
    there = f.robust and f.of and not f.halted and f.verdict == "certified" and not (f.flagged and f.real)
    return _if(there, n=f.of, items=counted(f.of or 0, "item"))


def _cues(s: Tree, f: Facts) -> Sequence[Words]:
    cues, mends = at(s, "evidence.cues") or {}, cue_words("advice")
    sizes = sorted(((_size(cues.get(cue)), cue) for cue in mends), key=lambda one: -one[0])
    return [
        {"n": n, "cue": cue, "mend": mends[cue], "items": counted(n, "item")}
        for n, cue in sizes[:MOST_CUES]
        if n
    ]


def _best_rule(s: Tree, f: Facts) -> Sequence[Words]:
    """Return the rule without a model that scores most, if no cue is counted."""
    found = [(name, at(row, "all.value"), at(row, "all.p_holm")) for name, row in heuristics(s).items()]
    rows = {name: x for name, x, p in found if x is not None and p is not None and p <= LEVEL}
    if not rows or at(s, "evidence.cues"):
        return ()
    name = max(rows, key=lambda one: rows[one])
    return _if(True, name=name, rule=spaced(name), share=percent(rows[name]))


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
    n = math.ceil(more / step) * step
    settled = f"{counted(f.robust, 'robust item')} settle {100 * least:.0f} points above chance"
    return _if(True, n=n, more=count(n), settled=settled, margin=f"{100 * margin:.0f}")


def _cloze(s: Tree, f: Facts) -> Sequence[Words]:
    """Advise cloze if it takes away what the longest option gains."""
    fit = at(s, "splits.cloze")
    ends = [
        (at(e, "full.heuristic_gap.ci"), at(e, "cloze_chars.heuristic_gap.ci"))
        for e in (s["accuracy"] or {}).values()
    ]
    known = [(full[0], cloze[0]) for full, cloze in ends if full and cloze]
    gains = any(full > 0 for full, _ in known) and not any(cloze > 0 for _, cloze in known)
    return _if(
        isinstance(fit, int) and fit and gains,
        n=fit,
        items=counted(fit, "item") if isinstance(fit, int) else "",
    )


def _defects(s: Tree, f: Facts) -> Sequence[Words]:
    found = {
        kind: e["n"]
        for kind, e in (at(s, "benchmark.defects") or {}).items()
        if isinstance(e["n"], int) and e["n"]
    }
    kind = max(found, key=lambda one: found[one], default="")
    return _if(
        kind,
        n=found.get(kind),
        kind=kind,
        items=counted(found.get(kind, 0), "item"),
        said=" ".join(spaced(kind).split()[:5]),
    )


def _sized(path: str) -> Callable[[Tree, Facts], Sequence[Words]]:
    """Return a rule that applies if the share at this path is of any item."""

    def when(s: Tree, f: Facts) -> Sequence[Words]:
        n = _size(at(s, path))
        return _if(n, n=n, items=counted(n, "item"))

    return when


def _size(share: Any) -> int:
    return round(at(share, "value") * at(share, "n")) if at(share, "value") and at(share, "n") else 0


def _uneven(s: Tree, f: Facts) -> Sequence[Words]:
    p = at(s, "benchmark.key_places.p")
    return _if(p is not None and p <= LEVEL)


def _unanswered(s: Tree, f: Facts) -> Sequence[Words]:
    n = at(s, "screen.unanswered") or 0
    return _if(n, n=n, items=counted(n, "item"))


UNJUDGED: Mapping[str, When] = {"run_whole": lambda s, f: _if(f.trial, n=f.of), "ask_by_text": _by_letter}
JUDGED: Mapping[str, When] = {
    "mend_guardrail": _halted,
    "use_robust": _robust,
    "keep": _keep,
    "mend_cue": _cues,
    "mend_rule": _best_rule,
    "audit": _audit,
    "screen_again": _screen_again,
    "ask_more": _more,
    "cloze": _cloze,
}
ALWAYS: Mapping[str, When] = {
    "mend_defects": _defects,
    "replace_seen": _sized("contamination.overlap.found"),
    "review_keys": _sized("label_noise.flagged"),
    "shuffle_keys": _uneven,
    "ask_again": _unanswered,
}
"""When each kind of advice applies, the most pressing first: to a run not judged, to a judged one, to every run."""
