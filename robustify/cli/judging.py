"""`robustify judge`, `check`, `report` and `compare`: what a finished run allows without a model; and `simulate`."""

import json
from pathlib import Path

import click

from robustify.cli.options import as_json, chosen, printable, screening

SHARE = click.FloatRange(0, 1)
RUN = click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))


@click.command()
@RUN
@click.option(
    "-o", "--out", "--output", type=click.Path(path_type=Path), help="Another folder [default: RUN itself]."
)
@screening
@click.option(
    "--rotation",
    type=click.Choice(["averaged", "every", "most"]),
    help="A voter's pick over the orders: of their average, or the same in every or in most of them.",
)
@as_json
def judge(
    folder: Path,
    out: Path | None,
    criterion: str | None,
    mode: str | None,
    probe_vote: str | None,
    rotation: str | None,
    json_: bool,
) -> int:
    """Judge the answers of RUN again, under other rules; seconds, no model.

    \b
    Example:
        robustify judge results/demo --criterion majority -o results/demo-majority
    """
    from robustify.pipeline import rejudge
    from robustify.report.sections.headline import closing
    from robustify.run import open_run

    overrides = chosen(
        screen__criterion=criterion,
        screen__mode=mode,
        screen__probe_vote=probe_vote,
        screen__rotation=rotation,
    )
    done = rejudge(open_run(folder), overrides, out or folder)
    summary = done.summary
    click.echo(json.dumps(summary.tree()) if json_ else "\n".join(closing(summary, str(done.folder))))
    return 7 if summary.halting else 0


@click.command()
@RUN
@as_json
def check(folder: Path, json_: bool) -> int:
    """Hold RUN against the guardrails; exit 7 when one says no, 3 when a file was changed since.

    \b
    Example:
        robustify check results/demo
    """
    from robustify.errors import DataError
    from robustify.report.reasons import guardrail_sentence
    from robustify.run import open_run

    run = open_run(folder)
    changed = run.changed()
    if changed:
        raise DataError(
            *(f"{folder / name}: is not as the run left it; judge again or restore it" for name in changed)
        )
    summary = run.summary
    passed = all(c.passed for c in summary.guardrails)
    if json_:
        click.echo(
            json.dumps({"run": str(folder), "passed": passed, "guardrails": summary.tree()["guardrails"]})
        )
    else:
        lines = [
            f"{'pass' if c.passed else 'FAIL'}  {c.name:24} {guardrail_sentence(c)}"
            for c in summary.guardrails
        ]
        click.echo("\n".join(map(printable, lines)))
    return 0 if passed else 7


@click.command()
@RUN
def report(folder: Path) -> int:
    """Print report.html, report.md and the figures of RUN again from its summary.

    \b
    Example:
        robustify report results/demo
    """
    from robustify.pipeline import reprint
    from robustify.run import open_run

    done = reprint(open_run(folder))
    click.echo(str(done.folder / "report.html"))
    return 0


@click.command()
@click.argument("folders", metavar="RUN RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@as_json
def compare(folders: tuple[Path, ...], json_: bool) -> int:
    """Put finished runs beside one another: what each removed, what is left, and where two of them differ.

    \b
    Example:
        robustify compare results/demo results/demo_letters
    """
    from robustify.errors import UsageError
    from robustify.report.comparing import compared

    if len(folders) < 2:
        raise UsageError(f"compare: {len(folders)} run; expected two or more folders")
    tree, lines = compared(folders)
    click.echo(json.dumps(tree) if json_ else "\n".join(map(printable, lines)))
    return 0


@click.command()
@click.option(
    "-o", "--out", "--output", required=True, type=click.Path(path_type=Path), help="Where to write it."
)
@click.option("--items", default=300, show_default=True, type=click.IntRange(1, 1_000_000), help="How many.")
@click.option(
    "--shortcut-rate", default=0.1, show_default=True, type=SHARE, help="Items whose key voters can see."
)
@click.option(
    "--hidden-rate", default=0.0, show_default=True, type=SHARE, help="Items whose key only outsiders see."
)
@click.option(
    "--voters", default=3, show_default=True, type=click.IntRange(1, 9), help="Reference models that vote."
)
@click.option(
    "--correlation", default=0.5, show_default=True, type=SHARE, help="How often a guess is the shared one."
)
@click.option(
    "--options", multiple=True, type=click.IntRange(2, 26), help="Choices an item (repeatable) [default: 4]."
)
@click.option(
    "--sight", default=1.0, show_default=True, type=SHARE, help="How likely a voter sees a shortcut."
)
@click.option("--knowing", default=0.0, show_default=True, type=SHARE, help="Or the key of any other item.")
@click.option(
    "--letter-bias", default=0.2, show_default=True, type=SHARE, help="Askings that the first letter decides."
)
@click.option("--unanswered", default=0.0, show_default=True, type=SHARE, help="Votes that are missing.")
@click.option("--ties", default=0.0, show_default=True, type=SHARE, help="Votes without a preference.")
@click.option(
    "--places",
    default="uniform",
    show_default=True,
    type=click.Choice(["uniform", "skewed"]),
    help="Where the keys are.",
)
@click.option(
    "--asked",
    default="rotated",
    show_default=True,
    type=click.Choice(["rotated", "own"]),
    help="In all rotations, or once in the benchmark's own order.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Another benchmark.")
@as_json
def simulate(out: Path, options: tuple[int, ...], json_: bool, **parameters: object) -> int:
    """Make a benchmark whose shortcuts are known, judge it, and print the findings beside the truth.

    Writes items.jsonl, answers.parquet and truth.json. The text is made up; no model is asked.

    \b
    Example:
        robustify simulate -o made-up --items 1000 --shortcut-rate 0.2 --correlation 0.8
    """
    from pydantic import ValidationError

    from robustify.errors import UsageError
    from robustify.simulate import proof
    from robustify.simulate.drawing import draw
    from robustify.simulate.parameters import Simulation

    try:
        drawn = draw(Simulation.model_validate({**parameters, "options": options or (4,)}))
    except ValidationError as error:
        raise UsageError(*(str(e["msg"]).removeprefix("Value error, ") for e in error.errors())) from None
    judgement, estimates = proof.write(out, drawn)
    tree = proof.report(out, drawn, judgement, estimates)
    click.echo(json.dumps(tree) if json_ else "\n".join(map(printable, proof.lines(tree, estimates))))
    return 0
