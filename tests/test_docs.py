"""The documentation says what the program does: generated blocks are fresh, links lead somewhere, configs load."""

import re
from pathlib import Path

import pytest

from robustify import config as configs
from robustify.errors import AuthorisationError
from robustify.pipeline import writer_for
from tools.docs import build as docs

ROOT = docs.ROOT
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


@pytest.mark.parametrize("page", docs.pages(), ids=lambda p: p.name)
def test_generated_blocks_are_fresh(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert docs.renewed(text) == text, "run `make fix`"


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


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.name)
def test_every_config_loads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTIFY_DATA", "data")
    monkeypatch.setenv("ROBUSTIFY_RESTRICTED_DATA", "data")
    config = configs.load(path)
    assert config.sensitivity in ("public", "restricted")
    if config.sensitivity == "restricted":
        with pytest.raises(AuthorisationError):
            writer_for(config)


def test_every_config_key_is_on_the_config_page() -> None:
    page = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    for key in configs.Config.model_fields:
        assert f"`{key}`" in page


def test_no_page_names_a_registry_or_one_machine() -> None:
    for page in docs.pages():
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w.])/(work|opt|root)/", text), page.name
