"""The configs that ship with the package: every one loads, and where its data are here it reads them whole."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from robustify import cli
from robustify import config as configs
from robustify.errors import AuthorisationError, UsageError
from robustify.loaders import Source
from robustify.pipeline import writer_for

FOLDER = Path(__file__).parent.parent / "configs"
ALL = sorted(FOLDER.glob("*.yaml"))
FRAGMENTS = sorted((FOLDER / "models").glob("*.yaml"))
SETS = {
    "arc_challenge": 1172,
    "arc_easy": 2376,
    "commonsenseqa": 1221,
    "gpqa": None,
    "hellaswag": None,
    "mmlu": None,
    "mmlu_biology": None,
    "mmlu_chemistry": None,
    "mmlu_physics": None,
    "mmlu_pro": None,
    "mmlu_ten": 2657,
    "openbookqa": 500,
    "piqa": None,
    "sciq": None,
    "truthfulqa": 409,
}
"""The field's public sets; a number where the data are in the collection that tests may use."""
MMLU = {"mmlu": 57, "mmlu_ten": 10, "mmlu_biology": 2, "mmlu_chemistry": 2, "mmlu_physics": 4}


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTIFY_DATA", "data")
    monkeypatch.setenv("ROBUSTIFY_RESTRICTED_DATA", "data")
    monkeypatch.delenv("ROBUSTIFY_MODELS", raising=False)


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_every_config_loads(path: Path) -> None:
    config = configs.load(path)
    assert config.data
    assert re.fullmatch(r"[a-z0-9-]+", config.name)
    if config.sensitivity != "public":
        with pytest.raises(AuthorisationError):
            writer_for(config)


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("name", SETS)
def test_a_set_of_the_field_is_screened_by_the_three_voters_of_d4_beside_an_older_model(name: str) -> None:
    config = configs.load(configs.find_config(name))
    assert config.sensitivity == "public"
    assert config.voters == ("llama-3.3-70b", "llama-4-scout", "olmo-2-32b")
    assert [m.name for m in config.models if m.role == "under_test"] == ["llama-2-70b"]
    assert (config.screen.criterion, config.screen.mode) == ("unanimous", "letter")
    assert config.notes


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("name", SETS)
def test_small_models_take_the_voters_place(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"extends: [{name}.yaml, models/small.yaml]\n", encoding="utf-8")
    config = configs.load(tmp_path / "mine.yaml")
    assert config.voters == ("smollm2-135m", "gemma3-270m")
    assert config.screen.mode == "text"
    assert config.data == configs.load(configs.find_config(name)).data


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.stem)
def test_a_fragment_of_models_is_no_config_of_its_own(path: Path) -> None:
    with pytest.raises(UsageError, match="data: missing"):
        configs.load(path)


def test_each_model_of_the_trio_has_family_size_and_cut_off_on_its_line() -> None:
    text = (FOLDER / "models" / "d4_trio.yaml").read_text(encoding="utf-8")
    for model in yaml.safe_load(text)["models"]:
        (line,) = re.findall(rf"^# {re.escape(model['name'])} .*$", text, re.MULTILINE)
        assert re.search(r"(Llama|OLMo) +\d+ billion.*(19|20)\d\d", line)


@pytest.mark.usefixtures("nowhere")
def test_where_the_models_lie_is_needed_by_nothing_that_asks_no_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert configs.load(configs.find_config("arc_easy")).models[0].reference.startswith("$ROBUSTIFY_MODELS/")
    monkeypatch.setenv("ROBUSTIFY_MODELS", "here")
    assert configs.load(configs.find_config("arc_easy")).models[0].reference == "here/Llama-3.3-70B-Instruct"


@pytest.mark.usefixtures("nowhere")
def test_mmlu_s_groups_are_parts_of_all_57_subjects() -> None:
    files = {name: {source.path for source in configs.load(configs.find_config(name)).data} for name in MMLU}
    assert {name: len(paths) for name, paths in files.items()} == MMLU
    assert all(paths <= files["mmlu"] for paths in files.values())


def hub_forms(path: Path) -> list[dict[str, Any]]:
    """The sources in the comment that says how the set is taken from the Hub."""
    told = [line.removeprefix("# ") for line in path.read_text(encoding="utf-8").splitlines()]
    start = next((at for at, line in enumerate(told) if line.startswith("data: {") or line == "data:"), None)
    if start is None:
        return []
    lines = [told[start], *(line for line in told[start + 1 :] if line.startswith("  - {hub"))]
    data = yaml.safe_load("\n".join(lines))["data"]
    return data if isinstance(data, list) else [data]


@pytest.mark.parametrize("name", [name for name in SETS if name != "mmlu_ten"])
def test_the_hub_form_is_refused_until_a_commit_is_written_in_and_then_whole(name: str) -> None:
    forms = hub_forms(FOLDER / f"{name}.yaml")
    assert len(forms) == (1 if name == "mmlu" else MMLU.get(name, 1))
    for form in forms:
        with pytest.raises(ValueError, match="revision is no commit"):
            Source.model_validate(form)
        assert Source.model_validate({**form, "revision": "0" * 40}).split


@pytest.mark.parametrize("name", [name for name, n in SETS.items() if n is not None])
def test_validate_reads_the_real_files(
    data: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROBUSTIFY_DATA", str(data))
    monkeypatch.setattr(sys, "argv", ["robustify", "validate", name, "--json"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = json.loads(capsys.readouterr().out)
    assert ended.value.code in (0, None)
    assert (told["n_items"], told["n_quarantined"]) == (SETS[name], 0)
