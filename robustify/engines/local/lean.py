"""The small steps of a decoder layer with fewer passes over memory: norms, gated MLPs, rotary positions.

On a CPU these steps wait for memory while the products compute. A step is taken over only where the module has the
parts we know and a trial on random numbers gives what its own code gives; everything else stays as it is.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

_NEAR = 1e-5
_ROTARY = "apply_rotary_pos_emb"
Forward = Callable[[Tensor], Tensor]


class Lean:
    """The steps of a float32 decoder that can be taken over."""

    def __init__(self, decoder: Any) -> None:
        modules = [m for m in decoder.modules() if "forward" not in vars(m)]
        with torch.inference_mode():
            found = [(m, _norm(m) or _gated(m)) for m in modules]
            homes = {type(m).__module__ for m in modules if type(m).__name__.endswith("Attention")}
            self._rotary = [sys.modules[name] for name in sorted(homes) if _turns_as_we_do(sys.modules[name])]
        self._steps = [(m, forward) for m, forward in found if forward is not None]

    def __len__(self) -> int:
        return len(self._steps) + len(self._rotary)

    @contextmanager
    def used(self) -> Iterator[None]:
        """The decoder with our steps; as it was on leaving."""
        before = [getattr(home, _ROTARY) for home in self._rotary]
        for module, forward in self._steps:
            module.forward = forward
        for home in self._rotary:
            setattr(home, _ROTARY, _rotary)
        try:
            yield
        finally:
            for home, own in zip(self._rotary, before, strict=True):
                setattr(home, _ROTARY, own)
            for module, _ in self._steps:
                del module.forward


def _norm(module: Any) -> Forward | None:
    """Root mean square norm, with a gain of `weight` or of `1 + weight` (Gemma)."""
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
    """`down(act(gate(x)) * up(x))`."""
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


def _rotary(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
    """Rotary positions as `transformers` has them (Su et al. 2021, arXiv 2104.09864), the halves turned in place."""
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return _turned(q, cos, sin), _turned(k, cos, sin)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    out = x * cos
    out[..., :half].addcmul_(x[..., half:], sin[..., :half], value=-1)
    out[..., half:].addcmul_(x[..., :half], sin[..., half:])
    return out


def _turns_as_we_do(home: Any) -> bool:
    own = getattr(home, _ROTARY, None)
    if own is None:
        return False
    random = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, heads, 3, 8, generator=random) for heads in (4, 2))
    cos, sin = (torch.randn(1, 3, 8, generator=random) for _ in range(2))
    try:
        theirs = own(q, k, cos, sin)
    # Other families ask for other arguments.
    except (TypeError, RuntimeError, ValueError):
        return False
    return all(_same(a, b) for a, b in zip(_rotary(q, k, cos, sin), theirs, strict=True))


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(torch.allclose(a, b, rtol=_NEAR, atol=_NEAR))
