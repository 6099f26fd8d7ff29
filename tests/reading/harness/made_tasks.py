"""Made-up tasks of lm-eval and Inspect, with their data."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TEXTS = """
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/sums.jsonl, dev: FOLDER/sums.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_choice: "{{choices}}"
doc_to_target: answer
"""
LETTERS = """
include: _texts_yaml
task: made_letters
num_fewshot: 2
fewshot_split: dev
description: "These are sums.\\n\\n"
doc_to_text: "{{question}}\\nA. {{choices[0]}}\\nB. {{choices[1]}}\\nC. {{choices[2]}}\\nAnswer:"
doc_to_choice: ["A", "B", "C"]
"""
GROUP = """
group: made_group
task: [made_texts, {task: made_letters, task_alias: by letter}]
"""
CODE = """
include: _texts_yaml
task: made_code
process_docs: !function helper.first_ten
"""
HELPER = """
from pathlib import Path

Path(__file__).with_name("ran").write_text("")


def first_ten(docs):
    return docs.select(range(10))
"""
UNUSUAL = """
task: unusual
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/unusual.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{frage}}\\nx) {{eins}}\\ny) {{zwei}}\\nz) {{drei}}\\nAntwort:"
doc_to_choice: ["{{drei}}", "{{eins}}", "{{zwei}}"]
doc_to_target: "{{[30, 10, 20].index(wahr)}}"
"""
"""Task with columns that no rule knows, and with its options in another order than in its prompt."""
INSPECT = """
import json

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample


@task
def sums():
    with open("FOLDER/sums.jsonl") as lines:
        docs = [json.loads(line) for line in lines]
    samples = [Sample(input=d["question"], choices=d["choices"], target="ABC"[d["answer"]]) for d in docs]
    return Task(dataset=MemoryDataset(samples))
"""


def docs(n: int = 24) -> list[dict[str, object]]:
    """Sums with three options, whose key moves."""
    return [
        {
            "question": f"What is {n} plus {n}?",
            "choices": [f"{2 * n + (at - n % 3)} beans" for at in range(3)],
            "answer": n % 3,
        }
        for n in range(n)
    ]


def _unusual(doc: Mapping[str, Any]) -> dict[str, object]:
    texts = dict(zip(("eins", "zwei", "drei"), doc["choices"], strict=True))
    # The usual columns mislead: the key and the options of the task are elsewhere.
    usual = {"question": "Is it?", "choices": doc["choices"][1:], "answer": doc["answer"] % 2}
    return {"frage": doc["question"], **texts, "wahr": 10 * (doc["answer"] + 1), **usual}


def write_tasks(folder: Path) -> None:
    """Write the tasks and their data into a folder."""
    files = {
        "_texts_yaml": TEXTS, "texts.yaml": "include: _texts_yaml\ntask: made_texts\n", "letters.yaml": LETTERS,
        "group.yaml": GROUP, "code.yaml": CODE, "helper.py": HELPER, "made.py": INSPECT,
        "sums.jsonl": "".join(f"{json.dumps(doc)}\n" for doc in docs()),
        "unusual.yaml": UNUSUAL,
        "unusual.jsonl": "".join(f"{json.dumps(_unusual(doc))}\n" for doc in docs()),
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text.replace("FOLDER", str(folder)), encoding="utf-8")
