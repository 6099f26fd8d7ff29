"""Load a set with its harness's code, in a separate process: `python -m ...fetch JOB ROWS FACTS`.

JOB is a JSON file, and ROWS gets one line of JSON per document. FACTS gets what was loaded, or the error without item
text. Nothing is printed, because harnesses print documents.
"""

import importlib
import importlib.metadata
import json
import os
import re
import socket
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from robustify.base.settings_files import DATA_FUNCTION, DATA_MODULE

UNREACHABLE = {
    "ConnectionError", "OfflineModeIsEnabled", "DatasetNotFoundError", "LocalEntryNotFoundError", "ConnectError",
    "ConnectTimeout", "RepositoryNotFoundError", "GatedRepoError", "HfHubHTTPError", "RevisionNotFoundError",
    "_OtherCommitError",
}  # fmt: skip
"""Errors of data that are neither on this machine nor to be had."""
Job = Mapping[str, Any]
Facts = dict[str, Any]
_DATA_FILES = {".parquet", ".arrow", ".json", ".jsonl", ".csv", ".tsv", ".txt", ".gz", ".zip", ".zst"}


class _CodeRefusedError(Exception):
    """The task runs code that its files do not show."""


class _UnknownFileError(Exception):
    """The set has local files that the guard has not seen. The facts name them."""


class _OtherCommitError(Exception):
    """The cached commit of a set differs from the commit that the job names."""


class _ChoiceError(Exception):
    """The set has several configs, splits, or tasks, and the job names none of them."""


def _lm_eval(job: Job, facts: Facts) -> Iterator[object]:
    """Yield the documents of a task, or of each task in a group, with the requests that lm-eval builds for them."""
    require_known = _known_files(job, facts)
    if not job["trusted"]:
        _refuse_code(job["modules"], require_known)
    manager = importlib.import_module("lm_eval.tasks").TaskManager(
        include_path=job["folders"] or None, include_defaults=False
    )
    facts["stage"] = "loading the task"
    tasks = manager.load(job["task"])["tasks"]
    facts["sets"] = [_origin(task) for task in tasks.values()]
    for name, task in tasks.items():
        facts["stage"] = f"task {name}"
        label = getattr(task.config, "task_alias", None) or name
        for number, doc in enumerate(task.eval_docs):
            yield {"task": str(label), "doc_id": number, "doc": doc, **_requests(task, name, number, doc)}


def _requests(task: Any, name: str, number: int, doc: Any) -> Facts:
    """Return the question, options, and target of a document, or the type of the error that the task's templates raise."""
    try:
        context = task.fewshot_context(doc, num_fewshot=0, gen_prefix=task.doc_to_prefix(doc))
        built = task.construct_requests(doc=doc, ctx=context, metadata=(name, number, 1))
        pairs = [request.arguments for request in (built if isinstance(built, list) else [built])]
        text, target = task.doc_to_text(doc), task.doc_to_target(doc)
        choices = task.doc_to_choice(doc) if getattr(task.config, "doc_to_choice", None) is not None else None
    except Exception as error:
        return {"error": type(error).__name__}
    if choices is None and len(pairs) > 1:
        choices = [continuation for _, continuation in pairs]
    if isinstance(text, int):
        # Each option is a context, and all have the same continuation.
        text, target = str(target), text
    return {"text": text, "choices": choices, "target": target, "n_requests": len(pairs)}


def _known_files(job: Job, facts: Facts) -> Callable[[Collection[str]], None]:
    """Make `datasets` read only local files that the guard has seen, whatever pattern or folder names the files.
    Return the function that checks files."""

    def require_known(files: Collection[str]) -> None:
        paths = {os.path.realpath(file) for file in files if os.path.isfile(file)}
        if unknown := paths.difference(job["known"]):
            facts["unknown"] = sorted(unknown)
            raise _UnknownFileError

    builder: Any = importlib.import_module("datasets").DatasetBuilder
    prepare = builder.download_and_prepare

    def prepared(self: Any, *arguments: object, **options: object) -> None:
        splits = getattr(self.config, "data_files", None) or {}
        paths = (str(file) for files in splits.values() for file in files)
        # An archive stands behind the path in it.
        require_known([re.sub(r"^(file|local):(//)?", "", path.rpartition("::")[2]) for path in paths])
        prepare(self, *arguments, **options)

    builder.download_and_prepare = prepared
    return require_known


def _refuse_code(modules: Collection[str], require_known: Callable[[Collection[str]], None]) -> None:
    """Make lm-eval refuse functions of tasks, metrics from the hub, and templates that use Python's internals. The data
    beside these modules is read by our own copy of them."""
    utils: Any = importlib.import_module("lm_eval.utils")
    files: Any = importlib.import_module("lm_eval.tasks._yaml_loader")
    sandbox = importlib.import_module("jinja2.sandbox").SandboxedEnvironment(
        undefined=utils.env.undefined, keep_trailing_newline=True
    )
    sandbox.filters.update(utils.env.filters)

    def refuse(*_: object) -> None:
        raise _CodeRefusedError

    def imported(name: str, folder: Path) -> Callable[..., object]:
        module = (folder / DATA_MODULE).resolve()
        if name != DATA_FUNCTION or str(module) not in modules:
            raise _CodeRefusedError
        ours: Any = importlib.import_module("robustify.reading.harness.data_beside")

        def rows(files: list[str], **_: object) -> object:
            # It reads files that are beside its own.
            require_known([str(module.with_name(file)) for file in files])
            ours.__file__ = str(module)
            return ours.rows(files)

        return rows

    utils.env = sandbox
    files._import_func_in_yml, files._import_fun_from_str = imported, refuse
    sys.modules["evaluate"] = None  # type: ignore[assignment]


def _origin(task: Any) -> dict[str, str]:
    """Return the data set of a task and its revision, which the task pins or which was found when loading."""
    config, splits = task.config, getattr(task, "dataset", None)
    arguments = getattr(config, "dataset_kwargs", None) or {}
    paths = str(arguments.get("data_files") or arguments.get("files") or "")
    names = [Path(path).name for path in re.findall(r"[^'\"{}\[\]:, ]+[./][^'\"{}\[\], ]+", paths)]
    parts = [str(part) for part in (config.dataset_path, config.dataset_name) if part]
    commits = [*map(_commit, splits.values())] if isinstance(splits, Mapping) else []
    about = {
        "set": " and ".join(dict.fromkeys(names))
        or "/".join(parts)
        or "a set that the code of the task loads",
        "pinned": arguments.get("revision"),
    }
    about["revision"] = next(filter(None, commits), None)
    return {part: str(value) for part, value in about.items() if value}


def _commit(split: Any) -> str:
    """Return the hub's commit for the rows of a split, or "" if the rows are from elsewhere."""
    addresses = " ".join(map(str, getattr(split.info, "download_checksums", None) or ()))
    commit = re.search(r"hf://datasets/[^@ ]+@([0-9a-f]{40})/", addresses)
    return commit[1] if commit else ""


def _inspect(job: Job, facts: Facts) -> Iterator[object]:
    """Yield the samples of an Inspect task."""
    load_tasks = importlib.import_module("inspect_ai._eval.loader").load_tasks
    facts["stage"] = "loading the task"
    try:
        tasks = load_tasks([job["task"]])
    except Exception:
        file, _, name = job["task"].rpartition("@")
        decorated = importlib.import_module("inspect_ai._util.decorator").parse_decorators
        facts["tasks"] = [task for task, _ in decorated(Path(file), "task")] if file else [name]
        if name in facts["tasks"]:
            raise
        tasks = []
    if len(tasks) != 1:
        facts.setdefault("tasks", [task.name for task in tasks])
        raise _ChoiceError("task")
    samples = tasks[0].dataset
    facts["sets"] = [{"set": str(samples.name or tasks[0].name), "location": str(samples.location or "")}]
    for number, sample in enumerate(samples, start=1):
        row = sample.model_dump(mode="json", include={"input", "choices", "target", "id", "metadata"})
        yield {**row, "id": number if row["id"] is None else row["id"]}


def _hub(job: Job, facts: Facts) -> Iterator[object]:
    """Yield the rows of a split from the hub or its cache. The set's own code is never run."""
    datasets = importlib.import_module("datasets")
    _known_files(job, facts)
    facts["stage"] = "loading the set"
    source, commit = _hub_source(job["repo"], job["revision"])
    facts["configs"] = datasets.get_dataset_config_names(**source)
    usual = [name for name in facts["configs"] if name == "default" or len(facts["configs"]) == 1]
    config = job["config"] or next(iter(usual), None)
    if config not in facts["configs"]:
        raise _ChoiceError("config")
    splits = datasets.load_dataset(name=config, **source)
    facts["splits"] = [*splits]
    split = job["split"] or (facts["splits"][0] if len(splits) == 1 else None)
    if split not in splits:
        raise _ChoiceError("split")
    rows = splits[split]
    if not commit and not (commit := _commit(rows)).startswith(job["revision"] or ""):
        # Offline, `datasets` takes whatever commit it has.
        raise _OtherCommitError
    about = {"set": job["repo"], "revision": commit, "pinned": job["revision"]}
    facts["sets"] = [{part: value for part, value in about.items() if value}]
    media = ("Image", "Audio", "Video")
    yield from rows.select_columns(
        [n for n, kind in rows.features.items() if type(kind).__name__ not in media]
    )


def _hub_source(repo: str, revision: str | None) -> tuple[dict[str, Any], str]:
    """Return the source of a set and its commit. The source is the hub or, offline, the hub's cache or an earlier
    load of `datasets`."""
    hub = importlib.import_module("huggingface_hub")
    try:
        commit = hub.HfApi().dataset_info(repo, revision=revision).sha
        return {"path": repo, "revision": commit}, commit
    except Exception as error:
        if type(error).__name__ not in UNREACHABLE:
            raise
    with suppress(OSError, ValueError):
        cached = hub.snapshot_download(repo, repo_type="dataset", revision=revision, local_files_only=True)
        if any(path.suffix in _DATA_FILES for path in Path(cached).rglob("*")):
            return {"path": cached}, Path(cached).name
    return {"path": repo, "revision": revision}, ""


_LOADERS: dict[str, Callable[[Job, Facts], Iterator[object]]] = {
    "lm-eval": _lm_eval, "inspect": _inspect, "hf": _hub,
}  # fmt: skip


def _plain(value: object) -> object:
    """Return the parts of a document's value that JSON can contain."""
    with suppress(Exception):
        return value.tolist()  # type: ignore[attr-defined]
    return f"({type(value).__name__}, not shown)"


def spare_retries() -> None:
    """Make the hub's libraries work offline if the hub's address cannot be resolved, because each library would retry
    for several seconds. A proxy may resolve the address."""
    with suppress(ImportError):
        constants: Any = importlib.import_module("huggingface_hub.constants")
        try:
            if not getproxies():
                socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, None)
        except OSError:
            os.environ["HF_HUB_OFFLINE"], constants.HF_HUB_OFFLINE = "1", True


def load_set(job_file: str, rows_file: str, facts_file: str) -> None:
    """Load the set of a job, and write its rows and facts."""
    # Later versions of `datasets` have no such code.
    os.environ["HF_DATASETS_TRUST_REMOTE_CODE"] = "0"
    spare_retries()
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    facts: Facts = {"stage": "importing the harness"}
    try:
        with open(rows_file, "w", encoding="utf-8") as out:
            for row in _LOADERS[job["harness"]](job, facts):
                out.write(json.dumps(row, default=_plain, ensure_ascii=False) + "\n")
        facts["version"] = importlib.metadata.version(job["distribution"])
    except Exception as error:
        # The message may quote a document.
        kinds = [type(e).__name__ for e in (error, error.__cause__, error.__context__) if e is not None]
        facts["error"] = [*error.args] if isinstance(error, _ChoiceError) else kinds
    Path(facts_file).write_text(json.dumps(facts), encoding="utf-8")


if __name__ == "__main__":
    load_set(*sys.argv[1:])
