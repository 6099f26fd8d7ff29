"""The main job: a source is loaded into items, each model is asked every item under several views, the
consensus of the choices-only answers gives the split, and the run's folder is printed.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robustify import __version__
from robustify.answers import Answers
from robustify.ask import ask, plan
from robustify.cloze import read_labels
from robustify.config import Config, parse
from robustify.engines import check_model, open_scorer
from robustify.engines.base import Progress, no_progress
from robustify.errors import AuthorisationError, DataError, GuardrailError, ResourceError, UsageError
from robustify.export.lm_eval import write_tasks
from robustify.heuristics import guess
from robustify.item import Item
from robustify.judge import Facts, Judgement, Rules, judge
from robustify.loaders import Defect, Loaded, Quarantined, load_many
from robustify.probe import probe
from robustify.report import write_report
from robustify.run import (
    FORMAT,
    SPLIT_FILES,
    Run,
    locked,
    open_run,
    refuse_foreign,
    replacing,
    versions,
    write_items,
    write_json,
    write_quarantine,
    write_verdicts,
)
from robustify.views import View, template

Watch = Callable[[str, int], AbstractContextManager[Progress]]
"""Called with a label and the number of requests; gives the progress to report to."""


def unwatched(_label: str, _total: int) -> AbstractContextManager[Progress]:
    """The watch of work that nobody looks at."""
    return nullcontext(no_progress)


@dataclass(frozen=True, slots=True)
class Asked:
    """What asking leaves behind: everything that judging and printing need, and no model."""

    bench: Loaded
    answers: Answers
    fingerprints: Mapping[str, Mapping[str, str]]


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
        judgement = judge(asked.answers, facts(bench), rules(config), bench.items)
        return print_run(folder, config, asked, judgement)


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
    for model in config.models:
        check_model(model, cache)


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
    fingerprints = {}
    for model in config.models:
        with open_scorer(model, cache) as scorer, watch(model.name, n_requests) as progress:
            tables.append(Answers.of(ask(planned, scorer, progress)))
            fingerprints[model.name] = scorer.fingerprint()
    return Asked(bench, Answers.concat(tables), fingerprints)


def rejudge(run: Run, overrides: Mapping[str, object], folder: Path) -> Run:
    """Judge a run's answers under other rules (dotted config names), into the same or another folder."""
    run.require_unchanged("answers.parquet", "quarantine.jsonl", *SPLIT_FILES)
    refuse_foreign(folder)
    tree = json.loads(json.dumps(run.manifest["config"]))
    for dotted, value in overrides.items():
        section, _, name = dotted.partition(".")
        tree.setdefault(section, {})[name] = value
    config = parse(tree, "run.json config")
    bench = _bench_of(run, config)
    asked = Asked(bench, run.answers, run.manifest["models"])
    with locked(folder):
        return print_run(
            folder, config, asked, judge(asked.answers, facts(bench), rules(config), bench.items)
        )


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
        GuardrailError: a guardrail halts the export and `force` is not given.
    """
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


def rules(config: Config) -> Rules:
    """What the judge side is told by a config."""
    screens = [
        s if s.voters else s.model_copy(update={"voters": config.voters})
        for s in (config.screen, *config.alternatives)
    ]
    under_test = tuple(m.name for m in config.models if m.role == "under_test")
    return Rules(screens[0], config.cloze, config.probe, config.limits, under_test, tuple(screens[1:]))


def facts(bench: Loaded) -> Facts:
    """What is known of the benchmark beside its rows."""
    return Facts(
        name=bench.name,
        topics={i.id: i.topic for i in bench.items},
        groups={i.id: i.group for i in bench.items if i.group},
        n_quarantined=len(bench.quarantined),
        defects=[{"kind": d.kind, "line": d.line, "item": d.item, "file": d.file} for d in bench.defects],
    )


def print_run(folder: Path, config: Config, asked: Asked, judgement: Judgement) -> Run:
    """Write the run's folder; the export is left out when a guardrail halts it."""
    bench = asked.bench
    manifest = _manifest(config, asked)
    summary = {**judgement.summary, "signature": manifest["signature"]}
    halted = any(c.halts_export and not c.passed for c in judgement.checks)
    with replacing(folder, manifest) as place:
        asked.answers.write(place / "answers.parquet")
        write_verdicts(
            place / "verdicts.csv", judgement.verdicts, judgement.cloze_excluded, facts(bench).topics
        )
        write_quarantine(place / "quarantine.jsonl", bench.quarantined)
        for name, items in splits(bench.items, judgement).items():
            write_items(place / f"{name}.jsonl", items)
        write_json(place / "summary.json", summary)
        write_report(place, summary, {**manifest, "notes": list(config.notes)})
        if not halted:
            write_tasks(place / "lm_eval_tasks", config.name, signature=manifest["signature"])
    return open_run(folder)


def splits(items: Sequence[Item], judgement: Judgement) -> dict[str, list[Item]]:
    """The items of each split in their own order; cloze is the items that can be asked without choices."""
    verdict = {v.item: v.verdict for v in judgement.verdicts}
    parts = {
        name: [i for i in items if verdict[i.id] == name] for name in ("robust", "shortcut", "undecided")
    }
    return {**parts, "cloze": [i for i in items if i.id not in judgement.cloze_excluded]}


def _manifest(config: Config, asked: Asked) -> dict[str, Any]:
    bench = asked.bench
    return {
        "format": FORMAT,
        "robustify": __version__,
        "signature": signature(config, bench),
        "versions": versions(),
        "config": _without_folders(config),
        "models": {name: dict(print_) for name, print_ in asked.fingerprints.items()},
        "templates": {f"{t.view}/{t.name}": t.digest for t in config.asking.templates()},
        "data": {
            "layout": bench.layout,
            "sha256": bench.sha256,
            "n_items": len(bench.items),
            "defects": facts(bench).defects,
            "quarantined": [{"line": q.line, "reason": q.reason, "file": q.file} for q in bench.quarantined],
        },
    }


def signature(config: Config, bench: Loaded) -> str:
    """The recipe of every number of the run, on one line (the habit of sacrebleu's signatures)."""
    told, asking = rules(config).screen, config.asking
    view: View = "choices_only" if told.mode == "letter" else "choices_only_text"
    words = told.template or (asking.letter_templates[0] if told.mode == "letter" else asking.text_template)
    digest = template(view, words).digest[:8]
    orders = f"{asking.rotations}-rotations" if told.mode == "letter" else "own-order"
    parts = {
        "set": config.name,
        "n": len(bench.items),
        "data": bench.sha256[:8],
        "voters": ",".join(told.voters) or "none",
        "screen": f"{told.criterion}/{told.mode}/{words}@{digest}/{orders}",
        "probe": told.probe_vote
        if told.probe_vote == "none"
        else f"{told.probe_vote}@{told.probe_confidence}",
        "cloze": f"chars/{config.cloze.profile}",
        "shots": asking.shots,
        "robustify": __version__,
    }
    return "|".join(f"{name}:{value}" for name, value in parts.items())


def _without_folders(config: Config) -> dict[str, Any]:
    # Where the data lies differs from one machine to the next; its digest says what it was.
    tree = config.model_dump(mode="json")
    tree["data"] = [{**source, "path": Path(source["path"]).name} for source in tree["data"]]
    return tree


def _without_files(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.manifest.items() if name != "files"}


def _bench_of(run: Run, config: Config) -> Loaded:
    data = run.manifest["data"]
    items = run.items
    if len(items) != data["n_items"]:
        raise DataError(
            f"{run.folder}: split files hold {len(items)} of {data['n_items']} items; expected all of them"
        )
    return Loaded(
        name=config.name,
        layout=data["layout"],
        items=items,
        lines=(),
        defects=tuple(Defect(d["kind"], d["line"], d["item"], d["file"]) for d in data["defects"]),
        quarantined=tuple(Quarantined(q["line"], q["reason"], q["file"]) for q in data["quarantined"]),
        sha256=data["sha256"],
        path="",
    )
