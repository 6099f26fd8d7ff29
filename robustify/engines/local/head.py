"""The output head, without the logits of a whole vocabulary at once."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

_TILE = {"cpu": 1 << 21}
"""Logits that exist at once: on a CPU they stay in its cache."""
_LARGE_TILE = 1 << 28


class Head:
    """A model's output head, with what its family does to the logits afterwards. A family that does something else fails
    the trial that every model is put to."""

    def __init__(self, model: Any, device: torch.device) -> None:
        config = model.config
        self._module = model.get_output_embeddings()
        self._scale = getattr(config, "logit_scale", 1.0) / getattr(config, "logits_scaling", 1.0)
        self._cap = getattr(config, "final_logit_softcapping", None)
        self._tile = _TILE.get(device.type, _LARGE_TILE)

    def logprobs(self, hidden: Tensor, at: Tensor, tokens: Tensor) -> Tensor:
        """Return the log-probabilities (m,) float64 of `tokens` (m,) after `hidden[at]`; hidden is (n, width). Logits are
        float32, and the sum over the vocabulary is joined tile by tile."""
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
