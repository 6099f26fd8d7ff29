"""What is known of a model that somebody else has asked: the fingerprint of its imported answers.

A log is no weight: its digest says which answers these are, not which model gave them, so it is not written as
a digest of its own. What tells models apart is the name that the log gives, and its revision.
"""

from collections.abc import Sequence

from robustify.logs.log import Log

SHOWN = 3


def fingerprint(logs: Sequence[Log], model: str) -> dict[str, str]:
    """The facts of a model's logs; where they differ, the first few of each. `model`: its name in the logs."""
    held: dict[str, list[str]] = {}
    for log in logs:
        told = {
            "engine": f"replay of {log.kind}",
            "model": model,
            **log.facts,
            "log": f"{log.file} {log.sha256}",
        }
        for key, value in told.items():
            held.setdefault(key, []).append(value)
    return {key: together(list(dict.fromkeys(values))) for key, values in held.items()}


def together(values: Sequence[str]) -> str:
    """The first values, and how many there are besides."""
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return ", ".join(values[:SHOWN]) + more
