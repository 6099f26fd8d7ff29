"""`robustify free`: the same questions without their options, answered in words, and graded.

stdout holds counts, rates and paths; no text of an item or an answer is printed. Nothing heavy is imported before a
command runs.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robustify.cli.free_options import (
    FILE,
    ITEMS,
    OUT,
    RESTRICTED,
    TEMPLATE_DIR,
    counts_line,
    grading,
    judging,
    print_,
    read_free_items,
)
from robustify.cli.free_results import RESULTS
from robustify.cli.options import as_json, cache_dir, default_cache, watcher

if TYPE_CHECKING:
    from robustify.freeform.grade.graders import Grading
    from robustify.freeform.session import JudgeChoice


@click.group()
def free() -> None:
    """Ask the questions without their options, and grade the answers in words.

    \b
    robustify free prepare items.jsonl -o free/items.jsonl
    robustify free generate free/items.jsonl --model smollm2-135m -o free/answers.jsonl
    robustify free grade free/answers.jsonl --items free/items.jsonl -o free/grades.jsonl
    robustify free report free/grades.jsonl --items free/items.jsonl
    robustify free attach free/grades.jsonl --items free/items.jsonl --run results/demo
    """


@free.command()
@click.argument("data", metavar="DATA|CONFIG")
@OUT
@click.option("--explanations", is_flag=True, help="Also ask items whose key is longer than 12 words.")
@click.option(
    "--draft-nuggets", is_flag=True, help="Let the judge draft nuggets; they are marked unreviewed."
)
@RESTRICTED
@judging
@as_json
def prepare(
    data: str,
    out: Path,
    explanations: bool,
    draft_nuggets: bool,
    restricted: bool,
    asking: "JudgeChoice",
    cache_dir: Path | None,
    json_: bool,
) -> int:
    """Turn multiple-choice items into questions without options, and count what cannot be asked so.

    \b
    Example:
        robustify free prepare items.jsonl -o free/items.jsonl
    """
    from robustify.cli.data import loaded
    from robustify.freeform.grade.nuggets import draft_nuggets as draft
    from robustify.freeform.jsonl import write_rows
    from robustify.freeform.permit import inside, require_adapter
    from robustify.freeform.questions import convert_item, exclusions
    from robustify.freeform.schema import item_json
    from robustify.freeform.session import RECORD, open_judge

    folder = out.absolute().parent
    bench, writer = loaded(data, False, folder)
    with inside(writer.access, folder) as permit:
        if restricted and not permit.restricted:
            require_adapter(bench.name)
        items = [
            convert_item(i, explanations=explanations, restricted=permit.restricted, adapter=permit.adapter)
            for i in bench.items
        ]
        if draft_nuggets:
            with open_judge(
                asking, default_cache(cache_dir), out.with_name(RECORD), restricted=permit.restricted
            ) as judge:
                if judge is None:
                    raise click.UsageError(
                        "--draft-nuggets needs a judge: --judge URL|MODEL or --replay FILE"
                    )
                how = asking.how(items)
                items = [i if i.excluded_reason else draft(i, judge, how)[0] for i in items]
        write_rows(out, [item_json(item) for item in items], private=permit.restricted)
    counts = permit.prepared(exclusions(items))
    lines = [
        f"{_few(counts['asked'])} of {counts['n']} items can be asked without options: {counts_line(counts['kinds'])}"
    ]
    lines += [f"left out: {counts_line(counts['excluded'])}"] if counts["excluded"] != {} else []
    print_({**counts, "out": str(out)}, json_, [*lines, str(out)])
    return 0


@free.command()
@click.argument("items_file", metavar="ITEMS", type=FILE)
@click.option(
    "-m", "--model", required=True, help="A known name, a folder, a GGUF file or hf:owner/name@revision."
)
@click.option("--base-url", metavar="URL", help="Ask this OpenAI-compatible server; --model is then its id.")
@click.option("--key-env", metavar="NAME", help="The environment variable with the server's key.")
@click.option("--template", help="Ask every item by this template [default: one for each kind].")
@click.option("--language", help="Ask in this language, e.g. de.")
@click.option(
    "--max-tokens", type=click.IntRange(1), default=512, show_default=True, help="Length of a reply."
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first N items that can be asked.")
@click.option("--device", default="cpu", show_default=True)
@TEMPLATE_DIR
@OUT
@cache_dir
@as_json
def generate(
    items_file: Path,
    model: str,
    base_url: str | None,
    key_env: str | None,
    template: str | None,
    language: str | None,
    max_tokens: int,
    limit: int | None,
    device: str,
    template_dir: tuple[Path, ...],
    out: Path,
    cache_dir: Path | None,
    json_: bool,
) -> int:
    """Let a model answer in words; a killed run goes on where it was.

    \b
    Example:
        robustify free generate free/items.jsonl -m smollm2-135m -o free/answers.jsonl
    """
    from robustify.freeform.judge.store import get_store
    from robustify.freeform.permit import permitted
    from robustify.freeform.questions import Generation
    from robustify.freeform.questions import generate as written
    from robustify.freeform.session import open_remote_writer, open_writer

    every = read_free_items(items_file)
    items = [item for item in every if not item.excluded_reason][:limit]
    watch = watcher(sys.stderr.isatty() and not json_)
    kept = default_cache(cache_dir)
    with permitted(every, [items_file], out.absolute().parent) as permit:
        how = Generation(template, language, max_tokens, store=get_store(template_dir), seal=permit.seal)
        with (
            open_writer(model, kept, device)
            if base_url is None
            else open_remote_writer(
                base_url, model, kept, key_env=key_env, restricted=permit.restricted
            ) as writer,
            watch(writer.name, len(items)) as progress,
        ):
            rows = written(items, writer, how, out, progress)
    lost = sum(row.error is not None for row in rows)
    failed = permit.count(lost)
    result = {"model": rows[0].model if rows else model, "n": len(rows), "not_asked": failed, "out": str(out)}
    print_(result, json_, [f"{len(rows)} answers, {failed} items did not fit", str(out)])
    return 0


@free.command()
@click.argument("answers", metavar="ANSWERS...", nargs=-1, required=True, type=FILE)
@ITEMS
@OUT
@grading
@click.option(
    "--max-unscored", type=click.FloatRange(0, 1), default=0.02, show_default=True, help="Above it: exit 7."
)
@click.option(
    "--truncated-as", type=click.Choice(["unscored", "wrong"]), default="unscored", show_default=True
)
@click.option("--forbid-self-judging", is_flag=True, help="Refuse a judge that wrote one of the answers.")
@judging
@as_json
def grade(
    answers: tuple[Path, ...],
    items_file: Path,
    out: Path,
    rules: "Grading",
    max_unscored: float,
    truncated_as: str,
    forbid_self_judging: bool,
    asking: "JudgeChoice",
    cache_dir: Path | None,
    json_: bool,
) -> int:
    """Grade answers: rules first, the judge for what they cannot decide.

    What neither decides has no score. Exit 7 when that is more than --max-unscored; the grades are on disk.

    \b
    Example:
        robustify free grade free/answers.jsonl --items free/items.jsonl -o free/grades.jsonl
    """
    from robustify.freeform.grade.graders import grade_answers
    from robustify.freeform.jsonl import read_jsonl
    from robustify.freeform.permit import permitted
    from robustify.freeform.report import summarise, unscored_in
    from robustify.freeform.schema import answer_from
    from robustify.freeform.session import RECORD, open_judge, refuse_self_judging

    items = read_free_items(items_file)
    rows = [row for path in answers for row in read_jsonl(path, answer_from)]
    watch = watcher(sys.stderr.isatty() and not json_)
    record = out.with_name(RECORD)
    with permitted(items, [items_file, *answers], out.absolute().parent) as permit:
        rules = replace(rules, judging=asking.how(items), seal=permit.seal)
        with open_judge(asking, default_cache(cache_dir), record, restricted=permit.restricted) as judge:
            if forbid_self_judging and judge is not None:
                refuse_self_judging(judge.name, rows)
            with watch("grading", len(rows)) as progress:
                grades = grade_answers(items, rows, rules, out, judge, progress)
    wrong = truncated_as == "wrong"
    summary = summarise(items, grades, truncated_as_wrong=wrong, min_cell=permit.min_cell)
    unscored = unscored_in(grades, truncated_as_wrong=wrong)
    shown = permit.share(unscored, len(grades))
    print_({**summary, "unscored": shown, "out": str(out)}, json_, [*_lines(summary), str(out)])
    if unscored > max_unscored:
        how_many = "too many" if shown is None else _percent(shown)
        click.echo(
            f"robustify: {how_many} of the answers have no score; at most {_percent(max_unscored)} may"
            " (give a judge, or --max-unscored)",
            err=True,
        )
        return 7
    return 0


for command in RESULTS:
    free.add_command(command)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _few(n: int | None) -> str:
    return "too few to tell" if n is None else str(n)


def _lines(summary: Mapping[str, Any]) -> list[str]:
    from robustify.freeform.report import markdown_page

    return [line for line in markdown_page(summary).split("\n") if line.startswith(("|", "- "))]
