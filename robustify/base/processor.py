"""Words that describe this processor, such as its maker and its instruction sets."""

import platform
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def processor_words() -> frozenset[str]:
    """Return the words with which the system describes its processor: on Linux, its maker and each kind of instruction."""
    description = platform.processor()
    with suppress(OSError):
        description = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return frozenset(description.split())
