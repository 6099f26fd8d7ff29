"""Audit every set of sets.yaml and write numbers and item IDs, never text, to results/atlas: `make atlas`.

`python -m bench.atlas NAME...` audits only these sets, or writes only these studies: `mmlu_pro`, `writers`, `larger`, and
`predictions`. `--index` writes only the tables of all sets. `--again` audits unchanged sets again.

Sets whose files are missing are reported and skipped. No language model is asked. Intermediate files are in runs/atlas,
which git ignores.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import yaml

from bench.atlas.audit import Data, loaded, without_models, write_index
from bench.atlas.fitted import Entry
from bench.atlas.mmlu_pro import mmlu_pro
from bench.atlas.others import all_larger, judged
from bench.atlas.table import write_table
from bench.atlas.writers import writers
from bench.results import RESULTS as ALL
from bench.results import left_out, publish, read
from robustify.runs.run import MANIFEST

RESULTS, WORK = ALL / "atlas", ALL.parent / "runs" / "atlas"
SETS = Path(__file__).with_name("sets.yaml")


def main(arguments: list[str]) -> int:
    """Audit and write all sets and studies, and print one line for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.atlas", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*")
    for option in ("--index", "--again"):
        parser.add_argument(option, action="store_true")
    given = parser.parse_args(arguments)
    sets = yaml.safe_load(SETS.read_text(encoding="utf-8"))
    studies: dict[str, Callable[[Path], Entry]] = {
        "mmlu_pro": mmlu_pro, "writers": writers, "larger": all_larger, "predictions": partial(judged, sets)
    }  # fmt: skip
    if strangers := sorted(set(given.names) - set(sets) - set(studies)):
        parser.error(f"{strangers[0]}: is no set of {SETS.name}; expected some of {', '.join(sets)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in [] if given.index else given.names or (*sets, *studies):
        with left_out(name):
            if name in studies:
                publish(RESULTS / f"{name}.json", studies[name](WORK))
            elif given.again or not _is_current(name, sets[name]):
                publish(RESULTS / f"{name}.json", without_models(name, sets[name], WORK))
            print(f"{name}: done", file=sys.stderr)
    write_index(RESULTS, list(sets))
    write_table(RESULTS)
    return 0


def _is_current(name: str, data: Data) -> bool:
    """Return whether the set has a result and a run's folder, and its files are unchanged."""
    there = (WORK / f"free-{name}" / MANIFEST).is_file()
    return there and read(RESULTS / f"{name}.json").get("sha256") == loaded(data).sha256


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
