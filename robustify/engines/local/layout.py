"""Who attends to whom in a batch: the nodes in blocks, each with the keys that it needs and no others.

A block is a run of nodes. Whatever its nodes see outside of it lies on the path above its first node, so that
attention costs what the paths cost, not what the batch is wide. Blocks are put in order of their number of keys,
and those with about as many are attended to together, where they lie.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from robustify.engines.plan import Batch

BLOCK = 64
"""Nodes a block."""
_ALIKE = 1.3
"""Blocks go together up to this ratio of their numbers of keys."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a layout must know of the model: `share` query heads use one key head; a layer with a sliding window
    sees the last `window` tokens, the node itself among them."""

    share: int
    window: int | None
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, slots=True)
class Group:
    """s blocks of q rows with k keys each, fewer filled up. `keys` (s*k,) index trunk and rows, in this order;
    `mask` (s, 1, share*q, k) is 0 or -inf, and `near` is the same for layers with a sliding window (one object
    with `mask` where the window hides nothing).
    """

    blocks: int
    keys: Tensor
    mask: Tensor
    near: Tensor


@dataclass(frozen=True, slots=True)
class Layout:
    """The groups of a batch, one after the other. `order` (rows,) names the node of each row, `seat` (rows,) the
    row of each node; nodes past the batch's last only fill up the last block.
    """

    groups: tuple[Group, ...]
    order: Numbers
    seat: Numbers

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float | None, near: bool) -> Tensor:
        """Return (1, rows, heads, width) from a query of (1, heads, rows, width) and the keys and values of trunk and
        rows, each (trunk + rows, kv heads, width). `near`: this layer has the sliding window."""
        heads, rows, width = query.shape[1:]
        kv = key.shape[1]
        # The heads that share keys become further rows of one query: fewer and larger products.
        folded = query[0].view(kv, heads // kv, -1, BLOCK, width).permute(2, 0, 1, 3, 4)
        out = query.new_empty(rows // BLOCK, BLOCK, kv, heads // kv, width)
        at = 0
        for group in self.groups:
            here = slice(at, at + group.blocks)
            seen = scaled_dot_product_attention(
                folded[here].reshape(group.blocks, kv, -1, width),
                _shown(key, group),
                _shown(value, group),
                attn_mask=group.near if near else group.mask,
                scale=scaling,
            )
            out[here] = seen.view(group.blocks, kv, -1, BLOCK, width).permute(0, 3, 1, 2, 4)
            at += group.blocks
        return out.view(1, rows, heads, width)


def _shown(states: Tensor, group: Group) -> Tensor:
    """Return (blocks, kv heads, keys, width) from (trunk + rows, kv heads, width)."""
    kv, width = states.shape[1:]
    # Whole rows are copied fastest.
    shown = states.reshape(len(states), kv * width).index_select(0, group.keys)
    return shown.view(group.blocks, -1, kv, width).transpose(1, 2)


def laid_out(batch: Batch, shape: Shape) -> Layout:
    """Return the layout of a batch, whose nodes are filled up to whole blocks."""
    rows = -(-len(batch.tokens) // BLOCK) * BLOCK
    nodes = _Nodes(batch, rows)
    shown = [nodes.seen_from(start) for start in range(0, rows, BLOCK)]
    alike = list(_alike([len(keys) for keys in shown]))
    order = np.concatenate([np.arange(b * BLOCK, (b + 1) * BLOCK) for blocks in alike for b in blocks])
    seat = np.argsort(order)
    groups = tuple(_group(blocks, shown, nodes, seat, shape) for blocks in alike)
    return Layout(groups, order, seat)


class _Nodes:
    """Trunk and nodes in one row, filled up with nodes that see themselves and nobody else sees."""

    def __init__(self, batch: Batch, rows: int) -> None:
        n, self.trunk = len(batch.tokens), len(batch.trunk_ends)
        self.first = np.concatenate([np.full(self.trunk, -1), np.arange(rows)])
        self.ends = np.concatenate([_array(batch.trunk_ends), _array(batch.ends), np.arange(n, rows) + 1])
        self.depths = np.concatenate(
            [np.arange(self.trunk), _array(batch.depths), np.zeros(rows - n, np.int64)]
        )

    def seen_from(self, start: int) -> Numbers:
        """Return the positions of a block's keys: the path above its first node, and the block."""
        above = np.flatnonzero(self.ends[: self.trunk + start] > start)
        return np.concatenate([above, self.trunk + np.arange(start, start + BLOCK)])

    def seats(self, positions: Numbers, seat: Numbers) -> Numbers:
        """Return where the trunk's tokens and the nodes at these positions lie among the keys."""
        above = positions[positions < self.trunk]
        return np.concatenate([above, self.trunk + seat[positions[len(above) :] - self.trunk]])


def _array(numbers: Sequence[int]) -> Numbers:
    return np.array(numbers, dtype=np.int64)


def _alike(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the numbers of the blocks, those of like length together."""
    together: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if together and lengths[number] > _ALIKE * lengths[together[0]]:
            yield together
            together = []
        together.append(number)
    yield together


def _group(
    blocks: Sequence[int], shown: Sequence[Numbers], nodes: _Nodes, seat: Numbers, shape: Shape
) -> Group:
    widest = max(len(shown[number]) for number in blocks)
    keys = np.zeros((len(blocks), widest), dtype=np.int64)
    seen = np.zeros((len(blocks), BLOCK, widest), dtype=bool)
    far = np.zeros_like(seen)
    for i, number in enumerate(blocks):
        positions = shown[number]
        k = len(positions)
        keys[i, :k] = nodes.seats(positions, seat)
        queries = np.arange(number * BLOCK, (number + 1) * BLOCK)[:, None]
        seen[i, :, :k] = (nodes.first[positions] <= queries) & (queries < nodes.ends[positions])
        if shape.window is not None:
            far[i, :, :k] = nodes.depths[nodes.trunk + queries] - nodes.depths[positions] >= shape.window
    mask = _mask(seen, shape)
    near = _mask(seen & ~far, shape) if (seen & far).any() else mask
    return Group(len(blocks), torch.from_numpy(keys.ravel()).to(shape.device), mask, near)


def _mask(seen: NDArray[np.bool_], shape: Shape) -> Tensor:
    # Added to the scores: made once a batch, where a boolean mask would be turned into this in every layer.
    mask = torch.zeros(seen.shape, dtype=shape.dtype).masked_fill_(~torch.from_numpy(seen), float("-inf"))
    return mask[:, None].repeat(1, 1, shape.share, 1).to(shape.device)
