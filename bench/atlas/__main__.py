"""Audit every set of sets.yaml and write numbers and item IDs, never text, to results/atlas: `make atlas`.

`python -m bench.atlas [NAME...]` audits only these sets. `--free` asks no model and publishes earlier answers. `--index`
writes only results that depend on several sets. `--again` judges unchanged sets again. `--weights` writes only
adjusted.json and larger.json, without a language model. The names `mmlu_pro` and `writers` write these studies.
`--table` writes only the table of all sets.

Sets whose files are missing are reported and skipped. Nothing is asked twice: intermediate files are in runs/atlas, which
git ignores, and scores are in the cache.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import yaml

from bench.atlas.adjusted import adjusted
from bench.atlas.audit import with_models, without_models
from bench.atlas.fitted import Entry
from bench.atlas.index import publish, write_index
from bench.atlas.larger import SETS as LARGER
from bench.atlas.larger import larger
from bench.atlas.mmlu_pro import mmlu_pro
from bench.atlas.others import SHARED, judged
from bench.atlas.sample import Data, loaded
from bench.atlas.table import write_table
from bench.atlas.writers import writers
from robustify.base.errors import RobustifyError
from robustify.cli.options import watcher
from robustify.runs.run import MANIFEST

ROOT = Path(__file__).parents[2]
RESULTS, WORK = ROOT / "results" / "atlas", ROOT / "runs" / "atlas"
SETS = Path(__file__).with_name("sets.yaml")
STUDIES: dict[str, Callable[[Path], Entry]] = {"mmlu_pro": mmlu_pro, "writers": writers}


def main(arguments: list[str]) -> int:
    """Audit and write all sets, and print one line per set."""
    parser = argparse.ArgumentParser(prog="python -m bench.atlas", description=__doc__)
    parser.add_argument("sets", metavar="NAME", nargs="*")
    parser.add_argument("--free", action="store_true")
    parser.add_argument("--index", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--weights", action="store_true")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args(arguments)
    sets = yaml.safe_load(SETS.read_text(encoding="utf-8"))
    strangers = sorted(set(given.sets) - set(sets) - set(STUDIES))
    if strangers:
        parser.error(f"{strangers[0]}: is no set of {SETS.name}; expected some of {', '.join(sets)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    everything = not (given.sets or given.free or given.index or given.weights or given.table)
    for name in STUDIES if everything else set(given.sets) & set(STUDIES):
        publish(RESULTS / f"{name}.json", STUDIES[name](WORK))
    named = [name for name in given.sets if name in sets]
    if given.sets and not named:
        return 0
    if given.weights:
        _write("adjusted.json", {name: partial(adjusted, data) for name, data in sets.items()})
        _write("larger.json", {name: partial(larger, name) for name in LARGER})
        return 0
    for name in [] if given.index or given.table else named or sets:
        try:
            found = (None if given.again else _before(name, sets[name])) or without_models(
                name, sets[name], WORK
            )
            if given.again or found.get("models") is None:
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
    write_table(RESULTS)
    return 0


def _write(file: str, parts: Mapping[str, Callable[[Path], Entry]]) -> None:
    """Write a file of results/atlas with a part for each set whose files exist."""
    found = {}
    for name, part in parts.items():
        try:
            found[name] = part(WORK)
        except RobustifyError as error:  # noqa: PERF203
            print(f"{name}: left out of {file}: {error.lines[0]}", file=sys.stderr)
    publish(RESULTS / file, found)


def _before(name: str, data: Data) -> Entry | None:
    """Return the earlier result if its folder exists and the set's files are unchanged."""
    path = RESULTS / f"{name}.json"
    if not path.is_file() or not (WORK / f"free-{name}" / MANIFEST).is_file():
        return None
    found: Entry = json.loads(path.read_text(encoding="utf-8"))
    return found if found["sha256"] == loaded(data).sha256 else None


def _beside(sets: dict[str, Data]) -> None:
    """Write the results that need several sets: published answers and the table."""
    if all((RESULTS / f"{name}.json").is_file() for name in SHARED):
        try:
            publish(RESULTS / "predictions.json", judged(sets, WORK))
        except RobustifyError as error:
            print(f"published predictions: left out: {error.lines[0]}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
