"""The certificate, the advice, the release level and the guardrails, and the last lines on a terminal."""

from robustify.answers import Answers
from robustify.report.advice import recommendations
from robustify.report.blocks import Bullets, Cell, Paragraph, Row, Section, Tone, text_table
from robustify.report.format import absent, count, counted, missing, percent, plain, rate, spaced
from robustify.report.reasons import certificate_sentence, sentence
from robustify.screen.votes import PROBE
from robustify.stats.intervals import rate as interval_rate
from robustify.summary.quantity import Quantity
from robustify.summary.reason import OnePlace
from robustify.summary.result import Certificate, Guardrail, Released, Summary

VERDICTS: dict[str | None, tuple[str, Tone, str]] = {
    "certified": ("Certified", "good", "No outside auditor found a shortcut left in what was kept."),
    "not certified": (
        "Not certified",
        "bad",
        "What was kept can still be answered above chance by shortcuts.",
    ),
    "inconclusive": ("Inconclusive", "unsure", "The auditors cannot tell whether shortcuts are left."),
    "not judged": ("Not judged", "unsure", "The voters pick by place, so nothing was judged."),
    None: ("No verdict", "unsure", "This run holds no certificate."),
}
TRIAL: tuple[str, Tone, str] = (
    "Trial run, not judged", "unsure", "Too few items, or a part of the set, were asked for a judgement.",
)  # fmt: skip
LEVELS = {
    "evaluator": "for the evaluator's machine; `robustify export published` writes what may be published",
    "published": "for publication",
    "part": "for the evaluator's machine; of a part of the set (limit) nothing is for publication",
}
SHOWN_EARLY = 4
"""Lines of the probe and the best rules before models are asked."""


def verdict(summary: Summary) -> tuple[str, Tone, str]:
    """The certificate's word, its tone and its sentence."""
    certificate = summary.certificate or Certificate()
    word, tone, default = TRIAL if summary.trial else VERDICTS[certificate.verdict]
    # A release makes no sentence of numbers that it may not show.
    own = certificate_sentence(summary) if summary.release is None else ""
    return word, tone, plain(own, 1000) if own else default


def certificate_reasons(summary: Summary) -> tuple[str, ...]:
    """The certificate's reasons, but for the one that its sentence gives."""
    shown = verdict(summary)[2]
    reasons = (summary.certificate or Certificate()).reasons or ()
    said = (plain(sentence(reason), 600) for reason in reasons if not isinstance(reason, OnePlace))
    return tuple(reason for reason in said if reason not in shown)


def above(summary: Summary) -> tuple[str, ...]:
    """What is said above the verdict: voters whose picks sit on one place."""
    reasons = (summary.certificate or Certificate()).reasons or ()
    return tuple(f"{plain(sentence(reason), 600)}." for reason in reasons if isinstance(reason, OnePlace))


def certified(summary: Summary) -> Section:
    """The certificate: its word, its sentence and its reasons."""
    word, _, said = verdict(summary)
    reasons = certificate_reasons(summary)
    return Section.of(
        "certificate",
        "What the certificate says",
        Paragraph(f"{word}. {said}"),
        Bullets(reasons) if reasons else None,
        words="certificate auditor margin guardrail",
    )


def advised(summary: Summary) -> Section:
    """What to do now, each with its reason, the place of its number in summary.json, and what the advice rests on."""
    said = tuple(
        f"{one.action}: {one.why}. From {plain(one.place)}; {one.source}." for one in recommendations(summary)
    )
    return Section.of("advice", "What to do, and why", Bullets(said) if said else "Nothing is advised.")


def level(summary: Summary) -> tuple[Section, ...]:
    """The release level of a restricted run, its roundings and what is withheld; a public run has no such section."""
    release = summary.release
    if release is None:
        return ()
    name = release.level or "unknown"
    use = LEVELS.get("part" if release.published is False else name, "unknown")
    opening = Paragraph(
        f"A restricted set, shown under release level {plain(name)}: {use}. "
        "This report holds no text, row or id of an item."
    )
    return (Section.of("level", "What this report may show", opening, Bullets(tuple(_rules(release)))),)


def _rules(release: Released) -> list[str]:
    cell = "unknown" if release.min_cell is None else count(release.min_cell)
    if release.too_small:
        return [f"withheld: everything but the number of items; fewer than {cell} were flagged, or were kept"]
    merged, bits = release.topics_merged, release.bits
    rules = [
        "rates in whole percents; p rounded upwards to one digit",
        f"counts of flags by topic in cells of {cell} or more",
    ]
    if merged:
        rules.append(f"topics: {counted(merged, 'topic')} with smaller cells are merged as Other")
    rules.append("surface features by class: the row of a class is its strongest member on all items")
    for groups, how in (
        (release.coarser, "in steps of 5 points"),
        (release.withheld, "withheld, over the bit budget"),
    ):
        if groups:
            rules.append(f"{how}: {', '.join(plain(name) for name in groups)}")
    if bits is not None and bits.spent is not None and bits.available is not None:
        rules.append(
            f"bit budget: the numbers that depend on the flags can give at most {count(bits.spent)} bits about which "
            f"items were flagged; allowed are {count(bits.available)}, half of what the sets of that size hold"
        )
    return rules


def guardrails(summary: Summary) -> Section:
    """Which limits this run keeps, and why it fails the others."""
    rows: list[Row] = [
        (spaced(g.name or "unnamed"), _outcome(g), _value(g.value), _value(g.limit))
        for g in summary.guardrails
    ]
    failed = tuple(
        f"{spaced(g.name or 'unnamed')}: {plain(_reason(g) or 'no reason given', 600)}"
        for g in summary.guardrails
        if g.passed is False
    )
    heads = ("Guardrail", "Outcome", "Value", "Limit")
    return Section.of(
        "guardrails",
        "Guardrails",
        text_table("Limits of this run", heads, rows, words=2) if rows else "No guardrails were applied.",
        Bullets(failed) if failed else None,
        words="guardrail",
    )


def _reason(g: Guardrail) -> str:
    return "" if g.reason is None else sentence(g.reason)


def _outcome(g: Guardrail) -> Cell:
    reason = plain(_reason(g), 600) if g.reason is not None else ""
    if g.passed is None:
        return absent("not checked")
    if g.passed:
        return Cell("passed", reason, "good")
    return Cell("failed", reason, "bad", "halts the export" if g.halts_export else "")


def _value(x: float | str | None) -> Cell:
    if isinstance(x, str) and x:
        return Cell(plain(x))
    if isinstance(x, int | float):
        return Cell(count(x) if float(x).is_integer() else f"{x:.3g}")
    return absent("none")


def _count(n: int | None) -> str:
    return missing() if n is None else count(n)


def without_models(answers: Answers) -> list[str]:
    """The first lines on the terminal, before a model is asked: chance, the probe, and the rules that score most."""
    blocks = {name: answers.block(view, name) for view, name, _ in answers.askings()}
    if not blocks:
        return []
    scores = {name: Quantity.of(interval_rate(block.correct)) for name, block in blocks.items()}
    chance = max((1 / block.k).mean() for block in blocks.values())
    best = sorted(scores, key=lambda name: (name != PROBE, -(scores[name].value or 0.0)))[:SHOWN_EARLY]
    return [
        f"without any model (chance {percent(float(chance))}); models are asked now:",
        *(f"  {name:24} {rate(scores[name])}" for name in best),
    ]
