"""Output of `free grade` and `free nuggets` for a terminal and as an HTML page.

Bounds cover all answers, and accuracy covers only scored answers, so bounds come first. No text of an item or an answer
is printed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from robustify.report.format import at, plain, spaced
from robustify.report.opening import FirstScreen
from robustify.report.printing import html
from robustify.report.tables import Column, Table, table

Node = Mapping[str, Any]
COLUMNS: tuple[Column, ...] = (
    ("Answers", "n", "count"), ("All unscored wrong", "lower"), ("All unscored right", "upper"),
    ("Of the scored", "accuracy"), ("With a score", "coverage"), ("Decided by a judge", "by_judge"),
)  # fmt: skip
FEWEST_SCORED = 0.8


def by_kind(summary: Node) -> Table:
    """Return the table of results by model and kind of answer."""
    models = summary["models"].items()
    parts = [((m, spaced(kind)), part) for m, e in models for kind, part in e["kinds"].items()]
    return table("By kind of answer", parts, COLUMNS, ("Model", "Kind"))


def shown_lines(summary: Node) -> Iterator[str]:
    """Yield the results of each model and the calibration of each judge."""
    found = by_kind(summary)
    for model, kind, *cells in found.rows:
        said = (f"{head.lower()} {cell.exact}" for head, cell in zip(found.heads[2:], cells, strict=True))
        yield f"{model.main}, {kind.main}: {'; '.join(said)}"
    for judge in sorted({judge for entry in summary["models"].values() for judge in entry["judges"]}):
        yield f"judge {plain(judge)}: {summary['calibration']['status']}"


def free_html(summary: Node) -> str:
    """Return the results as an HTML page."""
    first = FirstScreen(_verdict(summary), "unsure")
    named = {"name": "Free response", "signature": "", "first": first}
    return html("free.html.j2", **named, s=summary, results=by_kind(summary), columns=COLUMNS)


def _verdict(summary: Node) -> str:
    entries = list(summary["models"].values())
    shares = [at(part, "coverage.value") for entry in entries for part in entry["kinds"].values()]
    if not shares:
        return "No answer was graded."
    if any(share is not None and share < FEWEST_SCORED for share in shares):
        return "Do not compare these scores yet: some use less than 80 % of the answers."
    if not any(entry["judges"] for entry in entries):
        return "All answers were graded by rules."
    if summary["calibration"]["status"] == "uncalibrated":
        return "Trust the scores with care: the accuracy of the judge is unknown (robustify free agree)."
    return "The judge agrees with human labels."
