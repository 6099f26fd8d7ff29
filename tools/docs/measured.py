"""What the generated blocks share: files of results/, tables, shares, and what is said where a file is absent."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"
Block = Callable[[], str]


@cache
def read(name: str) -> Any | None:
    """What a file of results/ holds, or None where it is absent."""
    path = RESULTS / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def measured(*names: str, by: str = "") -> Callable[[Callable[..., str]], Block]:
    """A block made from what these files hold; where one is absent the block says so, and what writes it."""

    def of(block: Callable[..., str]) -> Block:
        @wraps(block)
        def printed() -> str:
            found = {name: read(name) for name in names}
            for name in (name for name, one in found.items() if one is None):
                return f"Not measured: `results/{name}` is absent{f'; `{by}` writes it' if by else ''}.\n"
            return block(*found.values())

        return printed

    return of


def named(*blocks: Block) -> dict[str, Block]:
    """The blocks by the names under which they stand on the pages."""
    return {block.__name__.replace("_", "-"): block for block in blocks}


def table(head: str, rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table whose first `left` columns hold words and the others numbers."""
    rule = "|".join(["---"] * left + ["---:"] * (head.count("|") + 1 - left))
    return f"| {head} |\n|{rule}|\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def ends(rate: Mapping[str, Any]) -> str:
    """A rate and its interval."""
    low, high = rate["ci"]
    return f"{percent(rate['value'])} ({100 * low:.1f} to {100 * high:.1f})"
