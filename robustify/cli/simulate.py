"""`robustify simulate`: a benchmark whose truth is known, and what the judge makes of it."""

import json
from pathlib import Path

import click

from robustify.cli.options import as_json, printable

SHARE = click.FloatRange(0, 1)


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
