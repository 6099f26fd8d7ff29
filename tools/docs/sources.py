"""The blocks of docs/sources.md: layouts, shipped configs, and what `validate --explain` prints."""

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import yaml

FOLDER = Path(__file__).parents[2] / "configs"
ROW = {
    "frage": "Which planet has the most massive ring system?",
    "a1": "Mars",
    "a2": "Saturn",
    "recht": "Saturn",
    "fach": "astronomy",
}
FIELDS = {"stem": "frage", "choices": ["a1", "a2"], "key": "recht", "topic": "fach"}
CONFIG = {
    "name": "planets",
    "sensitivity": "public",
    "data": {"path": "planets.jsonl", "fields": FIELDS},
    "asking": {"views": ["choices_only", "full", "cloze"]},
}


def layouts() -> str:
    from robustify.loaders.layouts import BY_FIELDS, EVERY, OWN

    rows = [f"| `{one.name}` | {one.description} |" for one in (OWN, *EVERY[:-1])]
    names = ", ".join(f"`{name}`" for name in BY_FIELDS)
    return (
        f"| layout | what is read |\n|---|---|\n{chr(10).join(rows)}\n\nBy the usual field names: {names}.\n"
    )


def sets() -> str:
    rows = []
    for path in sorted(FOLDER.glob("*.yaml")):
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
        if tree.get("sensitivity") == "public" and "extends" in tree:
            n = len(tree["data"]) if isinstance(tree["data"], list) else 1
            first = path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")
            rows.append(f"| `{path.stem}` | {n} | {first.split('. ')[0].rstrip('.')} |")
    return "| config | files | what it is |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def explained() -> str:
    from click.testing import CliRunner

    from robustify.cli import cli

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        here = Path.cwd()
        os.chdir(folder)
        try:
            Path("planets.jsonl").write_text(json.dumps(ROW) + "\n", encoding="utf-8")
            Path("planets.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False), encoding="utf-8")
            result = CliRunner().invoke(
                cli, ["validate", "planets.yaml", "--explain"], catch_exceptions=False
            )
        finally:
            os.chdir(here)
    config = yaml.safe_dump(CONFIG, sort_keys=False, default_flow_style=None)
    start = result.stdout.index("planets.jsonl: layout")
    return (
        f"`planets.yaml`:\n\n```yaml\n{config}```\n\n`planets.jsonl`, one row of it:\n\n```json\n{json.dumps(ROW)}\n```\n\n"
        "The last part of what `robustify validate planets.yaml --explain` prints:\n\n"
        f"```text\n{result.stdout[start:]}```\n"
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "sources-layouts": layouts,
    "sources-sets": sets,
    "sources-explained": explained,
}
