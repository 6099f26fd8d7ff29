"""Who is certain and wrong: our rules, lm-eval, Inspect and math-verify on one table of hard answers.

`python -m bench.freeform_hard` grades tests/data/hard_answers.yaml by our rules and by lm-eval's exact match (the last
number of a numeric answer), and writes results/bench/hard_cases.json. `--beside PYTHON` adds Inspect and math-verify,
by an interpreter that has inspect-ai and math-verify: this file runs itself there. Only ours can be undecided.
"""

import argparse
import asyncio
import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "data" / "hard_answers.yaml"
RESULTS = ROOT / "results" / "bench" / "hard_cases.json"
Expected = Literal["right", "wrong", "undecided"]
Kind = Literal["numeric", "short_text", "explanation"]
VERDICTS: tuple[Expected, ...] = ("right", "wrong", "undecided")


class Case(NamedTuple):
    """One answer with a careful person's verdict; the first option is the key."""

    kind: Kind
    lang: str
    topic: str
    question: str
    options: tuple[str, ...]
    aliases: tuple[str, ...]
    unit: str | None
    answer: str
    expected: Expected

    @property
    def key(self) -> str:
        """The reference."""
        return self.options[0]


def cases(path: Path = TABLE) -> list[Case]:
    """Every answer of the table."""
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [
        Case(
            row["kind"], row["lang"], row["topic"], row["question"], tuple(row["options"]), tuple(row.get("aliases", ())),
            row.get("unit"), answer, expected,
        )
        for row in rows for expected in VERDICTS for answer in row[expected]
    ]  # fmt: skip


def ours(case: Case) -> Expected:
    """The verdict of our rules, without a judge."""
    from robustify.freeform.grade.graders import Grading, grade_answer
    from robustify.freeform.schema import AnswerRow, FreeItem

    item = FreeItem(
        "i",
        case.question,
        case.kind,
        case.key,
        case.unit,
        case.options,
        0,
        case.aliases,
    )
    score = grade_answer(
        item, AnswerRow("i", "m", case.answer, "", "", ""), Grading(mode="deterministic")
    ).score
    return "undecided" if score is None else "right" if score == 1 else "wrong"


def lm_eval(case: Case) -> Expected:
    """lm-eval's exact match, case and punctuation ignored; of a number, the last one (its GSM8K filter)."""
    from lm_eval.api.metrics import exact_match_hf_evaluate

    said, key = case.answer, case.key
    if case.kind == "numeric":
        found = re.findall(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", said)
        said = next((part for part in found[-1] if part), "") if found else "[invalid]"
    score = exact_match_hf_evaluate(
        predictions=[said], references=[key], regexes_to_ignore=[",", r"\$", r"\.$"], ignore_case=True,
        ignore_punctuation=case.kind != "numeric",
    )  # fmt: skip
    return "right" if score["exact_match"] else "wrong"


def inspect_match(case: Case) -> Expected:
    """Inspect's scorer `match`, anywhere in the answer; `numeric` for numbers."""
    scorer = importlib.import_module("inspect_ai.scorer")
    model = importlib.import_module("inspect_ai.model")
    solver = importlib.import_module("inspect_ai.solver")
    numeric = case.kind == "numeric"
    score = scorer.match(location="end" if numeric else "any", numeric=numeric)
    output = model.ModelOutput.from_content("m", case.answer)
    state = solver.TaskState(
        model="m", sample_id="i", epoch=0, input=case.question, messages=[], output=output
    )
    found = asyncio.run(score(state, scorer.Target([case.key, *case.aliases])))
    return "right" if found.value == "C" else "wrong"


def math_verify(case: Case) -> Expected:
    """math-verify's `verify` of what it parses of both."""
    library: Any = importlib.import_module("math_verify")
    key = library.parse(f"${case.key}$") or library.parse(case.key)
    return "right" if library.verify(key, library.parse(case.answer)) else "wrong"


def counted(table: Sequence[Case], grader: Callable[[Case], Expected]) -> dict[str, Any]:
    """How often a grader is certain, and certain and wrong: in all, by topic, and of what nobody can tell."""
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
        "certain_and_wrong_by_topic": dict(Counter(case.topic for case in wrong)),
    }


def beside(table: Sequence[Case]) -> dict[str, Any]:
    """The graders that live in another environment."""
    numbers = [case for case in table if case.kind == "numeric"]
    return {
        "inspect": {"version": version("inspect-ai"), **counted(table, inspect_match)},
        "math_verify": {
            "version": version("math-verify"),
            "only": "numeric",
            **counted(numbers, math_verify),
        },
    }


def main(words: Sequence[str]) -> int:
    """Grade the table, print the counts, and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", metavar="PYTHON", help="an interpreter with inspect-ai and math-verify")
    parser.add_argument(
        "--here", action="store_true", help="print what Inspect and math-verify say, and nothing else"
    )
    options = parser.parse_args(words)
    table = cases()
    if options.here:
        print(json.dumps(beside(table)))
        return 0
    graders: dict[str, Any] = {
        "ours": counted(table, ours),
        "lm_eval": {"version": version("lm_eval"), **counted(table, lm_eval)},
    }
    if options.beside:
        command = [options.beside, "-m", "bench.freeform_hard", "--here"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        graders |= json.loads(done.stdout.splitlines()[-1])
    found = {
        "says": "Hard answers with a person's verdict, graded without a judge; certain and wrong is the worst outcome",
        "by_topic": dict(Counter(case.topic for case in table)),
        "by_language": dict(Counter(case.lang for case in table)),
        "graders": graders,
    }
    print(json.dumps(found, indent=1))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0 if graders["ours"]["certain_and_wrong"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
