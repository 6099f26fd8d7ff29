"""How fast replies are parsed and graded, on one core: writes results/bench/freeform.json.

`python -m bench.freeform` gives 10,000 made-up, distinct replies to each parser and each deterministic grader
and times each; `--quick` takes 200 and writes nothing. It refuses a run in which a reply was not read as it was meant.
"""

import json
import os
import platform
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from robustify.freeform.grade.graders import Grading, grade_answer
from robustify.freeform.judge.label_parse import parse_labels_multi_format
from robustify.freeform.judge.verdicts import SUPPORT3, parse_score, parse_verdict
from robustify.freeform.schema import AnswerRow, FreeItem, Kind

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "freeform.json"
N, QUICK = 10_000, 200
GOAL_SECONDS = 10.0
"""For 10,000 replies through every parser and every grader together."""
NUGGETS = 8
_SENTENCE = "The passage states this in its second sentence and repeats it at the end ."
_WORDS = tuple(_SENTENCE.split(" "))
_NAMES = [f"{a} {b}" for a in ("amber", "birch", "cedar", "delta") for b in ("lamp", "mill", "gate", "path")]
_RULES = Grading(mode="deterministic")
_FORMATS = ("json", "list", "markdown", "csv", "objects")


def reasoning(i: int, rng: random.Random) -> str:
    """A few sentences of a judge thinking, no two alike."""
    sentences = [f"Nugget {j + 1} of case {i}: {' '.join(rng.choices(_WORDS, k=14))}" for j in range(NUGGETS)]
    return "<reasoning>\n" + "\n".join(sentences) + "\n</reasoning>\n"


def labels_reply(i: int, rng: random.Random) -> tuple[str, list[str]]:
    """Labels of eight nuggets after some reasoning, in one of five spellings."""
    labels = rng.choices(SUPPORT3.labels, k=NUGGETS)
    match _FORMATS[i % len(_FORMATS)]:
        case "json":
            written = json.dumps(labels)
        case "list":
            written = "\n".join(f"- {label}" for label in labels)
        case "markdown":
            written = "\n".join(f"{j}. {label}: as it says" for j, label in enumerate(labels, start=1))
        case "csv":
            written = ", ".join(labels)
        case _:
            written = json.dumps(
                [{"id": j, "label": label} for j, label in enumerate(labels, start=1)], indent=1
            )
    return reasoning(i, rng) + written, labels


def numeric_reply(i: int, rng: random.Random) -> tuple[str, str, float]:
    """A worked answer with its number at the end, and a reference that it meets or misses."""
    value = rng.randrange(20, 10**6) / 10
    right = i % 2 == 0
    text = f"We begin with {i} parts and divide them by {rng.randrange(2, 9)}. So the answer is {value:,.1f}."
    return text, str(value if right else value * 2), float(right)


def choice_reply(i: int, rng: random.Random) -> tuple[str, list[str], float]:
    """A sentence that names one of four options."""
    options = [f"{name} {i}" for name in rng.sample(_NAMES, 4)]
    right = i % 2 == 0
    return f"I believe it is the {options[0 if right else 1]}.", options, float(right)


def by_rules(kind: Kind, answer: str, options: tuple[str, ...]) -> float | None:
    """The score by rules of one answer; the first option is right."""
    item = FreeItem("i", "Which?", kind, options[0], options=options, correct=0)
    return grade_answer(item, AnswerRow("i", "m", answer, "", "", ""), _RULES).score


def timed(n: int, made: Callable[[int, random.Random], Any], done: Callable[[Any], bool]) -> dict[str, Any]:
    """Seconds for `n` replies that were made beforehand; every one must be read as it was meant."""
    rng = random.Random(7)
    replies = [made(i, rng) for i in range(n)]
    start, wall = time.process_time(), time.perf_counter()
    read = [done(reply) for reply in replies]
    seconds, wall = time.process_time() - start, time.perf_counter() - wall
    if not all(read):
        raise SystemExit(f"{read.count(False)} of {n} replies were not read as they were meant")
    return {"replies": n, "cpu_seconds": round(seconds, 3), "wall_seconds": round(wall, 3)}


def measured(n: int) -> dict[str, Any]:
    """Every parser and every grader."""
    cases = {
        "parse_labels_multi_format": timed(
            n, labels_reply, lambda r: parse_labels_multi_format(r[0], NUGGETS).labels == r[1]
        ),
        "parse_score": timed(
            n,
            lambda i, rng: (
                reasoning(i, rng) + json.dumps({"reasoning": f"case {i}", "score": i % 2}),
                i % 2,
            ),
            lambda r: parse_score(r[0]).value == r[1],
        ),
        "parse_verdict": timed(
            n,
            lambda i, rng: (
                reasoning(i, rng) + json.dumps({"reasoning": f"case {i}", "verdict": "incorrect"}),
                "incorrect",
            ),
            lambda r: parse_verdict(r[0]).value == r[1],
        ),
        "grade_numeric": timed(n, numeric_reply, lambda r: by_rules("numeric", r[0], (r[1],)) == r[2]),
        "grade_mcq": timed(n, choice_reply, lambda r: by_rules("short_text", r[0], tuple(r[1])) == r[2]),
    }
    whole = sum(case["cpu_seconds"] for case in cases.values())
    return {
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "cpu": platform.machine(),
            "python": platform.python_version(),
            "load_before": round(os.getloadavg()[0], 2),
            "date": time.strftime("%Y-%m-%d"),
        },
        "says": f"{n:,} replies through every parser and every deterministic grader, one core",
        "cases": cases,
        "cpu_seconds": round(whole, 3),
        "goal_seconds": GOAL_SECONDS,
        "met": whole <= GOAL_SECONDS,
    }


def main(words: list[str]) -> int:
    quick = "--quick" in words
    found = measured(QUICK if quick else N)
    print(json.dumps(found, indent=2))
    if not quick:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0 if found["met"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
