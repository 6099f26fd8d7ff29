"""Measure free response: certain errors on hard answers, and the speed of parsing and grading.

`python -m bench.freeform hard` grades tests/data/hard_answers.yaml by our rules, by lm-eval's exact match (the last number
of a numeric answer) and by math-verify. It writes results/bench/hard_cases.json. Only our rules can be undecided.

`python -m bench.freeform speed` times every parser and grader on 10,000 made-up replies on one core and writes
results/bench/freeform.json. It fails if a reply was not read as intended.
"""

import json
import os
import platform
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from robustify.freeform.grade.graders import grade_answer
from robustify.freeform.llm_judge.verdicts import SUPPORT, parse_labels_multi_format, parse_score
from robustify.freeform.schema import AnswerRow, FreeItem, Kind
from robustify.freeform.settings import FreeSettings

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "data" / "hard_answers.yaml"
RESULTS = ROOT / "results" / "bench"
N = 10_000
GOAL_SECONDS = 10.0
"""Time limit for 10,000 replies through every parser and grader together."""
NUGGETS = 8
Expected = Literal["right", "wrong", "undecided"]
VERDICTS: tuple[Expected, ...] = ("right", "wrong", "undecided")
_RULES = FreeSettings(mode="deterministic")
_WORDS = ("The", "passage", "states", "this", "in", "its", "second", "sentence")


class Case(NamedTuple):
    """An answer with a careful person's verdict; the first option is the key."""

    kind: Kind
    lang: str
    topic: str
    question: str
    options: tuple[str, ...]
    aliases: tuple[str, ...]
    unit: str | None
    answer: str
    expected: Expected


def cases(path: Path = TABLE) -> list[Case]:
    """Return all answers of the table."""
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [
        Case(
            row["kind"], row["lang"], row["topic"], row["question"], tuple(row["options"]), tuple(row.get("aliases", ())),
            row.get("unit"), answer, expected,
        )
        for row in rows for expected in VERDICTS for answer in row[expected]
    ]  # fmt: skip


def ours(case: Case) -> Expected:
    """Return the verdict of our rules without a judge."""
    item = FreeItem("i", case.question, case.kind, case.options[0], case.unit, case.options, 0, case.aliases)
    score = grade_answer(item, AnswerRow("i", "m", case.answer), _RULES).score
    return "undecided" if score is None else "right" if score == 1 else "wrong"


def lm_eval(case: Case) -> Expected:
    """Return lm-eval's exact match without case and punctuation, or of the last number (its GSM8K filter)."""
    from lm_eval.api.metrics import exact_match_hf_evaluate

    said, key = case.answer, case.options[0]
    if case.kind == "numeric":
        found = re.findall(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", said)
        said = next((part for part in found[-1] if part), "") if found else "[invalid]"
    score = exact_match_hf_evaluate(
        predictions=[said], references=[key], regexes_to_ignore=[",", r"\$", r"\.$"], ignore_case=True,
        ignore_punctuation=case.kind != "numeric",
    )  # fmt: skip
    return "right" if score["exact_match"] else "wrong"


def math_verify(case: Case) -> Expected:
    """Return the verdict of math-verify's `verify` on the two parsed answers."""
    import math_verify as library

    key = library.parse(f"${case.options[0]}$") or library.parse(case.options[0])
    return "right" if library.verify(key, library.parse(case.answer)) else "wrong"


def counted(table: Sequence[Case], grader: Callable[[Case], Expected]) -> dict[str, Any]:
    """Count how often a grader is certain, is certain and wrong, and decides an undecidable answer."""
    verdicts = [grader(case) for case in table]
    pairs = list(zip(table, verdicts, strict=True))
    clear = [(case, verdict) for case, verdict in pairs if case.expected != "undecided"]
    wrong = [case for case, verdict in clear if verdict not in (case.expected, "undecided")]
    return {
        "cases": len(clear),
        "decided": sum(verdict != "undecided" for _, verdict in clear),
        "certain_and_wrong": len(wrong),
        "wrong_called_right": sum(case.expected == "wrong" for case in wrong),
        "right_called_wrong": sum(case.expected == "right" for case in wrong),
        "unclear_cases": len(pairs) - len(clear),
        "unclear_decided": sum(v != "undecided" for c, v in pairs if c.expected == "undecided"),
    }


def hard() -> dict[str, Any]:
    """Grade the table with every grader."""
    table = cases()
    numbers = [case for case in table if case.kind == "numeric"]
    return {
        "says": "Hard answers with a person's verdict, graded without a judge; certain and wrong is the worst outcome",
        "by_topic": dict(Counter(case.topic for case in table)),
        "by_language": dict(Counter(case.lang for case in table)),
        "graders": {
            "ours": counted(table, ours),
            "lm_eval": counted(table, lm_eval) | {"version": version("lm_eval")},
            "math_verify": counted(numbers, math_verify)
            | {"version": version("math-verify"), "only": "numeric"},
        },
    }


def reasoning(i: int, rng: random.Random) -> str:
    """Return a few different sentences of a judge's reasoning."""
    sentences = [f"Nugget {j + 1} of case {i}: {' '.join(rng.choices(_WORDS, k=14))}" for j in range(NUGGETS)]
    return "<reasoning>\n" + "\n".join(sentences) + "\n</reasoning>\n"


def labels_reply(i: int, rng: random.Random) -> tuple[str, list[str]]:
    """Return labels of eight nuggets after some reasoning, in one of four formats."""
    labels = rng.choices(tuple(SUPPORT), k=NUGGETS)
    numbered = json.dumps([{"id": j, "label": label} for j, label in enumerate(labels, start=1)])
    spellings = json.dumps(labels), "\n".join(f"- {label}" for label in labels), ", ".join(labels), numbered
    return reasoning(i, rng) + spellings[i % len(spellings)], labels


def number_case(i: int, rng: random.Random) -> Case:
    """Return a worked answer that ends with its number, right or wrong."""
    value = rng.randrange(20, 10**6) / 10
    key, verdict = (value, VERDICTS[0]) if i % 2 else (value * 2, VERDICTS[1])
    text = f"We begin with {i} parts and divide them by {rng.randrange(2, 9)}. So the answer is {value:,.1f}."
    return Case("numeric", "en", "", "How many?", (str(key),), (), None, text, verdict)


def timed(n: int, made: Callable[[int, random.Random], Any], done: Callable[[Any], bool]) -> dict[str, Any]:
    """Measure the time for `n` prepared replies, and check that each is read as intended."""
    rng = random.Random(7)
    replies = [made(i, rng) for i in range(n)]
    start, wall = time.process_time(), time.perf_counter()
    read = [done(reply) for reply in replies]
    seconds, wall = time.process_time() - start, time.perf_counter() - wall
    if not all(read):
        raise SystemExit(f"{read.count(False)} of {n} replies were not read as intended.")
    return {"replies": n, "cpu_seconds": round(seconds, 3), "wall_seconds": round(wall, 3)}


def speed(n: int = N) -> dict[str, Any]:
    """Measure the time of every parser and grader."""

    def scored(i: int, rng: random.Random) -> str:
        return reasoning(i, rng) + json.dumps({"reasoning": f"case {i}", "score": 1})

    done = {
        "labels": timed(n, labels_reply, lambda r: parse_labels_multi_format(r[0], NUGGETS).labels == r[1]),
        "score": timed(n, scored, lambda r: parse_score(r).value == 1),
        "number": timed(n, number_case, lambda case: ours(case) == case.expected),
    }
    whole = sum(case["cpu_seconds"] for case in done.values())
    return {
        "cores": len(os.sched_getaffinity(0)), "python": platform.python_version(), "date": time.strftime("%Y-%m-%d"),
        "says": f"{n:,} replies through every parser and every deterministic grader, one core",
        "cases": done, "cpu_seconds": round(whole, 3), "goal_seconds": GOAL_SECONDS, "met": whole <= GOAL_SECONDS,
    }  # fmt: skip


def main(words: Sequence[str]) -> int:
    """Measure, print, and write the results."""
    if list(words) not in (["hard"], ["speed"]):
        raise SystemExit("Expected one argument: hard or speed.")
    is_hard = list(words) == ["hard"]
    found = hard() if is_hard else speed()
    print(json.dumps(found, indent=1))
    file = RESULTS / ("hard_cases.json" if is_hard else "freeform.json")
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(bool(found["graders"]["ours"]["certain_and_wrong"]) if is_hard else not found["met"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
