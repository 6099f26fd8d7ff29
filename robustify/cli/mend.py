"""Command `robustify mend`, which shuffles options and lists items whose keys stand out by length."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robustify.cli.data import DATA, MAP, SKIP_BAD, items_of, names_config
from robustify.cli.options import FILE, output, print_result
from robustify.errors import UsageError, counted

if TYPE_CHECKING:
    from robustify.export.mending import Mended
    from robustify.loaders import Loaded


@click.command()
@DATA
@MAP
@SKIP_BAD
@click.option("-o", "--out", "--output", type=FILE, required=True, help="Write this .csv or .jsonl file.")
@click.option("--seed", default=0, show_default=True, help="Shuffle with this seed.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@output
def mend(data: str, columns: tuple[str, ...], skip_bad: bool, out: Path, seed: int, force: bool) -> int:
    """Shuffle and trim the options, and list what else to edit.

    No other text is rewritten. Items whose options refer to each other ("all of the above", "both A and C") keep their
    order and are listed. If length is a cue in this set, items whose key stands out by its length are listed too.

    \b
    Example:
        robustify mend items.csv -o mended.csv
    """
    from robustify.export.mending import mended, write_mended

    if names_config(data):
        raise UsageError(f"{data} is a config, not a file of items. Pass the file that its `data:` names.")
    if out.exists() and out.samefile(data):
        raise UsageError(f"{out} is the input file. Name another file with -o FILE.")
    if out.exists() and not force:
        raise UsageError(
            f"{out} already exists. Use --force to replace it, or -o FILE to write another file."
        )
    bench = items_of(data, skip_bad, columns)
    result = mended(bench.items, seed)
    write_mended(result, out, bench, Path(data))
    tree = {
        "file": str(out),
        "n_items": len(result.items),
        "trimmed": result.trimmed,
        "in_place": [_place(bench, at) for at in result.bound],
        "lengths": {
            "rule": result.rule or None,
            "right": result.right,
            "expected": result.expected,
            "items": [_place(bench, one.at) | asdict(one) for one in result.uneven],
        },
    }
    return print_result(tree, list(_lines(result, bench, out, seed)))


def _place(bench: "Loaded", at: int) -> dict[str, object]:
    return {"item": bench.items[at].id, "file": bench.files[at], "line": bench.lines[at]}


def _lines(result: "Mended", bench: "Loaded", out: Path, seed: int) -> Iterator[str]:
    def at(place: int) -> str:
        return f"  {bench.files[place]}:{bench.lines[place]}  {bench.items[place].id}"

    n = len(result.items)
    yield f"{out}: {counted(n, 'item')}, the options of {n - len(result.bound)} shuffled (seed {seed})"
    if result.trimmed:
        yield f"white space taken off the ends of options: {counted(result.trimmed, 'item')}"
    if result.bound:
        yield f"not shuffled because the text refers to an option by its position: {counted(len(result.bound), 'item')}"
        yield from map(at, result.bound)
    if not result.rule:
        yield "lengths: picking the longest or the shortest option is not significantly better than chance"
    else:
        which = result.rule.partition("_")[0]
        yield (
            f"lengths: the key is the {which} option in {result.right:.0f} items, {result.expected:.0f} expected by "
            "chance. Even out the lengths in these items:"
        )
        for one in result.uneven:
            least, most = one.others
            others = f"{least} to {most}" if least < most else str(most)
            yield f"{at(one.at)}  key {counted(one.key, 'character')}, others {others}"
    yield f"next: edit {out}, then robustify {out} --public -o {out.stem}"
