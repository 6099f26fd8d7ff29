"""Output of a restricted run, made only from `Released`: HTML page, Markdown file, and lines for a terminal."""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

from robustify.base.errors import DataError
from robustify.base.files import write_json, write_text
from robustify.report.advice import Recommendation
from robustify.report.format import Cell, Table, Tone, cell, text_table
from robustify.report.opening import FirstScreen
from robustify.report.printing import catalogue, filled, framed, guardrail_label, html, markdown
from robustify.restricted.disclosure.released import Released
from robustify.restricted.disclosure.released_number import ReleasedNumber
from robustify.runs.run import Run
from robustify.runs.stored import json_file

NOT_SHOWN = "not shown"
_COLUMNS = ("What", "Value", "95 % interval", "Items")


def read_released(run: Run) -> Released:
    """Return the released page of a restricted run, from `summary.json`. Raise `DataError` if it has another format."""
    path = run.folder / "summary.json"
    try:
        return Released.model_validate(json_file(path))
    except ValidationError:
        raise DataError(
            f"{path} was not written by this version of robustify. Repeat the command that made the run.",
            code="other-released-format",
        ) from None


def write_released(folder: Path, page: Released, manifest: Mapping[str, object]) -> None:
    """Write summary.json, report.html, and report.md. `manifest` names the version and prompts."""
    folder.mkdir(exist_ok=True)
    write_json(folder / "summary.json", page.model_dump(mode="json"))
    write_text(folder / "report.html", html("released.html.j2", **_values(page, manifest)))
    write_text(folder / "report.md", markdown("released.md.j2", **_values(page, manifest)))


def released_page(page: Released, manifest: Mapping[str, object]) -> str:
    """Return the released page as an HTML frame for a notebook."""
    return framed(html("released.html.j2", **_values(page, manifest)))


def released_lines(page: Released, folder: str) -> Iterator[str]:
    """Yield the closing lines of a restricted run on a terminal."""
    yield f"{page.name}: {page.state}, {page.n:,} items"
    for number in page.numbers[:8]:
        yield f"  {_shown(number):>16}  {number.name}{number.reason and f' ({number.reason})'}"
    for name in () if page.trial else page.failed:
        yield f"failed: {guardrail_label(name)}"
    if page.replaced:
        yield (
            f"words of items in names: {', '.join(page.replaced)} (topics by alphabet). To publish such a name, add it to "
            "the manifest (`topics: [NAME]`), and accept the terms again."
        )
    yield f"report: {PurePath(folder) / 'report.html'} (release level: {page.release_level})"
    yield f"to publish: robustify export published {folder} -o DIR"


def first_of_released(page: Released) -> FirstScreen:
    """Return the first screen of a released page, from its released numbers alone."""
    of_set = {n.measure: n for n in page.numbers if n.value is not None and not n.subject}
    scores = [n for n in page.numbers if n.value is not None and (n.measure, n.part) == ("full", "all")]
    words = {"page": page, "states": catalogue()["states"], "flagged": of_set.get("flagged"),
             "by_chance": of_set.get("flagged_by_chance")}  # fmt: skip
    verdict, number, todo = (
        filled(catalogue()["released"][name], words) for name in ("verdict", "number", "todo")
    )
    tones: dict[str, Tone] = {} if page.trial else {"passed": "good", "failed": "bad"}
    checks = tuple((None, filled(catalogue()["released"]["score"], {"n": n})) for n in scores)
    return FirstScreen(
        verdict,
        tones.get(page.state, "unsure"),
        number=number,
        checks=checks,
        todo=(Recommendation("released", todo, "numbers", page.n),),
    )


def released_table(page: Released) -> Table:
    """Return the numbers of a released page as a table."""
    numbers = [(n.name, *_cells(_shown(n), n.value, n.ci, n.reason), cell(n.n)) for n in page.numbers]
    return text_table(f"Numbers, in steps of {_percent(page.step)}", _COLUMNS, numbers)


def _cells(
    main: str, value: float | None, ci: tuple[float, float] | None, reason: str = ""
) -> tuple[Cell, Cell]:
    if reason:
        return Cell(f"{main} ({reason})", tone="absent"), cell("")
    return Cell(main, value=value), cell("" if ci is None else f"{_percent(ci[0])} to {_percent(ci[1])}")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _shown(number: ReleasedNumber) -> str:
    if number.value is None:
        return NOT_SHOWN
    if number.kind == "state":
        return "claimed" if number.value else "not claimed"
    return f"{number.value:g}" if number.kind == "p" else _percent(number.value)


def _values(page: Released, manifest: Mapping[str, Any]) -> dict[str, Any]:
    rows = page.topics.rows if page.topics else ()
    topics = [(t.name, *_cells(_percent(t.kept), t.kept, t.ci), cell(t.n)) for t in rows]
    return {
        "page": page,
        "name": page.name,
        "signature": page.signature,
        "first": first_of_released(page),
        "numbers": released_table(page),
        "topics": text_table("Items kept, by topic", _COLUMNS, topics),
        "how": [
            ("robustify", manifest.get("robustify", "")),
            *((f"model {name}", engine) for name, engine in page.models.items()),
            *((f"prompt {name}", digest[:16]) for name, digest in (manifest.get("templates") or {}).items()),
        ],
    }
