"""Parts of the typed summary as plain trees, which tests read by key."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from pydantic import BaseModel


def plain(value: Any) -> Any:
    """A part, or what holds parts, as JSON would hold it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def in_trees(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with plain trees for its results."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return plain(function(*args, **kwargs))

    return called
