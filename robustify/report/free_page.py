"""Output of `free grade` and `free nuggets` for a terminal and as an HTML page, without text of items or answers.

Bounds cover all answers, and accuracy covers only scored answers, so bounds come first.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from robustify.judging.free_response import LEAST_COVERAGE
from robustify.judging.summary.quantity import Score
from robustify.report.advice import Recommendation
from robustify.report.format import Table, cell, p_cell, plain, spaced, table
from robustify.report.opening import FirstScreen
from robustify.report.printing import catalogue, filled, html

Node = Mapping[str, Any]


def _tables(summary: Node) -> dict[str, Table]:
    """Return the page's tables, keyed by CSV file name."""
    models, calibration = summary["models"].items(), summary["calibration"]
    agreements = [(name, part) for name in ("verdicts", "nuggets") if (part := calibration.get(name))]
    return {
        "kinds": _scores("By kind of answer", ("Model", "Kind"), (
            ((m, spaced(kind)), part) for m, e in models for kind, part in e["kinds"].items()
        )),
        "pairs": table(
            "Two models on the same items",
            ("First", "Second", "Kind", "First less second", "p by Holm", "Scored by one only"),
            ((p["model"], p["other"], spaced(p["kind"]), cell(_rate(p["difference"]), "points"), p_cell(p["p_holm"]),
              p["left_out"]) for p in summary["pairs"]), names=3,
        ),
        "topics": _scores("By topic", ("Topic", "Kind", "Model"), (
            ((topic, spaced(kind), m), part)
            for m, e in models for topic, kinds in e["topics"].items() for kind, part in kinds.items()
        )),
        "nuggets": table(
            "Nuggets", ("Model", "Score", "Answers", "Unread ones not stated", "Unread ones stated", "Mean of the read"),
            ((m, spaced(name), n["asked"], n["lower"], n["upper"], _rate(n)) for m, e in models
             for name, n in e["kinds"].get("nuggets", {"nugget_scores": {}})["nugget_scores"].items()), names=2,
        ),
        "agreement": table(
            f"Judge ({calibration['status']}) against people",
            ("Part", "Answers", "Kappa", "Raw agreement", "Doubt"),
            ((name, p["n"], cell(_rate(p["kappa"]), "number"), _rate(p["raw"]), p["doubt"])
             for name, p in agreements),
        ),
        "statuses": table(
            "Answers by status", ("Model", "Status", "Answers"),
            ((m, spaced(status), n) for m, e in models for status, n in e["all"]["statuses"].items()), names=2,
        ),
        "judges": table(
            "Who decided", ("Model", "Judge", "Judged by their own model"),
            ((m, ", ".join(e["judges"]) or "none", e["self_judging"]) for m, e in models),
        ),
    }  # fmt: skip


def _scores(caption: str, names: tuple[str, ...], parts: Iterable[tuple[tuple[str, ...], Node]]) -> Table:
    heads = ("Answers", "At least", "At most", "Score", "Graded", "By judge")
    rows = (
        (*name, p["n"], p["lower"], p["upper"], *map(_rate, (p["accuracy"], p["coverage"], p["by_judge"])))
        for name, p in parts
    )
    return table(caption, (*names, *heads), rows, len(names))


def _rate(node: Node | None) -> Score | None:
    if node is None:
        return None
    return Score(value=node["value"], n=node.get("n"), ci=node["ci"], withheld=node.get("withheld"))


def grade_lines(summary: Node) -> Iterator[str]:
    """Yield lines with the scores of each model, their paired differences, and the calibration of each judge."""
    table = _tables(summary)["kinds"]
    rows = [[head.lower() for head in table.heads]]
    for row in table.rows:
        shown = zip(table.heads, row, strict=True)
        rows.append([entry.exact if head == "Score" else entry.main for head, entry in shown])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for texts in rows if table.rows else ():
        yield "  ".join([*map(str.ljust, texts[:2], widths), *map(str.rjust, texts[2:], widths[2:])])
    for pair in summary["pairs"]:
        difference, p_value = cell(_rate(pair["difference"]), "points"), p_cell(pair["p_holm"])
        names = f"{plain(pair['model'])} less {plain(pair['other'])}, {plain(spaced(pair['kind']))}"
        yield f"{names}: {difference.exact}{f', p {p_value.exact} by Holm' if p_value.value is not None else ''}"
    for judge in sorted({judge for entry in summary["models"].values() for judge in entry["judges"]}):
        yield f"judge {plain(judge)}: {summary['calibration']['status']}"


def free_html(summary: Node) -> str:
    """Return the results as an HTML page."""
    return html(
        "free.html.j2", name="Free response", signature="", first=_first(summary),
        tables=_tables(summary), left_out=summary["left_out"],
    )  # fmt: skip


def _first(summary: Node) -> FirstScreen:
    """Return the verdict, each model's score on the most common kind of answer, and the next step."""
    words, code = catalogue()["free"], _verdict_code(summary)
    numbers, unscored = [], 0
    for model, entry in summary["models"].items():
        lacking = {
            kind: part["n"] - round(part["n"] * part["coverage"]["value"])
            for kind, part in entry["kinds"].items()
        }
        unscored += sum(lacking.values())
        kind = max(entry["kinds"], key=lambda name: entry["kinds"][name]["n"], default=None)
        if kind is not None:
            part = {"model": model, "kind": kind, "part": entry["kinds"][kind], "unscored": lacking[kind]}
            numbers.append(filled(words["number"], part))
    (tone, verdict), todo = words["verdict"][code], filled(words["todo"][code], {"unscored": unscored})
    first, *others = numbers or [""]
    checks = tuple((None, number) for number in others)
    return FirstScreen(
        verdict, tone, number=first, checks=checks, todo=(Recommendation(code, todo, "kinds", unscored),)
    )


def _verdict_code(summary: Node) -> str:
    entries = list(summary["models"].values())
    shares = [part["coverage"]["value"] for entry in entries for part in entry["kinds"].values()]
    if not shares:
        return "none"
    if any(share is not None and share < LEAST_COVERAGE for share in shares):
        return "coverage"
    return str(summary["calibration"]["status"]) if any(entry["judges"] for entry in entries) else "rules"
