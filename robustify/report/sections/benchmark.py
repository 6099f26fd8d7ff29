"""What the audit found out about the benchmark itself: its make, defects, key places, topics and heuristics."""

from collections.abc import Sequence

from robustify.report.blocks import (
    Block,
    Cell,
    Column,
    Kind,
    Line,
    Paragraph,
    Plot,
    PlotRow,
    Row,
    Section,
    Table,
    labelled,
    text_table,
)
from robustify.report.format import (
    absent,
    count,
    count_cell,
    counted,
    dot,
    dots,
    joined,
    p_before,
    p_cell,
    p_value,
    percent,
    plain,
    rate_cell,
    shares_cell,
    spaced,
)
from robustify.report.reasons import key_places_sentence
from robustify.report.sections.scores import chance_line
from robustify.stats.tests import LEVEL
from robustify.summary.quantity import Quantity
from robustify.summary.result import Summary
from robustify.summary.screened import (
    Benchmark,
    DefectCount,
    HeuristicRow,
    Heuristics,
    KeyPlaces,
    Splits,
    TopicRow,
    Topics,
)

DEFECTS = {
    "repeated_choice": "two options of an item are the same",
    "repeated_key_text": "another option has the key's text",
    "empty_choice": "an option is empty",
    "repeated_stem": "the question occurs more than once",
    "conflicting_key": "the same question and options have another key elsewhere",
    "blank_stem": "nothing of the question shows",
    "control_character": "control characters in the question or an option",
}
TESTS = {"chi-square": "chi-square", "drawn": "keys drawn evenly"}
MOST_DRAWN = 30
ABSENT_LAST = 2.0


def findings(summary: Summary) -> Section:
    """What the benchmark is made of, its defects, and which items are no cloze."""
    bench = summary.benchmark or Benchmark()
    blocks = (_make(bench), _defects(bench), _exclusions(summary.splits or Splits()))
    return Section.of("findings", "Findings about the benchmark", *blocks, words="defects cloze chance")


def _make(bench: Benchmark) -> Table:
    counts = [(k, n) for k, n in (bench.option_counts or {}).items() if isinstance(n, int)]
    options = ", ".join(f"{counted(n, 'item')} with {plain(k)}" for k, n in counts)
    rows = [
        ("Items", count_cell(bench.n_items)),
        ("Rows set aside (quarantine)", count_cell(bench.n_quarantined)),
        ("Options an item", Cell(options) if options else absent()),
        ("Chance accuracy", rate_cell(bench.chance_accuracy)),
        ("Where the key is", shares_cell(bench.key_positions)),
        ("Topics", Cell(count(len(bench.topics))) if bench.topics else absent("none named")),
    ]
    return labelled("At a glance", rows, words=2)


def _defects(bench: Benchmark) -> Block | str:
    if bench.defects is None:
        return "Defects of items: not looked for."
    if not bench.defects:
        return "No defective items were found (equal or empty options, repeated questions)."
    return text_table(
        "Defects, by kind",
        ("Kind", "Items", Column("Which", figures=False)),
        (
            (Cell(spaced(kind), DEFECTS.get(kind, "")), count_cell(e.n), _ids(e))
            for kind, e in bench.defects.items()
        ),
    )


def _ids(defect: DefectCount) -> Cell:
    ids, n = defect.items, defect.n
    if not ids:
        return absent("not listed")
    more = f"and {count(n - len(ids))} more" if isinstance(n, int) and n > len(ids) else ""
    return Cell(", ".join(plain(i, 60) for i in ids), more)


def _exclusions(splits: Splits) -> Block | str:
    if splits.cloze_excluded is None:
        return "Exclusions from cloze: not recorded."
    if not splits.cloze_excluded:
        return "Every item can be asked as cloze."
    return text_table(
        "Items that cannot be asked as cloze, by reason",
        ("Reason", "Items"),
        ((spaced(reason), count_cell(n)) for reason, n in splits.cloze_excluded.items()),
    )


def key_place_blocks(summary: Summary) -> tuple[Block | str, ...]:
    """At which places keys are, and whether they are spread evenly."""
    entry = (summary.benchmark or Benchmark()).key_places
    if entry is None:
        return ("Whether keys are spread evenly over the places was not tested.",)
    uneven = key_places_sentence(entry)
    finding = Paragraph(plain(uneven, 1000)) if uneven else _even(entry)
    return (finding, _key_shares(entry)) if entry.shares else (finding,)


def _even(entry: KeyPlaces) -> str:
    if entry.p is None:
        return "Whether keys are spread evenly over the places could not be tested."
    may = "are not spread evenly" if entry.p <= LEVEL else "may well be spread evenly"
    tested = joined(p_value(entry.p), plain(TESTS.get(entry.test, entry.test)) if entry.test else "")
    return f"Keys {may} over the places of the benchmark's own order ({tested})."


def _key_shares(entry: KeyPlaces) -> Table:
    sizes = list((entry.by_options or {}).items())
    rows: list[Row] = [("All items", count_cell(entry.n), shares_cell(entry.shares))]
    if len(sizes) > 1:
        rows += [(f"Items with {plain(k)} options", count_cell(e.n), shares_cell(e.shares)) for k, e in sizes]
    heads = ("Items", "Count", "Keys at each place")
    return text_table("Where the keys are, in the benchmark's own order", heads, rows)


def topics(summary: Summary) -> Section:
    """How much of each topic was kept, and whether the mix of topics moved."""
    entry = summary.topics or Topics()
    rows = sorted((entry.by_topic or {}).items(), key=lambda row: (_kept(row[1]), row[0]))
    title = "What is left of each topic"
    if not rows:
        return Section.of("topics", title, "Not measured: the benchmark names no topics.")
    plot = topics_plot(rows, summary.splits or Splits())
    return Section.of("topics", title, Paragraph(_drift(entry)), plot, _retention(rows), words="retention")


def _kept(row: TopicRow) -> float:
    value = (row.retention or Quantity()).value
    return ABSENT_LAST if value is None else value


def _drift(entry: Topics) -> str:
    if entry.kl_nats is None:
        return "The drift of the topic mix was not measured."
    null = entry.kl_null
    by_chance = "" if null is None else f"; removing as many items at random gives {null:.4f} nats on average"
    tested = "" if entry.p is None else f"; {p_value(entry.p)}"
    return (
        f"The mix of topics moved by {entry.kl_nats:.4f} nats (KL, after against before){by_chance}{tested}."
    )


def topics_plot(found: list[tuple[str, TopicRow]], splits: Splits) -> Plot | None:
    """Retention by topic, the lowest first."""
    rows = [row for name, e in found for row in dot(_topic(name), e.retention)]
    if not rows:
        return None
    overall = splits.robust / splits.all if splits.robust is not None and splits.all else None
    cut = f" The {MOST_DRAWN} lowest of {len(rows)} topics are drawn." if len(rows) > MOST_DRAWN else ""
    return Plot(
        "topics",
        "Share of each topic that was kept",
        tuple(rows[:MOST_DRAWN]),
        (("main", "kept"),),
        () if overall is None else (Line(overall, f"all topics {percent(overall)}"),),
        f"Bars are 95 % intervals.{cut}",
    )


def _topic(name: str) -> str:
    return plain(name) if name.strip() else "(no topic)"


def _retention(rows: list[tuple[str, TopicRow]]) -> Table:
    tested = any("p_bh" in e.model_fields_set for _, e in rows)
    return text_table(
        "Topics before and after",
        ("Topic", "Before", "After", "Kept", *(["p, BH"] if tested else [])),
        (
            (
                _topic(name),
                count_cell(e.before),
                count_cell(e.after),
                rate_cell(e.retention),
                *([p_cell(e.p_bh, p_before(e.p))] if tested else []),
            )
            for name, e in rows
        ),
        "" if tested else "Whether a topic lost more than a random removal takes was not tested.",
    )


SPLITS = ("all", "shortcut", "robust", "cloze")
Rows = dict[str, HeuristicRow]


def heuristics(summary: Summary) -> Section:
    """Every heuristic before and after the removal, against chance."""
    by_split = _by_split(summary.heuristics or Heuristics())
    names = list(dict.fromkeys(name for rows in by_split.values() for name in rows))
    title = "Heuristics without a model"
    if not names:
        return Section.of("heuristics", title, "Not measured: the heuristics need the items' text.")
    plot = heuristics_plot(summary, by_split, names)
    return Section.of(
        "heuristics", title, plot, _heuristics_table(by_split, names), words="heuristic chance rate"
    )


def _by_split(found: Heuristics) -> dict[str, Rows]:
    rows = (found.all, found.shortcut, found.robust, found.cloze)
    return {split: row or {} for split, row in zip(SPLITS, rows, strict=True)}


def heuristics_plot(summary: Summary, by_split: dict[str, Rows], names: Sequence[str]) -> Plot | None:
    """Each heuristic on all items and on those kept."""
    drawn: tuple[tuple[Kind, str], ...] = (("before", "all"), ("main", "robust"))
    rows: list[PlotRow] = []
    for name in names:
        rows += dots(spaced(name), ((kind, by_split[split].get(name)) for kind, split in drawn))
    if not rows:
        return None
    return Plot(
        "heuristics",
        "Accuracy of each heuristic before and after the removal",
        tuple(rows),
        (("before", "all items"), ("main", "robust items")),
        chance_line(summary),
        "Bars are 95 % intervals. Of all items a point right of chance is a feature that gives the key away.",
    )


def _heuristics_table(by_split: dict[str, Rows], names: Sequence[str]) -> Table:
    shared = {split: _shared_n(rows) for split, rows in by_split.items()}
    heads = [s.capitalize() if n is None else f"{s.capitalize()}, n = {count(n)}" for s, n in shared.items()]
    everywhere, kept = by_split["all"], by_split["robust"]
    blind = not any(row.expected is not None for row in kept.values())
    return text_table(
        "Accuracy of each heuristic by split",
        ("Heuristic", *heads, "Ties", "p on All", "p on Robust"),
        (
            (
                spaced(name),
                *(_heuristic_rate(rows.get(name), shared[split]) for split, rows in by_split.items()),
                count_cell(everywhere[name].ties if name in everywhere else None),
                p_cell(everywhere[name].p_holm if name in everywhere else None),
                _p_on_kept(kept.get(name)),
            )
            for name in names
        ),
        "p on Robust is against a chance that knows nothing of the selection." if blind else "",
    )


def _shared_n(rows: Rows) -> int | None:
    # Said once in the head of the column where all heuristics rest on the same items.
    sizes = {q.n for q in rows.values() if q.value is not None}
    return sizes.pop() if len(sizes) == 1 else None


def _heuristic_rate(q: HeuristicRow | None, shared: int | None) -> Cell:
    if q is None or q.value is None or shared is None:
        return rate_cell(q)
    return rate_cell(q.model_copy(update={"n": None}))


def _p_on_kept(q: HeuristicRow | None) -> Cell:
    if q is None:
        return p_cell(None)
    return p_cell(q.p_holm, "" if q.expected is None else f"expected {percent(q.expected)}")
