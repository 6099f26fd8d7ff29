"""Steps of a decoder that our own code computes faster on a CPU: norms and gated MLPs; and the output head without the
logits of a whole vocabulary.

On a CPU the small steps wait for memory while the products compute. A step is taken over only where the module has the
parts we know and a trial on random numbers gives what its own code gives; everything else stays as it is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

_NEAR = 1e-5
_TILE = {"cpu": 1 << 21}
"""Logits that exist at once: on a CPU they stay in its cache."""
_LARGE_TILE = 1 << 28
Forward = Callable[[Tensor], Tensor]


class Lean:
    """The small steps of a float32 decoder that can be taken over."""

    def __init__(self, decoder: Any) -> None:
        modules = [m for m in decoder.modules() if "forward" not in vars(m)]
        with torch.inference_mode():
            forwards = [(m, _norm(m) or _gated(m)) for m in modules]
        self.steps = [(m, forward) for m, forward in forwards if forward is not None]

    @contextmanager
    def used(self) -> Iterator[None]:
        """Use our steps inside; the decoder is as it was on leaving."""
        for module, forward in self.steps:
            module.forward = forward
        try:
            yield
        finally:
            for module, _ in self.steps:
                del module.forward


def _norm(module: Any) -> Forward | None:
    """Return the root mean square norm, with a gain of `weight` or of `1 + weight` (Gemma)."""
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    weight = getattr(module, "weight", None)
    if not type(module).__name__.endswith("RMSNorm") or not isinstance(eps, float) or weight is None:
        return None
    trial = torch.randn(1, 3, len(weight), generator=torch.Generator().manual_seed(0))
    for gain in (weight.detach(), 1.0 + weight.detach()):
        forward = _rms(gain, eps)
        if _same(forward(trial), module(trial)):
            return forward
    return None


def _rms(gain: Tensor, eps: float) -> Forward:
    def forward(x: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        return (x * scale).mul_(gain)

    return forward


def _gated(module: Any) -> Forward | None:
    """Return `down(act(gate(x)) * up(x))` as a function of x."""
    names = ("gate_proj", "up_proj", "down_proj", "act_fn")
    if not all(isinstance(getattr(module, name, None), torch.nn.Module) for name in names):
        return None

    def forward(x: Tensor) -> Tensor:
        hidden = module.act_fn(module.gate_proj(x)).mul_(module.up_proj(x))
        out: Tensor = module.down_proj(hidden)
        return out

    width = getattr(module.gate_proj, "in_features", None)
    if width is None or isinstance(module.act_fn, torch.nn.Identity):
        return None
    trial = torch.randn(1, 3, width, generator=torch.Generator().manual_seed(0))
    return forward if _same(forward(trial), module(trial)) else None


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(torch.allclose(a, b, rtol=_NEAR, atol=_NEAR))


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
