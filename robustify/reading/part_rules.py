"""Ordered rules that decide which column holds which part: of items, of tables of picks, and of free answers.

The first rule of a part that names a column wins. If it names several columns that could each be the part, the file is
refused, and nothing is guessed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from robustify.base.errors import DataError

State = TypeVar("State")
"""What is known of a file: its columns, and the parts that are decided so far."""
Value = str | tuple[str, ...]
"""Column, or several columns with one option each."""


class ColumnError(DataError):
    """Error for a part whose column is missing or ambiguous."""


@dataclass(frozen=True, slots=True)
class PartDecision:
    """Choice of the columns of a part, with the rule that made it. `candidates` are other columns that rules named."""

    part: str
    columns: tuple[str, ...]
    rule: str
    reason: str
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartRule(Generic[State]):
    """One way to find the column of a part. `find` returns all candidates. If there are several, the first is the part, or
    with `alone`, the file is refused."""

    part: str
    name: str
    reason: str
    find: Callable[[State], Sequence[Value]]
    alone: bool = False


def several(value: Value | Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns of a part as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value or ())


def decide_part(
    rules: Sequence[PartRule[State]], part: str, state: State
) -> tuple[Value, PartDecision] | None:
    """Return the column of a part by the first rule that names any, and the decision, or None if no rule names one. Raise
    `ColumnError` if several columns could each be the part."""
    proposals = [(rule, rule.find(state)) for rule in rules if rule.part == part]
    for rule, values in proposals:
        if len(values) > 1 and rule.alone:
            if isinstance(values[0], tuple):
                raise ColumnError(
                    f"several series of columns could be the {part}", code="several-option-series"
                )
            names = " and ".join(f"`{column}`" for column in values)
            raise ColumnError(f"{names} could each be the {part}", code="several-columns-for-part")
        if values:
            every = [",".join(several(value)) for _, values in proposals for value in values]
            chosen = several(values[0])
            others = tuple(name for name in dict.fromkeys(every) if name != ",".join(chosen))
            return values[0], PartDecision(part, chosen, rule.name, rule.reason, others)
    return None
