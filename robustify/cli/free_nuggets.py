"""`robustify free nuggets`: passages graded by the facts that they should state."""

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robustify.cli.free_options import (
    DIR,
    FILE,
    HUMAN,
    MAX_UNSCORED,
    judging,
    nugget_grading,
    print_,
    read_human_labels,
    unscored_exit,
)
from robustify.cli.options import as_json, default_cache, watcher

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
    cache_dir: Path | None,
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
    from robustify.freeform.session import RECORD, open_judge
    from robustify.report.free_page import html_page, markdown_page

    rows = read_nugget_rows(rows_file)
    labels = [*rows.labels, *read_human_labels(human)]
    with permitted(rows.items, [rows_file], out.absolute()):
        out.mkdir(parents=True, exist_ok=True)
        with open_judge(asking, default_cache(cache_dir), out / RECORD) as judge:
            if judge is None:
                raise click.UsageError("free nuggets needs a judge: --judge URL|MODEL or --replay FILE")
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
    print_({**summary, "unscored": unscored, "out": str(out)}, json_, [*page.splitlines(), str(out)])
    return unscored_exit(unscored, unscored, max_unscored)
