"""An error of ours as programs see it: its exit code and the code of its kind."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from robustify.base.errors import RobustifyError


@contextmanager
def coded(exit_code: int, code: str) -> Iterator[Any]:
    """The block ends with an error of these codes."""
    with pytest.raises(RobustifyError) as error:
        yield error
    assert (error.value.exit_code, error.value.code) == (exit_code, code), str(error.value)
