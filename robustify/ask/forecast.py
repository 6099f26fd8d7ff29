"""What asking will take, before anything is asked: requests, tokens, seconds and cost, for each model of a run.

It is an estimate. Requests are planned for a sample of the items and scaled up; tokens are characters over
a constant, each distinct beginning once where a model runs here, every prompt whole where a server is sent it; the
machine's speed is that of a matrix product done now. What the score cache holds costs nothing and is not known here.
"""

import json
import math
import timeit
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import assert_never

from robustify.ask import Asking, plan
from robustify.engines import Runnable
from robustify.engines.settings import HFModel, OpenAIModel, RayModel, VLLMModel
from robustify.item import Item
from robustify.logs.replay import ReplayModel
from robustify.models.folder import RECORD, models_folder
from robustify.models.names import KNOWN

SAMPLE = 200
"""Items that are planned; the others are taken to be like them."""
CHARS_A_TOKEN, CHARS_A_BRANCH = 4.3, 3.4
"""Characters of a token in whole prompts; and in what is left once shared beginnings are taken off, which ends sooner
(the demo's: 3.3 for one tokenizer and 3.4 for another)."""
SHARE = 0.6
"""Of the rate of a large matrix product, what scoring reaches with batches, attention and the interpreter around it."""
SOON = 60.0
"""Seconds that nobody needs to be warned of."""
MANY = 5_000
"""Requests that may take long on any machine."""
A_REPLY = 1.0
"""Seconds that a server takes for one request, where nothing is known of it."""
_SIDE = 1024


@dataclass(frozen=True, slots=True)
class Need:
    """What one model takes. `tokens` None: not said (a restricted set), `seconds` None: unknown for its device, `cost`
    None: no prices are known; `megabytes` are fetched first by `robustify models pull`, 0 where it is here."""

    model: str
    requests: int
    tokens: int | None
    seconds: float | None
    cost: float | None = None
    megabytes: int = 0


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run takes: of a benchmark of so many items, by model."""

    name: str
    items: int
    needs: tuple[Need, ...]

    @property
    def is_long(self) -> bool:
        """Whether somebody should know before it begins: over a minute, or of unknown time and many requests."""
        if self.seconds is None:
            return any(need.requests > MANY for need in self.needs)
        return self.seconds > SOON

    @property
    def seconds(self) -> float | None:
        """Of all models, one after the other; None where one of them is unknown."""
        each = [need.seconds for need in self.needs]
        return None if None in each else math.fsum(s for s in each if s is not None)

    def tree(self) -> dict[str, Any]:
        """As a JSON-able object."""
        return {
            "name": self.name,
            "items": self.items,
            "seconds": self.seconds,
            "models": list(map(asdict, self.needs)),
        }


@dataclass(frozen=True, slots=True)
class _Work:
    """Requests, tokens of distinct beginnings, what a server is sent (letters of one prompt together), its tokens."""

    requests: int
    distinct: int
    sends: int
    sent: int


def forecast(
    name: str,
    items: Sequence[Item],
    asking: Asking,
    models: Iterable[Runnable | ReplayModel],
    heads: Sequence[str],
    cache: Path,
    *,
    restricted: bool = False,
) -> Forecast:
    """What these models take to be asked these items; replayed logs take nothing. `heads`: models whose option vectors
    are computed too, with a control. Of a restricted set no number of tokens is given: it depends on its texts."""
    work = _work(items, asking)
    vectors = 2 * round(sum(len(c) for item in items for c in item.choices) / CHARS_A_TOKEN) if heads else 0
    needs: list[Need] = []
    rate = 0.0
    for model in models:
        match model:
            case OpenAIModel():
                needs.append(_served(model, work))
            case HFModel() | RayModel() | VLLMModel():
                rate = rate or flops()
                tokens = work.distinct + (vectors if model.name in heads else 0)
                here = isinstance(model, HFModel) and model.device == "cpu"
                size = parameters(model.reference) if here else None
                seconds = None if size is None else 2 * size * tokens / (SHARE * rate)
                fetch = megabytes(model.reference, cache)
                needs.append(Need(model.name, work.requests, tokens, seconds, None, fetch))
            case ReplayModel():
                pass
            case _:
                assert_never(model)
    if restricted:
        needs = [replace(need, tokens=None) for need in needs]
    return Forecast(name, len(items), tuple(needs))


def _work(items: Sequence[Item], asking: Asking) -> _Work:
    some = items[:: max(1, math.ceil(len(items) / SAMPLE))]
    many = len(items) / max(1, len(some))
    order_items = asking.order_items if asking.order_items is None else round(asking.order_items / many)
    planned = plan(some, asking.model_copy(update={"order_items": order_items}))
    whole = [r.context + r.continuation for p in planned for r in p.requests]
    sends = [r.context for p in planned for r in (p.requests[:1] if p.template.by_letter else p.requests)]
    return _Work(
        round(many * len(whole)),
        round(many * _distinct(whole) / CHARS_A_BRANCH),
        round(many * len(sends)),
        round(many * sum(map(len, sends)) / CHARS_A_TOKEN),
    )


def _distinct(texts: Sequence[str]) -> int:
    """Characters of these texts, those that several begin with alike once."""
    whole = sorted(texts)
    return sum(len(b) - _shared(a, b) for a, b in zip(["", *whole], whole, strict=False))


def _shared(a: str, b: str) -> int:
    """How many characters two texts begin with alike."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _served(model: OpenAIModel, work: _Work) -> Need:
    cost = None
    if model.price_in is not None:
        # A letter is one token, as a reply in JSON about eight.
        out = 8 * model.samples if model.samples else 1
        cost = (work.sent * model.price_in + out * work.sends * (model.price_out or 0.0)) / 1e6
    return Need(model.name, work.requests, work.sent, work.sends / model.concurrency * A_REPLY, cost)


def megabytes(reference: str, cache: Path) -> int:
    """What is fetched before this model can be asked; 0 where it is here, or comes from elsewhere than the registry."""
    known = KNOWN.get(reference)
    return 0 if known is None or (models_folder(cache) / known.name / RECORD).is_file() else known.megabytes


def parameters(reference: str) -> int | None:
    """Numbers that a model consists of; None where that is not known without loading or fetching it."""
    if (known := KNOWN.get(reference)) is not None:
        return known.parameters
    folder = Path(reference).expanduser()
    try:
        return sum(_numbers(file) for file in folder.glob("*.safetensors")) or None
    # A damaged header: what is wrong with the model is said where it is loaded.
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None


def _numbers(file: Path) -> int:
    """How many numbers a file of safetensors holds, by its header."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header: Mapping[str, Any] = json.loads(stream.read(min(length, 1 << 26)))
    return sum(math.prod(one["shape"]) for name, one in header.items() if name != "__metadata__")


def flops() -> float:
    """Operations a second of a float32 matrix product on this machine, the best of three."""
    a = np.ones((_SIDE, _SIDE), dtype=np.float32)
    seconds = min(timeit.repeat(lambda: np.matmul(a, a), number=1, repeat=3))
    return float(2 * _SIDE**3 / max(seconds, 1e-6))
