"""Export of items as open-ended questions, and the lm-eval task that asks them.

Only questions that rules can grade (numbers and short texts) are exported. The others are counted. The task calls
`process_results` of this module to grade replies, so it needs robustify installed with lm-eval. Only rules grade. An
answer that they cannot decide has no score. It is counted beside the accuracy and never as wrong. The same applies to a
truncated reply if the other tool reports the truncation, as Inspect does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustify.export.lm_eval_tasks import (
    VERSION,
    Function,
    accuracies,
    data_of,
    starting,
    task_name,
    write_data,
    write_yaml,
)
from robustify.export.writing import Heading
from robustify.freeform.grade.graders import grade_answer
from robustify.freeform.questions import convert_item, prompt_of
from robustify.freeform.schema import AnswerRow, FreeItem, GradeResult
from robustify.freeform.settings import FreeSettings
from robustify.items.item import Item

MOST_TOKENS = 512
GRADER = "robustify.export.free_grading.process_results"
_RULES = FreeSettings(mode="deterministic")
_GRADED = (
    "robustify's graders read the replies: numbers within 5 %, units, whole words; no judge. acc is over the replies",
    "that they can decide, decided is the share of those; acc_low and acc_high take the others as wrong and as right.",
    "lm-eval prints n of all items beside acc: its own n is that times decided. lm-eval does not say whether a reply",
    "was cut off, so a cut-off reply is graded as it stands.",
)


@dataclass(frozen=True, slots=True, repr=False)
class FreeRows:
    """Rows of open-ended questions. `n_items` counts all items, and `left_out` the omitted ones by reason."""

    rows: tuple[dict[str, Any], ...]
    n_items: int
    left_out: Mapping[str, int]

    def __repr__(self) -> str:
        return f"FreeRows({len(self.rows)} of {self.n_items})"

    @property
    def says(self) -> str:
        """Summary of the numbers of exported and omitted items."""
        reasons = ", ".join(f"{name} {n}" for name, n in sorted(self.left_out.items()))
        return f"{len(self.rows)} of {self.n_items} items" + (f" (left out: {reasons})" if reasons else "")


def free_rows(items: Sequence[Item]) -> FreeRows:
    """Convert the items that can be asked without options and graded by rules, in order."""
    asked = [convert_item(item) for item in items]
    rows = (
        {"id": one.id, "prompt": prompt_of(one, _RULES), "question": one.question, "kind": one.kind,
         "reference": one.reference, "choices": [*one.options], "key": one.correct, "topic": one.topic}
        for one in asked if not one.excluded_reason
    )  # fmt: skip
    left_out = Counter(one.excluded_reason for one in asked if one.excluded_reason)
    return FreeRows(tuple(rows), len(items), left_out)


def write_free_task(folder: Path, heading: Heading, free: FreeRows) -> None:
    """Write the lm-eval task of these questions and its data, if there are any."""
    if not free.rows:
        return
    name = task_name(heading.benchmark, "kept_free_graded")
    says = heading.lines(f"the kept items without options, answered in words; {free.says}.", *_GRADED)
    tree = {
        "task": name,
        **data_of([write_data(folder, heading, "kept_free", free.rows)]),
        "output_type": "generate_until",
        "num_fewshot": 0,
        "doc_to_text": "prompt",
        "doc_to_target": "reference",
        "generation_kwargs": {"until": ["</s>"], "do_sample": False, "max_gen_toks": MOST_TOKENS},
        "process_results": Function(GRADER),
        "metric_list": accuracies("acc", "decided", "acc_low", "acc_high"),
        "metadata": {"version": VERSION},
    }
    write_yaml(folder / f"{name}.yaml", [*says, *starting(folder.name, name)], tree)


# Grading


def grade(doc: Mapping[str, Any], reply: str, *, cut: bool = False) -> GradeResult:
    """Grade a reply to one row of a free-response task. With `cut`, the reply was truncated and is undecided."""
    same = {name: doc[name] for name in ("id", "question", "kind", "reference", "topic")}
    item = FreeItem(**same, options=tuple(doc["choices"]), correct=doc["key"])
    finish = "length" if cut else None
    return grade_answer(item, AnswerRow(item.id, "", reply, finish_reason=finish), _RULES)


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Return the metrics of one reply, which lm-eval averages. Only decided replies have `acc`, so its n is n times
    `decided`. `acc_low` and `acc_high` count undecided ones as wrong and as right."""
    score = grade(doc, results[0]).score
    if score is None:
        return {"decided": 0.0, "acc_low": 0.0, "acc_high": 1.0}
    return {"decided": 1.0, "acc": score, "acc_low": score, "acc_high": score}
