"""The documentation says what the program does: generated blocks are fresh, links lead somewhere, configs load."""

import re
from pathlib import Path

import pytest

from robustify import config as configs
from tools import slides, video
from tools.docs import build as docs

ROOT = docs.ROOT


SLOW = {"tutorial.md"}
"""Its blocks audit two sets."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.slow] if p.name in SLOW else []) for p in docs.pages()],
    ids=lambda p: p.name,
)
def test_generated_blocks_are_fresh(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert docs.renewed(text) == text, "run `make fix`"


def test_every_block_that_is_made_stands_on_a_page() -> None:
    assert {name for p in docs.pages() for _, name, *_ in docs.BLOCK.findall(p.read_text("utf-8"))} == set(
        docs.GENERATED
    )


def test_the_schema_of_the_summary_is_fresh() -> None:
    assert docs.SCHEMA.read_text(encoding="utf-8") == docs.schema(), "run `make fix`"


def test_the_glossary_is_short() -> None:
    terms = re.findall(
        r"^\| (?!word |---)", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.M
    )
    assert 30 <= len(terms) <= 40


@pytest.mark.parametrize("page", docs.pages(), ids=lambda p: p.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{page.name}: {link}"


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
    for page in docs.pages():
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w.])/(work|opt|root)/", text), page.name


TRACED = [
    path
    for name in ("report", "policy_brief", "findings", "tutorial")
    if (path := ROOT / "docs" / f"{name}.md").is_file()
]
PRINTED = ("tutorial-", "prompts", "heuristics")
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

    A number may stand in a generated block, which links the file under results/ that it was made from (that it was is
    tested above) or prints the program. In any other passage (paragraph, list item, table row) a digit, or a word for a
    share or a magnitude, is allowed only beside a label such as [DI] that the page's list of sources defines with an arXiv
    number, a DOI or an address. Not looked at: code, addresses of links, the number before a heading or list item, and
    words up to twelve, which count things on the page.
    """
    text = page.read_text(encoding="utf-8")
    for _, name, body, _ in docs.BLOCK.findall(text):
        files = re.findall(r"\]\((\.\./results/[^)#]+)\)", body)
        assert files or name.startswith(PRINTED), f"{page.name}: {name} names no file under results/"
        assert all((page.parent / file).is_file() for file in files), f"{page.name}: {name}"
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
    pytest.importorskip("typst", reason="needs typst (pip install typst)")
    slides.built(tmp_path / "slides.pdf", tmp_path)
    assert len(list(tmp_path.glob("slide-*.png"))) == 10
    assert (tmp_path / "slides.pdf").stat().st_size <= 500_000


def test_a_film_without_its_programs_names_their_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert video.main([]) == 2
    assert "apt-get install chromium ffmpeg" in capsys.readouterr().err
