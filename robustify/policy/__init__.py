"""Decide how a set is read, kept and written: public and restricted sets differ here alone."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from robustify.judging.judgement import Judgement
    from robustify.loaders import Loaded
    from robustify.policy.asked import Asked
    from robustify.restricted.access import Access
    from robustify.run import Run


class SetPolicy(Protocol):
    """The one value that knows whether a set is restricted; `pipeline.policy_for` chooses it, once."""

    @property
    def access(self) -> "Access | None":
        """The permission to read a restricted set; None for a public one."""

    @property
    def cache_key(self) -> bytes | None:
        """The key under which scores are kept in the cache; None if they are kept under plain digests."""

    def inside(self, folder: Path) -> AbstractContextManager[None]:
        """Surround everything that is done with the text of the set; results go to `folder`."""

    def read(self) -> "Loaded":
        """Return the items, under the ids that results may hold.
        Raises `AuthorisationError`: a set that calls itself public and is recognised as a sensitive one."""

    def described(self, bench: "Loaded") -> dict[str, Any]:
        """Return what `validate` may say of the set."""

    def features(self, table: dict[str, Any]) -> dict[str, Any]:
        """Return what `heuristics` may say of its table."""

    def asking(self) -> AbstractContextManager[None]:
        """Surround the asking, so that an error says no more of an item than may be said."""

    def write(self, folder: Path, asked: "Asked", judgement: "Judgement") -> "Run":
        """Write the run's folder. Raises `ResourceError`: it cannot be written."""
