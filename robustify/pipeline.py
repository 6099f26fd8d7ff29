"""The main job: a source is loaded into items, each model is asked every item under several views, the
consensus of the choices-only answers gives the split, and the run's folder is printed.
"""

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
from robustify.errors import AuthorisationError, UsageError
from robustify.files import writable
from robustify.freeform.replies import Replies
from robustify.freeform.running import FreeResponse, prompts_in_words, require_free
from robustify.item import no_collector
from robustify.judging.cloze import read_labels
from robustify.judging.judgement import Judgement, judge
from robustify.loaders import Loaded
from robustify.ngrams.overlap import Overlap, overlap
from robustify.ngrams.text import require_files
from robustify.policy.asked import Asked, asked_again, data_tree, facts, rules
from robustify.policy.public import PublicPolicy, print_run
from robustify.policy.restricted import RestrictedPolicy
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
"""The one value that knows whether a set is restricted; `policy_for` chooses it, once."""
Watch = Callable[[str, int], AbstractContextManager[Progress]]
"""Called with a label and the number of requests; gives the progress to report to."""

Before = Callable[[Forecast, bool], None]
"""Called before anything is asked, with what it will take, and whether a first page comes before the models' answers."""


Early = Callable[[Asked], None]
"""Called with what rules, probe and encoder answered, before the first model is asked."""


def ignored(_asked: Asked) -> None:
    """The first page of a run that is soon over."""


def unwatched(_label: str, _total: int) -> AbstractContextManager[Progress]:
    """The watch of work that nobody looks at."""
    return nullcontext(no_progress)


def robustify(
    config: Config,
    folder: Path,
    cache: Path,
    watch: Watch = unwatched,
    before: Before | None = None,
) -> Run:
    """Audit the benchmark that the config names, into this folder.

    The settings are looked at first, then the data, then the models: the cheapest to mend first.

    Raises:
        RobustifyError: as each step says; nothing in the folder changes unless the asking has ended.
    """
    policy = policy_for(config, folder)
    with policy.inside(folder):
        require_settings(config)
        refuse_foreign(folder)
        bench = load_bench(config, policy)
        require_models(config, cache)
        early: Early = ignored
        if before is not None:
            found = _forecast(config, bench, cache)
            early = _first_page(policy, folder, found)
            before(found, early is not ignored)
        with run_lock(folder):
            asked, spent = ask_models(config, bench, cache, watch, policy, early)
            run = policy.write(folder, asked, judged(config, asked))
            if not run.restricted:
                log_spent(folder, spent)
            return run


def foretold(config: Config, folder: Path, cache: Path) -> Forecast:
    """What a run of this config would take; nothing is asked and nothing is written. Models need not be here.

    Raises:
        RobustifyError: as `robustify` before its first asking, but for models that are not fetched yet.
    """
    policy = policy_for(config, folder)
    with policy.inside(folder):
        require_settings(config)
        refuse_foreign(folder)
        bench = load_bench(config, policy)
        here = [m for m in config.models if not megabytes(m.reference, cache)]
        require_models(config.model_copy(update={"models": tuple(here)}), cache)
        return _forecast(config, bench, cache)


def _first_page(policy: SetPolicy, folder: Path, found: Forecast) -> Early:
    """Return what prints a page of the options alone if models take long, so that there is something to read.

    It is written for public sets that are screened without counting votes, into a folder without a run.
    """
    match policy:
        case PublicPolicy(config=Config() as config) if (
            found.is_long and config.screen.criterion == FDR and not (folder / MANIFEST).is_file()
        ):
            alone = config.model_copy(update={"models": (), "alternatives": (), "free": None})
            return lambda asked: policy.begin(folder, judged(alone, asked))
        case _:
            return ignored


def _forecast(config: Config, bench: Loaded, cache: Path) -> Forecast:
    restricted = config.sensitivity == "restricted"
    scored = forecast(config.name, bench.items, config.asking, config.models, cache, restricted=restricted)
    if config.free is None:
        return scored
    free = config.free
    asked = [model for model in config.models if not free.models or model.name in free.models]
    return with_words(scored, asked, prompts_in_words(free, bench.items), free.max_tokens)


def policy_for(config: Config, folder: Path | None = None) -> SetPolicy:
    """How this set is read, kept and written into this folder: the one decision whether it is restricted.

    Raises:
        AuthorisationError: one of the facts that a restricted set needs is missing, or a model would send its prompts
            to a host that the adapter does not name. No item was read then.
    """
    access = authorised(config.name, config.adapter, folder, public=config.sensitivity == "public")
    if access is None:
        return PublicPolicy(config)
    require_inside(config.models, access.manifest)
    return RestrictedPolicy(config, access)


@no_collector()
def judged(config: Config, asked: Asked) -> Judgement:
    """The judgement of what was asked, under the config's rules."""
    with threadpool_limits(1, "blas"):
        return judge(asked.answers, asked.facts, rules(config), asked.items)


def require_settings(config: Config) -> None:
    """Find before anything is read what the settings alone would have refused after the last asking.

    Raises:
        UsageError: a template or voter that is not there, or models of which none votes.
    """
    screens = [t for t in config.asking.templates() if t.view in ("choices_only", "choices_only_text")]
    asked = {t.name for t in screens}
    if config.models:
        _require_hidden(config.hidden, screens)
    names = {m.name for m in config.models}
    for screen in (config.screen, *config.alternatives):
        if screen.template is not None and screen.template not in asked:
            raise UsageError(f"screen.template: is not asked; expected one of {', '.join(sorted(asked))}")
        strangers = [v for v in screen.voters if v not in names]
        if strangers:
            raise UsageError(
                f"screen.voters: {strangers[0]} is no model of this config; expected {', '.join(sorted(names))}"
            )
    if config.models and not config.voters and not config.screen.voters:
        raise UsageError("models: all are under test and none votes; expected a model with `role: voter`")
    if config.cloze.labels is not None:
        read_labels(Path(config.cloze.labels))
    if config.contamination is not None:
        require_files([Path(file) for file in config.contamination.files])
    if config.free is not None:
        require_free(config.free, [m.name for m in config.models])


def _require_hidden(hidden: Hidden, screens: Sequence[Template]) -> None:
    """Refuse templates of the screen that show what a config says is hidden."""
    if hidden == "image":
        raise UsageError("hidden: no prompt here shows an image; expected question, passage or context")
    passage = hidden in BEFORE_A_QUESTION
    wrong = [t.name for t in screens if t.hides_passage != passage]
    if wrong:
        raise UsageError(
            f"hidden: {hidden}, but template {wrong[0]} hides the {'question' if passage else 'passage'}; "
            "expected both to be the same"
        )


def require_models(config: Config, cache: Path) -> None:
    """Find before the first asking which model cannot be asked.

    Raises:
        UsageError: a model or the encoder that is not there, or one model under two names.
        ModelError: a model's files are missing or damaged.
    """
    require_encoder(config.adjust, cache)
    templates = config.asking.templates()
    refuse_twins(config, {m.name: check_model(m, cache, templates) or {} for m in config.models})


@no_collector()
def load_bench(config: Config, policy: SetPolicy) -> Loaded:
    """The items of all sources, cut to the config's limit; those of a restricted set under keyed ids.

    Raises:
        AuthorisationError: a set that calls itself public and is recognised as a sensitive one.
    """
    bench = policy.read()
    items = bench.items[: config.limit]
    if config.models and config.hidden in BEFORE_A_QUESTION and not any(i.question for i in items):
        raise UsageError(
            f"hidden: {config.hidden}, but no item has one before its question; expected `fields: {{passage: NAME}}` "
            "to say which column it is in"
        )
    ids = {item.id for item in items}
    defects = tuple(d for d in bench.defects if d.item in ids)
    n = len(items)
    return replace(
        bench, name=config.name, items=items, lines=bench.lines[:n], files=bench.files[:n], defects=defects
    )


def ask_models(
    config: Config, bench: Loaded, cache: Path, watch: Watch, policy: SetPolicy, early: Early = ignored
) -> tuple[Asked, list[Mapping[str, object]]]:
    """Heuristics, probe and encoder first, because they are fast; then one model after the other.

    `early` is given what was asked before the first model.

    The second value is what each server counted and what it costs. It is empty for answers from the cache, so it is no
    part of the answers.
    """
    spent: list[Mapping[str, object]] = []
    free = None
    if config.free is not None:
        free = FreeResponse(config.free, bench.items, cache, restricted=policy.access is not None)
    tables = [guess(bench.items), Answers.of(probe(bench.items, config.probe))]
    if config.encoder and can_audit(cache):
        keep = policy.access is None
        with policy.asking(), watch("encoding options", sum(item.k for item in bench.items)) as progress:
            rows = ask_by_meaning(
                bench.items, config.probe, cache, keep=keep, adjust=config.adjust, progress=progress
            )
        tables.append(Answers.of(rows))
    in_texts = overlapping(config, bench)
    asked = Asked(
        items=bench.items,
        facts=replace(facts(bench), overlap=in_texts),
        data=data_tree(bench, len(bench.items), in_texts),
        answers=Answers.concat(tables),
        fingerprints={},
        templates={f"{t.view}/{t.name}": t.digest for t in config.asking.templates()},
    )
    early(asked)
    asks, inferred = config.infer_question, questions_in_tables(config.infer_question)
    replies = Replies(cache if asks is not None and policy.access is None else None)
    planned = plan(bench.items, config.asking) if config.models else []
    n_requests = sum(len(p.requests) for p in planned)
    fingerprints: dict[str, Mapping[str, str]] = {}
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
    replies.close()
    tables.append(Answers.of(like_the_real(bench.items, inferred, cache, keep=policy.access is None)))
    with policy.asking():
        graded = None if free is None else free.graded(watch)
    return replace(
        asked,
        facts=replace(asked.facts, free=graded),
        answers=Answers.concat(tables),
        fingerprints=fingerprints,
    ), spent


def log_spent(folder: Path, spent: Sequence[Mapping[str, object]]) -> None:
    """Requests, tokens and cost of this run, one line of run.log for each server; it is outside the run's claim.

    Raises:
        ResourceError: it cannot be written; the run itself is there.
    """
    if not spent:
        return
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    file = folder / "run.log"
    with writable(file, "the run is whole"), file.open("a", encoding="utf-8") as log:
        log.writelines(json.dumps({"at": now, **usage}) + "\n" for usage in spent)


def overlapping(config: Config, bench: Loaded) -> Overlap | None:
    """Which items stand in the text files that the config names."""
    if config.contamination is None:
        return None
    files = [Path(file) for file in config.contamination.files]
    return overlap(bench.items, files, config.contamination.ngram)


def refuse_twins(config: Config, fingerprints: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse one model under two names among the voters.

    Raises:
        UsageError: both names.
    """
    twins = same_model(fingerprints, config.screen.voters or config.voters)
    if twins is not None:
        raise UsageError(
            f"models: {twins[0]} and {twins[1]} are one model (same files); a model must not vote twice: "
            "name other voters (screen.voters) or leave one out"
        )


def rejudge(run: Run, overrides: Mapping[str, object], folder: Path) -> Run:
    """Judge a run's answers under other rules (dotted config names), into the same or another folder."""
    _require_answers(run)
    # A run without text has its topics in verdicts.csv alone; elsewhere judging again mends that file.
    topics = () if run.holds_text else ("verdicts.csv",)
    run.require_unchanged("answers.parquet", "quarantine.jsonl", FREE, *topics, *SPLIT_FILES)
    refuse_foreign(folder)
    tree = overridden(run.manifest["config"], overrides)
    for source in tree["data"]:
        # Earlier versions wrote it.
        source.pop("layout", None)
    config = parse(tree, "run.json config")
    asked = asked_again(run, config)
    with run_lock(folder):
        return print_run(folder, config, asked, judged(config, asked))


def reprint(run: Run) -> Run:
    """Print a run's report again, from its summary alone."""
    _require_answers(run)
    run.require_unchanged("summary.json")
    notes = run.manifest["config"].get("notes", [])
    with (
        run_lock(run.folder),
        replacing(run.folder, _without_files(run), beside=run.manifest["files"]) as place,
    ):
        beside = {"notes": notes, "explorer": EXPLORER in run.manifest["files"]}
        write_report(place, run.summary, {**_without_files(run), **beside})
    return open_run(run.folder)


def _require_answers(run: Run) -> None:
    if run.restricted:
        raise AuthorisationError(
            f"{run.folder}: is a restricted run, which keeps no answers of single items; run the same command again, or "
            "with other rules: the answers come from the cache"
        )


def _without_files(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.manifest.items() if name != "files"}
