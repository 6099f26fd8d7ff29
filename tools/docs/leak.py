"""The generated block of the leak test's page: what the last full run counted and found."""

from typing import Any

from tools.docs.measured import measured, named


@measured("bench/leak.json", by="make leak-test")
def leak_test(record: Any) -> str:
    """The figures of results/bench/leak.json."""
    planted, controls = record["planted_leaks"], record["controls"]
    rows = {
        "items of each set": record["items"],
        "canaries": record["canaries"],
        "runs of five words": record["runs_of_five_words"],
        "cache keys as they would be without the evaluator's key": record[
            "cache_keys_without_the_evaluators_key"
        ],
        "disguises that the search sees through": record["encodings"],
        "command lines": record["commands"],
        "of them not as expected": len(record["commands_not_as_expected"]),
        "faults met": record["faults_met"],
        "streams searched": record["streams"],
        "megabytes searched": round(record["bytes"] / 1e6, 1),
        "**hits**": f"**{len(record['hits'])}**",
        "dataclasses whose repr shows text": len(record["dataclasses_that_show_text"]),
        "planted leaks found": f"{planted - len(record['planted_leaks_missed'])} of {planted}",
        "controls whose absence is noticed": f"{controls - len(record['controls_not_missed'])} of {controls}",
    }
    rows = "\n".join(f"| {name} | {value:,} |" if isinstance(value, int) else f"| {name} | {value} |"
                     for name, value in rows.items())  # fmt: skip
    verdict = "passed" if record["passed"] else "**failed**"
    return f"| the last full run ({verdict}) | |\n|---|--:|\n{rows}\n"


BLOCKS = named(leak_test)
