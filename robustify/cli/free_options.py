"""Options that the commands of `robustify free` share, how they read rows, and how they print."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from robustify.cli.options import DIR, FILE, cache_dir

if TYPE_CHECKING:
    from robustify.freeform.grade.graders import Mode
    from robustify.freeform.human import HumanLabel
    from robustify.freeform.judge.judges import Judge
    from robustify.freeform.schema import FreeItem, GradeResult
    from robustify.freeform.session import JudgeChoice

F = TypeVar("F", bound=Callable[..., object])
OUT = click.option("-o", "--out", "--output", required=True, type=FILE, help="Where the rows go.")
ITEMS = click.option("--items", "items_file", required=True, type=FILE, help="The items of `free prepare`.")
OPTIONS_SHOWN = click.option(
    "--options-shown", is_flag=True, help="Ask with the options; a letter is then an answer."
)
BASE = click.option("--base", metavar="MODEL", help="Compare every other model with this one, item by item.")
MAX_UNSCORED = click.option(
    "--max-unscored", type=click.FloatRange(0, 1), default=0.02, show_default=True, help="Above it: exit 7."
)
FORMAT_TYPES = ("json", "markdown", "csv", "adaptive")
HUMAN = click.option(
    "--human", type=FILE, help="Labels of people: JSON lines with item_id, annotator, verdict or labels."
)
TEMPLATE_DIR = click.option(
    "--template-dir", multiple=True, type=DIR, help="A folder with templates of your own (repeatable)."
)
RESTRICTED = click.option(
    "--restricted", is_flag=True, help="Refuse a set that has no adapter of a restricted set (exit 4)."
)
_JUDGING = {
    "judge": click.option(
        "--judge", metavar="URL|MODEL", help="http://HOST:PORT/v1, or a model that runs here."
    ),
    "judge_model": click.option("--judge-model", default="", help="The judge's name at its address."),
    "judge_key_env": click.option(
        "--judge-key-env", metavar="VARIABLE", help="The environment variable that holds its key."
    ),
    "replay": click.option(
        "--replay", type=FILE, help="Take the replies from the record of an earlier grading."
    ),
    "votes": click.option(
        "--votes", type=int, default=1, show_default=True, help="An odd number of votes an answer."
    ),
    "retries": click.option(
        "--retries", type=click.IntRange(0), default=2, show_default=True, help="For an unread reply."
    ),
    "seed": click.option(
        "--seed", type=int, default=0, show_default=True, help="Of votes, quotation codes, worked cases."
    ),
    "language": click.option("--language", help="The language of answers, e.g. de; labels stay English."),
    "domain": click.option("--domain", help="biology, chemistry, computing, mathematics or physics."),
    "few_shot": click.option(
        "--few-shot", type=click.IntRange(0), default=0, show_default=True, help="Worked cases."
    ),
    "few_shot_by": click.option(
        "--few-shot-by",
        type=click.Choice(["balance", "similar"]),
        default="balance",
        show_default=True,
        help="A fixed choice with each verdict as often, or for each answer the cases most like it.",
    ),
    "few_shot_set": click.option(
        "--few-shot-set", default="general", show_default=True, help="Their set, or a YAML file."
    ),
    "template_dir": TEMPLATE_DIR,
}
_GRADING = {
    "mode": click.option(
        "--mode",
        type=click.Choice(["deterministic", "auto", "judge", "both"]),
        help="Who decides [default: auto, the judge what rules cannot; with --rubric: judge].",
    ),
    "rubric": click.option(
        "--rubric",
        multiple=True,
        metavar="KIND@VERSION",
        help="Judge every answer of a kind (mcq, numeric, explanation) by this version of its grader, as mcq@v1.0"
        " (repeatable).",
    ),
    "rel_tol": click.option(
        "--rel-tol", type=float, default=0.05, show_default=True, help="Of the reference's size."
    ),
    "abs_tol": click.option("--abs-tol", type=float, default=0.0, show_default=True),
    "percent": click.option(
        "--percent", type=click.Choice(["auto", "face", "strict"]), default="auto", show_default=True
    ),
    "scale": click.option(
        "--scale", type=click.Choice(["binary", "five"]), help="Of explanations [default: the template's]."
    ),
    "prompt_type": click.option(
        "--prompt-type",
        "--template",
        default="optimized",
        show_default=True,
        help="Nugget template, maybe @VERSION.",
    ),
    "format_type": click.option(
        "--format-type",
        type=click.Choice(FORMAT_TYPES),
        help="How labels are written [default: json where the template has it, else its own].",
    ),
    "batch_size": click.option(
        "--batch-size", type=click.IntRange(1), default=10, show_default=True, help="Nuggets a prompt."
    ),
    "nugget_score": click.option(
        "--nugget-score",
        default="vital",
        show_default=True,
        help="strict_vital, vital, strict_all, all, weighted.",
    ),
}


def _gathered(
    command: F, options: Mapping[str, Callable[[F], F]], into: str, made: Callable[..., object]
) -> Callable[..., object]:
    """The command with these options, which it gets as one argument `into`."""

    @functools.wraps(command)
    def wrapped(**given: Any) -> object:
        return command(**{into: made(**{name: given.pop(name) for name in options})}, **given)

    for option in reversed(list(options.values())):
        wrapped = option(wrapped)
    return wrapped


def judging(command: F) -> Callable[..., object]:
    """The options that name a judge and say how it is asked; the command gets them as one `asking`."""

    def made(**given: Any) -> object:
        from robustify.freeform.session import JudgeChoice

        return JudgeChoice(**given)

    return _gathered(cache_dir(command), _JUDGING, "asking", made)


def grading(command: F) -> Callable[..., object]:
    """The options that say how answers are graded; the command gets them as one `rules`."""

    def made(prompt_type: str, rubric: Sequence[str], mode: "Mode | None", **given: Any) -> object:
        from robustify.freeform.grade.graders import Grading

        named: dict[str, Any] = {
            f"{name.partition('@')[0]}_template": rubric_template(name) for name in rubric
        }
        mode = mode or ("judge" if rubric else "auto")
        return Grading(mode=mode, nugget_template=_nugget_template(prompt_type), **named, **given)

    return _gathered(command, _GRADING, "rules", made)


def nugget_grading(command: F) -> Callable[..., object]:
    """The options that say how nuggets are labelled; the command gets them as one `rules`."""

    def made(prompt_type: str, **given: Any) -> object:
        from robustify.freeform.grade.graders import Grading

        return Grading(nugget_template=_nugget_template(prompt_type), **given)

    names = ("prompt_type", "format_type", "batch_size", "nugget_score")
    return _gathered(command, {name: _GRADING[name] for name in names}, "rules", made)


def _nugget_template(prompt_type: str) -> str:
    return prompt_type if "/" in prompt_type else f"nugget/{prompt_type}"


def rubric_template(rubric: str) -> str:
    """The template that `mcq@v1.0` names.

    Raises:
        UsageError: no such kind.
    """
    from robustify.errors import UsageError
    from robustify.freeform.grade.graders import RUBRICS

    kind, at, version = rubric.partition("@")
    if kind not in RUBRICS:
        raise UsageError(
            f"--rubric {rubric}: expected {', '.join(RUBRICS)}, with or without @VERSION (mcq@v1.0)"
        )
    return f"grader/{kind}{at}{version.removeprefix('v')}"


def read_free_items(path: Path, *, options_shown: bool = False) -> "list[FreeItem]":
    """The items of a file; `options_shown`: those that have options are asked with them, and answered by letter."""
    from robustify.freeform.foreign_rows import read_items
    from robustify.freeform.questions import with_options

    items = read_items(path)
    return [with_options(item) for item in items] if options_shown else items


def read_grades(paths: tuple[Path, ...]) -> "list[GradeResult]":
    """The grades of these files, each answer once."""
    from robustify.freeform.grade.graders import refuse_twice_graded
    from robustify.freeform.jsonl import read_jsonl
    from robustify.freeform.schema import grade_from

    grades = [grade for path in paths for grade in read_jsonl(path, grade_from)]
    refuse_twice_graded(grades)
    return grades


def read_human_labels(path: Path | None) -> "list[HumanLabel]":
    """The labels of people in a file; none without one."""
    from robustify.freeform.human import human_from
    from robustify.freeform.jsonl import read_jsonl

    return read_jsonl(path, human_from) if path else []


@contextmanager
def judge_needed(
    command: str, asking: "JudgeChoice", cache: Path, folder: Path, *, restricted: bool = False
) -> "Iterator[Judge]":
    """The judge that a command cannot do without; its prompts and replies are recorded in the folder."""
    from robustify.freeform.session import RECORD, open_judge

    with open_judge(asking, cache, folder / RECORD, restricted=restricted) as judge:
        if judge is None:
            raise click.UsageError(f"{command} needs a judge: --judge URL|MODEL or --replay FILE")
        yield judge


def unscored_exit(unscored: float, shown: float | None, most: float) -> int:
    """7, with a line on stderr, where a larger share than `most` has no score; else 0. `shown` is what may be printed."""
    if unscored <= most:
        return 0
    how_many = "too many" if shown is None else f"{100 * shown:.1f} %"
    click.echo(
        f"robustify: {how_many} of the answers have no score; at most {100 * most:.1f} % may"
        " (give a judge, or --max-unscored)",
        err=True,
    )
    return 7


def counts_line(counts: Mapping[str, int] | None) -> str:
    """Counts in a line; None where one of them is too small to be shown."""
    if counts is None:
        return "too few of a kind to tell"
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))
