"""What other rules would have removed: the configured ones, and every rule one change away."""

from collections.abc import Sequence

from robustify.report.blocks import Cell, Paragraph, Section, Table, heads_of, quiet
from robustify.report.format import count_cell, joined, noted, number_cell, percent, plain, rate_cell
from robustify.report.sections.removal import excess_cell, probe_words
from robustify.summary.result import RuleRow, Summary

HEADS = ("Flagged", "Of these by chance", "Excess")
OVERLAP = "Overlap"
ORDERS = {"averaged": "orders averaged", "every": "picked in every order", "most": "picked in most orders"}
NORMS = {"chars": "per character", "tokens": "per token", "bytes": "per byte", "sum": "by the sum"}
NOTE = (
    "By chance: the share of the flagged that is right by chance, from the options that would have been flagged and are "
    "no key. Overlap with this run's rule: items flagged by both over items flagged by either "
    "(Jaccard). Where chance knows the places of the keys, the table says so."
)


def sensitivity(summary: Summary) -> Section:
    """This run's rule with its alternatives, then the variants that nobody configured."""
    rules = summary.sensitivity or ()
    configured = [r for r in rules if not r.automatic]
    others = [r for r in rules if r.automatic]
    title = "Under other rules", "Other rules"
    if not rules:
        return Section("rules", *title, (quiet("Not measured: no other rule was asked for."),))
    return Section.of("rules", *title, _configured(configured) if configured else None, _automatic(others))


def _configured(rules: Sequence[RuleRow]) -> Table:
    return Table(
        "What each rule would have removed",
        heads_of("Rule", *HEADS, "Probe on what is left", OVERLAP),
        tuple((_name(r), *_counts(r), _left(r), number_cell(r.jaccard, 2)) for r in rules),
        f"The first row is this run's rule. {NOTE} Chance under selection: what a probe that knows nothing gets on "
        "the items that this rule leaves.",
    )


def _automatic(rules: Sequence[RuleRow]) -> Table | Paragraph:
    if not rules:
        return quiet("Rules that nobody configured were not tried, or the answers support none that differs.")
    return Table(
        "Rules one change away, which nobody configured",
        heads_of("Change", *HEADS, OVERLAP),
        tuple((_name(r), *_counts(r), number_cell(r.jaccard, 2)) for r in rules),
        f"Every rule that the answers support and that differs from this run's in one thing. {NOTE}",
    )


def _name(r: RuleRow) -> Cell:
    name = r.name or "unnamed rule"
    same = ", ".join(plain(s) for s in r.same_as or ())
    change = "" if r.differs == name else plain(r.differs, 400) if r.differs else _settings(r)
    return Cell(plain(name, 400), joined(change, f"the same as: {same}" if same else ""))


def _settings(r: RuleRow) -> str:
    return joined(
        *(plain(x) for x in (r.criterion, r.mode, r.template) if x),
        plain(NORMS.get(r.norm, r.norm)) if r.norm else "",
        plain(ORDERS.get(r.rotation, r.rotation)) if r.rotation else "",
        probe_words(r.probe_vote),
    )


def _counts(r: RuleRow) -> tuple[Cell, Cell, Cell]:
    deciding = r.by_place or r
    chance = count_cell(deciding.expected) if r.false_share is None else rate_cell(r.false_share)
    return (
        rate_cell(r.flagged),
        noted(chance, "places known" if r.by_place else ""),
        excess_cell(deciding.excess),
    )


def _left(r: RuleRow) -> Cell:
    probe = r.residual_probe
    if probe is None:
        return rate_cell(None)
    voted = r.probe_vote in ("with", "alone") and probe.value is not None
    return noted(
        rate_cell(probe),
        "" if probe.chance is None else f"chance under selection {percent(probe.chance)}",
        "no independent audit, the probe voted" if voted else "",
    )
