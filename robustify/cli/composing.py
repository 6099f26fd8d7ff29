"""Options of `robustify mend` for choosing distractors from a pool, and a function that composes a set with them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mode
from typing import TYPE_CHECKING, Any

import click

from robustify.base.errors import Notice, UsageError, counted
from robustify.cli.options import DIR, option, together
from robustify.cli.terminal import print_result, say, watcher

if TYPE_CHECKING:
    from robustify.composing.candidate_checks import Consultants
    from robustify.composing.composed_set import Composed
    from robustify.composing.pool import Candidate, Pool
    from robustify.composing.writers import Grow
    from robustify.reading.loaders import Loaded


def _read_sizes(written: str) -> tuple[int, int]:
    """Parse a number of options, or a range such as 3-5."""
    match = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", written.strip())
    sizes = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 2 <= sizes[0] <= sizes[1] <= 26:
        raise click.BadParameter(
            f"{written!r} is not a number of options; expected 2 to 26, or a range such as 3-5."
        )
    return sizes


_about = partial(option, into="pooling")
_AMOUNT = click.FloatRange(min=0)
composing = together(
    _about(
        "--pool CANDIDATES...",
        "Also choose distractors from this file: a set with the same questions, or candidates by ID or question "
        "(repeatable). Write into a new folder (-o).",
    ),
    _about("--candidates COLUMN...", "Read candidates from this column of the pool (repeatable)."),
    _about(
        "--options K|K-K", "Give each item this number of options, or one in this range, from the pool or from DATA.",
        to="shown", read=_read_sizes,
    ),
    _about("--as-typed", "Keep quotes, dashes, spaces, final periods, and first letters of options."),
    _about(
        "--auditor READER...",
        "Use this auditor for the proof (repeatable) [default: characters and meaning].", to="auditors",
    ),
    _about("--meaning", "Let the encoder take part in choosing, but not in the proof."),
    _about("--people WRITER", "Compare the result with the distractors of this column or file of the pool."),
    _about("--writer MODEL", "Ask this model for candidates that the pool lacks: ID=openai:URL, hf:..., or a name."),
    _about("--price IN OUT", "Set the prices of a million prompt and reply tokens.", type=(_AMOUNT, _AMOUNT)),
    _about("--budget COST", "Stop asking the writer before the cost exceeds this.", type=_AMOUNT),
    _about("--dry-run", "Print the cost of the writer, but ask and write nothing."),
    _about(
        "-m --models NAME...",
        "Show questions to this model, and set aside candidates that it finds as likely as the key (repeatable).",
    ),
    _about("--run RUN", "Set candidates aside that are as likely as the key in the answers of this run.", type=DIR),
    _about("--review FILE...", "Apply the verdicts of this review sheet (repeatable).", to="reviews"),
    _about("--cache-dir DIRECTORY", "Store models and replies here.", to="cache"),
    _about("--prefer own", "Keep as many of the author's own distractors as possible."),
)  # fmt: skip
"""Options of a composition, which the command receives as `pooling` if the user gives them."""


PREFERENCE = 1.0
"""Weight of an author's own distractor with `--prefer own`."""


def compose_set(bench: "Loaded", pooling: Mapping[str, Any], seed: int) -> "Composed":
    """Build a set from pools. Raise `AuthorisationError` if a file of candidates is sensitive, and `UsageError` or
    `DataError` if it cannot be read."""
    from robustify.base.files import cache_folder
    from robustify.composing import candidate_checks, choosing, composed_set, writers
    from robustify.pipeline.encoder import embed_texts
    from robustify.pipeline.run_input import one_thread
    from robustify.report.opening import forecast_lines

    usual = mode(item.k for item in bench.items)
    shown, cache = pooling.get("shown", (usual, usual)), cache_folder(pooling.get("cache"))
    pools, grow = _growing(bench, pooling)
    consultants = _consultants(pooling)
    if consultants.writer is not None:
        cost = writers.price(pools, writers.writer_requests(pools, shown), consultants.writer)
        if "dry_run" in pooling:
            click.get_current_context().exit(print_result(cost.tree(), forecast_lines(cost)))
        for line in forecast_lines(cost):
            say(line)
    elif alone := [name for name in ("dry_run", "price", "budget") if name in pooling]:
        fault = f"--{alone[0].replace('_', '-')} works only with --writer MODEL."
        raise UsageError(fault, code="option-needs-writer")
    consultation = candidate_checks.consult(pools, grow, shown, consultants, cache, watcher())
    settings = choosing.Choosing(shown, seed, PREFERENCE * ("prefer" in pooling), "meaning" in pooling)
    vectors = partial(embed_texts, cache=cache, keep=True)
    proving = {name: pooling[name] for name in ("auditors", "people") if name in pooling}
    with one_thread():
        composed = composed_set.compose(bench.items, consultation.pools, settings, vectors, **proving)
    return replace(composed, consulted=consultation)


def _consultants(pooling: Mapping[str, Any]) -> "Consultants":
    """Return the writer, models, run, and reviews that take part in composing. Raise `UsageError` if a model is unknown,
    and the errors of `open_run`."""
    from robustify.composing import candidate_checks, writers
    from robustify.pipeline.config import mode_of, models_named
    from robustify.runs.run import open_run
    from robustify.wings import GUARD

    writer, run, names = None, None, pooling.get("models", ())
    if "writer" in pooling:
        (model,) = models_named([pooling["writer"]])
        prices = dict(zip(("price_in", "price_out"), pooling.get("price", ()), strict=False))
        writer = writers.WriterSettings(model.model_copy(update=prices), budget=pooling.get("budget"))
    if "run" in pooling:
        opened = open_run(pooling["run"], GUARD)
        if opened.items is None:
            fault = f"{opened.folder} has no item text, so candidates cannot be matched. Use another run."
            raise UsageError(fault, code="composed-without-item-text")
        run = (opened.items, opened.answers)
    votes = candidate_checks.read_votes(pooling.get("reviews", ()))
    return candidate_checks.Consultants(writer, models_named(names), mode_of(names), run, votes)


def _growing(bench: "Loaded", pooling: Mapping[str, Any]) -> "tuple[Sequence[Pool], Grow]":
    """Build pools from files. Return the pools, and a function that adds a writer's candidates. Raises as `compose_set`."""
    from robustify.composing.candidate_checks import full_questions
    from robustify.composing.candidates import read_candidates
    from robustify.composing.pool import make_pools
    from robustify.reading.loaders import Source
    from robustify.wings import GUARD

    files = [Source(path=path) for path in pooling.get("pool", ())]
    candidates, unmatched = read_candidates(bench.items, files, GUARD, pooling.get("candidates", ()))
    for name, n in unmatched.items():
        line = f"{name}: {counted(n, 'row')} left out, because no item has the question or ID."
        say(Notice(line, code="unmatched-rows"))

    def grow(written: "Sequence[Sequence[Candidate]]") -> "tuple[Pool, ...]":
        offered = [(*read, *new) for read, new in zip(candidates, written, strict=True)]
        return make_pools(bench.items, offered, same_typography="as_typed" not in pooling)

    pools = grow([()] * len(bench.items))
    GUARD.require_ordinary_files(
        bench.name, [*full_questions(pools)], [Path(source.path) for source in files]
    )
    return pools, grow
