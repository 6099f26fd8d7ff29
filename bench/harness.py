"""Time the first two commands of a user of lm-eval: writes results/bench/harness.json.

`python -m bench.harness` makes a local task of 200 items and logs of two models, audits the task by its name, and compares
the logs. Each command is a process of its own. `loading` is the same task, loaded by lm-eval alone.
"""

import os
import sys
import tempfile
from pathlib import Path

from bench.planted_logs import house_items, letters_row, picks_for, write_jsonl
from bench.results import RESULTS, Tree, commit, machine, measured, publish

N_ITEMS = 200
MODELS = {"base": 0.5, "tuned": 0.7}
"""Share of items that each model gets right."""
TASK = """\
task: house
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/house.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
"""
LOAD = "from lm_eval.tasks import TaskManager; TaskManager(include_path={!r}).load(['house'])"


def write_inputs(folder: Path) -> None:
    """Write the task, its data, and lm-eval's logs of two models."""
    items = house_items(N_ITEMS)
    docs = [{"question": item.question, "choices": item.options, "answer": item.key} for item in items]
    write_jsonl(folder / "house.jsonl", docs)
    (folder / "house.yaml").write_text(TASK.format(folder=folder), encoding="utf-8")
    for seed, (model, accuracy) in enumerate(MODELS.items()):
        picks = picks_for(items, seed, accuracy)
        write_jsonl(
            folder / f"{model}.jsonl", [letters_row(*pair) for pair in zip(items, picks, strict=True)]
        )


def main() -> int:
    """Measure both commands, and the loading of the task alone. Return 1 if a command failed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        how = {"cwd": folder, "env": {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf")}}
        robustify = [sys.executable, "-m", "robustify"]
        commands = {
            "loading": [sys.executable, "-c", LOAD.format(name)],
            "audit": [*robustify, "lm-eval:house", "--include-path", name, "--public", "-o", "audit"],
            "compare": [*robustify, "compare", *(f"{model}.jsonl" for model in MODELS)],
        }
        took: Tree = {part: measured(command, **how) for part, command in commands.items()}
    publish(RESULTS / "bench" / "harness.json", {**machine(), "commit": commit(), "items": N_ITEMS, **took})
    return int(any(part["exit_code"] for part in took.values()))


if __name__ == "__main__":
    sys.exit(main())
