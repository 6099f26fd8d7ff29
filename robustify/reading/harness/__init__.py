"""Sets given by their name in a harness, such as `lm-eval:TASK`. The harness's own code loads them in a separate
process without a model, so that the keys are those that the harness scores by.

A guard sees every name before anything is fetched, and the rows afterwards. A task with code is loaded only if the user
trusts it.
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from robustify.base.child_process import run_module
from robustify.base.errors import AuthorisationError, DataError, ResourceError, UsageError, installing
from robustify.base.settings_files import named_set
from robustify.reading.guard import Guard
from robustify.reading.harness import asked_items
from robustify.reading.harness.fetch import UNREACHABLE
from robustify.reading.harness.task_files import code_words, task_files
from robustify.reading.loaders.loaded import Source, TaskDocument
from robustify.reading.loaders.open_file import NamedSet, require_digest
from robustify.reading.loaders.rows import table_of

_PACKAGES = {
    "lm-eval": ("lm_eval", "lm-eval", "lm-eval"),
    "inspect": ("inspect_ai", "inspect", "inspect-ai"),
    "hf": ("datasets", "hub", "datasets"),
}
"""Module, extra, and distribution of each harness."""
_HUB = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:/(?P<config>[^@]+))?(?:@(?P<revision>[\w./-]+))?")
_FORMS = {
    "lm-eval": "`lm-eval:TASK` or `lm-eval:FILE.yaml`",
    "inspect": "`inspect:PACKAGE/TASK` or `inspect:FILE.py@TASK`",
    "hf": "`hf:OWNER/NAME`, perhaps with `/CONFIG` and `@REVISION`",
}
_MOST_NAMED = 3


def load_named(source: Source, guard: Guard, cache: Path) -> NamedSet:
    """Load the set that a source names. Raise `UsageError` if the name or an option is wrong or a harness is not installed,
    `AuthorisationError` if the guard refuses the set or its code is not trusted, and `DataError` if it cannot be loaded."""
    name = source.path
    harness, task = named_set(name) or ("", "")
    guard.require_unrestricted(name, [task, *source.include_path], ())
    if not task:
        raise UsageError(f"{name}: expected {_FORMS[harness]}", code="invalid-set-name")
    module, extra, distribution = _PACKAGES[harness]
    if find_spec(module) is None:
        raise UsageError(
            f"{name} needs {distribution}, which is not installed. Run {installing(extra)}.",
            code="harness-not-installed",
        )
    if harness != "hf" and source.split is not None:
        raise UsageError(
            f"{name}: the task has its own split. Remove `--split`, or `split` in the config.",
            code="split-of-task",
        )
    match harness:
        case "lm-eval":
            job = _lm_eval_job(source, task, guard, cache)
        case "inspect":
            job = _inspect_job(source, task, guard)
        case _:
            job = _hub_job(source, task)
    job |= {"harness": harness, "distribution": distribution}
    with tempfile.TemporaryDirectory(prefix="robustify-") as folder:
        file, facts = _load(name, job, Path(folder), guard)
        guard.require_unrestricted(
            name, [word for origin in facts["sets"] for word in origin.values()], [file]
        )
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        require_digest(name, digest, source.sha256)
        with file.open(encoding="utf-8") as lines:
            rows = [*map(json.loads, lines)]
    origin = _origin(f"{distribution} {facts['version']}", facts["sets"])
    table = table_of(enumerate(rows, start=1))
    match harness:
        case "lm-eval":
            table, fields = asked_items.item_table(rows, source.fields)
            documents = tuple(TaskDocument.from_row(line, row) for line, row in enumerate(rows, start=1))
            return NamedSet(table, digest, fields, f"lm-eval's `{asked_items.KEY}`", origin, documents)
        case "inspect":
            return NamedSet(replace(table, outer="inspect_log"), digest, None, "Inspect's `target`", origin)
        case _:
            return NamedSet(replace(table, flat=True), digest, origin=origin)


def _lm_eval_job(source: Source, task: str, guard: Guard, cache: Path) -> dict[str, Any]:
    files = task_files(task, source.include_path, cache)
    folders = [Path(), *(module.parent for module in files.modules)]
    named = [folder / word for folder in folders for word in files.words]
    local = {os.path.realpath(path) for path in named if os.path.isfile(path)}
    guard.require_unrestricted(source.path, files.words, map(Path, local))
    if files.code and not source.trust_task_code:
        raise _code_refused(source.path, [*files.code])
    return {
        "task": files.task,
        "folders": [*map(str, files.folders), *source.include_path],
        "modules": [*map(str, files.modules)],
        "trusted": source.trust_task_code,
        "reads": [*files.sets],
        "known": [*local],
    }


def _inspect_job(source: Source, task: str, guard: Guard) -> dict[str, Any]:
    """Return the job of an Inspect task, which always runs code. The guard checks the names in the task's file."""
    path, _, name = task.rpartition("@") if "@" in task else (task, "", "")
    if path.endswith(".py"):
        if not Path(path).is_file():
            raise UsageError(
                f"{source.path}: {path} does not exist; expected {_FORMS['inspect']}",
                code="missing-task-file",
            )
        files = [Path(path)]
    else:
        package, slash, name = task.partition("/")
        spec = find_spec(package) if slash and package.isidentifier() else None
        if spec is None or spec.origin is None:
            raise UsageError(
                f"{source.path}: the package {package!a} is not installed; expected {_FORMS['inspect']}",
                code="missing-task-package",
            )
        defined = re.compile(rf"^(?:async )?def {re.escape(name)}\(", re.MULTILINE)
        every = sorted(Path(spec.origin).parent.rglob("*.py"))
        files = [file for file in every if defined.search(file.read_text(encoding="utf-8", errors="replace"))]
    guard.require_unrestricted(source.path, [word for file in files for word in code_words(file)], ())
    if not source.trust_task_code:
        raise _code_refused(source.path, [str(file) for file in files] or [package])
    return {"task": task, "reads": []}


def _code_refused(name: str, code: Sequence[str]) -> AuthorisationError:
    return AuthorisationError(
        f"{name}: the task runs Python code when it is loaded: {_few(code)}. Read the code, and if you trust it, add "
        "--trust-task-code (in a config: `trust_task_code: true`).",
        code="untrusted-task-code",
    )


def _hub_job(source: Source, task: str) -> dict[str, Any]:
    if (parts := _HUB.fullmatch(task)) is None:
        raise UsageError(f"{source.path}: expected {_FORMS['hf']}", code="invalid-set-name")
    return {**parts.groupdict(), "split": source.split, "reads": [parts["repo"]], "known": []}


def _load(name: str, job: Mapping[str, Any], folder: Path, guard: Guard) -> tuple[Path, dict[str, Any]]:
    """Load a set in a separate process. Repeat this for each local file that the guard must check first. Return the
    file with the rows, and facts about the set."""
    files = [folder / part for part in ("job.json", "rows.jsonl", "facts.json")]
    files[0].write_text(json.dumps(job), encoding="utf-8")
    done = run_module("robustify.reading.harness.fetch", *map(str, files))
    if not files[2].is_file():
        raise ResourceError(
            f"{name}: loading ended with code {done.returncode}, probably because memory ran out",
            code="loading-ended",
        )
    facts: dict[str, Any] = json.loads(files[2].read_text(encoding="utf-8"))
    if "unknown" in facts:
        guard.require_unrestricted(name, [], map(Path, facts["unknown"]))
        files[2].unlink()
        return _load(name, {**job, "known": [*job["known"], *facts["unknown"]]}, folder, guard)
    kinds, stage = facts.get("error", []), facts["stage"]
    if not kinds:
        return files[1], facts
    if UNREACHABLE.intersection(kinds):
        reads = f" ({', '.join(job['reads'][:_MOST_NAMED])})" if job["reads"] else ""
        raise DataError(
            f"{name}: its data{reads} are not on this machine, and the hub has none or cannot be reached ({kinds[0]}). Run "
            "the same command once on a machine with network access, and copy its folder ~/.cache/huggingface (or "
            "$HF_HOME) to this one.",
            code="data-not-available",
        )
    if "_CodeRefusedError" in kinds or "SecurityError" in kinds:
        raise _code_refused(name, ["not in its YAML files"])
    if kinds[0] in _CHOOSING:
        listed = ", ".join(facts[f"{kinds[0]}s"])
        raise UsageError(
            f"{name} has the {kinds[0]}s {listed}. {_CHOOSING[kinds[0]]}"
            if listed
            else f"{name} has no {kinds[0]}.",
            code="ambiguous-set",
        )
    if kinds[0] == "FileNotFoundError":
        raise DataError(
            f"{name}: {stage} failed, because a data file does not exist. Relative paths begin in the current folder, "
            "or, in a task that robustify exported, in the task's folder.",
            code="missing-task-data",
        )
    raise DataError(
        f"{name}: {stage} failed ({kinds[0]}); expected a task that {job['harness']} can load. To see the whole "
        "error, load it without robustify.",
        code="loading-failed",
    )


_CHOOSING = {
    "config": "Name one, as in hf:OWNER/NAME/CONFIG.",
    "split": "Choose one with `--split NAME`.",
    "task": "Name one, as in inspect:FILE.py@TASK.",
}


def _origin(harness: str, sets: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the origin of the data: harness, sets, and commits on the hub, which the names may pin."""
    names, commits = ([*dict.fromkeys(s[part] for s in sets if part in s)] for part in ("set", "revision"))
    pinned = all(s["revision"].startswith(s.get("pinned", "-")) for s in sets if "revision" in s)
    about = {"harness": harness, "set": _few(names), "revision": _few(commits)}
    about |= {"pinned": "yes" if pinned else "no"} if commits else {}
    return {part: text for part, text in about.items() if text}


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
