"""What the audit found out about the benchmark itself, and which limits the run keeps."""

from collections.abc import Mapping

from robustify.report.blocks import Block, Cell, Column, Section, Table, Text
from robustify.report.reading import at, named, number, part, records, text, texts, whole
from robustify.report.words import absent, count, count_cell, counted, places, plain, rate_cell, spaced

Summary = Mapping[str, object]
DEFECTS = {
    "repeated_choice": "two options of an item are the same",
    "repeated_key_text": "another option has the key's text",
    "empty_choice": "an option is empty",
    "repeated_stem": "the question stands more than once",
}


def findings(summary: Summary) -> Section:
    """What the audit found out about the benchmark itself."""
    bench = part(summary, "benchmark")
    blocks = (_make(bench), _defects(bench), _exclusions(summary))
    return Section("findings", "Findings about the benchmark", "The benchmark", blocks)


def _make(bench: Mapping[str, object]) -> Table:
    options = [(str(k), whole(n)) for k, n in part(bench, "option_counts").items()]
    shown = ", ".join(f"{counted(n, 'item')} with {plain(k)}" for k, n in options if n is not None)
    rows = (
        ("Items", count_cell(bench.get("n_items"))),
        ("Rows set aside (quarantine)", count_cell(bench.get("n_quarantined"))),
        ("Options an item", Cell(shown) if shown else absent()),
        ("Chance accuracy", rate_cell(bench.get("chance_accuracy"))),
        ("Where the key stands", places(bench.get("key_positions"))),
        (
            "Topics",
            Cell(count(len(part(bench, "topics")))) if part(bench, "topics") else absent("none named"),
        ),
    )
    return Table(
        "At a glance",
        (Column("", figures=False), Column("Value", figures=False)),
        tuple((Cell(label), cell) for label, cell in rows),
    )


def _defects(bench: Mapping[str, object]) -> Block:
    if not isinstance(bench.get("defects"), Mapping):
        return Text("Defects of items: not looked for.", quiet=True)
    found = tuple(named(bench, "defects"))
    if not found:
        return Text("No defective items were found (equal or empty options, repeated questions).", quiet=True)
    return Table(
        "Defects, by kind",
        (Column("Kind", figures=False), Column("Items"), Column("Which", figures=False)),
        tuple(
            (Cell(spaced(kind), DEFECTS.get(kind, "")), count_cell(e.get("n")), _ids(e)) for kind, e in found
        ),
        "Such items are asked like all others, and left out with a reason only where they cannot be scored.",
    )


def _ids(entry: Mapping[str, object]) -> Cell:
    ids, n = texts(entry.get("items")), whole(entry.get("n"))
    if not ids:
        return absent("not listed")
    more = f"and {count(n - len(ids))} more" if n is not None and n > len(ids) else ""
    return Cell(", ".join(plain(i, 60) for i in ids), more)


def _exclusions(summary: Summary) -> Block:
    if not isinstance(at(summary, "splits", "cloze_excluded"), Mapping):
        return Text("Exclusions from cloze: not recorded.", quiet=True)
    reasons = part(summary, "splits", "cloze_excluded")
    if not reasons:
        return Text("Every item can be asked as cloze.", quiet=True)
    return Table(
        "Items that cannot be asked as cloze, by reason",
        (Column("Reason", figures=False), Column("Items")),
        tuple((Cell(spaced(str(reason))), count_cell(n)) for reason, n in reasons.items()),
    )


def guardrails(summary: Summary) -> Section:
    """Which limits this run keeps."""
    rows = tuple(
        (
            Cell(spaced(text(g.get("name"), "unnamed"))),
            _outcome(g),
            _value(g.get("value")),
            _value(g.get("limit")),
            Cell(plain(text(g.get("reason"), "no reason given"), 600)),
        )
        for g in records(at(summary, "guardrails"))
    )
    block: Block = Text("No guardrails were applied.", quiet=True)
    if rows:
        heads = (
            Column("Guardrail", figures=False),
            Column("Outcome", figures=False),
            Column("Value"),
            Column("Limit"),
        )
        block = Table("Limits this run is held to", (*heads, Column("Reason", figures=False)), rows)
    return Section("guardrails", "Guardrails", "Guardrails", (block,))


def _outcome(g: Mapping[str, object]) -> Cell:
    halts = "halts the export" if g.get("halts_export") is True else ""
    match g.get("passed"):
        case True:
            return Cell("passed", tone="good")
        case False:
            return Cell("failed", halts, "bad")
        case _:
            return absent("not checked")


def _value(x: object) -> Cell:
    match x:
        case bool():
            return Cell("yes" if x else "no")
        case int() | float() if number(x) is not None:
            return Cell(count(x) if float(x).is_integer() else f"{x:.3g}")
        case str() if x:
            return Cell(plain(x))
        case Mapping():
            return rate_cell(x)
        case _:
            return absent("none")
