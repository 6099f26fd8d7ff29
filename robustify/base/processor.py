"""Find the words that describe this processor, such as its maker and instruction sets."""

import platform
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def processor_words() -> frozenset[str]:
    """Return the words in the system's description of its processor. On Linux, they include its instruction sets."""
    description = platform.processor()
    with suppress(OSError):
        description = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return frozenset(description.split())
