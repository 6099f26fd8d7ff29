"""Audit every set of sets.yaml and write numbers and item IDs, never text, to results/atlas: `make atlas`.

`python -m bench.atlas [NAME...]` audits only these sets. `--index` writes only results that depend on several sets.
`--again` audits unchanged sets again. `--weights` writes only adjusted.json and larger.json. The names `mmlu_pro` and
`writers` write these studies. `--table` writes only the table of all sets.

Sets whose files are missing are reported and skipped. No language model is asked. Intermediate files are in runs/atlas,
which git ignores.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import yaml

from bench.atlas.audit import adjusted, without_models
from bench.atlas.fitted import Entry
from bench.atlas.index import publish, write_index
from bench.atlas.mmlu_pro import mmlu_pro
from bench.atlas.others import SETS as LARGER
from bench.atlas.others import SHARED, judged, larger
from bench.atlas.sample import Data, loaded
from bench.atlas.table import write_table
from bench.atlas.writers import writers
from robustify.base.errors import RobustifyError
from robustify.runs.run import MANIFEST

ROOT = Path(__file__).parents[2]
RESULTS, WORK = ROOT / "results" / "atlas", ROOT / "runs" / "atlas"
SETS = Path(__file__).with_name("sets.yaml")
STUDIES: dict[str, Callable[[Path], Entry]] = {"mmlu_pro": mmlu_pro, "writers": writers}


def main(arguments: list[str]) -> int:
    """Audit and write all sets, and print one line per set."""
    parser = argparse.ArgumentParser(prog="python -m bench.atlas", description=__doc__)
    parser.add_argument("sets", metavar="NAME", nargs="*")
    for option in ("--index", "--again", "--weights", "--table"):
        parser.add_argument(option, action="store_true")
    given = parser.parse_args(arguments)
    sets = yaml.safe_load(SETS.read_text(encoding="utf-8"))
    if strangers := sorted(set(given.sets) - set(sets) - set(STUDIES)):
        parser.error(f"{strangers[0]}: is no set of {SETS.name}; expected some of {', '.join(sets)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    everything = not (given.sets or given.index or given.weights or given.table)
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
            if given.again or not _is_current(name, sets[name]):
                publish(RESULTS / f"{name}.json", without_models(name, sets[name], WORK))
                print(f"{name}: audited", file=sys.stderr)
        except RobustifyError as error:  # noqa: PERF203
            print(f"{name}: left out: {error.lines[0]}", file=sys.stderr)
    write_index(RESULTS, list(sets))
    if all((RESULTS / f"{name}.json").is_file() for name in SHARED):
        try:
            publish(RESULTS / "predictions.json", judged(sets, WORK))
        except RobustifyError as error:
            print(f"published predictions: left out: {error.lines[0]}", file=sys.stderr)
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


def _is_current(name: str, data: Data) -> bool:
    """Return whether the set has a result and a run's folder, and its files are unchanged."""
    path = RESULTS / f"{name}.json"
    if not path.is_file() or not (WORK / f"free-{name}" / MANIFEST).is_file():
        return False
    return bool(json.loads(path.read_text(encoding="utf-8"))["sha256"] == loaded(data).sha256)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
