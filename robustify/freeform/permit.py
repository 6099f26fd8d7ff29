"""Permission to read and write rows of free response, required by every command before a model or a judge is opened.

A restricted set needs the four facts of its adapter, items that have this set's keyed ids, and a process without crash
dumps. Rows that are labelled public are checked by their content.
"""

import contextlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from robustify.errors import AuthorisationError, ItemError
from robustify.freeform.released import MIN_CELL, cell, coarse, prepared, share
from robustify.freeform.schema import FreeItem, GradeResult
from robustify.item import MOST, Item
from robustify.restricted.access import Access, authorised
from robustify.restricted.confinement import confined
from robustify.restricted.ids import item_id
from robustify.restricted.recognition import require_ordinary_files

_OTHER = "another text"


@dataclass(frozen=True, slots=True)
class Permit:
    """Permission for the rows of one set, and what may be shown of them: of a public set everything, as it is.

    `min_cell` is the smallest count that is shown, `seal` the subkey for digests of a restricted set's text.
    """

    adapter: str = ""
    min_cell: int = MIN_CELL
    seal: bytes | None = field(default=None, repr=False)

    @property
    def restricted(self) -> bool:
        """Whether the set is restricted."""
        return self.seal is not None

    def count(self, n: int) -> int | str:
        """A count."""
        return cell(n, self.min_cell) if self.restricted else n

    def share(self, x: float, n: int) -> float | None:
        """A share of n."""
        return share(x, n, self.min_cell) if self.restricted else x

    def prepared(self, counts: dict[str, Any]) -> dict[str, Any]:
        """How many items can be asked without options, and why the others cannot."""
        return prepared(counts, self.min_cell) if self.restricted else counts

    def result(self, tree: Any) -> Any:
        """Any other result."""
        return coarse(tree, self.min_cell) if self.restricted else tree


@dataclass(frozen=True, slots=True)
class _Set:
    name: str
    adapter: str | None
    sensitivity: str = "restricted"


@contextlib.contextmanager
def permitted(
    items: Sequence[FreeItem], files: Sequence[Path], folder: Path, grades: Sequence[GradeResult] = ()
) -> Iterator[Permit]:
    """Permission to read these rows, which come from `files`, and to write into `folder`.

    Inside, a restricted set's process is `confined`.

    Raises:
        AuthorisationError: rows of several sets.
        AuthorisationError: a restricted set without one of its four facts, items that are not that set's under this
            key, or a public label on content that is recognised as sensitive.
    """
    labels = {(i.restricted, i.adapter) for i in items} | {(g.restricted, g.adapter) for g in grades}
    if len(labels) > 1:
        raise AuthorisationError(f"rows: of {len(labels)} sets or labels; expected those of one set alone")
    restricted, adapter = next(iter(labels), (False, ""))
    if not restricted:
        require_ordinary_files("items", [_as_item(item) for item in items], files)
        yield Permit()
        return
    access = authorised(_Set(adapter or "free", adapter or None), folder)
    assert access is not None
    _require_its_own(items, access)
    with inside(access, folder) as permit:
        yield permit


def require_adapter(name: str) -> NoReturn:
    """Refuse `--restricted` for a set without an adapter.

    Raises:
        AuthorisationError: always.
    """
    raise AuthorisationError(
        f"{name}: --restricted, but it is no set with an adapter of a restricted set; expected a config with "
        "`adapter: NAME` (robustify adapter list; robustify adapter new): nothing was written"
    )


@contextlib.contextmanager
def inside(access: Access | None, folder: Path) -> Iterator[Permit]:
    """A confined process for a restricted set, which may write into `folder`; of a public one the process as it is."""
    if access is None:
        yield Permit()
        return
    with confined(folder):
        yield Permit(access.manifest.id, access.manifest.min_cell, access.key.derived("free"))


def _require_its_own(items: Sequence[FreeItem], access: Access) -> None:
    manifest, key = access.manifest, access.key.derived("ids")
    other = sum(not _its_own(item, key, manifest.id, manifest.version) for item in items)
    if other:
        raise AuthorisationError(
            f"{manifest.id}: {other} of {len(items)} items do not have the ids of this set under the key {access.key_id}; "
            "expected the file of `robustify free prepare`, unchanged, and the key it was made with"
        )


def _its_own(item: FreeItem, key: bytes, name: str, version: str) -> bool:
    try:
        expected = item_id(key, name, version, item.question, item.options)
    except ItemError:
        return False
    return hmac.compare_digest(expected.encode(), item.id.encode("utf-8", "surrogatepass"))


def _as_item(item: FreeItem) -> Item:
    """As the detection reads it. An item that never had options gets its reference and a neutral text."""
    choices = item.options if 2 <= len(item.options) <= MOST else (item.reference, _OTHER)
    return Item(item.id, item.question, choices, 0)
