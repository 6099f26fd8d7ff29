"""Steps of a run: load the items, ask each model about every item in several views, judge the answers, and write the
run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from robustify.base.errors import AuthorisationError, UsageError
from robustify.items.item import no_collector
from robustify.items.views import BEFORE_A_QUESTION, Hidden, Template
from robustify.judging.cloze import cloze_labels
from robustify.judging.screen.screen_rules import require_voters
from robustify.models.folder import has_encoder
from robustify.models.forecast import Forecast
from robustify.pipeline.config import Config, edited, overridden, parse
from robustify.pipeline.manifest import data_tree
from robustify.pipeline.public import PublicPolicy, judged_run
from robustify.pipeline.run_input import (
    RunInput,
    answer_from_options,
    bench_facts,
    judge_input,
    read_input,
    unwatched,
)
from robustify.pipeline.wing_protocols import SetPolicy, Wings
from robustify.reading.loaders import Loaded
from robustify.runs.run import Run, refuse_foreign, refuse_other, run_lock

if TYPE_CHECKING:
    from robustify.models.engines.protocols import Watch
    from robustify.models.forecast import Remaining


def robustify(
    config: Config,
    folder: Path,
    cache: Path,
    wings: Wings,
    watch: "Watch" = unwatched,
    tell: Callable[[Forecast | Path], None] | None = None,
    *,
    force: bool = False,
) -> Run:
    """Audit the benchmark that a config defines, and write the run to a folder.

    Settings are checked first, then data, then models, so that cheap mistakes are reported first. `tell` is called
    with the forecast before anything is asked, and with the path of the page that precedes the models' answers, if any,
    once it is there. Raise `RobustifyError` if a step failed, or, without `force`, if the folder contains a run of another
    benchmark. The folder changes only after all questions are asked.
    """
    policy = policy_for(config, wings, folder)
    with policy.inside(folder):
        with watch("reading the items", 0):
            bench = _read(folder, policy, wings, force=force)
        if config.asks_models:
            from robustify.pipeline.model_steps import require_models

            require_models(config, cache)
        first_page = None
        if tell is not None:
            estimate = _forecast(bench, cache, policy, wings)
            first_page = policy.first_page(folder, estimate)
            tell(estimate)
        with run_lock(folder):
            with watch("looking at the options", 0):
                run_input = ask_options(bench, cache, watch, policy)
            if tell is not None and first_page is not None:
                alone = {"models": (), "alternatives": (), "free": None}
                first_page(judge_input(config.model_copy(update=alone), run_input))
                tell(folder / "report.html")
            if config.asks_models:
                from robustify.pipeline.model_steps import ask_models

                run_input = ask_models(bench, run_input, cache, watch, policy, wings)
            with watch("judging the answers", 0):
                judgement = judge_input(config, run_input)
            with watch("writing the run", 0):
                return policy.write(folder, run_input, judgement)


def foretold(config: Config, folder: Path, cache: Path, wings: Wings, *, force: bool = False) -> Forecast:
    """Estimate the cost of a run, or of the rest of an interrupted run, without writing to its folder. Models on this
    machine score some items, and servers are not asked. Raise `RobustifyError` if the run would fail before its first
    question."""
    from robustify.pipeline.model_steps import remaining_work

    policy = policy_for(config, wings, folder)
    with policy.inside(folder):
        bench = _read(folder, policy, wings, force=force)
        return _forecast(bench, cache, policy, wings, remaining_work(bench, cache, policy))


def policy_for(config: Config, wings: Wings, folder: Path | None = None) -> SetPolicy:
    """Return the policy for reading the set of a config and writing its run, before any item is read. Raise
    `AuthorisationError` if a restricted set lacks a requirement, or a model would send prompts to another host."""
    policy = wings.restricted(config, folder, wings.guard)
    return PublicPolicy(config, wings.guard) if policy is None else policy


def _read(folder: Path, policy: SetPolicy, wings: Wings, *, force: bool) -> Loaded:
    require_settings(policy.config, wings)
    refuse_foreign(folder)
    bench = load_bench(policy)
    if not force:
        refuse_other(folder, policy.config.name, bench.sha256, bench.items, policy.guard, policy.identity)
    return bench


def _forecast(
    bench: Loaded,
    cache: Path,
    policy: SetPolicy,
    wings: Wings,
    remaining: "Mapping[str, Remaining]" = MappingProxyType({}),
) -> Forecast:
    config = policy.config
    estimate = Forecast(config.name, len(bench.items), ())
    if config.asks_models:
        from robustify.pipeline.model_steps import forecast_models

        estimate = forecast_models(bench, cache, policy, wings, remaining)
    if config.encoder is True and has_encoder(cache):
        from robustify.pipeline.encoder import options_for_bfloat16

        return replace(estimate, bfloat16_options=options_for_bfloat16(bench.items))
    return estimate


def require_settings(config: Config, wings: Wings) -> None:
    """Check the settings before anything is read. Raise `UsageError` if a template or voter is unknown, if no model votes,
    or if a template shows the part that `hidden` names."""
    screens = [t for t in config.asking.templates() if t.view in ("choices_only", "choices_only_text")]
    templates, names = sorted({t.name for t in screens}), sorted(m.name for m in config.models)
    _require_hidden(config.hidden, screens if config.models else ())
    for screen in (config.screen, *config.alternatives):
        if screen.template is not None and screen.template not in templates:
            raise UsageError(
                f"screen.template names a template that `asking` does not use; expected one of {', '.join(templates)}",
                code="unknown-template",
            )
        if strangers := [voter for voter in screen.voters if voter not in names]:
            raise UsageError(
                f"screen.voters: {strangers[0]} is not a model of this config; expected {', '.join(names)}",
                code="unknown-voter",
            )
        require_voters(screen.criterion, len(screen.voters or config.voters))
    if config.models and not config.voters and not config.screen.voters:
        raise UsageError(
            "models: no model votes, because all have `role: under_test`. Set `role: voter` for at least one.",
            code="no-voter",
        )
    if config.cloze.labels is not None:
        cloze_labels(Path(config.cloze.labels))
    if config.contamination is not None:
        from robustify.judging.text_overlap import require_files

        require_files([Path(file) for file in config.contamination.files])
    if config.free is not None:
        wings.free().require_free(config.free, [m.name for m in config.models])


def _require_hidden(hidden: Hidden, screens: Sequence[Template]) -> None:
    if hidden == "image":
        raise UsageError(
            "hidden: robustify cannot show images, so it cannot hide them; expected question, passage, or context",
            code="images-cannot-be-hidden",
        )
    passage = hidden in BEFORE_A_QUESTION
    wrong = [t.name for t in screens if t.hides_passage != passage]
    if wrong:
        raise UsageError(
            f"The setting `hidden` is {hidden}, but template {wrong[0]} hides the {'question' if passage else 'passage'}. "
            "Make both hide the same part.",
            code="template-hides-another-part",
        )


@no_collector()
def load_bench(policy: SetPolicy) -> Loaded:
    """Read the items of all sources, up to the config's limit, with keyed IDs if the set is restricted. Raise
    `AuthorisationError` if a set declared public is sensitive, and `UsageError` if `hidden` names a passage, but no item
    has one."""
    bench, config = policy.read(), policy.config
    items = bench.items[: config.limit]
    if config.models and config.hidden in BEFORE_A_QUESTION and not any(i.question for i in items):
        raise UsageError(
            f"hidden is {config.hidden}, but no item has text before its question. If a column contains it, "
            "name the column: `fields: {passage: NAME}`.",
            code="no-passage",
        )
    ids, n = {item.id for item in items}, len(items)
    return replace(
        bench,
        name=config.name,
        items=items,
        lines=bench.lines[:n],
        files=bench.files[:n],
        defects=tuple(d for d in bench.defects if d.item in ids),
    )


def ask_options(bench: Loaded, cache: Path, watch: "Watch", policy: SetPolicy) -> RunInput:
    """Answer every item from its options alone, and find the items that occur in the files that `contamination` names."""
    config, texts, matches = policy.config, policy.config.contamination, None
    answers = answer_from_options(bench.items, config, cache, keep=policy.keeps_texts, watch=watch)
    if texts is not None:
        from robustify.judging.text_overlap import overlap

        matches = overlap(bench.items, [Path(file) for file in texts.files], texts.ngram)
    return RunInput(
        items=tuple(bench.items),
        facts=replace(bench_facts(bench), overlap=matches),
        data=data_tree(bench, len(bench.items), policy.notes(bench), matches),
        answers=answers,
        fingerprints={},
        templates={f"{t.view}/{t.name}": t.digest for t in config.asking.templates()},
    )


RETIRED = {
    "fdr_exact": False, "rotation": "averaged", "probe_vote": "none", "probe_confidence": 0.5, "check": 0, "adjust": "form",
    "tables": [],
}  # fmt: skip
"""Settings of earlier versions, with the value that is now the only one."""


def _without_retired(tree: Mapping[str, Any]) -> None:
    """Remove settings of earlier versions with their usual values from a stored config. Other values are later rejected."""
    for source in tree["data"]:
        source["path"] = source["path"] or source.get("hub")
        for name in ("layout", "hub", "revision", "config", "files"):
            source.pop(name, None)
    judge, asks = (tree.get("free") or {}).get("judge") or {}, tree.get("infer_question") or {}
    limits = tree.get("limits", {})
    if "min_robust" in limits:
        limits["min_kept"] = limits.pop("min_robust")
    for part in (tree, tree.get("screen", {}), *tree.get("alternatives", ()), judge, asks):
        for name in [name for name, usual in RETIRED.items() if part.get(name) == usual]:
            del part[name]


def rejudge(run: Run, overrides: Mapping[str, object], folder: Path, *, force: bool = False) -> Run:
    """Judge a run's answers again with changed settings, and write the result to the same folder or another one.
    `overrides` maps dotted names to new values. Raise `UsageError` if the folder has a run of another benchmark and `force`
    is false."""
    if run.restricted:
        raise AuthorisationError(
            f"{run.folder} is a restricted run, which stores no answers to single items. Run the command again, with other "
            "rules if needed. The answers come from the cache.",
            code="restricted-run",
        )
    run.require_unchanged(*run.judged_files)
    refuse_foreign(folder)
    stored = edited(run.manifest["config"], ["cloze", "labels"], lambda name: str(run.folder / name))
    tree = overridden(stored, overrides)
    _without_retired(tree)
    config = parse(tree, "run.json config")
    return judged_run(config, read_input(run, config), folder, run.guard, force=force)
