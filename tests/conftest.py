"""Made-up items that every test may use, and the paths of real data where there are any."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from robustify.item import Item
from robustify.redaction import firewall

# A machine shared with others is slow at times, which is no failure of a property.
settings.register_profile("shared machine", deadline=None, max_examples=50)
settings.load_profile("shared machine")


def shared_data() -> Path | None:
    """The folder of real benchmark files, or None where it is absent."""
    for place in (os.environ.get("ROBUSTIFY_DATA"), Path(__file__).parent.parent.parent / "shared" / "data"):
        if place and Path(place).is_dir():
            return Path(place)
    return None


@pytest.fixture(autouse=True)
def no_firewall_stays_up() -> Iterator[None]:
    """A command that ran in this process must not withhold what the next test's failure says."""
    yield
    firewall.remove()


@pytest.fixture(scope="session")
def data() -> Path:
    found = shared_data()
    if found is None:
        pytest.skip("real benchmark files are absent: no ../shared/data and no ROBUSTIFY_DATA")
    return found


@pytest.fixture
def toys() -> list[Item]:
    """Eight harmless items over two topics; the key of t0..t3 says so in its own text."""
    colours = ["red", "green", "blue", "grey"]
    told = [
        Item(
            f"t{i}",
            f"Which box number {i} is meant?",
            tuple(f"{c} right" if j == i % 4 else c for j, c in enumerate(colours)),
            i % 4,
            "boxes",
        )
        for i in range(4)
    ]
    plain = [
        Item(f"t{i}", f"Which cup number {i} is meant?", tuple(colours), (i + 1) % 4, "cups")
        for i in range(4, 8)
    ]
    return told + plain
