"""Measure how many planted errors of a harness `lint` finds, and how often it is wrong about clean logs.

Run `python -m bench.log_recall`. It writes results/bench/lint_logs.json in seconds.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.log_plants import PLANTS
from bench.planted_logs import clean_logs
from bench.results import RESULTS, Tree, measure
from robustify.judging.lint.findings import Finding, log_findings
from robustify.judging.lint.log_rules import LOG_RULES
from robustify.pipeline.linted_logs import as_log
from robustify.wings import GUARD

_SEEDS = range(11, 31)


def findings_in(paths: Sequence[Path]) -> tuple[int, list[Finding]]:
    """Return the number of rows of logs, and the findings of all rules about logs."""
    logs = [log for path in paths if (log := as_log(str(path), {}, GUARD, certain=False))]
    return sum(len(log.rows) for log in logs), log_findings(logs, LOG_RULES)


def _planted() -> Tree:
    """Count the plants of each rule, and those that it finds."""
    counts = {code: [0, 0] for code in LOG_RULES}
    for plant in PLANTS:
        with TemporaryDirectory() as folder:
            _, hits = findings_in(plant.write(Path(folder)))
        counts[plant.code][1] += 1
        counts[plant.code][0] += any(hit.code == plant.code for hit in hits)
    return counts


def _clean() -> Tree:
    """Count the logs, rows, and findings of clean logs by form."""
    counts: dict[str, list[int]] = {}
    for seed in _SEEDS:
        with TemporaryDirectory() as folder:
            for form, paths in clean_logs(Path(folder), seed).items():
                n_rows, hits = findings_in(paths)
                earlier = counts.setdefault(form, [0, 0, 0])
                counts[form] = [a + b for a, b in zip(earlier, (len(paths), n_rows, len(hits)), strict=True)]
    return counts


if __name__ == "__main__":
    sys.exit(
        measure(RESULTS / "bench" / "lint_logs.json", {"planted": _planted, "clean": _clean}, sys.argv[1:])
    )
