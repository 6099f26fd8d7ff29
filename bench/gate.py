"""Measure what the gate catches and costs: writes results/bench/gate.json.

The parts are `recall` on edited and disguised items of a made-up set, `layouts` (shapes in every layout without an index),
`false_positives` on installed packages, Python's library and this repository, and `speed` for 20 files, with detect-secrets
as a peer if `$DETECT_SECRETS` names it.

`python -m bench.gate` measures all parts, and with the name of a part only that one. The output contains no item and no
text of a file.
"""

import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from robustify.gate.check import scan
from robustify.gate.fingerprints import Fingerprints, build_index
from robustify.stats.intervals import clopper_pearson, wilson
from tests.gate.corpus import CARRIERS, DISGUISES, EDITS, FORMS, GOALS, Made, made
from tests.gate.layouts import KEY_STYLES, LAYOUTS
from tests.gate.repo import KEY, key_file

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "gate.json"
ITEMS, FILES, RUNS, BUSY = 200, 4000, 7, 4
GOAL_SECONDS = 1.0
TEXTS = {".py", ".pyi", ".md", ".txt", ".rst", ".json", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".html", ".css",
         ".js", ".csv", ".tsv", ".xml", ".c", ".h", ".hpp", ".pyx", ".sh", ".ipynb", ".tex"}  # fmt: skip
LEFT_OUT = {"lm_eval"}
"""Packages that contain real multiple-choice items, which the gate finds rightly."""
LAYERS = {"fingerprints": {"RBG301"}, "structure": {"RBG101", "RBG201"}, "state": {"RBG401", "RBG402", "RBG403", "RBG404"},
          "not_utf8": {"RBG501"}, "encoded": {"RBG502"}, "inspection": {"RBG503", "RBG505"}}  # fmt: skip
KNOWN = {
    "rich/console.py": "right: its demo carries one quiz record",
    "docs/sources.md": "right: its example is one made-up item",
    "docs/from_python.ipynb": "right: made-up items",
}
"""Files that the shape rules refuse rightly, with the reason."""
Content = str | bytes


def rate(hits: Iterable[bool]) -> dict[str, Any]:
    found = list(hits)
    n, k = len(found), sum(found)
    lo, hi = clopper_pearson(k, n) if k in (0, n) else wilson(k, n)
    return {"value": k / n, "n": n, "ci": [lo, hi]}


def rules(content: Content, prints: Fingerprints | None) -> set[str]:
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return {found.rule.id for found in scan(data, prints) if found.rule.refuses}


def _carried(content: Content) -> list[Content]:
    return [content] if isinstance(content, bytes) else [carrier(content) for carrier in CARRIERS.values()]


def recall() -> dict[str, Any]:
    """Return how often edited and disguised items, complete or as stems alone, are refused in several types of files."""
    items = made(ITEMS, 2026)
    prints = Fingerprints(build_index({"mock": [item.texts for item in items]}, KEY), KEY)
    edits: dict[str, Callable[[str, random.Random], Content]] = {"verbatim": lambda text, _: text, **EDITS}
    kinds: dict[str, dict[str, Callable[[str, random.Random], Content]]] = {
        "edits": edits,
        "disguises": DISGUISES,
    }
    arranged: dict[str, Callable[[Made], str]] = {
        "choices_reordered": lambda item: "\n".join((item.stem, *reversed(item.choices))),
        "choices_alone": lambda item: "\n".join(item.choices),
    }
    out: dict[str, Any] = {
        "arranged": {
            name: rate("RBG301" in rules(c, prints) for item in items for c in _carried(form(item)))
            for name, form in arranged.items()
        }
    }
    for kind, changes in kinds.items():
        out[kind] = {}
        for name, change in changes.items():
            rng = random.Random(f"bench {name}")
            refusals = {"RBG301"} if kind == "edits" else {"RBG301", "RBG501", "RBG502"}
            out[kind][name] = {
                form: rate(
                    bool(rules(c, prints) & refusals) for i in items for c in _carried(change(cut(i), rng))
                )
                for form, cut in FORMS.items()
            } | {"goal": GOALS.get(name)}
    return out


def layouts() -> dict[str, Any]:
    """Return how often files of five items and of one item are refused by shape alone, in every layout."""
    out = {}
    for size in (5, 1):
        hits, missed = [], dict[str, int]()
        for name, layout in LAYOUTS.items():
            for style in KEY_STYLES:
                for i in range(5):
                    hits.append("RBG101" in rules(layout(made(size, 1000 + i), style), None))
                    if not hits[-1]:
                        missed[name] = missed.get(name, 0) + 1
        out[f"{size}_items"] = {**rate(hits), "missed": missed}
    return out


def _below(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.suffix in TEXTS and path.is_file())


def installed(limit: int) -> list[Path]:
    """Return text files of the installed packages in a fixed pseudo-random order."""
    folders = {Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("platlib"))}
    files = [path for folder in folders for path in _below(folder) if not LEFT_OUT & set(path.parts)]
    kept = [path for path in files if path.stat().st_size < 2_000_000]
    return sorted(kept, key=lambda p: random.Random(p.as_posix().split("site-packages")[-1]).random())[:limit]


def library(limit: int) -> list[Path]:
    """Return text files of Python's standard library without installed packages."""
    files = _below(Path(sysconfig.get_path("stdlib")))
    return sorted(path for path in files if "site-packages" not in path.parts)[:limit]


def own() -> list[Path]:
    """Return the pages and code of this repository without tests and results, which contain made-up items on purpose."""
    return sorted(path for folder in ("docs", "robustify") for path in _below(ROOT / folder))


def false_positives() -> dict[str, Any]:
    """Return the harmless files that each layer refuses."""
    prints = Fingerprints(build_index({"mock": [item.texts for item in made(ITEMS, 2026)]}, KEY), KEY)
    files = {
        "installed_packages": installed(FILES),
        "standard_library": library(FILES // 2),
        "this_repository": own(),
    }
    return {
        "registered": "the made-up set",
        **{name: _alarms(paths, prints) for name, paths in files.items()},
    }


def _alarms(files: Sequence[Path], prints: Fingerprints) -> dict[str, Any]:
    found = [(path, {f.rule.id for f in scan(path.read_bytes(), prints)}) for path in files]
    size = sum(path.stat().st_size for path in files)
    out: dict[str, Any] = {"files": len(files), "megabytes": round(size / 1e6, 1)}
    out["warned"] = rate(bool(ids & {"RBG104"}) for _, ids in found)
    for layer, wanted in LAYERS.items():
        names = [_short(path) for path, ids in found if ids & wanted]
        out[layer] = {**rate(bool(ids & wanted) for _, ids in found), "files": names[:40]}
    out["known"] = {
        path: says for path, says in KNOWN.items() if any(p.endswith(path) for p in out["structure"]["files"])
    }
    return out


def _short(path: Path) -> str:
    if path.is_relative_to(ROOT) and "site-packages" not in path.parts:
        return path.relative_to(ROOT).as_posix()
    marks = [i for i, part in enumerate(path.parts) if part == "site-packages" or part.startswith("python3.")]
    return "/".join(path.parts[marks[-1] + 1 :]) if marks else path.name


def speed() -> dict[str, Any]:
    """Return the median seconds of processes over 20 files of about 2 MB, alternating with detect-secrets."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = [
            path
            for path in installed(10**9)
            if path.suffix == ".py" and 80_000 < path.stat().st_size < 120_000
        ]
        files = [str(shutil.copy(path, folder / f"{i}.py")) for i, path in enumerate(chosen[:20])]
        env = {
            **os.environ,
            "ROBUSTIFY_GATE_KEY_FILE": str(key_file(folder)),
            "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
        }
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        (folder / "mock.jsonl").write_text(
            "".join(json.dumps(item.texts) + "\n" for item in made(ITEMS, 2026))
        )
        gate = [sys.executable, str(ROOT / "robustify" / "gate" / "hook.py")]  # what pre-commit runs
        index = [*gate, "index", str(folder / "mock.jsonl"), "-o", str(folder / "index")]
        subprocess.run(index, env=env, check=True, capture_output=True)
        env["ROBUSTIFY_GATE_INDEX"] = str(folder / "index")
        theirs = os.environ.get("DETECT_SECRETS") or shutil.which("detect-secrets")
        commands = {"ours": [*gate, *files], "start_up": [*gate, "--help"]}
        commands |= {"detect_secrets": [theirs, "scan", *files]} if theirs else {}
        timed: dict[str, list[float]] = {name: [] for name in commands}
        _timed(commands["ours"], env)  # the first run compiles the modules
        for turn in range(RUNS):
            for name, command in commands.items():
                if name != "detect_secrets" or turn < 2:  # it takes tens of seconds
                    timed[name].append(_timed(command, env))
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
        try:
            timed["busy"] = [_timed(commands["ours"], env) for _ in range(RUNS)]
        finally:
            for other in others:
                other.kill()
                other.wait()
        size = round(sum(Path(file).stat().st_size for file in files) / 1e6, 2)
    times = {name: {"runs": len(t), "median": round(statistics.median(t), 3), "range": [round(min(t), 3), round(max(t), 3)]}
            for name, t in timed.items()}  # fmt: skip
    return {
        "files": len(files),
        "megabytes": size,
        "goal_seconds": GOAL_SECONDS,
        "busy_processes": BUSY,
        **times,
    }


def _timed(command: Sequence[str], env: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, env=env, check=False, capture_output=True)
    return time.perf_counter() - begin


def main() -> int:
    parts = {"recall": recall, "layouts": layouts, "false_positives": false_positives, "speed": speed}
    for name in sys.argv[1:] or parts:
        measured = parts[name]()
        out = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
        machine = {
            "cores": len(os.sched_getaffinity(0)),
            "python": platform.python_version(),
            "date": date.today().isoformat(),
        }
        out |= {"machine": machine, "items": ITEMS, name: measured}
        RESULTS.write_text(
            json.dumps(out, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8"
        )
        print(f"{name} measured", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
