"""`robustify free`: the same questions without their options, answered in words, and graded.

stdout holds counts, rates and paths; no text of an item or an answer is printed. Nothing heavy is imported before a
command runs.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robustify.cli.free_options import (
    BASE,
    ITEMS,
    MAX_UNSCORED,
    OPTIONS_SHOWN,
    OUT,
    RESTRICTED,
    TEMPLATE_DIR,
    counts_line,
    grading,
    judging,
    read_free_items,
    unscored_exit,
)
from robustify.cli.free_results import RESULTS
from robustify.cli.free_templates import templates
from robustify.cli.options import FILE, as_json, cache_dir, print_result, watcher
from robustify.errors import counted

if TYPE_CHECKING:
    from robustify.freeform.grade.graders import Grading
    from robustify.freeform.session import JudgeChoice


@click.group()
def free() -> None:
    """Ask the questions without their options, and grade the answers in words.

    For passages and the facts they should state: robustify free nuggets --help

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
@OPTIONS_SHOWN
@RESTRICTED
@as_json
def prepare(
    data: str,
    out: Path,
    explanations: bool,
    options_shown: bool,
    restricted: bool,
    json_: bool,
) -> int:
    """Turn multiple-choice items into questions without options, and count what cannot be asked so.

    Nuggets of an item's row stay with it. Questions with `type` (mcq, numeric, explanation) and `answer` are read too.

    \b
    Example:
        robustify free prepare items.jsonl -o free/items.jsonl
    """
    from robustify.cli.data import loaded
    from robustify.errors import AuthorisationError
    from robustify.freeform.foreign_rows import foreign_form, with_nuggets
    from robustify.freeform.jsonl import write_rows
    from robustify.freeform.permit import inside, permitted
    from robustify.freeform.questions import convert_item, exclusions

    folder = out.absolute().parent
    if foreign_form(Path(data)):
        items = read_free_items(Path(data), options_shown=options_shown)
        with permitted(items, [Path(data)], folder):
            write_rows(out, [asdict(item) for item in items])
        return _prepared(exclusions(items), out, json_)
    bench, writer = loaded(data, False, folder)
    with inside(writer.access, folder) as permit:
        if restricted and not permit.restricted:
            raise AuthorisationError(
                f"{bench.name}: --restricted, but no adapter of a restricted set; expected a config with `adapter: NAME`"
                " (robustify adapter list; robustify adapter new): nothing was written"
            )
        items = [
            convert_item(
                i, explanations=explanations, options_shown=options_shown, restricted=permit.restricted,
                adapter=permit.adapter,
            )
            for i in bench.items
        ]  # fmt: skip
        if not permit.restricted and Path(data).suffix.lower() in (".jsonl", ".json"):
            items = with_nuggets(items, Path(data))
        write_rows(out, [asdict(item) for item in items], private=permit.restricted)
    return _prepared(permit.prepared(exclusions(items)), out, json_)


def _prepared(counts: dict[str, Any], out: Path, json_: bool) -> int:
    lines = [f"{_few(counts['asked'])} of {counts['n']} items can be asked: {counts_line(counts['kinds'])}"]
    lines += [f"left out: {counts_line(counts['excluded'])}"] if counts["excluded"] != {} else []
    return print_result({**counts, "out": str(out)}, [*lines, str(out)], json_)


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
@OPTIONS_SHOWN
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
    options_shown: bool,
    template_dir: tuple[Path, ...],
    out: Path,
    cache: Path,
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

    every = read_free_items(items_file, options_shown=options_shown)
    items = [item for item in every if not item.excluded_reason][:limit]
    with permitted(every, [items_file], out.absolute().parent) as permit:
        how = Generation(template, language, max_tokens, store=get_store(template_dir), seal=permit.seal)
        with (
            open_writer(model, cache, device)
            if base_url is None
            else open_remote_writer(
                base_url, model, cache, key_env=key_env, restricted=permit.restricted
            ) as writer,
            watcher()(writer.name, len(items)) as progress,
        ):
            rows = written(items, writer, how, out, progress)
    lost = sum(row.error is not None for row in rows)
    failed = permit.result(lost)
    result = {"model": rows[0].model if rows else model, "n": len(rows), "not_asked": failed, "out": str(out)}
    left_out = counted(failed, "item") if isinstance(failed, int) else f"{failed} items"
    lines = [f"{counted(len(rows), 'answer')}, {left_out} did not fit", str(out)]
    return print_result(result, lines, json_)


@free.command()
@click.argument("answers", metavar="ANSWERS...", nargs=-1, required=True, type=FILE)
@ITEMS
@OUT
@grading
@OPTIONS_SHOWN
@BASE
@MAX_UNSCORED
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
    options_shown: bool,
    base: str | None,
    max_unscored: float,
    truncated_as: str,
    forbid_self_judging: bool,
    asking: "JudgeChoice",
    cache: Path,
    json_: bool,
) -> int:
    """Grade answers: rules first, the judge for what they cannot decide.

    What neither decides has no score. Exit 7 when that is more than --max-unscored; the grades are on disk.

    \b
    Example:
        robustify free grade free/answers.jsonl --items free/items.jsonl -o free/grades.jsonl
        robustify free grade predictions.csv --items questions.json --rubric mcq@v1.0 --rubric numeric@v1.0
            --rubric explanation@v1.0 --judge http://127.0.0.1:8000/v1 --judge-model M --base Base -o grades.jsonl
    """
    from robustify.freeform.foreign_rows import read_answers
    from robustify.freeform.grade.graders import grade_answers
    from robustify.freeform.permit import permitted
    from robustify.freeform.report import summarise, unscored_in
    from robustify.freeform.session import RECORD, open_judge, refuse_self_judging
    from robustify.report.free_page import markdown_page

    items = read_free_items(items_file, options_shown=options_shown)
    rows = [row for path in answers for row in read_answers(path)]
    with permitted(items, [items_file, *answers], out.absolute().parent) as permit:
        rules = replace(rules, judging=asking.how(items), seal=permit.seal)
        with open_judge(asking, cache, out.with_name(RECORD), restricted=permit.restricted) as judge:
            if forbid_self_judging and judge is not None:
                refuse_self_judging(judge.name, rows)
            with watcher()("grading", len(rows)) as progress:
                grades = grade_answers(items, rows, rules, out, judge, progress)
    wrong = truncated_as == "wrong"
    summary = summarise(items, grades, truncated_as_wrong=wrong, base=base, min_cell=permit.min_cell)
    unscored = unscored_in(grades, truncated_as_wrong=wrong)
    shown = permit.share(unscored, len(grades))
    page = markdown_page(summary).splitlines()
    print_result({**summary, "unscored": shown, "out": str(out)}, [*page, str(out)], json_)
    return unscored_exit(unscored, shown, max_unscored)


for command in (*RESULTS, templates):
    free.add_command(command)


def _few(n: int | None) -> str:
    return "too few to tell" if n is None else str(n)
