"""Items whose choices stand inside a running text: AQuA `(A) .. (B) ..`, LLM-Adapters `Answer1: ..`.

A text whose labels do not come once each and in order is refused: it could be cut in two ways.
"""

import re
from collections.abc import Sequence
from string import ascii_uppercase

from robustify.errors import ItemError
from robustify.item import FEWEST, MOST
from robustify.loaders.cells import dig, text
from robustify.loaders.rows import Cells, Raw

_LETTERED_START = re.compile(r"Answer Choices:\s*(?=\(A\))")
_NUMBERED = re.compile(r"(?:(?<=\s)|^)(Answer|Solution|Option|Ending|Choice)([0-9]{1,2}):\s*")
_NUMBERED_KEY = re.compile(r"\s*(?:answer|solution|option|ending|choice)\s*([0-9]{1,2})\s*", re.IGNORECASE)
_FORMAT_NOTE = re.compile(r"\s*Answer format:[^\n]*\s*$")
_LEAD = re.compile(r"^Please choose the correct [a-z]+ to the question:\s*")


def is_lettered(cells: Cells) -> bool:
    """Whether the row is written as AQuA's."""
    told = cells.get("instruction")
    return isinstance(told, str) and "answer" in cells and _LETTERED_START.search(told) is not None


def is_numbered(cells: Cells) -> bool:
    """Whether the row is written as the LLM-Adapters sets are."""
    told = cells.get("instruction")
    return isinstance(told, str) and "answer" in cells and len(_NUMBERED.findall(told)) >= FEWEST


def lettered(cells: Cells) -> Raw:
    """AQuA: `stem Answer Choices: (A) .. (B) ..`, the key a letter.

    Raises:
        ItemError: no such list of choices, or a label out of order or there twice.
    """
    told = text(cells, "instruction")
    start = _LETTERED_START.search(told)
    if start is None:
        raise ItemError("no `Answer Choices: (A)` in `instruction`")
    tail = told[start.end() :]
    labels = list(re.finditer(r"\(([A-Z])\)\s*", tail))
    names = [label[1] for label in labels]
    if not FEWEST <= len(names) <= MOST or names != list(ascii_uppercase[: len(names)]):
        raise ItemError(
            "the labels (A), (B) ... do not come once each and in order; the choices cannot be told apart"
        )
    return Raw(told[: start.start()].strip(), _between(tail, labels), dig(cells, "answer"), key_is="letter")


def numbered(cells: Cells) -> Raw:
    """LLM-Adapters: `lead-in stem Answer1: .. Answer2: .. Answer format: ..`, the key `answer2`.

    Raises:
        ItemError: no such list of choices, or a number out of order or there twice.
    """
    told = _FORMAT_NOTE.sub("", text(cells, "instruction"))
    labels = list(_NUMBERED.finditer(told))
    numbers = [int(label[2]) for label in labels]
    if not FEWEST <= len(numbers) <= MOST or numbers != list(range(1, len(numbers) + 1)):
        raise ItemError(
            "the numbers 1, 2 ... do not come once each and in order; the choices cannot be told apart"
        )
    key = _NUMBERED_KEY.fullmatch(text(cells, "answer"))
    if key is None:
        raise ItemError(f"`answer` is not of the form answer1 to answer{len(numbers)}")
    stem = _LEAD.sub("", told[: labels[0].start()].strip())
    return Raw(stem, _between(told, labels), int(key[1]), key_is="number")


def _between(told: str, labels: Sequence[re.Match[str]]) -> tuple[str, ...]:
    ends = [label.start() for label in labels[1:]] + [len(told)]
    return tuple(told[label.end() : end].strip() for label, end in zip(labels, ends, strict=True))
