"""Settings in YAML: strict loaders, and the faults of a pydantic model in words.

No value of a file is shown in an error: somebody may have pasted a question into it.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from robustify.errors import UsageError

MOST_BYTES = 1 << 20
"""No file of settings is larger."""
MOST_DEEP = 20


def read_yaml(raw: bytes, name: str) -> Any:
    """What a config says; a key written twice is refused. `name` is the file's.

    Raises:
        UsageError: no readable YAML, by its line.
    """
    try:
        return yaml.load(raw, _Once)
    except yaml.YAMLError as error:
        why = getattr(error, "problem", "syntax")
        raise UsageError(f"{name}{_line(error)}: no readable YAML ({why})") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: cannot be read ({type(error).__name__})") from None


def read_plain_yaml(raw: bytes, name: str, what: str) -> Any:
    """What a file from somebody else says: plain values only, without aliases, tags, repeated keys or deep nesting.

    `what` says in an error what was expected; nothing of the file is repeated there.

    Raises:
        UsageError: no plain YAML, by its line.
    """
    try:
        return yaml.load(raw, _Plain)
    except yaml.YAMLError as error:
        why = getattr(error, "problem", None) if isinstance(error, _Refused) else "syntax"
        raise UsageError(f"{name}{_line(error)}: no plain YAML ({why}); expected {what}") from None
    except (UnicodeDecodeError, RecursionError) as error:
        why = type(error).__name__
        raise UsageError(f"{name}: no plain YAML ({why}); expected {what} in UTF-8") from None


def faults(
    error: ValidationError, model: type[BaseModel], whole: str, *, also: Sequence[str] = ()
) -> list[str]:
    """One line for each fault of `model`, with its place; an unknown key with the nearest known one.

    `whole` names the file where a fault has no place of its own; `also` are further keys of the file.
    """
    return [_fault(e, model, whole, also) for e in error.errors(include_url=False, include_input=False)]


def _line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f":{mark.line + 1}" if mark else ""


class _Once(yaml.SafeLoader):
    """A safe loader that refuses a key written twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [k.value for k, _ in node.value if isinstance(k, yaml.ScalarNode)]
        twice = sorted(key for key in set(keys) - {"<<"} if keys.count(key) > 1)
        if twice:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {twice[0]!r} is written twice", node.start_mark
            )
        return super().construct_mapping(node, deep)


class _Refused(yaml.constructor.ConstructorError):
    """What `_Plain` itself refuses; its words repeat nothing of the file."""


class _Plain(yaml.SafeLoader):
    """A safe loader without aliases, tags, repeated keys, or nesting beyond what settings need."""

    deep = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise _Refused(None, None, "an alias", self._here())
        if self.deep >= MOST_DEEP:
            raise _Refused(None, None, f"more than {MOST_DEEP} levels", self._here())
        self.deep += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.deep -= 1

    def _here(self) -> yaml.Mark:
        mark: yaml.Mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        return mark

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [k.value for k, _ in node.value if isinstance(k, yaml.ScalarNode)]
        if len(set(keys)) < len(node.value):
            raise _Refused(None, None, "a key written twice, or one that is no plain word", node.start_mark)
        return super().construct_mapping(node, deep)


def _own_tag(_loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    raise _Refused(None, None, "a tag", node.start_mark)


_Plain.add_constructor(None, _own_tag)


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
