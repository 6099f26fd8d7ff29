"""`make atlas`: audits every set of sets.yaml and writes results/atlas: numbers and ids of items, never their text.

`python -m bench.atlas [NAME...]` audits these sets alone; `--free` asks no model, and publishes what was asked before;
`--index` only writes index.json again. Sets whose files are not here are left out and said to be. Nothing is asked twice:
work lies in runs/atlas, which git ignores, and scores in the cache.
"""

import argparse
import sys
from pathlib import Path

import yaml

from bench.atlas.audit import with_models, without_models
from bench.atlas.biases import biases
from bench.atlas.index import publish, write_index
from bench.atlas.others import SHARED, judged
from bench.atlas.sample import Data
from robustify.cli.options import watcher
from robustify.errors import RobustifyError

ROOT = Path(__file__).parents[2]
RESULTS, WORK = ROOT / "results" / "atlas", ROOT / "runs" / "atlas"
SETS = Path(__file__).with_name("sets.yaml")


def main(arguments: list[str]) -> int:
    """Audit, write, print one line a set."""
    parser = argparse.ArgumentParser(prog="python -m bench.atlas", description=__doc__)
    parser.add_argument("sets", metavar="NAME", nargs="*")
    parser.add_argument("--free", action="store_true")
    parser.add_argument("--index", action="store_true")
    given = parser.parse_args(arguments)
    sets = yaml.safe_load(SETS.read_text(encoding="utf-8"))
    strangers = sorted(set(given.sets) - set(sets))
    if strangers:
        parser.error(f"{strangers[0]}: is no set of {SETS.name}; expected some of {', '.join(sets)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in [] if given.index else given.sets or sets:
        try:
            found, _ = without_models(name, sets[name], WORK)
            found["models"] = with_models(name, sets[name], WORK, watcher(), ask=not given.free)
        except RobustifyError as error:
            print(f"{name}: left out: {error.lines[0]}", file=sys.stderr)
            continue
        publish(RESULTS / f"{name}.json", found)
        print(
            f"{name}: {found['n_items']} items, {'not asked' if found['models'] is None else 'asked'}",
            file=sys.stderr,
        )
    write_index(RESULTS, list(sets))
    _beside(sets)
    return 0


def _beside(sets: dict[str, Data]) -> None:
    """What needs all sets: others' answers, and the cues of all sets together."""
    there = [name for name in sets if (RESULTS / f"{name}.json").is_file()]
    published = None
    if set(SHARED) <= set(there):
        try:
            published = judged(sets, WORK)
            publish(RESULTS / "predictions.json", published)
        except RobustifyError as error:
            print(f"published predictions: left out: {error.lines[0]}", file=sys.stderr)
    publish(RESULTS / "biases.json", biases(RESULTS, WORK, there, published))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
