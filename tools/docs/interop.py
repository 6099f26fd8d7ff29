"""What docs/interop.md and lm_eval_tasks/ are made of.

`python -m tools.docs.interop renew` writes lm_eval_tasks/ anew; `python -m tools.docs.interop FOLDER` writes the small
made-up logs with which the page's blocks run.
"""

import json
import re
import sys
import tempfile
from pathlib import Path

from robustify.export.lm_eval_tasks import TASKS, task_tree, write_yaml
from robustify.export.writing import export_lm_eval
from robustify.item import Item
from robustify.run import open_run, write_items
from tests.support.fake_logs import (
    boxes,
    eval_zip,
    inspect_sample,
    inspect_tree,
    jsonl,
    lighteval_parquet,
    lm_eval_row,
    results,
    scores_for,
)

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "interop.md"
DEMO = ROOT / "results" / "benign_demo"
TASK_FOLDER = ROOT / "lm_eval_tasks"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.M | re.S)
N_ITEMS = 60


# lm_eval_tasks/

TEMPLATES = {
    "robust_mcqa": ("robust", "The robust items of any run: full question, answered by letter."),
    "verified_cloze": ("cloze", "The cloze items of any run: the choices' texts scored after the question."),
}
POINTING = (
    "Template for any run of robustify. It reads {data} of the folder in which lm-eval is started:",
    "  cd RUN && lm_eval run --include_path THIS_FOLDER --tasks {name} --model hf --model_args pretrained=MODEL",
    "To start it elsewhere, write the file's whole path below. Items may have 2 to 26 choices, and different numbers of",
    "them. Results of two benchmarks need two names: copy this file and change `task`, or take the tasks that",
    "`robustify export lm-eval RUN -o DIR` names after the benchmark.",
)


def write_templates(folder: Path) -> list[Path]:
    """`robust_mcqa.yaml` and `verified_cloze.yaml`."""
    written = []
    for name, (ending, says) in TEMPLATES.items():
        task = next(t for t in TASKS if t.ending == ending)
        data = f"{ending}.jsonl"
        head = [says, *(line.format(data=data, name=name) for line in POINTING)]
        written.append(write_yaml(folder / f"{name}.yaml", head, task_tree(name, task, [data])))
    return written


def write_demo_tasks(folder: Path) -> list[Path]:
    """The tasks of the demo as `robustify export lm-eval` writes them; their data stays with the demo."""
    with tempfile.TemporaryDirectory() as place:
        export_lm_eval(open_run(DEMO), Path(place) / "out")
        tasks = Path(place) / "out" / "lm_eval_tasks"
        written = []
        for path in sorted(tasks.rglob("*.yaml")):
            target = folder / path.relative_to(tasks)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
            written.append(target)
    return written


def renew() -> None:
    for path in TASK_FOLDER.rglob("*.yaml"):
        path.unlink()
    write_templates(TASK_FOLDER)
    write_demo_tasks(TASK_FOLDER / "demo_benign")


# docs/interop.md


def write_inputs(folder: Path) -> None:
    """A benchmark of 60 made-up items and two models' logs of it, as each harness writes them."""
    items = boxes(N_ITEMS)
    write_items(folder / "items.jsonl", items)
    logs = folder / "logs"
    for model, step in (("alpha", 1), ("beta", 2)):
        picks = [pick_of(at, item, step) for at, item in enumerate(items)]
        scores = scores_for(picks)
        place = logs / "lm_eval" / model
        for task, hidden in (("boxes", False), ("boxes_choices_only", True)):
            rows = [
                lm_eval_row(i, at, [str(s) for s in scores[at]], hidden=hidden) for at, i in enumerate(items)
            ]
            jsonl(place / f"samples_{task}_2026-01-31T10-00-00.jsonl", rows)
        results(place, "2026-01-31T10-00-00", "boxes", model, len(items))
    samples = [inspect_sample(item, "ABCD"[pick_of(at, item, 1)]) for at, item in enumerate(items)]
    tree = inspect_tree(samples, model="openai-api/lab/gamma")
    (logs / "inspect").mkdir()
    (logs / "inspect" / "boxes.json").write_text(json.dumps(tree), encoding="utf-8")
    eval_zip(logs / "inspect" / "boxes.eval", tree, method=93)
    picks = [pick_of(at, item, 2) for at, item in enumerate(items)]
    details = logs / "lighteval" / "details" / "delta" / "2026-01-31T10-00-00"
    lighteval_parquet(details / "details_boxes.parquet", items, scores_for(picks), letters=True)
    _write_picks(logs / "picks.csv", items)


def pick_of(at: int, item: Item, step: int) -> int:
    """Every fifth item is answered right by all; of the others each model gets its own ones wrong."""
    return item.key if at % 5 == 0 or at % 7 == step else (item.key + step) % item.k


def _write_picks(path: Path, items: list[Item]) -> None:
    lines = ["item,model,view,key,pick"]
    for model, step in (("epsilon", 1), ("zeta", 2)):
        for at, item in enumerate(items):
            pick = "ABCD"[pick_of(at, item, step)]
            lines.append(f"{item.id},{model},choices_only,{'ABCD'[item.key]},{pick}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def blocks() -> list[tuple[str, str]]:
    """The page's runnable blocks in their order: language and text."""
    return [(m[1], m[2]) for m in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["renew"]:
            renew()
        case [place]:
            Path(place).mkdir(parents=True, exist_ok=True)
            write_inputs(Path(place))
        case _:
            sys.exit("usage: python -m tools.docs.interop renew|FOLDER")
