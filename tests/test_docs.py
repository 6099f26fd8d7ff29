"""The documentation says what the program does: blocks are fresh, links work, and every command on a page exists."""

import re
import shlex
from pathlib import Path

import click
import pytest

from robustify.pipeline import config as configs
from tests.support.command import commands
from tools import docs, slides

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


def test_a_block_without_its_results_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "RESULTS", tmp_path)
    docs.results.cache_clear()
    page = tmp_path / "page.md"
    page.write_text("<!-- generated: bench-load -->\nold\n<!-- end -->\n")
    assert "Not measured: `results/bench/load.json` does not exist." in docs.Page(page).renewed()
    docs.results.cache_clear()


def test_the_schema_of_the_summary_is_fresh() -> None:
    assert docs.SCHEMA.read_text(encoding="utf-8") == docs.schema(), "run `make fix`"


@pytest.mark.parametrize("page", PAGES, ids=[p.path.name for p in PAGES])
def test_relative_links_lead_somewhere(page: docs.Page) -> None:
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.text):
        if "://" not in link:
            assert (page.path.parent / link).exists(), link


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
NAMED = re.compile(r"(?:`|^ {4,}|\$ |run: )robustify((?: [a-z][a-z_-]*(?![\w./*-]))+)", re.M)
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
    assert blocks[0].split() == ["make", "demo"]
    assert blocks[1].split() == ["make", "test"]


def test_ci_runs_the_readme_s_test_command() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_every_config_key_is_on_the_config_page() -> None:
    page = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    for key in configs.Config.model_fields:
        assert f"`{key}`" in page


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
SHARES = (
    "half halves thirds? quarters? tenths? twice dozens? hundreds? thousands? millions? billions? percent"
)
NUMBER = re.compile(rf"\d|\b({'|'.join(SHARES.split())}|per cent)\b", re.I)
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

    A generated block reads results/ or prints the program. In any other passage (paragraph, list item, table row) a
    digit, or a word for a share or a magnitude, is allowed only beside a label such as [DI] that the page's list of
    sources defines with an arXiv number, a DOI or an address. Not looked at: code, addresses of links, the number before
    a heading or list item, and words up to twelve, which count things on the page.
    """
    text = page.read_text(encoding="utf-8")
    assert untraced(text) == []


@pytest.mark.parametrize(
    ("passage", "n"),
    [
        ("It was 31.81 %.", 1),
        ("It was 31.81 % [DI].", 0),
        ("About half [NONE].", 1),
        ("| a | 3 |\n|---|---|", 1),
        ("1. One of two.", 0),
        ("- Two.\n- It is `3`, see [x](a1.md).", 0),
        ("First [DI].\n\nThen 7.", 1),
    ],
)
def test_a_number_without_a_source_is_found(passage: str, n: int) -> None:
    sources = "\n\n- [DI] Somebody, arXiv 2508.06601.\n- [NONE] Nobody.\n"
    assert len(untraced(passage + sources)) == n


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
