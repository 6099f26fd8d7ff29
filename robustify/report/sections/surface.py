"""Cues that need no model (the longest option, the first, ...), and what the removal did to the topics."""

from collections.abc import Mapping
from dataclasses import replace

from robustify.report.blocks import Block, Cell, Column, Kind, Line, Mark, Plot, Row, Section, Table, Text
from robustify.report.reading import at, named, number, part, quantity
from robustify.report.sections.scores import chance_line
from robustify.report.words import (
    count,
    count_cell,
    decimals,
    p_cell,
    p_value,
    percent,
    plain,
    rate_cell,
    spaced,
)

Summary = Mapping[str, object]
SPLITS = ("all", "shortcut", "robust", "cloze")
DRAWN: tuple[tuple[Kind, str], ...] = (("before", "all"), ("main", "robust"))
MOST_DRAWN = 30
KEYS_BESIDE_TOPICS = ("kl_nats", "kl_null", "p")


def heuristics(summary: Summary) -> Section:
    """Every heuristic before and after the removal, against chance."""
    names = _heuristic_names(summary)
    blocks: list[Block] = [Text("Not measured: the heuristics need the items' text.", quiet=True)]
    if names:
        plot = heuristics_plot(summary)
        blocks = [*([plot] if plot else []), _heuristics(summary, names)]
    return Section("heuristics", "Heuristics without a model", "Heuristics", tuple(blocks))


def _heuristic_names(summary: Summary) -> list[str]:
    return list(dict.fromkeys(name for split in SPLITS for name, _ in named(summary, "heuristics", split)))


def heuristics_plot(summary: Summary) -> Plot | None:
    """Each heuristic on all items and on those kept."""
    rows = []
    for name in _heuristic_names(summary):
        found = [(kind, quantity(at(summary, "heuristics", split, name))) for kind, split in DRAWN]
        marks = tuple(Mark(q.value, q.lo, q.hi, kind) for kind, q in found if q.value is not None)
        values = " → ".join(f"{100 * m.value:.{decimals()}f}" for m in marks)
        rows += [Row(spaced(name), marks, f"{values} %")] if marks else []
    if not rows:
        return None
    return Plot(
        "heuristics",
        "Accuracy of each heuristic before and after the removal",
        tuple(rows),
        (("before", "all items"), ("main", "robust items")),
        chance_line(summary),
        "Bars are 95 % intervals. Of all items a point right of chance is a cue that pays; of what was kept it may be "
        "what the selection alone leaves to luck, which its p takes off.",
    )


def _heuristics(summary: Summary, names: list[str]) -> Table:
    shared = {split: _shared_n(summary, names, split) for split in SPLITS}
    heads = [s.capitalize() if n is None else f"{s.capitalize()}, n = {count(n)}" for s, n in shared.items()]
    return Table(
        "Accuracy of each heuristic by split",
        tuple(
            Column(h, figures=i > 0)
            for i, h in enumerate(("Heuristic", *heads, "Ties", "p on All", "p on Robust"))
        ),
        tuple(
            (
                Cell(spaced(name)),
                *(_rate(at(summary, "heuristics", split, name), shared[split]) for split in SPLITS),
                count_cell(at(summary, "heuristics", "all", name, "ties")),
                *(_p(summary, split, name) for split in ("all", "robust")),
            )
            for name in names
        ),
        "Ties share the credit; their number is that on All. p after Holm's correction over the family of "
        f"heuristics, {_against(summary, names)}",
    )


def _against(summary: Summary, names: list[str]) -> str:
    if any(number(at(summary, "heuristics", "robust", name, "luck")) is not None for name in names):
        return (
            "on All against chance, on Robust against luck: what was kept has its key where the voters did not find "
            "it, so whoever shuns their picks is right more often without any cue."
        )
    return "against chance, which on Robust knows nothing of the selection."


def _shared_n(summary: Summary, names: list[str], split: str) -> int | None:
    # Said once in the head of the column where all heuristics rest on the same items.
    found = {
        q.n for q in (quantity(at(summary, "heuristics", split, n)) for n in names) if q.value is not None
    }
    return found.pop() if len(found) == 1 else None


def _rate(x: object, shared: int | None) -> Cell:
    q = quantity(x)
    if q.value is None:
        return rate_cell(x)
    return rate_cell(q if shared is None or q.value is None else replace(q, n=None))


def _p(summary: Summary, split: str, name: str) -> Cell:
    luck = number(at(summary, "heuristics", split, name, "luck")) if split == "robust" else None
    beside = "" if luck is None else f"luck {percent(luck)}"
    return p_cell(at(summary, "heuristics", split, name, "p_holm"), beside)


def topics(summary: Summary) -> Section:
    """How much of each topic was kept, and whether the mix of topics moved."""
    found = _topics(summary)
    blocks: list[Block] = [Text("Not measured: the benchmark names no topics.", quiet=True)]
    if found:
        plot = topics_plot(summary)
        blocks = [Text(_drift(summary)), *([plot] if plot else []), _retention(found)]
    return Section("topics", "What is left of each topic", "Topics", tuple(blocks))


def _topics(summary: Summary) -> list[tuple[str, Mapping[str, object]]]:
    found = [(name, e) for name, e in named(summary, "topics") if name not in KEYS_BESIDE_TOPICS]
    kept = {name: quantity(e.get("retention")).value for name, e in found}
    return sorted(found, key=lambda t: (_last_if_absent(kept[t[0]]), t[0]))


def _last_if_absent(value: float | None) -> float:
    return 2.0 if value is None else value


def _drift(summary: Summary) -> str:
    entry = part(summary, "topics")
    kl, null = number(entry.get("kl_nats")), number(entry.get("kl_null"))
    if kl is None:
        return "The drift of the topic mix was not measured."
    expected = "" if null is None else f"; removing as many items at random gives {null:.4f} nats on average"
    p = number(entry.get("p"))
    tested = "" if p is None else f"; {p_value(p)}"
    return f"The mix of topics moved by {kl:.4f} nats (KL, after against before){expected}{tested}."


def topics_plot(summary: Summary) -> Plot | None:
    """Retention by topic, the lowest first."""
    rows = [
        Row(_topic(name), (Mark(q.value, q.lo, q.hi),), percent(q.value))
        for name, e in _topics(summary)
        if (q := quantity(e.get("retention"))).value is not None
    ]
    if not rows:
        return None
    robust, whole = (number(at(summary, "splits", s)) for s in ("robust", "all"))
    overall = (
        (Line(robust / whole, f"all topics {percent(robust / whole)}"),)
        if robust is not None and whole
        else ()
    )
    cut = f" The {MOST_DRAWN} lowest of {len(rows)} topics are drawn." if len(rows) > MOST_DRAWN else ""
    return Plot(
        "topics",
        "Share of each topic that was kept",
        tuple(rows[:MOST_DRAWN]),
        (("main", "kept"),),
        overall,
        f"Bars are 95 % intervals.{cut}",
    )


def _topic(name: str) -> str:
    return plain(name) if name.strip() else "(no topic)"


def _retention(found: list[tuple[str, Mapping[str, object]]]) -> Table:
    tested = any("p_bh" in e for _, e in found)
    return Table(
        "Topics before and after",
        (
            Column("Topic", figures=False),
            Column("Before"),
            Column("After"),
            Column("Kept"),
            *((Column("p, BH"),) if tested else ()),
        ),
        tuple(
            (
                Cell(_topic(name)),
                count_cell(e.get("before")),
                count_cell(e.get("after")),
                rate_cell(e.get("retention")),
                *((_topic_p(e),) if tested else ()),
            )
            for name, e in found
        ),
        "p: how often a random removal of as many items keeps as unlikely a number of this topic, corrected over "
        "the topics (Benjamini and Hochberg); below it the p before."
        if tested
        else "Whether a topic lost more than a random removal takes was not tested.",
    )


def _topic_p(entry: Mapping[str, object]) -> Cell:
    before = number(entry.get("p"))
    return p_cell(entry.get("p_bh"), "" if before is None else p_value(before))
