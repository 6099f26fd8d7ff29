"""Our splits as Inspect tasks, and our solvers and scorer: real inspect-ai runs them, and its logs come back as what the
model said. inspect-ai is looked for in this Python and in the one that ROBUSTIFY_TEST_INSPECT_PYTHON names."""

import ast
import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tomllib

from robustify.export.tasks import export_inspect, write_inspect
from robustify.export.writing import Heading
from robustify.items.item import Item
from robustify.pipeline.from_logs import run_of_logs
from robustify.reading.logs import LogPath
from robustify.runs.run import Run, write_items
from robustify.runs.stored import split_items
from robustify.wings import GUARD, free_rows
from tests.support.exported_run import lines, made_up
from tests.support.trees import measured

INSPECT = os.environ.get("ROBUSTIFY_TEST_INSPECT_PYTHON") or (
    sys.executable if importlib.util.find_spec("inspect_ai") else None
)
needs_inspect = pytest.mark.skipif(
    INSPECT is None,
    reason="inspect-ai is not here (ROBUSTIFY_TEST_INSPECT_PYTHON names a Python that has it)",
)
ROOT = Path(__file__).parents[2]


def by_inspect(test: Any) -> Any:
    """Mark a test as one that real inspect-ai runs."""
    return needs_inspect(pytest.mark.proof(pytest.mark.oracle(test)))


@pytest.fixture(scope="module")
def folder(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("inspect") / "out"
    export_inspect(run, place, free_rows)
    return place


def test_every_split_with_items_has_a_file_with_its_data_beside_it(folder: Path, run: Run) -> None:
    splits = ("kept", "flagged", "undecided")
    assert {p.name for p in folder.iterdir()} == {
        f"{name}.{ending}" for name in (*splits, "kept_free") for ending in ("py", "jsonl")
    }
    for name in splits:
        assert (folder / f"{name}.jsonl").read_bytes() == (run.folder / f"{name}.jsonl").read_bytes()


def test_the_code_is_python_that_holds_no_text_of_an_item(folder: Path, run: Run) -> None:
    for path in folder.glob("*.py"):
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        names = [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        assert path.stem in names
        assert all(len(line) <= 120 for line in text.splitlines() if not line.startswith("#")), path.name
        assert not any(c in text for i in run.items or () for c in (i.stem, *i.choices) if len(c) > 4)


@pytest.mark.parametrize("name", ['x"\nimport os', "'''", "x\\", "{{ 7 }}"])
def test_no_name_gets_into_the_code(tmp_path: Path, name: str) -> None:
    heading = Heading(name, f"{name}\nraise SystemExit", f"{name}\rraise SystemExit")
    write_inspect(tmp_path, heading, {"kept": made_up(8)}, free_rows)
    for path in tmp_path.glob("*.py"):
        kinds = {type(node) for node in ast.parse(path.read_text("utf-8")).body}
        assert kinds <= {ast.Expr, ast.Import, ast.ImportFrom, ast.Try, ast.Assign, ast.FunctionDef}
        assert "import os" not in [ast.unparse(node) for node in ast.parse(path.read_text("utf-8")).body]


UNREADABLE = "It may be any of them."


def wanted(items: Sequence[Item]) -> dict[str, int | None]:
    """A pick for every item: every place in turn, and every seventh reply cannot be read."""
    return {i.id: None if at % 7 == 3 else (3 * at + at // 5) % i.k for at, i in enumerate(items)}


def sayings(items: Sequence[Item], *, blind: bool = False) -> list[list[Any]]:
    picks = [
        pick if pick is None else i.choices[pick]
        for i, pick in zip(items, wanted(items).values(), strict=True)
    ]
    asked = [list(i.choices) if blind else [i.stem] for i in items]
    return [[needles, said, UNREADABLE] for needles, said in zip(asked, picks, strict=True)]


FREE_REPLIES = ("right", "other", "number", "undecided", "right, cut off", "other, cut off")
DECIDED = FREE_REPLIES[:3]


def free_kind(at: int) -> str:
    return FREE_REPLIES[at % len(FREE_REPLIES)]


def free_sayings(rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
    said = []
    for at, row in enumerate(rows):
        other = row["choices"][(row["key"] + 1) % len(row["choices"])]
        reply = {
            "right": f"It is {row['reference']}.",
            "other": other,
            "number": row["reference"],
            "undecided": "Something else entirely.",
            "right, cut off": f"It is {row['reference']}. [cut off]",
            "other, cut off": f"{other} [cut off]",
        }[free_kind(at)]
        said.append([[row["prompt"]], None, reply])
    return said


@pytest.fixture(scope="module")
def told(folder: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What real inspect-ai made of the exported tasks: plain, shuffled, without question, in words."""
    items = list(split_items(run.folder / "kept.jsonl", GUARD))
    says, blind = sayings(items), sayings(items, blind=True)
    kept = {"file": str(folder / "kept.py"), "task": "kept"}
    free = {"file": str(folder / "kept_free.py"), "task": "kept_free"}
    plan = [
        {**kept, "says": says, "format": "json"},
        {**kept, "says": says, "format": "json", "args": {"seed": 7}},
        {**kept, "says": blind, "format": "json", "args": {"choices_only": True, "seed": 3}},
        {**free, "says": free_sayings(lines(folder / "kept_free.jsonl")), "format": "json"},
    ]
    place = tmp_path_factory.mktemp("logs")
    (place / "plan.json").write_text(json.dumps(plan))
    return asked(place / "plan.json", place, with_robustify=True)


def asked(
    plan: Path, place: Path, *, with_robustify: bool, path: Sequence[Path] = (), ends: bool = True
) -> list[dict[str, Any]]:
    """What Inspect made of the plan; `path` is looked into before the checkout, `ends`: every task must end well."""
    places = os.pathsep.join(map(str, (*path, ROOT)))
    env = {**os.environ, "PYTHONPATH": places, "HF_HUB_OFFLINE": "1", "INSPECT_DISPLAY": "none"}
    script = Path(__file__).parents[1] / "support" / "inspect_mock.py"
    command = [
        str(INSPECT),
        *map(str, (script, plan, place / "logs")),
        *["without-robustify"] * (not with_robustify),
    ]
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=place)
    assert done.returncode == 0, done.stderr[-3000:]
    told = list(json.loads(done.stdout.splitlines()[-1]))
    assert not ends or [one["status"] for one in told] == ["success"] * len(told), told
    return told


@by_inspect
@pytest.mark.parametrize(
    ("at", "view"), [(0, "full"), (1, "full"), (2, "choices_only")], ids=["plain", "shuffled", "blind"]
)
def test_what_inspect_logs_comes_back_as_what_the_model_said(
    told: list[dict[str, Any]], run: Run, tmp_path: Path, at: int, view: str
) -> None:
    log = told[at]
    items = {i.id: i for i in split_items(run.folder / "kept.jsonl", GUARD)}
    picks = wanted(list(items.values()))
    given = LogPath(Path(log["log"]), view="choices_only" if view == "choices_only" else None)
    back = run_of_logs([given], tmp_path / "back", GUARD, data=[run.folder / "kept.jsonl"])
    rows = {r["item"]: r for r in back.answers.table.to_pylist() if r["model"] == "mockllm/model"}
    assert {name: row["pick"] for name, row in rows.items()} == picks
    assert {row["view"] for row in rows.values()} == {view}
    right = [pick == items[name].key for name, pick in picks.items() if pick is not None]
    accuracy = measured(back.summary, view, "mockllm/model")["all"]
    assert (accuracy["value"], accuracy["n"]) == (pytest.approx(sum(right) / len(right)), len(right))
    # Inspect counts a reply that cannot be read as wrong; the number of right ones is the same.
    assert log["accuracy"] * log["scored"] == pytest.approx(sum(right))
    orders = {tuple(row["order"]) for row in rows.values()}
    assert (orders == {tuple(range(k)) for k in range(2, 6)}) == (at < 1)


@by_inspect
def test_replies_in_words_are_graded_with_coverage_and_bounds(
    told: list[dict[str, Any]], folder: Path
) -> None:
    rows = lines(folder / "kept_free.jsonl")
    decided = sum(free_kind(at) in DECIDED for at in range(len(rows)))
    right = sum(free_kind(at) in ("right", "number") for at in range(len(rows)))
    log = told[3]
    found = {measure: metrics["mean"] for measure, metrics in log["measures"].items()}
    # A reply that was cut off is undecided, also where it is right so far.
    assert found == {
        "accuracy": pytest.approx(right / decided),
        "coverage": pytest.approx(decided / len(rows)),
        "low": pytest.approx(right / len(rows)),
        "high": pytest.approx((right + len(rows) - decided) / len(rows)),
    }
    assert (log["unscored"], log["scored"]) == (len(rows) - decided, decided)
    assert not any(choice in prompt for prompt in log["asked"] for row in rows for choice in row["choices"])


ENTRY = {"robustify": "robustify.inspect_extension"}
KINDS = ("right", "wrong", "place", "unreadable")


def kind(at: int) -> str:
    return KINDS[at % 4]


def sayings_by_kind(items: list[Item], *, blind: bool = False) -> list[list[Any]]:
    """A model that knows, one that is wrong, one that always says A, one that nobody can read."""
    said = []
    for at, i in enumerate(items):
        wanted = {"right": i.choices[i.key], "wrong": i.choices[(i.key + 1) % i.k]}.get(kind(at))
        reply = "ANSWER: A" if kind(at) == "place" else UNREADABLE
        said.append([list(i.choices) if blind else [i.stem], wanted, reply])
    return said


@pytest.fixture(scope="module")
def known(run: Run, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What Inspect says of one task over all items, under each solver."""
    place = tmp_path_factory.mktemp("extension")
    items = list(run.items or ())
    write_items(place / "kept.jsonl", items)
    (place / "kept.py").write_text((folder / "kept.py").read_text("utf-8"))
    # The entry point as an installed package has it; the wheel's own is that of pyproject.toml.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    entry = project.get("entry-points", {}).get("inspect_ai", ENTRY)
    assert entry == ENTRY
    info = place / "robustify_entry-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: robustify-entry\nVersion: 0\n")
    (info / "entry_points.txt").write_text(f"[inspect_ai]\nrobustify = {entry['robustify']}\n")
    task = {"file": str(place / "kept.py"), "task": "kept", "format": "eval", "says": sayings_by_kind(items)}
    later = {"score": False, "scorer": "robustify/picked"}
    blind = {**task, "says": sayings_by_kind(items, blind=True)}
    plans = {
        "plain": {**task, **later},
        "permute": {**task, **later, "solver": "robustify/permute"},
        "spread": {**task, **later, "solver": "robustify/permute", "solver_args": {"orders": "spread", "n": 3}},
        "own scorer": {**task, "solver": "robustify/permute"},
        "choices only": {**blind, **later, "solver": "robustify/choices_only", "solver_args": {"orders": "own"}},
    }  # fmt: skip
    (place / "plan.json").write_text(json.dumps(list(plans.values())))
    found = asked(place / "plan.json", place, with_robustify=True, path=[place], ends=False)
    return dict(zip(plans, found, strict=True))


def right_of(items: list[Item], at: int, rotations: int) -> float:
    """Right answers of one sample, as a share of its orders; an answer that is always A is right once in a turn."""
    return {"right": 1.0, "wrong": 0.0, "place": 1 / items[at].k if rotations else float(items[at].key == 0)}[
        kind(at)
    ]


@by_inspect
@pytest.mark.parametrize(("name", "rotations"), [("plain", 0), ("permute", 1), ("choices only", 0)])
def test_coverage_and_bounds_stand_beside_the_accuracy(
    known: dict[str, dict[str, Any]], run: Run, name: str, rotations: int
) -> None:
    items = list(run.items or ())
    read = [at for at in range(len(items)) if kind(at) != "unreadable"]
    right = sum(right_of(items, at, rotations) for at in read)
    found = {measure: metrics["mean"] for measure, metrics in known[name]["measures"].items()}
    assert found["coverage"] == pytest.approx(len(read) / len(items))
    assert found["accuracy"] == pytest.approx(right / len(read))
    assert found["low"] == pytest.approx(right / len(items))
    assert found["high"] == pytest.approx((right + len(items) - len(read)) / len(items))


@by_inspect
def test_every_item_is_asked_in_every_rotation(known: dict[str, dict[str, Any]], run: Run) -> None:
    items = list(run.items or ())
    assert len(known["permute"]["asked"]) == sum(i.k for i in items)
    assert len(set(known["permute"]["asked"])) == sum(i.k for i in items)
    assert len(known["spread"]["asked"]) == sum(min(3, math.factorial(i.k)) for i in items)


@by_inspect
def test_inspect_s_own_scorer_takes_the_most_frequent_pick(
    known: dict[str, dict[str, Any]], run: Run
) -> None:
    n = len(run.items or ())
    knows = sum(kind(at) == "right" for at in range(n))
    always_a = sum(kind(at) == "place" for at in range(n))
    assert knows / n <= known["own scorer"]["accuracy"] <= (knows + always_a) / n


@by_inspect
def test_without_the_question_no_stem_is_asked(known: dict[str, dict[str, Any]], run: Run) -> None:
    items = run.items or ()
    assert len(known["choices only"]["asked"]) == len(items)
    assert not any(i.stem in prompt for prompt in known["choices only"]["asked"] for i in items)
