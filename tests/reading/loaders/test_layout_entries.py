"""Every entry of `layouts.yaml` reads the rows that it describes, and an entry alone lets a new layout be read."""

import re
import shutil
from pathlib import Path

import pytest

from robustify.reading.columns import ColumnError, several
from robustify.reading.loaders import column_rules, published
from robustify.reading.loaders.converters import SPECIAL_LAYOUTS
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.loaders.published import PublishedLayout, layouts, template_columns
from tests.reading.loaders.made import loaded, right
from tests.support.cases import refuses

BY_COLUMNS = [layout for layout in layouts() if layout.columns]
BY_NAME = {layout.name for layout in layouts() if not layout.columns}


def rows(layout: PublishedLayout) -> list[dict[str, object]]:
    """Two rows of a layout whose right options are `kite` and `ball 1`, by how its keys count."""
    made: list[dict[str, object]] = []
    for at, options in enumerate((["kite", "ball", "drum", "top"], ["kite 1", "ball 1", "drum 1", "top 1"])):
        row: dict[str, object] = dict.fromkeys(layout.columns, "x")
        row |= dict.fromkeys(template_columns(layout.template), f"Which toy is {at}?")
        columns = several(layout.choices)
        row |= dict(zip(columns, options, strict=False)) if len(columns) > 1 else {columns[0]: options}
        key: object = {
            "index": at,
            "number": at + 1,
            "letter": "AB"[at],
            "label": "AB"[at],
            "text": options[at],
        }["text" if layout.key_is == "auto" else layout.key_is]
        if layout.key not in columns:
            row[str(layout.key)] = key
        if layout.stem:
            row[layout.stem] = f"Which toy is {at}?"
        made.append(row | ({layout.id: f"i{at}"} if layout.id else {}))
    return [nested(row) for row in made]


def nested(row: dict[str, object]) -> dict[str, object]:
    out: dict[str, object] = {}
    for name, value in row.items():
        outer, _, inner = name.partition(".")
        out[outer] = {**(out.get(outer) or {}), inner: value} if inner else value  # type: ignore[dict-item]
    return out


@pytest.mark.parametrize("layout", BY_COLUMNS, ids=lambda layout: layout.name)
def test_an_entry_reads_the_rows_that_it_describes(layout: PublishedLayout, tmp_path: Path) -> None:
    found = loaded(tmp_path / "x.jsonl", rows(layout))
    assert found.layout == layout.name
    # In the layout with a right and a wrong column, the right one is first.
    assert right(found) == ["kite", "kite 1" if layout.key in several(layout.choices) else "ball 1"]
    assert [item.id for item in found.items] == (["i0", "i1"] if layout.id else ["x-0001", "x-0002"])


def test_each_layout_has_one_name_and_those_without_columns_are_named_by_a_reader() -> None:
    names = [layout.name for layout in layouts()]
    assert len(names) == len({*names})
    assert {layout.name for layout in SPECIAL_LAYOUTS} | {
        "mmlu_csv",
        "logiqa",
        "inspect_log",
        "options_in_question",
    } == BY_NAME


def test_an_entry_is_all_that_a_new_layout_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = [{"riddle": f"Which {n}?", "first": "kite", "second": "ball", "sol": n + 1} for n in range(2)]
    with refuses("no-usual-column"):
        loaded(tmp_path / "x.jsonl", content)
    package = tmp_path / "reading"
    package.mkdir()
    original = published.files("robustify.reading").joinpath("layouts.yaml")
    shutil.copy(str(original), package / "layouts.yaml")
    with (package / "layouts.yaml").open("a") as file:
        file.write(
            "- {name: riddles, about: x, stem: riddle, choices: [first, second], key: sol, key_is: number}\n"
        )
    monkeypatch.setattr(published, "files", lambda _: package)
    published.layouts.cache_clear()
    try:
        found = loaded(tmp_path / "x.jsonl", content)
    finally:
        published.layouts.cache_clear()
    assert (found.layout, right(found)) == ("riddles", ["kite", "ball"])


EXAMPLES = re.findall(r"^    (\S.*?) +-> (.*)$", str(column_rules.__doc__), re.MULTILINE)


@pytest.mark.parametrize(("columns", "parts"), EXAMPLES, ids=[columns for columns, _ in EXAMPLES])
def test_an_example_on_the_page_of_rules_is_decided_so(columns: str, parts: str) -> None:
    names = tuple(columns.split(", "))
    sample = column_rules.Columns(names, dict.fromkeys(names, 1), {name: "x " + name for name in names})
    if parts.startswith("refused: "):
        with pytest.raises(ColumnError, match=re.escape(parts.removeprefix("refused: "))):
            column_rules.decide_columns(FieldMap(), sample)
        return
    fields, decisions = column_rules.decide_columns(FieldMap(), sample)
    for part, value in re.findall(r"(\w+): (.+?)(?=  |$)", parts):
        assert ",".join(several(getattr(fields, part))) == value
    assert (fields.key is None) == ("mark the key" in parts)
    assert {one.part for one in decisions} >= {"stem", "choices"}


def test_the_page_of_rules_names_tables_that_exist() -> None:
    folder = Path(str(column_rules.__file__)).parent
    page = str(column_rules.__doc__)
    for table, file in re.findall(r"`([A-Z_]+)` in `(\w+\.py)`", page):
        path = next(place / file for place in (folder, folder.parent) if (place / file).exists())
        assert re.search(rf"^{table}\b", path.read_text("utf-8"), re.MULTILINE), table
    for file in re.findall(r"`(\w+\.(?:py|yaml|txt))`", page):
        assert (folder / file).exists() or (folder.parent / file).exists(), file
    assert len(EXAMPLES) >= 10
