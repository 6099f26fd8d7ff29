"""Print the results of `free grade` and `free nuggets`: lines for a terminal, and a page from free.html.j2.

Bounds come first: they are over all answers, and an accuracy over those with a score alone. Counts, rates and names of
models and templates are printed, never text of an item or an answer.
"""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import jinja2

from robustify.stats.intervals import percent

Node = Mapping[str, Any]


def parts_of(summary: Node) -> Iterator[tuple[str, str, Node]]:
    """Yield each model's answers of each kind: the model, the kind, and their numbers. Kinds mean different things."""
    for model, entry in summary["models"].items():
        for kind, part in entry["kinds"].items():
            yield model, spaced(kind), part


def spaced(name: str) -> str:
    """Return a name of the program as words."""
    return name.replace("_", " ")


def bounds(part: Node) -> str:
    """Return the share that is right over all answers: every unscored one wrong, to every one right."""
    return "-" if part["upper"] is None else f"{percent(part['lower'])} to {percent(part['upper'])}"


def shown(rate: Node | None) -> str:
    """Return a rate in percent with its n and interval, or why there is none."""
    if rate is None or rate["value"] is None:
        return str((rate or {}).get("withheld") or "-")
    ci = f", {percent(rate['ci'][0])} to {percent(rate['ci'][1])}" if rate["ci"] else ""
    return f"{percent(rate['value'])} (n = {rate['n']}{ci})"


def shown_lines(summary: Node) -> Iterator[str]:
    """Yield what each model scores by kind, and how far the judge is to be believed."""
    for model, kind, part in parts_of(summary):
        yield (
            f"{model}, {kind}: of {part['n']} answers {bounds(part)} are right; of those with a score"
            f" {shown(part['accuracy'])}; by a judge {shown(part['by_judge'])}"
        )
    for judge in sorted({judge for entry in summary["models"].values() for judge in entry["judges"]}):
        yield f"judge {judge}: {summary['calibration']['status']}"


def free_html(summary: Node) -> str:
    """Return the page."""
    folder = files("robustify.report")
    page = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8")),
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    page.filters |= {"spaced": spaced, "bounds": bounds, "shown": shown, "percent": percent}
    made = page.get_template("free.html.j2")
    return made.render(summary=summary, parts=list(parts_of(summary)))
