"""Build a wheel twice, install it with locked dependencies on every local Python, and test it: `make dist`.

The two wheels must be identical. For each Python from 3.10 to 3.13, the wheel and the hash-checked packages of
`.ci/requirements.lock` are installed in a new environment. The first commands of the README must then end with a
documented exit code. `--lock` resolves the lock file again first (requires `uv`).
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / ".ci" / "requirements.lock"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
EPOCH = "1767225600"
"""Date of every archive member in seconds since 1970; it makes two builds identical."""
RESOLVED = ("--universal", "--generate-hashes", "--no-emit-index-url", "--no-header", "--no-annotate", "-q")
COMMANDS = ("--version", "validate ITEMS", "heuristics ITEMS", "judge DEMO -o OUT", "check OUT", "gate ITEMS")


def run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command outside the checkout."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    command = [str(word) for word in words]
    return subprocess.run(command, cwd=tempfile.gettempdir(), env=clean, capture_output=True, text=True)


def must(*words: object, **environment: str) -> str:
    """Run a command and return its output, or exit with the end of its error output."""
    done = run(*words, **environment)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, words[:4]))} ...: exit {done.returncode}\n{done.stderr[-2000:]}"
        )
    return done.stdout


def wheel(folder: Path) -> Path:
    """Build a wheel from a copy of the tracked files."""
    source = folder / "source"
    for name in filter(None, must("git", "-C", ROOT, "ls-files", "-z").split("\0")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    pip = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder)
    must(*pip, source, SOURCE_DATE_EPOCH=EPOCH)
    return next(folder.glob("*.whl"))


def interpreter(version: str) -> str | None:
    """Return a Python of this version from the path or from pyenv; None if there is none."""
    roots = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which(f"python{version}"), *map(str, roots.glob(f"versions/{version}.*/bin/python"))]
    return next((python for python in found if python and run(python, "--version").returncode == 0), None)


def tried(python: str, made: Path, folder: Path) -> dict[str, int]:
    """Install the wheel in a new environment and return the exit code of each command."""
    must(python, "-m", "venv", folder)
    pip = (folder / "bin" / "python", "-m", "pip", "-q", "--disable-pip-version-check", "install")
    must(*pip, "--require-hashes", "--only-binary", ":all:", "-r", LOCK)
    must(*pip, "--no-deps", made)
    item = '{"id": "b%d", "question": "Which colour has box %d?", "choices": ["red", "green", "blue %d"], "answer": %d}\n'
    (items := folder / "items.jsonl").write_text("".join(item % (i, i, i, i % 3) for i in range(40)))
    paths = {"ITEMS": items, "DEMO": ROOT / "results" / "benign_demo", "OUT": folder / "judged"}
    program = folder / "bin" / "robustify"
    return {line: run(program, *(paths.get(w, w) for w in line.split())).returncode for line in COMMANDS}


def main() -> int:
    """Build, compare, install, and test the wheels, and print the result."""
    if "--lock" in sys.argv:
        target = ("--python-version", PYTHONS[0], "-o", LOCK, ROOT / "pyproject.toml")
        must("uv", "pip", "compile", *RESOLVED, *target)
    with tempfile.TemporaryDirectory(prefix="dist-") as folder:
        wheels = [wheel(Path(folder) / name) for name in ("one", "two")]
        same = len({hashlib.sha256(made.read_bytes()).hexdigest() for made in wheels}) == 1
        pythons = {version: interpreter(version) for version in PYTHONS}
        codes = {v: tried(p, wheels[0], Path(folder) / v) if p else "not here" for v, p in pythons.items()}
    result = {"same_bytes_twice": same, "exit_codes": codes}
    print(json.dumps(result, indent=1))
    ended = [code for one in codes.values() if isinstance(one, dict) for code in one.values()]
    return int(not same or any(code not in (0, 4, 7) for code in ended))


if __name__ == "__main__":
    sys.exit(main())
