"""Whether the removal stands: what outside auditors find in what was kept, and what other rules would have removed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from robustify.report.blocks import (
    Bullets,
    Cell,
    Kind,
    Line,
    Paragraph,
    Plot,
    Section,
    Table,
    text_table,
)
from robustify.report.format import (
    absent,
    count,
    count_cell,
    dot,
    joined,
    missing,
    noted,
    number_cell,
    p_value,
    percent,
    plain,
    present,
    rate_cell,
)
from robustify.report.reasons import CUES, sentence
from robustify.report.sections.headline import certificate_reasons, verdict
from robustify.report.sections.removal import excess_cell, probe_words
from robustify.summary.quantity import Quantity
from robustify.summary.result import Audit, Auditor, Residual, RuleRow, Summary

CONTROL = "control, not an auditor"


def residual(summary: Summary) -> Section:
    """Auditors that did not vote, on the items that were kept."""
    entry = present(summary.residual)
    title = "Are shortcuts left?"
    if entry is None:
        return Section.of("residual", title, "Not measured: nothing audited the items kept.")
    said = " ".join(verdict(summary)[2:] + certificate_reasons(summary))
    reasons = tuple(x for r in entry.reasons or () if (x := plain(sentence(r), 600)) not in said)
    return Section.of(
        "residual",
        title,
        Paragraph(_finding(entry)),
        Bullets(reasons) if reasons else None,
        residual_plot(entry),
        _auditors(entry),
        _seen(entry),
        words="auditor margin seen chance certificate",
    )


def _finding(entry: Residual) -> str:
    word = plain(entry.verdict or "no verdict")
    chance = "Chance was not computed" if entry.chance is None else f"Chance is {percent(entry.chance)}"
    beyond = missing() if entry.margin is None else f"{100 * entry.margin:.0f} points"
    return f"The audit's verdict: {word}. {chance}; the margin is {beyond}."


@dataclass(frozen=True, slots=True)
class Audited:
    """One auditor on the items kept; a `control` is there for comparison and has no part in the verdict."""

    name: str
    kind: str
    rate: Quantity | None
    control: bool = False


def audits(entry: Residual) -> Iterator[Audited]:
    """Every auditor, and below each linear probe the same one on random weights."""
    for rows, label in ((entry.non_voters, "did not vote"), (entry.leave_one_out, "left out")):
        for name, auditor in (rows or {}).items():
            yield Audited(plain(name), label, auditor)
    for name, head in (entry.heads or {}).items():
        yield Audited(plain(name), "linear probe", head)
        yield Audited(f"{plain(name)}, random weights", CONTROL, head.control, control=True)
    for name, rule in (entry.heuristics or {}).items():
        yield Audited(plain(name), "rule", rule)
    yield Audited("probe", "fresh, but a probe voted" if entry.probe_voted else "fresh", entry.probe)


def residual_plot(entry: Residual) -> Plot | None:
    """The auditors against chance and the margin."""
    shown = [a for a in audits(entry) if a.rate is not None and a.rate.value is not None]
    rows = tuple(
        row
        for a in shown
        for row in dot(
            a.name if a.control else f"{a.name}, {a.kind}", a.rate, "chance" if a.control else "main"
        )
    )
    if not rows:
        return None
    lines: tuple[Line, ...] = ()
    if entry.chance is not None:
        lines = (Line(entry.chance, f"chance {percent(entry.chance)}"),)
        if entry.margin is not None:
            limit = entry.chance + entry.margin
            lines = (*lines, Line(limit, f"chance + margin {percent(limit)}"))
    controls: tuple[tuple[Kind, str], ...] = (("chance", CONTROL),) if any(a.control for a in shown) else ()
    return Plot(
        "residual",
        "Right answers without the question, on the items kept",
        rows,
        (("main", "auditor"), *controls),
        lines,
        "A certificate needs every auditor's interval left of its own chance + margin.",
    )


def _auditors(entry: Residual) -> Table:
    note = "" if entry.non_voters else "Every model of this run voted."
    if not entry.heads:
        note += " No linear probe was fitted to a frozen model's vectors."
    heads = ("Right on the items kept", "Chance under selection", "p", "Right on all items")
    return text_table(
        "The auditors",
        ("Auditor", "Kind", *heads),
        ((a.name, a.kind, rate_cell(a.rate), *_beside(a)) for a in audits(entry)),
        note.strip(),
        words=2,
    )


def _beside(a: Audited) -> tuple[Cell, Cell, Cell]:
    if a.control:
        return absent("not judged by it"), absent("not judged by it"), absent("not asked")
    auditor = a.rate if isinstance(a.rate, Auditor) else Auditor()
    return _chance(auditor), _p(auditor), rate_cell(auditor.before)


def _p(auditor: Audit) -> Cell:
    if auditor.p is None:
        return absent("bounds decide" if auditor.n else "")
    return Cell(p_value(auditor.p), f"{auditor.refits} refits" if auditor.refits else "exact")


def _seen(entry: Residual) -> Table | None:
    """Which kinds of cue each auditor would have seen; None where none was tried."""
    rows = [(a, a.rate.sees_from) for a in audits(entry) if isinstance(a.rate, Auditor) and a.rate.sees_from]
    if not rows:
        return None
    kinds = tuple(rows[0][1])
    return text_table(
        "From which share on each auditor would have seen a cue",
        ("Auditor", "Kind", *(CUES.get(kind, plain(kind)) for kind in kinds)),
        (
            (a.name, "rules" if a.kind == "rule" else a.kind, *(_share(seen.get(k)) for k in kinds))
            for a, seen in rows
        ),
        words=2,
    )


def _share(share: float | None) -> Cell:
    return absent("not seen") if share is None else Cell(percent(share))


def _chance(auditor: Audit) -> Cell:
    cell = rate_cell(auditor.chance)
    if cell.tone == "absent" or auditor.free is None or auditor.n is None:
        return cell
    return Cell(cell.main, f"free to be right on {count(auditor.free)} of {count(auditor.n)}")


HEADS = ("Flagged", "Of these by chance", "Excess")
OVERLAP = "Overlap"
ORDERS = {"averaged": "orders averaged", "every": "picked in every order", "most": "picked in most orders"}
NORMS = {"chars": "per character", "tokens": "per token", "bytes": "per byte", "sum": "by the sum"}


def sensitivity(summary: Summary) -> Section:
    """This run's rule with its alternatives, then the variants that nobody configured."""
    rules = summary.sensitivity or ()
    configured = [r for r in rules if not r.automatic]
    others = [r for r in rules if r.automatic]
    title = "Under other rules"
    if not rules:
        return Section.of("rules", title, "Not measured: no other rule was asked for.")
    tables = (_configured(configured) if configured else None, _automatic(others))
    return Section.of("rules", title, *tables, words="expected overlap chance")


def _configured(rules: Sequence[RuleRow]) -> Table:
    return text_table(
        "What each rule would have removed",
        ("Rule", *HEADS, "Probe on what is left", OVERLAP),
        ((_name(r), *_counts(r), _left(r), number_cell(r.jaccard, 2)) for r in rules),
        "The first row is this run's rule.",
    )


def _automatic(rules: Sequence[RuleRow]) -> Table | str:
    if not rules:
        return "Rules that nobody configured were not tried, or the answers support none that differs."
    return text_table(
        "Rules one change away, which nobody configured",
        ("Change", *HEADS, OVERLAP),
        ((_name(r), *_counts(r), number_cell(r.jaccard, 2)) for r in rules),
        "Every rule that the answers support and that differs from this run's in one thing.",
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
