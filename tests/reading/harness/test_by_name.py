"""Sets by their names: real lm-eval, Inspect, and datasets load made-up tasks and sets, without a network.

lm-eval and inspect-ai are looked for in this Python, and in those of ROBUSTIFY_TEST_LM_EVAL_PYTHON and
ROBUSTIFY_TEST_INSPECT_PYTHON.
"""

import hashlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from robustify import cli
from robustify.base.settings_files import DATA_MODULE
from robustify.export import tasks as exported
from robustify.export.writing import Heading
from robustify.items.item import Item
from robustify.reading.harness import fetch
from tests.conftest import Ended
from tests.reading.harness.made_tasks import docs, write_tasks
from tests.support import restricted_set
from tests.support.cases import contents, fact
from tests.support.lm_eval_command import run_lm_eval


def _python(module: str, variable: str) -> str | None:
    return os.environ.get(variable) or (sys.executable if importlib.util.find_spec(module) else None)


LM_EVAL = _python("lm_eval", "ROBUSTIFY_TEST_LM_EVAL_PYTHON")
INSPECT = _python("inspect_ai", "ROBUSTIFY_TEST_INSPECT_PYTHON")
needs_lm_eval = pytest.mark.skipif(LM_EVAL is None, reason="lm-eval is in no Python of these tests")
needs_inspect = pytest.mark.skipif(INSPECT is None, reason="inspect-ai is in no Python of these tests")
needs_datasets = pytest.mark.skipif(not importlib.util.find_spec("datasets"), reason="datasets is missing")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def tasks(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_tasks(tmp_path)
    monkeypatch.chdir(tmp_path)
    # The index of lm-eval's tasks is made once.
    cache = tmp_path_factory.getbasetemp() / "cache"
    for name, value in {"HF_HUB_OFFLINE": "1", "HF_HOME": tmp_path / "hf", "ROBUSTIFY_CACHE": cache}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.delenv("HF_DATASETS_CACHE", raising=False)
    return tmp_path


def called(python: str | None, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Call `robustify` of another Python, or here if that is this one. Tasks are loaded in a process of their own."""
    command = [str(python), "-m", "robustify", *map(str, arguments)]
    if python == sys.executable:
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", ["robustify", *command[3:]])
            with pytest.raises(SystemExit) as ended:
                cli.main()
        shown = [stream.buffer.getvalue().decode() for stream in (out, err)]
        return subprocess.CompletedProcess(command, int(ended.value.code or 0), *shown)
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ROOT}
    )


ROOT = str(Path(__file__).parents[3])


@pytest.mark.parametrize("case", contents("harness_names"), ids=lambda case: case["name"])
def test_a_command_on_a_name_ends_as_its_case_says(tasks: Path, case: dict[str, Any]) -> None:
    python = LM_EVAL if case["by"] == "lm-eval" else INSPECT
    if python is None:
        pytest.skip(f"{case['by']} is in no Python of these tests")
    for name, text in case.get("files", {}).items():
        (tasks / name).unlink() if text is None else (tasks / name).write_text(text)
    facts = case.get("facts", {})
    done = called(python, *case["command"].split(), *["--json"][: len(facts)])
    assert done.returncode == case.get("code", 0), done.stderr
    assert (tasks / "ran").exists() == case.get("ran", False)
    assert {path: fact(json.loads(done.stdout), path) for path in facts} == facts


@needs_lm_eval
def test_tasks_of_a_group_are_topics_and_their_items_those_of_the_file(tasks: Path) -> None:
    done = called(LM_EVAL, "lm-eval:made_group", "--include-path", ".", "--public", "-o", "run", "-q")
    assert done.returncode == 0, done.stderr
    items = [
        json.loads(line)
        for name in ("kept", "flagged", "undecided")
        for line in (tasks / "run" / f"{name}.jsonl").open()
    ]
    assert {item["topic"] for item in items} == {"made_texts", "by letter"}
    asked = {(item["stem"], tuple(item["choices"]), item["key"]) for item in items}
    assert asked == {(d["question"], tuple(d["choices"]), d["answer"]) for d in docs()}  # type: ignore[arg-type]
    assert json.loads((tasks / "run" / "run.json").read_text())["data"]["origins"][0]["set"] == "sums.jsonl"


@needs_lm_eval
def test_an_exported_task_is_read_without_its_module(tasks: Path) -> None:
    items = [Item(f"i{at}", f"Which is {at}?", ("this", "that", f"{at}"), at % 3) for at in range(24)]
    folder = tasks / "b é"
    exported.write_tasks(folder, Heading("made", "set:made", "passed"), {"kept": items})
    (tasks / "link").mkdir()
    (tasks / "link" / "made.yaml").symlink_to(folder / "made_kept.yaml")
    for name in ("made_kept", "link/made.yaml"):
        done = called(LM_EVAL, "validate", f"lm-eval:{name}", "--include-path", folder, "--json")
        assert json.loads(done.stdout)["read"][0]["origin"]["set"].endswith(".parquet"), done.stderr
    assert json.loads(done.stdout)["n_items"] == 24
    assert not [*folder.rglob("*.pyc")]


@needs_lm_eval
@pytest.mark.parametrize(("file", "old", "new", "code"), [
    (DATA_MODULE, "import pyarrow\n", "import pyarrow\nPath('ran').touch()\n", 4),
    ("made_kept.yaml", "custom_dataset", "process_docs", 4),
    ("made_kept.yaml", "- made_kept", "- ../b/made_kept", 3),
])  # fmt: skip
def test_an_exported_task_that_was_changed_runs_no_code(
    tasks: Path, file: str, old: str, new: str, code: int
) -> None:
    items = [Item("a", "Which?", ("this", "that"), 0)]
    exported.write_tasks(tasks / "b", Heading("made", "set:made", "passed"), {"kept": items})
    text = (tasks / "b" / file).read_text()
    assert old in text
    (tasks / "b" / file).write_text(text.replace(old, new))
    assert called(LM_EVAL, "validate", "lm-eval:b/made_kept.yaml").returncode == code
    assert not (tasks / "ran").exists()


@needs_lm_eval
@pytest.mark.parametrize(("name", "data"), [
    ("lm-eval:made.yaml", 'json\ndataset_kwargs: {data_files: {train: "made/s*.jsonl"}}'),
    ("lm-eval:made.yaml", "json\ndataset_kwargs: {data_files: {train: local://made/set/items.jsonl}}"),
    ("lm-eval:made.yaml", "made/set\ndataset_kwargs: {}"),
    ("hf:made/set", ""),
])  # fmt: skip
def test_a_registered_file_is_refused_however_a_set_names_it(
    tasks: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: str
) -> None:
    (tasks / "made" / "set").mkdir(parents=True)
    for file in ("made/sums.jsonl", "made/set/items.jsonl"):
        # Written anew, the rows have another digest.
        (tasks / file).write_text((tasks / "sums.jsonl").read_text() + "\n")
    head = "include: _texts_yaml\ntask: made\ntest_split: train\ndataset_path: "
    (tasks / "made.yaml").write_text(head + data)
    assert called(LM_EVAL, "validate", name).returncode == 0
    shutil.rmtree(tasks / "hf")
    digest = hashlib.sha256((tasks / "made" / "sums.jsonl").read_bytes()).hexdigest()
    files = [{"path": "items.jsonl", "sha256": digest, "records": 24}]
    registered = restricted_set.write_set(
        tasks / "other", data={"root_env": "ROBUSTIFY_DATA", "files": files}
    )
    monkeypatch.setenv("ROBUSTIFY_ADAPTERS", str(registered["adapter"].parent))
    assert called(LM_EVAL, "validate", name).returncode == 4
    assert not [*tasks.rglob("*.arrow")]


@pytest.fixture
def hub(tasks: Path) -> Path:
    """A set in the cache of the hub, as a download leaves it."""
    place = tasks / "hf" / "hub" / "datasets--made--sums"
    folder = place / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    for split in ("train", "test"):
        (folder / f"{split}.jsonl").write_text((tasks / "sums.jsonl").read_text())
    return tasks


@needs_datasets
def test_a_set_in_the_cache_of_the_hub_is_loaded_with_its_commit(
    hub: Path, robustify: Callable[..., Ended]
) -> None:
    assert robustify("validate", "hf:made/sums").code == 2
    assert (
        "hf:made/sums --split test --public" in robustify("validate", "hf:made/sums", "--split", "test").out
    )
    ended = robustify("validate", "hf:made/sums", "--split", "test", "--json")
    found = json.loads(ended.out)
    assert found["n_items"] == 24
    assert found["read"][0]["origin"]["revision"] == COMMIT
    assert found["read"][0]["origin"]["pinned"] == "no"
    assert found["data"]["path"] == f"hf:made/sums@{COMMIT}"
    (hub / "made.yaml").write_text(f"name: made\nsensitivity: public\ndata: {json.dumps(found['data'])}\n")
    assert robustify("made.yaml", "-o", "run", "-q").code == 0
    assert "not pinned" not in robustify("check", "run").out
    assert (
        json.loads((hub / "run" / "run.json").read_text())["config"]["data"][0]["path"]
        == f"hf:made/sums@{COMMIT}"
    )


@needs_datasets
def test_what_datasets_kept_is_loaded_if_it_is_of_the_named_commit(
    tasks: Path, robustify: Callable[..., Ended]
) -> None:
    import datasets

    made = datasets.load_dataset("json", data_files={"test": "sums.jsonl"}, cache_dir=str(tasks / "made"))
    kept = tasks / "hf" / "datasets" / "made___sums" / "default" / "0.0.0" / COMMIT
    shutil.copytree(Path(made["test"].cache_files[0]["filename"]).parent, kept)
    (kept / "json-test.arrow").rename(kept / "sums-test.arrow")
    about = json.loads((kept / "dataset_info.json").read_text())
    address = f"hf://datasets/made/sums@{COMMIT}/test.jsonl"
    about |= {"dataset_name": "sums", "download_checksums": {address: {"num_bytes": 1, "checksum": None}}}
    about["splits"]["test"]["dataset_name"] = "sums"
    (kept / "dataset_info.json").write_text(json.dumps(about))
    ended = robustify("validate", f"hf:made/sums@{COMMIT}", "--json")
    assert json.loads(ended.out)["read"][0]["origin"]["pinned"] == "yes"
    assert robustify("validate", f"hf:made/sums@{COMMIT[::-1]}").code == 3


@needs_datasets
def test_a_set_that_is_nowhere_is_said_to_be_missing(tasks: Path, robustify: Callable[..., Ended]) -> None:
    ended = robustify("validate", "hf:made/missing")
    assert ended.code == 3
    assert "made/missing" in ended.err


@needs_datasets
@pytest.mark.parametrize(("host", "offline"), [("hub.invalid", True), ("localhost", False)])
def test_libraries_work_offline_if_the_hub_has_no_address(
    host: str, offline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(fetch, "getproxies", dict)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(constants, "ENDPOINT", f"https://{host}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    fetch.spare_retries()
    assert (constants.HF_HUB_OFFLINE, os.environ["HF_HUB_OFFLINE"]) == (offline, "01"[offline])


@pytest.mark.parametrize(
    "name",
    ["lm-eval:wmdp", "LM_EVAL:W.M.D.P-bio", "lm-eval:sub/Wmdp_x.yaml", "hf:cais/wmdp", "hf:x/wm-dp-cyber@main",
     "hf:cais/%77mdp", "inspect:inspect_evals/wmdp_chem", "inspect:wmdp.py@sums", "hf:ｗｍｄｐ/x"],
)  # fmt: skip
def test_a_restricted_set_is_refused_by_any_spelling(name: str, robustify: Callable[..., Ended]) -> None:
    for command in (
        ["validate"],
        ["lint"],
        ["run", "--public"],
        ["import", "log.jsonl", "-o", "x", "--data"],
    ):
        assert robustify(*command, name).code == 4, command


def test_a_path_that_exists_wins_over_a_name(tmp_path: Path, robustify: Callable[..., Ended]) -> None:
    (tmp_path / "hf:sums.jsonl").write_text("".join(f"{json.dumps(doc)}\n" for doc in docs()))
    assert json.loads(robustify("validate", "hf:sums.jsonl", "--json").out)["n_items"] == 24


@pytest.mark.parametrize("name", ["hf:", "hf:owner", "lm-eval:", "inspect:nobody_has_this/task"])
def test_a_name_of_another_form_is_a_usage_error(name: str, robustify: Callable[..., Ended]) -> None:
    assert robustify("validate", name).code == 2


@needs_lm_eval
def test_logs_of_a_task_with_unusual_columns_are_read_by_the_task(tasks: Path) -> None:
    command = "--include_path . --tasks unusual,made_texts --model dummy --log_samples --output_path logs"
    run_lm_eval(LM_EVAL, command, tasks)
    [log] = (tasks / "logs").rglob("samples_unusual_*.jsonl")
    rows = [json.loads(line) for line in log.open()]
    assert called(LM_EVAL, "import", log, "-o", "alone").returncode == 3
    named = ("--data", "lm-eval:unusual.yaml", "--data", "lm-eval:texts.yaml")
    done = called(LM_EVAL, "import", "logs", *named, "-o", "run", "--json")
    assert done.returncode in (0, 7), done.stderr
    unusual, texts = json.loads(done.stdout)["import"]["logs"][::-1]
    assert (unusual["rows"], texts["rows"]) == (24, 24)
    right = [unusual["accuracies"]["acc"]["right"], sum(row["acc"] for row in rows)]
    summary = json.loads((tasks / "run" / "summary.json").read_text())
    assert right[0] == right[1]
    assert summary["splits"]["all"] == 48
    other = called(LM_EVAL, "import", log, "--data", "lm-eval:letters.yaml", "-o", "other")
    assert other.returncode == 3
