"""Scoring where trees are not exact: shared prefixes with the model's own key-value cache, and plain rows.

Shared prefixes serve models whose attention cannot be replaced (ALiBi, attention of their own) but which can go on from
a cache. Plain rows are the last fall-back, and one row alone is the measure that the other paths are checked against.
"""

from collections.abc import Sequence
from typing import Any

import torch

from robustify.engines.local.paths import Scored, Together
from robustify.engines.plan import Encoded


def score_contexts(model: Any, batch: Together, device: torch.device) -> Scored:
    """Return the summed log-probability of each request of a batch, whose contexts have one length."""
    length = len(batch[0][0])
    wants = [(b, request) for b, (_, same) in enumerate(batch) for request in same]
    ids = torch.tensor([context for context, _ in batch], device=device)
    positions = [(b, length - 1) for b in range(len(batch))]
    logits, out = _logits_at(model, positions, input_ids=ids, use_cache=True)
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


def _rest(model: Any, requests: Sequence[Encoded], past: Any, length: int, device: torch.device) -> Scored:
    widest = max(len(request.continuation) for request in requests) - 1
    ids = torch.zeros(len(requests), widest, dtype=torch.long)
    for i, request in enumerate(requests):
        ids[i, : len(request.continuation) - 1] = torch.tensor(request.continuation[:-1])
    wants = [
        (i, position, token)
        for i, r in enumerate(requests)
        for position, token in enumerate(r.continuation[1:])
    ]
    # Padding is to the right, and attention looks to the left.
    logits, _ = _logits_at(
        model,
        [(i, position) for i, position, _ in wants],
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


def score_rows(model: Any, batch: Together, device: torch.device) -> Scored:
    """Return the summed log-probability of each request of a batch, whose longest row comes first."""
    # Padding is to the right and attention looks to the left: no mask is needed, as in lm-eval.
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
    logits, _ = _logits_at(model, positions, input_ids=ids.to(device), use_cache=False)
    slot = {position: i for i, position in enumerate(positions)}
    at = torch.tensor([slot[b, position] for _, b, position, _ in wants], device=device)
    tokens = torch.tensor([token for *_, token in wants], device=device)
    chosen = logits[at, tokens] - torch.logsumexp(logits, dim=-1)[at]
    totals: Scored = {}
    for (request, *_), value in zip(wants, chosen.double().tolist(), strict=True):
        totals[request] = totals.get(request, 0.0) + value
    return totals


def score_alone(model: Any, request: Encoded, device: torch.device) -> float:
    """Return the summed log-probability of one request all by itself: one row, no cache, the model's own attention."""
    ids = torch.tensor([request.row], device=device)
    first = len(request.context) - 1
    # Only where a token is scored: logits of a long row over a large vocabulary take gigabytes.
    positions = [(0, first + i) for i in range(len(request.continuation))]
    logits, _ = _logits_at(model, positions, input_ids=ids, use_cache=False)
    logprobs = torch.log_softmax(logits, dim=-1)
    return float(sum(logprobs[i, token].item() for i, token in enumerate(request.continuation)))


def _logits_at(model: Any, positions: Sequence[tuple[int, int]], **inputs: Any) -> tuple[torch.Tensor, Any]:
    """Return float32 logits (positions, vocabulary) at these (row, column), and all that the model returned. What the
    model does after its head stays the model's own code."""
    ids = inputs["input_ids"]
    rows, columns = (torch.tensor(side, device=ids.device) for side in zip(*positions, strict=True))
    head = model.get_output_embeddings()
    hook = head.register_forward_pre_hook(lambda _, args: (args[0][rows, columns].unsqueeze(0), *args[1:]))
    try:
        out = model(**inputs)
    finally:
        hook.remove()
    return out.logits[0].float(), out
