from pathlib import Path

import pytest

from robustify import config as configs
from robustify.errors import AuthorisationError, UsageError

PLAIN = "name: toys\nsensitivity: public\ndata: items.jsonl\nmodels: [smollm2-135m, gemma3-270m]\n"


def write(folder: Path, text: str, name: str = "c.yaml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(UsageError) as error:
        configs.load(write(folder, text))
    return list(error.value.lines)


def test_a_short_config_is_whole(tmp_path: Path) -> None:
    config = configs.load(write(tmp_path, PLAIN))
    assert config.voters == ("smollm2-135m", "gemma3-270m")
    assert config.data[0].path == str(tmp_path / "items.jsonl")
    assert (config.screen.criterion, config.screen.mode, config.asking.rotations) == (
        "fdr",
        "letter",
        "all",
    )


@pytest.mark.parametrize(
    ("asking", "screen", "modes"),
    [
        ("", "", ("letter", "letter", "letter", "full")),
        ("asking: {mode: text}\n", "", ("text", "text", "text", "full_text")),
        ("asking: {mode: text}\n", "screen: {mode: letter}\n", ("text", "letter", "text", "full_text")),
        ("", "screen: {mode: text}\n", ("letter", "text", "letter", "full")),
    ],
)
def test_one_mode_holds_for_all_that_names_none(tmp_path: Path, asking: str, screen: str, modes) -> None:
    config = configs.load(
        write(tmp_path, PLAIN + asking + screen + "alternatives: [{criterion: majority}]\n")
    )
    assert (config.asking.mode, config.screen.mode, config.alternatives[0].mode) == modes[:3]
    assert config.asking.views[2] == modes[3]
    assert configs.parse(config.model_dump(mode="json"), "again") == config


def test_an_unknown_key_is_refused_with_the_nearest_known_one(tmp_path: Path) -> None:
    assert faults(tmp_path, PLAIN + "scren: {}\n") == ["c.yaml: scren: unknown key (did you mean screen?)"]
    nested = PLAIN.replace("[smollm2-135m, gemma3-270m]", "[{name: a, enigne: hf}]")
    assert faults(tmp_path, nested) == ["c.yaml: models[0].enigne: unknown key (did you mean engine?)"]


def test_all_faults_are_told_at_once_and_no_value_is_shown(tmp_path: Path) -> None:
    told = faults(tmp_path, "name: toys\ndata: []\nscreen: {criterion: some-secret}\nlimit: 0\n")
    assert len(told) == 4
    assert any("sensitivity: missing" in line for line in told)
    assert not any("some-secret" in line for line in told)


def test_a_yes_is_no_number(tmp_path: Path) -> None:
    told = faults(tmp_path, PLAIN + "limit: true\nasking: {shots: yes}\n")
    assert [line.split(": ")[1] for line in told] == ["asking.shots", "limit"]


def test_sensitivity_must_be_stated(tmp_path: Path) -> None:
    assert faults(tmp_path, "name: toys\ndata: x.jsonl\n") == [
        "c.yaml: sensitivity: missing; expected a value"
    ]


@pytest.mark.parametrize("models", ["[a, a]", "[{name: a, model: x}, {name: b, model: x}]"])
def test_a_model_votes_once(tmp_path: Path, models: str) -> None:
    told = faults(tmp_path, PLAIN.replace("[smollm2-135m, gemma3-270m]", models))
    assert len(told) == 1
    assert "models" in told[0]


def test_extends_is_overridden_key_by_key(tmp_path: Path) -> None:
    write(tmp_path, PLAIN + "screen: {criterion: majority, mode: text}\n", "base.yaml")
    config = configs.load(write(tmp_path, "extends: base.yaml\nname: other\nscreen: {mode: letter}\n"))
    assert (config.name, config.screen.criterion, config.screen.mode) == ("other", "majority", "letter")


def test_data_of_the_base_is_relative_to_the_base(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub", PLAIN, "base.yaml")
    config = configs.load(write(tmp_path, "extends: sub/base.yaml\n"))
    assert Path(config.data[0].path) == tmp_path / "sub" / "items.jsonl"


def test_a_config_that_extends_itself_is_refused(tmp_path: Path) -> None:
    assert "extends itself" in faults(tmp_path, "extends: c.yaml\n")[0]


def test_a_variable_that_is_not_set_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    assert "$NOWHERE is not set" in faults(tmp_path, PLAIN.replace("items.jsonl", "$NOWHERE/items.jsonl"))[0]
    monkeypatch.setenv("NOWHERE", str(tmp_path))
    assert configs.load(tmp_path / "c.yaml").data[0].path == f"{tmp_path}/items.jsonl"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: [", "no readable YAML"),
        ("- a\n- b\n", "a list; expected keys and values"),
        ("name: a\nname: b\n", "written twice"),
        ("name: !!python/object:os.system x\n", "no readable YAML"),
        ("", "a NoneType; expected keys and values"),
    ],
)
def test_unreadable_yaml_is_one_line(tmp_path: Path, text: str, told: str) -> None:
    lines = faults(tmp_path, text)
    assert len(lines) == 1
    assert told in lines[0]


def test_a_mistyped_config_suggests_a_shipped_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"did you mean demo_benign\.yaml"):
        configs.find("demo_bening.yaml")
    with pytest.raises(UsageError, match="is a folder"):
        configs.find(str(tmp_path))
    assert configs.find("demo_benign").name == "demo_benign.yaml"


def test_models_of_the_command_line_replace_the_config_s(tmp_path: Path) -> None:
    config = configs.load(write(tmp_path, PLAIN))
    chosen = configs.with_models(config, ["gemma3-270m", "some/folder/tiny"], "cuda:0")
    assert chosen.voters == ("gemma3-270m", "tiny")
    assert {m.device for m in chosen.models} == {"cuda:0"}
    assert configs.with_models(config, []) == config


def test_safe_demo_refuses_a_restricted_set(tmp_path: Path) -> None:
    config = configs.load(write(tmp_path, PLAIN.replace("public", "restricted")))
    with pytest.raises(AuthorisationError):
        configs.require_public(config)
