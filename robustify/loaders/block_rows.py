"""Text in blocks of lines (LogiQA: blank, letter, context, question, four options) -> rows.

The order of the lines says which option is which; the letters inside them are often mangled.
"""

import re
from collections.abc import Sequence

from robustify.loaders.cells import undecoded
from robustify.loaders.rows import Fault, Row, Table

_KEY = re.compile(r"\s*[a-dA-D]\s*")
N_LINES = 7


def in_blocks(text: str) -> bool:
    """Whether the first line with something on it is a lone letter, and six more lines follow it."""
    lines = text.lstrip("\r\n").split("\n", N_LINES)
    return (
        len(lines) >= N_LINES
        and _KEY.fullmatch(lines[0]) is not None
        and all(map(str.strip, lines[:N_LINES]))
    )


def block_rows(text: str) -> Table:
    """One row a block: `key`, `context`, `question`, `options`. A block of another size is a fault."""
    lines = ["", *(line.rstrip("\r") for line in text.split("\n"))]
    starts = [at for at in range(1, len(lines)) if not lines[at - 1].strip() and _KEY.fullmatch(lines[at])]
    rows: list[Row] = []
    faults: list[Fault] = []
    for place, (start, end) in enumerate(zip(starts, [*starts[1:], len(lines)], strict=True), start=1):
        block = _without_blank_end(lines[start:end])
        if len(block) != N_LINES:
            faults.append(
                Fault(start, f"a block of {len(block)} lines; expected {N_LINES} after a blank line")
            )
        elif any(undecoded(line) for line in block):
            faults.append(Fault(start, "not valid UTF-8"))
        else:
            rows.append(Row(start, place, _cells(block)))
    return Table(tuple(rows), tuple(faults), layout="logiqa")


def _without_blank_end(lines: Sequence[str]) -> list[str]:
    kept = list(lines)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept


def _cells(block: Sequence[str]) -> dict[str, object]:
    options = [_unlettered(line, letter) for line, letter in zip(block[3:], "ABCD", strict=True)]
    return {"key": block[0].strip(), "context": block[1], "question": block[2], "options": options}


def _unlettered(line: str, letter: str) -> str:
    """An option without its letter: at the front, or where a translation has moved it into the sentence."""
    front = re.match(rf"\s*[{letter}{letter.lower()}](?:\s*[.:)]\s*|\s+(?=[A-Z]))", line)
    if front:
        return line[front.end() :].strip()
    inside = re.findall(rf"\b{letter}\.", line)
    return re.sub(rf"\b{letter}\.\s*", "", line).strip() if len(inside) == 1 else line.strip()
