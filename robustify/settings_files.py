"""Settings in YAML: where configs lie, one strict loader, and the faults of a pydantic model in words.

No value of a file is shown in an error: somebody may have pasted a question into it. Nor is a word of pydantic's: a
reader of a config knows keys, texts and numbers, and no library.
"""

import difflib
import os
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
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
_SHAPE = re.compile(r"str|int|float|bool|(?:tuple|list|dict|literal)\[.*|constrained-.*")
"""What pydantic adds to the place of a value that may have several shapes."""
_FIXED = re.compile(r"[\w ,<>':-]{1,80}")
"""What PyYAML says of a syntax error where it repeats no more than a mark of the file."""


class Settings(BaseModel):
    """Settings, or a part of them: they do not change, an unknown name is refused, and no error repeats a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def is_config(name: str) -> bool:
    """Whether a name on the command line is that of a config: a YAML file, or one that ships with the package."""
    if name.endswith((".yaml", ".yml")):
        return True
    return not os.path.exists(name) and f"{name}.yaml" in _known()


def find_config(name: str) -> Path:
    """The config file of this name: a path, or the name of a config that ships with the package.

    Raises:
        UsageError: neither; for a bare name with the nearest one that ships as a suggestion.
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
        raise UsageError(f"{name}: no such file; expected a config (a YAML file) or a file of items")
    near = difflib.get_close_matches(name, known, n=1)
    hint = (
        f"did you mean {near[0]}?"
        if near
        else "expected a YAML file, a file of items, or a config that ships with robustify, such as demo_benign.yaml"
    )
    raise UsageError(f"{name}: no such config ({hint})")


def shipped(name: str = "configs") -> Path:
    """The folder of the configs that ship with the package, or of its adapters."""
    packed = Path(str(files("robustify"))) / name
    return packed if packed.is_dir() else packed.parent.parent / name


def _known() -> dict[str, Path]:
    return {path.name: path for path in sorted(shipped().glob("*.yaml"))}


def read_yaml(raw: bytes, name: str, what: str = "keys and values") -> Any:
    """What a file of settings says: plain values, no aliases (they multiply), no tags, no repeated keys, little nesting.

    Scalars as in YAML 1.2: `3:30`, `no`, `010` and a date are text, except that `010` is the number 10. `what` says in
    an error what was expected; no value of the file is repeated there.

    Raises:
        UsageError: no such YAML, by its line.
    """
    try:
        return yaml.load(raw, _Strict)
    except yaml.MarkedYAMLError as error:
        mark, why = error.problem_mark, error.problem or ""
        line = f":{mark.line + 1}" if mark else ""
        why = why if isinstance(error, _Refused) or _FIXED.fullmatch(why) else "syntax"
        raise UsageError(f"{name}{line}: no readable YAML ({why}); expected {what}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        why = getattr(error, "reason", "syntax")
        raise UsageError(f"{name}: no readable YAML ({why}); expected {what} in UTF-8") from None


def faults(
    error: ValidationError, model: type[BaseModel], whole: str, *, also: Sequence[str] = ()
) -> list[str]:
    """One line for each fault of `model`, with its place, the first 20; an unknown key with the nearest known one.

    `whole` names the file where a fault has no place of its own; `also` are further keys of the file.
    """
    found = _joined(error.errors(include_url=False, include_input=False))
    more = [f"... and {len(found) - MOST_FAULTS} more faults"] if len(found) > MOST_FAULTS else []
    return [_fault(e, model, whole, also) for e in found[:MOST_FAULTS]] + more


def _joined(found: Sequence[Any]) -> list[Mapping[str, Any]]:
    """The faults; those of a value that may have several shapes, of which it has none, as one."""
    joined: dict[tuple[str | int, ...], dict[str, Any]] = {}
    for fault in found:
        *before, last = fault["loc"] or ("",)
        if before and isinstance(last, str) and _SHAPE.fullmatch(last):
            one = joined.setdefault(tuple(before), {**fault, "loc": tuple(before), "shapes": []})
            one["shapes"].append(_shape(fault["type"]) or "another value")
        else:
            joined[(*fault["loc"], fault["type"])] = dict(fault)
    return list(joined.values())


class _Refused(yaml.constructor.ConstructorError):
    """What `_Strict` itself refuses; its words repeat no value of the file."""


class _Strict(yaml.SafeLoader):
    """A safe loader without what settings do not need and an attacker does."""

    yaml_implicit_resolvers = {}  # noqa: RUF012
    deep = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise _Refused(None, None, "an alias; write the value out", mark)
        if getattr(event, "tag", None) is not None:
            raise _Refused(None, None, "a tag", mark)
        if self.deep >= MOST_DEEP:
            raise _Refused(None, None, f"more than {MOST_DEEP} levels", mark)
        self.deep += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.deep -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _Refused(None, None, "a key that is no plain word", key.start_mark)
            if key.value in seen:
                shown = f" {key.value}" if re.fullmatch(r"[\w.-]{1,40}", key.value) else ""
                raise _Refused(None, None, f"key{shown} is written twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        return int(str(node.value).replace("_", ""))


_Strict.add_constructor("tag:yaml.org,2002:int", _Strict.construct_yaml_int)
for _kind, _form, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", r"[-+]?[0-9][0-9_]{0,17}", [*"-+0123456789"]),
    (
        "float",
        r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        [*"-+.0123456789"],
    ),
):
    _Strict.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"(?:{_form})\\Z"), _first)


def _fault(e: Mapping[str, Any], model: type[BaseModel], whole: str, also: Sequence[str]) -> str:
    steps, known = _followed(e["loc"], model)
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")
    where = ascii(place)[1:-1] or whole
    if "shapes" in e:
        return f"{where}: has the wrong shape; expected {' or '.join(dict.fromkeys(e['shapes']))}"
    match e["type"]:
        case "extra_forbidden":
            names = [*known, *(also if len(steps) == 1 else ())]
            near = difflib.get_close_matches(str(steps[-1]), names, n=1)
            return f"{where}: unknown key" + (f" (did you mean {near[0]}?)" if near else "")
        case "union_tag_invalid":
            return f"{where}.engine: unknown; expected {e['ctx']['expected_tags']}"
        case "missing":
            return f"{where}: missing; expected a value"
        case "tuple_type":
            return f"{where}: has the wrong shape; expected a list"
        case "model_type" | "dict_type":
            return f"{where}: has the wrong shape; expected keys and values"
        case "value_error":
            return f"{where}: {str(e['msg']).removeprefix('Value error, ')}"
        case "string_pattern_mismatch":
            return f"{where}: {_PATTERNS.get(e['ctx']['pattern'], 'is written otherwise than docs/config.md says')}"
        case "literal_error":
            return f"{where}: unknown; expected {e['ctx']['expected']}"
        case str(kind):
            return f"{where}: {_wrong(kind, e.get('ctx', {}))}"
        case _:
            return f"{where}: cannot be used"


_PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$": (
        "is no name; expected up to 64 letters, digits, `.`, `_` and `-`, the first a letter or a digit"
    ),
    r"^[A-Za-z_][A-Za-z0-9_]*$": "is no name of an environment variable; expected letters, digits and `_`",
    r"^[A-Z][A-Z0-9_]{0,63}$": "is no name of an environment variable; expected capitals, digits and `_`",
    r"^[0-9a-f]{64}$": "is no sha256; expected 64 digits from 0 to 9 and a to f",
}
_LIMITS = (
    ("greater_than_equal", "ge", "of {} or more"),
    ("greater_than", "gt", "above {}"),
    ("less_than_equal", "le", "of {} or less"),
    ("less_than", "lt", "below {}"),
)
_KINDS = (
    ("string", "text"), ("int", "a whole number"), ("float", "a number"), ("bool", "true or false"),
    ("list", "a list"), ("tuple", "a list"), ("dict", "keys and values"), ("model", "keys and values"),
)  # fmt: skip


def _wrong(kind: str, limits: Mapping[str, Any]) -> str:
    """What is wrong with a value, by pydantic's name of the fault: never in pydantic's words."""
    for name, key, where in _LIMITS:
        if kind == name:
            return f"is out of range; expected a number {where.format(limits[key])}"
    if kind.endswith("too_short"):
        return f"is too short; expected at least {limits['min_length']}"
    words = _shape(kind)
    return (
        f"has the wrong shape; expected {words}" if words else "cannot be used; docs/config.md says what can"
    )


def _shape(kind: str) -> str | None:
    return next((words for name, words in _KINDS if kind.startswith(name)), None)


def _followed(loc: Sequence[str | int], model: type[BaseModel]) -> tuple[list[str | int], list[str]]:
    """The place as the file writes it, and the keys that are known there.

    pydantic puts the tag of a union (a model's engine) between a place and its key; the file does not.
    """
    steps: list[str | int] = []
    kinds = [model]
    for i, step in enumerate(loc):
        tagged = [kind for kind in kinds if step in _tags(kind)]
        if tagged and 0 < i < len(loc) - 1 and isinstance(loc[i - 1], int):
            kinds = tagged
            continue
        steps.append(step)
        if isinstance(step, str) and i < len(loc) - 1:
            fields = [kind.model_fields[step] for kind in kinds if step in kind.model_fields]
            kinds = [inner for field in fields for inner in _models(field.annotation)] or kinds
    return steps, [name for kind in kinds for name in kind.model_fields]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _tags(kind: type[BaseModel]) -> tuple[Any, ...]:
    return tuple(
        tag
        for field in kind.model_fields.values()
        for tag in get_args(field.annotation)
        if isinstance(tag, str)
    )
