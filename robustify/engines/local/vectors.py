"""Option vectors of a frozen model, for the linear probes of the residual audit.

The vector of an option is the mean, over the option's own tokens, of the model's last hidden layer, where the
option follows the neutral context of the text screen: no stem is ever shown, and no other option. What the cache
folder holds is not computed again, and then torch is not loaded. Vectors say almost as much as the text they come
from (Morris et al. 2023, arXiv 2310.06816): their files hold no token and no id, are their owner's alone to read,
and are as sensitive as the benchmark: those of a restricted set are never kept at all.
"""

import gc
import hashlib
import io
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from robustify import orders
from robustify.engines.plan import Encoded
from robustify.engines.protocols import Progress, no_progress
from robustify.engines.recipe import recipe, threads, tokenizer_key
from robustify.engines.score_file import set_aside
from robustify.engines.settings import HFModel
from robustify.engines.tokens import Speller, encode, kept
from robustify.errors import DataError, ModelError, RequestError, ResourceError
from robustify.files import write_atomic
from robustify.item import Item
from robustify.redaction import muted
from robustify.views import template

Vectors = npt.NDArray[np.float32]

_DIGEST_BYTES = 32


def option_vectors(
    items: Sequence[Item],
    model: HFModel,
    folder: Path,
    cache: Path,
    random_seed: int | None,
    progress: Progress = no_progress,
    *,
    keep: bool = True,
) -> Vectors:
    """One vector for each choice of each item, in their order, (sum of k, d).

    NaN for every choice of an item with an empty one. `random_seed`: not the model's own weights but random ones
    for its architecture. Without `keep` nothing is looked up and nothing written.
    """
    parts = recipe(folder, model.device, "float32", model.budget)
    speller, length = kept(cache, tokenizer_key(parts), lambda: _tokenizer(folder))
    there = np.array(
        [all(c.strip() for c in item.choices) for item in items for _ in item.choices], dtype=bool
    )
    asked = _encoded([item for item in items if all(c.strip() for c in item.choices)], speller, length, model)
    path = cache / "vectors" / f"{_key(parts, random_seed, asked)}.npy"
    vectors = np.zeros((0, 1), dtype=np.float32) if not asked else _read(path) if keep else None
    if vectors is None:
        vectors = _computed(asked, model, folder, random_seed, progress)
        if keep:
            _write(path, vectors)
    else:
        progress(len(asked))
    progress(int((~there).sum()))
    out = np.full((len(there), vectors.shape[1]), np.nan, dtype=np.float32)
    out[there] = vectors
    return out


def _tokenizer(folder: Path) -> tuple[Any, int]:
    from robustify.engines.local.model import opened_tokenizer

    return opened_tokenizer(folder)


def _encoded(items: Sequence[Item], speller: Speller, length: int, model: HFModel) -> list[Encoded]:
    words = template("choices_only_text")
    owners = [item.id for item in items for _ in item.choices]
    requests = [r for item in items for r in words.requests(item, orders.own(item.k))]
    try:
        encoded = encode(speller, requests)
    except RequestError as error:
        faults = {owners[i]: fault for i, fault in error.faults.items()}
        raise DataError.gather([f"item {item}, head: {fault}" for item, fault in faults.items()]) from None
    long = dict.fromkeys(
        owner for owner, e in zip(owners, encoded, strict=True) if len(e.context + e.continuation) > length
    )
    if long:
        raise DataError.gather(
            [
                f"item {item}, head: a choice is longer than the {length} tokens that {model.name} takes; "
                "expected a model with a longer context"
                for item in long
            ]
        )
    return encoded


def _computed(
    asked: Sequence[Encoded], model: HFModel, folder: Path, random_seed: int | None, progress: Progress
) -> Vectors:
    import torch

    from robustify.engines.local.model import device_of, is_out_of_memory

    device = device_of(model.device)
    try:
        with _threads():
            network = _network(folder, random_seed, device)
            try:
                with torch.inference_mode(), muted():
                    out = _forwarded(network.get_decoder(), asked, model.budget, device, progress)
            finally:
                del network
                gc.collect()
                if device.type == "cuda":
                    torch.cuda.empty_cache()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise ResourceError(
            f"{model.name}: its vectors do not fit into memory in float32, {model.budget} tokens at a time; "
            "expected room for both: lower max_batch_tokens, or take a smaller model for heads"
        ) from None
    if not np.isfinite(out).all():
        raise ModelError(f"{model.name}: gave vectors that are NaN or infinite; its weights are damaged")
    return out


@contextmanager
def _threads() -> Iterator[None]:
    """As many threads as the engine takes; torch's own number comes back on leaving."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _network(folder: Path, random_seed: int | None, device: Any) -> Any:
    """The model of this folder, or its architecture with random weights."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from robustify.engines.local.model import opened

    if random_seed is None:
        return opened(folder, torch.float32, device)[1]
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    # Weights are drawn on the CPU, by the one generator that is put back, so that a seed means the same anywhere.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(random_seed)
        network = AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=False)
    return network.to(device).eval()


def _forwarded(
    decoder: Any, asked: Sequence[Encoded], budget: int, device: Any, progress: Progress
) -> Vectors:
    """Each distinct option once, in batches of like lengths and at most about `budget` tokens."""
    import torch

    rows = {e: e.context + e.continuation for e in asked}
    counts = Counter(asked)
    means: dict[Encoded, Vectors] = {}
    for batch in _batches(sorted(rows, key=lambda e: (-len(rows[e]), rows[e], len(e.context))), budget):
        width = len(rows[batch[0]])
        # The model is causal: what fills up a row behind its option cannot change the option's vectors.
        ids = torch.zeros((len(batch), width), dtype=torch.long)
        for i, e in enumerate(batch):
            ids[i, : len(rows[e])] = torch.tensor(rows[e])
        hidden = decoder(input_ids=ids.to(device), use_cache=False).last_hidden_state
        for i, e in enumerate(batch):
            own = hidden[i, len(e.context) : len(rows[e])]
            means[e] = own.float().mean(dim=0).cpu().numpy()
        progress(sum(counts[e] for e in batch))
    return np.stack([means[e] for e in asked])


def _batches(longest_first: Sequence[Encoded], budget: int) -> Iterator[list[Encoded]]:
    start = 0
    while start < len(longest_first):
        first = longest_first[start]
        room = max(1, budget // len(first.context + first.continuation))
        yield list(longest_first[start : start + room])
        start += room


def _key(parts: dict[str, str], random_seed: int | None, asked: Sequence[Encoded]) -> str:
    digest = hashlib.sha256(b"robustify/vectors/1")
    weights = "weights" if random_seed is None else f"random {random_seed}"
    for line in (*(f"{name} {value}" for name, value in sorted(parts.items())), weights):
        digest.update(struct.pack("<q", len(line.encode())) + line.encode())
    for e in asked:
        for tokens in (e.context, e.continuation):
            digest.update(struct.pack(f"<q{len(tokens)}q", len(tokens), *tokens))
    return digest.hexdigest()


def _read(place: Path) -> Vectors | None:
    """What was kept here, or None; a damaged file is set aside."""
    try:
        raw = place.read_bytes()
    except OSError:
        return None
    body, digest = raw[:-_DIGEST_BYTES], raw[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() == digest:
        return np.asarray(np.load(io.BytesIO(body), allow_pickle=False), dtype=np.float32)
    try:
        where = f"set aside as {set_aside(place).name}"
    except OSError as error:
        where = f"cannot be set aside ({error.strerror})"
    print(f"robustify: {place.name} is damaged: {where}, computed anew", file=sys.stderr)
    return None


def _write(path: Path, vectors: Vectors) -> None:
    """Keep them with their sha256 behind them, whole or not at all. A folder that cannot be written costs time."""
    buffer = io.BytesIO()
    np.save(buffer, vectors, allow_pickle=False)
    body = buffer.getvalue()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, body + hashlib.sha256(body).digest(), private=True, sync=False)
    except OSError as error:
        print(f"robustify: {path.parent}: vectors are not kept ({error.strerror})", file=sys.stderr)
