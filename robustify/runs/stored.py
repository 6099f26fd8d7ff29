"""Typed reader of the files of a run. A value that robustify would not have written is refused.

Errors name the file with its line, field, or column, but no value, because a value may be item text.
"""
# pandas has no type hints.
# mypy: disable-error-code="import-untyped"

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from robustify.base.errors import DataError, ItemError
from robustify.base.files import original
from robustify.items.item import MOST, Item
from robustify.judging.summary.screened import CUES, CueCode

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
FORMAT = 1
WORDS = ("topic", "verdict", "reason", "cloze_excluded", "picked_by", "cue")
"""Columns of `verdicts.csv` without numbers."""
_Verdict = Literal["robust", "shortcut", "undecided"]
_Name = Annotated[str, Field(min_length=1)]
_Place = Annotated[int, Field(ge=0, lt=MOST)]
_Span = Annotated[list[int], Field(min_length=2, max_length=2)]


class _Row(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, hide_input_in_errors=True)


class _ItemRow(_Row, extra="forbid"):
    id: _Name
    stem: str
    choices: list[str]
    key: int
    topic: str = ""
    group: str = ""


class _Cue(_Row):
    cue: CueCode
    adds: float | None = None
    says: str = ""


class _Unpicked(_Row):
    item: _Name
    verdict: _Verdict
    key: int
    votes: dict[str, _Place | None]
    alike: str | None = None
    likeness: dict[str, float | None] = {}
    inferred: bool | None = None
    p_key: float | None
    pick: None


class _Picked(_Unpicked):
    pick: _Place  # type: ignore[assignment]
    p_pick: float
    chance: float | None
    posterior: float | None
    p_shortcut: float | None
    voters: list[str]
    cues: list[_Cue]
    adds: dict[CueCode, float]
    features: dict[str, float] = {}


class _Defect(_Row):
    kind: str
    item: str


class _Config(_Row):
    name: str


class _PublicConfig(_Config):
    data: list[dict[str, Any]]
    hidden: str = "question"


class _Data(_Row):
    n_items: int
    layout: str


class _PublicData(_Data):
    sha256: str
    quarantined: list[dict[str, Any]]
    defects: list[_Defect]
    lines: list[_Span] = []
    notes: list[str] = []


class _From(_Row):
    source: str | None = Field(alias="from")
    left_out: int


class _Import(_Row):
    formats: str
    items: _From


class _Release(_Row):
    min_cell: int


class _Free(_Row):
    calibration: dict[str, Any]
    left_out: dict[str, int]


class RestrictedManifest(_Row):
    """Required parts of the `run.json` of any run."""

    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    files: dict[str, str]
    config: _Config
    models: dict[str, dict[str, Any]]
    templates: dict[str, str]
    signature: str
    data: _Data
    origin: _Import | None = Field(default=None, alias="import")
    release: _Release | None = None
    free: _Free | None = None


class Manifest(RestrictedManifest):
    """Required parts of the `run.json` of a public run."""

    config: _PublicConfig
    data: _PublicData


_EVIDENCE: TypeAdapter[Any] = TypeAdapter(_Picked | _Unpicked)
_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


def evidence(path: Path) -> list[dict[str, Any]]:
    """Return the rows of `evidence.jsonl`."""

    def checked(row: Any) -> dict[str, Any]:
        _EVIDENCE.validate_python(row)
        return dict(row)

    return list(_rows(path, checked))


def json_objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file of a run."""
    return _rows(path, _OBJECT.validate_python)


def split_items(path: Path) -> Iterator[Item]:
    """Yield the items of a run's split file, or nothing if the file does not exist."""

    def item(row: Any) -> Item:
        cells = _ItemRow.model_validate(row)
        return Item(cells.id, cells.stem, tuple(cells.choices), cells.key, cells.topic, group=cells.group)

    return _rows(path, item) if path.is_file() else iter(())


def _rows(path: Path, read: Callable[[Any], T]) -> Iterator[T]:
    """Yield the rows of a JSON Lines file, each converted by `read`, which raises `ValueError` or `ItemError`."""
    number = 0
    try:
        with path.open(encoding="utf-8", errors="surrogatepass", newline="\n") as lines:
            for line in lines:
                number += 1
                if line.strip():
                    yield read(json.loads(line))
    except (OSError, ValueError, RecursionError, ItemError):
        raise damaged(path, f"invalid in line {number}") from None


def json_file(path: Path) -> Any:
    """Return the JSON value of a file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise damaged(path, "is not readable JSON") from None


def verdict_table(path: Path) -> "pd.DataFrame":
    """Return `verdicts.csv` with every cell as text, without the quotes added for spreadsheets."""
    table = _table(path)
    if not {"item", "topic", "verdict"} <= set(table):
        raise damaged(path, "has no column item, topic, or verdict")
    odd = set(table["verdict"]) - set(get_args(_Verdict)) | set(table.get("cue", ())) - {*CUES, ""}
    odd |= set(table.get("pick", ())) - {"", *map(str, range(MOST))}
    if odd or not table["item"].is_unique or not table["item"].all():
        raise damaged(path, "has an unknown verdict, pick, or cue, or an ID that is missing or repeated")
    _require_numbers(path, table.drop(columns=["item", *WORDS], errors="ignore"))
    return table


def weight_table(path: Path) -> "pd.DataFrame":
    """Return `weights.csv`, whose columns other than `item` are numbers, NaN for an empty cell."""
    table = _table(path)
    if not {"item", "adjusted_weight"} <= set(table):
        raise damaged(path, "has no column item or adjusted_weight")
    numbers = _require_numbers(path, table.drop(columns="item"))
    return numbers.assign(item=table["item"])


def _table(path: Path) -> "pd.DataFrame":
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding_errors="surrogatepass")
    except (OSError, ValueError):
        raise damaged(path, "is unreadable") from None
    return table.map(original)


def _require_numbers(path: Path, cells: "pd.DataFrame") -> "pd.DataFrame":
    import numpy as np
    import pandas as pd

    try:
        numbers = cells.apply(pd.to_numeric).astype(np.float64)
    except (ValueError, TypeError):
        raise damaged(path, "has a cell that is not a number") from None
    if np.isinf(numbers.to_numpy()).any():
        raise damaged(path, "has a number without bounds")
    return numbers


def damaged(path: Path, how: str) -> DataError:
    """Return the error for a file of a run that is not as robustify wrote it."""
    return DataError(f"{path} is missing or {how}; expected the file as written by robustify")


def is_manifest(tree: object, model: type[RestrictedManifest]) -> bool:
    """Return whether a tree has the required parts of `run.json`."""
    try:
        model.model_validate(tree)
    except (ValidationError, RecursionError):
        return False
    return True
