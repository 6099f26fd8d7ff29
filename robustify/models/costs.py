"""Estimate the requests, tokens, cost, and time of each model of a run, before anything is asked.

Requests are planned for a sample of the items, and tokens estimated from characters. A local model is timed for a few
seconds, whose scores the cache keeps. Speeds are remembered in the cache folder, as numbers without any text.
"""

import hashlib
import json
import math
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from robustify.base.files import write_json
from robustify.base.redaction import muted
from robustify.items.item import Item
from robustify.items.views import Asking
from robustify.models.asking import Planned, plan
from robustify.models.engines.protocols import Progress, Scorer
from robustify.models.folder import RECORD, models_folder
from robustify.models.forecast import CHARS_A_BRANCH, CHARS_A_TOKEN, Forecast, Need, Remaining
from robustify.models.model_settings import ModelSettings
from robustify.models.names import KNOWN

SAMPLE = 200
"""Number of items to plan. The others are assumed to be similar."""

SECONDS = 5.0
"""Time for which a local model is measured."""
_PROBE = 500
"""Number of characters of the question of a probe."""
_SAMPLE = 64
"""Number of questions in a measurement, spread over the plan."""
_FEWEST = 20
"""Number of scored requests from which a speed is remembered."""
SPEEDS = "speeds.json"


def forecast(
    name: str,
    items: Sequence[Item],
    asking: Asking,
    models: Iterable[ModelSettings],
    cache: Path,
    *,
    restricted: bool = False,
) -> Forecast:
    """Return the estimated requests, tokens, and cost of asking these models about these items. For a restricted set, no
    number of tokens is given, because it depends on the text."""
    sample = items[:: max(1, math.ceil(len(items) / SAMPLE))]
    factor = len(items) / max(1, len(sample))
    order_items = asking.order_items if asking.order_items is None else round(asking.order_items / factor)
    planned = plan(sample, asking.model_copy(update={"order_items": order_items}))
    texts = [request.context + request.continuation for p in planned for request in p.requests]
    requests, n_branch_tokens = round(factor * len(texts)), round(factor * _distinct(texts) / CHARS_A_BRANCH)
    # All letters of a prompt are sent in one request.
    prompts = [
        request.context
        for p in planned
        for request in (p.requests[:1] if p.template.by_letter else p.requests)
    ]
    n_prompts, n_prompt_tokens = (
        round(factor * size) for size in (len(prompts), sum(map(len, prompts)) / CHARS_A_TOKEN)
    )
    longest = max(map(len, prompts), default=0)

    def need(model: ModelSettings) -> Need:
        # A probe is at most as long as the longest prompt and a question.
        n_sent_tokens = n_prompt_tokens + round(model.probes * (longest + _PROBE) / CHARS_A_TOKEN)
        cost = model.cost(n_sent_tokens, 0, letters=n_prompts + model.probes)
        tokens = n_sent_tokens if model.sends_prompts else n_branch_tokens
        return Need(model.name, requests, tokens, cost, megabytes(model.reference, cache), model.probes)

    needs = list(map(need, models))
    if restricted:
        needs = [replace(need, tokens=None) for need in needs]
    return Forecast(name, len(items), tuple(needs))


def megabytes(reference: str, cache: Path) -> int:
    """Return the size in MB of a model's download, or 0 if nothing must be downloaded from the registry."""
    model = KNOWN.get(reference)
    return 0 if model is None or (models_folder(cache) / model.name / RECORD).is_file() else model.megabytes


def _distinct(texts: Sequence[str]) -> int:
    """Return the number of characters of the texts, counting shared prefixes once."""
    ordered = sorted(texts)
    return sum(len(b) - _common_prefix(a, b) for a, b in zip(["", *ordered], ordered, strict=False))


def _common_prefix(a: str, b: str) -> int:
    ends = range(1, min(len(a), len(b)) + 1)
    return bisect_left(ends, True, key=lambda end: a[:end] != b[:end])


class _EnoughError(Exception):
    """Raised in a progress callback to end a measurement."""


class Stopwatch:
    """Progress callback that measures the seconds per request. The first call counts the requests that the cache answers.
    With `limit`, it ends the work with an exception after that many seconds."""

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
        """Seconds between the first and the latest call."""
        return self._latest - self._start

    @property
    def pace(self) -> float | None:
        """Seconds per request, or None if too few requests were scored."""
        return self.seconds / self.done if self.done >= _FEWEST else None


def remaining_requests(
    scorer: Scorer, planned: Sequence[Planned], model: ModelSettings, cache: Path
) -> Remaining:
    """Count the requests that a model has not answered, and estimate their time. Raise the errors of `Scorer`."""
    n_requests = sum(len(question.requests) for question in planned)
    n_unanswered = n_requests - _n_cached(scorer, planned)
    if n_unanswered and not model.sends_prompts:
        sample = planned[:: max(1, len(planned) // _SAMPLE)]
        store_pace(_run_until(scorer, sample, SECONDS), model, cache)
        n_unanswered = n_requests - _n_cached(scorer, planned)
    pace = _stored_paces(cache).get(_pace_key(model)) if n_unanswered else 0.0
    return Remaining(n_requests, n_unanswered, None if pace is None else n_unanswered * pace)


def store_pace(watch: Stopwatch, model: ModelSettings, cache: Path) -> None:
    """Store the seconds per request of a model in the cache folder, if enough requests were scored."""
    if watch.pace is not None:
        with suppress(OSError):
            write_json(cache / SPEEDS, {**_stored_paces(cache), _pace_key(model): float(f"{watch.pace:.2g}")})


def _n_cached(scorer: Scorer, planned: Sequence[Planned]) -> int:
    return max(0, _run_until(scorer, planned, 0.0).cached)


def _run_until(scorer: Scorer, planned: Sequence[Planned], seconds: float) -> Stopwatch:
    watch = Stopwatch(limit=seconds)
    with suppress(_EnoughError), muted():
        scorer.loglikelihoods([request for question in planned for request in question.requests], watch)
    return watch


def _pace_key(model: ModelSettings) -> str:
    """Return a digest that identifies the model, so that a server's host name is never written to a file."""
    return hashlib.sha256(f"{model.name}\0{model.identity}".encode()).hexdigest()[:16]


def _stored_paces(cache: Path) -> dict[str, float]:
    with suppress(OSError, ValueError):
        tree = json.loads((cache / SPEEDS).read_text(encoding="utf-8"))
        if isinstance(tree, dict):
            return {name: pace for name, pace in tree.items() if isinstance(pace, float) and pace > 0}
    return {}
