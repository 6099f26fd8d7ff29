"""The documentation says what the program does: blocks are fresh, links work, and every command on a page exists."""

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from robustify.pipeline.config import parse
from tests.support.command import commands
from tools import docs, film, slides

ROOT = docs.ROOT
PAGES = docs.pages()
BY_NAME = dict(commands())
COMMAND = re.compile(r"^\s*(?:\$ )?(robustify(?: .*?)?)(?:  +.*|\s+#.*)?$")
"""A command line in a code block; what follows two spaces explains it."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.slow] if p.executed else []) for p in PAGES],
    ids=[p.path.name for p in PAGES],
)
def test_generated_blocks_are_fresh(page: docs.Page) -> None:
    assert page.renewed() == page.text, "run `make fix`"


def test_every_template_of_a_block_is_used() -> None:
    used = {name for page in PAGES for name in page.blocks}
    assert {path.stem for path in docs.TEMPLATES.glob("*.j2") if not path.stem.startswith("_")} == used


def test_the_schema_of_the_summary_is_fresh() -> None:
    assert docs.SCHEMA.read_text(encoding="utf-8") == docs.schema(), "run `make fix`"


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    heads = re.findall(r"^#+ (.+)$", prose, re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=[p.path.name for p in PAGES])
def test_relative_links_and_links_to_a_heading_lead_somewhere(page: docs.Page) -> None:
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.text):
        assert "://" in link or (page.path.parent / link).exists(), link
    for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.text):
        target = page.path.parent / link if link else page.path
        assert target.suffix != ".md" or anchor in anchors(target), f"{link}#{anchor}"


def lines_of_commands(text: str) -> list[str]:
    """Return the command lines of a page's code blocks, continued lines joined."""
    blocks = re.findall(r"^```(?:text|sh|console|bash)?\n(.*?)^```", text, re.S | re.M)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [match[1].strip() for line in lines if (match := COMMAND.match(line))]


@pytest.mark.parametrize("page", PAGES, ids=[p.path.name for p in PAGES])
def test_every_command_on_a_page_exists_with_its_options(page: docs.Page) -> None:
    for line in lines_of_commands(page.text):
        words = shlex.split(line.split(" | ")[0].split(" > ")[0])
        name, rest = words[0], words[1:]
        while rest and f"{name} {rest[0]}" in BY_NAME:
            name, rest = f"{name} {rest[0]}", rest[1:]
        command = BY_NAME["robustify run" if name == "robustify" else name]
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        known |= {"-h", "--help", "-V", "--version"}
        given = {word.split("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)}
        assert isinstance(command, click.Command)
        assert name == "robustify gate" or given <= known, line


SHIPPED = [
    path
    for folder in ("adapters", "configs", "lm_eval_tasks", "robustify", "docs", ".")
    for path in sorted((ROOT / folder).glob("*" if folder == "." else "**/*"))
    if path.suffix in (".md", ".yaml", ".yml", ".txt", ".j2", ".py") and path.name != "changelog.md"
]
NAMED = re.compile(r"(?:`|^ {4,}|\$ |run: )robustify((?: [a-z][a-z_-]*(?![\w./*:-]))+)", re.M)
"""A command in quotes or at the beginning of a line, with the plain words after it."""


def unknown_command(words: list[str]) -> str:
    """The first of the words that no command has, where a group has only commands."""
    name = "robustify"
    while words and name != "robustify gate" and isinstance(BY_NAME[name], click.Group):
        if f"{name} {words[0]}" not in BY_NAME:
            return f"{name} {words[0]}"
        name, words = f"{name} {words[0]}", words[1:]
    takes = name == "robustify gate" or any(isinstance(one, click.Argument) for one in BY_NAME[name].params)
    return "" if takes or not words else f"{name} {words[0]}"


def test_every_command_that_a_shipped_file_names_exists() -> None:
    assert unknown_command(["restricted", "adapter", "new"]) == "robustify restricted adapter new"
    assert unknown_command(["demo"]) == "robustify demo"
    assert not unknown_command(["restricted", "adapter", "check", "benign-demo"])
    found = {
        (str(path.relative_to(ROOT)), named)
        for path in SHIPPED
        for match in NAMED.finditer(path.read_text("utf-8"))
        if (named := unknown_command(match[1].split()))
    }
    assert not found


def test_the_readme_gives_two_commands_and_nothing_before_them() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:console|sh|bash)\n(.*?)```", text, re.S)
    assert [block.split() for block in blocks[:2]] == [["make", "demo"], ["make", "test"]]


def test_no_page_names_a_registry_or_one_machine() -> None:
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(work|opt|root)/", page.text), page.path.name


def test_the_paths_of_the_design_exist() -> None:
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = text.split("## Where to change what")[1].split("\n## ")[0]
    paths = re.findall(r"`([\w./]+(?:\.py|\.j2|\.yaml|/))`", table)
    assert len(paths) > 30
    for path in paths:
        assert any((place / path).exists() for place in (ROOT, ROOT / "robustify")), path


TRACED = [
    path
    for name in ("paper", "policy_brief", "findings", "tutorial")
    if (path := ROOT / "docs" / f"{name}.md").is_file()
]
"""Blocks that the program prints when the page is made; all others are made from files."""
CODE = re.compile(r"```.*?```|`[^`]*`|<!--.*?-->", re.S)
NUMBER = re.compile(
    r"\d|\b(half|halves|(third|quarter|tenth|dozen|(hundr|thous|[mb]illi)[a-z]+)s?|twice|per ?cent)\b", re.I
)
SOURCE = re.compile(r"^- \[([A-Z]+)\] (.*?)(?=\n- |\n\n|\Z)", re.S | re.M)
ADDRESS = re.compile(r"arXiv \d{4}\.\d{4,5}|doi 10\.|https://")


def untraced(text: str) -> list[str]:
    """The passages of a page that say a number without a file or a source."""
    prose = CODE.sub("", docs.BLOCK.sub("", text))
    labels = [f"[{label}]" for label, what in SOURCE.findall(prose) if ADDRESS.search(what)]
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    passages = re.split(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.) ?)", prose)
    said = [re.sub(r"^\s*(#+ )?(\d+\. )?", "", passage) for passage in passages]
    return [one for one in said if NUMBER.search(one) and not any(label in one for label in labels)]


@pytest.mark.parametrize("page", TRACED, ids=lambda p: p.name)
def test_every_number_is_traced(page: Path) -> None:
    """Every number of these pages comes from a file under results/ or from a cited source.

    A generated block reads results/. In any other passage, a digit, or a word for a share or a magnitude, is allowed only
    beside a label such as [DI] that the page's list of sources defines. Code, addresses of links, numbers before a heading
    or list item, and words up to twelve, which count things on the page, are not looked at.
    """
    assert untraced("About half [NONE].\n\n- [NONE] Nobody.\n") == ["About half [NONE]."]
    assert untraced(page.read_text(encoding="utf-8")) == []


CITED = {"2508.06601", "4.1", "405", "1,273", "31.81", "95"}
"""Figures of the slides that are not ours: the paper's, and the level of intervals."""
LAYOUT = re.compile(r"\d+(?:pt|fr)|at\(\d\)")


def test_no_figure_of_the_slides_is_typed() -> None:
    head, _, text = slides.SOURCE.read_text(encoding="utf-8").partition("the line\n")
    assert set(re.findall(r"\d[\d.,]*\d|\d", LAYOUT.sub("", text))) <= CITED
    assert text.count("#slide[") + text.count("#opening[") == 10
    for path in re.findall(r"\"(/(?:results|configs|docs)/[^\"]+)\"", head + text):
        assert (ROOT / path[1:]).is_file(), path


def test_the_slides_are_ten_pages(tmp_path: Path) -> None:
    pytest.importorskip("typst", reason="needs typst, which `make setup` installs")
    slides.built(tmp_path / "slides.pdf", tmp_path)
    assert len(list(tmp_path.glob("slide-*.png"))) == 10
    assert (tmp_path / "slides.pdf").stat().st_size <= 500_000


def test_every_setting_is_explained_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    explained = {section["name"]: section for section in docs.settings()}
    assert all(values for one in explained.values() for _, values, _, _ in one["rows"])
    for old, new in (("    ngram: [", "    words: ["), ("    folds: [", "    #folds: [")):
        text = (docs.TEMPLATES / "settings.yaml").read_text(encoding="utf-8")
        (tmp_path / "settings.yaml").write_text(text.replace(old, new), encoding="utf-8")
        with monkeypatch.context() as changed:
            changed.setattr(docs, "TEMPLATES", tmp_path)
            with pytest.raises(KeyError, match=r"settings\.yaml"):
                docs.settings()


def test_every_example_of_a_config_can_be_read() -> None:
    page = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    examples = re.findall(r"```yaml\n(.*?)```", page, re.S)
    assert len(examples) == 5
    for example in examples:
        needed = {"name": "quiz", "sensitivity": "public", "data": "quiz.csv"}
        assert parse({**needed, **yaml.safe_load(example)}, "example")


def test_the_film_shows_the_commands_of_the_tutorial_in_order() -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    shown = [command for command, _ in film.commands(text)]
    assert shown[0] == "python make_sums.py"
    assert [command for command in shown if command in film.PAGES] == list(film.PAGES)
    states = list(film.typed("ls", ["one", "two"]))
    assert [state for state, _ in states][-1] == "$ ls\none\ntwo"
    assert all(seconds > 0 for _, seconds in states)
