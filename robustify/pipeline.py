"""The main job: a source is loaded into items, each model is asked every item under several views, the
consensus of the choices-only answers gives the split, and the run's folder is printed.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from robustify.answers import Answers
from robustify.ask import ask, plan
from robustify.cloze import read_labels
from robustify.config import Config, parse
from robustify.engines import HFModel, check_model, open_scorer
from robustify.engines.base import Progress, no_progress
from robustify.engines.replay import ReplayModel, check_logs, replayed
from robustify.errors import AuthorisationError, DataError, GuardrailError, ResourceError, UsageError
from robustify.export.lm_eval import write_tasks
from robustify.heuristics import guess
from robustify.judge import Judgement, judge
from robustify.loaders import Loaded, load_many
from robustify.overlap import Overlap, overlap
from robustify.printing import Asked, asked_again, data_tree, facts, print_run, rules
from robustify.probe import probe
from robustify.report import write_report
from robustify.run import SPLIT_FILES, Run, locked, open_run, refuse_foreign, replacing
from robustify.textfiles import require_files
from robustify.voters import same_model

Watch = Callable[[str, int], AbstractContextManager[Progress]]
"""Called with a label and the number of requests; gives the progress to report to."""


def unwatched(_label: str, _total: int) -> AbstractContextManager[Progress]:
    """The watch of work that nobody looks at."""
    return nullcontext(no_progress)


def robustify(config: Config, folder: Path, cache: Path, watch: Watch = unwatched) -> Run:
    """Audit the benchmark that the config names, into this folder.

    Raises:
        RobustifyError: as each step says; nothing in the folder changes unless the asking has ended.
    """
    authorise(config)
    foresee(config, cache)
    refuse_foreign(folder)
    with locked(folder):
        bench = load_bench(config)
        asked = ask_models(config, bench, cache, watch)
        return print_run(folder, config, asked, judged(config, asked))


def judged(config: Config, asked: Asked) -> Judgement:
    """The judgement of what was asked, under the config's rules."""
    return judge(asked.answers, asked.facts, rules(config), asked.items)


def authorise(config: Config) -> None:
    """Refuse a restricted set before anything is read.

    Raises:
        AuthorisationError: restricted sets need an adapter, and this version has none.
    """
    if config.sensitivity == "restricted":
        raise AuthorisationError(
            f"{config.name}: is a restricted set; expected an adapter with licence, key and private folder, "
            "which this version does not have yet: nothing was read"
        )


def foresee(config: Config, cache: Path) -> None:
    """Find before the first asking what would be refused after the last one.

    Raises:
        UsageError: a template, voter or model that is not there, or models of which none votes.
        ModelError: a model's files are missing or damaged.
    """
    told = config.asking.templates()
    asked = {t.name for t in told if t.view in ("choices_only", "choices_only_text")}
    names = {m.name for m in config.models}
    asks = any(not isinstance(m, ReplayModel) and m.role == "voter" for m in config.models)
    replays = any(isinstance(m, ReplayModel) for m in config.models)
    for screen in (config.screen, *config.alternatives):
        if screen.template is not None and screen.template not in asked and not replays:
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
    headless = [name for name in config.heads.models if name not in _in_reach(config)]
    if headless:
        raise UsageError(
            f"heads.models: {headless[0]} is no model that is run here; expected one of "
            f"{', '.join(sorted(_in_reach(config))) or 'models with engine hf'}"
        )
    digests: dict[str, Mapping[str, str]] = {}
    for model in config.models:
        match model:
            case ReplayModel():
                check_logs(model, asked if asks else ())
            case _:
                digests[model.name] = check_model(model, cache) or {}
    refuse_twins(config, digests)


def _in_reach(config: Config) -> dict[str, HFModel]:
    return {model.name: model for model in config.models if isinstance(model, HFModel)}


def load_bench(config: Config) -> Loaded:
    """The items of all sources, cut to the config's limit."""
    bench = load_many(config.data)
    items = bench.items[: config.limit]
    kept = {item.id for item in items}
    defects = tuple(d for d in bench.defects if d.item in kept)
    n = len(items)
    return replace(
        bench, name=config.name, items=items, lines=bench.lines[:n], files=bench.files[:n], defects=defects
    )


def ask_models(config: Config, bench: Loaded, cache: Path, watch: Watch) -> Asked:
    """Heuristics and probe first, because they are free; then one model after the other."""
    tables = [Answers.of([*guess(bench.items), *probe(bench.items, config.probe)])]
    planned = plan(bench.items, config.asking)
    n_requests = sum(len(p.requests) for p in planned)
    fingerprints: dict[str, Mapping[str, str]] = {}
    templates = {f"{t.view}/{t.name}": t.digest for t in config.asking.templates()}
    for model in config.models:
        match model:
            case ReplayModel():
                found = replayed(model, bench)
                tables.append(found.answers)
                fingerprints[model.name] = found.fingerprint
                templates |= found.templates
            case _:
                with open_scorer(model, cache) as scorer, watch(model.name, n_requests) as progress:
                    tables.append(Answers.of(ask(planned, scorer, progress)))
                    fingerprints[model.name] = scorer.fingerprint()
    refuse_twins(config, fingerprints)
    tables.extend(ask_heads(config, bench, cache, watch))
    found_in = overlapping(config, bench)
    return Asked(
        items=bench.items,
        facts=replace(facts(bench), overlap=found_in),
        data=data_tree(bench, len(bench.items), found_in),
        answers=Answers.concat(tables),
        fingerprints=fingerprints,
        templates=templates,
    )


def ask_heads(config: Config, bench: Loaded, cache: Path, watch: Watch) -> Iterator[Answers]:
    """Linear heads on the option vectors of the models that `heads` names; they audit and never vote."""
    models = _in_reach(config)
    n = sum(item.k for item in bench.items) * (2 if config.heads.control else 1)
    for name in config.heads.models:
        # torch is loaded here and not where it is only judged.
        from robustify.engines.vectors import head_answers

        with watch(f"{name}, vectors", n) as progress:
            yield Answers.of(head_answers(bench.items, models[name], cache, config.heads, progress))


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
    # A run without text has its topics in verdicts.csv alone; elsewhere judging again mends that file.
    topics = () if run.holds_text else ("verdicts.csv",)
    run.require_unchanged("answers.parquet", "quarantine.jsonl", *topics, *SPLIT_FILES)
    refuse_foreign(folder)
    tree = json.loads(json.dumps(run.manifest["config"]))
    for dotted, value in overrides.items():
        section, _, name = dotted.partition(".")
        tree.setdefault(section, {})[name] = value
    config = parse(tree, "run.json config")
    asked = asked_again(run, config)
    with locked(folder):
        return print_run(folder, config, asked, judged(config, asked))


def reprint(run: Run) -> Run:
    """Print a run's report again, from its summary alone."""
    run.require_unchanged("summary.json")
    notes = run.manifest["config"].get("notes", [])
    with (
        locked(run.folder),
        replacing(run.folder, _without_files(run), beside=run.manifest["files"]) as place,
    ):
        write_report(place, run.summary, {**_without_files(run), "notes": notes})
    return open_run(run.folder)


def export_lm_eval(run: Run, folder: Path, force: bool) -> list[Path]:
    """A run's splits as lm-eval tasks with their data beside them.

    Raises:
        DataError: the run does not hold the text of its items (it was imported without).
        GuardrailError: a guardrail halts the export and `force` is not given.
    """
    if not run.holds_text:
        raise DataError(
            f"{run.folder}: holds no text of its items (imported without); import the logs with --data ITEMS"
        )
    halted = [g for g in run.summary["guardrails"] if g["halts_export"] and not g["passed"]]
    if halted and not force:
        raise GuardrailError(
            *(f"{g['name']}: {g['reason']}; export halted (--force exports all the same)" for g in halted)
        )
    names = [f"{name}.jsonl" for name in ("robust", "shortcut", "undecided", "cloze")]
    run.require_unchanged("summary.json", *names)
    clash = [n for n in (*names, "lm_eval_tasks") if (folder / n).exists()]
    if clash:
        raise UsageError(f"{folder}: holds {clash[0]} already; expected a folder without it (-o DIR)")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copyfile(run.folder / name, folder / name)
    except OSError as error:
        raise ResourceError(
            f"{folder}: cannot be written ({error.strerror}); expected a folder of yours (-o DIR)"
        ) from None
    warning = "; ".join(f"FORCED although {g['name']}: {g['reason']}" for g in halted)
    benchmark = str(run.manifest["config"]["name"])
    return write_tasks(
        folder / "lm_eval_tasks", benchmark, signature=run.manifest["signature"], warning=warning
    )


def _without_files(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.manifest.items() if name != "files"}
