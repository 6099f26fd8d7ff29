"""Tables of cases in `tests/data/cases`, and refusals by their code."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
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


def codes(lines: Iterable[str]) -> list[str]:
    """The codes of messages, in order."""
    return [notice_code(line) for line in lines]


def each_case(corpus: str, *parts: str) -> pytest.MarkDecorator:
    """Parametrise a test over a file of cases by name, of which it takes these parts. An absent part is None."""
    rows: dict[str, Any] = yaml.safe_load((CASES / f"{corpus}.yaml").read_text("utf-8"))
    return pytest.mark.parametrize(
        parts, [[row.get(part) for part in parts] for row in rows.values()], ids=rows
    )


def fields(thing: object, names: Iterable[str]) -> dict[str, Any]:
    """The attributes of a thing that a case expects, tuples as lists."""
    values = {name: getattr(thing, name) for name in names}
    return {name: [*value] if isinstance(value, tuple) else value for name, value in values.items()}


@contextmanager
def refuses(*codes: str, hidden: str = "\0") -> Iterator[pytest.ExceptionInfo[RobustifyError]]:
    """The block is refused for faults with these codes, and the message does not contain `hidden`."""
    with pytest.raises(RobustifyError) as error:
        yield error
    assert error.value.codes == codes, str(error.value)
    assert hidden not in str(error.value)
