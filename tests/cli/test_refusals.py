"""What a run must refuse before it asks anything, and whose files it must never touch."""

import json
from pathlib import Path

import pytest

from robustify import pipeline
from robustify.config import Config, parse
from robustify.errors import ResourceError, UsageError
from robustify.loaders import Source, load
from robustify.run import refuse_foreign


def config(**changes: object) -> Config:
    tree = {
        "name": "t",
        "sensitivity": "public",
        "data": [{"path": "nowhere.jsonl"}],
        "models": [{"name": "one"}],
    }
    return parse({**tree, **changes}, "test")


@pytest.fixture(autouse=True)
def no_model_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "check_model", lambda *_: None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"screen": {"template": "nosuch"}}, "screen.template: is not asked"),
        ({"screen": {"voters": ["three"]}}, "three is no model of this config"),
        ({"models": [{"name": "one", "role": "under_test"}]}, "none votes"),
        ({"cloze": {"profile": "labels", "labels": "nowhere.jsonl"}}, "no such file"),
    ],
)
def test_what_would_be_refused_at_the_end_is_refused_at_the_start(
    tmp_path: Path, changes, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        pipeline.robustify(config(**changes), tmp_path / "out", tmp_path)


def test_a_model_is_looked_for_before_any_other_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    both = config(models=[{"name": "smollm2-135m"}, {"name": "no-such-model"}])
    monkeypatch.setattr(pipeline, "load_bench", lambda *_: None)
    monkeypatch.setattr(pipeline, "ask_models", lambda *_: pytest.fail("asked too early"))
    with pytest.raises(Exception, match=r"robustify models pull|no such name"):
        pipeline.robustify(both, tmp_path / "out", tmp_path / "cache")


@pytest.mark.parametrize("name", ["report.md", "cloze.jsonl", "figures/mine.png", "notes.txt"])
def test_a_folder_with_somebody_s_files_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    mine = tmp_path / "out" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(ResourceError, match=r"no run\.json"):
        pipeline.robustify(config(), tmp_path / "out", tmp_path / "cache")
    assert mine.read_text() == "mine"
    assert refuse_foreign(tmp_path / "elsewhere") is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "SECRET reagent,red,blue\nanother SECRET,green,grey\n"),
        ("b.csv", "SECRETWORD,red,blue\nOTHERSECRET,green,grey\n"),
        ("c.json", json.dumps({"What is SECRET?": ["a", "b"]})),
    ],
)
def test_names_that_may_be_text_are_not_shown(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(Exception) as error:  # noqa: PT011 - whatever it is, it must not show the text
        load(Source(path=str(tmp_path / name)))
    assert "SECRET" not in str(error.value)
    assert "red" not in str(error.value).split(name)[-1].replace("required", "")
