"""Parts of the typed summary as plain trees, which tests read by key."""

from collections.abc import Callable, Mapping
from functools import wraps
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from robustify.judging.measures import MEASURES, SET
from robustify.judging.summary.quantity import Measured, Measures
from robustify.judging.summary.result import Summary


def plain(value: Any) -> Any:
    """A part, or what holds parts, as JSON would hold it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def measured(summary: Summary, name: str, of: str = SET) -> Any:
    """Return a measure of a model, a rule or the set by part, as JSON holds it, or None if it was not measured."""
    (measure,) = (one for one in MEASURES if one.name == name)
    found = measure.read(summary).get(of)
    return None if found is None else found.tree()


def in_trees(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with plain trees for its results."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return plain(function(*args, **kwargs))

    return called


def filled(model: type[BaseModel], tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tree with a neutral value for each field of the model that it lacks: null if that is allowed.

    Fields of earlier versions are left out, as the reader of summaries does.
    """
    known = {name: field.annotation for name, field in model.model_fields.items()}
    given = {name: _filled(known[name], value) for name, value in tree.items() if name in known}
    absent = {
        name: _neutral(field.annotation) for name, field in model.model_fields.items() if field.is_required()
    }
    return {**absent, **given}


def _filled(annotation: Any, value: Any) -> Any:
    args = get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return filled(annotation, value) if isinstance(value, Mapping) and "code" not in value else value
    if get_origin(annotation) is dict and isinstance(value, Mapping):
        return {name: _filled(args[1], one) for name, one in value.items()}
    if get_origin(annotation) is tuple and isinstance(value, list | tuple):
        return [_filled(args[0], one) for one in value]
    if get_origin(annotation) in (Union, UnionType) and value is not None:
        return next((new for one in args if (new := _filled(one, value)) is not value), value)
    return value


def _neutral(annotation: Any) -> Any:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType) and type(None) in args:
        return None
    if origin in (Union, UnionType, Annotated):
        return _neutral(args[0])
    if origin is Literal:
        return args[0]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return filled(annotation, {"code": "not_judged"} if "code" in annotation.model_fields else {})
    return (origin or annotation)()


def complete(annotation: Any, level: int = 0, deepest: int = 9) -> Any:
    """Return a value as JSON with all optional parts down to the level `deepest`, and none below."""
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation is Measures:
        made = complete(Measured, level, deepest)
        every: dict[str, dict[str, Any]] = {"set": {}, "model": {}, "rule": {}}
        for measure in MEASURES:
            every[measure.scope][measure.name] = made if measure.scope == "set" else {complete(str): made}
        return every
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if "code" in annotation.model_fields:
            return {"code": "no_screen"}
        fields = annotation.model_fields.items()
        known = {"value", "n"}  # of a quantity, whose interval may be missing
        return {
            name: complete(field.annotation, 0 if name in known else level + 1, deepest)
            for name, field in fields
        }
    if origin in (Union, UnionType) and type(None) in args and level > deepest:
        return None
    if origin in (Union, UnionType, Annotated):
        return complete(args[0], level, deepest)
    if origin is Literal:
        return args[0]
    if origin is dict:
        return {complete(args[0]): complete(args[1], level, deepest)}
    if origin is tuple:
        return [complete(one, level, deepest) for one in args if one is not ...]
    return {str: "word", int: 3, float: 0.5, bool: True}[annotation]
