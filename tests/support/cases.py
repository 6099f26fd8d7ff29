"""Tables of cases in `tests/data/cases`, and refusals by their code."""

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml

from robustify.base.errors import RobustifyError, notice_code

Fields = dict[str, Any]
Texts = tuple[str, ...]
CASES = Path(__file__).parents[1] / "data" / "cases"


def cases(file: str, table: str) -> list[Any]:
    """The rows of one table; a list inside a row is a list."""
    return [tuple(row) for row in contents(file)[table]]


def contents(file: str) -> Any:
    """All that a file of cases holds."""
    return yaml.safe_load((CASES / f"{file}.yaml").read_text("utf-8"))


_shapes = functools.cache(lambda: contents("shapes"))


def shape(name: str, **values: Any) -> Any:
    """A form of `shapes.yaml` with these values."""
    return filled_in(_shapes()[name], values)


def filled_in(value: Any, names: Mapping[str, Any]) -> Any:
    """A tree in which `$name` stands for a value: a text that is nothing else becomes the value itself."""
    match value:
        case {"json": inner} if len(value) == 1:
            return json.dumps(filled_in(inner, names))
        case dict():
            return {filled_in(key, names): filled_in(member, names) for key, member in value.items()}
        case list():
            return [filled_in(member, names) for member in value]
        case str() if value.startswith("$") and value[1:] in names:
            return names[value[1:]]
        case str():
            return Template(value).safe_substitute(names)
        case _:
            return value


def fact(tree: Any, path: str) -> Any:
    """Return the member of a tree at a path."""
    step, _, deeper = path.partition(".")
    member = tree[int(step) if isinstance(tree, list) else step]
    return fact(member, deeper) if deeper else member


def codes(lines: Iterable[str]) -> list[str]:
    """The codes of messages, in order."""
    return [notice_code(line) for line in lines]


def each_case(corpus: str, *parts: str) -> pytest.MarkDecorator:
    """Parametrise a test over a file of cases by name, of which it takes these parts. An absent part is None."""
    rows: dict[str, Any] = contents(corpus)
    return pytest.mark.parametrize(
        parts, [[row.get(part) for part in parts] for row in rows.values()], ids=rows
    )


def fields(thing: object, names: Iterable[str]) -> dict[str, Any]:
    """The attributes of a thing that a case expects, tuples as lists."""
    values = {name: getattr(thing, name) for name in names}
    return {name: [*value] if isinstance(value, tuple) else value for name, value in values.items()}


CANARY = re.compile(r"qx[a-z]{10}")
"""What stands in every id, stem and choice of the mock restricted set."""


@contextmanager
def refuses(
    *codes: str, says: str | None = None, hidden: str = "\0"
) -> Iterator[pytest.ExceptionInfo[RobustifyError]]:
    """The block is refused for faults with these codes. The message matches `says`, and contains neither `hidden` nor text
    of the mock restricted set. Each code has one exit code."""
    with pytest.raises(RobustifyError, match=says) as error:
        yield error
    assert error.value.codes == codes, str(error.value)
    assert hidden not in str(error.value)
    assert not CANARY.search(str(error.value))
