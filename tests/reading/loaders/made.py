"""Made-up items of a file, and the forms in which a file may write them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import RobustifyError, notice_code
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Loaded, Source, load, notes

Row = dict[str, object]
Of = Callable[[Sequence[str], int], object]


@dataclass(frozen=True)
class Made:
    """Questions with their options and the index of the right one."""

    asked: Sequence[str]
    options: Sequence[tuple[str, ...]]
    keys: Sequence[int]

    @property
    def right(self) -> list[str]:
        return [options[key] for options, key in zip(self.options, self.keys, strict=True)]

    def rows(self, **made: Of) -> list[Row]:
        """Rows with the question and what `made` gives for the options and the key of each."""
        zipped = zip(self.asked, self.options, self.keys, strict=True)
        return [{"question": q, **{name: of(o, k) for name, of in made.items()}} for q, o, k in zipped]

    def spread(self, names: Sequence[str], **more: Of) -> list[Row]:
        """Rows with a column for each option."""
        zipped = zip(self.rows(**more), self.options, strict=True)
        return [
            {"question": row.pop("question"), **dict(zip(names, o, strict=True)), **row} for row, o in zipped
        ]


def lines(found: Sequence[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found)


def table(found: Sequence[Mapping[str, object]]) -> str:
    cells = [list(found[0]), *(list(row.values()) for row in found)]
    return "".join(",".join(f'"{cell}"' for cell in record) + "\n" for record in cells)


def loaded(path: Path, content: object, **said: Any) -> Loaded:
    """Load a file with this text, or with these rows as JSON lines."""
    path.write_text(content if isinstance(content, str) else lines(content), "utf-8")  # type: ignore[arg-type]
    return load(Source.model_validate({"path": str(path), **said}), UNGUARDED)


def right(found: Loaded) -> list[str]:
    return [item.choices[item.key] for item in found.items]


def note_codes(found: Loaded) -> list[str]:
    return [notice_code(note) for note in notes(found)]


@contextmanager
def refused(*codes: str) -> "Iterator[pytest.ExceptionInfo[RobustifyError]]":
    """The block is refused with these codes, one a line."""
    with pytest.raises(RobustifyError) as refusal:
        yield refusal
    assert refusal.value.codes == codes


def listed(options: Sequence[str], _: int) -> list[str]:
    return list(options)


def letter(_: Sequence[str], key: int) -> str:
    return "ABCD"[key]


def index(_: Sequence[str], key: int) -> int:
    return key


def number(_: Sequence[str], key: int) -> int:
    return key + 1


def text(options: Sequence[str], key: int) -> str:
    return options[key]
