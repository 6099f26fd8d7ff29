"""What the models score: on which split, against random removals, in which order, how well calibrated."""

from collections.abc import Iterable, Iterator, Mapping

from robustify.report.blocks import Block, Cell, Column, Line, Mark, Plot, Row, Section, Table, Text
from robustify.report.reading import Quantity, at, named, number, part, quantity, text
from robustify.report.sections import free
from robustify.report.sections.gaps import gaps
from robustify.report.words import (
    absent,
    again,
    count_cell,
    judged_cell,
    model_cell,
    p_cell,
    percent,
    plain,
    power,
    rate_cell,
    spaced,
)

Summary = Mapping[str, object]
SPLITS = ("all", "shortcut", "robust")
VOTER_NOTE = (
    "A voter voted in the filter: its numbers on Robust are low by selection, and those on Shortcut high."
)
FREE_NOTE = (
    "Free: the question without its options, answered in words; there is no chance to hold it against. "
)
VIEWS = (
    ("choices_only", "choices only, letters"),
    ("choices_only_text", "choices only, texts"),
    ("cloze_chars", "cloze, by characters"),
    ("cloze_tokens", "cloze, by tokens"),
    ("cloze_bytes", "cloze, by bytes"),
    ("cloze_sum", "cloze, sum"),
    ("cloze_pmi", "cloze, PMI"),
)


def models(summary: Summary) -> list[tuple[str, Mapping[str, object]]]:
    """The models with their accuracies."""
    return list(named(summary, "accuracy"))


def accuracy(summary: Summary) -> Section:
    """All, Shortcut, Robust and Cloze by model; then the same for every other view."""
    found = models(summary)
    blocks: list[Block] = [Text("Not measured: no model was asked the full question or cloze.", quiet=True)]
    if found:
        plot = accuracy_plot(summary)
        blocks = [_main(found), *([plot] if plot else []), *_views(found), gaps(found), *free.tables(found)]
    return Section("scores", "Scores on All, Shortcut, Robust and Cloze", "Scores", tuple(blocks))


def _main(found: list[tuple[str, Mapping[str, object]]]) -> Table:
    words = free.answered(found)
    heads = ("All", "Shortcut", "Robust", "Cloze", *(["Free"] if words else []))
    rows = tuple(
        (model_cell(name, e), *(judged_cell(x) for _, x in _four(e)), *([free.cell(e)] if words else []))
        for name, e in found
    )
    noted = f" {VOTER_NOTE}" if any(e.get("is_voter") is True for _, e in found) else ""
    return Table(
        "Accuracy by model",
        (Column("Model", figures=False), *(Column(h) for h in heads)),
        rows,
        "All, Shortcut and Robust: the full question, answered by letter in the benchmark's own "
        "order. Cloze: the options scored by their own text per character, on items that can be asked without "
        f"choices. {FREE_NOTE if words else ''}{_chance_note(x for _, e in found for _, x in _four(e))}{noted}",
    )


def _chance_note(entries: Iterable[object]) -> str:
    if any(isinstance(at(x, "told_from_chance"), bool) for x in entries):
        return (
            "Unless it says otherwise, a score is above chance, the mean of 1/k on its items. 80 % power: so many "
            "points above chance would have been told four times out of five. On Shortcut and Robust that chance "
            "knows nothing of the selection."
        )
    return "Whether scores can be told from chance was not judged."


def _four(entry: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for split in SPLITS:
        yield split, at(entry, "full", split)
    yield "cloze", at(entry, "cloze_chars", "all")


def accuracy_plot(summary: Summary) -> Plot | None:
    """The main table drawn."""
    rows: list[Row] = []
    for name, entry in models(summary):
        lines = [
            Row(
                split.capitalize(),
                (Mark(q.value, q.lo, q.hi, "luck" if split == "cloze" else "main"),),
                percent(q.value),
            )
            for split, x in _four(entry)
            if (q := quantity(x)).value is not None
        ]
        rows += [Row(plain(name)), *lines] if lines else []
    if not rows:
        return None
    return Plot(
        "accuracy",
        "Accuracy on each split",
        tuple(rows),
        (("main", "full question, by letter"), ("luck", "cloze")),
        chance_line(summary),
        "Bars are 95 % Wilson intervals.",
    )


def chance_line(summary: Summary) -> tuple[Line, ...]:
    """The benchmark's chance accuracy as a reference line."""
    chance = number(at(summary, "benchmark", "chance_accuracy"))
    return () if chance is None else (Line(chance, f"chance {percent(chance)}"),)


def _views(found: list[tuple[str, Mapping[str, object]]]) -> list[Block]:
    rows = tuple(
        (
            model_cell(name, e) if i == 0 else again(model_cell(name, e)),
            Cell(label),
            judged_cell(at(e, view, "all")),
            *(rate_cell(at(e, view, split)) for split in SPLITS[1:]),
        )
        for name, e in found
        for i, (view, label) in enumerate((v, words) for v, words in VIEWS if part(e, v))
    )
    if not rows:
        return [Text("Choices-only and cloze accuracies: not measured.", quiet=True)]
    heads = (
        Column("Model", figures=False),
        Column("View", figures=False),
        *(Column(s.capitalize()) for s in SPLITS),
    )
    note = (
        "Choices only by letters is averaged over the rotations of the options. Characters are the primary "
        "normalisation of cloze (equal to lm-eval's acc_norm); the others say how far the choice matters. On All "
        "a score is held against chance as above."
    )
    return [Table("The other views", heads, rows, note)]


def random_removal(summary: Summary) -> Section:
    """Robust against random removals of the same size and topics."""
    rows = tuple(
        (
            model_cell(name, part(summary, "accuracy", name)),
            Cell(spaced(text(e.get("view"), "view unknown"))),
            rate_cell(e.get("robust")),
            rate_cell(Quantity(number(e.get("mean")), None, *_ends(e))),
            _percentile(e),
            p_cell(e.get("p"), power(e.get("mde"))),
            count_cell(e.get("draws")),
        )
        for name, e in named(summary, "random_removal")
    )
    heads = ("On Robust", "After random removals", "Percentile", "p", "Draws")
    blocks: tuple[Block, ...] = (
        Text(
            "Robust is a part of All, so the two cannot be compared as if they were two sets. A fall counts "
            "only beyond what removing as many items at random, with the same topics, does.",
            quiet=True,
        ),
        Table(
            "Robust against random removals",
            (Column("Model", figures=False), Column("View", figures=False), *(Column(h) for h in heads)),
            rows,
            "Percentile: the share of random removals that left an accuracy no higher than that on Robust; "
            "p: how often they leave one as far from their mean, with the difference that would have been told "
            "where it is above 0.05. For a voter a low percentile is no news. For a model that errs as the voters do it "
            "is none either: what it guesses as they do is right where luck flagged an item, so it falls on a set "
            "without a shortcut too. The p holds for models whose errors are independent of the voters'.",
        )
        if rows
        else Text("Not measured: no model was asked the full question or cloze.", quiet=True),
    )
    return Section("random", "Would removing random items have done the same?", "Random removal", blocks)


def _ends(entry: Mapping[str, object]) -> tuple[float | None, float | None]:
    q = quantity({"value": 0, "ci": entry.get("ci")})
    return q.lo, q.hi


def _percentile(entry: Mapping[str, object]) -> Cell:
    found = number(entry.get("percentile"))
    return absent() if found is None else Cell(f"{found:.1f}")
