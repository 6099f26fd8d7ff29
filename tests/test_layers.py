"""The house's floors: a module imports only from floors below its own, the walls stand, and every loader, import, and
opening of a run requires a guard, so that no door can forget recognition."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import AuthorisationError
from robustify.composing.candidates import read_candidates
from robustify.freeform import questions
from robustify.items.item import Item
from robustify.pipeline import compared_logs, from_logs, linted_logs, public
from robustify.reading import loaders
from robustify.reading.guard import UNGUARDED
from robustify.report.compare import compared
from robustify.report.dashboard import dashboard_html
from robustify.runs import run, stored
from tests.support.fake_logs import jsonl
from tools import house

ROOT = Path(__file__).parent.parent
MODULES = house.modules(ROOT)

WINGS = {"gate", "restricted", "freeform", "composing"}
"""Rooms that the core does not import. Of wings, only `restricted` may import `gate`, which it no longer needs."""
FLOORS: list[set[str]] = [
    {"__version__", "base"},
    {"items"},
    {"reading", "models"},
    {"judging"},
    {"runs"},
    {"report"},
    {"export"},
    {"pipeline"},
    WINGS,
    {"wings", "in_memory"},
    {"api", "inspect_extension"},
    {"cli", "__main__"},
]
"""Rooms and the files at the top. A room imports from floors below, and rooms form no circle."""
AMONG_EQUALS = {("models", "reading"), ("__main__", "cli")}
"""Imports within a floor: engines read the marks of replies."""
JUDGE = {"items", "judging", "report"}
HEAVY = {"torch", "transformers", "accelerate", "gguf", "safetensors", "ray", "openai"}


def floor(place: str) -> int:
    found = [i for i, names in enumerate(FLOORS) if place in names]
    assert found, f"robustify/{place} stands on no floor: add it to FLOORS"
    return found[0]


@pytest.mark.parametrize("here", sorted(set().union(*FLOORS)))
def test_a_room_imports_only_from_floors_below(here: str) -> None:
    others = sorted(t for t in house.folder_graph(ROOT)[here] if floor(t) >= floor(here))
    assert not [t for t in others if (here, t) not in AMONG_EQUALS], f"{here} imports {', '.join(others)}"


def test_every_place_stands_on_a_floor_and_no_two_import_each_other() -> None:
    assert set().union(*FLOORS) == set(house.folder_graph(ROOT))
    assert not house.knots(house.folder_graph(ROOT))
    assert not house.knots(house.graph(ROOT, top_only=True))


def test_the_judge_side_imports_no_engine() -> None:
    for name in (n for n in MODULES if house.place(n) in JUDGE):
        for target, _ in house.imported(MODULES[name], MODULES):
            assert target.split(".")[0] not in HEAVY, f"{name} imports {target}"
            # The report words a forecast, whose module it imports for its types alone.
            asks = target.startswith("robustify.models") and target != "robustify.models.forecast"
            assert not asks, f"{name} imports {target}"


COMMAND = """
sys.argv = ["robustify", *{!r}]
from robustify import cli
try:
    cli.main()
except SystemExit as ended:
    assert not ended.code, ended.code
"""
LIBRARIES = {"torch", "transformers", "pandas", "numpy", "pyarrow", "scipy", "sklearn", "pydantic"}
LIGHT: dict[str, tuple[str, set[str]]] = {
    "judging a table": ("import robustify.judging.run_numbers, robustify.report", {"torch", "transformers", "pandas"}),
    "importing": ("import robustify as rb; rb.audit", {"torch", "transformers", "pandas"}),
    "help": (COMMAND.format(["--help"]), LIBRARIES),
    "help of free": (COMMAND.format(["free", "--help"]), LIBRARIES | {"jinja2", "yaml"}),
    "validate": (COMMAND.format(["validate", "small.csv", "-q"]), LIBRARIES - {"numpy", "pydantic"} | {"jinja2"}),
    # Copies are sought with sparse matrices.
    "heuristics": (COMMAND.format(["heuristics", "small.csv", "-q"]),
                   LIBRARIES - {"numpy", "pydantic", "scipy"} | {"jinja2"}),
    # Keys and options of this file are even, so nothing is tested.
    "lint": (COMMAND.format(["lint", "small.csv", "-q"]), LIBRARIES - {"pydantic"} | {"jinja2"}),
    "a scan of the gate": ("from robustify.gate.command import run_gate; run_gate(['small.csv'])",
                           LIBRARIES | {"click", "yaml", "zipfile", "tarfile", "asyncio"}),
}  # fmt: skip
"""What is small and must say its first word in a moment, and what it must not load."""


def modules_after(code: str, folder: Path) -> tuple[set[str], str]:
    """Return the modules that are loaded after this code in a folder with a small file, and what it printed."""
    rows = "".join(f"Which box is number {n}?,red {n},blue {n},{'AB'[n % 2]}\n" for n in range(60))
    (folder / "small.csv").write_text(f"question,A,B,answer\n{rows}")
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"]
    env = {"PYTHONPATH": str(ROOT), "PATH": "", "ROBUSTIFY_CACHE": str(folder)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return set("".join(done.stdout.splitlines()[-1:]).split()), done.stdout[-300:] + done.stderr


@pytest.mark.parametrize(("code", "heavy"), LIGHT.values(), ids=LIGHT)
def test_what_is_small_loads_nothing_heavy(code: str, heavy: set[str], tmp_path: Path) -> None:
    loaded, done = modules_after(code, tmp_path)
    assert loaded, done
    assert not heavy & {name.split(".")[0] for name in loaded}, done


MOST_MODULES, MOST_OF_WINGS = 117, 7
"""Modules with code that a plain audit may import, in all and of wings."""


def test_a_plain_audit_imports_of_wings_only_recognition(tmp_path: Path) -> None:
    loaded, done = modules_after(COMMAND.format(["small.csv", "--public", "-o", "out", "-q"]), tmp_path)
    imported = loaded & MODULES.keys()
    coded = {name for name in imported if len(house.parsed(MODULES[name]).body) > 1}
    assert coded, done
    of_wings = {name for name in imported if house.place(name) in WINGS}
    assert {house.place(name) for name in of_wings} == {"restricted"}
    assert len(of_wings) <= MOST_OF_WINGS, sorted(of_wings)
    assert len(coded) <= MOST_MODULES, len(coded)


def test_modules_stay_small() -> None:
    lengths = {name: len(p.read_text(encoding="utf-8").splitlines()) for name, p in MODULES.items()}
    long = {name: n for name, n in lengths.items() if n > 400}
    assert not long, f"over 400 lines: {long}"
    # A module has one idea in 100 to 300 lines; neighbours under that are merged.
    assert sorted(lengths.values())[len(lengths) // 2] <= 225


def test_no_model_code_is_trusted_and_no_pickle_is_loaded() -> None:
    for name, path in MODULES.items():
        for node in ast.walk(house.parsed(path)):
            if isinstance(node, ast.keyword) and node.arg == "trust_remote_code":
                assert isinstance(node.value, ast.Constant), f"{name}: trust_remote_code"
                assert node.value.value is False, f"{name}: trust_remote_code"
        roots = {target.split(".")[0] for target, _ in house.imported(path, MODULES)}
        assert roots.isdisjoint({"pickle", "dill", "joblib", "cloudpickle"})


DOORS: tuple[Callable[..., Any], ...] = (
    loaders.load, loaders.load_many, run.Run, run.open_run, run.refuse_other, stored.split_items,
    from_logs.run_of_logs, compared_logs.runs_of_logs, linted_logs.as_log, public.PublicPolicy, public.judged_run,
    compared, dashboard_html, questions.read_items, questions.read_rows, questions.read_nugget_rows, read_candidates,
)  # fmt: skip
UNGUARDED_USERS = {
    "robustify.reading.guard": "defines it",
    "robustify.restricted.access": "requirements of a restricted set are met, or the signs of a set are listed",
    "robustify.export.mending": "a file that was just written is read back",
}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__qualname__)
def test_a_door_requires_its_guard(door: Callable[..., Any]) -> None:
    assert inspect.signature(door).parameters["guard"].default is inspect.Parameter.empty


def test_only_listed_modules_use_the_guard_that_accepts_every_file() -> None:
    users = {
        name
        for name, path in MODULES.items()
        for node in ast.walk(house.parsed(path))
        if isinstance(node, ast.Name | ast.Attribute | ast.alias)
        and "UNGUARDED" in (getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", ""))
    }
    assert users == UNGUARDED_USERS.keys()


def test_no_function_of_the_house_has_a_guard_with_a_default() -> None:
    defaults = [
        f"{path.name}:{node.lineno}"
        for path in MODULES.values()
        for node in ast.walk(house.parsed(path))
        if isinstance(node, ast.FunctionDef)
        for argument, default in _defaults(node.args)
        if argument == "guard" and default is not None
    ]
    assert not defaults


def _defaults(arguments: ast.arguments) -> list[tuple[str, ast.expr | None]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = [None] * (len(positional) - len(arguments.defaults))
    names = [argument.arg for argument in (*positional, *arguments.kwonlyargs)]
    return list(zip(names, [*missing, *arguments.defaults, *arguments.kw_defaults], strict=True))


class _Refusing:
    """Guard that refuses everything."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        def refuse(*_: object, **__: object) -> None:
            raise AuthorisationError(name, code="refused-by-test")

        return refuse


ROWS = [
    {"id": f"i{n}", "question": f"Which box is number {n}?", "answer": "one", "type": "mcq", "options": ["one", "two"],
     "query": f"Which box is number {n}?", "passage": "The first.", "nuggets": ["It is the first."], "prediction": "one"}
    for n in range(4)
]  # fmt: skip
ITEMS = [
    {"id": f"i{n}", "stem": f"Box {n}?", "choices": ["one", "two"], "key": 0, "topic": ""} for n in range(4)
]
READERS: dict[str, tuple[list[dict[str, Any]], Callable[[Path, Any], object]]] = {
    "a file of items": (ITEMS, lambda path, guard: loaders.load(loaders.Source(path=str(path)), guard)),
    "a split of a run": (ITEMS, lambda path, guard: list(stored.split_items(path, guard))),
    "free-response rows": (ROWS, lambda path, guard: questions.read_rows([path], None, guard)),
    "nuggets": (ROWS, questions.read_nugget_rows),
    "candidates": (ITEMS, lambda path, guard: read_candidates(
        [Item("i0", "Box 0?", ("one", "two"), 0)], [loaders.Source(path=str(path))], guard)),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "read"), READERS.values(), ids=READERS)
def test_what_the_guard_refuses_is_not_read(
    rows: list[dict[str, Any]], read: Callable[[Path, Any], object], tmp_path: Path
) -> None:
    path = jsonl(tmp_path / "rows.jsonl", rows)
    read(path, UNGUARDED)
    with pytest.raises(AuthorisationError) as refused:
        read(path, _Refusing())
    assert refused.value.code == "refused-by-test"
