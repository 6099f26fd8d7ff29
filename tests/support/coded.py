"""An error of ours as programs see it, by its exit code and the code of its kind, and tables of such cases."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from robustify.base.errors import RobustifyError


@contextmanager
def coded(exit_code: int, code: str) -> Iterator[Any]:
    """The block ends with an error of these codes."""
    with pytest.raises(RobustifyError) as error:
        yield error
    assert (error.value.exit_code, error.value.code) == (exit_code, code), str(error.value)


def cases(name: str) -> dict[str, Any]:
    """The tables of a file in `tests/data/cases`."""
    path = Path(__file__).parents[1] / "data" / "cases" / f"{name}.yaml"
    tables: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return tables
