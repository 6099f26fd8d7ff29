"""Output head that computes token log-probabilities without holding all logits in memory."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

_TILE = {"cpu": 1 << 21}
"""Maximum number of logits in memory. On a CPU, they fit into its cache."""
_LARGE_TILE = 1 << 28


class Head:
    """Output head of a model, including the scale and soft cap that the model family applies to logits.
    If a family does something else, the self-check that compares every model with one-by-one scoring fails."""

    def __init__(self, model: Any, device: torch.device) -> None:
        config = model.config
        self._module = model.get_output_embeddings()
        self._scale = getattr(config, "logit_scale", 1.0) / getattr(config, "logits_scaling", 1.0)
        self._cap = getattr(config, "final_logit_softcapping", None)
        self._tile = _TILE.get(device.type, _LARGE_TILE)

    def logprobs(self, hidden: Tensor, at: Tensor, tokens: Tensor) -> Tensor:
        """Return the float64 log-probabilities (m,) of `tokens` (m,) after `hidden[at]`, where `hidden` is (n, width).
        Logits are float32, and the sum over the vocabulary is accumulated tile by tile."""
        chosen = torch.empty(len(tokens), dtype=torch.float32, device=hidden.device)
        total = torch.full((len(hidden),), float("-inf"), device=hidden.device)
        start = 0
        for logits in self._tiles(hidden):
            width = logits.shape[1]
            total = torch.logaddexp(total, torch.logsumexp(logits, dim=-1))
            here = torch.nonzero((tokens >= start) & (tokens < start + width)).flatten()
            chosen[here] = logits[at[here], tokens[here] - start]
            start += width
        return (chosen - total[at]).double()

    def _tiles(self, hidden: Tensor) -> Iterator[Tensor]:
        if type(self._module) is not torch.nn.Linear:
            yield self._finished(self._module(hidden))
            return
        weight, bias = self._module.weight, self._module.bias
        width = self._width(len(hidden))
        for start in range(0, len(weight), width):
            part = slice(start, start + width)
            yield self._finished(linear(hidden, weight[part], None if bias is None else bias[part]))

    def _width(self, rows: int) -> int:
        return max(256, self._tile // max(1, rows))

    def _finished(self, logits: Tensor) -> Tensor:
        logits = logits.float()
        if self._scale != 1.0:
            logits = logits * self._scale
        return torch.tanh(logits / self._cap) * self._cap if self._cap else logits
