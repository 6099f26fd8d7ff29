"""The house's floors: a module imports only from floors below its own, and the walls stand."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

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
    {"wings"},
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


@pytest.mark.parametrize(("code", "heavy"), LIGHT.values(), ids=LIGHT)
def test_what_is_small_loads_nothing_heavy(code: str, heavy: set[str], tmp_path: Path) -> None:
    rows = "".join(f"Which box is number {n}?,red {n},blue {n},{'AB'[n % 2]}\n" for n in range(60))
    (tmp_path / "small.csv").write_text(f"question,A,B,answer\n{rows}")
    whole = f"import sys\n{code}\nprint(sorted({heavy!r} & {{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", whole], cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stdout[-300:] + done.stderr


MOST_MODULES, MOST_OF_WINGS = 142, 6
"""Modules with code that a plain audit may import, in all and of wings. The goal is 115 in all."""


def test_a_plain_audit_imports_of_wings_only_recognition(tmp_path: Path) -> None:
    rows = "".join(f"Which box is number {n}?,red {n},blue {n},{'AB'[n % 2]}\n" for n in range(60))
    (tmp_path / "small.csv").write_text(f"question,A,B,answer\n{rows}")
    run = COMMAND.format(["small.csv", "--public", "-o", "out", "-q"])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{run}\nprint(*sys.modules)"], cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "ROBUSTIFY_CACHE": str(tmp_path)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    imported = {name for name in done.stdout.split() if name in MODULES}
    coded = {name for name in imported if len(house.parsed(MODULES[name]).body) > 1}
    assert coded, done.stderr
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
