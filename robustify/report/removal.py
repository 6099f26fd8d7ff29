"""What the screen removed, and how much of that luck explains."""

from collections.abc import Mapping

from robustify.report.blocks import Block, Cell, Column, Kind, Mark, Plot, Row, Section, Table, Text
from robustify.report.reading import Quantity, at, named, number, numbers, part, quantity, text, whole
from robustify.report.words import (
    ABSENT,
    absent,
    count,
    count_cell,
    number_cell,
    percent,
    plain,
    points_cell,
    rate_cell,
    spaced,
)

Summary = Mapping[str, object]


def luck(summary: Summary) -> Section:
    """Flagged against expected by luck, D.4's rule, the independence formulas, the voters."""
    return Section("luck", "Removed, and how much of it is luck", "Removed and luck", tuple(_blocks(summary)))


def _blocks(summary: Summary) -> list[Block]:
    screen = part(summary, "screen")
    if not screen:
        return [Text("Not measured: this run holds no choices-only screen.", quiet=True)]
    blocks: list[Block] = []
    if text(screen.get("sentence")):
        blocks.append(Text(plain(text(screen.get("sentence")), 1000)))
    plot = flagged_plot(summary)
    return [
        *blocks,
        *([plot] if plot else []),
        _flags(summary),
        _independence(screen),
        _voters(screen),
        Text(
            "Luck is counted with exchangeable keys: had another option of the item been the key, would the "
            "same answers have flagged it? That needs no independence between voters, who share "
            "their errors. The "
            "independence formulas stand beside it for reference only.",
            quiet=True,
        ),
    ]


def flagged_plot(summary: Summary) -> Plot | None:
    """Flagged and expected as shares of the items, for the rule of this run and for D.4's."""
    screen = part(summary, "screen")
    rules = (("This run's rule", screen), ("Deep Ignorance D.4's rule", part(screen, "d4_rule")))
    rows = [row for label, rule in rules for row in _pair(label, rule)]
    if not rows:
        return None
    return Plot(
        "flagged",
        "Items flagged by the screen, and items that luck alone would flag",
        tuple(rows),
        (("main", "flagged"), ("luck", "expected by luck")),
        note="Share of the items asked; bars are 95 % intervals.",
    )


def _pair(label: str, rule: Mapping[str, object]) -> list[Row]:
    flagged = quantity(rule.get("flagged"))
    expected = quantity(rule.get("expected_false_flags")).over(flagged.n or 0)
    found: tuple[tuple[str, Quantity, Kind], ...] = (
        ("flagged", flagged, "main"),
        ("expected by luck", expected, "luck"),
    )
    marks = [
        Row(name, (Mark(q.value, q.lo, q.hi, kind),), percent(q.value))
        for name, q, kind in found
        if q.value is not None
    ]
    return [Row(label), *marks] if marks else []


def _flags(summary: Summary) -> Table:
    screen = part(summary, "screen")
    d4 = part(screen, "d4_rule")
    none = absent("no letter answers") if not d4 else absent()
    rows = (
        ("Flagged", rate_cell(screen.get("flagged")), rate_cell(d4.get("flagged")) if d4 else none),
        (
            "Flags that luck alone would give",
            count_cell(screen.get("expected_false_flags")),
            count_cell(d4.get("expected_false_flags")) if d4 else none,
        ),
        (
            "Excess over luck",
            _excess(screen),
            _excess(d4) if d4 else none,
        ),
        (
            "Items with a real shortcut (estimate)",
            rate_cell(screen.get("latent_shortcut_rate")),
            rate_cell(d4.get("latent_shortcut_rate")) if d4 else none,
        ),
    )
    return Table(
        "Flagged, and what luck explains",
        (Column("", figures=False), Column("This run's rule"), Column("D.4's rule")),
        tuple((Cell(label), ours, theirs) for label, ours, theirs in rows),
        f"This run: {rule_words(summary)}. D.4's rule: one order, letter answers, all voters right"
        + (f"; template {plain(text(d4.get('template'), ABSENT))}." if d4 else "."),
    )


def _excess(rule: Mapping[str, object]) -> Cell:
    return points_cell(rule.get("excess_over_chance"), number(at(rule, "excess_over_chance", "p")))


def rule_words(summary: Summary) -> str:
    """The screen's rule in words. Items with fewer options stand in fewer orders."""
    screen = part(summary, "screen")
    said = [
        f"{plain(text(screen.get('criterion'), 'criterion unknown'))} vote",
        f"{plain(text(screen.get('mode'), 'unknown'))} mode",
        f"template {plain(text(screen.get('template'), 'unknown'))}",
    ]
    rotations = whole(screen.get("rotations"))
    if rotations is not None:
        most = "up to " if rotations > 1 and len(part(summary, "benchmark", "option_counts")) > 1 else ""
        said.append(f"{most}{count(rotations)} order{'s' if rotations != 1 else ''} an item")
    return ", ".join([*said, probe_words(screen)])


def probe_words(rule: Mapping[str, object]) -> str:
    """What part the artifact probe has in a rule."""
    match rule.get("probe_vote"):
        case "with":
            return "the probe votes as one more voter"
        case "alone":
            bar = number(rule.get("probe_confidence"))
            return "a confident probe flags alone" + ("" if bar is None else f" (at {bar:.2f} or more)")
        case "none":
            return "the probe does not vote"
        case _:
            return "whether the probe votes is not recorded"


def _independence(screen: Mapping[str, object]) -> Table:
    formula, agree = part(screen, "independence"), part(screen, "agreement")
    rows = (
        (
            "All voters right, were they independent (product of accuracies)",
            rate_cell(formula.get("unanimous_by_accuracy")),
        ),
        ("All voters right by blind guessing (product of 1/k)", rate_cell(formula.get("unanimous_by_luck"))),
        ("Voters that pick the same option: observed", rate_cell(agree.get("observed"))),
        ("Voters that pick the same option: were they independent", rate_cell(agree.get("independent"))),
        ("Observed over independent", number_cell(agree.get("ratio"), 2)),
        ("Fleiss kappa of being right", number_cell(agree.get("fleiss_kappa"), 2)),
    )
    return Table(
        "If voters were independent (for reference)",
        (Column("", figures=False), Column("Value")),
        tuple((Cell(label), cell) for label, cell in rows),
    )


def _voters(screen: Mapping[str, object]) -> Block:
    voters = tuple(named(screen, "voters"))
    by_text = screen.get("mode") == "text" and not any(v.get("position_share") for _, v in voters)
    if not voters:
        return Text("No voters are recorded.", quiet=True)
    return Table(
        "The voters, asked with the choices only",
        (
            Column("Voter", figures=False),
            Column("Right without the question"),
            Column("Picks by place shown"),
            Column("Unanswered"),
        ),
        tuple(
            (
                Cell(
                    plain(name),
                    badge="" if v.get("kind") == "model" else spaced(text(v.get("kind"), "kind unknown")),
                ),
                rate_cell(v.get("choices_only_accuracy")),
                absent("no letters shown") if by_text else places(v.get("position_share")),
                count_cell(v.get("unanswered")),
            )
            for name, v in voters
        ),
        "Picks by place: the share of picks that fell on the first, second, ... option shown; even "
        "shares mean "
        "that no letter is favoured.",
    )


def places(x: object) -> Cell:
    """Shares by place: `A 24.1, B 25.3, ... %`."""
    shares = numbers(x)
    if not shares:
        return absent()
    return Cell(", ".join(f"{chr(65 + i)} {100 * s:.1f}" for i, s in enumerate(shares[:26])) + " %")
