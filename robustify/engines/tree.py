"""Executes a plan: tokens of many requests in one row without padding, each seeing its own ancestors.

Linear layers run over all nodes of a batch at once, without padding. Attention runs over the segments, side by
side, through an attention function of ours that transformers calls in every layer, so that its cost stays that
of the short sequences.
The keys and values of a trunk are computed once and kept while batches need them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from robustify.engines.plan import Batch, Segment, Tokens

NAME = "robustify_tree"
HEAD_ROWS = 256
"""Positions for which the output head runs at once: with 262,144 words, 256 MiB in float32."""
KV = dict[int, tuple[Tensor, Tensor]]
"""Per layer the keys and values of a trunk, each (1, heads, tokens, width)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Who attends to whom, all s segments of a batch padded to one shape, on the device.

    `queries` (s*q,) and `keys` (s*k,) index the nodes, keys counting the trunk's tokens first; `mask`
    (s, 1, q, k) is 0 or -inf; `back` (n,) is each node's place among the queries.
    """

    queries: Tensor
    keys: Tensor
    mask: Tensor
    back: Tensor

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """(1, n, heads, width) from (1, heads, n, width) and the keys and values of trunk and nodes."""
        s, _, q, k = self.mask.shape
        shown = (
            _seated(query, self.queries, s, q),
            _seated(key, self.keys, s, k),
            _seated(value, self.keys, s, k),
        )
        gqa = query.shape[1] != key.shape[1]
        out = scaled_dot_product_attention(
            shown[0], shown[1], shown[2], attn_mask=self.mask, scale=scaling, enable_gqa=gqa
        )
        return out.transpose(1, 2).reshape(s * q, query.shape[1], -1).index_select(0, self.back)[None]


def _seated(states: Tensor, index: Tensor, segments: int, width: int) -> Tensor:
    """(segments, heads, width, ...) from (1, heads, n, ...)."""
    return states[0].index_select(1, index).view(states.shape[1], segments, width, -1).transpose(0, 1)


@dataclass(slots=True)
class _Pass:
    """What the attention function needs of the pass that is running."""

    layout: Layout | None = None
    trunk: KV = field(default_factory=dict)
    kept: KV | None = None


_running = _Pass()


def tree_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of one layer over the running batch; the model's own mask is not used.

    `query` is (1, heads, n, width), `key` and `value` (1, kv heads, n, width); returns (1, n, heads, width).
    """
    layer = int(module.layer_idx)
    if _running.kept is not None:
        _running.kept[layer] = (key, value)
    if _running.trunk:
        trunk_key, trunk_value = _running.trunk[layer]
        key, value = torch.cat([trunk_key, key], dim=2), torch.cat([trunk_value, value], dim=2)
    assert _running.layout is not None
    return _running.layout.attend(query, key, value, scaling), None


@contextmanager
def attending(model: Any, *, plainly: bool = False) -> Iterator[None]:
    """The model with tree attention in place of its own (`plainly`: with torch's own); put back on leaving."""
    ALL_ATTENTION_FUNCTIONS.register(NAME, tree_attention)
    before = model.config._attn_implementation
    model.set_attn_implementation("sdpa" if plainly else NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def window(config: Any) -> int | None:
    """The sliding window of a model that has one, in tokens; None where every layer sees everything.

    Within the window a sliding layer sees what a full one sees, so that trees no deeper are exact.
    """
    if getattr(config, "use_sliding_window", True) is False:
        return None
    found = getattr(config, "sliding_window", None)
    return int(found) if found else None


def fits(model: Any) -> bool:
    """Whether trees are worth a trial: attention that can be replaced, in every layer, and nothing inside it.

    The trial itself decides; this only spares it to models that are known to fail (recurrent layers, ALiBi,
    a soft cap inside the attention).
    """
    config = model.config
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    return bool(
        getattr(model, "_supports_attention_backend", False)
        and kinds <= {"full_attention", "sliding_attention"}
        and not getattr(config, "attn_logit_softcapping", None)
        and not getattr(config, "alibi", False)
    )


class Trees:
    """Scores planned batches with one model, whose attention is `attending`."""

    def __init__(self, model: Any, device: torch.device) -> None:
        self.model = model
        self.decoder = model.get_decoder()
        self.device = device
        self._trunk: Tokens = ()
        self._kv: KV = {}

    def score(self, batch: Batch) -> Iterator[tuple[int, float]]:
        """(request, log-probability of one token of its continuation), for every want of the batch."""
        hidden = self.hidden(batch)
        nodes = sorted({want.node for want in batch.wants})
        for start in range(0, len(nodes), HEAD_ROWS):
            slot = {node: i for i, node in enumerate(nodes[start : start + HEAD_ROWS])}
            here = [want for want in batch.wants if want.node in slot]
            logits = self._head(hidden[list(slot)])
            at = torch.tensor([slot[want.node] for want in here], device=self.device)
            tokens = torch.tensor([want.following for want in here], device=self.device)
            chosen = logits[at, tokens] - torch.logsumexp(logits, dim=-1)[at]
            yield from zip((want.request for want in here), chosen.double().tolist(), strict=True)

    def _head(self, hidden: Tensor) -> Tensor:
        config = self.model.config
        logits: Tensor = self.model.get_output_embeddings()(hidden).float()
        # What model families do after their head; a family that does something else fails the trial.
        logits = logits * getattr(config, "logit_scale", 1.0) / getattr(config, "logits_scaling", 1.0)
        cap = getattr(config, "final_logit_softcapping", None)
        return torch.tanh(logits / cap) * cap if cap else logits

    def hidden(self, batch: Batch) -> Tensor:
        """(n, width): the last hidden state of every node of the batch."""
        if batch.trunk != self._trunk:
            self._kv = self._keys_and_values(batch.trunk)
            self._trunk = batch.trunk
        layout = laid_out(batch, self.decoder.dtype, self.device)
        return self._pass(batch.tokens, batch.depths, _Pass(layout, self._kv))

    def _keys_and_values(self, trunk: Tokens) -> KV:
        kept: KV = {}
        if trunk:
            n = len(trunk)
            whole = Batch((), trunk, tuple(range(-1, n - 1)), tuple(range(n)), (), (Segment(0, n, (), 0),))
            layout = laid_out(whole, self.decoder.dtype, self.device)
            self._pass(trunk, whole.depths, _Pass(layout, {}, kept))
        return kept

    def _pass(self, tokens: Sequence[int], positions: Sequence[int], running: _Pass) -> Tensor:
        global _running
        _running = running
        ids = torch.tensor([list(tokens)], device=self.device)
        # A mask of four dimensions, or one a kind of layer, is taken as it is; our attention does not read it.
        unread = torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=self.device)
        kinds = set(getattr(self.decoder.config, "layer_types", None) or [])
        mask: Any = dict.fromkeys(kinds, unread) if len(kinds) > 1 else unread
        try:
            out = self.decoder(
                input_ids=ids,
                position_ids=torch.tensor([list(positions)], device=self.device),
                attention_mask=mask,
                use_cache=False,
            )
        finally:
            _running = _Pass()
        hidden: Tensor = out.last_hidden_state[0]
        return hidden


def laid_out(batch: Batch, dtype: torch.dtype, device: torch.device) -> Layout:
    """The layout of a batch's segments."""
    above = len(batch.trunk)
    q = max(s.stop - s.start for s in batch.segments)
    k = max(s.trunk + len(s.above) + s.stop - s.start for s in batch.segments)
    queries = torch.zeros(len(batch.segments), q, dtype=torch.long)
    keys = torch.zeros(len(batch.segments), k, dtype=torch.long)
    seen = torch.zeros(len(batch.segments), q, k, dtype=torch.bool)
    back = torch.empty(len(batch.tokens), dtype=torch.long)
    for i, s in enumerate(batch.segments):
        n, shared = s.stop - s.start, s.trunk + len(s.above)
        queries[i, :n] = torch.arange(s.start, s.stop)
        back[s.start : s.stop] = torch.arange(i * q, i * q + n)
        seats = [*range(s.trunk), *(above + node for node in (*s.above, *range(s.start, s.stop)))]
        keys[i, : len(seats)] = torch.tensor(seats)
        seen[i, :n, :shared] = True
        seen[i, :n, shared : shared + n] = _ancestors(batch.parents[s.start : s.stop], s.start)
        # A row of padding must see something, or its softmax is no number.
        seen[i, n:, 0] = True
    # Added to the scores: made once a batch, where a boolean mask would be turned into this in every layer.
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, float("-inf"))[:, None]
    return Layout(*(t.to(device) for t in (queries.flatten(), keys.flatten(), mask, back)))


def _ancestors(parents: Sequence[int], start: int) -> Tensor:
    """(n, n): whether node j is node i or an ancestor of it; `parents` count from `start`."""
    n = len(parents)
    seen = torch.eye(n, dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent >= start:
            seen[node] |= seen[parent - start]
    return seen
