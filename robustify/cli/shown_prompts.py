"""Command `robustify prompts`, which prints any prompt that a model is asked."""

from pathlib import Path

import click

from robustify.cli.data import public_items
from robustify.cli.options import DIR, FILE, FORMAT_TYPE, output, print_result


@click.command()
@click.argument("prompt_id", metavar="[ID]", required=False)
@click.option("--example", is_flag=True, help="Print the prompt for an invented item.")
@click.option("--items", type=FILE, help="Print the prompt for an item of this public file.")
@click.option("--item", "item_id", metavar="ID", help="Choose this item of the file [default: the first].")
@FORMAT_TYPE
@click.option(
    "--template-dir", multiple=True, type=DIR, help="Add the templates in this folder (repeatable)."
)
@output
def prompts(
    prompt_id: str | None, example: bool, items: Path | None, item_id: str | None, format_type: str | None,
    template_dir: tuple[Path, ...],
) -> int:  # fmt: skip
    """List the prompts that models are asked, or show one.

    These are the prompts of the screen, the full question, cloze, free response, judges, and writers. The exit
    code is 3 if a released template was changed.

    \b
    Examples:
        robustify prompts choices_only/d4-like-v1 --example
        robustify prompts grader/mcq --items items.csv --item 12
    """
    from robustify.base.errors import UsageError
    from robustify.freeform.prompts import INVENTED, listed_prompts, prompt_files, prompt_for

    if prompt_id is None:
        rows = listed_prompts(template_dir)
        lines = [f"{row['id']:32} {row['reads']:8} {row['sha256'][:16]}" for row in rows]
        return print_result({"prompts": rows}, lines)
    item = INVENTED
    if items is not None:
        among = public_items(str(items), {}).items
        found = [one for one in among if item_id in (None, one.id)]
        if not found:
            raise UsageError(
                f"--item {item_id}: {items} has no item with this ID. Expected one such as {among[0].id}."
            )
        item = found[0]
    shown = example or items is not None
    texts = (
        prompt_for(prompt_id, item, format_type, template_dir)
        if shown
        else prompt_files(prompt_id, template_dir)
    )
    whole = [line for name, text in texts.items() for line in (f"=== {name}", *text.split("\n"))]
    return print_result({"id": prompt_id, "texts": texts}, whole)
