"""Sentences: why a guardrail, an audit or a certificate decides as it does, and what was found.

The summary holds codes with parameters and numbers; their words are made here. A file of format 1 holds the sentences
themselves, which are passed on.
"""

from collections.abc import Iterator, Mapping

from typing_extensions import assert_never

from robustify.report.format import counted, p_value, percent
from robustify.stats.tests import LEVEL, significantly_positive
from robustify.summary import reason as r
from robustify.summary.quantity import Quantity
from robustify.summary.result import Contamination, Guardrail, Memorisation, Recall, Summary, TextOverlap
from robustify.summary.scored import PositionBias
from robustify.summary.screened import DecoyCut, KeyPlaces, OffPlace, Screen

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
KINDS = {
    "leave_one_out": "left out of the vote",
    "non_voter": "did not vote",
    "head": "linear probe on its vectors",
    "heuristic": "rule without a model",
    "probe": "trained on what was kept",
}
CUES = {
    "longer": "a longer key",
    "absolute": "absolute words in the wrong options",
    "hedge": "a hedge in the key",
    "repeated": "a question word in the key",
    "format": "a key in another format",
    "grammar": "a key that alone fits grammatically",
}
PLAIN = {
    "no_screen": "no model was asked the choices without the question",
    "no_item_kept": "no item was kept",
    "no_auditor": "nothing audited what was kept",
    "no_independent_auditor": "no independent auditor: every model voted, and no probe was fitted that the filter does not "
    "use too",
    "no_kind_tried": "without the items' text no known cue could be tried, so nobody knows what the auditors could see",
    "no_kind_seen": "no independent auditor could have seen any of the known cues on so few items",
    "nothing_to_see": "none of the independent auditors is above chance on all items either: either there was nothing "
    "to see, or they cannot see it",
    "probe_voted": "the filter uses probes of the options, so that probes and rules are no independent auditors",
    "not_shown": "judged on the exact numbers, which this release level does not show",
}
NOT_JUDGED = {
    "no_screen": "no screen was asked",
    "nothing_kept": "nothing was kept",
    "no_topics": "no topics before and after",
    "no_item_screened": "no item was screened",
    "no_ties_counted": "no voter's ties were counted",
    "no_letters": "no voter was asked by letter",
    "no_audit": "no audit of the robust split",
    None: "this run holds nothing to judge it by",
}
Reason = (
    r.Sentence | r.Plain | r.NotJudged | r.BelowMargin | r.UnseenKinds | r.AboveChance | r.NotBelowMargin | r.CouldNotSee
    | r.TopicsLost | r.TopicsKept | r.TopicDrift | r.RobustItems | r.Unanswered | r.Ties | r.Undecided | r.Excess
    | r.BoundedFalseFlags | r.VotersByPlace | r.OnePlace | r.TrialRun
    | r.AuditVerdict | r.GuardrailFailed | r.VoterUnderTest | r.FewStrongModels
)  # fmt: skip


def guardrail_sentence(guardrail: Guardrail) -> str:
    """Why a guardrail passed or failed, in words; a released one without a reason says that alone."""
    if guardrail.reason is not None:
        return sentence(guardrail.reason)
    return "passed" if guardrail.passed else "failed"


def sentence(reason: Reason) -> str:
    """A reason in words, without a full stop."""
    match reason:
        case r.Sentence(text=text):
            return text
        case r.Plain(code=code):
            return PLAIN[code]
        case r.NotJudged(why=why):
            return f"not judged: {NOT_JUDGED[why]}"
        case r.BelowMargin(auditors=n, margin=margin):
            return f"{n} auditors stay below chance plus {100 * margin:.0f} points, bounds included"
        case r.UnseenKinds(kinds=kinds):
            named = ", ".join(CUES.get(kind, kind) for kind in kinds)
            could_not = f"not seen, had they been left: {named}; " if kinds else ""
            return f"{could_not}cues of other kinds were not tried"
        case r.AboveChance():
            return _above_chance(reason)
        case r.NotBelowMargin(kind="heuristic", limit=limit, p=float(p)):
            return f"{_by(reason)}, where chance gives {percent(limit)} ({p_value(p)})"
        case r.NotBelowMargin(high=high, limit=limit):
            return (
                f"{_by(reason)}, upper bound {percent(high)}, is not below chance plus margin "
                f"({percent(limit)})"
            )
        case r.CouldNotSee(free=free, n=n):
            return (
                f"{_by(reason)}: it picks so much as the filter does that it could have been right on {free} of the "
                f"{n} only, too few to vouch for them"
            )
        case r.TopicsLost(code=code, topics=topics):
            lost = "; ".join(f"{t.name} kept {t.after} of {t.before}" for t in topics)
            return lost if code == "topics_lost" else f"too few items to judge by: {lost}"
        case r.TopicsKept(share=share):
            return f"every topic kept at least {100 * share:.0f} % of its items"
        case r.TopicDrift(kl=kl, null=null, p=p):
            return f"KL {kl:.4f} nats, {null:.4f} expected of random removal (p = {p:.3g})"
        case r.RobustItems(n=n, least=least):
            return f"{n} robust items; expected at least {least}"
        case r.Unanswered(open=open_, asked=asked, voter=voter, missing=missing):
            most = f"; {voter} has no readable answer to {missing}" if missing else ""
            return f"{open_} of {asked} items left open by missing answers{most}"
        case r.Ties(voter=voter, ties=ties, n=n):
            return f"{voter}: {ties} of {n} answers are ties" if ties else "no voter's answer is a tie"
        case r.Undecided(n=n, of=of):
            return f"{n} of {of} items undecided"
        case r.BoundedFalseFlags(hits=hits, q=q):
            return f"{counted(hits, 'item')} flagged with at most {percent(q)} of them by chance"
        case r.Excess():
            return _excess(reason)
        case r.AuditVerdict(verdict=verdict, reasons=reasons):
            return f"the audit is {verdict}" + (f": {'; '.join(map(sentence, reasons))}" if reasons else "")
        case r.GuardrailFailed(name=name, reason=None):
            return f"guardrail {name} failed"
        case r.GuardrailFailed(name=name, reason=why):
            assert why is not None
            return f"guardrail {name}: {sentence(why)}"
        case r.VotersByPlace(voters=voters):
            return "; ".join(map(sentence, voters)) or "no voter's picks sit on one place"
        case r.OnePlace():
            return _one_place(reason)
        case r.TrialRun(n=n, least=least, part=part):
            return f"{counted(n, 'item')}, {'the part that a limit left' if part else f'fewer than {least}'}"
        case r.VoterUnderTest(name=name):
            return f"{name} is under test and voted in the filter: its numbers on Robust are low by selection"
        case r.FewStrongModels(strong=strong, asked=asked):
            return (
                f"{strong} of {asked} models are significantly above chance on the full question; expected 2"
            )
    assert_never(reason)


def _one_place(v: r.OnePlace) -> str:
    forced = "; judged all the same (screen.force_letters)" if v.forced else ""
    if v.picked is None or v.n is None or v.low is None or v.keys is None:
        return f"{v.voter} picks the option shown {ordinal(v.place)}, whatever it is{forced}"
    return (
        f"{v.voter} picks the option shown {ordinal(v.place)} in {percent(v.picked)} of its askings "
        f"(n = {counted(v.n, 'item')}, lower bound {percent(v.low)}; the key is there in {percent(v.keys)}){forced}"
    )


def _by(a: r.ByAuditor) -> str:
    return f"{a.auditor} ({KINDS[a.kind]}): {percent(a.value)} of {a.n} items"


def _above_chance(a: r.AboveChance) -> str:
    if a.p is not None:
        by = f", {a.refits} refits" if a.refits else ""
        return f"{_by(a)}, where chance gives {percent(a.limit)} ({p_value(a.p)}{by})"
    said = f"{_by(a)}, lower bound {percent(a.low)}, is above chance ({percent(a.limit)})"
    if a.expected is not None and a.even < a.expected and a.low <= a.expected:
        return f"{said}; no more than the filter itself made predictable ({percent(a.expected)})"
    if a.limit < a.even:
        return (
            f"{said}: {percent(a.even)} less what selection takes from a picker that agrees with the filter"
        )
    return said


def _excess(e: r.Excess) -> str:
    found = f"{percent(e.value)} of the items above what chance flags (p = {e.p:.3g}, at most {e.level:g})"
    match e.doubt:
        case None:
            return found
        case "no_interval":
            return f"no interval, too few items or groups of them: {found}"
        case "not_significant":
            return f"not significant: {found}"


def certificate_sentence(summary: Summary) -> str:
    """The verdict in one sentence; empty where it is not known."""
    certificate, audit = summary.certificate, summary.residual
    if certificate is None or certificate.sentence is not None or not certificate.reasons:
        return certificate.sentence.text if certificate is not None and certificate.sentence else ""
    first = sentence(certificate.reasons[0])
    if certificate.verdict == "not judged":
        if summary.trial:
            return f"A trial run: {first}."
        return (
            "By letter these voters see no option, so nothing was judged: ask by text (asking.mode: text), or force it "
            "(screen.force_letters: true)."
        )
    if audit is None or audit.verdict is None:
        return f"Nothing was judged: {first}."
    beyond = "the margin" if audit.margin is None else f"{100 * audit.margin:g} points"
    opening = {
        "certified": f"What was kept gives no auditor more than chance plus {beyond}",
        "not certified": "What was kept is not resistant to shortcuts",
        "inconclusive": "Whether what was kept still holds shortcuts is not settled",
    }[audit.verdict]
    if certificate.verdict != audit.verdict:
        opening += ", but a guardrail failed" if audit.verdict == "certified" else ", and a guardrail failed"
    return f"{opening}: {first}."


def screen_sentence(screen: Screen) -> str:
    """What was flagged, how much of it is expected under the null, and whether the two differ significantly."""
    if screen.sentence is not None:
        return screen.sentence.text
    if screen.cut is not None:
        return _cut_sentence(screen, screen.cut)
    by = screen.by_place or screen
    excess, expected, flagged = by.excess_over_chance, by.expected_flags, screen.flagged
    if excess is None or excess.p is None or excess.value is None or expected is None or flagged is None:
        return "Nothing was screened, so nothing can be said about shortcuts."
    latent = None if by.latent_shortcut_rate is None else by.latent_shortcut_rate.value
    n = flagged.n or 0
    found = f"{round((flagged.value or 0) * n)} of {n} items were flagged; {_expectation(screen)}"
    p, level = excess.p, LEVEL if screen.level is None else screen.level
    if latent is None:
        return f"{found}: what was flagged is not significantly more than that."
    if excess.ci is None:
        return f"{found}: too few items, or groups of them, for a comparison ({p_value(p)})."
    if not significantly_positive(p, excess.ci, level):
        asked = "" if level == LEVEL else f", at most {level:g} asked for"
        return f"{found}: what was flagged is not significantly more than that ({p_value(p)}{asked})."
    over = f"{percent(excess.value)} of the items ({percent(excess.ci[0])} to {percent(excess.ci[1])})"
    return f"{found}: the filter found more than chance explains, by {over}, {p_value(p)}."


def _cut_sentence(screen: Screen, cut: DecoyCut) -> str:
    n, q = screen.asked or 0, percent(cut.q or 0.0)
    if not cut.hits or cut.false_share is None or cut.decoys is None:
        return (
            f"No item of {n} was flagged: no set of hits was found of which chance explains at most {q}. Fewer items "
            "than the least such set, or too few shortcuts, cannot be distinguished from chance."
        )
    low, high = cut.false_share.ci or (0.0, 1.0)
    flagged = round(((screen.flagged or Quantity()).value or 0) * ((screen.flagged or Quantity()).n or 0))
    return (
        f"{flagged} of {n} items were flagged, with at most {q} of them by chance asked for: chance explains about "
        f"{cut.decoys:.0f} ({percent(cut.false_share.value or 0.0)}, interval {percent(low)} to {percent(high)})."
    )


def _expectation(screen: Screen) -> str:
    by = screen.by_place or screen
    expected, latent = by.expected_flags, by.latent_shortcut_rate
    assert expected is not None
    low, high = expected.ci or (0.0, 0.0)
    about = f"about {expected.value:.0f} ({low:.0f} to {high:.0f})"
    place = None if screen.by_place is None else screen.by_place.key_place
    if place is None:
        return f"chance alone would flag {about}"
    if latent is None or latent.value is None:
        return f"but {_clause(place)}, and knowing these places alone is enough to be always right"
    return f"{_clause(place)}, and chance that knows these places would flag {about}"


def key_places_sentence(places: KeyPlaces) -> str:
    """At which position the keys differ most from an even spread; empty where they may be spread evenly."""
    if places.sentence is not None:
        return places.sentence.text
    if places.off is None or places.p is None:
        return ""
    test = "keys drawn evenly" if places.test == "drawn" else "chi-square"
    return (
        f"In the benchmark's own order {_clause(places.off)}; n = {places.n}, {p_value(places.p)} ({test})."
    )


def _clause(off: OffPlace) -> str:
    return (
        f"the key is {ordinal(off.place or 0)} in {_share(off.share or 0.0)} of the items "
        f"({_share(off.even or 0.0)} if keys were spread evenly)"
    )


def position_bias_sentence(bias: PositionBias) -> str:
    """The position that is picked too often, the most significant one first; empty where there is none."""
    if bias.sentence is not None:
        return bias.sentence.text
    more = sorted(
        (place.p_holm, j, place.picked.value, place.key)
        for j, place in enumerate(bias.places or ())
        if place.p_holm is not None and place.picked is not None and place.picked.value is not None
        if place.key is not None and place.p_holm < LEVEL and place.picked.value > place.key
    )
    if not more:
        return ""
    p, j, share, key = more[0]
    return (
        f"Picks the {ordinal(j)} option in {percent(share)} of the items; the key is there in "
        f"{percent(key)} ({p_value(p)})."
    )


def contamination_sentence(found: Contamination) -> str:
    """What was found in texts, and from memory."""
    if found.sentence is not None:
        return found.sentence.text
    return f"{_in_texts(found.overlap)} {_from_memory(found.memorisation)}"


def _in_texts(overlap: TextOverlap | None) -> str:
    if overlap is None:
        return "No text was given to look for the items in."
    files, short, grams = overlap.files or (), overlap.short_mode, overlap.found
    n, n_short = overlap.n or 0, (short.n if short else 0) or 0
    hits = round((grams.value or 0.0) * n) if grams else 0
    whole = round((short.found.value or 0.0) * n_short) if short and short.found else 0
    words = sum(f.words or 0 for f in files)
    looked = f"{counted(len(files), 'text file')} of {words} words"
    opening = "Signals found" if hits or whole else "No signal was found"
    return (
        f"{opening} in {looked}: {hits} of {n} items share {overlap.ngram} words in a row, "
        f"{whole} of {n_short} short ones are there whole; {overlap.not_checkable} were too short to check. Other "
        "texts, paraphrases, translations and pictures of the items cannot be seen this way."
    )


def _from_memory(recalled: Mapping[str, Memorisation] | None) -> str:
    if recalled is None:
        return "No model was asked for the place of a key without its options."
    said = [f"{name} ({', '.join(_recalled(row))})" for name, row in recalled.items() if row.significant]
    if not said:
        return (
            f"None of {len(recalled)} models found the place of the key without the options more often than "
            "chance; knowledge of the key's text cannot be seen this way."
        )
    return (
        f"Found the place of the key without the options more often than chance: {'; '.join(said)}. Options "
        "in a natural order (by size, by date) can do that too."
    )


def _recalled(row: Memorisation) -> Iterator[str]:
    for name in ("no_choices", "gold_repeated", "empty_choices"):
        match getattr(row, name):
            case Recall(value=float(value), n=int(n), chance=float(chance), p_holm=float(p)) if p <= LEVEL:
                yield f"{name} {percent(value)} of {n} items, chance {percent(chance)}"


def ordinal(place: int) -> str:
    """A place, counted from 0, in words: first, second, ... 11th."""
    if place < len(_ORDINALS):
        return _ORDINALS[place]
    number = place + 1
    return f"{number}{'th' if number % 100 in (11, 12, 13) else _ENDINGS.get(number % 10, 'th')}"


def _share(share: float) -> str:
    return f"{100 * share:.0f} %" if share in (0.0, 1.0) else f"{100 * share:.1f} %"
