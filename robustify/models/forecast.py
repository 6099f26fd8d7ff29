"""Forecast of a run: requests, tokens, and cost of each model, and the remaining part of an interrupted run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from robustify.models.model_settings import ModelSettings

CHARS_A_TOKEN, CHARS_A_BRANCH = 4.3, 3.4
"""Characters per token in complete prompts, and in prompts without shared prefixes. In the demo, two tokenizers had 3.3
and 3.4 for the latter."""
MANY = 5_000
"""Number of requests per model above which the user is warned before a run starts."""


class Remaining(NamedTuple):
    """Numbers of planned and unanswered requests of a model. Unanswered requests take `seconds`, or None if unknown."""

    requests: int
    n_unanswered: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Need:
    """Estimated requests, tokens, and cost of one model. Tokens of a restricted set and a cost without prices are None.
    `megabytes` is the size of the model's download, or 0 if the model is here. At most `probes` requests test its servers.
    `left` requests are not in the cache and take `seconds`, or None if unknown."""

    model: str
    requests: int
    tokens: int | None
    cost: float | None = None
    megabytes: int = 0
    probes: int = 0
    left: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Estimated work of a run, for each of its models."""

    name: str
    items: int
    needs: tuple[Need, ...]
    bfloat16_options: int = 0
    """Number of options that the sentence encoder would embed faster in bfloat16."""

    @property
    def is_long(self) -> bool:
        """Whether the run is long enough to warn the user before it starts."""
        return any(need.requests > MANY for need in self.needs)

    def tree(self) -> dict[str, Any]:
        """Return the forecast as a JSON-compatible object."""
        more = {"bfloat16_options": self.bfloat16_options} if self.bfloat16_options else {}
        return {"name": self.name, "items": self.items, "models": list(map(asdict, self.needs)), **more}


def with_words(
    base: Forecast, models: "Iterable[ModelSettings]", prompts: Sequence[str], max_tokens: int
) -> Forecast:
    """Return the forecast plus the cost of prompts that the models answer with at most `max_tokens` tokens each."""
    n_prompt_tokens, n_written = round(sum(map(len, prompts)) / CHARS_A_TOKEN), len(prompts) * max_tokens
    writers = {model.name: model for model in models}
    needs = []
    for need in base.needs:
        if (model := writers.get(need.model)) is not None:
            cost = model.cost(n_prompt_tokens, n_written)
            need = replace(
                need,
                requests=need.requests + len(prompts),
                tokens=None if need.tokens is None else need.tokens + n_prompt_tokens,
                cost=need.cost if need.cost is None or cost is None else need.cost + cost,
            )
        needs.append(need)
    return replace(base, needs=tuple(needs))


def with_remaining(base: Forecast, remaining: Mapping[str, Remaining]) -> Forecast:
    """Return a copy of the forecast with each model's remaining requests. `remaining` is keyed by model name."""
    needs = list(base.needs)
    for i, need in enumerate(needs):
        if (counts := remaining.get(need.model)) is not None:
            requests, n_unanswered, seconds = counts
            needs[i] = replace(need, requests=requests, left=n_unanswered, seconds=seconds)
    return replace(base, needs=tuple(needs))
