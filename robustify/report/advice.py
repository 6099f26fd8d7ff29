"""Advice on a benchmark: the rules that decide when each text of `messages.yaml` applies."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from robustify.judging.evidence import TRAITS
from robustify.judging.lint.cues import Cue
from robustify.judging.lint.rules import CUES, RULES
from robustify.judging.measures import FULL, RULE
from robustify.judging.stats.tests import LEVEL, items_to_detect
from robustify.judging.summary.quantity import Quantity
from robustify.judging.summary.result import AuditorResult, Summary
from robustify.judging.summary.screen_parts import CueCode
from robustify.report.page_tables import auditors
from robustify.report.printing import catalogue, cue_words, filled, finding, in_items
from robustify.report.verdict import Grounds, Words, by_chance

MOST, MOST_CUES, MOST_LINKED = 5, 3, 200
"""Most lines of advice, most cues that have a line, and most items that a link names."""
UNSEEN = {"no_independent_auditor", "no_auditor", "nothing_to_see", "could_not_see"}
"""Reasons of a state that another auditor could remove."""
When = Callable[[Summary, Grounds], Sequence[Words]]
"""Function that returns the template values for each case in which an advice applies. `n` is the number of items, `points`
is the possible gain, and `filters` show its items in the explorer."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Advice, whose `action` begins with the number of items that it applies to.

    `section` is the anchor of the evidence, and `filters` the address of its items in the explorer, or "". `points` is how
    much a score can change by it, at most, as a share. `mends` says whether `robustify mend` does it: to the "file", with
    a "pool" of candidates, or not ("").
    """

    code: str
    action: str
    section: str
    n: int
    filters: str = ""
    points: float = 0.0
    mends: str = ""


def recommendations(s: Summary, g: Grounds) -> tuple[Recommendation, ...]:
    """Return the recommendations for a run: first those about the whole set, then the others in decreasing order of the
    points that they could gain."""
    rules = {**(UNJUDGED if g.trial or g.by_letter else JUDGED), **ALWAYS}
    advice = [_said(code, {"g": g, **words}) for code, when in rules.items() for words in when(s, g)]
    return tuple(sorted(advice, key=lambda line: (line.code not in FIRST, -line.points))[:MOST])


def _said(code: str, words: Words) -> Recommendation:
    texts = {name: filled(text, words) for name, text in catalogue()["advice"][code].items()}
    return Recommendation(
        code, n=words["n"], filters=words.get("filters", ""), points=words.get("points", 0.0), **texts
    )


def _if(condition: object, **words: Any) -> Sequence[Words]:
    return (words,) if condition and words["n"] is not None else ()


def _gain(s: Summary, n: float) -> float:
    """Return the most that a reader's accuracy without the question can fall if `n` flagged items are edited."""
    false = (by_chance(s) or Quantity()).value or 0.0
    return n * (1 - false) * (1 - (s.benchmark.chance_accuracy or 0.0)) / max(1, s.splits.all)


def _only(items: Sequence[str] | None, n: int) -> str:
    """Return the explorer's filter for these items, or "" if there are too many or some are not listed."""
    listed = items if items and len(items) == n <= MOST_LINKED else ()
    return f"only={quote(','.join(quote(item_id, safe='') for item_id in listed))}" if listed else ""


def _whole(s: Summary, g: Grounds) -> Sequence[Words]:
    """Return the advice on the cue that departs most from chance among the keys of the whole set."""
    strongest, cue = s.evidence.whole if s.evidence else None, _whole_cue(s)
    if strongest is None or cue is None:
        return ()
    is_more = strongest.keys > strongest.expected
    n, expected = (x if is_more else strongest.n - x for x in (strongest.keys, strongest.expected))
    what = cue.having if is_more else cue.lacking
    usual = f"the key {what}, unlike others", RULES[strongest.rule].fix
    says, fix = catalogue()["directions"].get(strongest.rule, usual)
    return _if(
        n, n=n, of=strongest.of, expected=expected, says=says, fix=fix, filters=f"key={quote(what)}",
        points=(n - expected) / max(1, strongest.of),
    )  # fmt: skip


def _whole_cue(s: Summary) -> Cue | None:
    return CUES.get(s.evidence.whole.rule) if s.evidence and s.evidence.whole else None


def _first_cues(s: Summary) -> list[tuple[int, CueCode]]:
    """Return the most common cues that an edit can remove, with the number of flagged items for each. An item counts
    under its first cue."""
    mends, cues = cue_words("advice"), s.evidence.cues if s.evidence else {}
    sizes = sorted(((in_items(q), c) for c, q in cues.items() if c in mends), key=lambda size: -size[0])
    return [size for size in sizes[:MOST_CUES] if size[0]]


def _cues(s: Summary, g: Grounds) -> Sequence[Words]:
    """Return the advice on the most common cues, except the cue of the whole set, which has its own advice."""
    mends, labels, whole_cue = cue_words("advice"), cue_words("label"), _whole_cue(s)
    return [
        {"n": n, "mend": mends[cue], "points": _gain(s, n), "filters": f"verdict=flagged&cue={cue}", "cue": cue,
         "label": labels[cue], "names": list(s.evidence.names.get(cue, {}).items())[:2] if s.evidence else ()}
        for n, cue in _first_cues(s) if whole_cue not in TRAITS.get(cue, ())
    ]  # fmt: skip


def _other_cues(s: Summary, g: Grounds) -> Sequence[Words]:
    """Return the advice on flagged items with other cues. The advice names the first word or trait of each cue."""
    first = [cue for _, cue in _first_cues(s)]
    n = (g.flagged or 0) - sum(size for size, _ in _first_cues(s))
    others = f"&cue=-{','.join(first)}" if first else ""
    named = (
        [s.evidence.names[cue] for cue in s.evidence.cues if cue not in first and cue in s.evidence.names]
        if s.evidence
        else []
    )
    names = list(dict.fromkeys(next(iter(traits)) for traits in named))[:MOST_CUES]
    return _if(n > 0 and names, n=n, points=_gain(s, n), filters=f"verdict=flagged{others}", names=names)


def flagged_sum(s: Summary, g: Grounds) -> str:
    """Describe the number of flagged items as a sum over their cues, minus the items flagged by chance."""
    parts = [(n, cue_words("label")[cue]) for n, cue in _first_cues(s)]
    n_others = (g.flagged or 0) - sum(n for n, _ in parts)
    return finding("sum", s, g=g, parts=[*parts, *([(n_others, "other cues or none")] if n_others else [])])


def _refuted(s: Summary, g: Grounds) -> Sequence[Words]:
    """Return the advice on a set without flagged items in which a model or classifier still finds keys. Rules have
    their own advice, because other distractors do not help against positions."""
    alarms: list[Words] = (
        [r.params for r in s.residual.reasons if r.code == "above_chance"] if s.residual else []
    )
    by_rule = any(alarm.get("kind") == "heuristic" for alarm in alarms)
    if not alarms or by_rule or g.flagged or g.audit != "failed":
        return ()
    shown = {name: alarms[0][name] for name in ("auditor", "value", "even")}
    points = (shown["value"] - shown["even"]) * alarms[0]["n"] / max(1, g.of or 0)
    return _if(True, n=g.kept, **shown, points=points, filters="verdict=kept")


def _show(s: Summary, g: Grounds) -> Sequence[Words]:
    """Return the advice on the smallest lead over chance that auditors of the kept items would notice, and on how many
    more items they need to notice a lead of the margin, up to the set's size."""
    audit = s.residual
    if g.state != "not evaluated" or not (g.kept and g.of and audit and audit.chance and audit.margin):
        return ()
    # Auditors share the level of their alarms.
    answered = [auditor for _, auditor in auditors(s) if auditor.n]
    confidence = 1 - LEVEL / max(1, len(answered))
    least = min(_leads(audit.independent or answered), default=None)
    n = g.kept if least is None else items_to_detect(audit.chance, least, confidence)
    more = (items_to_detect(audit.chance, audit.margin, confidence) / n - 1) * g.of
    step = 10 ** max(0, len(str(int(more))) - 2)
    return _if(
        more > 0, n=g.kept, least=least, margin=audit.margin,
        more=math.ceil(more / step) * step if more <= g.of else None, filters="verdict=kept",
    )  # fmt: skip


def _leads(rated: Iterable[AuditorResult]) -> list[float]:
    """Return the smallest lead over chance that each auditor would notice, if any."""
    return [q.noticeable - q.chance for q in rated if q.noticeable is not None and q.chance is not None]


def _below(p: float | None) -> bool:
    return p is not None and p <= LEVEL


def _defects(s: Summary, g: Grounds) -> Sequence[Words]:
    commonest = sorted(
        ((defect.n, kind, defect.items) for kind, defect in s.benchmark.defects.items() if defect.n)
    )[-1:]
    return [
        {"n": n, "kind": kind, "points": n / max(1, g.of or 0), "filters": _only(ids, n)}
        for n, kind, ids in commonest
    ]


def _keys(s: Summary, g: Grounds) -> Sequence[Words]:
    """Return the advice on keys to check. It is given if the precision of the list was measured, or if good models
    (halfway from chance to perfect) significantly often agree on another option."""
    noise, analysed = s.label_noise, s.item_analysis
    if noise is None:
        return ()
    n, expected, scores = in_items(noise.flagged), noise.expected or 0.0, FULL.read(s)
    if analysed is not None:
        expected = n * (1 - (analysed.keys.precision.value or 0.0))
    else:
        full = [scores[name].all for name in noise.strong if name in scores]
        good = full and all(q and (q.value or 0.0) >= (1 + (q.chance or 0.0)) / 2 for q in full)
        n *= bool(good and _below(noise.p))
    points = (n - expected) / max(1, g.of or 0)
    return _if(n, n=n, expected=expected, points=points, filters=_only(noise.items, n))


def _uneven(s: Summary, g: Grounds) -> Sequence[Words]:
    off = s.benchmark.key_spread.off
    return _if(_below(s.benchmark.key_spread.p), n=g.of, points=off.share - off.even if off else 0.0)


def _seen(s: Summary, g: Grounds) -> Sequence[Words]:
    if s.contamination is None:
        return ()
    overlap = s.contamination.overlap
    n = in_items(overlap.found) + in_items(overlap.short_mode.found)
    return _if(n, n=n, points=n / max(1, g.of or 0), filters=_only(overlap.items, n))


FIRST = ("import_blind", "run_whole", "ask_by_text", "mend_whole")
"""Advice that comes first, whatever it buys."""
UNJUDGED: Mapping[str, When] = {
    "run_whole": lambda s, g: _if(g.trial, **{**g.reasons.get("trial_run", {}), "n": g.of}),
    "ask_by_text": lambda s, g: _if(not g.trial, n=g.of),
}
JUDGED: Mapping[str, When] = {
    "import_blind": lambda s, g: _if(g.unlooked, n=g.of, by_text=bool(s.screen and s.screen.mode == "text")),
    "mend_whole": _whole,
    "keep": lambda s, g: _if(g.audit == "passed" and not (g.halted or (g.flagged and g.real)), n=g.kept),
    "mend_cue": _cues,
    "other_cues": _other_cues,
    "audit": lambda s, g: _if(UNSEEN & g.reasons.keys() and not g.unlooked, n=g.kept, filters="verdict=kept"),
    "replace_distractors": _refuted,
    "show_less": _show,
    "give_texts": lambda s, g: _if(not RULE.read(s) and g.of, n=g.of),
    "ask_models": lambda s, g: _if("no_screen" in g.reasons and RULE.read(s) and not (s.screen and s.screen.voters), n=g.of)
}  # fmt: skip
ALWAYS: Mapping[str, When] = {
    "mend_defects": _defects,
    "replace_seen": _seen,
    "review_keys": _keys,
    "name_passages": lambda s, g: _if(s.benchmark.parallel_items, n=s.benchmark.parallel_items),
    "shuffle_keys": _uneven,
    "ask_again": lambda s, g: _if(
        s.screen and s.screen.unanswered,
        n=s.screen.unanswered if s.screen else 0,
        filters="verdict=undecided",
    ),
}
"""Rules for runs that were not judged, for judged runs, and for all runs. Of equal points, the first comes first."""
