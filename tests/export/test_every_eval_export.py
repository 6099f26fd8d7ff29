"""A run as results of Every Eval Ever 0.3.0, and back.

The published package, which holds the schema, is looked for in the Python that ROBUSTIFY_TEST_EVERY_EVAL_PYTHON names.
"""

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from robustify.errors import AuthorisationError
from robustify.export.every_eval import export_every_eval
from robustify.logs import LogPath
from robustify.run import Run
from robustify.writers.from_logs import import_logs
from tests.support.exported_run import made_up
from tests.support.fake_logs import jsonl

PUBLISHED = os.environ.get("ROBUSTIFY_TEST_EVERY_EVAL_PYTHON")
AT = 1767225600.0


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run in which two models were asked the full question; every seventh reply of one cannot be read."""
    folder = tmp_path_factory.mktemp("full")
    rows = [
        {"model": model, "view": view, "question": i.stem, "choices": list(i.choices), "key": "ABCDE"[i.key],
         "topic": i.topic, "item": i.id, "pick": None if model == "b" and at % 7 == 3 else "ABCDE"[(i.key + at % 3) % i.k]}
        for model in ("owner/a", "b")
        for view in ("full", "choices_only")
        for at, i in enumerate(made_up())
    ]  # fmt: skip
    log = jsonl(folder / "picks.jsonl", rows)
    return import_logs([LogPath(log)], folder / "run", name="made up")


@pytest.fixture(scope="module")
def written(asked: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("eee") / "out"
    export_every_eval(asked, place, at=AT, organisation="A lab")
    return place


def of(written: Path, model: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    (scores,) = (p for p in written.rglob("*.json") if p.parent.name == model)
    text = scores.with_name(f"{scores.stem}_samples.jsonl").read_text("utf-8")
    return json.loads(scores.read_text("utf-8")), [json.loads(line) for line in text.splitlines()]


def test_files_lie_as_the_store_has_them(written: Path) -> None:
    folders = {str(p.parent.relative_to(written)) for p in written.rglob("*.json")}
    assert folders == {"data/made-up/owner/a", "data/made-up/unknown/b"}


@pytest.mark.parametrize("model", ["a", "b"])
def test_scores_have_n_and_interval_and_rows_add_up_to_them(written: Path, asked: Run, model: str) -> None:
    tree, rows = of(written, model)
    known = asked.summary.tree()["accuracy"][tree["model_info"]["id"]]
    by_id = {one["evaluation_result_id"]: one["score_details"] for one in tree["evaluation_results"]}
    assert {"full:all", "full:robust", "choices_only:all"} <= set(by_id)
    for name, found in by_id.items():
        measure, split = name.split(":")
        score = known[measure][split]
        assert (found["score"], found["uncertainty"]["num_samples"]) == (score["value"], score["n"])
        interval = found["uncertainty"]["confidence_interval"]
        assert [interval["lower"], interval["upper"]] == score["ci"]
    answered = [r for r in rows if "error" not in r]
    assert len(rows) == 60 == int(by_id["full:all"]["details"]["asked"])
    assert len(answered) == by_id["full:all"]["uncertainty"]["num_samples"]
    assert sum(r["evaluation"]["score"] for r in answered) / len(answered) == pytest.approx(
        by_id["full:all"]["score"]
    )
    assert {r["evaluation_id"] for r in rows} == {tree["evaluation_id"]}
    pointer = tree["detailed_evaluation_results"]
    path = written / pointer["file_path"]
    assert pointer["checksum"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert pointer["total_rows"] == len(rows)


def test_what_was_written_comes_back_as_the_same_picks(written: Path, asked: Run, tmp_path: Path) -> None:
    logs = [LogPath(path) for path in sorted(written.rglob("*.jsonl"))]
    back = import_logs(logs, tmp_path / "back", name="made up")

    def picks(run: Run) -> dict[tuple[str, str], int | None]:
        rows = run.answers.table.to_pylist()
        return {(r["model"], r["item"]): r["pick"] for r in rows if r["view"] == "full"}

    assert picks(back) == picks(asked)


def test_a_restricted_run_is_refused(run: Run, tmp_path: Path) -> None:
    config = {**run.manifest["config"], "sensitivity": "restricted"}
    with pytest.raises(AuthorisationError):
        export_every_eval(Run(run.folder, {**run.manifest, "config": config}), tmp_path / "a", at=AT)


@pytest.mark.proof
@pytest.mark.oracle
@pytest.mark.skipif(
    PUBLISHED is None, reason="ROBUSTIFY_TEST_EVERY_EVAL_PYTHON names no Python that has every-eval-ever"
)
def test_the_published_schema_takes_both_files(written: Path) -> None:
    code = (
        "import json, sys; from importlib.resources import files; from jsonschema import Draft7Validator as V\n"
        "at = files('every_eval_ever') / 'schemas'\n"
        "load = lambda name: json.loads((at / name).read_text('utf-8'))\n"
        "whole, single = load('eval.schema.json'), load('instance_level_eval.schema.json')\n"
        "n = 0\n"
        "for path in sys.argv[1:]:\n"
        "    lines = open(path, encoding='utf-8').read()\n"
        "    rows = [json.loads(lines)] if path.endswith('.json') else [json.loads(l) for l in lines.splitlines()]\n"
        "    for row in rows:\n"
        "        V(whole if path.endswith('.json') else single).validate(row); n += 1\n"
        "print(n, whole['version'], single['version'])"
    )
    paths = [str(p) for p in written.rglob("*.json*")]
    done = subprocess.run([str(PUBLISHED), "-c", code, *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["122", "0.3.0", "0.3.0"]
