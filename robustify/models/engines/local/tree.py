"""Tree attention, which processes the tokens of many requests as one sequence. Each token attends only to its ancestors.

In every layer, transformers calls an attention function of this module, which computes the blocks of a `Layout`. The output
head computes token log-probabilities without holding all logits in memory.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from robustify.models.engines.local.layout import Layout, Shape, lay_out
from robustify.models.engines.local.linear import OneDnnLinear, linear
from robustify.models.engines.plan import Batch

NAME = "robustify_tree"
_TILE = {"cpu": 1 << 21}
"""Maximum number of logits in memory. On a CPU, they fit into its cache."""
_LARGE_TILE = 1 << 28
KV = dict[int, tuple[Tensor, Tensor]]
"""Keys and values of a trunk by layer, each (tokens, kv heads, width)."""


@dataclass(slots=True)
class _Pass:
    """State of the current forward pass that the attention function reads."""

    layout: Layout | None = None
    near: tuple[bool, ...] = ()
    trunk: KV = field(default_factory=dict)
    carry: Tensor | None = None
    carried: KV = field(default_factory=dict)


_running = _Pass()


def tree_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Return the attention output of one layer for the current batch (1, n, heads, width), ignoring the model's mask.
    `query` is (1, heads, n, width), and `key` and `value` are (1, kv heads, n, width)."""
    layer = int(module.layer_idx)
    # Models store keys and values token by token, so the transpose is a view.
    key, value = key[0].transpose(0, 1), value[0].transpose(0, 1)
    if _running.trunk:
        trunk_key, trunk_value = _running.trunk[layer]
        key, value = torch.cat([trunk_key, key]), torch.cat([trunk_value, value])
    if (carry := _running.carry) is not None:
        _running.carried[layer] = key.index_select(0, carry), value.index_select(0, carry)
    assert _running.layout is not None
    return _running.layout.attend(query, key, value, scaling, _running.near[layer]), None


@contextmanager
def attending(model: Any, *, plainly: bool = False) -> Iterator[None]:
    """Replace the model's attention in the context with tree attention, or with torch's attention if `plainly` is true."""
    ALL_ATTENTION_FUNCTIONS.register(NAME, tree_attention)
    before = model.config._attn_implementation
    if plainly and before != NAME:
        yield
        return
    model.set_attn_implementation("sdpa" if plainly else NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def window(config: Any) -> int | None:
    """Return the sliding window of the model in tokens, or None if every layer attends to all tokens."""
    if getattr(config, "use_sliding_window", True) is False:
        return None
    size = getattr(config, "sliding_window", None)
    return int(size) if size else None


def sliding(config: Any) -> tuple[bool, ...]:
    """Return a list with one flag per layer: whether its attention is limited to the sliding window."""
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
    return tuple(window(config) is not None and kind == "sliding_attention" for kind in kinds)


def fits(model: Any) -> bool:
    """Return whether tree scoring can be tried with this model.
    Models with recurrent layers, ALiBi, or a soft cap inside the attention are known to fail."""
    config = model.config
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    return bool(
        getattr(model, "_supports_attention_backend", False)
        and kinds <= {"full_attention", "sliding_attention"}
        and not getattr(config, "attn_logit_softcapping", None)
        and not getattr(config, "alibi", False)
    )


class Head:
    """Output head of a model, including the scale and soft cap that the model family applies to logits.
    If a family does something else, the self-check that compares every model with one-by-one scoring fails."""

    def __init__(self, model: Any, device: torch.device) -> None:
        config = model.config
        self._module = model.get_output_embeddings()
        self._scale = getattr(config, "logit_scale", 1.0) / getattr(config, "logits_scaling", 1.0)
        self._cap = getattr(config, "final_logit_softcapping", None)
        self._tile = _TILE.get(device.type, _LARGE_TILE)

    def logprobs(self, hidden: Tensor, rows: Tensor, tokens: Tensor) -> Tensor:
        """Return the float64 log-probability of each of `tokens` (m,) after the hidden state that `rows` (m,) selects from
        `hidden` (n, width). Logits are float32, and the sum over the vocabulary is accumulated tile by tile."""
        token_logits = torch.empty(len(tokens), dtype=torch.float32, device=hidden.device)
        total = torch.full((len(hidden),), float("-inf"), device=hidden.device)
        start = 0
        for logits in self._tiles(hidden):
            width = logits.shape[1]
            total = torch.logaddexp(total, torch.logsumexp(logits, dim=-1))
            in_tile = torch.nonzero((tokens >= start) & (tokens < start + width)).flatten()
            token_logits[in_tile] = logits[rows[in_tile], tokens[in_tile] - start]
            start += width
        return (token_logits - total[rows]).double()

    def _tiles(self, hidden: Tensor) -> Iterator[Tensor]:
        if type(self._module) not in (torch.nn.Linear, OneDnnLinear):
            yield self._scaled(self._module(hidden))
            return
        weight, bias = self._module.weight, self._module.bias
        width = self._width(len(hidden))
        for start in range(0, len(weight), width):
            part = slice(start, start + width)
            yield self._scaled(linear(hidden, weight[part], None if bias is None else bias[part]))

    def _width(self, rows: int) -> int:
        return max(256, self._tile // max(1, rows))

    def _scaled(self, logits: Tensor) -> Tensor:
        logits = logits.float()
        if self._scale != 1.0:
            logits = logits * self._scale
        return torch.tanh(logits / self._cap) * self._cap if self._cap else logits


class Trees:
    """Scorer of prefix-tree sections with one model, for use inside the context `attending`."""

    def __init__(self, model: Any, device: torch.device) -> None:
        self.decoder = model.get_decoder()
        self.device = device
        self._head = Head(model, device)
        config, dtype = self.decoder.config, self.decoder.dtype
        share = config.num_attention_heads // (
            getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        )
        self._shape = Shape(share, window(config), dtype, device)
        self._near = sliding(config)

    def score(self, section: Sequence[Batch], needed: Sequence[bool]) -> Iterator[list[tuple[int, float]]]:
        """Yield (request, token log-probability) pairs for each `needed` batch.
        Earlier batches also run, because they compute the trunks of later ones."""
        trunk: KV = {}
        for number, batch in enumerate(section):
            if not any(needed[number:]):
                break
            hidden, trunk = self._pass(batch, trunk)
            if needed[number]:
                yield self._scored(batch, hidden)

    def _scored(self, batch: Batch, hidden: Tensor) -> list[tuple[int, float]]:
        nodes = sorted({want.node for want in batch.wants})
        slot = {node: i for i, node in enumerate(nodes)}
        rows = torch.tensor([slot[want.node] for want in batch.wants], device=self.device)
        tokens = torch.tensor([want.following for want in batch.wants], device=self.device)
        logprobs = self._head.logprobs(hidden[nodes], rows, tokens).tolist()
        return [(want.request, logprob) for want, logprob in zip(batch.wants, logprobs, strict=True)]

    def _pass(self, batch: Batch, trunk: KV) -> tuple[Tensor, KV]:
        """Run the model on a batch. Return the last hidden states (n, width) and the trunk of the next batch."""
        global _running
        layout = lay_out(batch, self._shape)
        _running = running = _Pass(layout, self._near, trunk, self._carry(batch, layout))
        # transformers passes on a 4-D mask, or one mask per layer type, unchanged. Tree attention does not read it.
        unread = torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=self.device)
        kinds = set(getattr(self.decoder.config, "layer_types", None) or [])
        mask: Any = dict.fromkeys(kinds, unread) if len(kinds) > 1 else unread
        try:
            out = self.decoder(
                input_ids=self._in_order(batch.tokens, layout),
                position_ids=self._in_order(batch.depths, layout),
                attention_mask=mask,
                use_cache=False,
            )
        finally:
            _running = _Pass()
        seats = torch.from_numpy(layout.seat[: len(batch.tokens)]).to(self.device)
        return out.last_hidden_state[0].index_select(0, seats), running.carried

    def _carry(self, batch: Batch, layout: Layout) -> Tensor | None:
        trunk = len(batch.trunk_ends)
        seats = [seat if seat < trunk else trunk + int(layout.seat[seat - trunk]) for seat in batch.carry]
        return torch.tensor(seats, device=self.device) if seats else None

    def _in_order(self, numbers: Sequence[int], layout: Layout) -> Tensor:
        """Arrange one number per node in the order of the layout's rows (1, rows), with 0 for padding."""
        filled = np.zeros(len(layout.order), dtype=np.int64)
        filled[: len(numbers)] = numbers
        return torch.from_numpy(filled[layout.order])[None].to(self.device)
