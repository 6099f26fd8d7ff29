"""Executes a plan: tokens of many requests in one row without padding, each seeing its own ancestors.

Linear layers run over all nodes of a batch at once. Attention runs segment by segment, through an attention
function of ours that transformers calls in every layer, so that its cost stays that of the short sequences.
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

from robustify.engines.plan import Batch, Tokens

NAME = "robustify_tree"
HEAD_ROWS = 256
"""Positions for which the output head runs at once: with 262,144 words, 256 MiB in float32."""
KV = dict[int, tuple[Tensor, Tensor]]
"""Per layer the keys and values of a trunk, each (1, heads, tokens, width)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A segment on the device: its nodes, the batch nodes above it (m,), and 0 or -inf for who sees whom
    (1, 1, n, trunk + m + n)."""

    start: int
    stop: int
    above: Tensor
    trunk: int
    mask: Tensor


@dataclass(slots=True)
class _Pass:
    """What the attention function needs of the pass that is running."""

    pieces: Sequence[Piece] = ()
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
    out = torch.empty_like(query)
    for piece in _running.pieces:
        k, v = key[:, :, piece.start : piece.stop], value[:, :, piece.start : piece.stop]
        if len(piece.above):
            k = torch.cat([key[:, :, piece.above], k], dim=2)
            v = torch.cat([value[:, :, piece.above], v], dim=2)
        if piece.trunk:
            trunk_k, trunk_v = _running.trunk[layer]
            k = torch.cat([trunk_k[:, :, : piece.trunk], k], dim=2)
            v = torch.cat([trunk_v[:, :, : piece.trunk], v], dim=2)
        out[:, :, piece.start : piece.stop] = scaled_dot_product_attention(
            query[:, :, piece.start : piece.stop],
            k,
            v,
            attn_mask=piece.mask,
            scale=scaling,
            enable_gqa=query.shape[1] != key.shape[1],
        )
    return out.transpose(1, 2), None


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
        pieces = [_piece(batch, i, self.device, self.decoder.dtype) for i in range(len(batch.segments))]
        return self._pass(batch.tokens, batch.depths, _Pass(pieces, self._kv))

    def _keys_and_values(self, trunk: Tokens) -> KV:
        kept: KV = {}
        if trunk:
            n = len(trunk)
            ahead = torch.full((n, n), float("-inf"), dtype=self.decoder.dtype, device=self.device).triu(1)
            whole = Piece(0, n, torch.empty(0, dtype=torch.long, device=self.device), 0, ahead[None, None])
            self._pass(trunk, range(n), _Pass([whole], {}, kept))
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


def _piece(batch: Batch, index: int, device: torch.device, dtype: torch.dtype) -> Piece:
    s = batch.segments[index]
    n = s.stop - s.start
    inside = torch.zeros(n, n, dtype=torch.bool)
    for node in range(s.start, s.stop):
        parent = batch.parents[node]
        if parent >= s.start:
            inside[node - s.start] = inside[parent - s.start]
        inside[node - s.start, node - s.start] = True
    shared = torch.ones(n, s.trunk + len(s.above), dtype=torch.bool)
    seen = torch.cat([shared, inside], dim=1)[None, None]
    # Added to the scores: made once a batch, where a boolean mask would be turned into this in every layer.
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, float("-inf")).to(device)
    return Piece(s.start, s.stop, torch.tensor(s.above, dtype=torch.long, device=device), s.trunk, mask)
