"""`robustify free attach`: grades beside the other scores of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from robustify.cli.free_options import DIR, FILE, HUMAN, ITEMS, print_, read_grades, read_items
from robustify.cli.options import as_json


@click.command()
@click.argument("grades", metavar="GRADES...", nargs=-1, required=True, type=FILE)
@ITEMS
@click.option("--run", "run_folder", required=True, type=DIR, help="A finished run of the same benchmark.")
@HUMAN
@click.option("--allow-self-judging", is_flag=True, help="Take grades that a model gave its own answers.")
@click.option("-o", "--out", "--output", type=DIR, help="Write the run with its grades here [default: RUN].")
@click.option("--seed", type=int, default=0, show_default=True)
@as_json
def attach(
    grades: tuple[Path, ...],
    items_file: Path,
    run_folder: Path,
    human: Path | None,
    allow_self_judging: bool,
    out: Path | None,
    seed: int,
    json_: bool,
) -> int:
    """Put grades beside a run's other scores: the `free` column of its summary and report.

    Items are matched by id and by content; another text, options or key is exit 3. Models are matched by name. No
    verdict changes. Grades attached before are replaced, and `judge` and `report` keep them.

    \b
    Example:
        robustify free attach free/grades.jsonl --items free/items.jsonl --run results/demo
    """
    from robustify.errors import DataError
    from robustify.freeform.choice_items import attached
    from robustify.freeform.human import human_from
    from robustify.freeform.jsonl import read_rows
    from robustify.freeform.report import refuse_self_judged
    from robustify.pipeline import attach_free
    from robustify.run import open_run

    run = open_run(run_folder)
    held = None if run.restricted else run.items
    if held is None:
        raise DataError(
            f"{run_folder}: holds no text of its items, by which grades are matched; expected a run that does"
        )
    read = read_grades(grades)
    if not allow_self_judging:
        refuse_self_judged(read)
    labels = read_rows(human, human_from) if human else []
    found = attached(read, read_items(items_file), held, labels, seed)
    done = attach_free(run, found, out or run_folder)
    scores = {name: entry["free"] for name, entry in done.summary["accuracy"].items() if entry["free"]}
    print_(
        {"run": str(done.folder), "free": scores},
        json_,
        [*map(_beside, scores, scores.values()), str(done.folder)],
    )
    return 0


def _beside(model: str, found: Mapping[str, Any]) -> str:
    from robustify.stats.intervals import percent

    whole = found["all"]
    if whole["value"] is None:
        return f"{model}: none of {whole['asked']} answers has a score"
    status = f", judge {found['judge_status']}" if found["judges"] else ""
    return (
        f"{model}: {percent(whole['value'])} of {whole['n']} scored answers right; of all {whole['asked']} between "
        f"{percent(whole['lower'])} and {percent(whole['upper'])}{status}"
    )
