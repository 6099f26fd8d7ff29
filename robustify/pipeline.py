"""Main job: load the items, ask each model about every item in several views, judge the answers, and write the run."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from robustify.answers import Answers
from robustify.ask import ask, plan
from robustify.ask.by_meaning import ask_by_meaning, can_audit, require_encoder
from robustify.ask.forecast import Forecast, forecast, megabytes, with_words
from robustify.ask.inferring import inferred_by, like_the_real, questions_in_tables
from robustify.baselines.artifact_probe import probe
from robustify.baselines.heuristics import guess
from robustify.config import Config, overridden, parse
from robustify.engines import check_model, open_scorer
from robustify.engines.protocols import Metered, Progress, no_progress
from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.files import writable
from robustify.freeform.replies import Replies
from robustify.freeform.running import FreeResponse, prompts_in_words, require_free
from robustify.item import no_collector
from robustify.judging.cloze import read_labels
from robustify.judging.judgement import Judgement, judge
from robustify.loaders import Loaded
from robustify.ngrams.overlap import Overlap, overlap
from robustify.ngrams.text import require_files
from robustify.policy.asked import RunInput, asked_again, bench_facts, data_tree, rules
from robustify.policy.public import PublicPolicy, print_run
from robustify.policy.restricted_folder import RestrictedPolicy
from robustify.report import write_report
from robustify.restricted.access import authorised, require_inside
from robustify.run import (
    EXPLORER,
    FREE,
    MANIFEST,
    SPLIT_FILES,
    Run,
    open_run,
    refuse_foreign,
    replacing,
    run_lock,
)
from robustify.screen.screen_rules import FDR, same_model
from robustify.views import BEFORE_A_QUESTION, Hidden, Template

SetPolicy = PublicPolicy | RestrictedPolicy
"""Policy for reading and writing a public or restricted set. Only `policy_for` chooses it."""
Watch = Callable[[str, int], AbstractContextManager[Progress]]
"""Called with a label and the number of requests. Returns the progress to report to."""
Before = Callable[[Forecast, bool], None]
"""Called before anything is asked, with the forecast and whether a first page precedes the models' answers."""
FirstPage = Callable[[RunInput], None]
"""Called before the first model is asked, with the answers of the rules, probe, and encoder. Writes a page."""


def unwatched(_label: str, _total: int) -> AbstractContextManager[Progress]:
    """Return a progress context that shows nothing."""
    return nullcontext(no_progress)


def robustify(
    config: Config,
    folder: Path,
    cache: Path,
    watch: Watch = unwatched,
    before: Before | None = None,
) -> Run:
    """Audit the benchmark that a config defines, and write the run to a folder.

    Settings are checked first, then data, then models, so that cheap mistakes are reported first.

    Raises:
        RobustifyError: a step failed. The folder changes only after all questions are asked.
    """
    policy = policy_for(config, folder)
    with policy.inside(folder):
        require_settings(config)
        refuse_foreign(folder)
        bench = load_bench(config, policy)
        require_models(config, cache)
        first: FirstPage | None = None
        if before is not None:
            found = _forecast(config, bench, cache)
            first = _first_page(policy, folder, found)
            before(found, first is not None)
        with run_lock(folder):
            asked = ask_options(config, bench, cache, watch, policy)
            if first is not None:
                first(asked)
            asked, spent = ask_models(config, bench, asked, cache, watch, policy)
            run = policy.write(folder, asked, judged(config, asked))
            if not run.restricted:
                log_spent(folder, spent)
            return run


def foretold(config: Config, folder: Path, cache: Path) -> Forecast:
    """Estimate the cost of a run without asking any model or writing any file.

    Raises:
        RobustifyError: the run would fail before its first question. A model that is not downloaded yet is not an error.
    """
    policy = policy_for(config, folder)
    with policy.inside(folder):
        require_settings(config)
        refuse_foreign(folder)
        bench = load_bench(config, policy)
        here = [m for m in config.models if not megabytes(m.reference, cache)]
        require_models(config.model_copy(update={"models": tuple(here)}), cache)
        return _forecast(config, bench, cache)


def _first_page(policy: SetPolicy, folder: Path, found: Forecast) -> FirstPage | None:
    """Return a function that writes a first page based on the options alone, or None if the run needs no such page.

    The page gives readers first results while models answer. It is written only for long runs on public sets that are
    screened by false discovery rate, into a folder without a run."""
    match policy:
        case PublicPolicy(config=Config() as config) if (
            found.is_long and config.screen.criterion == FDR and not (folder / MANIFEST).is_file()
        ):
            alone = config.model_copy(update={"models": (), "alternatives": (), "free": None})
            return lambda asked: policy.begin(folder, judged(alone, asked))
        case _:
            return None


def _forecast(config: Config, bench: Loaded, cache: Path) -> Forecast:
    restricted = config.sensitivity == "restricted"
    scored = forecast(config.name, bench.items, config.asking, config.models, cache, restricted=restricted)
    if config.free is None:
        return scored
    free = config.free
    asked = [model for model in config.models if not free.models or model.name in free.models]
    return with_words(scored, asked, prompts_in_words(free, bench.items), free.max_tokens)


def policy_for(config: Config, folder: Path | None = None) -> SetPolicy:
    """Return the public or restricted policy for reading the set of a config and writing its run.

    Raises:
        AuthorisationError: a restricted set lacks a required fact, or a model would send prompts to a host that the
            adapter does not name. No item has been read.
    """
    access = authorised(config.name, config.adapter, folder, public=config.sensitivity == "public")
    if access is None:
        return PublicPolicy(config)
    require_inside(config.models, access.manifest)
    return RestrictedPolicy(config, access)


@no_collector()
def judged(config: Config, asked: RunInput) -> Judgement:
    """Judge the answers under the rules of the config."""
    with threadpool_limits(1, "blas"):
        return judge(asked.answers, asked.facts, rules(config), asked.items)


def require_settings(config: Config) -> None:
    """Check the settings before anything is read.

    Raises:
        UsageError: a template or voter is unknown, no model votes, or a template shows the part that `hidden` names.
    """
    screens = [t for t in config.asking.templates() if t.view in ("choices_only", "choices_only_text")]
    asked = {t.name for t in screens}
    if config.models:
        _require_hidden(config.hidden, screens)
    names = {m.name for m in config.models}
    for screen in (config.screen, *config.alternatives):
        if screen.template is not None and screen.template not in asked:
            raise UsageError(
                f"screen.template names a template that `asking` does not use; expected one of {', '.join(sorted(asked))}"
            )
        strangers = [v for v in screen.voters if v not in names]
        if strangers:
            raise UsageError(
                f"screen.voters: {strangers[0]} is not a model of this config; expected {', '.join(sorted(names))}"
            )
    if config.models and not config.voters and not config.screen.voters:
        raise UsageError(
            "models: no model votes, because all have `role: under_test`. Set `role: voter` for at least one."
        )
    if config.cloze.labels is not None:
        read_labels(Path(config.cloze.labels))
    if config.contamination is not None:
        require_files([Path(file) for file in config.contamination.files])
    if config.free is not None:
        require_free(config.free, [m.name for m in config.models])


def _require_hidden(hidden: Hidden, screens: Sequence[Template]) -> None:
    if hidden == "image":
        raise UsageError("hidden: robustify cannot show images; expected question, passage, or context")
    passage = hidden in BEFORE_A_QUESTION
    wrong = [t.name for t in screens if t.hides_passage != passage]
    if wrong:
        raise UsageError(
            f"hidden is {hidden}, but template {wrong[0]} hides the {'question' if passage else 'passage'}. "
            "Set both to the same part."
        )


def require_models(config: Config, cache: Path) -> None:
    """Check the models before the first question.

    Raises:
        UsageError: a model or the encoder is missing, or two voters are the same model.
        ModelError: a model's files are missing or damaged.
    """
    require_encoder(config.adjust, cache)
    templates = config.asking.templates()
    refuse_twins(config, {m.name: check_model(m, cache, templates) or {} for m in config.models})


@no_collector()
def load_bench(config: Config, policy: SetPolicy) -> Loaded:
    """Read the items of all sources, up to the config's limit. Items of a restricted set get keyed IDs.

    Raises:
        AuthorisationError: a set that is declared public is recognized as sensitive.
        UsageError: `hidden` names a passage, but no item has a passage.
    """
    bench = policy.read()
    items = bench.items[: config.limit]
    if config.models and config.hidden in BEFORE_A_QUESTION and not any(i.question for i in items):
        raise UsageError(
            f"hidden is {config.hidden}, but no item has text before its question. If a column contains it, "
            "name the column: `fields: {passage: NAME}`."
        )
    ids = {item.id for item in items}
    defects = tuple(d for d in bench.defects if d.item in ids)
    n = len(items)
    return replace(
        bench, name=config.name, items=items, lines=bench.lines[:n], files=bench.files[:n], defects=defects
    )


def ask_options(config: Config, bench: Loaded, cache: Path, watch: Watch, policy: SetPolicy) -> RunInput:
    """Answer every item from its options alone: heuristics, the probe, and the encoder. No language model is asked."""
    tables = [guess(bench.items), Answers.of(probe(bench.items, config.probe))]
    if config.encoder and can_audit(cache):
        keep = policy.access is None
        with policy.asking(), watch("encoding options", sum(item.k for item in bench.items)) as progress:
            rows = ask_by_meaning(
                bench.items, config.probe, cache, keep=keep, adjust=config.adjust, progress=progress
            )
        tables.append(Answers.of(rows))
    in_texts = overlapping(config, bench)
    return RunInput(
        items=bench.items,
        facts=replace(bench_facts(bench), overlap=in_texts),
        data=data_tree(bench, len(bench.items), in_texts),
        answers=Answers.concat(tables),
        fingerprints={},
        templates={f"{t.view}/{t.name}": t.digest for t in config.asking.templates()},
    )


def ask_models(
    config: Config, bench: Loaded, asked: RunInput, cache: Path, watch: Watch, policy: SetPolicy
) -> tuple[RunInput, list[Mapping[str, object]]]:
    """Ask the models one after another. Return all answers, and the usage that each server reports. The usage is empty for
    answers from the cache, so it is not part of the answers."""
    public = policy.access is None
    free = (
        None if config.free is None else FreeResponse(config.free, bench.items, cache, restricted=not public)
    )
    asks, inferred = config.infer_question, questions_in_tables(config.infer_question)
    planned = plan(bench.items, config.asking) if config.models else []
    n_requests = sum(len(p.requests) for p in planned)
    tables: list[Answers] = [asked.answers]
    fingerprints: dict[str, Mapping[str, str]] = {}
    spent: list[Mapping[str, object]] = []
    with Replies(cache if asks is not None and public else None) as replies:
        for model in config.models:
            with (
                policy.asking(),
                watch(f"loading {model.name}", n_requests) as progress,
                open_scorer(model, cache, seal=policy.cache_key) as scorer,
            ):
                tables.append(Answers.of(ask(planned, scorer, progress)))
                if free is not None:
                    free.ask(model.name, scorer, watch)
                if asks is not None:
                    with watch(f"{model.name}, questions from choices", len(bench.items)) as progress:
                        inferred |= inferred_by(scorer, asks, bench.items, replies, progress)
                fingerprints[model.name] = scorer.fingerprint()
                if isinstance(scorer, Metered):
                    spent.append(scorer.usage())
    refuse_twins(config, fingerprints)
    tables.append(Answers.of(like_the_real(bench.items, inferred, cache, keep=public)))
    with policy.asking():
        graded = None if free is None else free.graded(watch)
    return replace(
        asked,
        facts=replace(asked.facts, free=graded),
        answers=Answers.concat(tables),
        fingerprints=fingerprints,
    ), spent


def log_spent(folder: Path, spent: Sequence[Mapping[str, object]]) -> None:
    """Append one line per server to run.log: requests, tokens, and cost. The run's digests do not cover this file.

    Raises:
        ResourceError: run.log cannot be written. The run itself is complete.
    """
    if not spent:
        return
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    file = folder / "run.log"
    with writable(file, "the run itself is complete"), file.open("a", encoding="utf-8") as log:
        log.writelines(json.dumps({"at": now, **usage}) + "\n" for usage in spent)


def overlapping(config: Config, bench: Loaded) -> Overlap | None:
    """Find the items whose text occurs in the files that `contamination` names."""
    if config.contamination is None:
        return None
    files = [Path(file) for file in config.contamination.files]
    return overlap(bench.items, files, config.contamination.ngram)


def refuse_twins(config: Config, fingerprints: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse two voters that are the same model.

    Raises:
        UsageError: two voters have the same files.
    """
    twins = same_model(fingerprints, config.screen.voters or config.voters)
    if twins is not None:
        raise UsageError(
            f"models: {twins[0]} and {twins[1]} are the same model (same files), so they would vote twice. Remove one "
            "of them, or name other voters in screen.voters."
        )


def rejudge(run: Run, overrides: Mapping[str, object], folder: Path) -> Run:
    """Judge a run's answers under other rules and write the result into the same or another folder.

    Args:
        overrides: New values of settings, by dotted name.
    """
    _require_answers(run)
    # In a run without text, only verdicts.csv has the topics. In any other run, judging rewrites that file.
    topics = () if run.holds_text else ("verdicts.csv",)
    run.require_unchanged("answers.parquet", "quarantine.jsonl", FREE, *topics, *SPLIT_FILES)
    refuse_foreign(folder)
    tree = overridden(run.manifest["config"], overrides)
    for source in tree["data"]:
        source.pop("layout", None)  # a setting of earlier versions
    config = parse(tree, "run.json config")
    asked = asked_again(run, config)
    with run_lock(folder):
        return print_run(folder, config, asked, judged(config, asked))


def reprint(run: Run) -> Run:
    """Write a run's report again from its summary, or judge the run again if the summary has another format."""
    _require_answers(run)
    run.require_unchanged("summary.json")
    try:
        summary = run.summary
    except DataError:
        return rejudge(run, {}, run.folder)
    notes = run.manifest["config"].get("notes", [])
    with (
        run_lock(run.folder),
        replacing(run.folder, _without_files(run), beside=run.manifest["files"]) as place,
    ):
        beside = {"notes": notes, "explorer": EXPLORER in run.manifest["files"]}
        write_report(place, summary, {**_without_files(run), **beside})
    return open_run(run.folder)


def _require_answers(run: Run) -> None:
    if run.restricted:
        raise AuthorisationError(
            f"{run.folder} is a restricted run, which stores no answers to single items. Run the command again, with other "
            "rules if needed. The answers come from the cache."
        )


def _without_files(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.manifest.items() if name != "files"}
