"""The report says what the summary holds and what is absent, and no name can break or bend it."""

import json
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify import calibration
from robustify.report import order, render, write_report
from robustify.report.blocks import Line, Mark, Plot, Row
from robustify.report.figures import INSET, NARROW, WIDE, axis, draw, fit, svg
from robustify.report.reading import quantity
from robustify.report.words import closing, percent, plain, points, rate, signed

HERE = Path(__file__).parent
FULL = HERE / "data" / "summary_full.json"
GOLDEN = HERE / "data" / "report_full.md"
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
VOID = {"meta", "link", "br", "line", "circle", "rect"}
Where = tuple[str | int, ...]


def full() -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(FULL.read_text(encoding="utf-8"))
    return summary


class Reader(HTMLParser):
    """Reads a page, holds it to well-formed nesting, and gathers what the tests ask about."""

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
        held = dict(attrs)
        self.tags.append((tag, held))
        self.ids += [i for i in [held.get("id")] if i]
        self.links += [
            held[a] or "" for a in ("href", "src", "srcset", "action", "data", "xlink:href") if a in held
        ]
        if tag in {"td", "th", "dt", "dd", "caption", "figcaption", "li"}:
            self.entries.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.entries and {"td", "th", "dt", "dd", "caption", "figcaption", "li"} & set(self.open):
            self.entries[-1] += data


def well_made(files: dict[str, str]) -> Reader:
    """What every report is, whatever the summary: well-formed, without empty entries, nulls, or fetching."""
    reader = Reader(files["report.html"])
    assert all(entry.strip() for entry in reader.entries)
    assert len(set(reader.ids)) == len(reader.ids)
    assert all(link.startswith("#") or link == "data:," for link in reader.links)
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


PLACES = sorted(places(full()), key=str)


def test_the_made_up_report_is_the_committed_one() -> None:
    assert render(full(), PROVENANCE)["report.md"] == GOLDEN.read_text(encoding="utf-8"), (
        "the report's words changed; look at them and write the file anew: python -m tests.test_report"
    )


def test_every_part_of_the_summary_is_shown_with_its_n_and_interval() -> None:
    shown = render(full(), PROVENANCE)["report.md"].replace("\\", "")
    for where in PLACES:
        node: Any = full()
        for step in where:
            node = node[step]
        if (
            where[-1] == "position_share"
            or not isinstance(node, dict)
            or not {"value", "n", "ci"} <= set(node)
        ):
            continue
        q = quantity(node)
        assert q.value is not None
        assert q.n is not None
        assert q.lo is not None
        assert q.hi is not None
        if where[0] == "heuristics":
            assert f"{percent(q.value)} ({100 * q.lo:.1f} to {100 * q.hi:.1f})" in shown, where
            assert f"{str(where[1]).capitalize()}, n = {q.n}" in shown, where
        elif where[-1] == "heuristic_gap":
            assert points(q) in shown or where[2] not in ("full", "cloze_chars"), where
        else:
            assert rate(q).removesuffix(")") in shown, where


def test_luck_is_told_as_a_count_and_its_share_as_an_estimate() -> None:
    text = render(full(), PROVENANCE)["report.md"]
    # 31.7 % flagged, and 23.04 % of all items are latent shortcuts.
    assert (
        "- Luck alone would flag: **51.2 items** (39.0 to 64.0; estimate: 27.2 % of those removed are luck)"
        in text
    )
    clean = full()
    clean["screen"]["latent_shortcut_rate"]["value"] = None
    assert "those removed are luck" not in render(clean, PROVENANCE)["report.md"]


def test_a_probe_that_voted_and_its_chance_stand_beside_the_other_rules() -> None:
    text = render(full(), PROVENANCE)["report.md"]
    assert text.count("chance under selection") == 2
    (voted,) = [line for line in text.split("\n") if "the probe voted: no independent audit" in line]
    assert "chance under selection 27.1 %, the probe voted" in voted


def test_a_temperature_at_the_bound_is_no_calibration() -> None:
    assert order.HOTTEST == calibration.HOTTEST
    summary = full()
    summary["calibration"]["gemma3-270m"]["full"]["temperature"] = calibration.HOTTEST
    assert render(summary, PROVENANCE)["report.md"].count("at the bound: not calibratable") == 1


def test_orders_of_mixed_items_are_said_to_be_at_most_so_many() -> None:
    summary = full()
    summary["screen"]["rotations"] = 5
    assert "up to 5 orders an item" in render(summary, PROVENANCE)["report.md"]
    summary["benchmark"]["option_counts"] = {"5": 360}
    assert "up to 5 orders" not in render(summary, PROVENANCE)["report.md"]


def test_what_order_sensitivity_left_out_is_counted_and_untested_cloze_is_no_test() -> None:
    text = render(full(), PROVENANCE)["report.md"]
    assert text.count("5 orders, n = 100 of 102 asked") == 3
    assert "inert by construction; not a test of the program" in text


@pytest.mark.parametrize("file", ["report.html", "report.md"])
def test_both_printings_tell_the_same_sections_in_the_same_order(file: str) -> None:
    text = render(full(), PROVENANCE)[file]
    heads = [
        "Removed, and how much of it is luck", "Scores on All, Shortcut, Robust and Cloze",
        "Would removing random items have done the same?", "Heuristics without a model",
        "Does the order of the options matter?", "What is left of each topic", "Are shortcuts left?",
        "Under other rules", "Findings about the benchmark", "Guardrails", "Calibration",
        "Method, models and versions", "How to read this, and its limits",
    ]  # fmt: skip
    pattern = r"<h2>(.*?)</h2>" if file.endswith("html") else r"^## (.*)$"
    assert re.findall(pattern, text, flags=re.MULTILINE) == heads


def test_a_report_is_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    code = (
        "import json, sys; from pathlib import Path; from robustify.report import write_report; "
        "s, p, out = (json.loads(a) for a in sys.argv[1:]); write_report(Path(out), s, p)"
    )
    arguments = [json.dumps(x) for x in (full(), PROVENANCE, str(tmp_path / "there"))]
    subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, cwd=HERE.parent, env={"PYTHONHASHSEED": "7"}
    )
    here = write_report(tmp_path / "here", full(), PROVENANCE)
    assert {p.name for p in here} >= {
        "report.html",
        "report.md",
        "flagged.svg",
        "heuristics.svg",
        "topics.svg",
    }
    for path in here:
        assert path.read_bytes() == (tmp_path / "there" / path.relative_to(tmp_path / "here")).read_bytes()


def test_the_page_fetches_nothing_and_can_be_heard() -> None:
    page = render(full(), PROVENANCE)["report.html"]
    reader = well_made(render(full(), PROVENANCE))
    tags = [tag for tag, _ in reader.tags]
    assert "script" not in tags
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    assert tags.count("h1") == 1
    assert tags.count("table") == tags.count("caption") > 10
    assert all(held.get("scope") in {"row", "col"} for tag, held in reader.tags if tag == "th")
    drawings = [held for tag, held in reader.tags if tag == "svg"]
    assert len(drawings) == 2 * tags.count("figure")
    for held in drawings:
        assert held["role"] == "img"
        assert set((held["aria-labelledby"] or "").split()) <= set(reader.ids)
    assert all(link.removeprefix("#") in reader.ids for link in reader.links if link.startswith("#"))


def test_voters_are_marked_wherever_they_are_scored() -> None:
    text = render(full(), PROVENANCE)["report.md"]
    scored = [
        line
        for line in text.splitlines()
        if line.startswith(("| smollm2", "| gemma3", "| tiny-llama")) and "%" in line
    ]
    full_question = [line for line in scored if line.count("%") == 4]
    assert [("[voter]" in line.replace("\\", "")) for line in full_question] == [True, True, False]
    assert "voted in the filter: its numbers on Robust are low by selection" in text


def test_paths_of_the_machine_stay_out_and_settings_stay_in() -> None:
    files = render(full(), PROVENANCE)
    assert not any("/home/someone" in text for text in files.values())
    assert '"mode": "text"' in files["report.md"]
    assert "A note of the run." in files["report.html"]


@pytest.mark.parametrize("summary", [{}, {"screen": None, "accuracy": None}, {"benchmark": {"name": ""}}])
def test_a_summary_that_lacks_all_says_so(summary: dict[str, Any]) -> None:
    files = render(summary, {})
    well_made(files)
    assert set(files) == {"report.html", "report.md"}
    assert files["report.md"].count("Not measured") >= 6
    assert "No verdict" in files["report.html"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PLACES), min_size=1, max_size=25), st.booleans())
def test_any_part_may_be_null_or_missing(gone: list[Where], pruned: bool) -> None:
    summary = full()
    for where in gone:
        put(summary, where, None)
    well_made(render(_without_nulls(summary) if pruned else summary, PROVENANCE))


def _without_nulls(summary: dict[str, Any]) -> dict[str, Any]:
    return {k: _without_nulls(v) if isinstance(v, dict) else v for k, v in summary.items() if v is not None}


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**9), st.floats(), st.text(max_size=8), st.just([]),
    st.just({}), st.just([None, 1]), st.just({"value": "x", "ci": [1]}),
    st.just({"value": -0.4, "n": 0, "ci": [float("nan"), 2]}),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), JUNK), min_size=1, max_size=15))
def test_nothing_in_a_summary_breaks_the_report(junk: list[tuple[Where, object]]) -> None:
    summary = full()
    for where, value in junk:
        put(summary, where, value)
    for name, text in render(summary, PROVENANCE).items():
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
    summary["guardrails"][0]["reason"] = summary["certificate"]["sentence"] = name
    files = render(
        summary, {**PROVENANCE, "models": {name: {name: name}}, "notes": [name], "config": {"screen": name}}
    )
    reader = well_made(files)
    assert not {tag for tag, _ in reader.tags} & {"script", "img", "b"}
    assert not any(attribute.startswith("on") for _, held in reader.tags for attribute in held)
    for text in files.values():
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", text)
    outside_code = re.sub(r"```json.*?```", "", files["report.md"], flags=re.DOTALL)
    assert not re.search(r"(?<!\\)<(script|img)", outside_code)
    assert all("\x1b" not in line for line in closing(summary, "results"))


@given(st.text())
def test_plain_text_is_printable_and_not_endless(text: str) -> None:
    shown = plain(text)
    assert shown.encode("utf-8")
    assert all(c.isprintable() or c in "\u200c\u200d\u00a0" or unicodedata.category(c) == "Zs" for c in shown)
    assert len(shown) <= 120 * len("\\U0010ffff")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (rate(quantity({"value": 0.318, "n": 360, "ci": [0.272, 0.368]})), "31.8 % (n = 360, 27.2 to 36.8)"),
        (rate(quantity({"value": 1, "n": 1273, "ci": None})), "100.0 % (n = 1,273)"),
        (rate(quantity({"value": None, "n": 0, "ci": None})), "no items (n = 0)"),
        (rate(quantity(None)), "not measured"),
        (rate(quantity(float("nan"))), "not measured"),
        (rate(quantity(True)), "not measured"),
        (points(quantity({"value": -0.042, "ci": [-0.1, 0.0161]})), "\u22124.2 points (\u221210.0 to 1.6)"),
        (signed(-0.04, 1), "0.0"),
        (signed(-1234.56, 1), "\u22121,234.6"),
    ],
)
def test_numbers_are_written_one_way(said: str, expected: str) -> None:
    assert said == expected


def test_closing_lines_say_verdict_removal_luck_and_failures() -> None:
    lines = closing(full(), "results/demo")
    assert lines[0].startswith("NOT CERTIFIED: What was kept still holds shortcuts")
    assert lines[1] == "flagged: 31.7 % (n = 360, 27.1 to 36.6); luck alone flags 51.2 items"
    assert lines[2] == "splits: robust 244, shortcut 114, undecided 2, cloze 338"
    assert [line for line in lines if "guardrail" in line] == [lines[3]]
    assert lines[-1] == "report: results/demo/report.html"
    assert closing({}, "x")[0].startswith("NO VERDICT")


def a_plot(*values: float, line: float = 0.25) -> Plot:
    rows = tuple(
        Row(f"row {i}", (Mark(v, max(0, v - 0.1), min(1, v + 0.1)),), "1 %") for i, v in enumerate(values)
    )
    return Plot("p", "A plot", (Row("head"), *rows), (("main", "dots"),), (Line(line, "chance"),))


def test_a_mark_stands_where_its_number_is() -> None:
    drawing = draw(a_plot(0.0, 0.4, line=0.4), WIDE)
    (zero, left), (*_, (end, last)) = drawing.grid[0], drawing.grid[1:]
    assert (left, last) == ("0", "50 %")
    assert (zero, end) == (WIDE.label + INSET, WIDE.width - WIDE.note - INSET)
    assert drawing.points[0].x == zero
    assert drawing.points[1].x == pytest.approx(zero + (end - zero) * 0.4 / 0.5)
    assert drawing.lines == (pytest.approx(drawing.points[1].x),)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 1), st.sampled_from([WIDE, NARROW]))
def test_marks_stay_inside_their_plot(values: list[float], line: float, layout: Any) -> None:
    plot = a_plot(*values, line=line)
    drawing = draw(plot, layout)
    ticks = axis(plot, layout.ticks)
    assert 2 <= len(ticks) <= layout.ticks
    assert ticks[-1] >= min(1.0, max(values)) - 1e-9
    for p in drawing.points:
        assert drawing.grid[0][0] <= p.left <= p.x <= p.right <= drawing.grid[-1][0] < layout.width
        assert drawing.top < p.y < drawing.bottom < drawing.height
    assert len(drawing.points) == len(values)


def test_a_drawing_alone_brings_its_colours_and_one_in_the_page_does_not() -> None:
    assert "prefers-color-scheme: dark" in svg(a_plot(0.3))
    assert "<style" not in svg(a_plot(0.3), alone=False)
    assert "dots 30.0 % (20.0 to 40.0)" in svg(a_plot(0.3))


@given(st.text(max_size=60), st.floats(30, 400))
def test_a_label_fits_its_room(words: str, room: float) -> None:
    from robustify.report.figures import breadth

    shown = fit(words, room)
    assert shown == words or (shown.endswith("…") and breadth(shown) <= room)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_words_and_marks_stand_out_from_their_ground(theme: int) -> None:
    styles = (HERE.parent / "robustify" / "report" / "palette.css").read_text("utf-8")
    blocks = re.findall(r":root \{([^}]*)\}", styles)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", blocks[theme]))
    for ground in ("ground", "raised"):
        for name in ("ink", "quiet", "accent", "good", "bad", "unsure"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
        for name in ("line", "luck"):
            assert contrast(colours[name], colours[ground]) >= 2.8, (name, ground)


def contrast(a: str, b: str) -> float:
    """The contrast ratio of WCAG 2.2."""
    lighter, darker = sorted((luminance(a), luminance(b)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


if __name__ == "__main__":
    GOLDEN.write_text(render(full(), PROVENANCE)["report.md"], encoding="utf-8")
