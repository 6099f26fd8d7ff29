"""Documents of a harness's task, by which the rows of its logs are recognized, whatever their columns are called."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TaskDocument:
    """Digest of a document's content, its number in the task, and its target, at the `line` of the set's rows."""

    line: int
    digest: str
    number: str
    target: str

    @classmethod
    def from_row(cls, line: int, row: Mapping[str, Any]) -> "TaskDocument":
        """Return the document of a row of lm-eval."""
        return cls(line, _digest(row.get("doc")), str(row.get("doc_id")), str(row.get("target")))

    @property
    def place(self) -> tuple[str, str]:
        """Number and target, which recognize a document that was logged in another form."""
        return self.number, self.target


def _digest(document: object) -> str:
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
