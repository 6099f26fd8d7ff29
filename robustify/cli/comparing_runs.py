"""Commands that compare runs or the models in logs, and that show all runs on one page."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from robustify.cli.options import PATH, command, option
from robustify.cli.terminal import print_lines, print_result, say, watcher

if TYPE_CHECKING:
    from robustify.runs.run import Run


_START = len("<!doctype html>")


@command()
@click.argument("paths", metavar="RUN|LOG...", nargs=-1, required=True)
@option("--html FILE", "Also write the comparison as an HTML file.", type=PATH)
@option(
    "--format markdown|latex|csv", "Print the differences as a table in this format.", to="form",
)  # fmt: skip
@option(
    "--map PART=COLUMN...", "Map a part of logs to its column, as in `import` (repeatable).", to="columns"
)
@option("--alert", "Exit with code 7 if a score or the set is worse in the last run.")
def compare(
    paths: tuple[str, ...], html: Path | None, form: str | None, columns: tuple[str, ...], alert: bool
) -> int:
    """Compare runs or models, and test the differences.

    For example, compare a base model with its fine-tuned version, or a benchmark before and after edits. Items in
    both runs are compared one by one. Other items are compared by the summaries of the runs. Restricted runs are
    not supported.

    Logs, folders of logs, or a single run are compared by their models, two by two, on the items that both answered
    ([MODEL=][VIEW:]FILE, as in `import`). Holm's correction covers all pairs and tasks.

    \b
    Examples:
        robustify compare results/demo results/demo_letters
        robustify compare base.csv tuned.csv --html compare.html
        robustify compare january february --alert
    """
    from robustify.base.errors import GuardrailError, UsageError
    from robustify.report.compare import compared, comparison_html, comparison_lines, comparison_tables
    from robustify.wings import GUARD

    folders = [Path(path) for path in paths]
    are_runs = [(folder / "run.json").is_file() for folder in folders]
    if not all(are_runs) or len(folders) == 1:
        missing = [folder for folder in folders if not folder.exists()]
        if any(are_runs) and missing:
            raise UsageError(f"{missing[0]} does not exist; expected a run", code="no-such-file")
        if any(are_runs) and len(folders) > 1:
            raise UsageError(
                "Runs cannot be compared with logs. Pass only runs or only logs.", code="runs-with-logs"
            )
        if alert:
            raise UsageError(
                "--alert compares the first run with the last, so it needs at least two runs.",
                code="alert-of-two-runs",
            )
        return _compare_models(paths, html, form, None if all(are_runs) else columns)
    comparison = compared(folders, GUARD)
    if html is not None:
        _write(html, comparison_html(comparison))
    print_result(
        comparison.tree(), comparison_tables(comparison, form) if form else comparison_lines(comparison)
    )
    if alert and comparison.degraded:
        raise GuardrailError(*(f"degraded: {line}" for line in comparison.degraded))
    return 0


def _compare_models(
    paths: tuple[str, ...], page: Path | None, form: str | None, columns: tuple[str, ...] | None
) -> int:
    """Print the differences between the models of logs, or of a run if `columns` is None. Raise `UsageError` if there are
    not two models."""
    from tempfile import TemporaryDirectory

    from robustify.base.errors import UsageError
    from robustify.pipeline.compared_logs import notes_of, runs_of_logs
    from robustify.reading.logs import LogOptions, mapping, parse_log_path
    from robustify.report.compare import model_pairs
    from robustify.runs.run import open_run
    from robustify.wings import GUARD

    with TemporaryDirectory(prefix="robustify-") as place:
        if columns is None:
            runs: tuple[Run, ...] = (open_run(Path(paths[0]), GUARD),)
        else:
            options = LogOptions(columns=mapping(columns))
            runs = runs_of_logs(
                [parse_log_path(path) for path in paths], Path(place), options, GUARD, watcher()
            )
            for note in dict.fromkeys(note for run in runs for note in notes_of(run)):
                say(note)
        pairs = model_pairs.model_pairs(runs)
        if not pairs:
            raise UsageError(
                f"{paths[0]} does not have two models with scores on the same items. Pass a run or log that has two.",
                code="no-two-models",
            )
        if page is not None:
            signature = "; ".join(run.manifest["signature"] for run in runs)
            _write(
                page, model_pairs.pair_html(pairs, ", ".join(Path(path).name for path in paths), signature)
            )
        lines = model_pairs.pair_text(pairs, form).splitlines() if form else model_pairs.pair_lines(pairs)
    return print_result({"pairs": [pair.tree() for pair in pairs]}, lines)


@command()
@click.argument("folder", metavar="DIR", type=PATH)
@option("-o --out --output FILE", "Write this page [default: DIR/dashboard.html].", type=PATH)
def dashboard(folder: Path, out: Path | None) -> int:
    """Show all runs below DIR on one page.

    The page lists runs and graded answers over time, with filters and links to their reports. It works offline.
    It omits restricted runs and gives their number.

    \b
    Example:
        robustify dashboard results
    """
    from robustify.report.dashboard import dashboard_html
    from robustify.wings import GUARD

    path = out or folder / "dashboard.html"
    _write(path, dashboard_html(folder, path, GUARD))
    return print_lines(path)


def _write(path: Path, page: str) -> None:
    """Write a page, which may replace only a page. Raise `UsageError` for another file, such as one of items."""
    from robustify.base.errors import UsageError
    from robustify.base.files import replace_text, writable

    with writable(path, "choose another file"):
        if path.is_file() and path.read_bytes()[:_START] not in (b"", page[:_START].encode()):
            raise UsageError(
                f"{path} already exists and is not a page. Name another file.", code="file-exists"
            )
        replace_text(path, page)
