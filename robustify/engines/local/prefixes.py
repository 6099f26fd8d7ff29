"""Shared-prefix scoring: each context once with the model's own key-value cache, then its continuations on top.

For models whose attention cannot be replaced (ALiBi, attention of their own) but which can go on from a cache. It
repeats what contexts share among themselves, which trees do not.
"""

from collections.abc import Sequence
from typing import Any

import torch

from robustify.engines.local.batches import Together
from robustify.engines.local.rows import logits_at
from robustify.engines.plan import Encoded


def score_contexts(model: Any, batch: Together, device: torch.device) -> dict[Encoded, float]:
    """The summed log-probability of each request of a batch, whose contexts have one length."""
    length = len(batch[0][0])
    wants = [(b, request) for b, (_, same) in enumerate(batch) for request in same]
    ids = torch.tensor([context for context, _ in batch], device=device)
    places = [(b, length - 1) for b in range(len(batch))]
    logits, out = logits_at(model, places, input_ids=ids, use_cache=True)
    first = torch.log_softmax(logits, dim=-1)
    totals = {request: float(first[b, request.continuation[0]]) for b, request in wants}
    longer = [(b, request) for b, request in wants if len(request.continuation) > 1]
    if longer:
        # Each continuation goes on from a copy of its own context.
        out.past_key_values.batch_select_indices(torch.tensor([b for b, _ in longer], device=device))
        rest = _rest(model, [request for _, request in longer], out.past_key_values, length, device)
        for request, more in rest.items():
            totals[request] += more
    return totals


def _rest(
    model: Any, requests: Sequence[Encoded], past: Any, length: int, device: torch.device
) -> dict[Encoded, float]:
    widest = max(len(request.continuation) for request in requests) - 1
    ids = torch.zeros(len(requests), widest, dtype=torch.long)
    for i, request in enumerate(requests):
        ids[i, : len(request.continuation) - 1] = torch.tensor(request.continuation[:-1])
    wants = [
        (i, place, token) for i, r in enumerate(requests) for place, token in enumerate(r.continuation[1:])
    ]
    # Padding stands to the right, where nobody looks back at it.
    logits, _ = logits_at(
        model,
        [(i, place) for i, place, _ in wants],
        input_ids=ids.to(device),
        past_key_values=past,
        attention_mask=torch.ones(len(requests), length + widest, dtype=torch.long, device=device),
        use_cache=True,
    )
    tokens = torch.tensor([token for *_, token in wants], device=device)
    chosen = logits.gather(1, tokens[:, None])[:, 0] - torch.logsumexp(logits, dim=-1)
    totals = dict.fromkeys(requests, 0.0)
    for (i, *_), value in zip(wants, chosen.double().tolist(), strict=True):
        totals[requests[i]] += value
    return totals
