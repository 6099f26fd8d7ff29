"""Find and read YAML configs strictly. Messages never repeat values, because they may be item text."""

import difflib
import os
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from robustify.base.errors import DataError, Notice, UsageError, notice_code

MOST_BYTES = 1 << 20
"""Maximum size of a settings file in bytes."""
MOST_YAML = 1 << 18
"""Maximum size of a YAML file in bytes. PyYAML needs ten seconds per megabyte."""
HARNESSES = ("lm-eval", "inspect", "hf")
"""Prefixes of names that can stand in place of a file of items."""
DATA_MODULE, DATA_FUNCTION = "data.py", "data.rows"
"""Module in the folder of a task of lm-eval that we exported, and the function in it that reads the task's data."""
_TASK_FILES = {"lm-eval": (".yaml", ".yml"), "inspect": (".py",)}
_MOST_DEEP = 20
_HEAD = 4096
_CONFIG_KEY = re.compile(r"^(?:data|models|extends|sensitivity|adapter):", re.MULTILINE)
_ITEM_LIST = re.compile(r"^(?:[\w ]+:\s*\n)?[ \t]*-\s+[\w\"' ]+:(?:\s|$)", re.MULTILINE)
_TEXT = "tag:yaml.org,2002:str"


class Settings(BaseModel):
    """Immutable settings. Unknown names are errors, and errors never repeat values."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def is_config(name: str) -> bool:
    """Return whether an argument names a config: a shipped config, or a YAML file that is not a list of items."""
    if named_set(name):
        return False
    if name.endswith((".yaml", ".yml")):
        return not lists_items(name)
    return not os.path.exists(name) and f"{name}.yaml" in _shipped_configs()


def named_set(text: str) -> tuple[str, str] | None:
    """Return the harness and task of a name such as `lm-eval:TASK`. Return None for other text and for an existing path."""
    harness, _, task = text.partition(":")
    harness = harness.casefold().replace("_", "-")
    return (harness, task) if harness in HARNESSES and ":" in text and not os.path.exists(text) else None


def with_path(name: str, change: Callable[[str], str]) -> str:
    """Apply `change` to the path in a set's name, such as `lm-eval:FILE.yaml` or `inspect:FILE.py@TASK`. A plain path is
    changed as a whole, and a name without a path is returned unchanged."""
    if (named := named_set(name)) is None:
        return change(name)
    path, mark, task = named[1].partition("@")
    is_path = path.endswith(_TASK_FILES.get(named[0], ())) and path
    return f"{named[0]}:{change(path)}{mark}{task}" if is_path else name


def lists_items(name: str) -> bool:
    """Return whether a YAML file is a list of mappings, or a mapping with such a list and no config keys."""
    if not os.path.isfile(name):
        return False
    with open(name, "rb") as file:
        head = file.read(_HEAD)
    text = head.decode("utf-8", "replace")
    return _ITEM_LIST.search(text) is not None and _CONFIG_KEY.search(text) is None


def name_of(path: str) -> str:
    """Return a run name based on a file name."""
    return run_name(with_path(path, lambda file: Path(file).stem), "items")


def with_split(name: str, split: str | None) -> str:
    """Append a split in a subfolder, such as `fr/test`, to a run name, so that languages get different names."""
    return f"{name}-{split.replace('/', '-')}" if split and "/" in split else name


def run_name(text: str, otherwise: str) -> str:
    """Return a run name based on a text, which may contain spaces. Return `otherwise` if no letter or digit is left."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:64] or otherwise


def find_config(name: str) -> Path:
    """Return the path of a config, given its path or the name of a shipped config. If there is no such config, raise
    `UsageError`, with the closest shipped name as a suggestion."""
    # os.path accepts names that are too long for any file.
    if os.path.isfile(name):
        return Path(name)
    configs = _shipped_configs()
    for candidate in (name, f"{name}.yaml") if not os.path.isdir(name) else ():
        if candidate in configs:
            return configs[candidate]
    bare = os.path.basename(name) == name and os.path.splitext(name)[1] in ("", ".yaml", ".yml")
    if os.path.isdir(name) or not bare:
        what = "is a folder" if os.path.isdir(name) else "does not exist"
        raise UsageError(
            f"{name} {what}; expected a config (a YAML file) or a file of items", code="no-such-config"
        )
    near = difflib.get_close_matches(name, configs, n=1)
    others = "Give a YAML file, a file of items, or a shipped config such as demo_benign.yaml."
    advice = f"Did you mean {near[0]}?" if near else others
    raise UsageError(f"{name} is not a known config. {advice}", code="unknown-config")


def shipped(name: str = "configs") -> Path:
    """Return the folder of the shipped configs or adapters."""
    packed = Path(str(files("robustify"))) / name
    return packed if packed.is_dir() else packed.parent.parent / name


def _shipped_configs() -> dict[str, Path]:
    return {path.name: path for path in sorted(shipped().glob("*.yaml"))}


def read_yaml(raw: bytes, name: str, what: str = "keys and values", *, texts: bool = False) -> Any:
    """Read plain values from YAML, and refuse aliases, tags, repeated keys, and deep nesting. Errors call the expected
    content `what`. With `texts`, every value stays text, so that `No` does not become false. Raise `UsageError` with the
    line number if the YAML is invalid."""
    try:
        return yaml.load(raw, _Texts if texts else _Strict)
    except (yaml.YAMLError, ValueError) as error:
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        # PyYAML's messages may repeat a word of the file.
        problem = error.problem if isinstance(error, _Refused) else "syntax"
        line = f":{mark.line + 1}" if mark else ""
        raise UsageError(
            f"{name}{line}: the YAML cannot be read ({problem}); expected {what} in UTF-8",
            code="invalid-yaml",
        ) from None


class _Refused(yaml.MarkedYAMLError):
    def __init__(self, problem: str, mark: Any) -> None:
        super().__init__(problem=problem, problem_mark=mark)


class _Strict(yaml.SafeLoader):
    deep = 0
    shows_keys = True

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _Refused("aliases are not allowed, so repeat the value", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _Refused("tags are not allowed", event.start_mark)
        if self.deep >= _MOST_DEEP:
            raise _Refused(f"more than {_MOST_DEEP} levels", event.start_mark)
        self.deep += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.deep -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != _TEXT:
                raise _Refused("a key that is not a plain word", key.start_mark)
            if key.value in seen:
                shown = (
                    f" {key.value}" if self.shows_keys and re.fullmatch(r"[\w.-]{1,40}", key.value) else ""
                )
                raise _Refused(f"the key{shown} is repeated", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Texts(_Strict):
    shows_keys = False
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


def faults(
    error: ValidationError, model: type[BaseModel], root: str, *, prefix: str, also: Sequence[str] = ()
) -> list[Notice]:
    """Return the first 20 validation errors, one per line. For an unknown key, suggest the closest known key. `root` is the
    path of errors without a path, and `also` lists further known keys. Each line begins with `prefix`."""
    keys = {*also, *known_keys(model)}
    errors = error.errors(include_url=False, include_input=False)
    # A list counts as too short if its entries are invalid, which their own errors say.
    inner = {fault["loc"][:depth] for fault in errors for depth in range(len(fault["loc"]))}
    errors = [fault for fault in errors if fault["type"] != "too_short" or fault["loc"] not in inner]
    lines = DataError.gather([_fault(dict(fault), keys, root) for fault in errors]).lines
    return [Notice(prefix + line, code=notice_code(line)) for line in lines]


def _fault(fault: dict[str, Any], keys: set[str], root: str) -> Notice:
    steps: Sequence[str | int] = fault["loc"]
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps]
    # A key of several words may be item text.
    plain = [
        part if re.fullmatch(r"[\w.\[\]-]{1,60}", part) else ".(a key that is not shown)" for part in parts
    ]
    where = ascii("".join(plain).lstrip("."))[1:-1] or root
    match fault["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(str(steps[-1]), keys, n=1)
            advice = f"Did you mean {near[0]}?" if near else "Remove it."
            return Notice(f"{where}: unknown key. {advice}", code="unknown-config-key")
        case "missing":
            return Notice(f"{where}: missing. Add this setting.", code="missing-setting")
        case "tuple_type" | "list_type" | "set_type" | "frozen_set_type":
            return Notice(f"{where}: expected a list, such as `[a, b]`", code="invalid-setting")
        case "dict_type" | "mapping_type" | "model_type" | "model_attributes_type" | "dataclass_type":
            return Notice(f"{where}: expected settings, such as `{{key: value}}`", code="invalid-setting")
    says = re.sub("^(Value error, |Input should be )", lambda m: "expected " * (m[0][0] == "I"), fault["msg"])
    return Notice(f"{where}: {says}", code="invalid-setting")


def known_keys(annotation: Any) -> Iterator[str]:
    """Yield the field names of a Pydantic model and its nested models."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield name
            yield from known_keys(field.annotation)
    for part in get_args(annotation):
        yield from known_keys(part)
