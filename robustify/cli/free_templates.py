"""`robustify free templates`: the prompts, their digests, and two of them side by side."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robustify.cli.free_options import FILE, HUMAN, ITEMS, OUT, TEMPLATE_DIR, judging, print_, read_items
from robustify.cli.options import as_json, default_cache

if TYPE_CHECKING:
    from robustify.freeform.session import JudgeChoice


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
    from robustify.freeform.judge.store import get_store, read

    template = get_store(template_dir).get(template_id)
    for name in template.files:
        click.echo(f"=== {name}\n{read(template.root, name).rstrip()}")
    return 0


@templates.command()
@TEMPLATE_DIR
def verify(template_dir: tuple[Path, ...]) -> int:
    """Hold every released template to its digest; exit 3 when one was changed."""
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
    from robustify.freeform.grade.grading import Grading
    from robustify.freeform.human import human_from
    from robustify.freeform.jsonl import read_rows
    from robustify.freeform.permit import permitted
    from robustify.freeform.schema import answer_from
    from robustify.freeform.session import RECORD, open_judge
    from robustify.freeform.template_comparison import compare_templates

    items = read_items(items_file)
    labels = read_rows(human, human_from) if human else []
    record = out.with_name(RECORD)
    with permitted(items, [items_file, answers_file], out.absolute().parent) as permit:
        with open_judge(asking, default_cache(cache_dir), record, restricted=permit.restricted) as judge:
            if judge is None:
                raise click.UsageError(
                    "free templates compare needs a judge: --judge URL|MODEL or --replay FILE"
                )
            rules = Grading(judging=asking.how(items))
            result = compare_templates(
                items, read_rows(answers_file, answer_from), ids, judge, labels, rules, asking.seed
            )
        result = permit.result(result)
        write_json(out, result)
    click.echo(json.dumps(result, indent=2))
    return 0
