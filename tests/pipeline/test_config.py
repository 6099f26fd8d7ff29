import json
import re
from pathlib import Path

import pytest

from robustify.base.errors import AuthorisationError, UsageError
from robustify.pipeline import config as configs
from robustify.pipeline.steps import policy_for
from robustify.wings import wings
from tests.support.cases import cases, refuses

PLAIN = "name: toys\nsensitivity: public\ndata: items.jsonl\nmodels: [smollm2-135m, gemma3-270m]\n"


def write(folder: Path, text: str, name: str = "c.yaml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def load(folder: Path, text: str) -> configs.Config:
    return configs.load(write(folder, text), wings().adapters)


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(UsageError) as error:
        load(folder, text)
    return list(error.value.lines)


def test_a_short_config_is_whole(tmp_path: Path) -> None:
    config = load(tmp_path, PLAIN)
    assert config.voters == ("smollm2-135m", "gemma3-270m")
    assert config.data[0].path == str(tmp_path / "items.jsonl")
    assert (config.screen.criterion, config.screen.mode, config.asking.rotations) == ("fdr", "letter", "all")


@pytest.mark.parametrize(("asking", "screen", "modes"), cases("runs", "modes"))
def test_one_mode_holds_for_all_that_names_none(tmp_path: Path, asking: str, screen: str, modes) -> None:
    config = load(tmp_path, PLAIN + asking + screen + "alternatives: [{criterion: majority}]\n")
    assert [config.asking.mode, config.screen.mode, config.alternatives[0].mode] == modes[:3]
    assert config.asking.views[2] == modes[3]
    assert configs.parse(config.model_dump(mode="json"), "again") == config


@pytest.mark.parametrize("models", ["[a, a]", "[{name: a, model: x}, {name: b, model: x}]"])
def test_a_model_votes_once(tmp_path: Path, models: str) -> None:
    shown = faults(tmp_path, PLAIN.replace("[smollm2-135m, gemma3-270m]", models))
    assert len(shown) == 1
    assert "models" in shown[0]


def test_extends_is_overridden_key_by_key(tmp_path: Path) -> None:
    write(tmp_path, PLAIN + "screen: {criterion: majority, mode: text}\n", "base.yaml")
    config = load(tmp_path, "extends: base.yaml\nname: other\nscreen: {mode: letter}\n")
    assert (config.name, config.screen.criterion, config.screen.mode) == ("other", "majority", "letter")


def test_a_variable_that_is_not_set_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    with refuses("unset-variable", hidden="items") as error:
        load(tmp_path, PLAIN.replace("items.jsonl", "$NOWHERE/items.jsonl"))
    assert "$NOWHERE" in str(error.value)
    monkeypatch.setenv("NOWHERE", str(tmp_path))
    assert configs.load(tmp_path / "c.yaml", wings().adapters).data[0].path == f"{tmp_path}/items.jsonl"


def test_a_scalar_of_yaml_that_is_no_text_is_refused_where_text_is_expected(tmp_path: Path) -> None:
    text = PLAIN.replace("toys", "010") + "limit: 10\nnotes: [3:30, no, 2026-01-01, '3:30', 'no']\n"
    shown = faults(tmp_path, text)
    assert [line.split(": ")[1] for line in shown] == ["name", "notes[0]", "notes[1]", "notes[2]"]
    with refuses("invalid-yaml"):
        load(tmp_path, PLAIN + "notes: [2026-13-45]\n")


def test_configs_that_extend_many_are_refused_before_they_multiply(tmp_path: Path) -> None:
    write(tmp_path, PLAIN, "c0.yaml")
    for i in range(1, 20):
        write(tmp_path, f"extends: [c{i - 1}.yaml, c{i - 1}.yaml]\n", f"c{i}.yaml")
    with refuses("long-config-chain") as error:
        configs.load(tmp_path / "c19.yaml", wings().adapters)
    assert " 33 " in str(error.value)


def test_a_model_gets_its_name_from_where_it_lies(tmp_path: Path) -> None:
    listed = "[hf:owner/name@rev, ./m, {model: /a/b.gguf}, {model: 'x y', role: under_test}]"
    config = load(tmp_path, PLAIN.replace("[smollm2-135m, gemma3-270m]", listed))
    found = [(m.name, m.reference, m.role) for m in config.models]
    voters = [("name", "hf:owner/name@rev"), ("m", "./m"), ("b.gguf", "/a/b.gguf")]
    assert found == [*((*one, "voter") for one in voters), ("x-y", "x y", "under_test")]


def test_models_of_the_command_line_replace_the_config_s(tmp_path: Path) -> None:
    config = load(tmp_path, PLAIN)
    chosen = configs.with_models(config, ["gemma3-270m", "some/folder/tiny"], "cuda:0")
    assert chosen.voters == ("gemma3-270m", "tiny")
    assert {m.device for m in chosen.models} == {"cuda:0"}
    assert configs.with_models(config, []) == config


def test_a_model_at_a_server_is_named_with_its_address(tmp_path: Path) -> None:
    config = load(tmp_path, PLAIN)
    url = "http://127.0.0.1:8000/v1"
    chosen = configs.with_models(config, [f"meta-llama/Llama-3.3-70B=openai:{url}", "gemma3-270m"])
    served = chosen.models[0]
    assert (served.name, served.model) == ("Llama-3.3-70B", "meta-llama/Llama-3.3-70B")
    assert (served.engine, served.base_url) == ("openai", url)
    listed = PLAIN.replace("[smollm2-135m, gemma3-270m]", f"['gpt=openai:{url}']")
    assert load(tmp_path, listed).models[0].reference == "openai|gpt|gpt"
    with pytest.raises(UsageError, match=r"--models: models\[0\]"):
        configs.with_models(config, ["gpt=openai:nowhere"])


@pytest.mark.parametrize(("value", "kept"), [("true", True), ("false", False), ("bfloat16", "bfloat16")])
def test_the_encoder_is_on_off_or_in_another_type(tmp_path: Path, value: str, kept: bool | str) -> None:
    config = load(tmp_path, f"{PLAIN}encoder: {value}\n")
    assert config.encoder == kept
    # It is not read in this type.
    assert any("encoder" in fault for fault in faults(tmp_path, f"{PLAIN}encoder: float16\n"))


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
