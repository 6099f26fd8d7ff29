"""What a user says about a benchmark file: where it lies and, if need be, how its fields are called.

Settings only: nothing here opens a file, and an unknown name is refused.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

KeyKind = Literal["auto", "index", "number", "letter", "label", "text"]
"""How a key names its choice: `index` counts from 0, `number` from 1, `label` is the choice's own label."""


class FieldMap(BaseModel):
    """The names of the fields that make an item. What is left out is recognised by its usual names.

    `choices` is one field that holds a list, or a list of fields that hold one choice each. A dot steps into
    an object (`question.stem`). `passage` is a text that several stems share; it is put before the stem.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: str | None = None
    stem: str | None = None
    choices: str | tuple[str, ...] | None = None
    key: str | None = None
    key_is: KeyKind = "auto"
    topic: str | None = None
    passage: str | None = None


class Source(BaseModel):
    """One file (or Arrow folder) of a benchmark. `path` is resolved by the caller."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    path: str
    layout: str | None = None
    """None: recognised by content."""
    fields: FieldMap | None = None
    topic: str | None = None
    """One topic for the whole file; None: the file's own."""
    name: str | None = None
    """The benchmark's name; None: the stem of the file's name."""
    sha256: str | None = None
    """The digest the data must have."""
    skip_bad: bool = False
    """Set rows aside that cannot be items, instead of refusing the file."""
