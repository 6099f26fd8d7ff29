"""The tasks ask exactly our prompts, and lm-eval 0.4.13 loads and runs them offline."""

import importlib.util
import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from pyarrow import parquet

from robustify.base.settings_files import DATA_MODULE
from robustify.export.tasks import START, task_name, write_free_task, write_tasks
from robustify.export.writing import Heading
from robustify.freeform.free_grading import convert_items, grade, process_results
from robustify.items.item import Item, item_row
from robustify.items.orders import own
from robustify.items.views import NO_PASSAGE, View, template
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from robustify.runs.run import write_items
from robustify.runs.stored import split_items
from robustify.wings import GUARD
from tests.support.cases import cases, contents
from tests.support.exported_run import made_up
from tools.tasks import BY_HAND, ROOT, TEMPLATES, write_demo_tasks, write_templates
from tools.tasks import FOLDER as TASK_FOLDER

KEPT, FLAGGED, UNDECIDED = (
    tuple(Item(name, stem, tuple(choices), key, topic) for name, stem, choices, key, topic in rows)
    for rows in contents("export")["splits"].values()
)
SPLITS = {"kept": KEPT, "flagged": FLAGGED, "undecided": UNDECIDED, "cloze": (*KEPT, *FLAGGED)}
VIEW_OF: dict[str, View] = {
    **dict.fromkeys(("all", "kept", "flagged"), "full"), "kept_choices_only": "choices_only", "cloze": "cloze",
}  # fmt: skip

HEADING = Heading("Demo-benign", "set:demo|n:6", "passed")

# lm-eval is looked for in the Python that ROBUSTIFY_TEST_LM_EVAL_PYTHON names, and in this one.
LM_EVAL = os.environ.get("ROBUSTIFY_TEST_LM_EVAL_PYTHON") or sys.executable
HAS_LM_EVAL = sys.executable != LM_EVAL or importlib.util.find_spec("lm_eval") is not None
needs_lm_eval = pytest.mark.skipif(not HAS_LM_EVAL, reason="lm-eval is not installed")


def tasks_of(
    folder: Path, splits: Mapping[str, Sequence[Item]] = SPLITS, heading: Heading = HEADING
) -> dict[str, dict[str, Any]]:
    write_tasks(folder / "lm_eval_tasks", heading, splits)
    texts = {
        p.stem: p.read_text("utf-8")
        for p in (folder / "lm_eval_tasks").glob(f"{task_name(heading.benchmark, '*')}.yaml")
    }
    return {
        name.removeprefix(task_name(heading.benchmark, "")): yaml.safe_load(text.replace("!function ", ""))
        for name, text in texts.items()
    }


# Texts that a reader without declared types takes for something else, if all of a column are alike.
TYPED = contents("export")["typed"]


def typed(kind: str) -> dict[str, list[Item]]:
    stem, *choices = TYPED[kind]
    items = [Item(f"{at + 10}", stem.format(at + 1), (*choices, stem.format(7)), at % 3) for at in range(6)]
    return {"kept": items[:4], "flagged": items[4:], "undecided": [], "cloze": items}


ASKED = {name: SPLITS[name.removesuffix("_choices_only")] for name in VIEW_OF if name != "all"}
ASKED["all"] = (*KEPT, *FLAGGED, *UNDECIDED)


def test_every_split_of_a_run_that_has_items_has_its_task(tmp_path: Path) -> None:
    tasks = tasks_of(tmp_path)
    assert set(tasks) == set(VIEW_OF)
    names = tasks["all"]["dataset_kwargs"]["files"]
    assert [name.rsplit("_", 1)[0] for name in names] == [
        f"demo_benign_{split}" for split in ("kept", "flagged", "undecided")
    ]
    assert all((tmp_path / "lm_eval_tasks" / name).is_file() for name in names)
    assert [m["metric"] for m in tasks["cloze"]["metric_list"]] == ["acc", "acc_norm"]
    few = tasks_of(tmp_path / "few", {"kept": KEPT, "flagged": FLAGGED, "undecided": (), "cloze": ()})
    assert set(few) == {"all", "kept", "flagged", "kept_choices_only"}
    assert len(list((tmp_path / "few").rglob("*.parquet"))) == 2


@pytest.mark.parametrize(
    ("heading", "items"),
    [
        (Heading("Demo-malign", HEADING.signature, "passed"), KEPT),
        (Heading("Demo-benign", "set:demo|n:7", "passed"), KEPT),
        (HEADING, KEPT[:2]),
        (HEADING, (*KEPT[:2], replace(KEPT[2], stem="Which metal is liquid?"))),
    ],
)
def test_the_data_of_another_set_run_or_content_have_another_name(
    tmp_path: Path, heading: Heading, items: Sequence[Item]
) -> None:
    first, again, other = (
        {p.name for p in (tmp_path / folder).rglob("*.parquet")}
        for folder, head, held in (("a", HEADING, KEPT), ("b", HEADING, KEPT), ("c", heading, items))
        if tasks_of(tmp_path / folder, {"kept": held}, head)
    )
    assert first == again
    assert not first & other


def test_a_run_that_hid_the_passage_has_a_task_that_hides_it_too(tmp_path: Path) -> None:
    """The task hid the question, whatever the screen hid."""
    passage = "A lamp hangs in the hall.\n\n"
    items = [
        Item(f"p{at}", f"{passage} Where is lamp {at}?", ("the hall", "the attic"), at % 2, question_at=len(passage))
        for at in range(3)
    ]  # fmt: skip
    write_items(tmp_path / "kept.jsonl", [*items, *KEPT])
    kept = list(split_items(tmp_path / "kept.jsonl", GUARD))
    assert [item.question for item in kept[:3]] == [item.question for item in items]
    again = load(Source(path=str(tmp_path / "kept.jsonl")), UNGUARDED).items
    assert [(i.stem, i.question) for i in again] == [(i.stem, i.question) for i in kept]
    write_tasks(tmp_path / "tasks", HEADING, {"kept": kept, "cloze": kept}, "passage")
    text = (tmp_path / "tasks" / "demo_benign_kept_choices_only.yaml").read_text()
    tree = yaml.safe_load(text.replace("!function ", ""))
    (data,) = tree["dataset_kwargs"]["files"]
    rows = parquet.read_table(tmp_path / "tasks" / data).to_pylist()
    assert [row["id"] for row in rows] == [item.id for item in items]
    asked = template("choices_only", NO_PASSAGE)
    for row, item in zip(rows, items, strict=True):
        shown = tree["description"] + jinja2.Template(tree["doc_to_text"]).render(**row)
        assert shown == asked.requests(item, own(item.k))[0].context
        assert "hangs" not in shown


@pytest.mark.parametrize(("kind", "place"), zip(TYPED, ("a b", "a[1]", "a*b", "a::b", "a=1"), strict=True))
def test_every_text_is_read_as_it_is_in_any_folder(tmp_path: Path, kind: str, place: str) -> None:
    pytest.importorskip("datasets")
    folder, splits = tmp_path / place, typed(kind)
    tasks_of(tmp_path / "a other b", splits)
    for name, task in tasks_of(folder, splits).items():
        module = runpy.run_path(str(folder / "lm_eval_tasks" / DATA_MODULE))
        held = module["rows"](**task["dataset_kwargs"], version=1)
        expected = [item for split in name.split("_")[:1] for item in splits.get(split, splits["cloze"])]
        assert list(held["test"]) == [item_row(item) for item in expected]


def test_the_head_says_where_to_start_what_was_asked_and_what_to_beware_of(tmp_path: Path) -> None:
    write_tasks(tmp_path / "tasks", Heading("demo", "set:demo\nrun: evil", "FORCED\nall: {}"), SPLITS)
    for path in (tmp_path / "tasks").glob("*.yaml"):
        text = path.read_text("utf-8")
        head = [line for line in text.splitlines() if line.startswith("#")]
        digest = template(VIEW_OF[path.stem.removeprefix("demo_")]).digest
        assert START in text
        assert all(any(said in line for line in head) for said in ("run: FORCED", f"sha256 {digest}"))
        assert set(yaml.safe_load(text.replace("!function ", ""))) & {"run", "all"} == set()


def test_the_committed_tasks_are_what_the_program_writes(tmp_path: Path) -> None:
    write_templates(tmp_path)
    write_demo_tasks(tmp_path / "demo_benign")
    told = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*.yaml")}
    made = (p for p in TASK_FOLDER.rglob("*.yaml") if p.parent.name != BY_HAND)
    held = {p.relative_to(TASK_FOLDER): p.read_bytes() for p in made}
    assert set(told) == set(held), "renew: python -m tools.tasks"
    assert told == held, "renew: python -m tools.tasks"


@pytest.mark.parametrize(("reply", "expected"), cases("export", "graded"))
def test_a_reply_is_graded_as_our_graders_grade_it(reply: str, expected: dict[str, float]) -> None:
    row = convert_items(made_up()).rows[0]
    other = row["choices"][(row["key"] + 1) % len(row["choices"])]
    said = reply.format(right=row["reference"], other=other)
    assert process_results(row, [said]) == expected
    assert (grade(row, said).score is None) == (not expected["decided"])


@pytest.fixture(scope="module")
def dummy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder after lm-eval's dummy model was asked every task, those of lm_eval_tasks/ among them."""
    folder = tmp_path_factory.mktemp("run")
    tasks = folder / "lm_eval_tasks"
    tasks_of(folder)
    write_free_task(tasks, HEADING, convert_items(made_up()))
    for name in TEMPLATES:
        shutil.copy(TASK_FOLDER / f"{name}.yaml", tasks)
    names = [*(task_name("Demo-benign", name) for name in ("robustify", "kept_free_graded")), *TEMPLATES]
    lm_eval(folder, "--model", "dummy", tasks=names)
    return folder


Asked = list[tuple[str, list[tuple[str, str]], int]]
"""The ID, the requests (context and continuation), and the key of each item."""


def theirs(folder: Path, task: str) -> Asked:
    return [
        (row["doc"]["id"], [(r["arg_0"], r["arg_1"]) for r in row["arguments"].values()], int(row["target"]))
        for row in logged(folder, task)
    ]


def ours(name: str, items: Sequence[Item]) -> Asked:
    asked = template(VIEW_OF[name])
    return [
        (item.id, [(r.context, r.continuation) for r in asked.requests(item, own(item.k))], item.key)
        for item in items
    ]


@pytest.mark.slow
@needs_lm_eval
@pytest.mark.parametrize("name", sorted(VIEW_OF))
def test_lm_eval_asks_the_prompts_that_we_ask(dummy: Path, name: str) -> None:
    assert theirs(dummy, task_name("Demo-benign", name)) == ours(name, ASKED[name])


@pytest.mark.slow
@needs_lm_eval
@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_the_templates_for_any_run_ask_what_its_own_tasks_ask(dummy: Path, name: str) -> None:
    own_task = task_name("Demo-benign", TEMPLATES[name][0])
    told = [[(row["arguments"], row["target"]) for row in logged(dummy, task)] for task in (name, own_task)]
    assert told[0] == told[1]
    assert told[0]


@pytest.mark.slow
@needs_lm_eval
def test_the_free_task_shows_no_choice_and_undecided_replies_are_not_wrong(dummy: Path) -> None:
    items = {i.id: i for i in made_up()}
    asked = convert_items(made_up()).rows
    name = task_name("Demo-benign", "kept_free_graded")
    rows = list(logged(dummy, name))
    assert [row["doc"]["id"] for row in rows] == [row["id"] for row in asked]
    for row, ours in zip(rows, asked, strict=True):
        prompt = row["arguments"]["gen_args_0"]["arg_0"]
        assert prompt == ours["prompt"]
        assert not any(choice in prompt for choice in items[ours["id"]].choices)
    # The dummy says "lol": no rule can tell that this is wrong.
    graded = json.loads(next((dummy / "out").rglob("results_*.json")).read_text("utf-8"))["results"][name]
    assert (graded["decided,none"], graded["acc_low,none"], graded["acc_high,none"]) == (0, 0, 1)
    assert "acc,none" not in graded


def lm_eval(folder: Path, *arguments: str, tasks: Sequence[str] = ("demo_benign_robustify",)) -> None:
    """Run tasks as their head says: from the run's folder, with no network."""
    offline = {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(folder / ".datasets"),
    }
    env = {**os.environ, **offline, "PYTHONPATH": str(ROOT)}
    command = ["run", "--include_path", "lm_eval_tasks", "--output_path", "out", "--tasks", ",".join(tasks)]
    command = [LM_EVAL, "-m", "lm_eval", *command, "--log_samples", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def logged(folder: Path, task: str) -> Iterator[dict[str, Any]]:
    """The rows that lm-eval logged for a task, in the order of the items."""
    paths = list((folder / "out").rglob(f"samples_{task}_2*.jsonl"))
    assert len(paths) == 1, paths
    rows = [json.loads(line) for line in paths[0].read_text("utf-8").splitlines()]
    yield from sorted(rows, key=lambda row: row["doc_id"])
