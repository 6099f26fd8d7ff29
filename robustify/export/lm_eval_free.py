"""The questions of the robust split without their options, as tasks in which the model writes.

One task is plain YAML and compares texts: a lower bound, because YAML knows no tolerance, no unit, no other option and
nothing undecided. The other asks the same and lets our graders read the replies, so it needs robustify beside lm-eval.
"""

from pathlib import Path
from typing import Any

from robustify.export.free import FreeRows
from robustify.export.heading import Heading
from robustify.export.lm_eval import VERSION, Function, starting, task_name, write_yaml

DATA = "robust_free.jsonl"
MOST_TOKENS = 512
GRADER = "robustify.export.free_grading.process_results"
_NOT_DONE = (
    "What this file can do: take the first line of the reply without its full stop, and compare it with the reference",
    "without case.",
    "What it cannot: numbers within a tolerance, units, a longer reply that names the option, refusals, replies",
    "nobody can decide. All of these count as wrong, so its exact_match is a lower bound; NAME_graded decides them.",
)
_GRADED = (
    "robustify's graders read the replies: numbers within 5 %, units, whole words; no judge. acc is over the replies",
    "that they can decide, decided is the share of those; acc_low and acc_high take the others as wrong and as right.",
    "lm-eval prints n of all items beside acc: its own n is that times decided. lm-eval does not say whether a reply",
    "was cut off, so a cut-off reply is graded as it stands.",
)


def write_free_tasks(folder: Path, heading: Heading, free: FreeRows) -> list[Path]:
    """The two tasks for `robust_free.jsonl` in the parent folder; none where no item can be asked so."""
    if not free.rows:
        return []
    plain, graded = (task_name(heading.benchmark, end) for end in ("robust_free", "robust_free_graded"))
    says = heading.lines(f"the robust items without options, answered in words; {free.says}.")
    told = [line.replace("NAME", plain) for line in _NOT_DONE]
    first = write_yaml(folder / f"{plain}.yaml", [*says, *told, *starting(folder.name, plain)], _plain(plain))
    second = write_yaml(
        folder / f"{graded}.yaml", [*says, *_GRADED, *starting(folder.name, graded)], _graded(graded)
    )
    return [first, second]


def _asked(name: str) -> dict[str, Any]:
    return {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": [DATA]}},
        "test_split": "test",
        "output_type": "generate_until",
        "num_fewshot": 0,
        "doc_to_text": "prompt",
        "doc_to_target": "reference",
        "generation_kwargs": {"until": ["</s>"], "do_sample": False, "max_gen_toks": MOST_TOKENS},
    }


def _plain(name: str) -> dict[str, Any]:
    return {
        **_asked(name),
        "filter_list": [
            {
                "name": "trimmed",
                "filter": [
                    {
                        "function": "regex",
                        "regex_pattern": r"^\s*([^\n]*?)[\s.]*(?:\n|$)",
                        "fallback": "",
                    },
                    {"function": "take_first"},
                ],
            }
        ],
        "metric_list": [
            {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, "ignore_case": True}
        ],
        "metadata": {"version": VERSION},
    }


def _graded(name: str) -> dict[str, Any]:
    metrics = ("acc", "decided", "acc_low", "acc_high")
    return {
        **_asked(name),
        "process_results": Function(GRADER),
        "metric_list": [
            {"metric": metric, "aggregation": "mean", "higher_is_better": True} for metric in metrics
        ],
        "metadata": {"version": VERSION},
    }
