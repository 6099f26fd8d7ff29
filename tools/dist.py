"""`make dist`: a wheel that comes out the same twice, tried outside the checkout on every Python that is here.

`python -m tools.dist` builds two wheels and compares them, installs `.ci/requirements.lock` by its hashes and the wheel
into a new environment for each Python from 3.10 to 3.13, and runs commands there. It writes results/bench/dist.json and
the bill of materials results/bench/sbom.json (CycloneDX 1.6) from the lock file. `--lock` resolves that anew (needs `uv`).
Advisories are asked with `pip-audit`; where its service cannot be reached, the result says so.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / ".ci" / "requirements.lock"
RESULTS = ROOT / "results" / "bench" / "dist.json"
BILL = ROOT / "results" / "bench" / "sbom.json"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
EPOCH = "1767225600"
"""Seconds: the date that archive members carry, so that two builds are equal."""
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
ITEM = '{"id": "b%d", "question": "Which colour has box %d?", "choices": ["red", "green", "blue %d"], "answer": %d}\n'


def _run(words: Sequence[object], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(w) for w in words],
        cwd=tempfile.gettempdir(),
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _must(words: Sequence[object], **environment: str) -> str:
    done = _run(words, **environment)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, words[:4]))} ...: exit {done.returncode}\n{done.stderr[-2000:]}"
        )
    return done.stdout


def locked(text: str) -> list[tuple[str, str, list[str]]]:
    """Name, version and hashes of every line of a lock file."""
    found: list[tuple[str, str, list[str]]] = []
    for line in text.splitlines():
        if match := PINNED.match(line):
            found.append((match[1], match[2], []))
        if match := HASH.search(line):
            found[-1][2].append(match[1])
    return found


def bill(text: str) -> dict[str, object]:
    """A CycloneDX bill of materials of a lock file: names, versions, hashes; no address."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "robustcbrn-eval", "bom-ref": "robustcbrn-eval"}
        },
        "components": [
            {
                "type": "library",
                "name": name,
                "version": version,
                "bom-ref": f"{name}@{version}",
                "purl": f"pkg:pypi/{name.lower()}@{version}",
                "properties": [{"name": "sha256", "value": one} for one in sorted(hashes)],
            }
            for name, version, hashes in locked(text)
        ],
    }


def wheel(folder: Path) -> Path:
    """A wheel of the files that git knows, built from a copy of them."""
    source = folder / "source"
    names = _must(["git", "-C", ROOT, "ls-files", "-z"]).split("\0")
    for name in filter(None, names):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    _must(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source],
        SOURCE_DATE_EPOCH=EPOCH,
    )
    return next(folder.glob("*.whl"))


def interpreter(version: str) -> Path | None:
    """A Python of this version on this machine: on the path, or of pyenv."""
    on_path = shutil.which(f"python{version}")
    places = [Path(on_path)] if on_path else []
    places += sorted(
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*/bin/python")
    )
    for place in places:
        found = _run([place, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
        if found.returncode == 0 and found.stdout.strip() == version:
            return place
    return None


def tried(python: Path, made: Path, folder: Path) -> dict[str, object]:
    """The lock file and the wheel in a new environment; what the commands of a first session end with."""
    _must([python, "-m", "venv", folder])
    inside = folder / "bin" / "python"
    pip = [inside, "-m", "pip", "-q", "--disable-pip-version-check", "install"]
    _must([*pip, "--require-hashes", "--only-binary", ":all:", "-r", LOCK])
    _must([*pip, "--no-deps", made])
    items = folder / "items.jsonl"
    items.write_text("".join(ITEM % (i, i, i, i % 3) for i in range(40)))
    demo, out = ROOT / "results" / "benign_demo", folder / "judged"
    commands = {
        "version": ["--version"],
        "validate": ["validate", items],
        "heuristics": ["heuristics", items],
        "judge": ["judge", demo, "-o", out],
        "check": ["check", out],
        "gate": ["gate", items],
    }
    modules = _run([inside, "-c", _EVERY_MODULE])
    return {
        "python": _must([inside, "-c", "import platform; print(platform.python_version())"]).strip(),
        "exit_codes": {
            name: _run([folder / "bin" / "robustify", *words]).returncode for name, words in commands.items()
        },
        "modules": modules.stdout.strip() or modules.stderr[-500:],
    }


_EVERY_MODULE = """
import importlib, pkgutil, robustify
optional = {"torch", "transformers", "openai", "ray", "vllm", "huggingface_hub", "pint", "tokenizers", "safetensors",
            "inspect_ai"}
n = missing = 0
for found in pkgutil.walk_packages(robustify.__path__, "robustify."):
    try:
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
            n += 1
    except ModuleNotFoundError as error:
        if error.name.split(".")[0] not in optional:
            raise
        missing += 1
print(f"{n} imported, {missing} need an extra")
"""


def audited() -> str:
    """What `pip-audit` says of the lock file; that it was not asked where it or its service is absent."""
    done = _run(
        [
            sys.executable,
            "-m",
            "pip_audit",
            "-r",
            LOCK,
            "--disable-pip",
            "--progress-spinner",
            "off",
            "-f",
            "json",
        ]
    )
    if "No module named" in done.stderr:
        return "not asked: pip-audit is not installed"
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return "not asked: its service cannot be reached"
    skipped = sum("skip_reason" in one for one in found)
    if skipped == len(found):
        return "not asked: its service knows none of the packages from here"
    n_known = len(found) - skipped
    return (
        f"{sum(len(one.get('vulns', ())) for one in found)} advisories for {n_known} of {len(found)} packages"
    )


def main(arguments: Sequence[str]) -> int:
    if "--lock" in arguments:
        _must(["uv", "pip", "compile", ROOT / "pyproject.toml", "--universal", "--generate-hashes", "--python-version",
               PYTHONS[0], "--no-emit-index-url", "--no-header", "--no-annotate", "-q", "-o", LOCK])  # fmt: skip
    text = LOCK.read_text()
    with tempfile.TemporaryDirectory(prefix="dist-") as folder:
        first, second = (wheel(Path(folder) / name) for name in ("one", "two"))
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (first, second)]
        found = {version: interpreter(version) for version in PYTHONS}
        result = {
            "says": "two builds of one tree; the lock file and the wheel in new environments, outside the checkout",
            "wheel": {"same_bytes_twice": digests[0] == digests[1], "bytes": first.stat().st_size},
            "locked": len(locked(text)),
            "pythons": {v: tried(p, first, Path(folder) / v) if p else "not here" for v, p in found.items()},
            "advisories": audited(),
        }
    BILL.write_text(json.dumps(bill(text), indent=1) + "\n")
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    codes = [p["exit_codes"] for p in result["pythons"].values() if isinstance(p, dict)]
    return int(digests[0] != digests[1] or any(c not in (0, 4, 7) for one in codes for c in one.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
