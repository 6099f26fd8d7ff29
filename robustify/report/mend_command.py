"""Command that mends the file of a run, with the options by which the run read it."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from robustify.base.settings_files import name_of, named_set, with_path
from robustify.report.advice import Recommendation

POOL = "--pool CANDIDATES"


Sources = Sequence[Mapping[str, Any]]


def mend_command(manifest: Mapping[str, Any], typed: Sources | None = None) -> str:
    """Return the command that mends the file of a public run, or "" if the run did not read its items from a single file.

    `manifest` is run.json, and the command works in the folder of the file. With the sources as `typed`, or as in a config,
    it works in the working directory."""
    sources: Sources = (manifest.get("config") or {}).get("data") or ()
    imported = manifest.get("import")
    if len(sources) != 1 or (imported and imported["items"]["from"] != "data"):
        return ""
    source = sources[0] if typed is None else _near(typed[0])
    data = source["path"]
    path = PurePath(name_of(data) if named_set(data) else data)
    file = path.name if typed is None else str(path)
    # A name that begins with a hyphen would be taken for an option.
    name, stem = (f"./{text}" if text.startswith("-") else text for text in (file, path.stem))
    name = data if named_set(data) else name
    ending = ".csv" if path.suffix.lower() == ".csv" else ".jsonl"
    words = ["robustify", "mend", name, *_reading(source), "-o", f"{stem}-mended{ending}"]
    return " ".join(map(shlex.quote, words))


def _near(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source whose paths leave out the working directory if they are below it."""

    def near(path: str) -> str:
        folder = Path.cwd()
        return str(Path(path).relative_to(folder)) if Path(path).is_relative_to(folder) else path

    folders = [near(folder) for folder in source.get("include_path") or ()]
    return {**source, "path": with_path(source["path"], near), "include_path": folders}


def advised(command: str, todo: Sequence[Recommendation]) -> str:
    """Return the command if it does some of the advice, otherwise "". If distractors must change, the command chooses them
    from a file of candidates too, and writes a folder."""
    ways = {recommendation.mends for recommendation in todo}
    if not command or not ways & {"file", "pool"}:
        return ""
    mended = shlex.split(command)
    chosen = f"{shlex.join(mended[:-2])} {POOL} -o {shlex.quote(PurePath(mended[-1]).stem)}"
    return chosen if "pool" in ways else command


def _reading(source: Mapping[str, Any]) -> list[str]:
    """Return the options of the command line with which a source was read."""
    fields = {part: column for part, column in (source.get("fields") or {}).items() if column is not None}
    words = []
    for part, column in fields.items():
        words += ["--map", f"{part}={column if isinstance(column, str) else ','.join(column)}"]
    if source.get("split"):
        words += ["--split", source["split"]]
    for folder in source.get("include_path", ()):
        words += ["--include-path", folder]
    words += ["--trust-task-code"] * bool(source.get("trust_task_code"))
    return [*words, *["--skip-bad"] * bool(source.get("skip_bad"))]
