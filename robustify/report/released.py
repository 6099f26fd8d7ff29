"""Print the released page of a restricted run: report.html, report.md and lines for a terminal, from `Released` alone."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from pathlib import Path, PurePath

import jinja2

from robustify.disclosure.released import Released, ReleasedNumber
from robustify.disclosure.rounding import CELL
from robustify.files import write_json, write_text

NOT_SHOWN = f"fewer than {CELL}"


def write_released(folder: Path, page: Released, manifest: Mapping[str, object]) -> None:
    """Write summary.json, report.html and report.md into `folder`. `manifest` names the versions and models."""
    folder.mkdir(exist_ok=True)
    write_json(folder / "summary.json", page.model_dump(mode="json"))
    for name, template in (("report.html", "released.html.j2"), ("report.md", "released.md.j2")):
        write_text(folder / name, _rendered(template, page, manifest))


def released_page(page: Released, manifest: Mapping[str, object]) -> str:
    """Return the page in a frame of its own, for a notebook."""
    text = _rendered("released.html.j2", page, manifest)
    return f'<iframe srcdoc="{escape(text)}" sandbox="" title="robustify" style="width:100%;height:34em;border:0"></iframe>'


def released_lines(page: Released, folder: str) -> Iterator[str]:
    """Yield the closing lines of a restricted run on a terminal."""
    yield f"{page.name}: {'trial run' if page.trial else page.verdict}, {page.n:,} items"
    for number in page.numbers[:8]:
        yield f"  {shown(number):>16}  {number.name}"
    for name in () if page.trial else page.failed:
        yield f"guardrail {name}: failed"
    yield f"report: {PurePath(folder) / 'report.html'}"
    yield f"to publish: robustify export published {folder} -o DIR"


def shown(number: ReleasedNumber) -> str:
    """Return a number as a page shows it."""
    if number.value is None:
        return NOT_SHOWN
    return f"{number.value:g}" if number.kind == "p" else percent(number.value)


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.0f} %"


def _rendered(template: str, page: Released, manifest: Mapping[str, object]) -> str:
    return _templates().get_template(template).render(page=page, how=_method(manifest))


def _escaped(text: str) -> str:
    """Return a name that Markdown prints as it is."""
    return re.sub(r"([\\`*_{}\[\]<>()#|])", r"\\\1", text)


def _method(manifest: Mapping[str, object]) -> list[tuple[str, str]]:
    models = manifest.get("models")
    named = models if isinstance(models, Mapping) else {}
    rows = [(f"model {name}", str(facts.get("engine", ""))) for name, facts in named.items()]
    return [("robustify", str(manifest.get("robustify", ""))), *rows]


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("robustify.report", ""),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"shown": shown, "percent": percent, "md": _escaped}
    return made
