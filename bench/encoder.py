"""Compare the sentence encoder in bfloat16 with float32: writes results/bench/encoder.json.

`python -m bench.encoder [SEEDS]` embeds the options of each set of bench/atlas/sets.yaml in both types with one thread, and
answers its items from the vectors. A row has processor seconds, the smallest and mean cosine of both vectors of an option,
and for each seed of the folds how many picks differ, and whether the encoder is above chance in both types.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import yaml
from scipy.stats import binomtest

from bench.atlas.audit import items_of
from bench.results import RESULTS, Tree, commit, left_out, machine, publish
from robustify.base.files import cache_folder
from robustify.items.answers import Answer
from robustify.judging.readers.reader_rows import ProbeSettings, encoded, meaning
from robustify.judging.stats.tests import LEVEL
from robustify.models.engines.local.sentence_encoder import sentence_vectors
from robustify.models.folder import encoder
from robustify.models.names import ENCODER

SETS = Path(__file__).parent / "atlas" / "sets.yaml"
DTYPES = ("float32", "bfloat16")


def _is_above_chance(rows: list[Answer], chance: float) -> bool:
    n_right = round(sum(float(row.correct or 0) for row in rows))
    return bool(binomtest(n_right, len(rows), chance, alternative="greater").pvalue <= LEVEL)


def row(name: str, data: str | list[str], folder: Path, seeds: int) -> Tree:
    """Return the measures of one set. Raises as `items_of`."""
    items = encoded(items_of(data))
    texts = [choice for item in items for choice in item.choices]
    vectors, seconds = {}, {}
    for dtype in DTYPES:
        begun = time.process_time()
        vectors[dtype] = sentence_vectors(folder, texts, dtype=dtype).astype(np.float64)
        seconds[dtype] = round(time.process_time() - begun, 2)
    cosine = (vectors["float32"] * vectors["bfloat16"]).sum(axis=1)
    chance = float(np.mean([1 / item.k for item in items]))
    differing, states = [], []
    for seed in range(seeds):
        pairs = [meaning(items, vectors[dtype], ENCODER.name, ProbeSettings(seed=seed)) for dtype in DTYPES]
        differing.append(sum(a.pick != b.pick for a, b in zip(*pairs, strict=True)))
        states.append(len({_is_above_chance(rows, chance) for rows in pairs}) == 1)
    return {
        "set": name, "items": len(items), "options": len(texts), "processor_s": seconds,
        "cosine": {"least": round(float(cosine.min()), 6), "mean": round(float(cosine.mean()), 6)},
        "differing_picks": differing, "same_state": states,
    }  # fmt: skip


def rows(seeds: int) -> Iterator[Tree]:
    """Yield a row for each set whose files are here. Raise `SystemExit` if the encoder is missing."""
    folder = encoder(cache_folder())
    if folder is None:
        raise SystemExit("The encoder is not installed. Run `robustify models pull minilm-l6-v2`.")
    torch.set_num_threads(1)
    for name, data in yaml.safe_load(SETS.read_text("utf-8")).items():
        with left_out(name):
            yield row(name, data, folder, seeds)


def main(seeds: int = 3) -> None:
    """Measure all sets, and write the file."""
    table = list(rows(seeds))
    share = sum(sum(r["differing_picks"]) for r in table) / sum(seeds * r["items"] for r in table)
    total = {dtype: sum(r["processor_s"][dtype] for r in table) for dtype in DTYPES}
    facts = {
        **machine(), "commit": commit(), "seeds": seeds, "share_of_differing_picks": round(share, 4),
        "time_of_bfloat16": round(total["bfloat16"] / total["float32"], 3), "sets": table,
    }  # fmt: skip
    publish(RESULTS / "bench" / "encoder.json", facts)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
