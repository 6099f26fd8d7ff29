"""`robustify free agree`, `audit`, `report`, `attach` and `templates`: judges and their grades, and the prompts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robustify.cli.free_options import (
    DIR,
    FILE,
    HUMAN,
    ITEMS,
    OUT,
    TEMPLATE_DIR,
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
@click.option("-n", "n", type=click.IntRange(1), default=20, show_default=True, help="Items a check.")
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
@click.option("--base", metavar="MODEL", help="Compare every other model with this one, item by item.")
@click.option("-o", "--out", "--output", type=DIR, help="Also write summary.json and report.md here.")
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
    from robustify.freeform.report import markdown_page, refuse_self_judged, summarise

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
    if whole["value"] is None:
        return f"{model}: none of {whole['asked']} answers has a score"
    status = f", judge {entry['judge_status']}" if entry["judges"] else ""
    return (
        f"{model}: {percent(whole['value'])} of {whole['n']} scored answers right; of all {whole['asked']} between "
        f"{percent(whole['lower'])} and {percent(whole['upper'])}{status}"
    )


@click.group()
def templates() -> None:
    """The prompts: every released version, its digest, and what it reads."""


@templates.command("list")
@TEMPLATE_DIR
@as_json
def list_(template_dir: tuple[Path, ...], json_: bool) -> int:
    """Every template, its versions and digests."""
    from robustify.freeform.judge.store import get_store

    store = get_store(template_dir)
    rows = [{"id": t.id, "reads": t.reads, "sha256": t.sha256, "languages": t.languages()} for t in store]
    print_({"templates": rows, "broken": store.broken}, json_,
           [f"{r['id']:28} {r['reads']:8} {str(r['sha256'])[:16]}" for r in rows])  # fmt: skip
    for name, why in store.broken.items():
        click.echo(f"robustify: pack {name} was skipped ({why})", err=True)
    return 0


@templates.command()
@click.argument("template_id", metavar="ID")
@TEMPLATE_DIR
def show(template_id: str, template_dir: tuple[Path, ...]) -> int:
    """The files of one template, as they are."""
    from robustify.freeform.judge.store import get_store, pack_text

    template = get_store(template_dir).get(template_id)
    for name in template.files:
        click.echo(f"=== {name}\n{pack_text(template.root, name).rstrip()}")
    return 0


@templates.command()
@TEMPLATE_DIR
def verify(template_dir: tuple[Path, ...]) -> int:
    """Compare every released template with its digest; exit 3 when one was changed."""
    from robustify.errors import DataError
    from robustify.freeform.judge.store import get_store

    store = get_store(template_dir)
    faults = store.verify()
    if faults:
        raise DataError(*faults)
    click.echo(f"{len(list(store))} templates are as they were released")
    return 0


@templates.command()
@click.argument("ids", metavar="ID ID...", nargs=-1, required=True)
@ITEMS
@click.option("--answers", "answers_file", required=True, type=FILE, help="The answers of `free generate`.")
@HUMAN
@OUT
@judging
def compare(
    ids: tuple[str, ...],
    items_file: Path,
    answers_file: Path,
    human: Path | None,
    out: Path,
    asking: "JudgeChoice",
    cache_dir: Path | None,
) -> int:
    """Two or more templates on the same answers: parse rate, agreement with people, cost; with intervals.

    \b
    Example:
        robustify free templates compare grader/mcq@1.0 grader/mcq@2.0 --items free/items.jsonl
            --answers free/answers.jsonl --human labels.jsonl --judge http://127.0.0.1:8000/v1
            --judge-model M -o free/compare.json
    """
    from robustify.files import write_json
    from robustify.freeform.grade.graders import Grading
    from robustify.freeform.human import compare_templates
    from robustify.freeform.jsonl import read_jsonl
    from robustify.freeform.permit import permitted
    from robustify.freeform.schema import answer_from
    from robustify.freeform.session import RECORD, open_judge

    items = read_free_items(items_file)
    labels = read_human_labels(human)
    record = out.with_name(RECORD)
    with permitted(items, [items_file, answers_file], out.absolute().parent) as permit:
        with open_judge(asking, default_cache(cache_dir), record, restricted=permit.restricted) as judge:
            if judge is None:
                raise click.UsageError(
                    "free templates compare needs a judge: --judge URL|MODEL or --replay FILE"
                )
            rules = Grading(judging=asking.how(items))
            result = compare_templates(
                items, read_jsonl(answers_file, answer_from), ids, judge, labels, rules, asking.seed
            )
        result = permit.result(result)
        write_json(out, result)
    click.echo(json.dumps(result, indent=2))
    return 0


RESULTS = (agree, audit, report, attach, templates)
