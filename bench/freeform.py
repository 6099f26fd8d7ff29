"""Grade tests/data/hard_answers.yaml by the rules, without a judge: writes results/bench/hard_cases.json.

`python -m bench.freeform` exits with code 1 if an answer is graded with certainty, and wrongly.
"""

import sys
from collections import Counter
from pathlib import Path
from typing import Literal, NamedTuple

import yaml

from bench.results import RESULTS, ROOT, Tree
from robustify.base.files import write_json
from robustify.freeform.grade.graders import grade_answer
from robustify.freeform.schema import AnswerRow, FreeItem
from robustify.pipeline.free_settings import FreeSettings, Kind

TABLE = ROOT / "tests" / "data" / "hard_answers.yaml"
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


def hard() -> Tree:
    """Count how often the rules decide an answer, are wrong, and decide an undecidable answer."""
    table = cases()
    verdicts = Counter((case.expected, ours(case)) for case in table)
    clear = {pair: n for pair, n in verdicts.items() if pair[0] != "undecided"}
    unclear = {pair: n for pair, n in verdicts.items() if pair[0] == "undecided"}
    return {
        "by_topic": Counter(case.topic for case in table),
        "by_language": Counter(case.lang for case in table),
        "cases": sum(clear.values()),
        "decided": sum(n for (_, said), n in clear.items() if said != "undecided"),
        "wrong_called_right": verdicts["wrong", "right"],
        "right_called_wrong": verdicts["right", "wrong"],
        "unclear_cases": sum(unclear.values()),
        "unclear_decided": sum(n for (_, said), n in unclear.items() if said != "undecided"),
    }


def main() -> int:
    """Grade, print, and write the results."""
    found = hard()
    print(found)
    write_json(RESULTS / "bench" / "hard_cases.json", found)
    return int(found["wrong_called_right"] + found["right_called_wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
