"""Interface of the guard that refuses items of restricted sets. `restricted/recognition.py` implements it.

Every loader, import, and opening of a run requires a guard, without a default, so that none can forget it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from robustify.base.errors import DataError, UsageError
from robustify.items.item import Item

if TYPE_CHECKING:
    from robustify.reading.loaders.loaded import Loaded, Source


class Guard(Protocol):
    """Guard that recognizes restricted sets by names, files, and items. Methods raise `AuthorisationError`."""

    def require_unrestricted(self, name: str, words: Iterable[str], files: Iterable[Path]) -> None:
        """Accept a harness's set before it is fetched, by the words in its name and the files of its task."""
        ...

    def require_ordinary(
        self, bench: "Loaded", sources: Sequence["Source"], adapter: str | None, names: Iterable[str]
    ) -> None:
        """Accept a loaded set, unless its items, files, or `names` look restricted and its adapter has no attestation."""
        ...

    def require_ordinary_files(
        self,
        name: str,
        items: Sequence[Item],
        files: Iterable[Path],
        names: Iterable[str] = (),
        ids: Iterable[str] = (),
    ) -> None:
        """Accept items that come from a log or another additional file, or only their `ids` if the texts are unknown. An
        attestation does not lift the refusal."""
        ...

    def require_ordinary_names(self, file: Path) -> None:
        """Accept a file that cannot be read as items, before a message shows names of its columns."""
        ...

    def refuse_copy(self, name: str, items: Sequence[Item]) -> None:
        """Accept the items of an earlier run, unless the terms of their set were accepted since then."""
        ...


class _Unguarded:
    """Guard that accepts all files, but no set given by name."""

    def require_unrestricted(self, name: str, words: Iterable[str], files: Iterable[Path]) -> None:
        raise UsageError(
            f"{name}: expected a file, because only public sets of items can be given by name",
            code="file-expected",
        )

    def _accept(self, *_: object, **__: object) -> None: ...

    require_ordinary = require_ordinary_files = require_ordinary_names = refuse_copy = _accept


@contextmanager
def asking(guard: Guard, *files: Path) -> Iterator[None]:
    """Ask the guard about files that the enclosed code cannot read, before the error is shown."""
    try:
        yield
    except (DataError, UsageError):
        for file in files:
            guard.require_ordinary_names(file)
        raise


UNGUARDED: Guard = _Unguarded()
"""For a restricted set whose requirements are met, and for reading back what was just written. A test lists its users."""
