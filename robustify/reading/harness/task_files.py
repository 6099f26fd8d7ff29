"""Find the YAML file of an lm-eval task, group, or tag, read the names in it, and detect references to code.

Nothing here imports lm-eval or runs code of a task, because these files decide whether it may run.
"""

import difflib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from robustify.base.errors import UsageError
from robustify.base.settings_files import DATA_FUNCTION

_MOST_BYTES = 1 << 22
_TOP_KEYS = re.compile(
    r"""^["']?(task|group|tag|include|class)["']?[ \t]*:[ \t]*(?:\#.*)?([^\n#]*)((?:\n[ \t]*-[ \t]*[^\n:{]+$)*)""",
    re.MULTILINE,
)
_WORD = re.compile(r"[^\s\[\],'\"-][^\s\[\],'\"]*")
_DATA_KEYS = ("data", "path", "name", "split", "files")
"""Beginnings or ends of keys under which any text names data. Elsewhere, only texts without white space do."""

Index = Mapping[str, list[str]]
"""Paths of the YAML files by the name of a task, a group, or a tag, which can have several."""


class _Code(str):
    """Reference to a Python function in the YAML file of a task."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loader of tasks, which names functions but does not import them."""


_Loader.add_constructor("!function", lambda loader, node: _Code(loader.construct_scalar(node)))


@dataclass(slots=True)
class TaskFiles:
    """The YAML files of a task: its own, those that it includes, and those of its members. `words` are the names in them,
    `code` the functions, and `sets` the data. `modules` are copies of `data_beside`, which only name data and need not run.
    `folders` are those of the files, and `task` is the name or file to load."""

    task: str
    sets: dict[str, None] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)
    read: dict[Path, None] = field(default_factory=dict)
    words: dict[str, None] = field(default_factory=dict)
    code: dict[str, None] = field(default_factory=dict)
    modules: dict[Path, None] = field(default_factory=dict)


def task_files(task: str, include: tuple[str, ...], cache: Path) -> TaskFiles:
    """Find the files of an lm-eval task, group, or tag, or of a YAML file that defines one. Raise `UsageError` if
    there is no such task, or a file cannot be read."""
    files, path = TaskFiles(task), Path(task).expanduser()
    parts = [part for part in map(str.strip, task.split(",")) if part]
    several = len(parts) > 1 and not os.path.exists(path)
    is_file = path.suffix in (".yaml", ".yml") and not several
    tree = _included(path.resolve(), files) if is_file else {}
    if is_file and not include and not [*_members(tree)]:
        # A single task is loaded by its file.
        files.folders.clear()
        return files
    folders = [*map(Path, include), *[path.parent] * is_file]
    own = [_indexed(folder.expanduser().resolve()) for folder in folders]
    index = {**_shipped(cache), **{name: paths for folder in own for name, paths in folder.items()}}
    if is_file:
        # lm-eval loads a group by its name only.
        files.task = str(tree.get("group", task))
        _add_members(tree, index, files)
    elif task in index:
        _add(task, index, files)
    elif several:
        members = "TASK, TASK" if any("." in part for part in parts) else ", ".join(parts)
        raise UsageError(
            f"lm-eval:{task} names several tasks; expected one. Write a file many.yaml with the lines `group: many` and "
            f"`task: [{members}]`, and name it: lm-eval:many.yaml.",
            code="several-tasks",
        )
    else:
        near = difflib.get_close_matches(task, index, n=3)
        names = " or ".join(near)
        raise UsageError(
            f"lm-eval:{task}: lm-eval has no task, group, or tag of this name"
            f"{f' (did you mean {names}?)' if near else ''}. `lm-eval ls tasks` lists them; --include-path "
            "adds a folder of tasks.",
            code="unknown-task",
        )
    return files


def _shipped(cache: Path) -> Index:
    """Return the index of the tasks that come with lm-eval. The index is cached, because making it takes seconds."""
    spec = find_spec("lm_eval")
    folder = Path(str(spec and spec.origin)).parent / "tasks"
    stored_file = cache / f"lm-eval-{version('lm_eval')}.json"
    with suppress(OSError, ValueError):
        stored = json.loads(stored_file.read_text(encoding="utf-8"))
        if stored["folder"] == str(folder):
            return dict(stored["tasks"])
    index = _indexed(folder)
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        stored_file.write_text(json.dumps({"folder": str(folder), "tasks": index}), encoding="utf-8")
    return index


def _indexed(folder: Path) -> Index:
    """Return the index of the tasks in a folder. If a name occurs again, the first path in order counts, as in lm-eval."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder; expected a folder of lm-eval tasks (--include-path)",
            code="not-task-folder",
        )
    index: dict[str, list[str]] = {}
    for path in sorted(folder.glob("**/*.yaml"), key=Path.as_posix):
        keys = _top_keys(path, ())
        is_group = "group" in keys and "class" not in keys
        name = (keys["group"] if is_group else keys.get("task") or [""])[0]
        if name and name not in index:
            index[name] = [str(path)]
            for tag in () if is_group else keys.get("tag", ()):
                index.setdefault(tag, []).append(str(path))
    return index


@cache
def _top_keys(path: Path, below: tuple[Path, ...]) -> Mapping[str, list[str]]:
    """Return the values of the top-level keys that identify a task (such as `task` and `group`), split into words. Include
    the keys of included files. A YAML parser would take a minute for all files."""
    with suppress(OSError):
        text = path.read_text(encoding="utf-8", errors="replace")
        own = {
            key: _WORD.findall(inline + block if key in ("tag", "include") else inline.partition("[")[0])
            for key, inline, block in _TOP_KEYS.findall(text)
        }
        above: dict[str, list[str]] = {}
        for file in own.get("include", ()) if path not in below else ():
            above |= _top_keys((path.parent / file).resolve(), (*below, path))
        return above | own
    return {}


def _add(name: str, index: Index, files: TaskFiles) -> None:
    """Add the files of a task, or of the members of a group or tag."""
    for path in map(Path, index[name]):
        if path not in files.read:
            _add_members(_included(path, files), index, files)


def _add_members(tree: Mapping[str, Any], index: Index, files: TaskFiles) -> None:
    for member in _members(tree):
        if member in index:
            _add(member, index, files)


def _members(tree: object) -> Iterator[str]:
    """Yield the names of the members of a group, which may be groups defined in place."""
    members = tree.get("task") if isinstance(tree, Mapping) else None
    for member in members if isinstance(members, list) else ():
        if isinstance(member, Mapping):
            yield from (name for part in ("task", "group") if isinstance(name := member.get(part), str))
            yield from _members(member)
        elif isinstance(member, str):
            yield member


def _included(path: Path, files: TaskFiles) -> dict[str, Any]:
    """Read a YAML file and the files that it includes, and record their names and functions. Return the keys and values."""
    if path in files.read:
        return {}
    files.read[path] = None
    if path.parent not in files.folders:
        files.folders.append(path.parent)
    try:
        raw = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b""
        tree = yaml.load(raw, _Loader)
        files.words[str(path)] = None
        _record(tree, "", path, files, set())
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise UsageError(
            f"{path}: cannot be read ({type(error).__name__}); expected the YAML file of an lm-eval task",
            code="unreadable-task-file",
        ) from None
    if not isinstance(tree, dict):
        raise UsageError(
            f"{path} has no keys and values; expected the YAML file of an lm-eval task",
            code="not-task-file",
        )
    merged: dict[str, Any] = {}
    above = tree.get("include") or []
    for file in above if isinstance(above, list) else [above]:
        merged |= _included((path.parent / str(file)).resolve(), files)
    return {**merged, **tree}


def _record(node: object, key: str, path: Path, files: TaskFiles, visited: set[int]) -> None:
    """Record the names and functions in a part of a YAML file. With aliases, a part can occur in many places."""
    match node:
        case _Code():
            # As in lm-eval, a module is where its link leads.
            module = (path.resolve().parent / f"{node.rpartition('.')[0].replace('.', '/')}.py").resolve()
            if node == DATA_FUNCTION and key == "custom_dataset" and _is_ours(module):
                files.modules[module] = None
                return
            files.code[f"{path.name}: {key} ({node})"] = files.words[str(node)] = None
            if module.is_file():
                files.words |= dict.fromkeys(code_words(module))
        case str() if key.startswith(_DATA_KEYS) or key.endswith(_DATA_KEYS) or not re.search(r"\s", node):
            files.words[node] = None
            if key == "dataset_path":
                files.sets[node] = None
        case dict() | list() if id(node) not in visited:
            visited.add(id(node))
            for name, value in node.items() if isinstance(node, dict) else ((key, member) for member in node):
                _record(value, str(name), path, files, visited)


def _is_ours(module: Path) -> bool:
    """Return whether a module is an exact copy of `data_beside`, and can be replaced by our own."""
    with suppress(OSError, ValueError):
        ours = Path(__file__).with_name("data_beside.py")
        return module.is_file() and module.read_text(encoding="utf-8") == ours.read_text(encoding="utf-8")
    return False


def code_words(module: Path) -> list[str]:
    """Return the words in the source of a Python module that may be names of data."""
    return re.findall(r"[\w./-]{4,}", module.read_text(encoding="utf-8", errors="replace"))
