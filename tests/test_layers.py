"""The house's floors: a module imports only from floors below its own, and the walls stand."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "robustify"

FLOORS: list[set[str]] = [
    {"errors", "quiet", "stats", "orders", "text", "wordcodes", "cells", "__version__"},
    {"firewall", "item", "answers", "engines.base", "models", "gate", "worlds", "differences", "criteria",
     "voters", "places", "independence", "textfiles", "wordsearch"},
    {"views", "loaders", "engines", "features", "chance", "topics", "roll", "overlap", "odds", "wording"},
    {"cloze", "cues", "duplicates", "guardrails", "imports"},
    {"picks", "prior", "aflite", "position_bias"},
    {"ballot", "heuristics", "probe", "calibration", "engines.replay"},
    {"consensus", "accuracy", "variants", "stability", "contamination", "heads"},
    {"residual", "summary", "pairs", "noise", "free_scores", "engines.vectors"},
    {"sensitivity", "ask", "truth", "restricted"},
    {"judge", "freeform", "explain"},
    {"run", "report", "simulate"},
    {"export"},
    {"config"},
    {"printing", "proof"},
    {"restricted.printing", "restricted.tasks", "restricted.emitting"},
    {"pipeline", "importing", "exporting", "comparing"},
    {"cli", "planted"},
    {"__main__"},
]  # fmt: skip
# Within a package modules may import one another, but not in a circle.
JUDGE = {
    "answers", "stats", "consensus", "chance", "accuracy", "residual", "summary", "judge", "heuristics", "probe",
    "features", "cloze", "cues", "ballot", "duplicates", "sensitivity", "stability", "calibration", "topics", "guardrails",
    "report", "differences", "criteria", "voters", "places", "independence", "roll", "picks", "prior", "variants",
    "pairs", "noise", "contamination", "overlap", "wordcodes", "wordsearch", "textfiles", "heads", "aflite",
    "position_bias", "free_scores",
}  # fmt: skip
HEAVY = {"torch", "transformers", "accelerate", "gguf", "safetensors", "vllm", "ray", "openai"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__") or "__version__"


def place(module: str) -> str:
    named = {name for floor in FLOORS for name in floor}
    return module if module in named else module.split(".")[0]


def floor(module: str) -> int:
    found = [i for i, names in enumerate(FLOORS) if place(module) in names]
    assert found, f"robustify/{module.replace('.', '/')}.py stands on no floor: add it to FLOORS"
    return found[0]


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every imported module, and whether the import stands at the top level of the file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = {id(n) for n in tree.body}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield alias.name, id(node) in top
            case ast.ImportFrom(module=str(name)):
                held = [f"{name}.{a.name}" for a in node.names]
                submodules = [h for h in held if is_module(h)]
                for h in submodules or [name]:
                    yield h, id(node) in top


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def ours(name: str) -> str | None:
    if name == "robustify":
        return "__version__"
    return name.removeprefix("robustify.") if name.startswith("robustify.") else None


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_a_module_imports_only_from_floors_below(path: Path) -> None:
    here = dotted(path)
    for name, _ in imports(path):
        target = ours(name)
        if target is None or place(target) == place(here) or here.split(".")[0] == target.split(".")[0]:
            continue
        assert floor(target) < floor(here), (
            f"{here} (floor {floor(here)}) imports {target} (floor {floor(target)})"
        )


def test_no_two_modules_import_each_other_in_a_circle() -> None:
    graph = {
        dotted(p): {t for n, top in imports(p) if top and (t := ours(n)) is not None and t != dotted(p)}
        for p in modules()
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, f"circle: {' -> '.join((*trail, module))}"
        if module in done:
            return
        for target in sorted(graph.get(module, ())):
            visit(target, (*trail, module))
        done.add(module)

    for module in sorted(graph):
        visit(module, ())


@pytest.mark.parametrize("path", [p for p in modules() if place(dotted(p)) in JUDGE], ids=dotted)
def test_the_judge_side_imports_no_engine(path: Path) -> None:
    for name, _ in imports(path):
        assert name.split(".")[0] not in HEAVY, f"{dotted(path)} imports {name}"
        assert not (ours(name) or "").startswith(("engines", "ask", "models")), (
            f"{dotted(path)} imports {name}"
        )


def test_judging_a_table_loads_no_torch_and_no_pandas() -> None:
    code = (
        "import sys, robustify.judge, robustify.report; "
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
    lengths = {dotted(p): len(p.read_text(encoding="utf-8").splitlines()) for p in modules()}
    long = {name: n for name, n in lengths.items() if n > 400}
    assert not long, f"over 400 lines: {long}"
    assert sorted(lengths.values())[len(lengths) // 2] <= 150


def test_no_model_code_is_trusted_and_no_pickle_is_loaded() -> None:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "trust_remote_code":
                assert isinstance(node.value, ast.Constant), f"{dotted(path)}: trust_remote_code"
                assert node.value.value is False, f"{dotted(path)}: trust_remote_code"
        assert {n.split(".")[0] for n, _ in imports(path)}.isdisjoint(
            {"pickle", "dill", "joblib", "cloudpickle"}
        )
