"""The house's floors: a module imports only from floors below its own, and the walls stand."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tools import house

ROOT = Path(__file__).parent.parent
MODULES = house.modules(ROOT)

FLOORS: list[set[str]] = [
    {"__version__", "arrays", "errors", "files", "orders", "redaction", "settings_files", "stats"},
    {"item", "answers", "views", "scoring", "models"},
    {"loaders", "engines", "gate", "ngrams"},
    {"logs", "baselines", "screen"},
    {"summary", "judge"},
    {"restricted", "disclosure", "ask", "freeform"},
    {"run", "report", "export"},
    {"config", "writers", "pipeline"},
    {"api", "cli", "__main__"},
]
"""Folders and single modules; a floor imports from itself and from floors below, and folders form no circle."""
JUDGE = {
    "answers",
    "arrays",
    "baselines",
    "judge",
    "ngrams",
    "orders",
    "report",
    "scoring",
    "screen",
    "stats",
    "summary",
}
HEAVY = {"torch", "transformers", "accelerate", "gguf", "safetensors", "vllm", "ray", "openai"}


def floor(place: str) -> int:
    found = [i for i, names in enumerate(FLOORS) if place in names]
    assert found, f"robustify/{place} stands on no floor: add it to FLOORS"
    return found[0]


@pytest.mark.parametrize("here", sorted(set().union(*FLOORS)))
def test_a_folder_imports_only_from_its_floor_and_below(here: str) -> None:
    above = sorted(t for t in house.folder_graph(ROOT)[here] if floor(t) > floor(here))
    assert not above, f"{here} (floor {floor(here)}) imports {', '.join(above)}"


def test_every_place_stands_on_a_floor_and_no_floor_has_another() -> None:
    assert set().union(*FLOORS) == set(house.folder_graph(ROOT))


def test_no_two_folders_and_no_two_files_import_each_other() -> None:
    assert not house.knots(house.folder_graph(ROOT))
    assert not house.knots(house.graph(ROOT, top_only=True))


@pytest.mark.parametrize("name", [n for n in MODULES if house.place(n) in JUDGE])
def test_the_judge_side_imports_no_engine(name: str) -> None:
    for target, _ in house.imported(MODULES[name], MODULES):
        assert target.split(".")[0] not in HEAVY, f"{name} imports {target}"
        # The report words a forecast, whose module it imports for its types alone.
        asks = target == "robustify.ask" or target.startswith(("robustify.engines", "robustify.models"))
        assert not asks, f"{name} imports {target}"


def test_judging_a_table_loads_no_torch_and_no_pandas() -> None:
    code = (
        "import sys, robustify.judge.judgement, robustify.report; "
        "print(sorted({'torch', 'transformers', 'pandas'} & {m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from robustify.cli import cli; "
        "r = CliRunner().invoke(cli, ['--help']); assert r.exit_code == 0, r.output; "
        "print(sorted({'torch', 'transformers', 'pandas', 'numpy', 'pyarrow', 'scipy', 'sklearn', 'pydantic'}"
        " & {m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


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
