"""Whether the tests notice faults: a random sample of small faults, each put into a copy of the tree, its tests run.

`python -m tools.mutation [PART ...]` writes results/bench/mutation.json. The faults are those of cosmic-ray's operators,
one at each of the places that the seed draws. Left out: annotations and decorators, which do nothing when the program runs,
and operators of another family (`<<` for a `+` of floats), which only raise. A fault is killed only if a test fails: what
cannot be imported or runs too long is counted apart. What was found of a survivor (`judged`) stays from run to run.
"""

import ast
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

from robustify.stats.intervals import wilson

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "bench" / "mutation.json"
SEED, DRAWN = 15, 45
OPERATORS = OperatorProvider()
# By pytest's exit code. Any other: the tests were not collected, because the changed file cannot be imported.
ENDS = {0: "survived", 1: "killed", None: "timed_out"}
PARTS = {
    "stats": ("robustify/stats", "tests/stats tests/judge/test_pairs.py"),
    "consensus": (
        "robustify/screen/consensus.py",
        "tests/screen/test_consensus.py tests/screen/test_ranking.py tests/screen/test_chance.py",
    ),
    "chance": ("robustify/screen/chance.py", "tests/screen/test_chance.py"),
    # Without test_release_run.py, whose whole audits would take minutes for each fault.
    "disclosure": (
        "robustify/disclosure",
        "tests/disclosure/test_release_levels.py tests/disclosure/test_remade.py tests/disclosure/test_ledger.py"
        " tests/export/test_split_files.py",
    ),
}
_WORDS = "Add Sub Mul Div FloorDiv Mod Pow|BitOr BitAnd BitXor|Eq NotEq Lt LtE Gt GtE|Is IsNot|In NotIn|USub UAdd Delete"
FAMILIES = [set(words.split()) for words in f"{_WORDS}|Invert Delete|Not Delete".split("|")]


class Mutant(NamedTuple):
    """A fault: what an operator makes of the `occurrence`-th place of a file where it can be applied."""

    file: str
    line: int
    column: int
    operator: str
    occurrence: int

    def code(self) -> str:
        source = (ROOT / self.file).read_text(encoding="utf-8")
        return str(mutate_code(source, OPERATORS[self.operator](), self.occurrence))


def declared(source: str) -> set[tuple[int, int]]:
    """Where annotations and decorators stand, by line and column."""
    out = set()
    for node in ast.walk(ast.parse(source)):
        heads = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        for head in filter(None, [*heads, *getattr(node, "decorator_list", [])]):
            last = (head.end_col_offset or 0) if head.lineno == head.end_lineno else 200
            out |= {(head.lineno, column) for column in range(head.col_offset - 1, last)}
    return out


def drawn(where: str) -> list[Mutant]:
    """One fault at each of the places that the seed draws."""
    found: dict[tuple[str, int, int], list[Mutant]] = defaultdict(list)
    for file in [ROOT / where] if where.endswith(".py") else sorted((ROOT / where).glob("*.py")):
        source, name = file.read_text(encoding="utf-8"), str(file.relative_to(ROOT))
        nodes, left_out = list(ast_nodes(get_ast(source))), declared(source)
        for operator in OPERATORS:
            change = set(operator.split("_")[1:])
            # Those with arguments need names to be given.
            if OPERATORS[operator].arguments() or (change and not any(change <= one for one in FAMILIES)):
                continue
            places = [at for node in nodes for at, _ in OPERATORS[operator]().mutation_positions(node)]
            for occurrence, at in enumerate(places):
                if at not in left_out:
                    found[(name, *at)].append(Mutant(name, *at, operator, occurrence))
    rng = random.Random(f"{SEED} {where}")
    return [rng.choice(found[at]) for at in sorted(rng.sample(sorted(found), DRAWN))]


def _pytest(copy: Path, tests: str, *, keep: bool) -> None:
    with (copy / "said").open("w") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    os.chdir(copy)
    os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}
    # What the run without a fault compiled serves all others; the changed file is compiled anew.
    sys.dont_write_bytecode = not keep
    sys.path.insert(0, str(copy))
    for name in [name for name in sys.modules if name.split(".")[0] == "robustify"]:
        del sys.modules[name]
    options = ["-x", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-m", "not slow and not proof"]
    os._exit(int(pytest.main([*options, *tests.split()])))


def tried(copy: Path, mutant: Mutant | None, tests: str, limit: float | None) -> tuple[str, float]:
    """How the tests end with this fault in the copy, and after how many seconds.

    They run in a forked process, which need not import the libraries again.
    """
    if mutant:
        (copy / mutant.file).write_text(mutant.code(), encoding="utf-8")
    child = multiprocessing.get_context("fork").Process(
        target=_pytest, args=(copy, tests), kwargs={"keep": mutant is None}
    )
    began = time.monotonic()
    child.start()
    child.join(limit)
    end = ENDS.get(child.exitcode, "not_imported")
    if end == "killed" and "ERROR collecting" in (copy / "said").read_text(errors="replace"):
        end = "not_imported"
    child.kill()
    if mutant:
        (copy / mutant.file).write_text((ROOT / mutant.file).read_text(encoding="utf-8"), encoding="utf-8")
    return end, time.monotonic() - began


def measured(copy: Path, where: str, tests: str, before: dict[str, str]) -> dict[str, Any]:
    """The figures of one part of the code; `before`: what was found of survivors."""
    end, seconds = tried(copy, None, tests, None)
    if end != "survived":
        sys.exit(f"{tests} fails without a fault:\n{(copy / 'said').read_text()[-3000:]}")
    limit, survivors = max(120.0, 10 * seconds), []
    ends = Counter(dict.fromkeys([*ENDS.values(), "not_imported"], 0))
    for mutant in drawn(where):
        end, took = tried(copy, mutant, tests, limit)
        name = ":".join(map(str, mutant))
        print(f"{end:12} {took:6.1f} s  {name}", flush=True)
        ends[end] += 1
        if end == "survived":
            line = mutant.code().splitlines()[mutant.line - 1].strip()
            survivors.append({"fault": name, "makes": line, "judged": before.get(name, "not looked at")})
    n = ends["killed"] + ends["survived"]
    score = {"value": ends["killed"] / n, "n": n, "ci": wilson(ends["killed"], n)}
    return {"tests": tests, "mutants": ends.total(), **ends, "score": score,
            "seconds_without_a_fault": round(seconds, 1), "survivors": survivors}  # fmt: skip


def main() -> None:
    """Measure the parts asked for, and keep their figures beside those of the others."""
    for library in (
        "hypothesis.strategies",
        "robustify.cli",
        "scipy.stats",
    ):
        __import__(library)
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {"parts": {}}
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    tool = f"operators of cosmic-ray {version('cosmic-ray')}"
    kept |= {"tool": tool, "python": sys.version.split()[0], "seed": SEED}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tree"
        subprocess.run(["git", "checkout-index", "-a", f"--prefix={copy}/"], cwd=ROOT, check=True)
        for name in sys.argv[1:] or PARTS:
            before = {one["fault"]: one["judged"] for one in kept["parts"].get(name, {}).get("survivors", [])}
            kept["parts"][name] = {"commit": commit, **measured(copy, *PARTS[name], before)}
            RESULT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
