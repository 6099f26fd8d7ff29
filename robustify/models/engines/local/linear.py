"""Linear layers computed with oneDNN, except on Intel processors. On other processors, MKL, which torch would use, does not
use AVX-512. On Intel processors, MKL is slightly faster than oneDNN."""

from typing import TypeVar

import torch
from torch import Tensor

from robustify.base.processor import processor_words

Model = TypeVar("Model", bound=torch.nn.Module)


def linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `rows @ weight.T + bias` (..., n_out), as `torch.nn.functional.linear` does."""
    if _served(weight):
        product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
        return product
    return torch.nn.functional.linear(rows, weight, bias)


class OneDnnLinear(torch.nn.Linear):  # type: ignore[misc]
    """Linear layer for inference, without a gradient."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the layer's output (..., n_out) for an input (..., n_in)."""
        return linear(input, self.weight, self.bias)


def quickened(model: Model) -> Model:
    """Return the model with its float32 linear layers computed by oneDNN, if this is faster on this processor."""
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
