"""The generated block of the leak test's page: what the last full run counted and found."""

import json
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).parents[2] / "results" / "bench" / "leak.json"


def leak_test() -> str:
    """The figures of results/bench/leak.json."""
    if not MEASURED.is_file():
        return "Not measured: `make leak-test` writes `results/bench/leak.json`.\n"
    held: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    planted, controls = held["planted_leaks"], held["controls"]
    rows = {
        "items of each set": held["items"],
        "canaries": held["canaries"],
        "runs of five words": held["runs_of_five_words"],
        "cache keys as they would be without the evaluator's key": held[
            "cache_keys_without_the_evaluators_key"
        ],
        "disguises that the search sees through": held["encodings"],
        "command lines": held["commands"],
        "of them not as expected": len(held["commands_not_as_expected"]),
        "faults met": held["faults_met"],
        "streams searched": held["streams"],
        "megabytes searched": round(held["bytes"] / 1e6, 1),
        "**hits**": f"**{len(held['hits'])}**",
        "dataclasses whose repr shows text": len(held["dataclasses_that_show_text"]),
        "planted leaks found": f"{planted - len(held['planted_leaks_missed'])} of {planted}",
        "controls whose absence is noticed": f"{controls - len(held['controls_not_missed'])} of {controls}",
    }
    told = "\n".join(f"| {name} | {value:,} |" if isinstance(value, int) else f"| {name} | {value} |"
                     for name, value in rows.items())  # fmt: skip
    verdict = "passed" if held["passed"] else "**failed**"
    return f"| the last full run ({verdict}) | |\n|---|--:|\n{told}\n"


BLOCKS = {"leak-test": leak_test}
