"""Write the templates for any run and the tasks of the demo to lm_eval_tasks/: `python -m tools.tasks`."""

import tempfile
from pathlib import Path

from robustify.export.tasks import TASKS, export_lm_eval, task_tree, write_yaml
from robustify.runs.run import open_run
from robustify.wings import GUARD, free_rows

ROOT = Path(__file__).parents[1]
FOLDER, DEMO = ROOT / "lm_eval_tasks", ROOT / "results" / "benign_demo"
BY_HAND = "mmlu_pro_composed"
"""Folder of a task that is no export."""
TEMPLATES = {
    "kept_mcqa": ("kept", "The kept items of any run: full question, answered by letter."),
    "verified_cloze": (
        "cloze",
        "The cloze items of any run: the texts of the choices are scored after the question.",
    ),
}
HEAD = (
    "Template for any run of robustify. It belongs to no run, so it cannot find the data of a run by itself. It reads",
    "{data} of the folder where lm-eval is started:",
    "  cd RUN && lm_eval run --include_path THIS_FOLDER --tasks {name} --model hf --model_args pretrained=MODEL",
    "To start it elsewhere, write the file's whole path below. Items may have 2 to 26 choices, and different numbers of",
    "them. The tasks in RUN/lm_eval_tasks start anywhere, and are named after the benchmark.",
)


def write_templates(folder: Path) -> list[Path]:
    """Write `kept_mcqa.yaml` and `verified_cloze.yaml` and return their paths."""
    written = []
    for name, (ending, says) in TEMPLATES.items():
        task = next(t for t in TASKS if t.ending == ending)
        data = f"lm_eval_tasks/*_{ending}_????????.parquet"
        head = [says, *(line.format(data=data, name=name) for line in HEAD)]
        files = {"dataset_path": "parquet", "dataset_kwargs": {"data_files": {"test": [data]}}}
        written.append(write_yaml(folder / f"{name}.yaml", head, task_tree(name, task, files)))
    return written


def write_demo_tasks(folder: Path) -> list[Path]:
    """Write the tasks of the demo without its data, like `robustify export lm-eval`, and return their paths."""
    with tempfile.TemporaryDirectory() as exported:
        export_lm_eval(open_run(DEMO, GUARD), Path(exported) / "out", free_rows)
        tasks = Path(exported) / "out" / "lm_eval_tasks"
        written = []
        for path in sorted(tasks.rglob("*.yaml")):
            target = folder / path.relative_to(tasks)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
            written.append(target)
    return written


if __name__ == "__main__":
    for path in FOLDER.rglob("*.yaml"):
        if path.parent.name != BY_HAND:
            path.unlink()
    write_templates(FOLDER)
    write_demo_tasks(FOLDER / "demo_benign")
