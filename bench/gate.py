"""Measure what the gate catches and costs: writes results/bench/gate.json.

The parts are `recall` on edited and disguised items of a made-up set, `layouts` (shapes in every layout without an index),
`false_positives` on installed packages, Python's library and this repository, and `speed` for 20 files, with detect-secrets
as a peer if `$DETECT_SECRETS` names it.

`python -m bench.gate` measures all parts, and with the name of a part only that one. The output contains no item and no
text of a file.
"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path

from bench.results import RESULTS, ROOT, Tree, machine, measure
from robustify.gate.fingerprints import Fingerprints, build_index, write_index
from robustify.judging.stats.intervals import clopper_pearson, wilson
from tests.gate.corpus import CARRIERS, DISGUISES, EDITS, FORMS, GOALS, made
from tests.gate.layouts import KEY_STYLES, LAYOUTS
from tests.gate.repo import KEY, key_file, scan

ITEMS, FILES, RUNS = 200, 4000, 7
TEXTS = {".py", ".pyi", ".md", ".txt", ".rst", ".json", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".html", ".css",
         ".js", ".csv", ".tsv", ".xml", ".c", ".h", ".hpp", ".pyx", ".sh", ".ipynb", ".tex"}  # fmt: skip
LEFT_OUT = {"lm_eval"}
"""Packages that contain real multiple-choice items, which the gate finds rightly."""
LAYERS = {"fingerprints": {"RBG301"}, "structure": {"RBG101", "RBG201"}, "state": {"RBG401", "RBG402", "RBG403", "RBG404"},
          "not_utf8": {"RBG501"}, "encoded": {"RBG502"}, "inspection": {"RBG503", "RBG505"}}  # fmt: skip
Content = str | bytes


def rate(hits: Iterable[bool]) -> Tree:
    found = list(hits)
    n, k = len(found), sum(found)
    lo, hi = clopper_pearson(k, n) if k in (0, n) else wilson(k, n)
    return {"value": k / n, "n": n, "ci": [lo, hi]}


def rules(content: Content, prints: Fingerprints | None) -> set[str]:
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return {found.rule.id for found in scan(data, prints) if found.rule.refuses}


def _prints() -> Fingerprints:
    return Fingerprints(build_index({"mock": [item.texts for item in made(ITEMS, 2026)]}, KEY), KEY)


def recall() -> Tree:
    """Return how often edited and disguised items, complete or as stems alone, are refused in several types of files."""
    items, prints = made(ITEMS, 2026), _prints()
    edits: dict[str, Callable[[str, random.Random], Content]] = {"verbatim": lambda text, _: text, **EDITS}
    parts = (("edits", edits, {"RBG301"}), ("disguises", DISGUISES, {"RBG301", "RBG501", "RBG502"}))
    out: Tree = {}
    for kind, changes, refusals in parts:
        out[kind] = {}
        for name, change in changes.items():
            rng = random.Random(f"bench {name}")
            changed = {form: [change(cut(item), rng) for item in items] for form, cut in FORMS.items()}
            out[kind][name] = {
                form: rate(bool(rules(c, prints) & refusals) for one in contents for c in _carried(one))
                for form, contents in changed.items()
            } | {"goal": GOALS.get(name)}
    return out


def _carried(content: Content) -> list[Content]:
    return [content] if isinstance(content, bytes) else [carrier(content) for carrier in CARRIERS.values()]


def layouts() -> Tree:
    """Return how often files of five items and of one item are refused by shape alone, in every layout."""
    out = {}
    for size in (5, 1):
        cases = list(product(LAYOUTS, KEY_STYLES, range(1000, 1005)))
        hits = ["RBG101" in rules(LAYOUTS[of](made(size, seed), style), None) for of, style, seed in cases]
        missed = sorted({name for (name, *_), hit in zip(cases, hits, strict=True) if not hit})
        out[f"{size}_items"] = {**rate(hits), "missed": missed}
    return out


def _below(*folders: Path) -> Iterable[Path]:
    return (path for one in folders for path in one.rglob("*") if path.suffix in TEXTS and path.is_file())


def installed(limit: int) -> list[Path]:
    """Return text files of the installed packages in a fixed pseudo-random order."""
    files = _below(*{Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("platlib"))})
    kept = [path for path in files if path.stat().st_size < 2_000_000 and not LEFT_OUT & set(path.parts)]
    return sorted(kept, key=lambda p: random.Random(p.as_posix().split("site-packages")[-1]).random())[:limit]


def false_positives() -> Tree:
    """Return the harmless files that each layer refuses."""
    library = (p for p in _below(Path(sysconfig.get_path("stdlib"))) if "site-packages" not in p.parts)
    files = {
        "installed_packages": installed(FILES),
        "standard_library": sorted(library)[: FILES // 2],
        "this_repository": sorted(_below(ROOT / "docs", ROOT / "robustify")),
    }
    return {name: _alarms(paths, _prints()) for name, paths in files.items()}


def _alarms(files: Sequence[Path], prints: Fingerprints) -> Tree:
    found = [(path, {one.rule.id for one in scan(path.read_bytes(), prints)}) for path in files]
    size = sum(path.stat().st_size for path in files)
    out: Tree = {"files": len(files), "megabytes": round(size / 1e6, 1)}
    out["warned"] = rate(bool(ids & {"RBG104"}) for _, ids in found)
    for layer, wanted in LAYERS.items():
        names = ["/".join(path.parts[-3:]) for path, ids in found if ids & wanted]
        out[layer] = {**rate(bool(ids & wanted) for _, ids in found), "files": names[:40]}
    return out


def speed() -> Tree:
    """Return the median seconds of processes over 20 files of about 2 MB, alternating with detect-secrets."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = (p for p in installed(10**9) if p.suffix == ".py" and 80_000 < p.stat().st_size < 120_000)
        copied = (shutil.copy(path, folder / f"{i}.py") for i, path in zip(range(20), chosen, strict=False))
        files = list(map(str, copied))
        write_index(folder / "index", build_index({"mock": [i.texts for i in made(ITEMS, 2026)]}, KEY), KEY)
        env = {**os.environ, "ROBUSTIFY_GATE_KEY_FILE": str(key_file(folder)), "PYTHONDONTWRITEBYTECODE": ""}
        env["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
        gate = [sys.executable, str(ROOT / "robustify" / "gate" / "hook.py")]  # what pre-commit runs
        theirs = os.environ.get("DETECT_SECRETS") or shutil.which("detect-secrets")
        indexed = [*gate, "--index", str(folder / "index"), *files]
        commands = {"ours": indexed, "without_index": [*gate, *files], "start_up": [*gate, "--help"]}
        commands |= {"detect_secrets": [theirs, "scan", *files]} if theirs else {}
        timed: dict[str, list[float]] = {name: [] for name in commands}
        _seconds(indexed, env)  # the first run compiles the modules
        for turn in range(RUNS):
            for name, command in commands.items():
                if name != "detect_secrets" or turn < 2:  # it takes tens of seconds
                    timed[name].append(_seconds(command, env))
        size = round(sum(Path(file).stat().st_size for file in files) / 1e6, 2)
    times = {name: {"runs": len(t), "median": round(statistics.median(t), 3), "range": [round(min(t), 3), round(max(t), 3)]}
            for name, t in timed.items()}  # fmt: skip
    return {"files": len(files), "megabytes": size, **times}


def _seconds(command: Sequence[str], env: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, env=env, check=False, capture_output=True)
    return time.perf_counter() - begin


def main(names: Sequence[str]) -> int:
    """Measure the named parts, or all parts."""
    parts = {"recall": recall, "layouts": layouts, "false_positives": false_positives, "speed": speed}
    path = RESULTS / "bench" / "gate.json"
    return measure(path, parts, names, lambda: {"machine": machine(), "items": ITEMS})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
