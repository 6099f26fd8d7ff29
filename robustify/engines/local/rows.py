"""Plain scoring: one row for each request, rows of like length together, the model called as it is.

The fall-back for models that trees are not exact for, and the measure that trees are held to.
"""

from collections.abc import Sequence
from typing import Any

import torch

from robustify.engines.local.batches import Together
from robustify.engines.plan import Encoded


def score_alone(model: Any, request: Encoded, device: torch.device) -> float:
    """The summed log-probability of one request, all by itself, without any shortcut of ours."""
    ids = torch.tensor([request.row], device=device)
    logprobs = torch.log_softmax(model(ids, use_cache=False).logits[0].float(), dim=-1)
    first = len(request.context) - 1
    return float(sum(logprobs[first + i, token].item() for i, token in enumerate(request.continuation)))


def score_rows(model: Any, batch: Together, device: torch.device) -> dict[Encoded, float]:
    """The summed log-probability of each request of a batch, whose longest row comes first."""
    # Padding stands to the right and attention looks to the left: no mask is needed, as in lm-eval.
    ids = torch.zeros(len(batch), len(batch[0][0]), dtype=torch.long)
    for b, (row, _) in enumerate(batch):
        ids[b, : len(row)] = torch.tensor(row)
    wants = [
        (request, b, len(request.context) - 1 + i, token)
        for b, (_, same) in enumerate(batch)
        for request in same
        for i, token in enumerate(request.continuation)
    ]
    places = sorted({(b, place) for _, b, place, _ in wants})
    logits, _ = logits_at(model, places, input_ids=ids.to(device), use_cache=False)
    slot = {place: i for i, place in enumerate(places)}
    at = torch.tensor([slot[b, place] for _, b, place, _ in wants], device=device)
    tokens = torch.tensor([token for *_, token in wants], device=device)
    chosen = logits[at, tokens] - torch.logsumexp(logits, dim=-1)[at]
    totals: dict[Encoded, float] = {}
    for (request, *_), value in zip(wants, chosen.double().tolist(), strict=True):
        totals[request] = totals.get(request, 0.0) + value
    return totals


def logits_at(model: Any, places: Sequence[tuple[int, int]], **inputs: Any) -> tuple[torch.Tensor, Any]:
    """Float32 logits (places, vocabulary) at these (row, column), and all that the model returned. Whatever the
    model does after its head stays the model's own code."""
    ids = inputs["input_ids"]
    rows, columns = (torch.tensor(side, device=ids.device) for side in zip(*places, strict=True))
    head = model.get_output_embeddings()
    hook = head.register_forward_pre_hook(lambda _, args: (args[0][rows, columns].unsqueeze(0), *args[1:]))
    try:
        out = model(**inputs)
    finally:
        hook.remove()
    return out.logits[0].float(), out
