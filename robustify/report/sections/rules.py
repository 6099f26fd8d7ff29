"""What other rules would have removed: the configured ones, and every rule one change away."""

from collections.abc import Mapping
from dataclasses import replace

from robustify.report.blocks import Block, Cell, Column, Section, Table, Text
from robustify.report.reading import at, deciding, number, part, records, text, texts
from robustify.report.sections.removal import excess_cell, probe_words
from robustify.report.words import count_cell, joined, number_cell, percent, plain, rate_cell

Summary = Mapping[str, object]
Rule = Mapping[str, object]
HEADS = ("Flagged", "Luck", "Excess", "Overlap")
ORDERS = {"averaged": "orders averaged", "every": "picked in every order", "most": "picked in most orders"}
NORMS = {"chars": "per character", "tokens": "per token", "bytes": "per byte", "sum": "by the sum"}
NOTE = (
    "Overlap with this run's rule: items flagged by both over items flagged by either (Jaccard). Where luck knows "
    "the places of the keys, it says so."
)


def sensitivity(summary: Summary) -> Section:
    """This run's rule with its alternatives, then the variants that nobody configured."""
    rules = records(at(summary, "sensitivity"))
    blocks: list[Block] = [Text("Not measured: no other rule was asked for.", quiet=True)]
    if rules:
        told = tuple(r for r in rules if r.get("automatic") is not True)
        others = tuple(r for r in rules if r.get("automatic") is True)
        blocks = [*([_configured(told)] if told else []), _automatic(others)]
    return Section("rules", "Under other rules", "Other rules", tuple(blocks))


def _configured(rules: tuple[Rule, ...]) -> Table:
    return Table(
        "What each rule would have removed",
        (
            Column("Rule", figures=False),
            *(Column(h) for h in (*HEADS[:3], "Probe on what is left", HEADS[3])),
        ),
        tuple((_name(r), *_counts(r), _left(r), _overlap(r)) for r in rules),
        f"The first row is this run's rule. {NOTE} Chance under selection: what a probe that knows nothing gets on "
        "the items that this rule leaves.",
    )


def _automatic(rules: tuple[Rule, ...]) -> Block:
    if not rules:
        return Text(
            "Rules that nobody configured were not tried, or the answers support none that differs.",
            quiet=True,
        )
    return Table(
        "Rules one change away, which nobody configured",
        (Column("Change", figures=False), *(Column(h) for h in HEADS)),
        tuple((_name(r), *_counts(r), _overlap(r)) for r in rules),
        f"Every rule that the answers support and that differs from this run's in one thing. {NOTE}",
    )


def _name(r: Rule) -> Cell:
    name, differs = text(r.get("name"), "unnamed rule"), text(r.get("differs"))
    same = ", ".join(plain(s) for s in texts(r.get("same_as")))
    small = plain(differs, 400) if differs and differs != name else "" if differs else _settings(r)
    return Cell(plain(name, 400), joined(small, f"the same as: {same}" if same else ""))


def _settings(r: Rule) -> str:
    said = [plain(text(r.get(key))) for key in ("criterion", "mode", "template") if text(r.get(key))]
    norm, rotation = text(r.get("norm")), text(r.get("rotation"))
    return joined(
        *said,
        plain(NORMS.get(norm, norm)) if norm else "",
        plain(ORDERS.get(rotation, rotation)) if rotation else "",
        probe_words(r),
    )


def _counts(r: Rule) -> tuple[Cell, Cell, Cell]:
    luck = count_cell(deciding(r, "expected"))
    if part(r, "by_place"):
        luck = replace(luck, small=joined(luck.small, "places known"))
    return rate_cell(r.get("flagged")), luck, excess_cell({"excess": deciding(r, "excess")}, "excess")


def _overlap(r: Rule) -> Cell:
    return number_cell(r.get("jaccard"), 2)


def _left(r: Rule) -> Cell:
    cell, chance = rate_cell(r.get("residual_probe")), number(at(r, "residual_probe", "chance"))
    beside = "" if chance is None else f"chance under selection {percent(chance)}"
    voted = r.get("probe_vote") in ("with", "alone") and number(at(r, "residual_probe", "value")) is not None
    return replace(
        cell, small=joined(cell.small, beside, "no independent audit, the probe voted" if voted else "")
    )
