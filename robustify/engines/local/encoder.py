"""Sentence embeddings from a small encoder on the CPU. The encoder generates no text and never votes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoModel

from robustify.engines.local.model import opened
from robustify.engines.protocols import Progress, no_progress

TOGETHER = 64
"""Number of texts per batch."""
LONGEST = 256
"""Maximum number of tokens per text, as in the training of the encoder."""

Vectors = npt.NDArray[np.float32]


def sentence_vectors(folder: Path, texts: Sequence[str], progress: Progress = no_progress) -> Vectors:
    """Return the normalized mean of the last hidden layer over the tokens of each text (n_texts, width).
    Texts of similar length share a batch to reduce padding. Equal texts are encoded once. Raise `ModelError` if
    transformers cannot load the folder."""
    tokenizer, model = opened(folder, torch.float32, torch.device("cpu"), AutoModel)
    once = sorted(set(texts), key=lambda text: (len(text), text))
    row = {text: at for at, text in enumerate(once)}
    out = np.zeros((len(once), model.config.hidden_size), dtype=np.float32)
    with torch.inference_mode():
        for start in range(0, len(once), TOGETHER):
            part = once[start : start + TOGETHER]
            given = tokenizer(part, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt")
            shown = given["attention_mask"][..., None]
            mean = (model(**given).last_hidden_state * shown).sum(1) / shown.sum(1)
            out[start : start + len(part)] = torch.nn.functional.normalize(mean, dim=1).numpy()
            progress(len(part))
    return out[[row[text] for text in texts]]
