"""`robustify free nuggets`, `agree`, `audit`, `report` and `attach`: judges and their grades."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robustify.cli.free_options import (
    BASE,
    HUMAN,
    ITEMS,
    MAX_UNSCORED,
    OUT,
    judge_needed,
    judging,
    nugget_grading,
    read_free_items,
    read_grades,
    read_human_labels,
    unscored_exit,
)
from robustify.cli.options import DIR, FILE, as_json, print_result, watcher

if TYPE_CHECKING:
    from robustify.freeform.grade.graders import Grading
    from robustify.freeform.session import JudgeChoice


@click.command()
@click.argument("rows_file", metavar="FILE", type=FILE)
@click.option(
    "-o", "--out", "--output", required=True, type=DIR, help="The folder for labels, scores and report."
)
@nugget_grading
@HUMAN
@MAX_UNSCORED
@judging
@as_json
def nuggets(
    rows_file: Path,
    out: Path,
    rules: "Grading",
    human: Path | None,
    max_unscored: float,
    asking: "JudgeChoice",
    cache: Path,
    json_: bool,
) -> int:
    """Let a judge label, for each row of FILE, which nuggets (facts) its passage states; score and report them.

    FILE is JSON lines, or one JSON array. A row needs `query`, `passage` and `nuggets`, a list of texts or of objects with
    `text` and perhaps `importance` (vital, okay). It may have `id` or `qid`, `model`, `topic`, and people's `labels`
    (support, partial_support, not_support, in the order of the nuggets, or such a list by annotator). `block` and
    `block_nuggets_assignment`, with `assignment` or `golden_label` by people, are read too.

    The folder gets labels.jsonl (labels and scores by row), grades.jsonl, summary.json, report.md, report.html, judge.jsonl
    (every prompt and reply), and items.jsonl, answers.jsonl and human.jsonl for `free report`, `agree` and `templates
    compare`.

    \b
    Example:
        robustify free nuggets rows.jsonl --judge http://127.0.0.1:8000/v1 --judge-model M -o nuggets/
        robustify free nuggets rows.jsonl --replay nuggets/judge.jsonl --prompt-type legacy@1.0 -o again/
    """
    from robustify.files import write_json, write_text
    from robustify.freeform.foreign_rows import read_nugget_rows
    from robustify.freeform.grade.graders import grade_answers
    from robustify.freeform.jsonl import write_rows
    from robustify.freeform.permit import permitted
    from robustify.freeform.report import nugget_row, summarise, unscored_in
    from robustify.report.free_page import html_page, markdown_page

    rows = read_nugget_rows(rows_file)
    labels = [*rows.labels, *read_human_labels(human)]
    with permitted(rows.items, [rows_file], out.absolute()):
        out.mkdir(parents=True, exist_ok=True)
        with judge_needed("free nuggets", asking, cache, out) as judge:
            write_rows(out / "items.jsonl", map(asdict, rows.items))
            write_rows(out / "answers.jsonl", map(asdict, rows.answers))
            write_rows(out / "human.jsonl", [label.json() for label in labels])
            rules = replace(rules, judging=asking.how(rows.items))
            with watcher(sys.stderr.isatty() and not json_)("grading", len(rows.answers)) as progress:
                grades = grade_answers(rows.items, rows.answers, rules, out / "grades.jsonl", judge, progress)
    summary = {**summarise(rows.items, grades, labels, asking.seed), "left_out": dict(rows.left_out)}
    page = markdown_page(summary)
    write_rows(out / "labels.jsonl", map(nugget_row, grades))
    write_json(out / "summary.json", summary)
    write_text(out / "report.md", page)
    write_text(out / "report.html", html_page(summary))
    unscored = unscored_in(grades)
    print_result({**summary, "unscored": unscored, "out": str(out)}, [*page.splitlines(), str(out)], json_)
    return unscored_exit(unscored, unscored, max_unscored)


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
    cache: Path,
) -> int:
    """Test a judge without people: does it repeat itself, and can it be misled? JSON on stdout and in a file.

    \b
    Example:
        robustify free audit --items free/items.jsonl --judge http://127.0.0.1:8000/v1 --judge-model M -o free/audit.json
    """
    from robustify.files import write_json
    from robustify.freeform.judge_audit import CHECKS, judge_audit
    from robustify.freeform.permit import permitted

    items = read_free_items(items_file)
    with permitted(items, [items_file], out.absolute().parent) as permit:
        with judge_needed("free audit", asking, cache, out.parent, restricted=permit.restricted) as judge:
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
    return print_result({"run": str(done.folder), "free": scores}, lines, json_)


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


RESULTS = (nuggets, agree, audit, report, attach)
