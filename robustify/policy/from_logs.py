"""Runs made from answers in existing logs.

Logs are read and matched, and heuristics and the probe are added if the items have text. The answers are then judged and
reported like those of any run. Assumptions are recorded as notes in the run.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from robustify.answers import Answers
from robustify.ask.by_meaning import ask_by_meaning, require_encoder
from robustify.ask.inferring import like_the_real, questions_in_tables
from robustify.baselines.artifact_probe import probe
from robustify.baselines.heuristics import guess
from robustify.config import Config, overridden, parse
from robustify.errors import UsageError
from robustify.item import no_collector
from robustify.judging.context import Facts
from robustify.judging.judgement import judge
from robustify.loaders import Loaded, Source, load_many
from robustify.logs import Gathered, Log, LogOptions, LogPath, fingerprint, gather, read_logs, together
from robustify.models import cache_folder
from robustify.policy.asked import RunInput, line_runs, rules
from robustify.policy.public import print_run
from robustify.restricted.recognition import require_ordinary_files
from robustify.run import Run, refuse_foreign, run_lock
from robustify.screen.screen_rules import same_model

SCREENS = {"choices_only": "letter", "choices_only_text": "text"}
UNNAMED = "imported"


def import_logs(
    logs: Sequence[LogPath],
    folder: Path,
    *,
    data: Sequence[Path] = (),
    options: LogOptions | None = None,
    name: str | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Run:
    """Judge the answers in logs and write a run into a folder.

    `data` are the files of the benchmark. Without them, items are taken from the logs. `overrides` are settings of the
    judging by their dotted config names.

    Raises:
        UsageError: A file is missing, an option does not fit its log, or one model would vote twice.
        DataError: Rows cannot be read or matched, or two logs are of the same run.
        ResourceError: The folder contains files of another program, or cannot be written.
    """
    options = replace(options or LogOptions(), keyed=bool(data))
    refuse_foreign(folder)
    bench = load_many([Source(path=str(path), skip_bad=options.skip_bad) for path in data]) if data else None
    with no_collector(), threadpool_limits(1, "blas"):
        read = read_logs(logs, options)
        gathered = gather(read, bench, skip_bad=options.skip_bad)
        _require_ordinary(logs, data, read, gathered, name)
        config = _config(read, gathered, bench, data, name, {"hidden": options.hidden, **(overrides or {})})
        asked = _asked(config, read, gathered, bench)
        twins = same_model(asked.fingerprints, config.screen.voters)
        if twins is not None:
            raise UsageError(
                f"{twins[0]} and {twins[1]} are the same model (same revision), which must not vote twice. Remove one."
            )
        # Free the memory of data that judging does not read.
        del read, gathered
        with run_lock(folder):
            judgement = judge(asked.answers, asked.facts, rules(config), asked.items)
            return print_run(folder, config, asked, judgement)


def _require_ordinary(
    given: Sequence[LogPath], data: Sequence[Path], logs: Sequence[Log], gathered: Gathered, name: str | None
) -> None:
    called = [*dict.fromkeys(log.task for log in logs), *([name] if name else [])]
    require_ordinary_files(
        called[-1] if called else UNNAMED, gathered.items or (), [*(log.path for log in given), *data], called
    )


def _config(
    logs: Sequence[Log],
    gathered: Gathered,
    bench: Loaded | None,
    data: Sequence[Path],
    name: str | None,
    overrides: Mapping[str, object],
) -> Config:
    """Return the settings for judging. Models need none, because their answers are in the logs."""
    tasks = list(dict.fromkeys(log.task for log in logs))
    called = name or (bench.name if bench else tasks[0] if len(tasks) == 1 else UNNAMED)
    asked = {view: [m for v, m, _ in gathered.answers.askings() if v == view] for view in SCREENS}
    mode = overrides.get("screen.mode") or next(
        (SCREENS[v] for v, models in asked.items() if models), "letter"
    )
    voters = next((list(dict.fromkeys(asked[v])) for v in SCREENS if SCREENS[v] == mode), [])
    tree: dict[str, Any] = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", called).strip("-._")[:64] or UNNAMED,
        "sensitivity": "public",
        "data": [{"path": path.name} for path in data] or [{"path": log.file} for log in logs],
        "screen": {"mode": mode, "voters": voters},
        "notes": [*_notes(logs), *gathered.notes],
    }
    return parse(overridden(tree, overrides), "import")


def _notes(logs: Sequence[Log]) -> list[str]:
    """Return each assumption once, with the names of the logs to which it applies."""
    files: dict[str, list[str]] = {}
    for log in logs:
        for note in log.notes:
            files.setdefault(note, []).append(log.file)
    return [f"{together(names)}: {note}" for note, names in files.items()]


def _asked(config: Config, logs: Sequence[Log], gathered: Gathered, bench: Loaded | None) -> RunInput:
    tables = [gathered.answers]
    if gathered.items is not None:
        screened = bool(config.screen.voters) or config.screen.probe_vote != "none"
        cache = cache_folder(None)
        require_encoder(config.adjust, cache)
        probed = Answers.of(probe(gathered.items, config.probe) if screened else ())
        meant = Answers.of(
            ask_by_meaning(gathered.items, config.probe, cache, keep=True, adjust=config.adjust)
            if config.encoder
            else ()
        )
        inferred = questions_in_tables(config.infer_question)
        like = Answers.of(like_the_real(gathered.items, inferred, cache, keep=True))
        tables = [guess(gathered.items), probed, meant, like, *tables]
    n_items = len(gathered.topics)
    defects = list(map(asdict, gathered.defects))
    set_aside = [*(bench.quarantined if bench else ()), *gathered.set_aside]
    lines = dict(zip((item.id for item in bench.items), bench.lines, strict=True)) if bench else {}
    digests = "".join(log.sha256 for log in logs)
    return RunInput(
        items=gathered.items,
        facts=Facts(config.name, gathered.topics, gathered.groups, len(set_aside), defects),
        data={
            "layout": bench.layout if bench else "+".join(dict.fromkeys(log.kind for log in logs)),
            "sha256": bench.sha256 if bench else hashlib.sha256(digests.encode()).hexdigest(),
            "n_items": n_items,
            "lines": line_runs([lines[item] for item in gathered.topics]) if bench else [],
            "defects": defects,
            "quarantined": list(map(asdict, set_aside)),
            "overlap": None,
        },
        answers=Answers.concat(tables),
        fingerprints={
            name: fingerprint([log for log in logs if name in _models(log)], name)
            for name in dict.fromkeys(model for log in logs for model in _models(log))
        },
        templates={name: digest for log in logs for name, digest in log.templates.items()},
        origin={
            "formats": "+".join(sorted({log.kind for log in logs})),
            "items": {
                "from": "data" if bench else "logs" if gathered.items is not None else None,
                "n": n_items,
                "left_out": gathered.left_out,
            },
            "logs": [_origin(log, gathered) for log in logs],
        },
    )


def _models(log: Log) -> list[str]:
    return list(dict.fromkeys(reply.model for reply in log.replies))


def _origin(log: Log, gathered: Gathered) -> dict[str, Any]:
    return {
        "file": log.file,
        "format": log.kind,
        "sha256": log.sha256,
        "task": log.task,
        "models": _models(log),
        "views": list(dict.fromkeys(reply.view for reply in log.replies)),
        "rows": len(log.replies),
        "set_aside": sum(q.file == log.file for q in gathered.set_aside),
        "unanswered": sum(not reply.scores and reply.pick is None for reply in log.replies),
    }
