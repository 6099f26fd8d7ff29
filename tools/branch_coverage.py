"""Lines and branches that the fast tests reach, by package: `make coverage` writes results/bench/coverage.json.

Commands that a test starts as processes of their own are counted too. A run that fails writes nothing.
"""

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "bench" / "coverage.json"
PACKAGES = ("judge", "gate", "restricted", "disclosure")
TESTS = (
    *(f"tests/{name}" for name in PACKAGES),
    "tests/export/test_restricted_tasks.py",
    "tests/export/test_split_files.py",
    "tests/freeform/test_attach.py",
    "tests/freeform/test_free_restricted.py",
)


def main() -> int:
    with tempfile.TemporaryDirectory() as made:
        config = Path(made) / "coverage.ini"
        folders = ",".join(str(ROOT / "robustify" / name) for name in PACKAGES)
        config.write_text(
            f"[run]\nbranch = true\nparallel = true\npatch = subprocess\nsource = {folders}\n"
            f"data_file = {made}/data\ndisable_warnings = no-data-collected,module-not-imported,module-not-measured\n"
            f"[report]\ninclude = {ROOT}/robustify/*\nexclude_also =\n    if TYPE_CHECKING:\n    @overload\n"
        )

        def step(*arguments: str) -> None:
            command = [sys.executable, "-m", "coverage", arguments[0], f"--rcfile={config}", *arguments[1:]]
            subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})

        step("run", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not proof", *TESTS)
        step("combine", "-q")
        step("json", "-q", "-o", f"{made}/found.json")
        files = json.loads(Path(made, "found.json").read_text())["files"]
    packages = {name: _sums(files, name) for name in PACKAGES}
    result = {"tool": f"coverage {version('coverage')}", "tests": TESTS, "packages": packages}
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(packages, indent=1))
    return 0


def _sums(files: dict[str, dict[str, dict[str, int]]], package: str) -> dict[str, int]:
    """Lines and branches of a package, and how many of each were reached."""
    found = [one["summary"] for path, one in files.items() if f"robustify/{package}/" in path]
    of = {
        "lines": "num_statements",
        "lines_reached": "covered_lines",
        "branches": "num_branches",
        "branches_reached": "covered_branches",
    }
    return {name: sum(one[key] for one in found) for name, key in of.items()}


if __name__ == "__main__":
    sys.exit(main())
