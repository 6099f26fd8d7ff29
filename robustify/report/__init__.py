"""Report of a public run: an HTML page, a Markdown file, and figures without item text, printed from the summary alone.

To print another number, add a measure to `judging/measures.py`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from robustify.base.files import write_text
from robustify.items.views import prompt_sources
from robustify.judging.measures import FULL
from robustify.judging.summary.result import Summary
from robustify.report.advice import flagged_sum
from robustify.report.format import percent, plain
from robustify.report.opening import opening
from robustify.report.page_tables import charted, page_tables
from robustify.report.printing import framed, html, markdown, state_sentence, styles
from robustify.report.quoting import LONGEST_MODEL, quote_table
from robustify.report.verdict import grounds

Tree = Mapping[str, Any]
SETTINGS = ("asking", "screen", "alternatives", "cloze", "probe", "limits", "limit")
"""Settings that the report prints. Others contain paths of the machine."""
MOST_ROWS = 24
Legend = tuple[str, str]
"""Class of a bar in `plot.css`, and its words."""


def render(summary: Summary, provenance: Tree) -> dict[str, str]:
    """Return the text of each report file by its path in the run's folder.

    `provenance` may contain `versions`, `models` (name to fingerprint), `templates` (name to SHA-256), `config`, `data`,
    `seed`, `signature`, `notes`, and `explorer` (whether the run has one).
    """
    values = _values(summary, provenance)
    css = styles("palette", "plot")
    drawn = {
        f"figures/{picture.id}.svg": html("paired_bars.svg.j2", chart=picture, styles=css)
        for picture in charts(summary)
    }
    if values["scores"]:
        drawn["figures/scores.svg"] = html("scores.svg.j2", **values, styles=css)
    return {
        "report.html": html("page.html.j2", **values),
        "report.md": markdown("report.md.j2", **values),
        **drawn,
    }


def first_screen(summary: Summary, provenance: Tree) -> str:
    """Return the first screen as an HTML frame for a notebook."""
    return framed(html("base.html.j2", **_values(summary, provenance)))


def write_report(folder: Path, summary: Summary, provenance: Tree) -> list[Path]:
    """Write report.html, report.md, and the figures into `folder`. Return their paths."""
    files = {folder / name: text for name, text in render(summary, provenance).items()}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return list(files)


def _values(s: Summary, provenance: Tree) -> dict[str, Any]:
    """Return the variables of the templates."""
    explorer, g, first = provenance.get("explorer") is True, grounds(s), opening(s, provenance)
    chart = charted(first.quotes)
    scores = html("scores.svg.j2", s=s, chart=chart, styles="")
    drawn = {
        picture.id: Markup(html("paired_bars.svg.j2", chart=picture, styles="")) for picture in charts(s)
    }
    config = provenance.get("config") or {}
    settings = {name: config[name] for name in SETTINGS if config.get(name) is not None}
    provenance = {"templates": {}, "models": {}, "versions": {}, "notes": (), "data": {}, **provenance}
    return {
        "s": s,
        "g": g,
        "sum": flagged_sum(s, g),
        "full": FULL.read(s),
        "chart": chart,
        "tables": page_tables(s, provenance, g.called, explorer=explorer),
        "name": plain(s.benchmark.name or "unnamed benchmark"),
        "signature": plain(str(s.signature or provenance.get("signature") or "not signed"), 1000),
        "explorer": explorer,
        "first": first,
        "quotes": quote_table(first.quotes),
        "kept": g.called,
        "scores": Markup(scores) if '<rect class="bar' in scores else "",
        "drawn": drawn,
        "prompts": prompt_sources(provenance["templates"]),
        "most_rows": MOST_ROWS,
        "growing": provenance.get("growing") is True,
        "state": state_sentence(s),
        "provenance": provenance,
        "seed": provenance.get("seed", (config.get("probe") or {}).get("seed")),
        "settings": "\n".join(
            f"{name}: {json.dumps(value, separators=(',', ':'), default=str)}"
            for name, value in settings.items()
        ),
    }


# Pictures in which each row has two bars


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a picture: a label, a longer bar, a shorter bar on it, and the text at the end of the row. `own` is bold."""

    label: str
    outer: float
    inner: float
    text: str
    own: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Bar chart with two bars per row. `most` is the value of a bar that fills the whole width."""

    id: str
    title: str
    outer: Legend
    inner: Legend
    rows: tuple[Row, ...]
    most: float


def charts(s: Summary) -> Iterator[Chart]:
    """Yield the charts for which the summary has numbers."""
    own = s.screen.cut.q if s.screen and s.screen.cut else None
    cuts = tuple(
        Row(f"{percent(c.q)}{', this run' * (c.q == own)}", c.flagged, c.by_chance,
            f"{c.flagged}, {c.by_chance:.0f} by chance", c.q == own)
        for c in (s.screen.cuts if s.screen else ())
    )  # fmt: skip
    orders = tuple(
        Row(plain(name, LONGEST_MODEL), f.max, f.min,
            f"{100 * f.min:.1f} to {percent(f.max)}"
            + ("" if f.flip_rate.value is None else f", {percent(f.flip_rate.value)} flip"))
        for name, f in s.permutation.by_model.items() if f
    )  # fmt: skip
    topics = tuple(
        Row(plain(name, LONGEST_MODEL), t.before, t.after, f"{t.after}/{t.before}")
        for name, t in (s.topics.by_topic if s.topics else {}).items()
    )
    titles = {
        "cuts": ("Flagged items by the limit of their share by chance", ("flagged", "the other flagged items"),
                 ("by-chance", "by chance"), cuts, max((row.outer for row in cuts), default=0.0)),
        "order": ("Lowest and highest score by order of the options", ("outline", "in the best order"),
                  ("bar", "in the worst order"), orders, 1.0),
        "topics": ("Items of each topic, and those kept", ("outline", "all"), ("kept", "kept"), topics[:MOST_ROWS],
                   max((row.outer for row in topics), default=0.0)),
    }  # fmt: skip
    for name, (title, outer, inner, rows, most) in titles.items():
        if rows and most:
            yield Chart(name, title, outer, inner, rows, most)
