"""`robustify free agree`, `audit`, `report` and `attach`: judges and their grades."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robustify.cli.free_options import (
    BASE,
    DIR,
    FILE,
    HUMAN,
    ITEMS,
    OUT,
    judging,
    print_,
    read_free_items,
    read_grades,
    read_human_labels,
)
from robustify.cli.options import as_json, default_cache

if TYPE_CHECKING:
    from robustify.freeform.session import JudgeChoice


@click.command()
@click.argument("grades", metavar="GRADES...", nargs=-1, required=True, type=FILE)
@click.option("--human", required=True, type=FILE, help="Labels of people, JSON lines.")
@click.option("--seed", type=int, default=0, show_default=True)
def agree(grades: tuple[Path, ...], human: Path, seed: int) -> int:
    """Compare the judge with labels of people: kappa, alpha, confusion, the corrected rate; JSON on stdout.

    \b
    Example:
        robustify free agree free/grades.jsonl --human labels.jsonl
    """
    from robustify.freeform.human import calibrate
    from robustify.freeform.permit import permitted

    read = read_grades(grades)
    with permitted([], grades, grades[0].absolute().parent, read) as permit:
        result = permit.result(calibrate(read, read_human_labels(human), seed))
    click.echo(json.dumps(result, indent=2))
    return 0


@click.command()
@ITEMS
@click.option("--check", "checks", multiple=True, help="Only this check (repeatable) [default: all].")
@click.option("-n", "n", type=click.IntRange(1), default=30, show_default=True, help="Items a check.")
@OUT
@judging
def audit(
    items_file: Path,
    checks: tuple[str, ...],
    n: int,
    out: Path,
    asking: "JudgeChoice",
    cache_dir: Path | None,
) -> int:
    """Test a judge without people: does it repeat itself, and can it be misled? JSON on stdout and in a file.

    \b
    Example:
        robustify free audit --items free/items.jsonl --judge http://127.0.0.1:8000/v1 --judge-model M -o free/audit.json
    """
    from robustify.files import write_json
    from robustify.freeform.judge_audit import CHECKS, judge_audit
    from robustify.freeform.permit import permitted
    from robustify.freeform.session import RECORD, open_judge

    items = read_free_items(items_file)
    record = out.with_name(RECORD)
    with permitted(items, [items_file], out.absolute().parent) as permit:
        with open_judge(asking, default_cache(cache_dir), record, restricted=permit.restricted) as judge:
            if judge is None:
                raise click.UsageError("free audit needs a judge: --judge URL|MODEL or --replay FILE")
            how = asking.how(items)
            result = judge_audit(judge, items, checks=checks or CHECKS, n=n, seed=asking.seed, how=how)
        result = permit.result(result)
        write_json(out, result)
    click.echo(json.dumps(result, indent=2))
    return 0


@click.command()
@click.argument("grades", metavar="GRADES...", nargs=-1, required=True, type=FILE)
@ITEMS
@HUMAN
@click.option("--allow-self-judging", is_flag=True, help="Report grades that a model gave its own answers.")
@BASE
@click.option(
    "-o", "--out", "--output", type=DIR, help="Also write summary.json, report.md and report.html here."
)
@click.option("--seed", type=int, default=0, show_default=True)
@as_json
def report(
    grades: tuple[Path, ...],
    items_file: Path,
    human: Path | None,
    allow_self_judging: bool,
    base: str | None,
    out: Path | None,
    seed: int,
    json_: bool,
) -> int:
    """Print accuracy with its bounds, who judged, and how reliable the judge is.

    \b
    Example:
        robustify free report free/grades.jsonl --items free/items.jsonl -o free/report
        robustify free report free/base.jsonl free/tuned.jsonl --items free/items.jsonl --base smollm2-135m
    """
    from robustify.files import write_json, write_text
    from robustify.freeform.permit import permitted
    from robustify.freeform.report import refuse_self_judged, summarise
    from robustify.report.free_page import html_page, markdown_page

    read, items = read_grades(grades), read_free_items(items_file)
    if not allow_self_judging:
        refuse_self_judged(read)
    labels = read_human_labels(human)
    with permitted(items, [items_file, *grades], out or items_file.absolute().parent, read) as permit:
        summary = summarise(items, read, labels, seed, base=base, min_cell=permit.min_cell)
        shown = markdown_page(summary)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            write_json(out / "summary.json", summary)
            write_text(out / "report.md", shown)
            write_text(out / "report.html", html_page(summary))
    click.echo(json.dumps(summary) if json_ else shown.rstrip())
    return 0


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
    """Add grades to a run: the `free` column of its summary and report.

    Items are matched by id and by content; another text, options or key is exit 3. Models are matched by name. No
    verdict changes. Grades attached before are replaced, and `judge` and `report` keep them.

    \b
    Example:
        robustify free attach free/grades.jsonl --items free/items.jsonl --run results/demo
    """
    from robustify.errors import DataError
    from robustify.freeform.report import attached, refuse_self_judged
    from robustify.pipeline import attach_free
    from robustify.run import open_run

    run = open_run(run_folder)
    items = None if run.restricted else run.items
    if items is None:
        raise DataError(
            f"{run_folder}: holds no text of its items, by which grades are matched; expected a run that does"
        )
    read = read_grades(grades)
    if not allow_self_judging:
        refuse_self_judged(read)
    labels = read_human_labels(human)
    done = attach_free(
        run, attached(read, read_free_items(items_file), items, labels, seed), out or run_folder
    )
    accuracy = done.summary.tree()["accuracy"]
    scores = {name: entry["free"] for name, entry in accuracy.items() if entry["free"]}
    lines = [*map(_accuracy, scores, scores.values()), str(done.folder)]
    print_({"run": str(done.folder), "free": scores}, json_, lines)
    return 0


def _accuracy(model: str, entry: Mapping[str, Any]) -> str:
    from robustify.stats.intervals import percent

    whole = entry["all"]
    status = f", judge {entry['judge_status']}" if entry["judges"] else ""
    share = (
        f"{whole['n']} have a score"
        if whole["value"] is None
        else (f"{percent(whole['value'])} of the {whole['n']} that have a score")
    )
    return (
        f"{model}: of {whole['asked']} answers between {percent(whole['lower'])} and {percent(whole['upper'])} are right; "
        f"{share}{status}"
    )


RESULTS = (agree, audit, report, attach)
