"""The verdict in one line, and what to do about it: rules over the summary, whatever made it.

Each rule reads numbers that the summary holds and gives one thing to do, with the place of its number and what the advice
rests on. Of a released summary it reads what is shown and nothing else, so that it says no more than the report does.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal

from robustify.report.blocks import Tone
from robustify.report.format import as_released, count, counted, percent, plain, spaced
from robustify.stats.tests import (
    LEVEL,
    items_to_detect,
    minimum_detectable_difference,
    significantly_positive,
)
from robustify.summary import reason as r
from robustify.summary.quantity import Quantity
from robustify.summary.result import Certificate, Contamination, Residual, Summary
from robustify.summary.scored import ViewScores
from robustify.summary.screened import Benchmark, CueCode, Heuristics, KeyPlaces, Screen, Splits

Code = Literal["run_whole", "ask_by_text", "mend_guardrail", "use_robust", "keep", "mend_cue", "mend_rule", "audit",
               "screen_again", "ask_more", "cloze", "review_keys", "mend_defects", "shuffle_keys", "replace_seen",
               "ask_again"]  # fmt: skip
MOST, MOST_CUES = 5, 2
MOST_WORDS = 10
"""Words of an action."""
MARGIN = 0.05
"""The share of items with a shortcut up to which a full score may be used with care, where no margin is recorded."""
SOURCES: dict[Code, str] = {
    "run_whole": "docs/config.md: a run of fewer items than limits.min_items is not judged",
    "ask_by_text": "docs/config.md: by letter or by text",
    "mend_guardrail": "docs/config.md: the limits of the guardrails",
    "use_robust": "Gururangan et al. (2018): report the part without artifacts beside the whole",
    "keep": "docs/validity.md: what the certificate says",
    "mend_cue": "Haladyna, Downing and Rodriguez (2002): guidelines for writing multiple-choice items",
    "mend_rule": "Haladyna, Downing and Rodriguez (2002): guidelines for writing multiple-choice items",
    "audit": "docs/validity.md: what the certificate says",
    "screen_again": "docs/validity.md: what the certificate says",
    "ask_more": "Fleiss, Levin and Paik (2003): the size of a sample for one proportion, 80 % power",
    "cloze": "Deep Ignorance (arXiv 2508.06601), appendix D.4.2",
    "review_keys": "Northcutt, Athalye and Mueller (2021): pervasive label errors in test sets",
    "mend_defects": "Haladyna, Downing and Rodriguez (2002): guidelines for writing multiple-choice items",
    "shuffle_keys": "Haladyna, Downing and Rodriguez (2002): vary the place of the right answer",
    "replace_seen": "Brown et al. (2020), appendix C: items that stand word for word in texts",
    "ask_again": "docs/glossary.md: unanswered is never counted as wrong",
}
"""What each kind of advice rests on."""
CUE_MENDS: dict[CueCode, str] = {
    "length": "Even out option lengths",
    "word_length": "Use words of like length",
    "certainty": "Drop absolutes and hedges",
    "numbers": "Give all options numbers alike",
    "form": "Write the options in one form",
    "shared_words": "Mend words that options share",
    "grammar": "Open all options alike",
    "repetition": "Drop repeated words",
    "function_words": "Word the options alike",
    "pointer": "Drop options about other options",
    "words": "Vary words that mark the key",
}
"""What to do with the items of a cue; of cues that only models see nothing is advised."""
UNSCREENED: dict[str | None, str] = {
    "certified": "Trust what was kept: no outside auditor found a shortcut in it.",
    "not certified": "Do not trust it: auditors answer above chance without the question.",
    "inconclusive": "Not settled: the auditors cannot tell whether shortcuts are left.",
    None: "No verdict: nobody was asked the choices without the question.",
}
"""The verdict's line where nothing is known of what was flagged."""
UNFLAGGED: dict[str | None, str] = {
    "certified": "Trust it: no item gives its key away, and outside auditors agree.",
    "not certified": "Do not trust it: no item stands out, yet auditors answer above chance without the question.",
    "inconclusive": "No item was found to give its key away, but nobody independent confirms it.",
    None: "No item was found to give its key away, but nobody audited it.",
}
"""The same where nothing was flagged."""
TONES: dict[str | None, Tone] = {"certified": "good", "not certified": "bad"}


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One thing to do.

    `action`: at most ten words, with its count; `why`: one sentence without a full stop; `place`: where in the summary
    its number is; `section`: the anchor in the report; `n`: the items that it is about, null where it is about none in
    particular; `filters`: those of the explorer's page, empty where it shows nothing of it.
    """

    code: Code
    action: str
    why: str
    place: str
    section: str
    n: int | None = None
    filters: str = ""

    @property
    def source(self) -> str:
        """What the advice rests on."""
        return SOURCES[self.code]

    def link(self, explorer: bool) -> str:
        """Where to look: the explorer's page under these filters where there is one, else the report's section."""
        return f"explorer.html#{self.filters}" if explorer and self.filters else f"#{self.section}"


def recommendations(summary: Summary) -> tuple[Recommendation, ...]:
    """What to do now, the most pressing first, at most five."""
    rules = (*(UNJUDGED if _unjudged(summary) else JUDGED), _always)
    with as_released(summary.release is not None):
        return tuple(islice(chain.from_iterable(rule(summary) for rule in rules), MOST))


def verdict_in_short(summary: Summary) -> tuple[Tone, str]:
    """Whether the benchmark may be trusted: the tone, and one line of at most twenty words."""
    certificate = summary.certificate or Certificate()
    verdict, (n, of) = certificate.verdict, bad_items(summary)
    if summary.release is not None and summary.release.too_small:
        return "unsure", "Nothing can be shown: too few items were flagged, or kept."
    if summary.trial:
        return "unsure", f"A trial run, not judged: {_trial(certificate)}."
    if verdict == "not judged":
        return "unsure", "Not judged: by letter these voters see places, not options."
    if not n or not of:
        return TONES.get(verdict, "unsure"), (UNFLAGGED if n == 0 else UNSCREENED)[verdict]
    said = f"{count(n)} of {counted(of, 'item')} can be answered without the question"
    real, margin = real_share(summary), (summary.residual or Residual()).margin
    if verdict == "not certified":
        return "bad", f"Do not trust it: {said}, and others still can."
    if real == 0:
        return "unsure", f"Nothing certain: {said}, no more than chance explains."
    others = "; the others hold" if verdict == "certified" else ""
    if real is not None and real <= (MARGIN if margin is None else margin):
        return "good" if others else "unsure", f"Trust it with care: only {said}{others}."
    return "bad", f"Do not trust the full score: {said}{others}."


def _trial(certificate: Certificate) -> str:
    found = next((x for x in certificate.reasons or () if isinstance(x, r.TrialRun)), None)
    few = found is not None and not found.part
    return (
        f"{counted(found.n, 'item')} asked, too few" if found and few else "only a part of the set was asked"
    )


def bad_items(summary: Summary) -> tuple[int | None, int | None]:
    """The items that were flagged, and of how many; None where that is not known or not shown."""
    splits, flagged = summary.splits or Splits(), (summary.screen or Screen()).flagged or Quantity()
    if splits.shortcut is not None:
        return splits.shortcut, splits.all
    return (
        None if flagged.value is None or flagged.n is None else round(flagged.value * flagged.n)
    ), flagged.n


def by_chance(screen: Screen) -> Quantity | None:
    """The share of chance flags among the flagged: as the screen gives it, else what latent shortcuts leave of them.

    Not expected over flagged: that expectation is of a benchmark without a single shortcut, and an item with
    one is no false flag. Its interval is that of the latent rate, for the number removed as it is. None where
    nothing was flagged or no latent rate is known.
    """
    given = screen.false_share if screen.cut is None else screen.cut.false_share
    if given is not None:
        return given
    removed = (screen.flagged or Quantity()).value
    latent = (screen.by_place or screen).latent_shortcut_rate
    if not removed or latent is None or latent.value is None:
        return None

    def left(x: float) -> float:
        return min(1.0, max(0.0, (removed - x) / removed))

    ci = None if latent.ci is None else (left(latent.ci[1]), left(latent.ci[0]))
    return Quantity(value=left(latent.value), ci=ci)


def real_share(summary: Summary) -> float | None:
    """The share of the items that are flagged beyond chance: 0 where that may be none, None where nothing is known."""
    screen = summary.screen or Screen()
    excess, flagged = (screen.by_place or screen).excess_over_chance, (screen.flagged or Quantity()).value
    if flagged is None:
        return None
    level = LEVEL if screen.level is None else screen.level
    tested = screen.cut is None and excess is not None and excess.p is not None
    if tested and excess and not significantly_positive(excess.p, excess.ci, level):
        return 0.0
    return flagged * (1 - ((by_chance(screen) or Quantity()).value or 0.0))


def _unjudged(summary: Summary) -> bool:
    return summary.trial or (summary.certificate or Certificate()).verdict == "not judged"


def _why_unjudged(summary: Summary) -> Iterator[Recommendation]:
    place, asked = "certificate.reasons", (summary.splits or Splits()).all
    if summary.trial:
        why = "of so few items nothing is judged"
        yield Recommendation(
            "run_whole", "Run the whole set, without a limit", why, place, "certificate", asked
        )
        return
    reasons = (summary.certificate or Certificate()).reasons or ()
    voters = " and ".join(plain(x.voter) for x in reasons if isinstance(x, r.OnePlace)) or "a voter"
    why = f"by letter {voters} picks one place, whatever is there"
    yield Recommendation("ask_by_text", "Ask again by text (asking.mode: text)", why, place, "order")


def _halted(summary: Summary) -> Iterator[Recommendation]:
    for one in summary.halting[:1]:
        name = spaced(one.name or "a guardrail")
        action = f"Publish no split yet: {' '.join(name.split()[:5])} failed"
        why = f"the guardrail on {name} stops the export"
        yield Recommendation("mend_guardrail", action, why, "guardrails", "guardrails")


def _robust(summary: Summary) -> Iterator[Recommendation]:
    splits, certified = (
        summary.splits or Splits(),
        (summary.certificate or Certificate()).verdict == "certified",
    )
    if not splits.robust or not splits.all or summary.halting:
        return
    if splits.shortcut and real_share(summary):
        audit = "an outside audit cleared them" if certified else "no outside audit has cleared them yet"
        why = f"{counted(splits.shortcut, 'other')} can be answered without the question; {audit}"
        action = f"Also report the {count(splits.robust)} robust items"
        yield Recommendation(
            "use_robust", action, why, "splits.robust", "scores", splits.robust, "verdict=robust"
        )
    elif certified:
        why = "outside auditors find no shortcut in what was kept"
        yield Recommendation(
            "keep", f"Keep all {counted(splits.all, 'item')}", why, "splits.all", "residual", splits.all
        )


def _cues(summary: Summary) -> Iterator[Recommendation]:
    cues = {} if summary.evidence is None else summary.evidence.cues or {}
    sizes = {cue: _size(cues.get(cue)) for cue in CUE_MENDS}
    for cue in sorted((cue for cue in sizes if sizes[cue]), key=lambda cue: -sizes[cue])[:MOST_CUES]:
        items = counted(sizes[cue], "item")
        yield Recommendation(
            "mend_cue", f"{CUE_MENDS[cue]} in {items}", "it is the first cue of these flagged items",
            f"evidence.cues.{cue}", "items", sizes[cue], f"verdict=shortcut&cue={cue}",
        )  # fmt: skip


def _rules(summary: Summary) -> Iterator[Recommendation]:
    """The rule without a model that scores most, where no cue is counted: in a release, or without a ranking."""
    rows = {
        name: q.value
        for name, q in ((summary.heuristics or Heuristics()).all or {}).items()
        if q.value is not None and q.p_holm is not None and q.p_holm <= LEVEL
    }
    if rows and (summary.evidence is None or not summary.evidence.cues):
        name = max(rows, key=lambda one: rows[one])
        action = f"Mend the options: {spaced(name)} scores {percent(rows[name])}"
        why = "a rule that reads no question is right more often than chance"
        yield Recommendation("mend_rule", action, why, f"heuristics.all.{name}", "heuristics")


def _audit(summary: Summary) -> Iterator[Recommendation]:
    certificate = summary.certificate or Certificate()
    codes = {x.code for x in certificate.reasons or ()}
    if codes & {"no_independent_auditor", "no_auditor", "nothing_to_see", "no_kind_seen", "could_not_see"}:
        action = "Check with a model outside this screen"
        why = "nobody independent could vouch for what was kept (role: under_test makes an auditor)"
        yield Recommendation("audit", action, why, "certificate.reasons", "residual")
    elif certificate.verdict == "not certified":
        action = "Screen again with stronger voters"
        why = "what was kept is still answered above chance without the question"
        yield Recommendation("screen_again", action, why, "certificate.verdict", "residual")


def _more(summary: Summary) -> Iterator[Recommendation]:
    """More items, where even an auditor at chance could hardly be shown to stay below the margin."""
    splits, audit = summary.splits or Splits(), summary.residual or Residual()
    kept, asked, chance, margin = splits.robust, splits.all, audit.chance, audit.margin
    if (summary.certificate or Certificate()).verdict != "inconclusive" or not (
        kept and asked and chance and margin
    ):
        return
    needed, least = items_to_detect(chance, margin), minimum_detectable_difference(kept, chance)
    if needed > kept and not math.isnan(least):
        more = _about(needed * asked / kept - asked)
        settled = f"{counted(kept, 'robust item')} settle {100 * least:.0f} points above chance"
        why = f"{settled}, and {100 * margin:.0f} are asked for"
        action = f"Write about {count(more)} more items to settle it"
        yield Recommendation("ask_more", action, why, "residual.margin", "residual", more)


def _about(x: float) -> int:
    """Rounded up to two digits: an estimate."""
    step: int = 10 ** max(0, len(str(int(x))) - 2)
    return math.ceil(x / step) * step


def _cloze(summary: Summary) -> Iterator[Recommendation]:
    """Cloze, where it takes away what the longest option gains."""
    fit, models = (summary.splits or Splits()).cloze, (summary.accuracy or {}).values()
    pairs = [
        ((e.full or ViewScores()).heuristic_gap, (e.cloze_chars or ViewScores()).heuristic_gap)
        for e in models
    ]
    known = [(full.ci, cloze.ci) for full, cloze in pairs if full and cloze and full.ci and cloze.ci]
    left = any(cloze[0] > 0 for _, cloze in known)
    if isinstance(fit, int) and fit and any(full[0] > 0 for full, _ in known) and not left:
        action = f"Ask {counted(fit, 'item')} without their options (cloze)"
        why = "models gain from the longest option where they see it, and not in cloze"
        yield Recommendation("cloze", action, why, "splits.cloze", "scores", fit)


def _always(summary: Summary) -> Iterator[Recommendation]:
    """What is at hand whatever the screen found: defects, items in texts, doubtful keys, uneven keys, missing answers."""
    bench, overlap = summary.benchmark or Benchmark(), (summary.contamination or Contamination()).overlap
    defects = {kind: e.n for kind, e in (bench.defects or {}).items() if isinstance(e.n, int) and e.n}
    for kind in sorted(defects, key=lambda one: -defects[one])[:1]:
        action = f"Mend {counted(defects[kind], 'item')}: {' '.join(spaced(kind).split()[:5])}"
        why = "such an item has no single right answer, or cannot be read"
        yield Recommendation(
            "mend_defects", action, why, f"benchmark.defects.{kind}", "findings", defects[kind]
        )
    if n := _size(None if overlap is None else overlap.found):
        why = "a model that has read those texts may remember them"
        action = f"Replace {counted(n, 'item')} found in given texts"
        yield Recommendation("replace_seen", action, why, "contamination.overlap.found", "contamination", n)
    if n := _size(None if summary.label_noise is None else summary.label_noise.flagged):
        why = "all strong models pick one and the same other option; that is no proof that a key is wrong"
        action = f"Look at the keys of {counted(n, 'item')} again"
        yield Recommendation("review_keys", action, why, "label_noise.flagged", "noise", n)
    p = (bench.key_places or KeyPlaces()).p
    if p is not None and p <= LEVEL:
        why = "who knows the commonest place is right more often than chance"
        action = "Shuffle the options: keys are not spread evenly"
        yield Recommendation("shuffle_keys", action, why, "benchmark.key_places.p", "chance")
    if n := (summary.screen or Screen()).unanswered or 0:
        why = "a missing answer leaves an item undecided, and never makes it robust"
        action = f"Ask {counted(n, 'item')} again: no readable answer"
        yield Recommendation("ask_again", action, why, "screen.unanswered", "chance", n, "verdict=undecided")


def _size(share: Quantity | None) -> int:
    """The items that a share is of; 0 where nothing is known."""
    return round(share.value * share.n) if share is not None and share.value and share.n else 0


Rule = Callable[[Summary], Iterator[Recommendation]]
UNJUDGED: tuple[Rule, ...] = (_why_unjudged,)
JUDGED: tuple[Rule, ...] = (_halted, _robust, _cues, _rules, _audit, _more, _cloze)
"""The rules, the most pressing first: of a run that was not judged, and of one that was."""
