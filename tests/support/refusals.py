"""An error of ours as users meet it: its exit code, one line, and no text of the mock restricted set."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from robustify.base.errors import RobustifyError

CANARY = re.compile(r"qx[a-z]{10}")
"""What stands in every id, stem and choice of the mock set."""


@contextmanager
def refused(exit_code: int, says: str | None = None, *, code: str = "") -> Iterator[None]:
    """The block is refused with this exit code and code, in one line that matches `says` and shows no item."""
    with pytest.raises(RobustifyError, match=says) as error:
        yield
    found = (error.value.exit_code, code and error.value.code, len(error.value.lines))
    assert found == (exit_code, code, 1), str(error.value)
    assert not CANARY.search(str(error.value))
