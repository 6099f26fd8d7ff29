"""How long models take on this machine, so that a forecast can say minutes.

A local model is measured: it scores a few items for a few seconds, and the cache keeps these scores. A server is not asked
before a run. Speeds are remembered in the cache folder, as numbers without any text.
"""

import hashlib
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from robustify.base.files import write_json
from robustify.base.redaction import muted
from robustify.models.asking import Planned
from robustify.models.engines.protocols import Progress, Scorer
from robustify.models.engines.settings import ModelSettings

SECONDS = 5.0
"""Time for which a local model is measured."""
_SAMPLE = 64
"""Number of questions in a measurement, spread over the plan."""
_FEWEST = 20
"""Number of scored requests from which a speed is remembered."""
FILE = "speeds.json"


@dataclass(frozen=True, slots=True)
class Left:
    """Planned and unanswered requests of a model, and the seconds that they take, or None if unknown."""

    requests: int
    left: int
    seconds: float | None


class _EnoughError(Exception):
    """Ends a measurement from within its progress callback."""


class Stopwatch:
    """Progress callback that measures the seconds per request. The first call counts the requests that the cache answers.
    With `limit`, it ends the work by an exception after that many seconds."""

    def __init__(self, shown: Progress | None = None, limit: float | None = None) -> None:
        self._shown, self._limit = shown, limit
        self._start, self._latest, self.done, self.cached = 0.0, 0.0, 0, -1

    def __call__(self, n: int) -> None:
        """Count finished requests."""
        self._latest = time.monotonic()
        if self.cached < 0:
            self.cached, self._start = n, self._latest
        else:
            self.done += n
        if self._shown is not None:
            self._shown(n)
        if self._limit is not None and self.seconds >= self._limit:
            raise _EnoughError

    @property
    def seconds(self) -> float:
        """Time since the first call."""
        return self._latest - self._start

    @property
    def pace(self) -> float | None:
        """Seconds per request, or None if too few were scored."""
        return self.seconds / self.done if self.done >= _FEWEST else None


def left_of(scorer: Scorer, planned: Sequence[Planned], model: ModelSettings, cache: Path) -> Left:
    """Return what is left to ask of a model, and how long it takes. Raise the errors of `Scorer.loglikelihoods`."""
    every = [request for one in planned for request in one.requests]
    left = len(every) - max(0, _until(scorer, planned, 0.0).cached)
    if left and not model.sends_prompts:
        remember(_until(scorer, planned[:: max(1, len(planned) // _SAMPLE)], SECONDS), model, cache)
    pace = _remembered(cache).get(_name(model)) if left else 0.0
    return Left(len(every), left, None if pace is None else left * pace)


def remember(watch: Stopwatch, model: ModelSettings, cache: Path) -> None:
    """Store the pace of a model in the cache folder, if enough requests were scored."""
    if watch.pace is not None:
        with suppress(OSError):
            write_json(cache / FILE, {**_remembered(cache), _name(model): float(f"{watch.pace:.2g}")})


def _until(scorer: Scorer, planned: Sequence[Planned], seconds: float) -> Stopwatch:
    watch = Stopwatch(limit=seconds)
    with suppress(_EnoughError), muted():
        scorer.loglikelihoods([request for one in planned for request in one.requests], watch)
    return watch


def _name(model: ModelSettings) -> str:
    """Return a digest, because no file contains the host of a server."""
    return hashlib.sha256(f"{model.name}\0{model.identity}".encode()).hexdigest()[:16]


def _remembered(cache: Path) -> dict[str, float]:
    with suppress(OSError, ValueError):
        read = json.loads((cache / FILE).read_text(encoding="utf-8"))
        if isinstance(read, dict):
            return {name: pace for name, pace in read.items() if isinstance(pace, float) and pace > 0}
    return {}
