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
    assert (config.screen.criterion, config.screen.mode, config.asking.rotations) == ("fdr", "letter", "all")


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


def test_all_faults_are_shown_at_once_and_no_value_is_shown(tmp_path: Path) -> None:
    shown = faults(tmp_path, "name: toys\ndata: []\nscreen: {criterion: some-secret}\nlimit: 0\n")
    assert len(shown) == 4
    assert any("sensitivity: missing" in line for line in shown)
    assert not any("some-secret" in line for line in shown)


def test_a_yes_is_no_number(tmp_path: Path) -> None:
    shown = faults(tmp_path, PLAIN + "limit: true\nasking: {shots: yes}\n")
    assert [line.split(": ")[1] for line in shown] == ["asking.shots", "limit"]


def test_sensitivity_must_be_stated(tmp_path: Path) -> None:
    assert faults(tmp_path, "name: toys\ndata: x.jsonl\n") == [
        "c.yaml: sensitivity: missing; expected a value"
    ]


@pytest.mark.parametrize("models", ["[a, a]", "[{name: a, model: x}, {name: b, model: x}]"])
def test_a_model_votes_once(tmp_path: Path, models: str) -> None:
    shown = faults(tmp_path, PLAIN.replace("[smollm2-135m, gemma3-270m]", models))
    assert len(shown) == 1
    assert "models" in shown[0]


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


ALIASES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{" + ", ".join(f"k{j}: *a{i - 1}" for j in range(9)) + "}\n" for i in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("name: [", ":1", "no readable YAML"),
        ("- a\n- b\n", "", "a list; expected keys and values"),
        ("name: a\nlimit: 1\nname: b\n", ":3", "key name is written twice"),
        ("screen:\n  mode: text\n  mode: letter\n", ":3", "key mode is written twice"),
        ("a secret question, pasted: 1\na secret question, pasted: 2\n", ":2", "(key is written twice)"),
        ("name: !!python/object:os.system x\n", ":1", "(a tag)"),
        ("limit: !!int abc\n", ":1", "(a tag)"),
        ("", "", "is empty; expected keys and values"),
        ("# nothing\n", "", "is empty; expected keys and values"),
        ("name: \x07\n", "", "no readable YAML"),
        (PLAIN + "notes: " + "[" * 3000 + "]" * 3000, ":5", "more than 20 levels"),
        (PLAIN + "notes: *a\n", ":5", "an alias"),
        (ALIASES + PLAIN, ":2", "an alias"),
        (PLAIN + "notes:\n" + "- a\n" * 70_000, "", "280,092 bytes"),
    ],
)
def test_unreadable_yaml_is_one_line(tmp_path: Path, text: str, line: str, found: str) -> None:
    write(tmp_path, text, "below.yaml")
    for shown in (faults(tmp_path, text), faults(tmp_path, "extends: [below.yaml, below.yaml]\n")):
        assert len(shown) == 1
        assert f".yaml{line}" in shown[0]
        assert found in shown[0]
        assert "secret" not in shown[0]


def test_settings_are_the_words_that_were_written(tmp_path: Path) -> None:
    text = PLAIN.replace("toys", "010") + "limit: 010\nnotes: [3:30, no, 2026-13-45, 1e3, 1_000, '']\n"
    shown = faults(tmp_path, text)
    assert [line.split(": ")[1] for line in shown] == ["name", "notes[4]"]
    config = configs.load(write(tmp_path, text.replace("name: 010", "name: x").replace(" 1_000,", "")))
    assert (config.limit, config.notes) == (10, ("3:30", "no", "2026-13-45", "1e3", ""))


def test_configs_that_extend_many_are_refused_before_they_multiply(tmp_path: Path) -> None:
    write(tmp_path, PLAIN, "c0.yaml")
    for i in range(1, 20):
        write(tmp_path, f"extends: [c{i - 1}.yaml, c{i - 1}.yaml]\n", f"c{i}.yaml")
    with pytest.raises(UsageError, match="is number 33 of the files"):
        configs.load(tmp_path / "c19.yaml")


def test_of_many_faults_the_first_are_shown(tmp_path: Path) -> None:
    shown = faults(tmp_path, PLAIN.split("models")[0] + "models:\n" + "- 1\n" * 500)
    assert (len(shown), shown[-1]) == (21, "c.yaml: ... and 480 more faults")


def test_a_model_gets_its_name_from_where_it_lies(tmp_path: Path) -> None:
    listed = "[hf:owner/name@rev, ./m, {model: /a/b.gguf}, {model: 'x y', role: under_test}]"
    config = configs.load(write(tmp_path, PLAIN.replace("[smollm2-135m, gemma3-270m]", listed)))
    assert [(m.name, m.reference, m.role) for m in config.models] == [
        ("name", "hf:owner/name@rev", "voter"),
        ("m", "./m", "voter"),
        ("b.gguf", "/a/b.gguf", "voter"),
        ("x-y", "x y", "under_test"),
    ]
    shown = faults(tmp_path, PLAIN.replace("[smollm2-135m, gemma3-270m]", "[hf:a/m@r, ./m]"))
    assert shown == ["c.yaml: models: two models have one name; expected a name for each"]


def test_a_mistyped_config_suggests_a_shipped_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"did you mean demo_benign\.yaml"):
        configs.find_config("demo_bening.yaml")
    with pytest.raises(UsageError, match="is a folder"):
        configs.find_config(str(tmp_path))
    assert configs.find_config("demo_benign").name == "demo_benign.yaml"


def test_models_of_the_command_line_replace_the_config_s(tmp_path: Path) -> None:
    config = configs.load(write(tmp_path, PLAIN))
    chosen = configs.with_models(config, ["gemma3-270m", "some/folder/tiny"], "cuda:0")
    assert chosen.voters == ("gemma3-270m", "tiny")
    assert {m.device for m in chosen.models} == {"cuda:0"}
    assert configs.with_models(config, []) == config


def test_a_model_at_a_server_is_named_with_its_address(tmp_path: Path) -> None:
    config = configs.load(write(tmp_path, PLAIN))
    url = "http://127.0.0.1:8000/v1"
    chosen = configs.with_models(config, [f"meta-llama/Llama-3.3-70B=openai:{url}", "gemma3-270m"])
    served = chosen.models[0]
    assert (served.name, served.engine, served.model) == (
        "Llama-3.3-70B",
        "openai",
        "meta-llama/Llama-3.3-70B",
    )
    assert served.base_url == url
    listed = PLAIN.replace("[smollm2-135m, gemma3-270m]", f"['gpt=openai:{url}']")
    assert configs.load(write(tmp_path, listed)).models[0].reference == "openai|gpt|gpt"
    with pytest.raises(UsageError, match=r"--models: models\[0\]"):
        configs.with_models(config, ["gpt=openai:nowhere"])


@pytest.mark.parametrize(
    ("models", "heads"),
    [
        ([], ("smollm2-135m",)),
        (["gemma3-270m"], ("gemma3-270m",)),
        (["gemma3-270m", "smollm2-135m"], ("smollm2-135m",)),
        (["a/b/tiny"], ("tiny",)),
        (["gpt=openai:http://127.0.0.1:8000/v1"], ()),
        (["gpt=openai:http://127.0.0.1:8000/v1", "gemma3-270m"], ("gemma3-270m",)),
    ],
)
def test_linear_probes_follow_the_models_of_the_command_line(
    models: list[str], heads: tuple[str, ...]
) -> None:
    demo = configs.load(configs.find_config("demo_benign.yaml"))
    chosen = configs.with_models(demo, models)
    assert chosen.heads.models == heads
    assert configs.with_models(demo, []) == demo


def test_safe_demo_refuses_a_restricted_set(tmp_path: Path) -> None:
    config = configs.load(write(tmp_path, PLAIN.replace("public", "restricted")))
    with pytest.raises(AuthorisationError):
        configs.require_public(config)
