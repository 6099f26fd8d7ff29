"""Hub datasets: what a source must say, and that `datasets` loads the split at the commit.

`datasets` itself runs; its lookup on the Hub is sent to a folder on this machine.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from robustify.base.errors import AuthorisationError, DataError, RobustifyError, UsageError
from robustify.pipeline import config as configs
from robustify.reading.loaders import Source, load, load_many

datasets = pytest.importorskip("datasets")
SHA = "0123456789abcdef0123456789abcdef01234567"
REPO = "lamps/lamp_questions"
HARD = {"hub": REPO, "revision": SHA, "config": "hard", "split": "test"}
CARD = """---
configs:
- config_name: hard
  data_files: [{split: train, path: hard/train-*}, {split: test, path: hard/test-*}]
- config_name: easy
  data_files: [{split: test, path: easy/test-*}]
---
"""


def source(**said: object) -> Source:
    return Source.model_validate({**HARD, **said})


def rows(n: int, first: int = 0) -> list[dict[str, object]]:
    choices = {"text": ["red", "green", "blue", "grey"], "label": list("ABCD")}
    return [{"question": f"Which lamp {first + i}?", "choices": choices, "answerKey": "C"} for i in range(n)]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset with two configurations, which `datasets` finds by its name."""
    folder = tmp_path / "repository"
    for name, n in (("hard/train-0", 9), ("hard/test-0", 3), ("hard/test-1", 2), ("easy/test-0", 4)):
        path = folder / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows(n, 3 * (name == "hard/test-1"))), path)
    (folder / "README.md").write_text(CARD)
    plain = datasets.load_dataset

    def found(name: str, *args: Any, revision: str, **more: Any) -> Any:
        assert (name, revision) == (REPO, SHA)
        return plain(str(folder), *args, cache_dir=str(tmp_path / "cache"), **more)

    monkeypatch.setattr(datasets, "load_dataset", found)
    return folder


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"hub": REPO}, "revision is missing; expected 40 hexadecimal digits"),
        ({"hub": REPO, "revision": "main"}, "revision is not a commit (a branch or tag can move)"),
        ({"hub": REPO, "revision": "COMMIT-OF-40-HEX-DIGITS"}, "revision is not a commit"),
        ({"hub": REPO, "revision": SHA[:39]}, "revision is not a commit"),
        ({"hub": "lamps", "revision": SHA}, "expected `hub: owner/name`"),
        ({"hub": "../lamps/x", "revision": SHA}, "expected `hub: owner/name`"),
        ({"hub": REPO, "revision": SHA, "path": "x"}, "both `path` and `hub`"),
        ({"path": "x", "files": "*"}, "`files` is only for Hub datasets"),
        ({}, "neither `path` nor `hub`"),
    ],
)
def test_a_hub_source_without_a_pinned_commit_is_refused(said: dict[str, str], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Source.model_validate(said)
    assert told in str(caught.value)


def test_what_may_not_or_cannot_be_fetched_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AuthorisationError, match="never downloads"):
        load(source(hub="somebody/WMDP-mirror"))
    tree = {"name": "x", "sensitivity": "restricted", "data": {"hub": REPO, "revision": SHA}}
    with pytest.raises(UsageError, match="a restricted set is read only from local files"):
        configs.parse(tree, "c.yaml")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match=r"pip install 'robustcbrn-eval\[hub\]'"):
        load(source())


def test_a_split_is_loaded_with_ids_of_its_dataset(repository: Path) -> None:
    bench = load(source())
    assert [item.stem for item in bench.items] == [f"Which lamp {i}?" for i in range(5)]
    assert (bench.items[0].id, bench.items[0].key) == ("lamp_questions-hard-0001", 2)
    assert (bench.name, bench.layout) == ("lamp_questions-hard", "fields")
    assert load(source(sha256=bench.sha256)).items == bench.items
    with pytest.raises(DataError, match="which the config pins"):
        load(source(sha256="0" * 64))


def test_several_parts_of_a_dataset_have_ids_of_their_own(repository: Path) -> None:
    both = load_many([source(), source(config="easy", topic="easy")])
    assert len({item.id for item in both.items}) == len(both.items) == 9
    assert {item.topic for item in both.items} == {"", "easy"}
    both = load_many([source(), source(split="train")])
    assert both.items[-1].id == "train-lamp_questions-hard-0009"
    assert both.name == "lamp_questions"


def test_a_file_is_named_by_a_glob(repository: Path) -> None:
    house = [{"id": f"q{i}", "stem": f"Which {i}?", "choices": ["a", "b"], "key": 1} for i in range(3)]
    (repository / "house.jsonl").write_text("".join(json.dumps(row) + "\n" for row in house))
    bench = load(source(config=None, split=None, files="house.jsonl"))
    assert [item.id for item in bench.items] == ["q0", "q1", "q2"]


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        ({"split": None}, DataError, "has several splits. Set `split` to one of train, test"),
        ({"split": "dev"}, DataError, "cannot be loaded (ValueError)"),
        ({"config": "medium"}, DataError, "cannot be loaded (ValueError)"),
    ],
)
def test_what_is_not_there_is_one_line(
    repository: Path, said: dict[str, object], kind: type[RobustifyError], told: str
) -> None:
    with pytest.raises(kind) as caught:
        load(source(**said))
    assert told in str(caught.value)
    assert len(caught.value.lines) == 1


def test_a_gate_is_exit_code_4_and_other_faults_quote_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise datasets.exceptions.DatasetNotFoundError("Dataset 'x' is a gated dataset on the Hub")

    def burst(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret words of a row")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(AuthorisationError, match="hf auth login"):
        load(source())
    monkeypatch.setattr(datasets, "load_dataset", burst)
    with pytest.raises(DataError, match=r"cannot be loaded \(RuntimeError\)") as caught:
        load(source())
    assert "secret" not in str(caught.value)
