"""Arrange the attention of a batch in blocks of tokens, each with the tokens that the block attends to.

Outside its block, a node attends only to the path above the block's first node, so the cost of attention depends on the
length of paths, not on the size of the batch. Blocks with similar numbers of keys are computed together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from robustify.models.engines.plan import Batch

BLOCK = 64
"""Number of nodes per block."""
_ALIKE = 1.3
"""Maximum ratio between the numbers of keys of blocks in one group."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """Properties of a model that determine its attention layout. `share` query heads use the same key head. Layers with a
    sliding window see only the last `window` tokens, including the current token."""

    share: int
    window: int | None
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, slots=True)
class BlockGroup:
    """Group of blocks that are computed together. If s blocks have q rows and k keys each, `keys` (s*k,) are indices of the
    trunk followed by the rows. `mask` (s, 1, share*q, k) is 0 or -inf, and `near` is the mask for sliding windows."""

    blocks: int
    keys: Tensor
    mask: Tensor
    near: Tensor


@dataclass(frozen=True, slots=True)
class Layout:
    """Groups of blocks that form a batch. `order` (rows,) is the node of each row, and `seat` is the row of each node.
    Nodes after the last node of the batch are padding."""

    groups: tuple[BlockGroup, ...]
    order: Numbers
    seat: Numbers

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float | None, near: bool) -> Tensor:
        """Return the attention output of one layer (1, rows, heads, width). The query is (1, heads, rows, width), and the
        keys and values of trunk and rows are (trunk + rows, kv heads, width). If `near` is true, the layer has a sliding
        window."""
        heads, rows, width = query.shape[1:]
        kv = key.shape[1]
        # Heads that share keys become additional rows of one query, for fewer and larger matrix products.
        folded = query[0].view(kv, heads // kv, -1, BLOCK, width).permute(2, 0, 1, 3, 4)
        out = query.new_empty(rows // BLOCK, BLOCK, kv, heads // kv, width)
        start = 0
        for group in self.groups:
            blocks = slice(start, start + group.blocks)
            attended = scaled_dot_product_attention(
                folded[blocks].reshape(group.blocks, kv, -1, width),
                _select_states(key, group),
                _select_states(value, group),
                attn_mask=group.near if near else group.mask,
                scale=scaling,
            )
            out[blocks] = attended.view(group.blocks, kv, -1, BLOCK, width).permute(0, 3, 1, 2, 4)
            start += group.blocks
        return out.view(1, rows, heads, width)


def _select_states(states: Tensor, group: BlockGroup) -> Tensor:
    """Select the keys or values of a group (blocks, kv heads, keys, width) from `states` (trunk + rows, kv heads, width),
    the keys or values of the batch."""
    kv, width = states.shape[1:]
    # Copying complete rows is fastest.
    selected = states.reshape(len(states), kv * width).index_select(0, group.keys)
    return selected.view(group.blocks, -1, kv, width).transpose(1, 2)


def lay_out(batch: Batch, shape: Shape) -> Layout:
    """Return the layout of a batch, padding its nodes to full blocks."""
    rows = -(-len(batch.tokens) // BLOCK) * BLOCK
    nodes = _Nodes(batch, rows)
    visible = [nodes.visible_from(start) for start in range(0, rows, BLOCK)]
    block_groups = _similar_lengths([len(positions) for positions in visible])
    order = np.concatenate([np.arange(b * BLOCK, (b + 1) * BLOCK) for blocks in block_groups for b in blocks])
    seat = np.argsort(order)
    groups = tuple(_group(blocks, visible, nodes, seat, shape) for blocks in block_groups)
    return Layout(groups, order, seat)


class _Nodes:
    """Nodes of a batch: the nodes of its trunk, its own nodes, and padding nodes that see only themselves."""

    def __init__(self, batch: Batch, rows: int) -> None:
        n, self.trunk = len(batch.tokens), len(batch.trunk_ends)
        self.first = np.concatenate([np.full(self.trunk, -1), np.arange(rows)])
        self.ends = np.concatenate([_array(batch.trunk_ends), _array(batch.ends), np.arange(n, rows) + 1])
        self.depths = np.concatenate(
            [np.arange(self.trunk), _array(batch.depths), np.zeros(rows - n, np.int64)]
        )

    def visible_from(self, start: int) -> Numbers:
        """Return the positions that a block may attend to: the path above its first node, and the block itself."""
        ancestors = np.flatnonzero(self.ends[: self.trunk + start] > start)
        return np.concatenate([ancestors, self.trunk + np.arange(start, start + BLOCK)])

    def seats(self, positions: Numbers, seat: Numbers) -> Numbers:
        """Convert positions in the trunk and nodes to indices of the keys of the batch."""
        in_trunk = positions[positions < self.trunk]
        return np.concatenate([in_trunk, self.trunk + seat[positions[len(in_trunk) :] - self.trunk]])


def _array(numbers: Sequence[int]) -> Numbers:
    return np.array(numbers, dtype=np.int64)


def _similar_lengths(lengths: Sequence[int]) -> list[list[int]]:
    """Group blocks that have similar numbers of keys. Return the indices of the blocks in each group."""
    groups: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if not groups or lengths[number] > _ALIKE * lengths[groups[-1][0]]:
            groups.append([])
        groups[-1].append(number)
    return groups


def _group(
    blocks: Sequence[int], visible: Sequence[Numbers], nodes: _Nodes, seat: Numbers, shape: Shape
) -> BlockGroup:
    widest = max(len(visible[number]) for number in blocks)
    keys = np.zeros((len(blocks), widest), dtype=np.int64)
    is_visible = np.zeros((len(blocks), BLOCK, widest), dtype=bool)
    is_far = np.zeros_like(is_visible)
    for i, number in enumerate(blocks):
        positions = visible[number]
        k = len(positions)
        keys[i, :k] = nodes.seats(positions, seat)
        queries = np.arange(number * BLOCK, (number + 1) * BLOCK)[:, None]
        is_visible[i, :, :k] = (nodes.first[positions] <= queries) & (queries < nodes.ends[positions])
        if shape.window is not None:
            is_far[i, :, :k] = nodes.depths[nodes.trunk + queries] - nodes.depths[positions] >= shape.window
    mask = _mask(is_visible, shape)
    near = _mask(is_visible & ~is_far, shape) if (is_visible & is_far).any() else mask
    return BlockGroup(len(blocks), torch.from_numpy(keys.ravel()).to(shape.device), mask, near)


def _mask(is_visible: NDArray[np.bool_], shape: Shape) -> Tensor:
    # An additive mask is built once per batch. A boolean mask would be converted in every layer.
    mask = torch.zeros(is_visible.shape, dtype=shape.dtype)
    mask.masked_fill_(~torch.from_numpy(is_visible), float("-inf"))
    return mask[:, None].repeat(1, 1, shape.share, 1).to(shape.device)
