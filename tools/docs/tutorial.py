"""The blocks of docs/tutorial.md: a session from a CSV to a mended set, run anew whenever the page is made or tested.

Every command and script of the page stands here, and what it prints is what it printed. No model is asked.
"""

import contextlib
import io
import os
import runpy
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from tools.docs.adapters import said

MAKE = """\
import csv
import random

draw = random.Random(4)
rows = [["Question", "Option A", "Option B", "Option C", "Option D", "Correct Answer", "Topic"]]
for n in range(160):
    a, b = draw.randrange(200, 900), draw.randrange(200, 900)
    topic, sign, right = [("adding", "+", a + b), ("taking away", "-", a - b)][n % 2]
    steps, key = draw.sample(range(-40, 41), 4), draw.randrange(4)
    options = [str(right + step - steps[key]) for step in steps]
    if n % 3 == 0:  # the author explains the right answer, and no other
        options[key] += f", since {right} {'-' if sign == '+' else '+'} {b} is {a}"
    rows.append([f"What is {a} {sign} {b}?", *options, "ABCD"[key], topic])
with open("sums.csv", "w", newline="") as file:
    csv.writer(file).writerows(rows)
"""
MEND = """\
import csv
import json

flagged = {json.loads(line)["id"] for line in open("audit/shortcut.jsonl")}
rows = list(csv.reader(open("sums.csv", newline="")))
for n, row in enumerate(rows[1:], start=1):
    if f"sums-{n:04}" in flagged:
        row[1:5] = [option.split(",")[0] for option in row[1:5]]
with open("mended.csv", "w", newline="") as file:
    csv.writer(file).writerows(rows)
"""
SCRIPTS = {"make_sums.py": MAKE, "mend_sums.py": MEND}
STEPS: Mapping[str, Sequence[str]] = {
    "make": ["python make_sums.py"],
    "look": ["robustify validate sums.csv", "robustify heuristics sums.csv"],
    "audit": ["robustify sums.csv --public -o audit"],
    "explain": ["robustify explain audit sums-0001"],
    "mend": ["python mend_sums.py", "robustify mended.csv --public -o mended"],
    "compare": ["robustify compare audit mended"],
    "export": ["robustify export hf mended -o dataset --licence cc-by-4.0"],
}


def played(folder: Path) -> dict[str, str]:
    """Each step's commands with what they print, run one after the other in this folder."""
    for name, text in SCRIPTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    with _inside(folder):
        return {step: "\n".join(map(_played, commands)) for step, commands in STEPS.items()}


def _played(command: str) -> str:
    program, *arguments = command.split()
    if program == "robustify":
        return f"$ {command}\n{said(arguments)}"
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(arguments[0])
    return f"$ {command}\n{out.getvalue()}"


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@cache
def _session() -> Mapping[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        return played(Path(folder))


def _step(name: str) -> str:
    return f"```text\n{_session()[name]}```\n"


def _script(name: str) -> str:
    return f"```python\n{SCRIPTS[name]}```\n"


def _explained() -> str:
    """Without the item itself, which a repository need not repeat, and without the list of single features."""
    command, verdict, *rest = _session()["explain"].splitlines()
    start, single, end = (
        next(i for i, line in enumerate(rest) if line.startswith(words))
        for words in ("Picked without", "Single features", "No near-duplicate")
    )
    shown = [command, verdict, "[the item]", *rest[start:single], "[single features]", *rest[end:]]
    return "```text\n" + "\n".join(shown) + "\n```\n"


BLOCKS: dict[str, Callable[[], str]] = {
    "tutorial-csv": lambda: _script("make_sums.py"),
    "tutorial-make": lambda: _step("make"),
    "tutorial-look": lambda: _step("look"),
    "tutorial-audit": lambda: _step("audit"),
    "tutorial-explain": _explained,
    "tutorial-mending": lambda: _script("mend_sums.py"),
    "tutorial-mend": lambda: _step("mend"),
    "tutorial-compare": lambda: _step("compare"),
    "tutorial-export": lambda: _step("export"),
}
