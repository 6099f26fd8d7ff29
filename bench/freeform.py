"""Grade tests/data/hard_answers.yaml by our rules, lm-eval's exact match, and math-verify: `python -m bench.freeform`.

lm-eval takes the last number of a numeric answer. Only our rules can be undecided. Writes results/bench/hard_cases.json.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from robustify.freeform.grade.graders import grade_answer
from robustify.freeform.schema import AnswerRow, FreeItem, FreeSettings, Kind

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "data" / "hard_answers.yaml"
RESULTS = ROOT / "results" / "bench" / "hard_cases.json"
Expected = Literal["right", "wrong", "undecided"]
VERDICTS: tuple[Expected, ...] = ("right", "wrong", "undecided")
_RULES = FreeSettings(mode="deterministic")


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


def main() -> int:
    """Grade, print, and write the results."""
    found = hard()
    print(json.dumps(found, indent=1))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(bool(found["graders"]["ours"]["certain_and_wrong"]))


if __name__ == "__main__":
    sys.exit(main())
