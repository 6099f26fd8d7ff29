"""What the screen removed, and how much of that luck explains."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from robustify.report.blocks import Block, Cell, Column, Kind, Mark, Plot, Row, Section, Table, Text
from robustify.report.reading import Quantity, at, named, number, part, quantity, text, whole
from robustify.report.sections.keyplaces import key_places
from robustify.report.words import (
    absent,
    between,
    count,
    count_cell,
    missing,
    number_cell,
    percent,
    places,
    plain,
    points_cell,
    rate_cell,
    spaced,
)

Summary = Mapping[str, object]
Entry = Callable[[Mapping[str, object], str], Cell]
EXPECTED = "expected_false_flags"


def luck(summary: Summary) -> Section:
    """Flagged against expected by luck, D.4's rule, the independence formulas, the voters."""
    return Section("luck", "Removed, and how much of it is luck", "Removed and luck", tuple(_blocks(summary)))


def _blocks(summary: Summary) -> list[Block]:
    screen = part(summary, "screen")
    if not screen:
        return [
            Text("Not measured: this run holds no choices-only screen.", quiet=True),
            *key_places(summary),
        ]
    blocks: list[Block] = []
    if text(screen.get("sentence")):
        blocks.append(Text(plain(text(screen.get("sentence")), 1000)))
    plot = flagged_plot(summary)
    return [
        *blocks,
        *([plot] if plot else []),
        _flags(summary),
        *key_places(summary),
        _independence(screen),
        _voters(screen),
        Text(
            "Luck is counted with exchangeable keys: had another option of the item been the key, would the "
            "same answers have flagged it? That needs no independence between voters, who share "
            "their errors. The independence formulas stand beside it for reference only. Knowing at which "
            "places keys stand is luck too: where the voters could see places, luck that knows them decides.",
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
    luck: tuple[tuple[str, object], ...] = (
        ("expected by luck", rule),
        ("expected, places known", rule.get("by_place")),
    )
    found: tuple[tuple[str, Quantity, Kind], ...] = (
        ("flagged", flagged, "main"),
        *((name, quantity(at(of, EXPECTED)).over(flagged.n or 0), "luck") for name, of in luck),
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
    rules = (screen, d4)
    none = absent("no letter answers")
    rows: list[tuple[Cell, ...]] = [
        (Cell(label), *(cell(rule, name) if rule else none for rule in rules))
        for label, name, cell in (("Flagged", "flagged", _rate), *LUCK)
    ]
    if any(part(rule, "by_place") for rule in rules):
        rows += [
            (
                Cell(f"{label}, places known"),
                *(_by_place(rule, name, cell) if rule else none for rule in rules),
            )
            for label, name, cell in LUCK
        ]
    return Table(
        "Flagged, and what luck explains",
        (Column("", figures=False), Column("This run's rule"), Column("D.4's rule")),
        tuple(rows),
        f"This run: {rule_words(summary)}. D.4's rule: one order, letter answers, all voters right"
        + (f"; template {plain(text(d4.get('template'), missing()))}." if d4 else "."),
    )


def _by_place(rule: Mapping[str, object], name: str, cell: Entry) -> Cell:
    by_place = part(rule, "by_place")
    if by_place:
        return cell(by_place, name)
    return absent("no places shown") if "by_place" in rule else absent()


def _rate(rule: Mapping[str, object], name: str) -> Cell:
    return rate_cell(rule.get(name))


def _count(rule: Mapping[str, object], name: str) -> Cell:
    return count_cell(rule.get(name))


def excess_cell(rule: Mapping[str, object], name: str) -> Cell:
    """What was flagged beyond luck, with its p."""
    return points_cell(rule.get(name), number(at(rule, name, "p")))


LUCK: tuple[tuple[str, str, Entry], ...] = (
    ("Flags that luck alone would give", EXPECTED, _count),
    ("Excess over luck", "excess_over_chance", excess_cell),
    ("Items with a real shortcut (estimate)", "latent_shortcut_rate", _rate),
)


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
        ("Voters that pick the same option: observed", rate_cell(_agreed(agree, "observed"))),
        ("Voters that pick the same option: were they independent", rate_cell(agree.get("independent"))),
        ("Observed over independent", _ratio(agree, "ratio")),
        ("Fleiss kappa of being right", _ratio(agree, "fleiss_kappa")),
        *_all_right(agree),
    )
    return Table(
        "If voters were independent (for reference)",
        (Column("", figures=False), Column("Value")),
        tuple((Cell(label), cell) for label, cell in rows),
    )


def _all_right(agree: Mapping[str, object]) -> tuple[tuple[str, Cell], ...]:
    if "all_right" not in agree:
        return ()
    return (
        ("Voters that are all right on the same item: observed", rate_cell(_agreed(agree, "all_right"))),
        ("Observed over the product of their accuracies", _ratio(agree, "all_right_ratio")),
    )


def _agreed(agree: Mapping[str, object], name: str) -> Quantity:
    found = {"value": agree.get(name), "n": agree.get("n"), "ci": agree.get(f"{name}_ci")}
    return quantity(found)


def _ratio(agree: Mapping[str, object], name: str) -> Cell:
    cell, q = number_cell(agree.get(name), 2), _agreed(agree, name)
    ends = "" if q.lo is None or q.hi is None else between(q.lo, q.hi, 1.0, 2)
    return cell if cell.tone == "absent" else replace(cell, small=ends)


def _voters(screen: Mapping[str, object]) -> Block:
    voters = tuple(named(screen, "voters"))
    by_text = screen.get("mode") == "text" and not any(v.get("position_share") for _, v in voters)
    tied = any("ties" in v for _, v in voters)
    if not voters:
        return Text("No voters are recorded.", quiet=True)
    return Table(
        "The voters, asked with the choices only",
        (
            Column("Voter", figures=False),
            Column("Right without the question"),
            Column("Picks by place shown"),
            Column("Unanswered"),
            *((Column("Ties"),) if tied else ()),
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
                *((count_cell(v.get("ties")),) if tied else ()),
            )
            for name, v in voters
        ),
        "Picks by place: the share of picks that fell on the first, second, ... option shown; even shares "
        "mean that no letter is favoured." + (" A tie is no vote." if tied else ""),
    )
