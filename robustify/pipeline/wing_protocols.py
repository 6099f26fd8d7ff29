"""Protocols of the parts that a wing (an optional package) may add to the pipeline: a guard, adapters and a policy for
restricted sets, and free response.

`robustify/wings.py` plugs the wings in, for commands and the Python API.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from robustify.items.item import Item
from robustify.judging import Judgement
from robustify.models.forecast import Forecast
from robustify.pipeline.config import Adapters, Config
from robustify.pipeline.free_settings import FreeSettings
from robustify.pipeline.run_input import RunInput
from robustify.reading.guard import Guard
from robustify.reading.loaders import Loaded
from robustify.runs.run import Run

if TYPE_CHECKING:
    from robustify.judging.free_response import FreeGrades
    from robustify.models.engines.protocols import Watch


class SetPolicy(Protocol):
    """Rules for reading, showing, and writing a set. No other code asks whether a set is restricted."""

    @property
    def config(self) -> Config:
        """Settings of the run."""
        ...

    @property
    def guard(self) -> Guard:
        """Guard that sees all items."""
        ...

    @property
    def identity(self) -> Mapping[str, object]:
        """Fields of run.json that differ only between runs with different sets or secret keys. A public set has none."""
        ...

    @property
    def cache_key(self) -> bytes | None:
        """Subkey of the score cache. It is None if scores are cached under digests without a key."""
        ...

    @property
    def keeps_texts(self) -> bool:
        """Whether anything that contains or depends on the text of single items may be kept."""
        ...

    def inside(self, folder: Path) -> AbstractContextManager[None]:
        """Return a context in which the set is read, models are asked, and the run is written."""
        ...

    def read(self) -> Loaded:
        """Load the items of the config's files. Raise `AuthorisationError` if the guard refuses them."""
        ...

    def require_public(self) -> None:
        """Raise `AuthorisationError` for a restricted set."""
        ...

    def notes(self, bench: Loaded) -> Sequence[str]:
        """Return the notes on how the data were read, if they may be shown."""
        ...

    def first_page(self, folder: Path, forecast: Forecast) -> Callable[[Judgement], None] | None:
        """Return a function that writes a preliminary report during a long run, or None."""
        ...

    def write(self, folder: Path, run_input: RunInput, judgement: Judgement) -> Run:
        """Write the run's folder. Raise `ResourceError` if it cannot be written."""
        ...


class FreeAnswers(Protocol):
    """Models' answers in words to the questions of one run."""

    def ask(self, name: str, model: object, watch: "Watch") -> None:
        """Ask a loaded model the questions, unless it cannot generate text or was not selected."""
        ...

    def graded(self, watch: "Watch") -> "FreeGrades":
        """Return the graded answers of all models."""
        ...


class FreeStep(Protocol):
    """Step that asks models the questions without options."""

    def require_free(self, settings: FreeSettings, models: Sequence[str]) -> None:
        """Check the `free:` block before any model is asked. Raise `UsageError` or `DataError` if it cannot work."""
        ...

    def prompts_in_words(self, settings: FreeSettings, items: Sequence[Item]) -> list[str]:
        """Return the prompts that each model receives."""
        ...

    def start(
        self, settings: FreeSettings, items: Sequence[Item], cache: Path, *, restricted: bool
    ) -> FreeAnswers:
        """Convert the items to questions, and read answers from the files that the settings name."""
        ...


@dataclass(frozen=True, slots=True)
class Wings:
    """Parts that the wings add to the pipeline.

    `restricted` returns the policy of a restricted set for a config and an output folder (None if nothing is written), or
    None for a public set. `free` imports the step of free response.
    """

    guard: Guard
    adapters: Adapters
    restricted: Callable[[Config, Path | None, Guard], SetPolicy | None]
    free: Callable[[], FreeStep]
