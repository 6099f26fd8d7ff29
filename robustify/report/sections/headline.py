"""The first screen (verdict, five numbers, release level), the guardrails, and the last lines on a terminal.

Nothing is printed here that a later section does not show.
"""

from robustify.answers import Answers
from robustify.report.blocks import (
    Banner,
    Bullets,
    Cell,
    Paragraph,
    Section,
    Table,
    Tile,
    Tone,
    heads_of,
    quiet,
)
from robustify.report.format import (
    absent,
    between,
    count,
    counted,
    missing,
    percent,
    plain,
    rate,
    rests_on,
    spaced,
)
from robustify.report.reasons import certificate_sentence, sentence
from robustify.screen.votes import PROBE
from robustify.stats.intervals import rate as interval_rate
from robustify.summary.quantity import Quantity
from robustify.summary.reason import OnePlace
from robustify.summary.result import Certificate, Guardrail, Released, Residual, Summary
from robustify.summary.screened import Screen, Splits

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
EXPECTED = "Expected by chance alone"
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


def banner(summary: Summary) -> Banner:
    """The certificate as it is read first."""
    return Banner(*verdict(summary), certificate_reasons(summary), above(summary))


def tiles(summary: Summary) -> tuple[Tile, ...]:
    """Asked, removed, expected by chance, kept, left: the headline numbers in the order of the argument."""
    screen, splits = summary.screen or Screen(), summary.splits or Splits()
    return (
        _asked(screen, splits),
        _removed(summary, screen, splits),
        _expected(summary, screen),
        Tile("Kept as robust", _count(splits.robust), (f"undecided: {_count(splits.undecided)}",)),
        _left(summary),
    )


def _count(n: int | None) -> str:
    return missing() if n is None else count(n)


def _asked(screen: Screen, splits: Splits) -> Tile:
    asked = splits.all if screen.asked is None else screen.asked
    return Tile("Items asked", _count(asked), (f"left open by missing answers: {_count(screen.unanswered)}",))


def _removed(summary: Summary, screen: Screen, splits: Splits) -> Tile:
    flagged = screen.flagged
    if flagged is None or flagged.value is None:
        return Tile("Removed as shortcuts", missing(), _why(summary, "no screen in this run"))
    items = () if splits.shortcut is None else (counted(splits.shortcut, "item"),)
    return Tile("Removed as shortcuts", percent(flagged.value), (*items, rests_on(flagged)))


def _expected(summary: Summary, screen: Screen) -> Tile:
    if screen.cut is not None and screen.cut.false_share is not None:
        q = f"at most {percent(screen.cut.q or 0.0)} asked for"
        found = screen.cut.false_share
        if found.value is None:
            return Tile(EXPECTED, "nothing was removed", (q,))
        return Tile(EXPECTED, percent(found.value), (rests_on(found), q))
    expected = (screen.by_place or screen).expected_flags
    # One estimate for tile and table; a release shows only what can be made from its own numbers.
    share = screen.false_share or chance_share(screen)
    if expected is None or expected.value is None:
        return Tile(EXPECTED, missing(), _why(summary, "no expectation in this run"))
    ends = () if expected.ci is None else (between(expected.ci, 1.0),)
    estimate = () if share is None else (f"estimate: {rate(share)} of those removed are due to chance",)
    unit = "item" if expected.value == 1 else "items"
    return Tile(EXPECTED, f"{count(expected.value)} {unit}", (*ends, *estimate) or ("interval not shown",))


def chance_share(screen: Screen) -> Quantity | None:
    """The estimated share of chance flags among the flagged: what the latent shortcuts leave of them.

    Not expected over flagged: that expectation is of a benchmark without a single shortcut, and an item with
    one is no false flag. Its interval is that of the latent rate, for the number removed as it is. None where
    nothing was flagged or no latent rate is known.
    """
    removed = (screen.flagged or Quantity()).value
    latent = (screen.by_place or screen).latent_shortcut_rate
    if not removed or latent is None or latent.value is None:
        return None

    def left(x: float) -> float:
        return min(1.0, max(0.0, (removed - x) / removed))

    ci = None if latent.ci is None else (left(latent.ci[1]), left(latent.ci[0]))
    return Quantity(value=left(latent.value), ci=ci)


def _why(summary: Summary, otherwise: str) -> tuple[str]:
    return (otherwise if summary.release is None else "see what is withheld",)


def _left(summary: Summary) -> Tile:
    residual = summary.residual or Residual()
    probe, voted = residual.probe, residual.probe_voted
    label = "A probe still gets" if voted else "An outside probe still gets"
    if probe is None or probe.value is None:
        return Tile(label, missing(), _why(summary, "no probe on the items kept"))
    chance = () if residual.chance is None else (f"chance {percent(residual.chance)}",)
    warning = ("the filter uses it, so it is no outside check",) if voted else ()
    return Tile(label, percent(probe.value), ("of the items kept", rests_on(probe), *chance, *warning))


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
    title = "What this report may show"
    return (Section("level", title, "Release level", (opening, Bullets(tuple(_rules(release))))),)


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
    """Which limits this run keeps."""
    rows = tuple(
        (
            Cell(spaced(g.name or "unnamed")),
            _outcome(g),
            _value(g.value),
            _value(g.limit),
            Cell(plain(_reason(g) or "no reason given", 600)),
        )
        for g in summary.guardrails
    )
    heads = (*heads_of("Guardrail", "Outcome", "Value", "Limit", words=2), *heads_of("Reason"))
    block = Table("Limits of this run", heads, rows) if rows else quiet("No guardrails were applied.")
    return Section("guardrails", "Guardrails", "Guardrails", (block,))


def _reason(g: Guardrail) -> str:
    return "" if g.reason is None else sentence(g.reason)


def _outcome(g: Guardrail) -> Cell:
    if g.passed is None:
        return absent("not checked")
    halts = "halts the export" if g.halts_export else ""
    return Cell("passed", tone="good") if g.passed else Cell("failed", halts, "bad")


def _value(x: float | str | None) -> Cell:
    if isinstance(x, str) and x:
        return Cell(plain(x))
    if isinstance(x, int | float):
        return Cell(count(x) if float(x).is_integer() else f"{x:.3g}")
    return absent("none")


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
