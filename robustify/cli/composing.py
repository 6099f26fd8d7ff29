"""Composition of a set from a pool of candidates, and the options of `robustify mend` for it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mode
from typing import TYPE_CHECKING, Any

import click

from robustify.base.errors import UsageError, counted
from robustify.cli.options import DIR, option, together
from robustify.cli.terminal import print_result, say, watcher

if TYPE_CHECKING:
    from robustify.composing.composed_set import Composed
    from robustify.composing.consulting import Consulting
    from robustify.composing.pool import Candidate, Pool
    from robustify.composing.writers import Grow
    from robustify.reading.loaders import Loaded


def _sizes(said: str) -> tuple[int, int]:
    """Read a number of options, or a range such as 3-5."""
    found = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", said.strip())
    sizes = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 2 <= sizes[0] <= sizes[1] <= 26:
        raise click.BadParameter(
            f"{said!r} is not a number of options; expected 2 to 26, or a range such as 3-5."
        )
    return sizes


_about = partial(option, into="pooling")
_AMOUNT = click.FloatRange(min=0)
composing = together(
    _about(
        "--pool CANDIDATES...",
        "Choose distractors from this file too: a set with the same questions, or candidates by ID or question "
        "(repeatable). -o is then a new folder.",
    ),
    _about("--candidates COLUMN...", "Column of the pool with candidates (repeatable)."),
    _about(
        "--options K|K-K", "Number of options of an item, or a range, chosen from a pool or from more options in DATA.",
        to="shown", read=_sizes,
    ),
    _about("--as-typed", "Keep quotes, dashes, spaces, final periods, and first letters of options."),
    _about(
        "--auditor READER...",
        "Prove the set by this auditor (repeatable) [default: characters and meaning].", to="auditors",
    ),
    _about("--meaning", "Let the encoder take part in choosing. It is then no proof."),
    _about("--people WRITER", "Compare with the distractors of this column or file of the pool."),
    _about("--writer MODEL", "Ask this model for lacking candidates: ID=openai:URL, hf:..., or a name."),
    _about("--price IN OUT", "Price of a million tokens of prompts and replies.", type=(_AMOUNT, _AMOUNT)),
    _about("--budget COST", "Stop asking the writer before its replies cost more.", type=_AMOUNT),
    _about("--dry-run", "Print the price of the writer, but ask and write nothing."),
    _about(
        "-m --models NAME...",
        "Show questions to this model, and set candidates aside that are as likely as the key (repeatable).",
    ),
    _about("--run RUN", "Do the same by the answers of this run.", type=DIR),
    _about("--review FILE...", "Apply verdicts of a review sheet (repeatable).", to="reviews"),
    _about("--cache-dir DIRECTORY", "Store models and replies here.", to="cache"),
    _about("--prefer own", "Keep as many of the author's own distractors as possible."),
)  # fmt: skip
"""Options of a composition, which the command receives as `pooling` if the user gives them."""


PREFERENCE = 1.0
"""Weight of an author's own distractor with `--prefer own`."""


def compose_set(bench: "Loaded", pooling: Mapping[str, Any], seed: int) -> "Composed":
    """Return a set composed from pools. Raise `AuthorisationError` if a file of candidates is sensitive, and `UsageError`
    or `DataError` if it cannot be read."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from robustify.composing import choosing, composed_set, consulting, writers
    from robustify.models.folder import cache_folder
    from robustify.pipeline.by_meaning import text_vectors
    from robustify.report.opening import forecast_lines

    usual = mode(item.k for item in bench.items)
    shown, cache = pooling.get("shown", (usual, usual)), cache_folder(pooling.get("cache"))
    pools, grow = _growing(bench, pooling)
    asks = _consulting(pooling)
    if asks.writer is not None:
        cost = writers.price(pools, writers.wanted(pools, shown), asks.writer)
        if "dry_run" in pooling:
            click.get_current_context().exit(print_result(cost.tree(), forecast_lines(cost)))
        for line in forecast_lines(cost):
            say(line)
    elif alone := [name for name in ("dry_run", "price", "budget") if name in pooling]:
        raise UsageError(f"--{alone[0].replace('_', '-')} works only with --writer MODEL.")
    advice = consulting.consulted(pools, grow, shown, asks, cache, watcher())
    own, meaning = PREFERENCE * ("prefer" in pooling), "meaning" in pooling
    how, vectors = choosing.Choosing(shown, seed, own, meaning), partial(text_vectors, cache=cache, keep=True)
    proving = {name: pooling[name] for name in ("auditors", "people") if name in pooling}
    with threadpool_limits(1, "blas"):
        found = composed_set.compose(bench.items, advice.pools, how, vectors, **proving)
    return replace(found, consulted=advice)


def _consulting(pooling: Mapping[str, Any]) -> "Consulting":
    """Return the writer, models, run, and reviews that a composition consults. Raise `UsageError` if a model is unknown,
    and the errors of `open_run`."""
    from robustify.composing import consulting, writers
    from robustify.pipeline.config import mode_of, models_named
    from robustify.runs.run import open_run

    writer, run, names = None, None, pooling.get("models", ())
    if "writer" in pooling:
        (model,) = models_named([pooling["writer"]])
        prices = dict(zip(("price_in", "price_out"), pooling.get("price", ()), strict=False))
        writer = writers.WriterSettings(model.model_copy(update=prices), budget=pooling.get("budget"))
    if "run" in pooling:
        found = open_run(pooling["run"])
        if found.items is None:
            raise UsageError(f"{found.folder} has no item text to match candidates with. Use another run.")
        run = (found.items, found.answers)
    votes = consulting.read_votes(pooling.get("reviews", ()))
    return consulting.Consulting(writer, models_named(names), mode_of(names), run, votes)


def _growing(bench: "Loaded", pooling: Mapping[str, Any]) -> "tuple[Sequence[Pool], Grow]":
    """Build pools from files. Return them, and a function that adds a writer's candidates. Raises as `compose_set`."""
    from robustify.composing.candidates import read_candidates
    from robustify.composing.consulting import whole_questions
    from robustify.composing.pool import make_pools
    from robustify.reading.loaders import Source
    from robustify.restricted.recognition import require_ordinary_files

    files = [Source(path=path) for path in pooling.get("pool", ())]
    found, unmatched = read_candidates(bench.items, files, pooling.get("candidates", ()))
    for name, n in unmatched.items():
        say(f"{name}: {counted(n, 'row')} left out, because no item has the question or ID.")

    def grow(more: "Sequence[Sequence[Candidate]]") -> "tuple[Pool, ...]":
        every = [(*one, *other) for one, other in zip(found, more, strict=True)]
        return make_pools(bench.items, every, same_typography="as_typed" not in pooling)

    pools = grow([()] * len(bench.items))
    require_ordinary_files(bench.name, [*whole_questions(pools)], [Path(source.path) for source in files])
    return pools, grow
