"""Scoring of plain rows, for models without exact tree scoring and as the reference for the self-check."""

from collections.abc import Sequence
from typing import Any

import torch

from robustify.engines.local.paths import Rows, Scored


def score_rows(model: Any, batch: Rows, device: torch.device) -> Scored:
    """Return the summed log-probability of each request of a batch. The first row must be the longest."""
    # Padding is on the right and attention looks left, so no mask is needed, as in lm-eval.
    ids = torch.zeros(len(batch), len(batch[0][0]), dtype=torch.long)
    for b, (row, _) in enumerate(batch):
        ids[b, : len(row)] = torch.tensor(row)
    wants = [
        (request, b, len(request.context) - 1 + i, token)
        for b, (_, same) in enumerate(batch)
        for request in same
        for i, token in enumerate(request.continuation)
    ]
    positions = sorted({(b, position) for _, b, position, _ in wants})
    logits = _logits_at(model, positions, ids.to(device))
    slot = {position: i for i, position in enumerate(positions)}
    at = torch.tensor([slot[b, position] for _, b, position, _ in wants], device=device)
    tokens = torch.tensor([token for *_, token in wants], device=device)
    chosen = logits[at, tokens] - torch.logsumexp(logits, dim=-1)[at]
    totals: Scored = {}
    for (request, *_), value in zip(wants, chosen.double().tolist(), strict=True):
        totals[request] = totals.get(request, 0.0) + value
    return totals


def _logits_at(model: Any, positions: Sequence[tuple[int, int]], ids: torch.Tensor) -> torch.Tensor:
    """Return the float32 logits (n_positions, n_vocabulary) at these (row, column) positions. All logits of a long row with
    a large vocabulary would take gigabytes. Code that the model runs after its head still runs."""
    rows, columns = (torch.tensor(side, device=ids.device) for side in zip(*positions, strict=True))
    head = model.get_output_embeddings()
    hook = head.register_forward_pre_hook(lambda _, args: (args[0][rows, columns].unsqueeze(0), *args[1:]))
    try:
        logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits[0]
    finally:
        hook.remove()
    return logits.float()
