"""Settings in YAML: where configs lie, one strict loader, and the faults of a pydantic model by their place.

No error repeats a value of a file: somebody may have pasted a question into it.
"""

import difflib
import os
import re
from collections.abc import Hashable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from robustify.errors import UsageError

MOST_BYTES = 1 << 20
"""No file of settings is larger."""
MOST_YAML = 1 << 18
"""No file of YAML is larger: PyYAML reads about a megabyte in ten seconds."""
MOST_DEEP = 20
MOST_FAULTS = 20


class Settings(BaseModel):
    """Settings, or a part of them: they do not change, an unknown name is refused, and no error repeats a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def is_config(name: str) -> bool:
    """Return whether a name on the command line is a config: a YAML file, or one that ships with the package."""
    return name.endswith((".yaml", ".yml")) or (not os.path.exists(name) and f"{name}.yaml" in _known())


def find_config(name: str) -> Path:
    """Return the path of a config, given its path or the name of one that ships with the package.

    Raises:
        UsageError: there is none; for a bare name with the nearest one that ships as a suggestion.
    """
    # Of os.path, because a name that is too long for any file is no error there.
    if os.path.isfile(name):
        return Path(name)
    if os.path.isdir(name):
        raise UsageError(f"{name}: is a folder; expected a config (a YAML file) or a file of items")
    known = _known()
    for candidate in (name, f"{name}.yaml"):
        if candidate in known:
            return known[candidate]
    if os.path.basename(name) != name or os.path.splitext(name)[1] not in ("", ".yaml", ".yml"):
        raise UsageError(f"{name} does not exist; expected a config (a YAML file) or a file of items")
    near = difflib.get_close_matches(name, known, n=1)
    others = "expected a YAML file, a file of items, or a config that ships, such as demo_benign.yaml"
    raise UsageError(f"{name}: no such config ({f'did you mean {near[0]}?' if near else others})")


def shipped(name: str = "configs") -> Path:
    """Return the folder of the configs that ship with the package, or of its adapters."""
    packed = Path(str(files("robustify"))) / name
    return packed if packed.is_dir() else packed.parent.parent / name


def _known() -> dict[str, Path]:
    return {path.name: path for path in sorted(shipped().glob("*.yaml"))}


def read_yaml(raw: bytes, name: str, what: str = "keys and values") -> Any:
    """Read plain values from a file of settings: no aliases (they multiply), tags, repeated keys or deep nesting.

    Scalars are those of YAML 1.2: `3:30`, `no` and a date are text; `010` is the number 10. `what` says in an error
    what was expected.

    Raises:
        UsageError: no such YAML, by its line.
    """
    try:
        return yaml.load(raw, _Strict)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        # What PyYAML says itself may repeat a word of the file.
        why = error.problem if isinstance(error, _Refused) else "syntax"
        raise UsageError(f"{name}{line}: no readable YAML ({why}); expected {what}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UsageError(f"{name}: no readable YAML (syntax); expected {what} in UTF-8") from None


class _Refused(yaml.constructor.ConstructorError):
    """A refusal by `_Strict`; its words repeat no value of the file."""

    def __init__(self, why: str, mark: Any) -> None:
        super().__init__(None, None, why, mark)


class _Strict(yaml.SafeLoader):
    """A safe loader without what settings do not need and an attacker does."""

    yaml_implicit_resolvers = {}  # noqa: RUF012
    deep = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        mark = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise _Refused("an alias; write the value out", mark)
        if getattr(event, "tag", None) is not None:
            raise _Refused("a tag", mark)
        if self.deep >= MOST_DEEP:
            raise _Refused(f"more than {MOST_DEEP} levels", mark)
        self.deep += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.deep -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _Refused("a key that is not a plain word", key.start_mark)
            if key.value in seen:
                shown = f" {key.value}" if re.fullmatch(r"[\w.-]{1,40}", key.value) else ""
                raise _Refused(f"key{shown} is written twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        return int(str(node.value).replace("_", ""))


_Strict.add_constructor("tag:yaml.org,2002:int", _Strict.construct_yaml_int)
_NUMBER = r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
for _kind, _form, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", r"[-+]?[0-9][0-9_]{0,17}", [*"-+0123456789"]),
    ("float", rf"{_NUMBER}|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", [*"-+.0123456789"]),
):
    _Strict.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"(?:{_form})\\Z"), _first)


def faults(
    error: ValidationError, model: type[BaseModel], whole: str, *, also: Sequence[str] = ()
) -> list[str]:
    """Return one line for each of the first 20 faults, with its place; an unknown key with the nearest known one.

    `whole` names the file if a fault has no place of its own; `also` are further keys of the file.
    """
    known = {*also, *_keys(model)}
    found = error.errors(include_url=False, include_input=False)
    more = [f"... and {len(found) - MOST_FAULTS} more faults"] if len(found) > MOST_FAULTS else []
    return [_fault(dict(one), known, whole) for one in found[:MOST_FAULTS]] + more


def _fault(fault: dict[str, Any], known: set[str], whole: str) -> str:
    steps: Sequence[str | int] = fault["loc"]
    # pydantic puts the tag of a union (a model's engine) between a place and its key; the file does not.
    shown = [
        f"[{step}]" if isinstance(step, int) else f".{step}"
        for i, step in enumerate(steps)
        if not (0 < i < len(steps) - 1 and isinstance(steps[i - 1], int) and step not in known)
    ]
    # A key of several words may be text.
    plain = [
        step if re.fullmatch(r"[\w.\[\]-]{1,60}", step) else ".(a key that is not shown)" for step in shown
    ]
    where = ascii("".join(plain).lstrip("."))[1:-1] or whole
    match fault["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(str(steps[-1]), known, n=1)
            return f"{where}: unknown key" + (f" (did you mean {near[0]}?)" if near else "")
        case "union_tag_invalid":
            return f"{where}.engine: unknown; expected {fault['ctx']['expected_tags']}"
        case "missing":
            return f"{where}: missing; expected a value"
    return f"{where}: {str(fault['msg']).removeprefix('Value error, ')}"


def _keys(annotation: Any) -> Iterator[str]:
    """Yield the keys of a model and of every model inside it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield name
            yield from _keys(field.annotation)
    for part in get_args(annotation):
        yield from _keys(part)
