"""Estimates of the requests, tokens, and cost of each model of a run, before anything is asked.

Requests are planned for a sample of the items and scaled up. Tokens are estimated from the number of characters. A local
model reads each distinct prefix once, whereas a server receives every prompt in full. Cached scores cost nothing but are
not considered here.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from robustify.items.item import Item
from robustify.models.asking import Asking, plan
from robustify.models.engines.settings import ModelSettings
from robustify.models.folder import RECORD, models_folder
from robustify.models.names import KNOWN
from robustify.models.timing import Left

SAMPLE = 200
"""Number of items to plan. The others are assumed to be similar."""
CHARS_A_TOKEN, CHARS_A_BRANCH = 4.3, 3.4
"""Characters per token in complete prompts, and in prompts without shared prefixes. In the demo, two tokenizers had 3.3
and 3.4 for the latter."""
MANY = 5_000
"""Number of requests per model above which the user is warned before a run starts."""


@dataclass(frozen=True, slots=True)
class Need:
    """Estimated requests, tokens, and cost of one model.
    `tokens` is None for a restricted set, and `cost` is None without prices. `megabytes` is the download size of the model
    for `robustify models pull`, or 0 if it is already on this machine. `left` counts the requests that score options and
    are not in the cache, and `seconds` is the time that they take. Both are None if unknown."""

    model: str
    requests: int
    tokens: int | None
    cost: float | None = None
    megabytes: int = 0
    left: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Estimated work of a run, by model."""

    name: str
    items: int
    needs: tuple[Need, ...]

    @property
    def is_long(self) -> bool:
        """Whether the run is long enough to warn the user before it starts."""
        return any(need.requests > MANY for need in self.needs)

    def tree(self) -> dict[str, Any]:
        """Return the forecast as a JSON-compatible object."""
        return {"name": self.name, "items": self.items, "models": list(map(asdict, self.needs))}


def forecast(
    name: str,
    items: Sequence[Item],
    asking: Asking,
    models: Iterable[ModelSettings],
    cache: Path,
    *,
    restricted: bool = False,
) -> Forecast:
    """Return the estimated requests, tokens, and cost of asking these models about these items.
    For a restricted set, no number of tokens is given, because it depends on the texts."""
    some = items[:: max(1, math.ceil(len(items) / SAMPLE))]
    many = len(items) / max(1, len(some))
    order_items = asking.order_items if asking.order_items is None else round(asking.order_items / many)
    planned = plan(some, asking.model_copy(update={"order_items": order_items}))
    whole = [r.context + r.continuation for p in planned for r in p.requests]
    requests, distinct = round(many * len(whole)), round(many * _distinct(whole) / CHARS_A_BRANCH)
    # All letters of a prompt are sent in one request.
    sends = [r.context for p in planned for r in (p.requests[:1] if p.template.by_letter else p.requests)]
    n_sends, sent = round(many * len(sends)), round(many * sum(map(len, sends)) / CHARS_A_TOKEN)
    needs = [
        Need(
            model.name,
            requests,
            sent if model.sends_prompts else distinct,
            model.cost(sent, 0, letters=n_sends),
            megabytes(model.reference, cache),
        )
        for model in models
    ]
    if restricted:
        needs = [replace(need, tokens=None) for need in needs]
    return Forecast(name, len(items), tuple(needs))


def with_words(
    known: Forecast, models: Iterable[ModelSettings], prompts: Sequence[str], most: int
) -> Forecast:
    """Return the forecast plus the cost of prompts that the models answer with at most `most` tokens each."""
    sent, written = round(sum(map(len, prompts)) / CHARS_A_TOKEN), len(prompts) * most
    asked = {model.name: model for model in models}
    needs = []
    for need in known.needs:
        if (model := asked.get(need.model)) is not None:
            cost = model.cost(sent, written)
            need = replace(
                need,
                requests=need.requests + len(prompts),
                tokens=None if need.tokens is None else need.tokens + sent,
                cost=need.cost if need.cost is None or cost is None else need.cost + cost,
            )
        needs.append(need)
    return replace(known, needs=tuple(needs))


def with_left(known: Forecast, left: Mapping[str, Left]) -> Forecast:
    """Return the forecast with what is left to ask of some models, by name."""
    needs = tuple(
        replace(need, requests=one.requests, left=one.left, seconds=one.seconds)
        if (one := left.get(need.model))
        else need
        for need in known.needs
    )
    return replace(known, needs=needs)


def megabytes(reference: str, cache: Path) -> int:
    """Return the download size of a model, or 0 if it is on this machine or does not come from the registry."""
    known = KNOWN.get(reference)
    return 0 if known is None or (models_folder(cache) / known.name / RECORD).is_file() else known.megabytes


def _distinct(texts: Sequence[str]) -> int:
    """Return the number of characters of the texts, counting shared prefixes once."""
    whole = sorted(texts)
    return sum(len(b) - _shared(a, b) for a, b in zip(["", *whole], whole, strict=False))


def _shared(a: str, b: str) -> int:
    """Return the length of the common prefix, by bisection."""
    ends = range(1, min(len(a), len(b)) + 1)
    return bisect_left(ends, True, key=lambda end: a[:end] != b[:end])
