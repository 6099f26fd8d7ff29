"""Commands that make a run (`robustify run`), and commands that read finished runs without a model."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robustify.base.errors import counted
from robustify.cli.options import (
    ENCODER,
    FORCE,
    HIDDEN,
    OUT,
    PATH,
    RUN,
    STRICT,
    cache_dir,
    command,
    option,
    reading,
    screening,
)
from robustify.cli.terminal import print_lines, print_result, say, state_code, watcher

if TYPE_CHECKING:
    from robustify.restricted.disclosure.released import Released
    from robustify.runs.run import Run

_COLOURS = {"good": "green", "bad": "red", "unsure": "yellow"}


@command("run")
@click.argument("config", metavar="CONFIG|DATA")
@option("--public", "Audit a file of items (DATA) without a config, and allow reports to show its text.")
@reading
@option(OUT, "Write the run into this folder [default: results/NAME].")
@FORCE
@option(
    "-m --models NAME...",
    "Ask this model instead of those in the config (repeatable). For a server, write ID=openai:URL.",
)
@screening
@HIDDEN
@ENCODER
@option("--limit", "Audit only the first N items.", type=click.IntRange(min=1))
@option("--safe-demo", "Refuse to run on a restricted set [also: SAFE_DEMO=1].", envvar="SAFE_DEMO")
@option("--device TEXT", "Run the models on this device, e.g. cpu or cuda:0.")
@cache_dir
@STRICT
@option("--dry-run", "Check the config, and estimate the remaining requests and their time.")
@option(
    "--progress/--no-progress",
    "Show or hide progress [default: bars on a terminal, otherwise lines].",
    default=None,
)
def run_config(config: str, rule: dict[str, Any], **given: Any) -> int:
    """Audit a benchmark, and write a report.

    A public file of items needs no config. Rules and a probe audit the items. With -m, models audit them, too. To write a
    config, run `robustify init DATA`.

    \b
    Examples:
        robustify demo_benign.yaml --out results/demo
        robustify items.csv --public
        robustify items.csv --public -m smollm2-135m -m gemma3-270m --dry-run
    """
    from robustify.models.forecast import Forecast
    from robustify.pipeline import config as configs
    from robustify.pipeline import steps
    from robustify.report.opening import forecast_lines
    from robustify.wings import wings

    if given["limit"] is not None:
        rule["limit"] = given["limit"]
    if "screen.mode" in rule:
        rule["asking.mode"] = rule["screen.mode"]
    models = given["models"]
    plugged = wings()
    settings = configs.config_for(
        config, plugged.adapters, models, rule, public=given["public"], source_options=given["source_options"]
    )
    settings = configs.with_models(settings, models, given["device"])
    if settings.sensitivity != "public":
        from robustify.restricted.access import require_no_demo

        require_no_demo(settings.name, given["safe_demo"])
    folder, cache = given["out"] or Path("results") / settings.name, given["cache"]
    if given["dry_run"]:
        forecast = steps.foretold(settings, folder, cache, plugged, force=given["force"])
        return print_result(forecast.tree(), forecast_lines(forecast, settings.limits.min_items))

    def tell(news: Forecast | Path) -> None:
        if isinstance(news, Path):
            say(f"{news} shows a first result, and grows while the models answer.")
        elif news.is_long or news.items < settings.limits.min_items:
            for line in forecast_lines(news, settings.limits.min_items):
                say(line)

    before = _settings_in(folder)
    done = steps.robustify(
        settings, folder, cache, plugged, watcher(given["progress"]), tell, force=given["force"]
    )
    _say_what_changed(before, done)
    data = done.manifest["data"]
    notes = with_codes(data.get("notes", ()), data.get("note_codes", ()))
    for note in notes:
        say(note["text"])
    tree = _released(done).model_dump(mode="json") if done.restricted else done.summary.tree()
    tree = {"run": str(folder), "signature": tree["signature"], "notes": notes, "summary": tree}
    sources = settings.model_dump(mode="json")["data"]
    return close_run(done, tree, strict=given["strict"], sources=sources)


def with_codes(notes: Sequence[str], codes: Sequence[str]) -> list[dict[str, str]]:
    """Return notes of `run.json` with their codes. Notes of older runs have no codes."""
    padded = [*codes, *[""] * len(notes)]
    return [{"code": code, "text": text} for text, code in zip(notes, padded, strict=False)]


def _released(run: "Run") -> "Released":
    from robustify.restricted.disclosure.released_page import read_released

    return read_released(run)


def _settings_in(folder: Path) -> Mapping[str, Any]:
    """Return the settings of the run in a folder, or an empty mapping if there is no readable run."""
    from robustify.base.errors import RobustifyError
    from robustify.runs.run import MANIFEST
    from robustify.runs.stored import json_file

    try:
        tree = json_file(folder / MANIFEST) if (folder / MANIFEST).is_file() else {}
    except RobustifyError:
        return {}
    settings = tree.get("config") if isinstance(tree, Mapping) else None
    return settings if isinstance(settings, Mapping) else {}


def _say_what_changed(before: Mapping[str, Any], done: "Run") -> None:
    """Report the settings that differ from those of the replaced run, if any."""
    after = {} if done.restricted else done.manifest["config"]
    if changed := [name for name, value in after.items() if before.get(name, value) != value]:
        say(
            f"{done.folder} had a run with different settings ({', '.join(changed)}), which was replaced. -o DIR keeps "
            "both."
        )


def close_run(
    run: "Run", tree: object, *, strict: bool, sources: Sequence[Mapping[str, Any]] | None = None
) -> int:
    """Print the summary of a run, or `tree` as JSON. Return the exit code of its state. The `sources` of its config are
    named in the command that mends them."""
    from robustify.report.opening import closing
    from robustify.report.printing import guardrail_label

    def painted(tone: str, line: str) -> str:
        return line if os.environ.get("NO_COLOR") else click.style(line, fg=_COLOURS.get(tone), bold=True)

    if run.restricted:
        page = _released(run)
        failed = list(page.halting)
        from robustify.restricted.disclosure.released_page import released_lines

        print_result(tree, released_lines(page, str(run.folder)))
    else:
        failed = [check.name for check in run.summary.halting]
        lines = closing(run.summary, str(run.folder), run.manifest, painted, sources)
        print_result(tree, lines, shown=str)
    if run.state == "failed":
        names = ", ".join(map(guardrail_label, failed))
        click.echo(f"robustify: The run failed ({names}), so lm_eval_tasks was not written.", err=True)
    return state_code(run.state, strict=strict)


@command("judge")
@RUN
@option(OUT, "Write into this folder, or into RUN [default: next to RUN, named after the rules].")
@FORCE
@STRICT
@screening
def judge_again(run: "Run", out: Path | None, force: bool, strict: bool, rule: dict[str, object]) -> int:
    """Judge RUN again by other rules, or update its report.

    This takes seconds and asks no model. With other rules, the result goes into a new folder, unless -o names RUN.
    Without options, RUN is judged again by its own rules, which also renews a report that another version wrote.

    \b
    Examples:
        robustify judge results/demo --criterion majority -o results/demo-majority
        robustify judge results/demo
    """
    from robustify.pipeline.steps import rejudge

    if out is None and not rule:
        done = rejudge(run, rule, run.folder)
        print_lines(done.folder / "report.html")
        return state_code(done.state, strict=strict)
    # "." and ".." have no name of their own.
    own = run.folder.resolve() if run.folder.name in ("", "..") else run.folder
    beside = own.with_name("-".join([own.name, *map(str, rule.values())]))
    done = rejudge(run, rule, out or beside, force=force)
    return close_run(done, done.summary.tree(), strict=strict)


@command("report")
@RUN
@option("--table", "Print only the table of scores with the number to quote.")
@option(
    "--format markdown|latex|csv",
    "Print the table in this format (implies --table).",
    to="form",
    default="markdown",
)
def print_report(run: "Run", table: bool, form: str) -> int:
    """Print the report of RUN, or only its table of scores.

    \b
    Examples:
        robustify report results/demo --table
        robustify report results/demo --format latex
    """
    from robustify.report.opening import opening, reader_table, report_tree
    from robustify.report.printing import printed_table
    from robustify.report.quoting import quote_table

    run.require_unchanged("summary.json", "report.md")
    tree = (
        _released(run).model_dump(mode="json") if run.restricted else report_tree(run.summary, run.manifest)
    )
    if table or form != "markdown":
        if run.restricted:
            from robustify.restricted.disclosure.released_page import released_table

            numbers = released_table(_released(run))
        else:
            numbers = quote_table(opening(run.summary).quotes)
        if not numbers.rows:
            say("no model has a score, so these are the numbers of a reader who never sees a question.")
            numbers = reader_table(run.summary)
        return print_result(tree, printed_table(numbers, form).splitlines())
    return print_result(tree, (run.folder / "report.md").read_text(encoding="utf-8").splitlines())


@command()
@RUN
@STRICT
@option("--recompute", "Also judge the answers again, and compare every number and file with the result.")
def check(run: "Run", strict: bool, recompute: bool) -> int:
    """Check the state of RUN.

    The exit code is 7 if RUN failed, and 3 if one of its files was changed. With --recompute, it is also 3 if the answers
    give another result. Whether models really gave these answers is not checked.

    \b
    Examples:
        robustify check results/demo
        robustify check results/demo --recompute
    """
    from robustify.cli.validated import loaded_words
    from robustify.report.printing import guardrail_label, sentence, state_sentence

    run.require_unchanged()
    tree: dict[str, Any] = {"run": str(run.folder)}
    if run.restricted:
        page = _released(run)
        about = {"state": page.state, "trial": page.trial, "failed": page.failed}
        tree |= {**about, "release_level": page.release_level}
        lines = [f"{'failed':14} {guardrail_label(name)}" for name in page.failed]
        lines += [f"{page.state:14} run", f"release level: {page.release_level}"]
    else:
        summary = run.summary
        checks = summary.tree()["guardrails"]
        tree |= {"state": summary.state, "trial": summary.trial, "guardrails": checks}
        lines = [
            f"{c.state:14} {guardrail_label(c.name):24} {sentence(c.reason)}" for c in summary.guardrails
        ]
        lines.append(f"{summary.state:14} {'run':24} {state_sentence(summary)}")
        origins = run.manifest["data"].get("origins", ())
        tree |= {"origins": origins} if origins else {}
        lines += [
            f"{'loaded':14} {'data':24} {loaded_words(origin)}"
            for origin in origins
            if origin.get("revision")
        ]
    if recompute:
        from robustify.pipeline.recomputing import require_as_computed

        result = require_as_computed(run)
        tree["recomputed"] = {
            "values": result.n_values,
            "files": result.n_files,
            "other_versions": result.other_versions,
        }
        files = "" if result.n_files is None else f" and {counted(result.n_files, 'file')}"
        lines.append(f"{'as computed':14} {'answers':24} {counted(result.n_values, 'value')}{files}")
        if result.n_files is None:
            names = ", ".join(result.other_versions)
            why = f"run.json names other versions of {names}, so pages and other files may say anything"
            lines.append(f"{'not compared':14} {'files':24} {why}. Renew them with `robustify judge`.")
    print_result(tree, lines)
    return state_code(run.state, strict=strict)


@command()
@RUN
@click.argument("item", metavar="[ITEM]", required=False)
@option("--csv", "Print the flagged items as CSV.", to="as_csv")
def explain(run: "Run", item: str | None, as_csv: bool) -> int:
    """Explain why items are flagged, and suggest edits.

    Without ITEM, print one line per flagged item, with its line in the file, its strongest cue, and an edit. With
    ITEM, an ID or the unique beginning of an ID, print its text, the option picked without the question, and the
    cues behind the pick. Restricted runs are not supported.

    \b
    Examples:
        robustify explain results/demo --csv > flagged.csv
        robustify explain results/demo history-01
    """
    from robustify.base.errors import UsageError
    from robustify.base.files import neutral
    from robustify.report.explaining import explained, flagged
    from robustify.report.opening import MOST_QUOTED, opening

    if item is not None:
        if as_csv:
            raise UsageError("--csv lists all flagged items. Omit ITEM.", code="csv-of-one-item")
        return print_result(*explained(run, item))
    table = flagged(run)
    if as_csv:
        click.echo(
            table.map(lambda quote: neutral(quote) if isinstance(quote, str) else quote).to_csv(index=False),
            nl=False,
        )
        return 0
    rows: list[dict[str, Any]] = table.to_dict("records")
    data = run.manifest["config"]["data"]
    names = ["/".join(filter(None, (source["path"], source.get("split")))) for source in data]
    file = names[0] if len(names) == 1 else ""  # the run does not record which of several files an item is in
    places = (f"{file}:{row['line']}".lstrip(":") if row["line"] else "-" for row in rows)
    print_result(
        rows,
        (
            f"{place}: {row['item']}: {row['cue']}: {row['mend']}"
            for place, row in zip(places, rows, strict=True)
        ),
    )
    screen = opening(run.summary)
    none = "No item is flagged. To see why an item was kept, run `robustify explain RUN ITEM`."
    some = (
        f"{counted(len(rows), 'item')} flagged. Edit the file, audit it again, then run `robustify compare`."
    )
    say(some if rows else none)
    for advice in () if rows else screen.todo:
        say(f"To do for the set: {advice.action}")
    for quote in screen.quotes[:MOST_QUOTED]:
        if quote.looks is not None and quote.owed:
            say(f"{quote.model}: {quote.owed}")
    return 0


@command()
@RUN
@click.argument("labels", metavar="LABELS", type=PATH)
def agree(run: "Run", labels: Path) -> int:
    """Compare the verdicts of RUN with people's labels.

    LABELS has one line per label, ITEM,shortcut or ITEM,not. The output shows kappa for the verdicts. It also
    shows the AUROC with which each of these predicts the labels: W (the scorer's confidence if its pick is the key, or
    0), all surface cues together, the models, and each cue.

    \b
    Example:
        robustify agree results/demo labels.csv
    """
    from robustify.judging.audit.people import agreement_with_people, labels_of_people
    from robustify.report.explaining import evidence_of
    from robustify.report.printing import markdown

    agreement = agreement_with_people(evidence_of(run), labels_of_people(labels), run.group_of)
    return print_result(agreement, markdown("agree.j2", found=agreement).splitlines())
