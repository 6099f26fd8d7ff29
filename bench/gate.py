"""What the gate catches and what it costs: writes results/bench/gate.json.

`python -m bench.gate` measures recall on edited and disguised leaks of a made-up set (and, where the public
data lie beside the checkout, of ARC-Challenge as a stand-in for a real one), structure in every layout, false
positives on installed packages, and the time for 20 files beside detect-secrets, where `$DETECT_SECRETS` names it.
Each part is written when it is done; a part's name (recall, arranged, layouts, stand_in, false_positives, speed)
measures that one anew and leaves the others. It prints no item and no text of a file.
"""

import json
import os
import platform
import random
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from bench.gate_speed import speed
from robustify.gate.build import build_index
from robustify.gate.check import scan
from robustify.gate.fingerprints import Fingerprints
from robustify.gate.policy import GateFinding
from robustify.stats.intervals import clopper_pearson, wilson
from tests.gate.corpus import CARRIERS, DISGUISES, EDITS, FORMS, GOALS, Made, made
from tests.gate.layouts import KEY_STYLES, LAYOUTS
from tests.gate.sets import KEY

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "gate.json"
SHARED = Path(os.environ.get("ROBUSTIFY_DATA", ROOT.parent / "shared" / "data"))
ITEMS = 200
FILES = 4000
RUNS = 7
STRUCTURE = {"RBG101", "RBG102", "RBG103", "RBG201"}
TEXTS = {".py", ".pyi", ".md", ".txt", ".rst", ".json", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".html", ".css",
         ".js", ".csv", ".tsv", ".xml", ".c", ".h", ".hpp", ".pyx", ".sh", ".ipynb", ".tex"}  # fmt: skip
LEFT_OUT = {"lm_eval"}
"""Packages that carry real multiple-choice items: what is found there is right."""
KNOWN = {
    "rich/console.py": "right: its demo carries one quiz record",
    "docs/sources.md": "right: its example is one made-up item",
}
"""Files that structure refuses rightly, and why."""

Content = str | bytes


def rate(hits: int, n: int) -> dict[str, Any]:
    lo, hi = clopper_pearson(hits, n) if hits in (0, n) else wilson(hits, n)
    return {"value": hits / n, "n": n, "ci": [lo, hi]}


def _found(content: Content, prints: Fingerprints | None) -> list[GateFinding]:
    return scan(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content, prints)


def _blocked(contents: Iterable[Content], prints: Fingerprints) -> dict[str, Any]:
    hits = [any(found.rule.id == "RBG301" for found in _found(content, prints)) for content in contents]
    return rate(sum(hits), len(hits))


def recall(
    items: Sequence[Made], prints: Fingerprints, carriers: Sequence[str] = tuple(CARRIERS)
) -> dict[str, Any]:
    """How often the fingerprint layer alone refuses edited whole items, and stems alone, in files of several kinds."""
    out: dict[str, Any] = {}
    for name, edit in {"verbatim": lambda text, _: text, **EDITS}.items():
        rng = random.Random(f"bench {name}")
        out[name] = {
            form: _blocked((CARRIERS[c](edit(cut(item), rng)) for item in items for c in carriers), prints)
            for form, cut in FORMS.items()
        } | {"goal": GOALS.get(name)}
    return out


def arranged(items: Sequence[Made], prints: Fingerprints) -> dict[str, Any]:
    """Items with their choices in another order, and their choices in a file without the stem."""
    forms: dict[str, Callable[[Made], str]] = {
        "choices_reordered": lambda item: "\n".join((item.stem, *reversed(item.choices))),
        "choices_alone": lambda item: "\n".join(item.choices),
    }
    return {
        name: _blocked((content for item in items for content in _carried(form(item))), prints)
        for name, form in forms.items()
    }


def disguised(items: Sequence[Made], prints: Fingerprints) -> dict[str, Any]:
    """The same for disguises: those that give text in files of every kind, those that give bytes one file each."""
    out: dict[str, Any] = {}
    for name, disguise in DISGUISES.items():
        rng = random.Random(f"bench {name}")
        out[name] = {
            form: _blocked([c for item in items for c in _carried(disguise(cut(item), rng))], prints)
            for form, cut in FORMS.items()
        }
    return out


def _carried(content: Content) -> list[Content]:
    return [content] if isinstance(content, bytes) else [carrier(content) for carrier in CARRIERS.values()]


def layouts(n: int) -> dict[str, Any]:
    """How often files of five items and of one are refused by their structure alone, in every layout and key style."""
    out = {}
    for size in (5, 1):
        hits = total = 0
        missed: dict[str, int] = {}
        for name, layout in LAYOUTS.items():
            for style in KEY_STYLES:
                for i in range(n):
                    found = _found(layout(made(size, 1000 + i), style), None)
                    hit = any(f.rule.id in STRUCTURE for f in found)
                    hits, total = hits + hit, total + 1
                    if not hit:
                        missed[name] = missed.get(name, 0) + 1
        out[f"{size}_items"] = {**rate(hits, total), "missed": missed}
    return out


def benign(limit: int) -> list[Path]:
    """Text files of the installed packages, in an order that no one chose."""
    places = {Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("platlib"))}
    files = [path for place in places for path in _texts_below(place) if not LEFT_OUT & set(path.parts)]
    kept = [path for path in files if path.stat().st_size < 2_000_000]
    return sorted(kept, key=lambda p: random.Random(p.as_posix().split("site-packages")[-1]).random())[:limit]


def library(limit: int) -> list[Path]:
    """Text files of Python's own library, without what is installed into it."""
    files = _texts_below(Path(sysconfig.get_path("stdlib")))
    return sorted(path for path in files if "site-packages" not in path.parts)[:limit]


def _texts_below(place: Path) -> Iterable[Path]:
    return (path for path in place.rglob("*") if path.suffix in TEXTS and path.is_file())


def own() -> list[Path]:
    """The pages and the code of this repository; its tests and results hold made-up items on purpose."""
    return sorted(
        path for place in ("docs", "robustify") for path in (ROOT / place).rglob("*") if path.suffix in TEXTS
    )


def false_positives(files: Sequence[Path], prints: Fingerprints) -> dict[str, Any]:
    """Harmless files that are refused, by layer, each named."""
    layers = {"fingerprints": {"RBG301"}, "structure": STRUCTURE, "state": {"RBG401", "RBG402", "RBG403"},
              "inspection": {"RBG501", "RBG502", "RBG503", "RBG504", "RBG505"}}  # fmt: skip
    named: dict[str, list[str]] = {layer: [] for layer in layers}
    warned = size = 0
    for path in files:
        data = path.read_bytes()
        size += len(data)
        rules = {found.rule.id for found in scan(data, prints)}
        warned += bool(rules & {"RBG104", "RBG302"})
        for layer, ids in layers.items():
            if rules & ids:
                named[layer].append(_short(path))
    n = len(files)
    return {
        "files": n,
        "megabytes": round(size / 1e6, 1),
        "warned": rate(warned, n),
        **{layer: {**rate(len(paths), n), "files": paths[:20]} for layer, paths in named.items()},
        "known": {
            path: says for path, says in KNOWN.items() if any(p.endswith(path) for p in named["structure"])
        },
    }


def _short(path: Path) -> str:
    if path.is_relative_to(ROOT) and "site-packages" not in path.parts:
        return path.relative_to(ROOT).as_posix()
    parts = path.parts
    marks = [i for i, part in enumerate(parts) if part == "site-packages" or part.startswith("python3.")]
    return "/".join(parts[marks[-1] + 1 :]) if marks else path.name


def _stand_in() -> tuple[list[Made], Fingerprints] | None:
    """ARC-Challenge registered as if it were sensitive; None where the public data are not here."""
    place = SHARED / "arc" / "ARC-Challenge-Test.jsonl"
    if not place.is_file():
        return None
    items = _arc(place)
    return items, Fingerprints(build_index({"stand-in": [item.texts for item in items]}, KEY).tables, KEY)


def stand_in(n: int) -> dict[str, Any] | None:
    """Recall on real items in one kind of file, and other items of the same school subjects that are refused."""
    registered = _stand_in()
    if registered is None:
        return None
    items, prints = registered
    near = {
        name: _blocked(("\n".join(texts) for texts in _texts(SHARED / name)), prints)
        for name in (
            "arc/arc_easy.jsonl",
            "openbookqa/openbook_qa.jsonl",
            "commonsenseqa/dev_rand_split.jsonl",
        )
        if (SHARED / name).is_file()
    }
    return {
        "set": "ARC-Challenge",
        "items": len(items),
        "recall": recall(random.Random(1).sample(items, n), prints, ["markdown"]),
        "other_sets_of_the_domain": near,
    }


def _arc(place: Path) -> list[Made]:
    rows = [json.loads(line)["question"] for line in place.read_text(encoding="utf-8").splitlines()]
    return [Made(row["stem"], tuple(choice["text"] for choice in row["choices"]), 0) for row in rows]


def _texts(place: Path) -> Iterable[list[str]]:
    from robustify.gate.build import read_texts

    return ([text for text in item if len(text) > 1] for item in read_texts(place))


def _benign(items: Sequence[Made]) -> dict[str, Any]:
    registered = _stand_in()
    prints = registered[1] if registered else _mock(items)
    return {
        "registered": "ARC-Challenge" if registered else "the made-up set",
        "installed_packages": false_positives(benign(FILES), prints),
        "standard_library": false_positives(library(FILES // 2), prints),
        "this_repository": false_positives(own(), prints),
    }


def _mock(items: Sequence[Made]) -> Fingerprints:
    return Fingerprints(build_index({"mock": [item.texts for item in items]}, KEY).tables, KEY)


def _speed(items: Sequence[Made]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return speed(benign(10**9), Path(folder), items, RUNS)


def main() -> int:
    items = made(ITEMS, 2026)
    parts: dict[str, Callable[[], Any]] = {
        "recall": lambda: {"edits": recall(items, _mock(items)), "disguises": disguised(items, _mock(items))},
        "arranged": lambda: arranged(items, _mock(items)),
        "layouts": lambda: layouts(5),
        "stand_in": lambda: stand_in(ITEMS),
        "false_positives": lambda: _benign(items),
        "speed": lambda: _speed(items),
    }
    for name in sys.argv[1:] or parts:
        measured = parts[name]()
        out = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
        out |= {"machine": _machine(), "items": ITEMS, name: measured}
        RESULTS.write_text(
            json.dumps(out, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8"
        )
        print(f"{name} measured", flush=True)
    return 0


def _machine() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "date": date.today().isoformat(),
    }


if __name__ == "__main__":
    sys.exit(main())
