"""Time the first two commands of a user of lm-eval: writes results/bench/harness.json.

`python -m bench.harness` makes a local task of 200 sums and logs of two models, audits the task by its name, and compares
the logs. Each command is a process of its own. `loading` is the same task, loaded by lm-eval alone.
"""

import csv
import json
import os
import random
import sys
import tempfile
from pathlib import Path

from bench.results import RESULTS, Tree, commit, machine, measured, publish

N_ITEMS = 200
TASK = """\
task: sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/sums.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
"""
LOAD = "from lm_eval.tasks import TaskManager; TaskManager(include_path={!r}).load(['sums'])"


def write_inputs(folder: Path) -> None:
    """Write the task, its data, and the logs of two models as tables of picks."""
    draw, rows = random.Random(7), []
    for _ in range(N_ITEMS):
        a, b = draw.randrange(100, 900), draw.randrange(100, 900)
        steps, key = draw.sample(range(-40, 41), 4), draw.randrange(4)
        choices = [str(a + b + step - steps[key]) for step in steps]
        rows.append({"question": f"What is {a} + {b}?", "choices": choices, "answer": key})
    (folder / "sums.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    (folder / "sums.yaml").write_text(TASK.format(folder=folder), encoding="utf-8")
    for model, skill in (("base", 0.5), ("tuned", 0.7)):
        with (folder / f"{model}.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["question", "A", "B", "C", "D", "answer", "prediction"])
            for row in rows:
                pick = row["answer"] if draw.random() < skill else draw.randrange(4)
                table.writerow([row["question"], *row["choices"], "ABCD"[row["answer"]], "ABCD"[pick]])


def main() -> int:
    """Measure both commands, and the loading of the task alone. Return 1 if a command failed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        how = {"cwd": folder, "env": {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf")}}
        robustify = [sys.executable, "-m", "robustify"]
        commands = {
            "loading": [sys.executable, "-c", LOAD.format(name)],
            "audit": [*robustify, "lm-eval:sums", "--include-path", name, "--public", "-o", "audit"],
            "compare": [*robustify, "compare", "base.csv", "tuned.csv"],
        }
        took: Tree = {part: measured(command, **how) for part, command in commands.items()}
    publish(RESULTS / "bench" / "harness.json", {**machine(), "commit": commit(), "items": N_ITEMS, **took})
    return int(any(part["exit_code"] for part in took.values()))


if __name__ == "__main__":
    sys.exit(main())
