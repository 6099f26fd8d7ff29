"""Options of `robustify mend` that compose a set from a pool of candidates, and the composition."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mode
from typing import TYPE_CHECKING, Any

import click

from robustify.base.errors import counted
from robustify.cli.options import F, say

if TYPE_CHECKING:
    from robustify.composing.composed import Composed
    from robustify.composing.pool import Pool
    from robustify.reading.loaders import Loaded


def _about(*names: str, **about: Any) -> Callable[[F], F]:
    """Return an option of a composition. The command receives those that the user gives in `pooling`."""

    def given(context: click.Context, option: click.Parameter, value: Any) -> None:
        pooling = context.params.setdefault("pooling", {})
        if value:
            pooling[str(option.name)] = value

    return click.option(*names, expose_value=False, callback=given, **about)


class _Sizes(click.ParamType):  # type: ignore[type-arg]
    """Number of options, or a range such as 3-5."""

    name = "sizes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", str(value).strip())
        sizes = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 2 <= sizes[0] <= sizes[1] <= 26:
            self.fail(
                f"{value!r} is no number of options; expected 2 to 26, or a range such as 3-5.", param, ctx
            )
        return sizes


_OPTIONS = (
    _about(
        "--pool", multiple=True, metavar="CANDIDATES",
        help="Choose distractors from this file too: a set with the same questions, or candidates by ID or question "
        "(repeatable). -o is then a new folder.",
    ),
    _about("--candidates", multiple=True, metavar="COLUMN", help="Column of the pool with candidates (repeatable)."),
    _about(
        "--options", "shown", type=_Sizes(), metavar="K|K-K",
        help="Number of options of an item, or a range, chosen from a pool or from more options in DATA.",
    ),
    _about("--as-typed", is_flag=True, help="Keep quotes, dashes, spaces, final periods, and first letters of options."),
    _about(
        "--auditor", "auditors", multiple=True, type=click.Choice(["characters", "meaning"]),
        help="Prove the set by this auditor (repeatable) [default: characters and meaning].",
    ),
    _about("--meaning", is_flag=True, help="Let the encoder take part in choosing. It is then no proof."),
    _about("--people", metavar="WRITER", help="Compare with the distractors of this column or file of the pool."),
    _about("--prefer", type=click.Choice(["own"]), help="Keep as many of the author's own distractors as possible."),
)  # fmt: skip


def composing(command: F) -> F:
    """Add the options of a composition to a command, which receives those that the user gives in `pooling`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def compose_set(bench: "Loaded", pooling: Mapping[str, Any], seed: int) -> "Composed":
    """Compose a set from pools. Raise `AuthorisationError` if a file of candidates is sensitive, and `UsageError` or
    `DataError` if it cannot be read."""
    from functools import partial

    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from robustify.composing.choosing import Choosing
    from robustify.composing.composed import Proving, compose
    from robustify.models.downloads import cache_folder
    from robustify.pipeline.by_meaning import text_vectors

    pools = _pools(bench, pooling)
    usual = mode(item.k for item in bench.items)
    how = Choosing(
        shown=pooling.get("shown", (usual, usual)), seed=seed, prefer_own=PREFERENCE * ("prefer" in pooling),
        meaning="meaning" in pooling,
    )  # fmt: skip
    named = {name: pooling[name] for name in ("auditors", "people") if name in pooling}
    vectors = partial(text_vectors, cache=cache_folder(None), keep=True)
    with threadpool_limits(1, "blas"):
        return compose(bench.items, pools, how, Proving(**named), vectors)


PREFERENCE = 1.0
"""Weight of an author's own distractor with `--prefer own`."""


def _pools(bench: "Loaded", pooling: Mapping[str, Any]) -> "Sequence[Pool]":
    from robustify.composing.candidates import offered
    from robustify.composing.pool import pools_of
    from robustify.composing.right_answers import whole_questions
    from robustify.reading.loaders import Source
    from robustify.restricted.recognition import require_ordinary_files

    files = [Source(path=path) for path in pooling.get("pool", ())]
    found = offered(bench.items, files, pooling.get("candidates", ()))
    for name, n in found.unmatched.items():
        say(f"{name}: {counted(n, 'row')} left out, because no item has the question or ID.")
    pools = pools_of(bench.items, found.by_item, same_typography="as_typed" not in pooling)
    require_ordinary_files(bench.name, [*whole_questions(pools)], [Path(source.path) for source in files])
    return pools


def composed_closing(found: "Composed", paths: Sequence[Path], out: Path) -> Iterator[str]:
    """Yield the closing lines of a composition."""
    from robustify.report.composed_page import composed_lines

    yield from composed_lines(found)
    yield f"set: {next(path for path in paths if path.stem == 'composed' and path.suffix != '.json')}"
    yield f"page: {out / 'report.html'}"
