"""What only a whole file shows: a prompt around every stem, options that are letters, shared passages.

Refuses the files whose rows look right one by one and are wrong together.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from string import ascii_uppercase

from robustify.errors import DataError
from robustify.loaders.keys import counted_from_one
from robustify.loaders.rows import Raw

_LEAD, _TAIL = "Question: ", "\nAnswer:"


def bare_stems(raws: Sequence[Raw]) -> list[Raw]:
    """The same without `Question: ` before or `Answer:` after the stem, where every stem of the file has it.

    They belong to somebody's prompt, and ours has its own.
    """
    found = list(raws)
    if all(raw.stem.startswith(_LEAD) for raw in found):
        found = [replace(raw, stem=raw.stem.removeprefix(_LEAD)) for raw in found]
    if all(raw.stem.endswith(_TAIL) for raw in found):
        found = [replace(raw, stem=raw.stem.removesuffix(_TAIL)) for raw in found]
    return found


def check_whole(name: str, raws: Sequence[Raw]) -> None:
    """Refuses what no single row can show.

    Raises:
        DataError: the choices are only letters, or the keys look as if they were counted from 1.
    """
    bare = sum(raw.choices == tuple(ascii_uppercase[: len(raw.choices)]) for raw in raws)
    if bare * 2 > len(raws):
        raise DataError(
            f"{name}: the options are letters (in {bare} of {len(raws)} rows); their texts are inside the "
            "stem or missing; expected each option's own text: take the benchmark from a source that has them"
        )
    if counted_from_one(raws):
        raise DataError(
            f"{name}: the keys are whole numbers from 1 up and never 0, so that they may count from 1; "
            "expected to be told: `fields: {key_is: number}` if they do, `fields: {key_is: index}` if not"
        )


def groups(raws: Sequence[Raw], base: str) -> list[str]:
    """For each row the name of the passage it shares with others, by where that first stands; else ""."""
    shared = Counter(raw.passage for raw in raws)
    numbers: dict[str, int] = {}
    for raw in raws:
        if raw.passage.strip() and shared[raw.passage] > 1:
            numbers.setdefault(raw.passage, len(numbers) + 1)
    return [f"{base}-p{numbers[raw.passage]:04d}" if raw.passage in numbers else "" for raw in raws]
