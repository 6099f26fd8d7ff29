"""The report says what the summary says and what is absent, and no name can break or bend it."""

import csv
import html
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from fnmatch import fnmatch
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from robustify.items.views import VIEWS, names, prompt_sources, template
from robustify.judging.summary.quantity import Quantity, Score
from robustify.judging.summary.result import Summary, read
from robustify.report import charts, first_screen, render, write_report
from robustify.report.format import ABSENT, Cell, cell, p_cell, rated, table, value_table
from robustify.report.opening import closing, opening
from robustify.report.printing import MOST_WORDS
from robustify.restricted.disclosure.released_page import write_released
from tests.report.test_advice import edited, words_of
from tests.support.cases import cases, contents
from tests.support.page_text import text_of_page
from tests.support.released import released
from tests.support.trees import complete

ROOT = Path(__file__).parents[2]
DEMO: dict[str, Any] = json.loads((ROOT / "results/benign_demo/summary.json").read_text(encoding="utf-8"))
PROVENANCE: dict[str, Any] = contents("report")["provenance"]
LINKS = ("href", "src", "srcset", "action", "data", "xlink:href")
ENTRIES = {"td", "th", "dt", "dd", "caption", "figcaption", "li"}
VOID = {"meta", "link", "br", "line", "rect"}
HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a | b\nc", "\x1b[31mred\x1b[0m", "\u202eevil",
    "{{ 7*7 }}",
    "](javascript:alert(1))", "\u200b", "x" * 5000, "`code` *star* _under_", "=cmd()",
)  # fmt: skip


def printed(tree: dict[str, Any] = DEMO, **provenance: Any) -> dict[str, str]:
    """The report's files of a tree as summary.json has it."""
    return render(read(tree), {**PROVENANCE, **provenance})


class Reader(HTMLParser):
    """Reads a page, refuses bad nesting, and gathers what the tests ask about."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.entries: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        self.ids += [i for i in [values.get("id")] if i]
        self.links += [values[a] or "" for a in LINKS if a in values]
        if tag in ENTRIES:
            self.entries.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.entries and ENTRIES & set(self.open):
            self.entries[-1] += data


def well_made(files: dict[str, str]) -> Reader:
    """Check what every report is, whatever the summary: well-formed, without empty entries, nulls, or fetching."""
    reader = Reader(files["report.html"])
    assert all(entry.strip() for entry in reader.entries)
    assert len(set(reader.ids)) == len(reader.ids)
    assert all(link.startswith(("#", "data:,", "data:text/csv;", "explorer.html")) for link in reader.links)
    assert [link for link in reader.links if link.startswith("#") and link[1:] not in reader.ids] == []
    assert len(files["report.md"].splitlines()) <= 80
    for name, text in files.items():
        text.encode("utf-8")
        assert not re.search(r"\b(None|nan|inf|Undefined)\b", text), name
        if name.endswith(".svg"):
            ElementTree.fromstring(text)
    width = 0
    for line in files["report.md"].split("\n"):
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        assert not cells or not width or (len(cells) == width and all(cells)), line
        width = len(cells)
    return reader


def quantities(node: Any, path: Sequence[str] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield every quantity of a tree with its path."""
    if isinstance(node, dict):
        if {"value", "n", "ci"} <= set(node):
            yield tuple(path), node
        for name, value in node.items():
            yield from quantities(value, (*path, name))
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from quantities(value, (*path, str(i)))


SHOWN = ("measures/*/all", "measures/model/full/*", "measures/model/choices_only*", "measures/rule/*/kept",
         "screen/flagged", "residual/*", "permutation/*/*_rate", "topics/by_topic/*")  # fmt: skip
"""Quantities that the page has to show, with what they rest on."""


def test_the_quantities_of_the_demo_are_shown_with_what_they_rest_on() -> None:
    shown = html.unescape(printed()["report.html"])
    found = {
        "/".join(path): rated(Quantity.model_validate(q, extra="ignore")).removesuffix(")")
        for path, q in quantities(DEMO)
        if q["value"] is not None
    }
    wanted = {path: said for path, said in found.items() if any(fnmatch(path, one) for one in SHOWN)}
    assert len(wanted) > 60
    assert [
        path for path, said in wanted.items() if said not in shown and not re.search("gap|rotations", path)
    ] == []


def test_the_page_has_at_most_2500_words_with_every_fold_and_the_glossary_open() -> None:
    page = re.sub(
        r"(?s)<(style|title|desc|select|head)\b.*?</\1>", " ", printed(explorer=True)["report.html"]
    )
    plainly = html.unescape(re.sub(r"<[^>]*>", " ", page))
    assert len(plainly.split()) <= 2500
    before, _, appendix = plainly.partition("Rules, order, calibration, topics, settings")
    assert appendix
    assert not re.search(r"\b(nats|Holm|logit)\b", before)


def test_the_page_fetches_nothing_and_can_be_heard() -> None:
    page, reader = printed()["report.html"], well_made(printed())
    tags = [tag for tag, _ in reader.tags]
    assert "script" not in tags
    assert "/home/someone" not in page
    assert "&#34;mode&#34;:&#34;text&#34;" in page
    assert "xpected by chance" not in page
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert tags.count("h1") == 1
    assert tags.count("table") == tags.count("caption") == page.count('download="') > 10
    assert all(values.get("scope") in {"row", "col"} for tag, values in reader.tags if tag == "th")
    drawings = [values for tag, values in reader.tags if values.get("role") == "img"]
    assert len(drawings) == tags.count("figure") == 4
    assert set((drawings[0]["aria-labelledby"] or "").split()) <= set(reader.ids)
    assert not any("open" in values for tag, values in reader.tags if tag == "details")


def test_the_first_screen_is_said_alike_on_page_terminal_and_pull_request() -> None:
    first, files = opening(read(DEMO)), printed()
    said = words_of(first)
    assert len(" ".join(said).split()) <= 160
    page = " ".join(html.unescape(re.sub("<[^>]*>", "", files["report.html"])).split())
    assert [one for one in said if page.count(one) != 1] == []
    lines = closing(read(DEMO), "run")
    assert all(len(line) <= 79 for line in lines)
    for text in (files["report.md"].replace("\\", ""), " ".join(line.strip() for line in lines)):
        assert [one for one in said if one not in text] == []
    assert len(files["report.html"].encode()) <= 1_000_000


def test_a_report_is_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    code = (
        "import json, sys; from pathlib import Path; from robustify.report import write_report; "
        "from robustify.judging.summary.result import read; "
        "s, p = json.load(sys.stdin); write_report(Path(sys.argv[1]), read(s), p)"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "there")], input=json.dumps([DEMO, PROVENANCE]), text=True,
        check=True, cwd=ROOT, env={"PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    here = write_report(tmp_path / "here", read(DEMO), PROVENANCE)
    assert {p.name for p in here} >= {"report.html", "report.md", "scores.svg"}
    for path in here:
        assert path.read_bytes() == (tmp_path / "there" / path.relative_to(tmp_path / "here")).read_bytes()


def test_no_cell_has_more_than_six_words() -> None:
    cells = re.findall(r"<(?:td|th)\b.*?</t[dh]>", printed()["report.html"])
    words = [html.unescape(re.sub("<[^>]*>", " ", c)).replace("\u2026", " ").split() for c in cells]
    beside = [len(re.findall(r'class="(?:spread|badge)"', c)) for c in cells]
    assert len(cells) > 300
    assert [w for w, badges in zip(words, beside, strict=True) if len(w) > MOST_WORDS + 2 * badges] == []


def test_every_table_has_its_numbers_as_csv() -> None:
    links = re.findall(
        r'download="([^"]+)\.csv" href="data:text/csv;charset=utf-8,([^"]*)"', printed()["report.html"]
    )
    data = {name: list(csv.DictReader(unquote(html.unescape(text)).splitlines())) for name, text in links}
    assert {"scores", "topics", "rules"} <= set(data)
    where = ("Full question", "smollm2-135m", "Kept")
    row = next(r for r in data["scores"] if (r["Number"], r["Model"], r["column"]) == where)
    q = DEMO["measures"]["model"]["full"]["smollm2-135m"]["kept"]
    assert (float(row["value"]), int(row["n"])) == (q["value"], q["n"])
    assert [float(row["low"]), float(row["high"])] == q["ci"]
    assert not [row for rows in data.values() for row in rows if re.match(r"[\d./]+ %|\u2013", row["value"])]
    part = Quantity(value=-0.5, n=3)
    found = table("t", ("Name", "X"), [("=cmd()", cell(part, "points"))])
    assert found.csv() == "Name,column,value,low,high,n\r\n'=cmd(),X,-0.5,,,3\r\n"


def test_a_table_leaves_out_rows_and_columns_without_values() -> None:
    rows = [("a", Quantity(value=0.5, n=4, ci=(0.2, 0.8)), None), ("b", None, None), ("c", Quantity(), None)]
    found = table("t", ("Name", "X", "Y"), rows)
    assert (found.heads, len(found.rows)) == (("Name", "X"), 1)
    assert value_table("t", ("X", None), ("Y", 3), ("Z", "3")).rows == (
        (Cell("Y"), cell(3)),
        (Cell("Z"), cell("3")),
    )
    assert table("t", ("", "X"), ()).rows == ()


@pytest.mark.parametrize(("content", "form", "shown"), cases("report", "cells"))
def test_a_cell_says_what_its_number_rests_on(content: Any, form: list[str], shown: str) -> None:
    made = cell(Score(**content) if isinstance(content, dict) else content, *form)
    assert made.exact == shown
    assert (made is ABSENT) == (shown == "\u2013")
    assert [p_cell(p).exact for p in (0.0004, 0.04)] == ["< 0.001", "0.040"]


def test_a_score_that_cannot_be_told_from_chance_is_marked_and_said() -> None:
    tree = deepcopy(DEMO)
    full = tree["measures"]["model"]["full"]["smollm2-135m"]["all"]
    full["significant"], full["mde"] = False, 0.07
    text = text_of_page(printed(tree)["report.html"])
    assert re.search(r"smollm2-135m .* chance .*80 % power at 7\.0 points\) \[≈ chance\]", text, re.S)


OPTIONAL = [
    name for name, field in Summary.model_fields.items() if not field.is_required() and DEMO.get(name)
]


def test_what_was_not_measured_is_left_out_and_said() -> None:
    for gone in set(OPTIONAL) - {"format", "signature"}:
        files = printed({name: part for name, part in DEMO.items() if name != gone})
        well_made(files)
        if gone in ("screen", "topics", "evidence"):
            assert "Not measured in this run:" in text_of_page(files["report.html"])


@pytest.mark.parametrize("deepest", [0, 1, 2, 3, 9])
def test_a_template_names_only_what_a_summary_has_whichever_optional_parts_are_there(deepest: int) -> None:
    """Undefined names raise. `deepest` is the level below which every optional part is missing."""
    s = read(complete(Summary, deepest=deepest) | {"format": 5})
    files = render(s, {**PROVENANCE, "explorer": True, "growing": True})
    assert ("figures/scores.svg" in files) == (deepest >= 2)
    assert closing(s, "run")
    assert "robustify" in first_screen(s, {})


def test_a_run_of_nearly_nothing_says_so() -> None:
    parts = {name: part for name, part in DEMO.items() if name == "format" or name not in OPTIONAL}
    order = {"by_model": {}, "cloze_invariance": None}
    none = {"set": {}, "model": {}, "rule": {}}
    empty = {"models": {}, "measures": none, "calibration": {}, "sensitivity": [], "permutation": order}
    files = render(read({**parts, **empty}), {})
    well_made(files)
    assert "Not evaluated" in files["report.md"]
    page = files["report.html"]
    assert "Not measured" in text_of_page(page)
    # No part of the page is a title alone, and the contents name only what is there.
    groups = re.findall(r'<section id="(.+?)" class="group">\n<h2>.+?</h2>(.*?)</section>', page, re.DOTALL)
    assert "models" not in dict(groups)
    assert all(re.search("<(details|table|p)", content) for _, content in groups)
    assert set(re.findall('class="down" href="#(.+?)"', page)) == set(dict(groups))


def renamed(name: str) -> dict[str, Any]:
    """Return the demo's summary with other names of models, a topic, and the benchmark."""
    text = json.dumps(DEMO)
    for i, old in enumerate(("smollm2-135m", "gemma3-270m", "geography", "demo-benign")):
        text = text.replace(json.dumps(old), json.dumps(f"{name}{i}"))
    return dict(json.loads(text))


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_can_break_the_page(name: str) -> None:
    hashed = {"models": {name: {name: name}}, "templates": {name: name}}
    files = printed({**renamed(name), "signature": name}, notes=[name], **hashed)
    reader = well_made(files)
    assert {"script", "img"}.isdisjoint(tag for tag, _ in reader.tags)
    for text in files.values():
        assert not set("\x1b\u202e\u200b") & set(text)
        assert "49" not in re.findall(r"<h1>(.*?)</h1>", text)
    assert not re.search(r"(?<!\\)\]\(javascript", files["report.md"].split("Signature")[0])


def test_the_title_of_each_fold_says_its_result() -> None:
    titles = [
        html.unescape(re.sub("<[^>]*>", "", one))
        for one in re.findall("<h3>.*?</h3>", printed()["report.html"])
    ]
    states = [check["state"] for check in DEMO["guardrails"]]
    said = ", ".join(f"{states.count(one)} {one}" for one in sorted(set(states)))
    wanted = {f"How many items: {DEMO['splits']['flagged']} of 360, about 12 by chance", "Scores: 2 models", "Voters: 2",
              f"Guardrails: {said}", f"Audit of the kept items: {DEMO['residual']['state']}"}  # fmt: skip
    assert wanted <= set(titles)
    assert [one for one in titles[:-1] if ": " not in one] == []


DIGESTS = {f"{view}/{name}": template(view, name).digest for view in VIEWS for name in names(view)}


@pytest.fixture(scope="module")
def demo() -> Summary:
    return edited({})


def widths(drawn: str, kind: str) -> list[float]:
    """Return the widths of the bars of one class in percent, without the box of the legend."""
    return [
        float(x) for x in re.findall(rf'<rect class="{kind}" y="\d+" height="9" width="([\d.]+)%"', drawn)
    ]


def test_a_picture_shows_the_worst_and_the_best_order_of_each_model(demo: Summary) -> None:
    pages = render(demo, {})
    orders = [one for one in demo.permutation.by_model.values() if one]
    drawn = pages["figures/order.svg"]
    assert len(orders) == 2
    assert widths(drawn, "bar") == pytest.approx([100 * one.min for one in orders], abs=0.01)
    assert widths(drawn, "outline") == pytest.approx([100 * one.max for one in orders], abs=0.01)
    assert all(f"{100 * one.flip_rate.value:.1f} % flip" in drawn for one in orders)
    assert pages["report.html"].count('id="order-title"') == 1


def test_a_class_of_marks_has_one_meaning_in_all_pictures(demo: Summary) -> None:
    """The bar of kept items was the score in the worst order, and that of flags by chance the best order or all items."""
    meanings = {(chart.id, *legend) for chart in charts(demo) for legend in (chart.inner, chart.outer)}
    assert {kind: words for _, kind, words in meanings if kind in ("kept", "flagged", "by-chance")} == {
        "kept": "kept", "flagged": "the other flagged items", "by-chance": "by chance",
    }  # fmt: skip
    drawn = render(demo, {})["report.html"]
    assert set(re.findall(r'<rect class="([^"]+)"', drawn)) == {kind for _, kind, _ in meanings}


def test_of_many_topics_the_first_are_drawn_and_counted_and_an_unknown_flip_rate_is_not_drawn() -> None:
    row, (name, *_) = DEMO["topics"]["by_topic"]["music"], DEMO["permutation"]["by_model"]
    s = edited({
        "topics/by_topic": {f"topic {n}": row for n in range(60)},
        f"permutation/by_model/{name}/flip_rate": {"value": None, "n": 0, "ci": None},
    })  # fmt: skip
    pages = render(s, {})
    assert len(widths(pages["figures/topics.svg"], "kept")) == 24
    assert "24 of 60" in pages["report.html"]
    assert pages["figures/order.svg"].count("% flip</text>") == len(DEMO["permutation"]["by_model"]) - 1


def test_a_picture_shows_each_topic_before_and_after(demo: Summary) -> None:
    pages, topics = render(demo, {}), demo.topics.by_topic
    drawn, most = pages["figures/topics.svg"], max(one.before for one in topics.values())
    assert widths(drawn, "kept") == pytest.approx(
        [100 * one.after / most for one in topics.values()], abs=0.01
    )
    assert [name for name in topics if f">{name}</text>" not in drawn] == []
    assert pages["report.html"].count('id="topics-title"') == 1


def test_what_was_not_measured_has_no_picture() -> None:
    models = dict.fromkeys(edited({}).permutation.by_model)
    s = edited({"topics": None, "permutation/by_model": models, "screen/cuts": []})
    assert list(charts(s)) == []
    assert {name for name in render(s, {}) if name.startswith("figures/")} == {"figures/scores.svg"}


def test_the_prompts_of_a_public_run_are_on_its_page_in_full(demo: Summary) -> None:
    page = unescape(render(demo, {"templates": DIGESTS})["report.html"])
    sources = prompt_sources(DIGESTS)
    assert len(sources) == len(DIGESTS) >= 9
    assert all(f"<pre>{source}</pre>" in page for source in sources.values())
    # A prompt of another version has only its hash.
    other = unescape(
        render(demo, {"templates": {"full/mmlu-v1": "0" * 64, "mine/new": "1" * 64}})["report.html"]
    )
    assert "0" * 64 in other
    assert sources["full/mmlu-v1"] not in other


def test_a_restricted_page_has_the_hashes_of_its_prompts_alone(demo: Summary, tmp_path: Path) -> None:
    write_released(tmp_path, released(demo), {"templates": DIGESTS})
    page = unescape((tmp_path / "report.html").read_text())
    assert all(digest[:16] in page for digest in DIGESTS.values())
    assert not [source for source in prompt_sources(DIGESTS).values() if source in page]
