"""The configs that ship with the package: every one loads, and where its data are here it reads them whole."""

import json
import re
from pathlib import Path

import pytest

from robustify.base.errors import AuthorisationError
from robustify.pipeline import config as configs
from robustify.pipeline.steps import policy_for
from robustify.wings import wings

FOLDER = Path(__file__).parents[2] / "configs"
ALL = sorted(FOLDER.glob("*.yaml"))
SIZES = {
    "arc_challenge": 1172, "arc_easy": 2376, "commonsenseqa": 1221, "mmlu_ten": 2657, "openbookqa": 500, "truthfulqa": 409,
}  # fmt: skip
"""Public sets of the field whose data are in the collection that tests may use."""
SETS = [
    *SIZES, "gpqa", "hellaswag", "mmlu", "mmlu_biology", "mmlu_chemistry", "mmlu_physics", "mmlu_pro", "piqa", "sciq",
]  # fmt: skip


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTIFY_DATA", "data")
    monkeypatch.setenv("ROBUSTIFY_RESTRICTED_DATA", "data")


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_every_config_loads(path: Path) -> None:
    config = configs.load(path, wings().adapters)
    assert config.data
    assert re.fullmatch(r"[a-z0-9-]+", config.name)
    if config.sensitivity != "public":
        with pytest.raises(AuthorisationError):
            policy_for(config, wings())


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("name", SETS)
def test_a_set_of_the_field_is_screened_by_the_three_voters_of_d4_beside_an_older_model(name: str) -> None:
    config = configs.load(configs.find_config(name), wings().adapters)
    assert config.sensitivity == "public"
    assert config.voters == ("llama-3.3-70b", "llama-4-scout", "olmo-2-32b")
    assert [m.name for m in config.models if m.role == "under_test"] == ["llama-2-70b"]
    assert (config.screen.criterion, config.screen.mode) == ("unanimous", "letter")
    assert config.notes


def test_where_the_models_lie_is_needed_by_nothing_that_asks_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: demo_benign.yaml\nmodels: [{name: big, model: $ROBUSTIFY_MODELS/Llama}]\n")
    monkeypatch.delenv("ROBUSTIFY_MODELS", raising=False)
    assert configs.load(path, wings().adapters).models[0].reference == "$ROBUSTIFY_MODELS/Llama"
    monkeypatch.setenv("ROBUSTIFY_MODELS", "here")
    assert configs.load(path, wings().adapters).models[0].reference == "here/Llama"


@pytest.mark.parametrize("name", SIZES)
def test_validate_reads_the_real_files(
    data: Path, name: str, robustify, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROBUSTIFY_DATA", str(data))
    done = robustify("validate", name, "--json")
    told = json.loads(done.out)
    assert (done.code, told["n_items"], told["n_quarantined"]) == (0, SIZES[name], 0)
