"""Lists that Python, JSON, or NumPy wrote into a text: read with all members, or refused, and never with two joined."""

import pytest

from robustify.reading.printed import MissingCommaError, literal
from tests.support.cases import contents

CASES = contents("printed")


@pytest.mark.parametrize(("written", "value"), [*CASES["read"], ("[" * 5000, None)])
def test_a_printed_list_has_all_of_its_members(written: str, value: object) -> None:
    assert literal(written) == value


@pytest.mark.parametrize("written", CASES["joined"])
def test_texts_without_a_comma_between_them_are_never_joined(written: str) -> None:
    with pytest.raises(MissingCommaError):
        literal(written)
