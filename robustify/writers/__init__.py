"""How a set is read, kept and written: public and restricted sets differ here alone."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from robustify.judge.judgement import Judgement
    from robustify.loaders import Loaded
    from robustify.restricted.access import Access
    from robustify.run import Run
    from robustify.writers.public import Asked


class RunWriter(Protocol):
    """The one value that knows whether a set is restricted; `pipeline.writer_for` chooses it, once."""

    @property
    def access(self) -> "Access | None":
        """Leave to read a restricted set."""

    @property
    def cache_key(self) -> bytes | None:
        """The key under which scores are kept in the cache; None: under plain digests."""

    @property
    def keeps_vectors(self) -> bool:
        """Whether the vectors of options are kept in the cache."""

    def inside(self, folder: Path) -> AbstractContextManager[None]:
        """What surrounds everything that is done with the text of the set; results go to `folder`."""

    def read(self) -> "Loaded":
        """The items, under the ids that results may hold.
        Raises `AuthorisationError`: a set that calls itself public and is recognised as a sensitive one."""

    def described(self, bench: "Loaded") -> dict[str, Any]:
        """What `validate` may say of the set."""

    def features(self, table: dict[str, Any]) -> dict[str, Any]:
        """What `heuristics` may say of its table."""

    def asking(self) -> AbstractContextManager[None]:
        """What surrounds the asking: an error inside says no more of an item than may be said."""

    def write(self, folder: Path, asked: "Asked", judgement: "Judgement") -> "Run":
        """The run's folder. Raises `ResourceError`: the folder cannot be written."""
