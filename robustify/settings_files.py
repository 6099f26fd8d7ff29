"""Settings in YAML: one strict loader, and the faults of a pydantic model in words.

No value of a file is shown in an error: somebody may have pasted a question into it.
"""

import difflib
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from robustify.errors import UsageError

MOST_BYTES = 1 << 20
"""No file of settings is larger."""
MOST_YAML = 1 << 18
"""No file of YAML is larger: PyYAML reads about a megabyte in ten seconds."""
MOST_DEEP = 20
MOST_FAULTS = 20
_FIXED = re.compile(r"[\w ,<>':-]{1,80}")
"""What PyYAML says of a syntax error where it repeats no more than a mark of the file."""


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
    found = error.errors(include_url=False, include_input=False)
    more = [f"... and {len(found) - MOST_FAULTS} more faults"] if len(found) > MOST_FAULTS else []
    return [_fault(e, model, whole, also) for e in found[:MOST_FAULTS]] + more


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
        case _:
            return f"{where}: {str(e['msg'])[0].lower()}{str(e['msg'])[1:]}"


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
