"""Linear layers computed with oneDNN, except on Intel processors. On other processors, MKL, which torch would use, does not
use AVX-512. On Intel processors, MKL is slightly faster than oneDNN."""

from typing import TypeVar

import torch
from torch import Tensor

from robustify.base.processor import processor_words

Model = TypeVar("Model", bound=torch.nn.Module)

_PACKED_FOR = 64
"""Number of rows for which weights are packed. Products of other sizes are as fast, except those of a single row."""


def linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None, *, activation: str = "none") -> Tensor:
    """Return `rows @ weight.T + bias` (..., n_out), as `torch.nn.functional.linear` does, after the activation `none` or
    `gelu`. The weight is (n_out, n_in), or what `packed` returns for it."""
    if weight.is_mkldnn or _served(weight):
        product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, activation, [], "none")
        return product
    product = torch.nn.functional.linear(rows, weight, bias)
    return torch.nn.functional.gelu(product) if activation == "gelu" else product


def packed(weight: Tensor) -> Tensor:
    """Return the weight (n_out, n_in) in the order in which oneDNN reads it, if `linear` uses oneDNN here. A weight in the
    usual order is reordered again for each product, which for a few rows takes as long as the product."""
    if not _served(weight):
        return weight
    reordered: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), _PACKED_FOR)
    return reordered


class OneDnnLinear(torch.nn.Linear):  # type: ignore[misc]
    """Linear layer for inference, without a gradient."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the layer's output (..., n_out) for an input (..., n_in)."""
        return linear(input, self.weight, self.bias)


def quickened(model: Model) -> Model:
    """Return the model with its float32 linear layers computed by oneDNN, if this is faster on this processor. Its weights
    stay as they are, because packed ones would take the memory of the mapped file again for a gain of 5 %."""
    for module in model.modules():
        if type(module) is torch.nn.Linear and _served(module.weight):
            module.__class__ = OneDnnLinear
    return model


def _served(weight: Tensor) -> bool:
    plain = weight.device.type == "cpu" and weight.dtype == torch.float32
    capability: str = torch.backends.cpu.get_cpu_capability()
    return (
        plain
        and capability.startswith("AVX512")
        and not is_intel()
        and bool(torch.backends.mkldnn.is_available())
    )


def is_intel() -> bool:
    """Return whether this processor is from Intel, where MKL uses AVX-512."""
    return "GenuineIntel" in processor_words()
