"""`robustify CONFIG`, and what a finished run allows without a model: `judge`, `check`, `report`, `explain`, `agree`,
`compare`, `dashboard`."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robustify.cli.data import MAP, SKIP_BAD
from robustify.cli.options import (
    PATH,
    RUN,
    as_json,
    cache_dir,
    given_options,
    is_quiet,
    out_option,
    print_result,
    say,
    screening,
    watcher,
)

if TYPE_CHECKING:
    from robustify.run import Run
    from robustify.summary.result import Summary

_COLOURS = {"good": "green", "bad": "red", "unsure": "yellow"}


@click.command()
@click.argument("config", metavar="CONFIG|DATA")
@click.option(
    "--public", is_flag=True, help="DATA, a file of items, may be shown: audit it without a config."
)
@MAP
@SKIP_BAD
@out_option("The run's folder [default: results/NAME].", required=False)
@click.option("-m", "--models", multiple=True, metavar="NAME",
              help="Ask this model instead of the config's (repeatable); ID=openai:URL is one at a server.")  # fmt: skip
@screening
@click.option("--limit", type=click.IntRange(min=1), help="Only the first N items.")
@click.option("--safe-demo", is_flag=True, help="Run only if the set is public.")
@click.option("--device", help="Where the models run, e.g. cpu or cuda:0.")
@cache_dir
@click.option("--dry-run", is_flag=True, help="Check everything, say what it will take, and ask nothing.")
@click.option(
    "--progress/--no-progress",
    default=None,
    help="Say how far it is [default: bars on a terminal, else lines].",
)
@as_json
def run(
    config: str,
    public: bool,
    columns: tuple[str, ...],
    skip_bad: bool,
    out: Path | None,
    models: tuple[str, ...],
    rule: dict[str, object],
    limit: int | None,
    safe_demo: bool,
    device: str | None,
    cache: Path,
    dry_run: bool,
    progress: bool | None,
    json_: bool,
) -> int:
    """Audit the benchmark that CONFIG names and write the run's folder.

    A file of items needs no config where its text may be shown (--public): rules and a probe audit it, and the
    models that -m names. `robustify init DATA` writes a config to begin with.

    \b
    Examples:
        robustify demo_benign.yaml --out results/demo
        robustify items.csv --public
        robustify items.csv --public -m smollm2-135m -m gemma3-270m --dry-run
    """
    from robustify import config as configs
    from robustify import pipeline
    from robustify.ask.forecast import Forecast
    from robustify.cli.start import config_of
    from robustify.report.opening import forecast_lines
    from robustify.report.sections.headline import without_models

    overrides = {**rule, **given_options(limit=limit)}
    settings = config_of(config, models, overrides, public=public, columns=columns)
    settings = configs.with_models(settings, models, device)
    if skip_bad:
        settings = configs.skipping_bad(settings)
    if safe_demo:
        configs.require_public(settings)
    folder = out or Path("results") / settings.name
    if dry_run:
        found = pipeline.foretold(settings, folder, cache)
        click.echo(json.dumps(found.tree()) if json_ else "\n".join(forecast_lines(found)))
        return 0

    def before(found: Forecast) -> None:
        if found.is_long:
            for line in forecast_lines(found):
                say(line)

    shown = (
        not is_quiet() and bool(settings.models) and (sys.stderr.isatty() if progress is None else progress)
    )
    early = (lambda found: click.echo("\n".join(without_models(found)), err=True)) if shown else None
    summary = pipeline.robustify(settings, folder, cache, watcher(progress), early, before).summary
    if json_:
        tree = {"run": str(folder), "signature": summary.signature, "summary": summary.tree()}
        click.echo(json.dumps(tree))
    return _closed(summary, folder, json_)


def _closed(summary: "Summary", folder: Path, json_: bool) -> int:
    """Print the closing summary, or only why exports were stopped; the exit code."""
    from robustify.errors import GuardrailError
    from robustify.report.opening import closing
    from robustify.report.reasons import guardrail_sentence

    def painted(tone: str, line: str) -> str:
        return click.style(line, fg=_COLOURS.get(tone), bold=True)

    if not json_:
        click.echo("\n".join(closing(summary, str(folder), painted)))
    if summary.halting:
        why = "; ".join(f"{g.name}: {guardrail_sentence(g)}" for g in summary.halting)
        line = f"lm_eval_tasks were not written ({why})"
        if not summary.trial:
            raise GuardrailError(line)
        say(line)
    return 0


@click.command("judge")
@RUN
@out_option("The new verdict's folder [default: beside RUN, named after the rules].", required=False)
@click.option("--replace", is_flag=True, help="Replace the verdict of RUN itself.")
@screening
@click.option(
    "--rotation",
    type=click.Choice(["averaged", "every", "most"]),
    help="A voter's pick over the orders: of their average, or the same in every or in most of them.",
)
@as_json
def judge_again(
    run: "Run", out: Path | None, replace: bool, rule: dict[str, object], rotation: str | None, json_: bool
) -> int:
    """Judge the answers of RUN again, under other rules; seconds, no model.

    The verdict of RUN stays as it is: the new one gets a folder of its own. Without other rules RUN itself is
    judged and written anew.

    \b
    Example:
        robustify judge results/demo --criterion majority -o results/demo-majority
    """
    from robustify.errors import UsageError
    from robustify.pipeline import rejudge

    if out is not None and replace:
        raise UsageError("judge: both --out and --replace; expected one of them")
    overrides = {**rule, **given_options(screen__rotation=rotation)}
    if out is None and not replace and overrides:
        rules = "-".join(str(value) for value in overrides.values())
        out = run.folder.with_name(f"{run.folder.resolve().name}-{rules}")
    done = rejudge(run, overrides, out or run.folder)
    if json_:
        click.echo(json.dumps(done.summary.tree()))
    return _closed(done.summary, done.folder, json_)


@click.command()
@RUN
@as_json
def check(run: "Run", json_: bool) -> int:
    """Hold RUN against the guardrails; exit 7 when one says no (not of a trial run), 3 when a file was changed since.

    \b
    Example:
        robustify check results/demo
    """
    from robustify.errors import DataError
    from robustify.report.reasons import guardrail_sentence
    from robustify.report.sections.headline import verdict

    changed = run.changed()
    if changed:
        raise DataError(
            *(
                f"{run.folder / name}: is not as the run left it; judge again or restore it"
                for name in changed
            )
        )
    summary = run.summary
    passed = all(c.passed for c in summary.guardrails)
    head = {"run": str(run.folder), "passed": passed, "trial": summary.trial}
    lines = [
        f"{'pass' if c.passed else 'FAIL'}  {c.name:24} {guardrail_sentence(c)}" for c in summary.guardrails
    ]
    trial = [": ".join(verdict(summary)[::2])] if summary.trial else []
    print_result({**head, "guardrails": summary.tree()["guardrails"]}, [*lines, *trial], json_)
    return 0 if passed or summary.trial else 7


@click.command()
@RUN
def report(run: "Run") -> int:
    """Print report.html, report.md and the figures of RUN again from its summary.

    \b
    Example:
        robustify report results/demo
    """
    from robustify.pipeline import reprint

    click.echo(str(reprint(run).folder / "report.html"))
    return 0


@click.command()
@RUN
@click.argument("item", metavar="ITEM")
@as_json
def explain(run: "Run", item: str, json_: bool) -> int:
    """Say why ITEM of RUN is flagged or is not: what was picked without the question, and what carried it.

    ITEM is an id, or the beginning of exactly one. Prints the item's text, so a restricted run is refused.

    \b
    Example:
        robustify explain results/demo history-01
    """
    from robustify.report.explaining import explained

    return print_result(*explained(run, item), json_)


@click.command()
@RUN
@click.argument("labels", metavar="LABELS", type=PATH)
@as_json
def agree(run: "Run", labels: Path, json_: bool) -> int:
    """Say how far the filter of RUN sees what people see in its items.

    LABELS has a line ITEM,shortcut or ITEM,not for each person's word. Kappa is of the verdicts; AUROC and precision are of
    W (the scorer's confidence in a key that it picked), of all surface cues together, of what models add, of each cue.

    \b
    Example:
        robustify agree results/demo labels.csv
    """
    from robustify.judge.audit.people import agreement_with_people, labels_of_people
    from robustify.report.explaining import agreement_lines, evidence_of

    found = agreement_with_people(evidence_of(run), labels_of_people(labels))
    return print_result(found, agreement_lines(found), json_)


@click.command()
@click.argument("folders", metavar="RUN RUN...", nargs=-1, required=True, type=PATH)
@click.option("--html", type=PATH, metavar="FILE", help="Also write a page that needs no other file.")
@click.option("--csv", "csv_", type=PATH, metavar="FILE", help="Also write every difference as a table.")
@as_json
def compare(folders: tuple[Path, ...], html: Path | None, csv_: Path | None, json_: bool) -> int:
    """Put finished runs beside one another: what changed, whether it is more than noise, which items moved.

    Base against fine-tuned, one set against another, last month against today, one rule against another. The same items
    are compared one by one; of other items, and of restricted runs, only what each run's summary shows.

    \b
    Examples:
        robustify compare results/demo results/demo_letters
        robustify compare base tuned --html compare.html --csv compare.csv
    """
    from robustify.errors import UsageError
    from robustify.report.comparing import compared
    from robustify.report.comparison_page import comparison_html

    if len(folders) < 2:
        raise UsageError(f"compare: {len(folders)} run; expected two or more folders")
    found = compared(folders)
    if html is not None:
        _write(html, comparison_html(found, html.absolute().parent))
    if csv_ is not None:
        _write(csv_, found.csv())
    return print_result(found.tree(), found.lines(), json_)


@click.command()
@click.argument("folder", metavar="DIR", type=PATH)
@click.option(
    "-o", "--out", "--output", type=PATH, metavar="FILE", help="The page [default: DIR/dashboard.html]."
)
def dashboard(folder: Path, out: Path | None) -> int:
    """Put all runs and graded answers below DIR on one page: over time, with filters and links to their reports.

    The page is a file that needs no other and no network; its links lead to each run's own report. Of a restricted run it
    shows what its summary shows, and nothing where its seal cannot be checked.

    \b
    Example:
        robustify dashboard results
    """
    from robustify.report.dashboard import dashboard_html

    path = out or folder / "dashboard.html"
    _write(path, dashboard_html(folder, path))
    click.echo(str(path))
    return 0


def _write(path: Path, text: str) -> None:
    from robustify.files import writable, write_text

    with writable(path, "choose another file"):
        write_text(path, text)
