"""Output of `free grade` and `free nuggets` for a terminal and as an HTML page.

Bounds cover all answers, and accuracy covers only scored answers, so bounds come first. No text of an item or an answer
is printed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from robustify.report.format import plain, spaced
from robustify.report.opening import FirstScreen
from robustify.report.printing import html
from robustify.report.tables import Cell, Name, Shown, Table, cell, table, text
from robustify.summary.quantity import Quantity

Node = Mapping[str, Any]
FEWEST_SCORED = 0.8


def free_tables(summary: Node) -> dict[str, Table]:
    """Return the tables of the page by the name of their CSV file."""
    models, calibration = summary["models"].items(), summary["calibration"]
    kinds = (((m, spaced(kind)), part) for m, e in models for kind, part in e["kinds"].items())
    topics = (
        ((topic, spaced(kind), m), part)
        for m, e in models for topic, kinds in e["topics"].items() for kind, part in kinds.items()
    )  # fmt: skip
    nuggets = (
        ((m, spaced(name)), score)
        for m, e in models for name, score in e["kinds"].get("nuggets", {"nugget_scores": {}})["nugget_scores"].items()
    )  # fmt: skip
    statuses = (((m, spaced(status)), n) for m, e in models for status, n in e["all"]["statuses"].items())
    return {
        "kinds": _scores("By kind of answer", ("Model", "Kind"), kinds),
        "topics": _scores("By topic", ("Topic", "Kind", "Model"), topics),
        "nuggets": table(
            "Nuggets", ("Model", "Score"), nuggets,
            ("Answers", lambda n: cell(n["asked"], "count")), ("Unread ones not stated", lambda n: n["lower"]),
            ("Unread ones stated", lambda n: n["upper"]), ("Mean of the read", _rate),
        ),
        "agreement": table(
            f"Judge ({calibration['status']}) against people", "Part",
            ((name, calibration[name]) for name in ("verdicts", "nuggets") if calibration.get(name)),
            ("Answers", lambda p: cell(p["n"], "count")), ("Kappa", lambda p: cell(_rate(p["kappa"]), "number")),
            ("Raw agreement", lambda p: _rate(p["raw"])), ("Corrected rate", lambda p: _rate(p.get("corrected_rate"))),
            ("Doubt", lambda p: text(p["doubt"])),
        ),
        "statuses": table(
            "Answers by status", ("Model", "Status"), statuses, ("Answers", lambda n: cell(n, "count"))
        ),
        "judges": table(
            "Who decided", "Model", models,
            ("Judge", lambda e: text(", ".join(e["judges"]) or "none")),
            ("Judged by their own model", lambda e: cell(e["self_judging"], "count")),
        ),
    }  # fmt: skip


def _scores(caption: str, first: tuple[str, ...], parts: Iterable[tuple[tuple[Name, ...], Node]]) -> Table:
    return table(
        caption, first, parts,
        ("Answers", lambda p: cell(p["n"], "count")), ("All unscored wrong", lambda p: p["lower"]),
        ("All unscored right", lambda p: p["upper"]), ("Of the scored", lambda p: _rate(p["accuracy"])),
        ("With a score", lambda p: _rate(p["coverage"])), ("Decided by a judge", lambda p: _rate(p["by_judge"])),
    )  # fmt: skip


def _rate(found: Node | None) -> Shown:
    if found is None:
        return None
    if found["value"] is None and found.get("withheld"):
        return Cell(found["withheld"], tone="absent")
    return Quantity(value=found["value"], n=found.get("n"), ci=found["ci"])


def shown_lines(summary: Node) -> Iterator[str]:
    """Yield the results of each model and the calibration of each judge."""
    found = free_tables(summary)["kinds"]
    for model, kind, *cells in found.rows:
        said = (f"{head.lower()} {cell.exact}" for head, cell in zip(found.heads[2:], cells, strict=True))
        yield f"{model.main}, {kind.main}: {'; '.join(said)}"
    for judge in sorted({judge for entry in summary["models"].values() for judge in entry["judges"]}):
        yield f"judge {plain(judge)}: {summary['calibration']['status']}"


def free_html(summary: Node) -> str:
    """Return the results as an HTML page."""
    first = FirstScreen(_verdict(summary), "unsure")
    named = {"name": "Free response", "signature": "", "first": first}
    return html("free.html.j2", **named, tables=free_tables(summary), left_out=summary["left_out"])


def _verdict(summary: Node) -> str:
    entries = list(summary["models"].values())
    shares = [part["coverage"]["value"] for entry in entries for part in entry["kinds"].values()]
    if not shares:
        return "No answer was graded."
    if any(share is not None and share < FEWEST_SCORED for share in shares):
        return "Do not compare these scores yet: some use less than 80 % of the answers."
    if not any(entry["judges"] for entry in entries):
        return "All answers were graded by rules."
    if summary["calibration"]["status"] == "uncalibrated":
        return "Trust the scores with care: the accuracy of the judge is unknown (robustify free agree)."
    return "The judge agrees with human labels."
