"""`robustify CONFIG`: the main job."""

import json
import sys
from pathlib import Path

import click

from robustify.cli.options import as_json, cache_dir, chosen, default_cache, screening, watcher


@click.command()
@click.argument("config")
@click.option(
    "-o",
    "--out",
    "--output",
    type=click.Path(path_type=Path),
    help="The run's folder [default: results/NAME].",
)
@click.option(
    "-m",
    "--models",
    multiple=True,
    metavar="NAME",
    help="Ask this model instead of the config's (repeatable).",
)
@screening
@click.option("--limit", type=click.IntRange(min=1), help="Only the first N items.")
@click.option("--safe-demo", is_flag=True, help="Run only if the set is public.")
@click.option("--device", help="Where the models run, e.g. cpu or cuda:0.")
@cache_dir
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
@click.option("--progress/--no-progress", default=None, help="Show progress bars [default: on a terminal].")
@as_json
def run(
    config: str,
    out: Path | None,
    models: tuple[str, ...],
    criterion: str | None,
    mode: str | None,
    probe_vote: str | None,
    limit: int | None,
    safe_demo: bool,
    device: str | None,
    cache_dir: Path | None,
    quiet: bool,
    progress: bool | None,
    json_: bool,
) -> int:
    """Audit the benchmark that CONFIG names and write the run's folder.

    \b
    Example:
        robustify demo_benign.yaml --out results/demo
    """
    from robustify import config as configs
    from robustify.pipeline import robustify
    from robustify.report.reasons import guardrail_sentence
    from robustify.report.sections.headline import closing

    overrides = chosen(
        screen__criterion=criterion, screen__mode=mode, screen__probe_vote=probe_vote, limit=limit
    )
    settings = configs.with_models(configs.load(configs.find(config), overrides), models, device)
    if safe_demo:
        configs.require_public(settings)
    folder = out or Path("results") / settings.name
    shown = sys.stderr.isatty() if progress is None else progress
    done = robustify(settings, folder, default_cache(cache_dir), watcher(shown and not quiet))
    summary = done.summary
    if json_:
        click.echo(
            json.dumps({"run": str(folder), "signature": summary.signature, "summary": summary.tree()})
        )
    elif not quiet:
        click.echo("\n".join(closing(summary, str(folder))))
    for g in summary.halting:
        click.echo(f"robustify: {g.name}: {guardrail_sentence(g)}; lm_eval_tasks were not written", err=True)
    return 7 if summary.halting else 0
