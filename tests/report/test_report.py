"""The report says what the summary holds and what is absent, and no name can break or bend it."""

import csv
import html
import json
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from difflib import unified_diff
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.disclosure import PRINTED, released_summary
from robustify.errors import DataError
from robustify.judge import calibration
from robustify.report import content, render, write_report
from robustify.report.advice import recommendations, verdict_in_short
from robustify.report.blocks import Line, Mark, Plot, PlotRow, Table, csv_of
from robustify.report.format import as_released, percent, plain, points, rate, signed
from robustify.report.opening import closing
from robustify.report.printing import INSET, MOST_WORDS, NARROW, WIDE, axis, drawn_data, fit, placed, svg
from robustify.report.sections.paired import MOST_PAIRS
from robustify.report.sections.residual_audit import residual as residual_section
from robustify.report.sections.residual_audit import residual_plot
from robustify.report.sections.scores import at_chance
from robustify.summary.format_1 import read
from robustify.summary.quantity import Part, Quantity
from robustify.summary.result import Residual, Summary
from robustify.summary.scored import Accuracy
from robustify.summary.screened import Splits
from tests.support.page_text import text_of_page

HERE = Path(__file__).parents[1]
FULL = HERE / "data" / "summary_full.json"
DEMO = HERE.parent / "results" / "benign_demo" / "summary.json"
GOLDEN = HERE / "data" / "report_full.md"
DIFFERENCES_MADE = HERE / "data" / "report_changes.txt"
PROVENANCE: dict[str, Any] = {
    "signature": "set:made-up-set|n:360",
    "versions": {"robustify": "0.1.0", "python": "3.11.2"},
    "models": {"smollm2-135m": {"licence": "Apache-2.0", "weights": "b179c952" * 8}, "gemma3-270m": {}},
    "templates": {"full/mmlu-v1": "0123abcd" * 8},
    "config": {
        "data": [{"path": "/home/someone/items.jsonl"}],
        "screen": {"mode": "text"},
        "probe": {"seed": 7},
    },
    "data": {"sha256": "5" * 64},
    "notes": ["A note of the run."],
}
LINKS = ("href", "src", "srcset", "action", "data", "xlink:href")
ENTRIES = {"td", "th", "dt", "dd", "caption", "figcaption", "li"}
VOID = {"meta", "link", "br", "line", "circle", "rect"}
Where = tuple[str | int, ...]


def full() -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(FULL.read_text(encoding="utf-8"))
    return summary


def printed(summary: dict[str, Any], provenance: dict[str, Any] = PROVENANCE) -> dict[str, str]:
    """The report's files of a tree as summary.json has it."""
    return render(read({"format": 1, **summary}), provenance)


def text_of(summary: dict[str, Any], title: str = "") -> str:
    """The page as text, or what is there under one heading."""
    text = text_of_page(printed(summary)["report.html"])
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0] if title else text


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
    """What every report is, whatever the summary: well-formed, without empty entries, nulls, or fetching."""
    reader = Reader(files["report.html"])
    assert all(entry.strip() for entry in reader.entries)
    assert len(set(reader.ids)) == len(reader.ids)
    assert all(link.startswith(("#", "data:,", "data:text/csv;")) for link in reader.links)
    assert all(link[1:] in reader.ids for link in reader.links if link.startswith("#"))
    assert len(files["report.md"].splitlines()) <= 80
    for name, text in files.items():
        text.encode("utf-8")
        assert not re.search(r"\b(None|nan|inf|Undefined)\b", text), name
        if name.endswith(".svg"):
            ElementTree.fromstring(text)
    tables_hold(files["report.md"])
    return reader


def tables_hold(text: str) -> None:
    """Every row of a Markdown table has as many cells as its head, and none of them is empty."""
    width = 0
    for line in text.split("\n"):
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        assert not cells or not width or len(cells) == width, line
        assert not width or all(cells), line
        width = len(cells)


def places(node: object, at: Where = ()) -> Iterator[Where]:
    """Every place in a summary."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        yield (*at, key)
        yield from places(value, (*at, key))


def put(summary: dict[str, Any], where: Where, value: object) -> None:
    node: Any = summary
    for step in where[:-1]:
        node = node[step] if isinstance(node, dict | list) and _there(node, step) else None
    if isinstance(node, dict | list) and _there(node, where[-1]):
        node[where[-1]] = value


def _there(node: Any, step: str | int) -> bool:
    return step in node if isinstance(node, dict) else isinstance(step, int) and step < len(node)


DIFFERENCES = ("heuristic_gap", "format_gap", "full_gap", "difference", "excess")
PLACES = sorted(places(full()), key=str)


def test_the_made_up_report_is_the_committed_one() -> None:
    assert text_of(full()) == GOLDEN.read_text(encoding="utf-8"), (
        "the report's words changed; look at them and write the file anew: python -m tests.report.test_report"
    )


def test_every_part_of_the_summary_is_shown_with_its_n_and_interval() -> None:
    shown = text_of(full()).replace("\\", "")
    summary = full()
    for where in PLACES:
        node: Any = summary
        for step in where:
            node = node[step]
        if (
            where[-1] == "position_share"
            or not isinstance(node, dict)
            or not {"value", "n", "ci"} <= set(node)
        ):
            continue
        q = Quantity(value=node["value"], n=node["n"], ci=tuple(node["ci"]))
        assert q.value is not None
        assert q.ci is not None
        if where[0] == "heuristics":
            assert f"{percent(q.value)} ({100 * q.ci[0]:.1f} to {100 * q.ci[1]:.1f})" in shown, where
            assert f"{str(where[1]).capitalize()}, n = {q.n}" in shown, where
        elif where[-1] in DIFFERENCES:
            other_view = where[-1] == "heuristic_gap" and where[2] not in ("full", "cloze_chars", "free")
            assert points(q).removesuffix(")") in shown or other_view, where
        else:
            assert rate(q).removesuffix(")") in shown, where


def test_every_section_of_before_is_folded_under_one_of_five_headings() -> None:
    reader = well_made(printed(full()))
    heads = [
        "What was removed", "Removed, and how much of it is due to chance", "Who decided, without the question",
        "What is left of each topic", "Under other rules",
        "How models score", "Scores on All, Shortcut, Robust and Cloze", "Which models differ?",
        "Would removing random items have done the same?", "Does the order of the options matter?", "Calibration",
        "What gives items away", "Which items, and why", "Heuristics without a model", "Findings about the benchmark",
        "How far to trust this", "What the certificate says", "What to do, and why", "Are shortcuts left?", "Guardrails",
        "Keys that deserve a second look", "Signs that a model has seen it",
        "Method", "Method, models and versions", "How to read this, and its limits",
    ]  # fmt: skip
    page = printed(full())["report.html"].split("<main>")[1].split("</main>")[0]
    assert re.findall(r"<h[23]>(.*?)</h[23]>", page) == heads
    groups = [values for tag, values in reader.tags if tag == "section" and values.get("class") == "group"]
    folded = [values for tag, values in reader.tags if tag == "details" and values.get("class") == "section"]
    assert (len(groups), len(folded)) == (5, len(heads) - 5)
    assert not any("open" in values for values in folded)
    assert len(re.findall(r'<p class="lead">[^<]{20,140}\.</p>', page)) == 5


def test_a_report_is_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    code = (
        "import json, sys; from pathlib import Path; from robustify.report import write_report; "
        "from robustify.summary.format_1 import read; "
        "s, p, out = (json.loads(a) for a in sys.argv[1:]); write_report(Path(out), read(s), p)"
    )
    arguments = [json.dumps(x) for x in (full(), PROVENANCE, str(tmp_path / "there"))]
    subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, cwd=HERE.parent, env={"PYTHONHASHSEED": "7"}
    )
    here = write_report(tmp_path / "here", read(full()), PROVENANCE)
    names = {"report.html", "report.md", "flagged.svg", "heuristics.svg", "topics.svg"}
    assert {p.name for p in here} >= names
    for path in here:
        assert path.read_bytes() == (tmp_path / "there" / path.relative_to(tmp_path / "here")).read_bytes()


def test_the_page_fetches_nothing_and_can_be_heard() -> None:
    page = printed(full())["report.html"]
    reader = well_made(printed(full()))
    tags = [tag for tag, _ in reader.tags]
    assert "script" not in tags
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    assert tags.count("h1") == 1
    assert tags.count("table") == tags.count("caption") == page.count('download="') > 10
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert all(values.get("scope") in {"row", "col"} for tag, values in reader.tags if tag == "th")
    drawings = [values for tag, values in reader.tags if tag == "svg"]
    # One figure is the benchmark as a bar, which is no drawing.
    assert len(drawings) == 2 * (tags.count("figure") - 1)
    for values in drawings:
        assert values["role"] == "img"
        assert set((values["aria-labelledby"] or "").split()) <= set(reader.ids)


def releases() -> Iterator[tuple[str, Summary]]:
    """The demo and the made-up summary, as a public run prints them and at each release level."""
    for name, tree in (("demo", json.loads(DEMO.read_text("utf-8"))), ("full", {"format": 1, **full()})):
        summary = read(tree)
        yield name, summary
        for level in PRINTED:
            yield f"{name}, {level}", released_summary(summary, level)


PAGES = dict(releases())


@pytest.mark.parametrize("name", PAGES)
def test_no_cell_has_more_than_six_words(name: str) -> None:
    page = render(PAGES[name], PROVENANCE)["report.html"]
    cells = re.findall(r"<(?:td|th)\b.*?</t[dh]>", page)
    words = [html.unescape(re.sub("<[^>]*>", " ", cell)).replace("\u2026", " ").split() for cell in cells]
    beside = [len(re.findall(r'class="(?:spread|badge)"', cell)) for cell in cells]
    assert len(cells) > 300
    assert [w for w, badges in zip(words, beside, strict=True) if len(w) > MOST_WORDS + 2 * badges] == []


@pytest.mark.parametrize("name", PAGES)
def test_the_first_screen_is_sixty_words_and_a_pull_request_gets_the_same_facts(name: str) -> None:
    summary = PAGES[name]
    with as_released(summary.release is not None):
        first = content(summary, PROVENANCE).first
    notes = () if first.scores is None else (first.scores.note,)
    prose = " ".join((first.verdict, *first.above, *notes, *(one.action for one in first.todo)))
    assert len(prose.split()) <= 60
    assert len(first.verdict.split()) <= 20
    assert len(first.tiles) == 3
    assert 1 <= len(first.todo) <= 5
    assert sum(part.n for part in first.bar) == pytest.approx((summary.splits or Splits()).all)
    files = render(summary, PROVENANCE)
    text = files["report.md"].replace("\\", "")
    for fact in (first.verdict, *(tile.main for tile in first.tiles), *(one.action for one in first.todo)):
        assert fact in text
        assert fact in files["report.html"]
    assert len(text.splitlines()) <= 80
    assert "(report.html)" in text
    assert len(files["report.html"].encode()) <= 1_000_000


def test_every_figure_has_its_table_and_every_table_its_csv() -> None:
    page = content(read({"format": 1, **full()}), PROVENANCE)
    links = re.findall(
        r'download="([^"]+)\.csv" href="data:text/csv;charset=utf-8,([^"]*)"', printed(full())["report.html"]
    )
    data = {name: list(csv.reader(unquote(html.unescape(text)).splitlines())) for name, text in links}
    assert {plot.name for plot in page.plots} <= set(data)
    for plot in page.plots:
        drawn = [row for row in plot.rows if row.marks]
        assert len(data[plot.name]) == 1 + len(drawn) == 1 + len(drawn_data(plot).rows)
    first = next(row for row in data["accuracy"] if row[0] == "smollm2-135m*")
    assert first[1] == "27.0 % (22.7 to 31.8)"
    assert all(len(row) == len(rows[0]) for rows in data.values() for row in rows)


@pytest.mark.parametrize(
    ("text", "field"), [("=cmd()", '"\'=cmd()"'), ('a "b"', '"a ""b"""'), ("-1", '"\'-1"'), ("", '""')]
)
def test_a_field_of_a_csv_is_no_formula(text: str, field: str) -> None:
    assert csv_of([[text]]) == f"{field}\r\n"


def test_the_page_links_to_single_items_only_where_their_page_is() -> None:
    without, beside = (render(PAGES["demo"], {"explorer": there}) for there in (False, True))
    assert not any("explorer" in text for text in without.values())
    assert re.findall(r'href="(explorer\.html[^"]*)"', beside["report.html"]) == [
        "explorer.html",
        "explorer.html#verdict=robust",
        "explorer.html#verdict=shortcut&amp;cue=length",
        "explorer.html#verdict=shortcut&amp;cue=certainty",
    ]
    assert "](explorer.html#verdict=robust)" in beside["report.md"]
    assert not any(
        "explorer" in text for text in render(PAGES["demo, evaluator"], {"explorer": True}).values()
    )


MODEL_ROW = re.compile(r"\| (smollm2|gemma3|tiny-llama)\S* (\[voter\] )?\|")


def test_voters_are_marked_wherever_they_are_scored() -> None:
    text = text_of(full()).replace("\\", "")
    for title, lines in (
        ("Scores on All, Shortcut, Robust and Cloze", 9 + 15 + 4),
        ("Would removing random items have done the same?", 3),
        ("Does the order of the options matter?", 9 + 4),
    ):
        scored = [
            line for line in text_of(full(), title).replace("\\", "").splitlines() if MODEL_ROW.match(line)
        ]
        assert len(scored) == lines, title
        assert all(("[voter]" in line) is not line.startswith("| tiny") for line in scored), title
    assert "By selection alone it is low on Robust" in printed(full())["report.html"]
    assert text


def test_paths_of_the_machine_stay_out_and_settings_stay_in() -> None:
    files = printed(full())
    assert not any("/home/someone" in text for text in files.values())
    assert "&#34;mode&#34;: &#34;text&#34;" in files["report.html"]
    assert "A note of the run." in files["report.html"]


@pytest.mark.parametrize("summary", [{}, {"screen": None, "accuracy": None}, {"benchmark": {"name": ""}}])
def test_a_summary_that_lacks_all_says_so(summary: dict[str, Any]) -> None:
    files = printed(summary, {})
    well_made(files)
    assert set(files) == {"report.html", "report.md"}
    assert files["report.html"].count("Not measured") >= 6
    assert "No verdict" in files["report.html"]
    assert "No verdict" in files["report.md"]


def fields(part: type[Part] = Part) -> set[str]:
    """The names of all fields of the summary: they may be null, while a model or topic may only be missing."""
    return set(part.model_fields).union(*(fields(one) for one in part.__subclasses__()))


NULLABLE = fields() - {"guardrails", "code", "text"}
# A tree without its format is refused (test_summary.py).
PARTS = [where for where in PLACES if where != ("format",)]


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=25), st.booleans())
def test_any_part_may_be_null_or_missing(gone: list[Where], pruned: bool) -> None:
    summary = full()
    for where in gone:
        if where[-1] in NULLABLE:
            put(summary, where, None)
        elif isinstance(where[-1], str):
            put(summary, where[:-1], {})
    well_made(printed(_without_nulls(summary) if pruned else summary))


def _without_nulls(summary: dict[str, Any]) -> dict[str, Any]:
    return {k: _without_nulls(v) if isinstance(v, dict) else v for k, v in summary.items() if v is not None}


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**9), st.floats(), st.text(max_size=8), st.just([]),
    st.just({}), st.just([None, 1]), st.just({"value": "x", "ci": [1]}),
    st.just({"value": -0.4, "n": 0, "ci": [float("nan"), 2]}),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), JUNK), min_size=1, max_size=15))
def test_junk_in_a_summary_is_refused_or_printed(junk: list[tuple[Where, object]]) -> None:
    summary = full()
    for where, value in junk:
        put(summary, where, value)
    try:
        files = printed(summary)
    except DataError:
        return
    for name, text in files.items():
        text.encode("utf-8")
        if name.endswith(".svg"):
            ElementTree.fromstring(text)


EVIL = (
    "<script>alert(1)</script>", "\x1b[31mred", "a\u202eb", "lone \ud800", " ",
    "| cell | `code` [x](y) *b*", "two\nlines\r", "&lt;b&gt;", "'\"><img src=x onerror=y>",
    "\x00", "x" * 5000, "]]>", "{{ 7 * 7 }}", "\u2028",
)  # fmt: skip


@pytest.mark.parametrize("name", EVIL)
def test_names_are_printed_and_never_obeyed(name: str) -> None:
    summary = full()
    summary["benchmark"]["name"] = name
    summary["topics"] = {name: summary["topics"]["history"], "kl_nats": None, "kl_null": None, "p": None}
    summary["benchmark"]["defects"] = {name: {"n": 1, "items": [name]}}
    for part in ("accuracy", "permutation", "calibration", "random_removal"):
        summary[part] = {name: summary[part]["smollm2-135m"]}
    summary["residual"]["held_out"] = {name: summary["residual"]["held_out"]["tiny-llama-1.1b"]}
    summary["residual"]["heads"] = {name: summary["residual"]["heads"]["smollm2-135m"]}
    pair = {**summary["pairs"]["smollm2-135m vs gemma3-270m"], "models": [name, name]}
    summary["pairs"] = {name: pair, f"{name} ": {**pair, "models": None}}
    summary["sensitivity"][1] |= {"name": name, "differs": f"{name}.", "same_as": [name]}
    summary["sensitivity"][3] |= {"name": name, "differs": name, "criterion": name}
    summary["label_noise"] |= {"items": [name], "strong": [name]}
    found = summary["contamination"]
    found["overlap"] |= {"items": [name], "files": [{"name": name, "sha256": name, "bytes": 1, "words": 1}]}
    found |= {"sentence": name, "memorisation": {name: found["memorisation"]["smollm2-135m"]}}
    summary["benchmark"]["key_places"] |= {"sentence": name, "by_options": {name: {"n": 1, "shares": [1.0]}}}
    summary["guardrails"][0]["reason"] = summary["certificate"]["sentence"] = name
    files = printed(
        summary, {**PROVENANCE, "models": {name: {name: name}}, "notes": [name], "config": {"screen": name}}
    )
    reader = well_made(files)
    assert not {tag for tag, _ in reader.tags} & {"script", "img", "b"}
    assert not any(attribute.startswith("on") for _, held in reader.tags for attribute in held)
    for text in files.values():
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", text)
    outside_code = re.sub(r"```(json|text).*?```", "", files["report.md"], flags=re.DOTALL)
    assert not re.search(r"(?<!\\)<(script|img)", outside_code)
    assert all("\x1b" not in line for line in closing(read(summary), "results"))


def older() -> dict[str, Any]:
    """The made-up summary as the version before pairs, places and label noise wrote it."""
    summary = full()
    for name in ("pairs", "label_noise"):
        del summary[name]
    summary["contamination"] = None
    del summary["benchmark"]["key_places"], summary["residual"]["heads"]
    for entry in summary["accuracy"].values():
        del entry["format_gap"]
    gone = {
        "chance", "told_from_chance", "mde", "p_bh", "ece_ci", "ece_p", "ece_if_calibrated", "brier_ci", "bins",
        "by_place", "rotations", "prior_n", "debiased", "place_recall", "mean_ci", "before", "free", "ties",
        "all_right", "all_right_ratio", "differs", "automatic", "same_as", "norm", "rotation",
    }  # fmt: skip
    summary["sensitivity"] = summary["sensitivity"][:3]
    old: dict[str, Any] = _without(summary, gone)
    old["screen"]["rotations"], old["residual"]["chance"] = 1, summary["residual"]["chance"]
    for name in ("permutation", "random_removal"):
        for entry in old[name].values():
            if isinstance(entry, dict):
                entry.pop("is_voter", None)
    return old


def _without(node: Any, gone: set[str]) -> Any:
    if isinstance(node, dict):
        return {k: _without(v, gone) for k, v in node.items() if k not in gone}
    return [_without(v, gone) for v in node] if isinstance(node, list) else node


SMALL, TINY, PAIR = "smollm2-135m", "tiny-llama-1.1b", "smollm2-135m vs tiny-llama-1.1b"
MOVED = ("mean", "mean_ci", "sd", "min", "max", "flip_rate", "consistency", "orders", "n")
UNASKED = {f"permutation/{m}/{x}": None for m in (SMALL, "gemma3-270m", TINY) for x in MOVED}
BY_PLACE = {
    "expected_flags": {"value": 80.0, "ci": [66.0, 95.0]},
    "excess_over_chance": {"value": 0.0944, "ci": [0.05, 0.14], "p": 0.0001},
    "latent_shortcut_rate": None,
}
UNEVEN = {
    "n": 206, "shares": [1.0, 0.0], "by_options": {"2": {"n": 206, "shares": [1.0, 0.0]}}, "chi_square": 206.0,
    "df": 1, "p": 1e-40, "test": "chi-square", "sentence": "The key is first in 100 % of the items.",
}  # fmt: skip
BELOW = {
    "value": 0.12,
    "ci": [0.085, 0.167],
    "n": 244,
    "chance": 0.248,
    "told_from_chance": True,
    "mde": None,
}
CHANGES: dict[str, dict[str, object]] = {
    "no latent rate": {"screen/latent_shortcut_rate/value": None},
    "a temperature at the bound": {"calibration/gemma3-270m/full/temperature": calibration.HOTTEST},
    "items with other numbers of options": {"screen/rotations": 5},
    "items with five options": {"screen/rotations": 5, "benchmark/option_counts": {"5": 360}},
    "cloze that is inert": {"permutation/cloze_invariance": "inert"},
    "cloze that moved": {"permutation/cloze_invariance": {"n_changed": 3, "n": 400}},
    "cloze in one order": {"permutation/cloze_invariance": None},
    **{f"no {'/'.join(where)}": {"/".join(where): None} for where in (
        ("benchmark", "key_places"), ("pairs",), ("residual", "heads"), ("residual", "held_out"), ("label_noise",),
        ("contamination",), ("contamination", "overlap"), ("contamination", "memorisation"), ("calibration",),
    )},
    "keys at one place": {"benchmark/key_places": UNEVEN},
    "chance that knows the places": {"screen/by_place": BY_PLACE},
    "a score below chance": {f"accuracy/{TINY}/full/robust": BELOW},
    "a pair that differs": {f"pairs/{PAIR}/full/all/{k}": v for k, v in (("p", 4e-4), ("p_holm", 5e-3), ("mde", None))},
    "a pair without a view": {"pairs": {"a vs b": {"models": ["a", "b"], "is_voter": False}}},
    "no random orders": UNASKED,
    "no rotations either": UNASKED | {f"permutation/{m}/{x}": None for m in (SMALL, "gemma3-270m", TINY)
                                      for x in ("position_prior", "debiased", "place_recall")},
    "too few items for a prior": {f"permutation/{SMALL}/position_prior": None, f"permutation/{SMALL}/prior_n": 6},
    "doubtful keys that are counted": {"label_noise/items": None},
    "no doubtful key": {"label_noise/items": [], "label_noise/flagged": {"value": 0.0, "n": 358, "ci": [0.0, 0.01]}},
    "doubtful keys that are not judged": {"label_noise/reason": "1 of 3 models told from chance"},
}  # fmt: skip


def changed(changes: dict[str, object]) -> dict[str, Any]:
    """The made-up summary with other values at these places (names joined by `/`)."""
    summary = full()
    for place, value in changes.items():
        *path, last = place.split("/")
        node = summary
        for name in path:
            node = node[name]
        node[last] = value
    return summary


def differing() -> str:
    """What each change does to the page: how many lines it takes away, and those that it brings."""
    before, out = text_of(full()).splitlines(), []
    pages = {name: changed(one) for name, one in CHANGES.items()} | {
        "an older summary": older(),
        "an empty one": {},
    }
    for name, summary in pages.items():
        after = text_of(summary)
        tables_hold(after)
        lines = list(unified_diff(before, after.splitlines(), n=0))[2:]
        out.append(f"=== {name}: {sum(x[0] == '-' for x in lines)} lines less, and these more")
        out += [x[1:] for x in lines if x[0] == "+" and x[1:].strip()]
    return "\n".join(out) + "\n"


@pytest.mark.slow
def test_what_a_change_does_to_the_page_is_as_committed() -> None:
    well_made(printed(older()))
    assert differing() == DIFFERENCES_MADE.read_text(encoding="utf-8"), (
        "the report's words changed; look at them and write the file anew: python -m tests.report.test_report"
    )


OTHER = {"value": 0.4, "n": 360, "ci": [0.35, 0.45], "chance": 0.25, "significant": True, "mde": None}


@pytest.mark.parametrize(
    ("mode", "other", "cloze", "said"),
    [
        ("letter", OTHER, True, "by text it can: 40.0 % (n = 360, 35.0 to 45.0), chance 25.0 %; by cloze it can:"),
        ("letter", {**OTHER, "significant": False}, False, "by text neither."),
        ("letter", {**OTHER, "value": 0.1, "ci": [0.08, 0.12]}, False, "by text neither."),
        ("letter", None, False, "it was asked in no other way (asking.mode: text was not asked)"),
        ("text", OTHER, False, "by letter it can: 40.0 %"),
    ],
)  # fmt: skip
def test_a_model_at_chance_is_said_once_above_the_table_with_the_mode_in_which_it_is_not(
    mode: str, other: dict[str, Any] | None, cloze: bool, said: str
) -> None:
    whole = read(full())
    name = "smollm2-135m"
    e = (whole.accuracy or {})[name]
    tree = {**e.tree(), "full_other": other, "cloze_chars": e.tree()["cloze_chars"] if cloze else None}
    models = [(name, Accuracy.model_validate(tree)), *list((whole.accuracy or {}).items())[2:]]
    found = at_chance(whole.model_copy(update={"full_mode": mode}), models)
    assert f"on All by {mode}: 27.0 % (n = 360, 22.7 to 31.8), chance 24.8 %; {said}" in found.text
    assert found.text.count(name) == 1
    assert at_chance(whole, models[1:]) is None
    assert text_of(whole.tree()).index(found.text[:40]) < text_of(whole.tree()).index("Accuracy by model")


def test_of_many_pairs_those_with_the_smallest_p_are_shown() -> None:
    summary = full()
    pair = summary["pairs"]["smollm2-135m vs tiny-llama-1.1b"]
    summary["pairs"] = {f"m{i}": {**pair, "models": [f"m{i}", "other"]} for i in range(MOST_PAIRS + 5)}
    summary["pairs"]["m19"] = json.loads(json.dumps(summary["pairs"]["m19"]))
    summary["pairs"]["m19"]["full"]["all"]["p_holm"] = 0.001
    text = text_of(summary, "Which models differ?")
    assert text.index("| m19 vs other") < text.index("| m0 vs other")
    assert "m15 vs other" not in text


def test_the_control_of_a_linear_probe_is_drawn_as_no_auditor() -> None:
    plot = residual_plot(read(full()).residual or Residual())
    kinds = {row.label: row.marks[0].kind for row in plot.rows}
    assert kinds["smollm2-135m, random weights"] == "chance"
    assert {kind for label, kind in kinds.items() if "random weights" not in label} == {"main"}


def test_bins_of_few_items_are_not_drawn() -> None:
    files = printed(full())
    drawn = files["figures/reliability.svg"]
    assert "sure by 27 to 33 %, n = 131: right 26.7 % (19.9 to 34.9), sure 29.9 %." in drawn
    assert "n = 8:" not in drawn


def test_signs_of_contamination_are_signs_and_their_absence_proves_nothing() -> None:
    summary = full()
    summary["contamination"] = None
    for files in (printed(full()), printed(summary), printed({}, {})):
        assert not re.search(
            r"\bclean|uncontaminated|free of", files["report.md"] + files["report.html"], re.I
        )


@given(st.text())
def test_plain_text_is_printable_and_not_endless(text: str) -> None:
    shown = plain(text)
    assert shown.encode("utf-8")
    assert all(c.isprintable() or c in "\u200c\u200d\u00a0" or unicodedata.category(c) == "Zs" for c in shown)
    assert len(shown) <= 120 * len("\\U0010ffff")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (rate(Quantity(value=0.318, n=360, ci=(0.272, 0.368))), "31.8 % (n = 360, 27.2 to 36.8)"),
        (rate(Quantity(value=1, n=1273)), "100.0 % (n = 1,273)"),
        (rate(Quantity(n=0)), "no items (n = 0)"),
        (rate(None), "not measured"),
        (points(Quantity(value=-0.042, ci=(-0.1, 0.0161))), "\u22124.2 points (\u221210.0 to 1.6)"),
        (signed(-0.04, 1), "0.0"),
        (signed(-1234.56, 1), "\u22121,234.6"),
    ],
)
def test_numbers_are_written_one_way(said: str, expected: str) -> None:
    assert said == expected


def test_the_closing_summary_says_what_the_first_screen_says() -> None:
    lines = closing(read(full()), "results/demo")
    assert lines[0] == verdict_in_short(read(full()))[1][: len(lines[0])]
    numbers = {
        line.split("  ")[-1]: line.split()[0] for line in lines if line.startswith("  ") and "(" in line
    }
    assert numbers["of 360 items need no question (31.7 %, 27.1 to 36.6)"] == "114"
    assert numbers["kept as robust (a check still finds shortcuts)"] == "244"
    bar = next(line for line in lines if line.startswith("["))
    assert len(bar) == 79
    assert abs(bar.count("=") - 77 * 244 / 360) < 2
    done = [one.action for one in recommendations(read(full()))[:2]]
    at = next(at for at, line in enumerate(lines) if line.startswith("do next:"))
    assert [line[9:] for line in lines[at : at + 2]] == done
    assert len([line for line in lines if line.startswith("guardrail ")]) == 1
    assert lines[-1] == "report: results/demo/report.html"


@pytest.mark.parametrize("name", ["", *CHANGES])
def test_the_closing_summary_fits_24_lines_of_80(name: str) -> None:
    for summary in (read(changed(CHANGES[name]) if name else full()), read({"format": 1})):
        lines = closing(summary, "results/demo")
        assert len(lines) <= 24
        assert max(map(len, lines)) < 80, lines


def a_plot(*values: float, line: float = 0.25) -> Plot:
    rows = tuple(
        PlotRow(f"row {i}", (Mark(v, (max(0, v - 0.1), min(1, v + 0.1))),), "1 %")
        for i, v in enumerate(values)
    )
    return Plot("p", "A plot", (PlotRow("head"), *rows), (("main", "dots"),), (Line(line, "chance"),))


def test_a_mark_stands_where_its_number_is() -> None:
    drawing = placed(a_plot(0.0, 0.4, line=0.4), WIDE)
    (zero, left), (*_, (end, last)) = drawing.grid[0], drawing.grid[1:]
    assert (left, last) == ("0", "50 %")
    assert (zero, end) == (WIDE.label + INSET, WIDE.width - WIDE.note - INSET)
    assert drawing.points[0].x == zero
    assert drawing.points[1].x == pytest.approx(zero + (end - zero) * 0.4 / 0.5)
    assert drawing.lines == (pytest.approx(drawing.points[1].x),)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 1), st.sampled_from([WIDE, NARROW]))
def test_marks_stay_inside_their_plot(values: list[float], line: float, layout: Any) -> None:
    plot = a_plot(*values, line=line)
    drawing = placed(plot, layout)
    ticks = axis(plot, layout.ticks)
    assert 2 <= len(ticks) <= layout.ticks
    assert ticks[-1] >= min(1.0, max(values)) - 1e-9
    for p in drawing.points:
        assert drawing.grid[0][0] <= p.left <= p.x <= p.right <= drawing.grid[-1][0] < layout.width
        assert drawing.top < p.y < drawing.bottom < drawing.height
    assert len(drawing.points) == len(values)


def test_a_drawing_alone_brings_its_colours_and_one_in_the_page_does_not() -> None:
    assert "light-dark(" in svg(a_plot(0.3))
    assert "<style" not in svg(a_plot(0.3), alone=False)
    assert "dots 30.0 % (20.0 to 40.0)" in svg(a_plot(0.3))


@given(st.text(max_size=60), st.floats(30, 400))
def test_a_label_fits_its_room(words: str, room: float) -> None:
    from robustify.report.printing import breadth

    shown = fit(words, room)
    assert shown == words or (shown.endswith("…") and breadth(shown) <= room)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_words_and_marks_stand_out_from_their_ground(theme: int) -> None:
    styles = (HERE.parent / "robustify" / "report" / "palette.css").read_text("utf-8")
    pairs = re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", styles)
    colours = {name: both[theme] for name, *both in pairs}
    for ground in ("ground", "raised"):
        for name in ("ink", "quiet", "accent", "good", "bad", "unsure"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
        for name in ("line", "chance"):
            assert contrast(colours[name], colours[ground]) >= 2.8, (name, ground)


def contrast(a: str, b: str) -> float:
    """The contrast ratio of WCAG 2.2."""
    lighter, darker = sorted((luminance(a), luminance(b)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_audit_says_who_would_have_seen_which_cue() -> None:
    summary = full()
    probe = summary["residual"]["probe"]
    probe |= {"p": 0.0004, "refits": 999, "sees_from": {"longer": 0.06, "grammar": None}}
    rule = {**probe, "p": 0.2, "refits": None, "value": 0.3, "sees_from": {"longer": 0.05, "grammar": None}}
    summary["residual"]["heuristics"] = {"longest_answer": rule}
    tables = [b for b in residual_section(read(summary)).blocks if isinstance(b, Table)]
    auditors, seen = tables
    shown = {(row[0].main, row[1].main): row for row in auditors.rows}
    assert shown["probe", "fresh"][4].small == "999 refits"
    assert shown["longest_answer", "rule"][4].small == "exact"
    assert [[cell.main for cell in row[2:]] for row in seen.rows] == [
        ["5.0 %", "not seen"],
        ["6.0 %", "not seen"],
    ]
    assert all(len(cell.main.split()) <= 15 for table in tables for row in table.rows for cell in row)


if __name__ == "__main__":
    GOLDEN.write_text(text_of(full()), encoding="utf-8")
    DIFFERENCES_MADE.write_text(differing(), encoding="utf-8")
