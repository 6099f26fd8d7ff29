"""Published layouts that need code to become items: pairs of replies, two contexts, options in running text, and blocks.

Each has a test that recognizes it, and a function that converts it into the cells `question`, `options`, `answer`, and `id`
of items. These functions raise `ItemError` for a record that cannot become an item. To add such a layout, add both here, an
entry to `SPECIAL_LAYOUTS` in `converters.py`, and one to `layouts.yaml`.
"""

import hashlib
import re
from collections.abc import Sequence
from itertools import dropwhile, islice
from os.path import commonprefix
from string import ascii_uppercase

from robustify.base.errors import ItemError, Notice
from robustify.items.item import FEWEST, MOST
from robustify.reading.columns import labelled_series, usual_name, usual_names
from robustify.reading.loaders import rows
from robustify.reading.loaders.published import columns_of_options
from robustify.reading.loaders.rows import (
    Cells,
    as_object,
    cell_label,
    cell_text,
    cell_value,
    shown_text,
    text_list,
)
from robustify.reading.marks.labelling import as_mark, bare_mark, cut_at_labels
from robustify.reading.printed import literal

_LETTERED = re.compile(r"\(([A-Z])\)\s*")
_LETTERED_START = re.compile(r"Answer Choices:\s*(?=\(A\))")
_WORD = r"(?:Answer|Solution|Option|Ending|Choice)"
_NUMBERED = re.compile(rf"(?:(?<=\s)|^){_WORD}([0-9]{{1,2}}):\s*")
_KEY_WORD = re.compile(rf"^\s*{_WORD}\s*(?=[0-9])", re.IGNORECASE)
_FORMAT_NOTE = re.compile(r"\s*Answer format:[^\n]*\s*$")
_LEAD_IN = re.compile(r"\n\s*(?:answer\s+)?(?:options|choices)\s*:\s*$", re.IGNORECASE)
_TAIL = re.compile(r"\s*(?:\S+\s+){0,2}\S*:\s*")
_LEAD = re.compile(r"^Please choose the correct [a-z]+ to the question:\s*")
_BLOCK_KEY = re.compile(r"\s*[a-dA-D]\s*")
_MARKER = re.compile(r"\s*([a-dA-D])(?:\s*[.:)]\s*|\s+(?=[A-Z]))")
_BLOCK_LINES = 7
_SPEAKER = re.compile(r"(?:^|\n\n)(Human|Assistant):")


def _has(cells: Cells, *names: str) -> bool:
    """Return whether a record has values in these columns, and has no option columns."""
    return all(cells.get(name) is not None for name in names) and not columns_of_options(cells)


def is_preference(cells: Cells) -> bool:
    """Return whether a record has one chosen and one rejected reply, not lists of replies."""
    return _has(cells, "chosen", "rejected") and not any(
        map(_lists_replies, (cells["chosen"], cells["rejected"]))
    )


def preference_cells(cells: Cells) -> list[Cells]:
    """Convert a chosen and a rejected reply. The shared beginning of the conversations is the question, unless a
    field has the prompt. A hash of the texts decides which reply comes first, so that the position tells nothing."""
    chosen, rejected = (_turns(cell_value(cells, name)) for name in ("chosen", "rejected"))
    prompt = usual_names(cells, "stem")
    shared = _turns(cells[prompt[0]]) if prompt else chosen[:-1]
    if not chosen or not rejected or not shared or chosen[:-1] != rejected[:-1]:
        raise ItemError(
            "the replies have no shared prompt: it is missing, or the conversations differ before the last turn",
            code="no-shared-prompt",
        )
    question = (
        shared[0][1] if len(shared) == 1 else "\n\n".join(f"{speaker}: {text}" for speaker, text in shared)
    )
    pair = [chosen[-1][1], rejected[-1][1]]
    text = "\0".join((question, *sorted(pair)))
    key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[0] % 2
    name = cell_label(cells, usual_name(cells, "id") or None)
    return [{"question": question, "options": pair[::-1] if key else pair, "answer": key, "id": name}]


def _lists_replies(value: object) -> bool:
    """Return whether a cell is a list of replies, each of which is an option, instead of the turns of a conversation."""
    value = literal(value) if isinstance(value, str) else value
    return isinstance(value, list) and all(isinstance(reply, str) for reply in value)


def _turns(value: object) -> list[tuple[str, str]]:
    """Return the speaker and text of each turn in a list of turns, in HH-RLHF's transcript, or in a lone reply."""
    if isinstance(value, str):
        first, *turns = map(str.strip, _SPEAKER.split(value))
        return [*zip(turns[::2], turns[1::2], strict=True)] if turns and not first else [("", value)]
    objects = [as_object(turn) for turn in value] if isinstance(value, list) else []
    return [(str(turn.get("role")), shown_text(turn.get("content"), "a turn")) for turn in objects]


def has_two_contexts(cells: Cells) -> bool:
    """Return whether a record is a WinoGrande item with two contexts and one continuation."""
    return _has(cells, "context_options", "continuation", "gold")


def cells_of_two_contexts(cells: Cells) -> list[Cells]:
    """Join two contexts and one continuation into a sentence that has a gap and two fillers."""
    contexts = text_list(cell_value(cells, "context_options"), "`context_options`")
    if len(contexts) != 2:
        raise ItemError(f"`context_options` has {len(contexts)} contexts; expected 2", code="context-count")
    # Split at single spaces, so that joining restores every space.
    words, others = (context.split(" ") for context in contexts)
    front = len(commonprefix([words, others]))  # noqa: RUF071 (words, not paths)
    back = len(commonprefix([words[front:][::-1], others[front:][::-1]]))  # noqa: RUF071
    fillers = [" ".join(both[front : len(both) - back]) for both in (words, others)]
    if not front or not all(fillers):
        raise ItemError(
            "the two contexts are not one sentence with two fillers for its gap: they are equal, they begin with different "
            "words, or one contains the other",
            code="contexts-do-not-fit",
        )
    sentence = [*words[:front], "_", *words[len(words) - back :], cell_text(cells, "continuation")]
    return [{"question": " ".join(sentence), "options": fillers, "answer": cell_value(cells, "gold")}]


def has_instruction(cells: Cells) -> bool:
    """Return whether a record may have its options in `instruction`."""
    return _has(cells, "instruction", "answer")


def cells_of_instruction(cells: Cells) -> list[Cells]:
    """Cut the options out of running text. Refuse labels out of order, because they can be split in two ways."""
    text = _FORMAT_NOTE.sub("", cell_text(cells, "instruction"))
    start = _LETTERED_START.search(text)
    marks = list((_LETTERED if start else _NUMBERED).finditer(text, start.end() if start else 0))
    labels = [mark[1] for mark in marks]
    in_order = [*ascii_uppercase] if start else [str(number) for number in range(1, MOST + 1)]
    if not FEWEST <= len(labels) <= MOST or labels != in_order[: len(labels)]:
        raise ItemError(
            "the choices cannot be separated; expected each label exactly once, in order",
            code="inseparable-choices",
        )
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    texts = [text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]
    question = _LEAD.sub("", text[: (start or marks[0]).start()].strip())
    key = _KEY_WORD.sub("", cell_text(cells, "answer"))
    return [{"question": question, "options": {"text": texts, "label": labels}, "answer": key}]


def options_apart(cells: Cells) -> Cells | None:
    """Return a record in which the options are separate from the question that lists them. Return None unless each option
    has its own line and letter, only a lead-in such as `Answer:` follows, and the key is one of the letters."""
    names = tuple(cells)
    stem, key = (usual_name(names, part) for part in ("stem", "key"))
    text, mark = cells.get(stem), bare_mark(str(cells.get(key, "")))
    if not isinstance(text, str) or not mark or not mark.isalpha() or usual_names(names, "choices"):
        return None
    listed = cut_at_labels(text)
    if listed is None or not listed.before or labelled_series(names):
        return None
    *texts, (last, *tail) = (option.split("\n") for option in listed.texts)
    in_lines = text[len(listed.before) :].strip().count("\n") >= len(texts) and all(
        len(t) == 1 for t in texts
    )
    ends = not "".join(tail).strip() or _TAIL.fullmatch("\n".join(tail)) is not None
    if not in_lines or not ends or mark not in map(as_mark, listed.labels):
        return None
    options = dict(zip(listed.labels, (*(t[0].strip() for t in texts), last.strip()), strict=True))
    parts = {part: name for part in ("id", "topic", "passage") for name in usual_names(names, part)[:1]}
    return {
        **{part: cells[name] for part, name in parts.items()},
        "question": _LEAD_IN.sub("", listed.before),
        "options": options,
        "answer": cells[key],
    }


def in_blocks(text: rows.Text) -> bool:
    """Return whether a text looks like LogiQA: a first line with a single letter, and six or more nonblank lines."""
    with text("\n") as lines:
        first, *more = islice(dropwhile(lambda line: not line.strip("\r\n"), lines), _BLOCK_LINES)
    return len(more) + 1 == _BLOCK_LINES and bool(_BLOCK_KEY.fullmatch(first)) and all(map(str.strip, more))


def block_rows(text: str) -> rows.SourceTable:
    """Read LogiQA blocks (blank line, letter, context, question, four options) into one row per block.

    If the options have the letters A to D, once each, the letters give the order. Otherwise, the lines do, because
    letters are often garbled. A block of another size is a fault, and so is a letter on the wrong line."""
    lines = ["", *(line.rstrip("\r") for line in text.rstrip().split("\n"))]
    starts = [
        i for i, line in enumerate(lines) if i and not lines[i - 1].strip() and _BLOCK_KEY.fullmatch(line)
    ]
    ends = [*starts[1:], len(lines)]
    blocks = (
        (start, "\n".join(lines[start:end]).rstrip().split("\n"))
        for start, end in zip(starts, ends, strict=True)
    )
    return rows.table_of(((start, _block(block)) for start, block in blocks), "logiqa")


def _block(lines: Sequence[str]) -> rows.Cells | Notice:
    """Return the cells of a block, or the reason why it is faulty."""
    if len(lines) != _BLOCK_LINES:
        text = f"the block has {len(lines)} lines; expected {_BLOCK_LINES} after a blank line"
        return Notice(text, code="block-length")
    if rows.undecoded("".join(lines)):
        return rows.NOT_UTF8
    key, context, question, *options = lines
    marks = [_MARKER.match(line) for line in options]
    letters = [mark[1].upper() if mark else "" for mark in marks]
    clear = [
        letter if mark and mark[0].strip()[1:] else "" for mark, letter in zip(marks, letters, strict=True)
    ]
    if sorted(letters) == [*"ABCD"]:
        options = [options[letters.index(letter)] for letter in "ABCD"]
    elif any(
        letter not in ("", own) and clear.count(letter) == 1
        for letter, own in zip(clear, "ABCD", strict=True)
    ):
        text = "the letters of the options are out of order; expected A to D, once each"
        return Notice(text, code="letters-out-of-order")
    texts = [_unlettered(line, letter) for line, letter in zip(options, "ABCD", strict=True)]
    return {"key": key.strip(), "context": context, "question": question, "options": texts}


def _unlettered(line: str, letter: str) -> str:
    """Remove the letter of an option from its start, or from the position to which a translation moved it."""
    front = _MARKER.match(line)
    if front and front[1].upper() == letter:
        return line[front.end() :].strip()
    inside, n = re.subn(rf"\b{letter}\.\s*", "", line)
    return (inside if n == 1 else line).strip()
