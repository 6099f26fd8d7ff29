"""Free response in the report: the column beside Cloze, and the table that says what stands behind it."""

from collections.abc import Mapping, Sequence

from robustify.report.blocks import Cell, Column, Table, Text
from robustify.report.reading import at, number, part, quantity, text, texts, whole
from robustify.report.words import (
    absent,
    again,
    between,
    count,
    joined,
    model_cell,
    percent,
    plain,
    points_cell,
    rate_cell,
)

Found = Sequence[tuple[str, Mapping[str, object]]]
UNCALIBRATED = "uncalibrated"


def answered(found: Found) -> bool:
    """Whether any model answered in words."""
    return any(part(entry, "free") for _, entry in found)


def cell(entry: Mapping[str, object]) -> Cell:
    """Accuracy in free response, with its bounds and who decided in small print."""
    free = part(entry, "free", "all")
    if not free:
        return absent()
    shown = rate_cell(free)
    judged = number(at(free, "by_judge", "value"))
    said = "" if not judged else f"{percent(judged)} by a judge ({_status(entry)})"
    return Cell(shown.main, joined(shown.small, _bounds(free), said), shown.tone)


def tables(found: Found) -> list[Table | Text]:
    """What stands behind the column; nothing where no model answered in words."""
    there = [(name, entry) for name, entry in found if part(entry, "free")]
    if not there:
        return []
    rows = tuple(
        (
            model_cell(name, e) if i == 0 else again(model_cell(name, e)),
            Cell(split.capitalize()),
            rate_cell(at(e, "free", split)),
            Cell(
                _between(part(e, "free", split)),
                tone="" if _between(part(e, "free", split)) != "none" else "absent",
            ),
            rate_cell(at(e, "free", split, "coverage")),
            rate_cell(at(e, "free", split, "by_judge")),
        )
        for name, e in there
        for i, split in enumerate(("all", "shortcut", "robust"))
    )
    heads = ("Accuracy", "If all unscored were wrong, or right", "With a score", "Decided by a judge")
    note = (
        "The question without its options, answered in words. Accuracy counts answers that have a score; one that "
        "nobody could decide has none and is never counted as wrong: it opens the bounds."
    )
    first = (Column("Model", figures=False), Column("Split", figures=False), *(Column(h) for h in heads))
    return [Table("Free response", first, rows, note), _gaps(there), *_trust(there)]


def _gaps(there: Found) -> Table:
    return Table(
        "What models gain from being shown the options",
        (
            Column("Model", figures=False),
            Column("Full question less free response"),
            Column("Longest option, free response"),
        ),
        tuple(
            (
                model_cell(name, e),
                points_cell(at(e, "free", "full_gap")),
                points_cell(at(e, "free", "heuristic_gap")),
            )
            for name, e in there
        ),
        "The heuristic gap: the full question by letter less free response, paired on the items that have a score in "
        "both. The longest option cannot help where none is shown: a gap there is of the items, not of the format.",
    )


def _trust(there: Found) -> list[Text]:
    judged = [(name, e) for name, e in there if texts(at(e, "free", "judges"))]
    out = (
        [Text(f"Not asked in words: {_left_out(there[0][1])}.", quiet=True)] if _left_out(there[0][1]) else []
    )
    if any(_status(e) == UNCALIBRATED for _, e in judged):
        names = sorted({plain(judge) for _, e in judged for judge in texts(at(e, "free", "judges"))})
        out.append(
            Text(
                f"The judge ({', '.join(names)}) is uncalibrated: no person has labelled these answers, so nobody knows "
                "how often it is right."
            )
        )
    for name, e in judged:
        kappa = quantity(at(e, "free", "judge_kappa"))
        if kappa.value is not None:
            ends = "" if kappa.lo is None or kappa.hi is None else f" ({kappa.lo:.2f} to {kappa.hi:.2f})"
            out.append(Text(f"{plain(name)}: the judge agrees with people at kappa {kappa.value:.2f}{ends}."))
        own = whole(at(e, "free", "self_judging")) or 0
        if own:
            out.append(Text(f"{plain(name)} judged {count(own)} of its own answers."))
    return out


def _left_out(entry: Mapping[str, object]) -> str:
    reasons = part(entry, "free", "left_out")
    told = {name: n for name, value in reasons.items() if (n := whole(value)) is not None}
    return ", ".join(f"{plain(str(name)).replace('_', ' ')} {n}" for name, n in told.items())


def _status(entry: Mapping[str, object]) -> str:
    return plain(text(at(entry, "free", "judge_status"), UNCALIBRATED))


def _bounds(free: Mapping[str, object]) -> str:
    n, asked = whole(at(free, "n")), whole(at(free, "asked"))
    return "" if n == asked else f"bounds {_between(free)}"


def _between(free: Mapping[str, object]) -> str:
    low, high = number(free.get("lower")), number(free.get("upper"))
    return "none" if low is None or high is None else f"{between(low, high)} %"
