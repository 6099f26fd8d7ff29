"""Commands that grade free-text answers and compare graders (`robustify free`) or show prompts (`robustify prompts`).

Output of grading contains counts, rates, and paths, but never item text.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robustify.cli.data import public_items
from robustify.cli.options import FILE, FORMAT_TYPE, Group, cache_dir, command, option, together
from robustify.cli.terminal import print_result, watcher

if TYPE_CHECKING:
    from robustify.freeform.questions import AnsweredItems
    from robustify.pipeline.free_settings import FreeSettings

HUMAN = option("--human FILE", "Read human labels from this file: item_id, annotator, and verdict or labels.")
_judged = together(
    option("-o --out --output DIRECTORY", "Write grades, summary, and report here.", required=True),
    option("--config FILE", "Read other settings from the `free:` block of this file."),
    option("--judge URL", "Use the judge at this server: http://HOST:PORT/v1."),
    option("--judge-model NAME", "Use this model of the judge's server."),
    HUMAN,
    option(
        "--max-unscored", "Exit with code 7 if a larger share of answers has no score.",
        type=click.FloatRange(0, 1), default=0.02,
    ),
    cache_dir,
)  # fmt: skip
"""Options of commands that use a judge."""


@click.group(cls=Group)
def free() -> None:
    """Grade free-text answers to the questions.

    To ask models for free-text answers, add a `free:` block to a config and run the config:

    \b
    free:
      judge: {model: M, base_url: "http://127.0.0.1:8000/v1"}

    \b
    robustify free grade predictions.csv --items questions.json -o graded/
    robustify free nuggets passages.jsonl --judge http://127.0.0.1:8000/v1 --judge-model M -o labelled/
    robustify free agree graded/free.jsonl --human labels.jsonl
    robustify free templates grader/mcq --example
    """


@free.command("grade")
@click.argument("rows", metavar="ROWS...", nargs=-1, required=True, type=FILE)
@option("--items FILE", "Read the questions from this file if ROWS have only IDs and predictions.")
@option("--rel-tol FLOAT", "Accept numbers within this relative tolerance [default: 0.05].")
@option(
    "--rubric KIND@VERSION...",
    "Let the judge grade all answers of this kind (mcq, numeric, or explanation) with this template (repeatable).",
)
@_judged
def grade_rows(
    rows: tuple[Path, ...], items: Path | None, rel_tol: float | None, rubric: tuple[str, ...], **given: Any
) -> int:
    """Grade answers with rules, and the rest with a judge.

    ROWS are JSON Lines, a JSON array, or CSV. Each row has an ID, a prediction, and optionally a model. If each row also
    has a question and an `answer`, --items is not needed. If neither the rules nor the judge can grade an answer, it
    gets no score.

    \b
    Example:
        robustify free grade predictions.csv --items questions.json -o graded/
        robustify free grade rows.jsonl --rubric mcq@v1.0 --judge http://127.0.0.1:8000/v1 --judge-model M -o graded/
    """
    from robustify.freeform.questions import read_rows
    from robustify.wings import GUARD

    rubrics = dict(name.partition("@")[::2] for name in rubric)
    settings = _settings(given, rel_tol=rel_tol, rubrics=rubrics or None)
    return _grade(settings, read_rows(rows, items, GUARD, options_shown=settings.options_shown), given)


@free.command()
@click.argument("rows", metavar="FILE", type=FILE)
@option("--template TEXT", "Use this prompt template, e.g. legacy@1.0 [default: optimized@2.0].")
@FORMAT_TYPE
@_judged
def nuggets(rows: Path, template: str | None, format_type: str | None, **given: Any) -> int:
    """Let a judge label the facts (nuggets) in each passage.

    FILE is JSON Lines or one JSON array. Each row needs `query`, `passage`, and `nuggets`, a list of texts or of
    objects with `text` and an optional `importance` (vital or okay). `id` or `qid`, `model`, and `topic` are
    optional.

    \b
    Example:
        robustify free nuggets rows.jsonl --judge http://127.0.0.1:8000/v1 --judge-model M -o labelled/
    """
    from robustify.freeform.questions import read_nugget_rows
    from robustify.wings import GUARD

    settings = _settings(given, nugget_template=template, format_type=format_type)
    if settings.judge is None:
        raise click.UsageError(
            "The command needs a judge. Use --judge URL, or set `judge:` in a `free:` block."
        )
    return _grade(settings, read_nugget_rows(rows, GUARD), given)


def _settings(given: Mapping[str, Any], **options: Any) -> "FreeSettings":
    """Return the settings in the `free:` block of the --config file, overridden by the options of the command."""
    from pydantic import ValidationError

    from robustify.base.errors import UsageError
    from robustify.base.settings_files import faults
    from robustify.pipeline.config import free_block
    from robustify.pipeline.free_settings import FreeSettings
    from robustify.wings import wings

    tree = dict(free_block(given["config"], wings().adapters)) if given["config"] else {}
    if given["judge"] is not None:
        block = tree["judge"] if isinstance(tree.get("judge"), dict) else {}
        model = {"model": given["judge_model"]} if given["judge_model"] else {}
        tree["judge"] = {**block, "base_url": given["judge"], **model}
    options["people"] = given["human"] and str(given["human"])
    tree |= {key: value for key, value in options.items() if value is not None}
    try:
        return FreeSettings.model_validate(tree)
    except ValidationError as error:
        raise UsageError(*faults(error, FreeSettings, "free", prefix="free: ")) from None


def _grade(settings: "FreeSettings", rows: "AnsweredItems", given: Mapping[str, Any]) -> int:
    from robustify.base.errors import GuardrailError
    from robustify.base.files import write_json, write_text
    from robustify.freeform.free_run import free_lines, human_labels
    from robustify.freeform.grade.graders import grade_answers
    from robustify.freeform.llm_judge.judges import open_judge, refuse_self_judging
    from robustify.freeform.metrics import summarise, unscored_in
    from robustify.models.replies import Replies
    from robustify.reading.jsonl import write_rows
    from robustify.report.free_page import free_html, grade_lines

    refuse_self_judging(settings.judge, rows.answers)
    people = human_labels(settings)
    with (
        Replies(given["cache"]) as kept,
        open_judge(settings.judge, kept) as judge,
        watcher()("grading", len(rows.answers)) as progress,
    ):
        grades = grade_answers(rows.items, rows.answers, settings, judge, progress)
    summary = summarise(rows.items, grades, people) | {"left_out": dict(rows.left_out)}
    out = given["out"]
    write_rows(out / "free.jsonl", free_lines(rows.items, rows.answers, grades))
    write_json(out / "summary.json", summary)
    write_text(out / "report.html", free_html(summary))
    unscored, most = unscored_in(grades), given["max_unscored"]
    print_result({**summary, "unscored": unscored, "out": str(out)}, [*grade_lines(summary), str(out)])
    if unscored <= most:
        return 0
    share = f"{100 * unscored:.1f} % of the answers have no score, but at most {100 * most:.1f} % are allowed"
    faults = Counter(grade.error_type for grade in grades if grade.error_type and grade.judge)
    reasons = "".join(f"; judge's replies with {fault}: {n}" for fault, n in faults.most_common())
    mend = "Use another judge" if settings.judge else "Add a judge"
    line = f"{share}{reasons}. {mend}, or raise --max-unscored."
    raise GuardrailError(line, code="too-many-unscored")


@free.command("agree")
@click.argument("grades", metavar="GRADES [OTHER]", nargs=-1, required=True, type=FILE)
@HUMAN
def agree_grades(grades: tuple[Path, ...], human: Path | None) -> int:
    """Compare a judge with human labels, or compare two sets of grades.

    With one file and --human, the output shows kappa, the confusion matrix, sensitivity, and specificity. With two gradings
    of the same answers, it shows the score, the readable share, and the agreement with people of each grading, and the
    paired differences.

    \b
    Example:
        robustify free agree graded/free.jsonl --human labels.jsonl
        robustify free agree by-v1/free.jsonl by-v2/free.jsonl --human labels.jsonl
    """
    from robustify.freeform.metrics import calibrate, compare_gradings, human_from
    from robustify.freeform.schema import grade_from
    from robustify.reading.jsonl import read_jsonl

    read = [read_jsonl(path, grade_from) for path in grades]
    labels = read_jsonl(human, human_from) if human else []
    if len(read) > 2 or (len(read) == 1 and human is None):
        raise click.UsageError("Pass one file of grades and --human, or two files of grades.")
    first, *other = read
    rows = {"rows": compare_gradings(first, other[0], labels)} if other else None
    result: Any = rows or calibrate(first, labels)
    return print_result(result, json.dumps(result, indent=2).splitlines())


@command()
@click.argument("prompt_id", metavar="[ID]", required=False)
@option("--example", "Print the prompt for an invented item.")
@option("--items FILE", "Print the prompt for an item of this public file.")
@option("--item ID", "Choose this item of the file [default: the first].", to="item_id")
@FORMAT_TYPE
@option("--template-dir DIRECTORY...", "Add the templates in this folder (repeatable).")
def prompts(
    prompt_id: str | None, example: bool, items: Path | None, item_id: str | None, format_type: str | None,
    template_dir: tuple[Path, ...],
) -> int:  # fmt: skip
    """List the prompts that are sent to models, or show one.

    These are the prompts of the screen, the full question, cloze, free response, judges, and writers. The exit
    code is 3 if a released template was changed.

    \b
    Examples:
        robustify prompts choices_only/d4-like-v1 --example
        robustify prompts grader/mcq --items items.csv --item 12
    """
    from robustify.base.errors import UsageError
    from robustify.items.prompt_templates import INVENTED, listed_prompts, prompt_files, prompt_for

    if prompt_id is None:
        rows = listed_prompts(template_dir)
        lines = [f"{row['id']:32} {row['reads']:8} {row['sha256'][:16]}" for row in rows]
        return print_result({"prompts": rows}, lines)
    item = INVENTED
    if items is not None:
        public = public_items(str(items), {}).items
        matching = [candidate for candidate in public if item_id in (None, candidate.id)]
        if not matching:
            fault = (
                f"--item {item_id}: {items} has no item with this ID. Expected one such as {public[0].id}."
            )
            raise UsageError(fault, code="unknown-item-id")
        item = matching[0]
    if example or items is not None:
        texts = prompt_for(prompt_id, item, format_type, template_dir)
    else:
        texts = prompt_files(prompt_id, template_dir)
    lines = [line for name, text in texts.items() for line in (f"=== {name}", *text.split("\n"))]
    return print_result({"id": prompt_id, "texts": texts}, lines)


free.add_command(prompts, "templates")
