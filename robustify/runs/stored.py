"""Typed readers of the files of a run. A value that robustify would not have written is refused.

Errors name the file with its line, field, or column, but no value, because a value may be item text.
"""
# pandas has no type hints.
# mypy: disable-error-code="import-untyped"

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, create_model

from robustify.base.errors import DataError, ItemError
from robustify.base.files import original
from robustify.items.item import MOST, Item
from robustify.judging.summary.result import State
from robustify.judging.summary.screen_parts import CUES, CueCode
from robustify.reading.guard import Guard

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
SEAL = "mac"
"""Field of run.json with the seal of a restricted run."""
IDENTITY = ("adapter", "key_id")
"""Fields of run.json that tell a restricted run from another of the same name."""
_RESTRICTED = ("sensitivity", *IDENTITY, "release", SEAL)
WORDS = ("topic", "verdict", "reason", "cloze_excluded", "picked_by", "cue")
"""Columns of `verdicts.csv` without numbers."""
_CELLS = {
    "verdict": {"kept", "flagged", "undecided"},
    "cue": {*CUES, ""},
    "pick": {"", *map(str, range(MOST))},
}
_FORMER = {"robust": "kept", "shortcut": "flagged"}
"""Verdicts in files of earlier versions."""
_Name = Annotated[str, Field(min_length=1)]
_Place = Annotated[int, Field(ge=0, lt=MOST)]
_Span = Annotated[list[int], Field(min_length=2, max_length=2)]
_part: Any = partial(create_model, __config__=ConfigDict(strict=True, extra="allow", allow_inf_nan=False))
_Cue: Any = _part("Cue", cue=(CueCode, ...), adds=(float | None, None), says=(str, ""))
_UNPICKED: dict[str, Any] = {
    "item": (_Name, ...),
    "verdict": (Literal["kept", "flagged", "undecided"], ...),
    "key": (int, ...),
    "votes": (dict[str, _Place | None], ...),
    "alike": (str | None, None),
    "likeness": (dict[str, float | None], {}),
    "inferred": (bool | None, None),
    "p_key": (float | None, ...),
    "pick": (None, ...),
}
_PICKED = {
    **_UNPICKED,
    "pick": (_Place, ...),
    "p_pick": (float, ...),
    **dict.fromkeys(("chance", "posterior", "p_shortcut"), (float | None, ...)),
    "voters": (list[str], ...),
    "cues": (list[_Cue], ...),
    "adds": (dict[CueCode, float], ...),
    "features": (dict[str, float], {}),
}
EVIDENCE: TypeAdapter[Any] = TypeAdapter(_part("Picked", **_PICKED) | _part("Unpicked", **_UNPICKED))
_ITEM_CELLS: dict[str, Any] = {
    **dict.fromkeys(("id", "stem", "topic"), (str, ...)),
    "choices": (list[str], ...),
    "key": (int, ...),
    "group": (str, ""),
    "question_at": (int, 0),
}
_ITEM: TypeAdapter[Any] = TypeAdapter(_part("Item", **_ITEM_CELLS))
_Defect: Any = _part("Defect", kind=(str, ...), item=(str, ...))
_DATA: dict[str, Any] = {"n_items": (int, ...), "layout": (str, ...)}
_ROWS: dict[str, Any] = {
    "sha256": (str, ...),
    "quarantined": (list[dict[str, Any]], ...),
    "defects": (list[_Defect], ...),
    "lines": (list[_Span], []),
    **dict.fromkeys(("notes", "note_codes"), (list[str], [])),
}
_NAME: dict[str, Any] = {"name": (str, ...)}
_ORIGIN: dict[str, Any] = {"from": (str | None, ...), "left_out": (int, ...)}
_Block = dict[str, Any] | None
_SETTINGS: dict[str, Any] = {
    **_NAME,
    "data": (list[dict[str, Any]], ...),
    "hidden": (str, "question"),
    **dict.fromkeys(("screen", "cloze"), (dict[str, Any], {})),
    "infer_question": (_Block, None),
    "alternatives": (list[dict[str, Any]], []),
    "free": (_part("FreeSettings", judge=(_Block, None)) | None, None),
}
_PARTS: dict[str, Any] = {
    "format": (int, Field(ge=FORMAT, le=FORMAT)),
    "files": (dict[str, str], ...),
    "models": (dict[str, dict[str, Any]], ...),
    "templates": (dict[str, str], ...),
    "signature": (str, ...),
    "versions": (dict[str, str], {}),
    "import": (_part("Import", formats=(str, ...), items=(_part("Origin", **_ORIGIN), ...)) | None, None),
    "release": (_part("Release", min_cell=(int, ...)) | None, None),
    "free": (_part("Free", calibration=(dict[str, Any], ...), left_out=(dict[str, int], ...)) | None, None),
}
RESTRICTED, PUBLIC = (
    _part("Manifest", config=(_part("Config", **config), ...), data=(_part("Data", **data), ...), **_PARTS)
    for config, data in ((_NAME, _DATA), (_SETTINGS, {**_DATA, **_ROWS}))
)
"""Models of the required parts of `run.json`. A file without one of them is refused."""
OBJECT: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_STATE: TypeAdapter[State] = TypeAdapter(State)


def is_restricted(manifest: Mapping[str, Any]) -> bool:
    """Return whether any field of run.json indicates a restricted run. Removing one field changes nothing."""
    files = manifest.get("files")
    names = list(files) if isinstance(files, Mapping) else []
    return any(name in manifest for name in _RESTRICTED) or any(n.startswith("splits/") for n in names)


def rows(path: Path, model: TypeAdapter[Any]) -> Iterator[dict[str, Any]]:
    """Check each row of a JSON Lines file against a model, and yield it unchanged."""
    number = 0
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            for line in lines:
                number += 1
                if line.strip():
                    row = json.loads(line)
                    model.validate_python(row)
                    # An escape can name half a character, which no file of a run can contain.
                    json.dumps(row, ensure_ascii=False).encode()
                    yield row
    except (OSError, ValueError, RecursionError):
        raise damaged(path, f"invalid in line {number}") from None


def split_items(path: Path, guard: Guard) -> Iterator[Item]:
    """Yield the items of a run's split file, or nothing if the file does not exist. Raise `AuthorisationError` if the
    items belong to a restricted set whose terms were accepted after the run."""
    if not path.is_file():
        return
    try:
        items = [Item(**{**row, "choices": tuple(row["choices"])}) for row in rows(path, _ITEM)]
    except (ItemError, TypeError):
        raise damaged(path, "contains an invalid item") from None
    guard.refuse_copy(str(path), items)
    yield from items


def released_state(path: Path) -> State:
    """Return the state of a restricted run from its released page. Raise `DataError` if the page has no valid state."""
    try:
        return _STATE.validate_python(json_file(path)["state"])
    except (ValueError, KeyError, TypeError):
        raise damaged(path, "is not a released page") from None


def json_file(path: Path) -> Any:
    """Return the JSON value of a file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise damaged(path, "is not readable JSON") from None


def is_published(path: Path) -> bool:
    """Return whether a `summary.json` belongs to a published page."""
    try:
        tree = json_file(path)
    except DataError:
        return False
    return isinstance(tree, dict) and tree.get("release_level") == "published"


def csv_table(path: Path, *required: str) -> "pd.DataFrame":
    """Read a CSV file of a run with every cell as a string, without the quotes added for spreadsheets. Cells of
    columns other than `item` and `WORDS` are numbers or empty."""
    import numpy as np
    import pandas as pd

    try:
        cells = pd.read_csv(path, dtype=str, keep_default_na=False, encoding_errors="surrogatepass").map(
            original
        )
        cells = cells.replace({"verdict": _FORMER})
        numbers = cells.drop(columns=["item", *WORDS], errors="ignore").apply(pd.to_numeric)
        valid = {"item", *required} <= set(cells) and cells["item"].is_unique and cells["item"].all()
        valid = valid and not np.isinf(numbers.to_numpy(dtype=np.float64)).any()
        valid = valid and all(set(cells[name]) <= _CELLS[name] for name in cells if name in _CELLS)
    except (OSError, ValueError, TypeError, OverflowError):
        valid = False
    if not valid:
        raise damaged(path, "has a missing column, a repeated item, or an impossible cell")
    return cells


def damaged(path: Path, fault: str) -> DataError:
    """Return the error for a damaged or missing file of a run."""
    return DataError(
        f"{path} is missing or {fault}; expected the file as this version of robustify writes it. "
        "If an earlier version wrote it, run `robustify judge` on the run's folder.",
        code="damaged-run-file",
    )
