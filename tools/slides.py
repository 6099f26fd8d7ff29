"""Write the talk as a PDF of ten slides, with text from docs/slides.typ and figures from results/.

Usage: `python -m tools.slides [-o FILE] [--png FOLDER]`. Without `-o`, the slides are written under two names: the one
that the README links, and one beside the film. `--png` also writes every page as an image. Requires the typst compiler
(`pip install typst`).
"""

import argparse
import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from robustify.base.errors import RobustifyError, UsageError
from robustify.runs.run import Run, open_run
from robustify.wings import GUARD
from tools.planted import CLEAN, by_rule

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "docs" / "slides.typ"
NAMES = (ROOT / "docs" / "slides.pdf", ROOT / "runs" / "talk" / "slides.pdf")
ATLAS = ROOT / "results" / "atlas" / "index.json"


def package(name: str) -> Any:
    """Import and return the module of a package. Raise `UsageError` if it is not installed."""
    try:
        return importlib.import_module(name.replace("-", "_"))
    except ImportError:
        raise UsageError(f"{name} is not installed. Run `pip install {name}`.") from None


def planted(run: Run) -> dict[str, Any]:
    """Return the number of demo items that each rule removed, and the share of clean items among them."""
    done = dict(by_rule(run))
    first = next(iter(done.values()))
    rules = [
        {"name": name, "removed": one.false_share.n, "clean": one.false_share.json()}
        for name, one in done.items()
    ]
    return {"rules": rules, "planted": first.of["planted"].json(), CLEAN: first.of[CLEAN].json()}


def built(out: Path, pictures: Path | None = None) -> Path:
    """Write the slides to `out`, and every page as an image to `pictures` if given."""
    typst = package("typst")
    facts = {
        **planted(open_run(ROOT / "results" / "benign_demo", GUARD)),
        "atlas": json.loads(ATLAS.read_text("utf-8")) if ATLAS.is_file() else None,
    }
    given = {"root": str(ROOT), "sys_inputs": {"facts": json.dumps(facts)}}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(typst.compile(str(SOURCE), format="pdf", **given))
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        pages = typst.compile(str(SOURCE), format="png", ppi=96, **given)
        for n, page in enumerate(pages, start=1):
            (pictures / f"slide-{n:02}.png").write_bytes(page)
    return out


def main(arguments: list[str]) -> int:
    """Write the slides and print their path."""
    parser = argparse.ArgumentParser(prog="python -m tools.slides", description=__doc__)
    parser.add_argument(
        "-o", dest="out", type=Path, action="append", help="write only this file (repeatable)"
    )
    parser.add_argument("--png", type=Path, help="also write every page as an image to this folder")
    given = parser.parse_args(arguments)
    first, *others = given.out or NAMES
    try:
        built(first, given.png)
    except RobustifyError as error:
        print("\n".join(error.lines), file=sys.stderr)
        return error.exit_code
    for out in others:
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(first, out)
    for out in (first, *others):
        print(f"slides: {out} ({out.stat().st_size / 1000:.0f} kB)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
