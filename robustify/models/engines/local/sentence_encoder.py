"""Compute vectors of texts with a sentence encoder of the BERT family (Devlin et al. 2019), using only torch.

An audit without other models needs six layers. To import transformers for them would take longer than most such audits, and
more memory than the encoder.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from robustify.models.engines.local.freed_memory import give_back
from robustify.models.engines.local.linear import linear, packed
from robustify.models.engines.local.loading import loading
from robustify.models.engines.protocols import Progress, no_progress

_LONGEST = 256
"""Maximum length of a text in tokens, as in the training of the encoder."""
_TEXTS, _BATCH = 64, 1_024
"""Most texts, and about as many tokens, per batch. More are hardly faster, and take more memory."""
_BATCHES = 16
"""Number of batches after which freed memory is given back. It is in pieces, because batches differ in shape."""
_KIND = ("bert", "gelu", "absolute")
"""Model type, activation, and kind of positions that are computed here."""
_TOKENIZED = 1_000
"""Number of texts that are tokenized at once. The tokenizer's own records are many times larger than its tokens."""


@dataclass(frozen=True, slots=True)
class _Encoder:
    weights: Mapping[str, Tensor]
    layers: int
    heads: int
    epsilon: float

    @classmethod
    def read(cls, folder: Path, dtype: torch.dtype) -> "_Encoder":
        config = json.loads((folder / "config.json").read_text("utf-8"))
        kind = config["model_type"], config["hidden_act"], config.get("position_embedding_type", "absolute")
        if kind != _KIND:
            raise ValueError(
                f"config.json: unsupported type of encoder ({', '.join(kind)}); expected {', '.join(_KIND)}"
            )
        weights = {name: tensor.to(dtype) for name, tensor in load_file(folder / "model.safetensors").items()}
        layers = {
            name for name, tensor in weights.items() if name.startswith("encoder.") and tensor.ndim == 2
        }
        weights |= {name: packed(weights[name]) for name in layers}
        return cls(
            weights, config["num_hidden_layers"], config["num_attention_heads"], config["layer_norm_eps"]
        )

    def states(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """Return the last hidden states (n_texts, n_tokens, width). The `mask` (n_texts, n_tokens) is false for padding."""
        tables = (f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type"))
        words, positions, kinds = (self.weights[name] for name in tables)
        states = self._normed(
            "embeddings", functional.embedding(ids, words) + positions[: ids.shape[1]] + kinds[0]
        )
        seen = None if mask is None else mask[:, None, None, :]
        for layer in range(self.layers):
            states = self._layer(f"encoder.layer.{layer}", states, seen)
        return states

    def _layer(self, name: str, states: Tensor, seen: Tensor | None) -> Tensor:
        projected = (
            self._linear(f"{name}.attention.self.{part}", states) for part in ("query", "key", "value")
        )
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in projected)
        by_head = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        attended = by_head.transpose(1, 2).flatten(2)
        attention = self._linear(f"{name}.attention.output.dense", attended)
        states = self._normed(f"{name}.attention.output", states + attention)
        inner = self._linear(f"{name}.intermediate.dense", states, activation="gelu")
        return self._normed(f"{name}.output", states + self._linear(f"{name}.output.dense", inner))

    def _linear(self, name: str, states: Tensor, activation: str = "none") -> Tensor:
        weight, bias = (self.weights[f"{name}.{part}"] for part in ("weight", "bias"))
        return linear(states, weight, bias, activation=activation)

    def _normed(self, name: str, states: Tensor) -> Tensor:
        scale, shift = (self.weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return functional.layer_norm(states, scale.shape, scale, shift, self.epsilon)


def sentence_vectors(
    folder: Path, texts: Sequence[str], progress: Progress = no_progress, *, dtype: str = "float32"
) -> npt.NDArray[np.float32]:
    """Return a normalized vector for each text (n_texts, width), which is the mean of the last hidden states over the
    tokens. Texts of similar length share a batch. Raise `ModelError` if the folder cannot be loaded."""
    with loading(folder, "torch"):
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        encoder = _Encoder.read(folder, getattr(torch, dtype))
        width = encoder.weights["embeddings.word_embeddings.weight"].shape[1]
    tokenizer.no_padding()
    tokenizer.enable_truncation(_LONGEST)
    distinct = sorted(set(texts))
    row_of = {text: row for row, text in enumerate(distinct)}
    tokens = [
        np.array(encoding.ids, dtype=np.int32)
        for start in range(0, len(distinct), _TOKENIZED)
        for encoding in tokenizer.encode_batch_fast(distinct[start : start + _TOKENIZED])
    ]
    vectors = np.zeros((len(distinct), width), dtype=np.float32)
    with torch.inference_mode():
        for number, rows in enumerate(_batches([len(ids) for ids in tokens]), 1):
            vectors[rows] = _vectors(encoder, [tokens[row] for row in rows])
            progress(len(rows))
            if not number % _BATCHES:
                give_back()
    return vectors[[row_of[text] for text in texts]]


def _batches(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield the rows of each batch. The longest texts come first, so that later batches fit into the same memory."""
    left = sorted(range(len(sizes)), key=sizes.__getitem__)
    while left:
        n = min(_TEXTS, max(1, _BATCH // sizes[left[-1]]))
        yield left[-n:]
        del left[-n:]


def _vectors(encoder: _Encoder, batch: Sequence[npt.NDArray[np.int32]]) -> npt.NDArray[np.float32]:
    """Return the normalized mean state of each text (n_texts, width)."""
    sizes = torch.tensor([len(ids) for ids in batch])[:, None]
    mask = torch.arange(int(sizes.max())) < sizes
    ids = torch.zeros(mask.shape, dtype=torch.int32)
    ids[mask] = torch.from_numpy(np.concatenate(batch))
    states = encoder.states(ids, None if mask.all() else mask).float()
    vectors: npt.NDArray[np.float32] = functional.normalize(
        (states * mask[..., None]).sum(1) / sizes, dim=1
    ).numpy()
    return vectors
