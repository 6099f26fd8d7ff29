"""Files of rows, and what is read of them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robustify.base.errors import notice_code
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Loaded, Source, load, notes


def lines(found: Sequence[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found)


def loaded(path: Path, content: object, **said: Any) -> Loaded:
    """Load a file with this text, or with these rows as JSON lines."""
    path.write_text(content if isinstance(content, str) else lines(content), "utf-8")  # type: ignore[arg-type]
    return load(Source.model_validate({"path": str(path), **said}), UNGUARDED)


def right(found: Loaded) -> list[str]:
    return [item.choices[item.key] for item in found.items]


def note_codes(found: Loaded) -> list[str]:
    return [notice_code(note) for note in notes(found)]
