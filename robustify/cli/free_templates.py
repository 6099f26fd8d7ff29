"""`robustify free templates`: the prompts, what each makes of a case, how a reply is read, and which one serves better."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robustify.cli.free_options import (
    FORMAT_TYPES,
    HUMAN,
    ITEMS,
    OUT,
    TEMPLATE_DIR,
    judge_needed,
    judging,
    read_free_items,
    read_human_labels,
)
from robustify.cli.options import FILE, as_json, print_result

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

    rows: list[dict[str, Any]] = [
        {"id": t.id, "reads": t.reads, "sha256": t.sha256, "languages": t.languages()}
        for t in get_store(template_dir)
    ]
    lines = [f"{r['id']:28} {r['reads']:8} {str(r['sha256'])[:16]}" for r in rows]
    return print_result({"templates": rows}, lines, json_)


@templates.command()
@click.argument("template_id", metavar="ID")
@click.option("--example", is_flag=True, help="Print the rendered prompt, with a made-up case in it.")
@click.option(
    "--format-type", type=click.Choice(FORMAT_TYPES), help="Of labels [default: the template's own]."
)
@click.option("--language", help="As for grading, e.g. de.")
@click.option("--domain", help="As for grading, e.g. physics.")
@click.option("--few-shot", type=click.IntRange(0), default=0, show_default=True, help="Worked cases.")
@TEMPLATE_DIR
def show(
    template_id: str,
    example: bool,
    format_type: str | None,
    language: str | None,
    domain: str | None,
    few_shot: int,
    template_dir: tuple[Path, ...],
) -> int:
    """The files of one template, as they are, or the prompt that it makes of a made-up case.

    \b
    Example:
        robustify free templates show nugget/optimized --example --format-type markdown --few-shot 1
    """
    from robustify.freeform.judge.asking import example_of
    from robustify.freeform.judge.store import pack_text
    from robustify.freeform.session import JudgeChoice

    asking = JudgeChoice(language=language, domain=domain, few_shot=few_shot, template_dir=template_dir)
    template = asking.store.get(template_id)
    if example and template.reads != "rubric":
        for message in example_of(template, asking.how([]), format_type):
            click.echo(f"=== {message.role}\n{message.content}")
        return 0
    for name in template.files:
        click.echo(f"=== {name}\n{pack_text(template.root, name).rstrip()}")
    return 0


@templates.command()
@TEMPLATE_DIR
def verify(template_dir: tuple[Path, ...]) -> int:
    """Compare every released template with its digest; exit 3 when one was changed."""
    from robustify.freeform.judge.store import get_store

    store = get_store(template_dir)
    for template in store:
        store.get(template.id)
    click.echo(f"{len(list(store))} templates are as they were released")
    return 0


@templates.command()
@click.argument("reply", metavar="FILE", type=FILE)
@click.option(
    "--template", default="nugget/optimized", show_default=True, help="The template that was asked."
)
@click.option(
    "--nuggets",
    type=click.IntRange(1),
    help="How many were asked about [default: as many as the last list has].",
)
@click.option(
    "--format-type", type=click.Choice(FORMAT_TYPES), help="Of labels [default: the template's own]."
)
@click.option(
    "--key", help="Of a judge.jsonl: the reply whose key begins so (a grade's attempts name theirs)."
)
@TEMPLATE_DIR
@as_json
def parse(
    reply: Path,
    template: str,
    nuggets: int | None,
    format_type: str | None,
    key: str | None,
    template_dir: tuple[Path, ...],
    json_: bool,
) -> int:
    """Show step by step how a judge's reply is read; FILE has the reply, or is the record of a grading.

    \b
    Example:
        robustify free templates parse reply.txt --template nugget/optimized --nuggets 3
    """
    from robustify.freeform.judge.judges import reply_in
    from robustify.freeform.judge.label_parse import reading_steps
    from robustify.freeform.judge.store import get_store

    steps = reading_steps(reply_in(reply, key), get_store(template_dir).get(template), nuggets, format_type)
    return print_result({"steps": steps}, [_step(**step) for step in steps], json_)


def _step(step: str, **found: Any) -> str:
    return f"{step:10} " + ", ".join(f"{name} {json.dumps(value)}" for name, value in found.items())


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
    cache: Path,
) -> int:
    """Two or more templates on the same answers: parse rate, agreement with people, cost; with intervals.

    The templates judge one kind of answer (numbers, short texts, explanations or nuggets), and all answers of that kind
    in the files are judged by each. For nuggets, `robustify free nuggets` writes the files.

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

    items = read_free_items(items_file)
    labels = read_human_labels(human)
    with permitted(items, [items_file, answers_file], out.absolute().parent) as permit:
        with judge_needed(
            "free templates compare", asking, cache, out.parent, restricted=permit.restricted
        ) as judge:
            rules = Grading(judging=asking.how(items))
            result = compare_templates(
                items, read_jsonl(answers_file, answer_from), ids, judge, labels, rules, asking.seed
            )
        result = permit.result(result)
        write_json(out, result)
    click.echo(json.dumps(result, indent=2))
    return 0
