"""Measure what composing reaches on real pools of distractors: writes results/bench/compose.json.

The parts are `arc` (people's distractors and GPT-5.2's three), `machine` (GPT-5.2's twelve candidates alone), `mmlu_pro`
(three of nine on 997 items), and `clean` (redraws of a clean set). Characters and the encoder take no part in choosing.
Times include the audits.

`published` chooses four options of each item of MMLU-Pro, and writes results/atlas/mmlu_pro_composed.csv with their indices
in the public set, and the audit beside it. `lm_eval_tasks/mmlu_pro_composed` applies them.

`python -m bench.compose` measures all parts (an hour of processor time), and with names of parts only those.
"""

import csv
import hashlib
import platform
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np

from bench.atlas.mmlu_pro import ITEMS
from bench.atlas.writers import pools as rows_by
from bench.cases import items_at
from bench.results import RESULTS, Tree, measure, publish, rounded
from robustify.base.arrays import Floats
from robustify.base.files import cache_folder
from robustify.cli.composing import PREFERENCE
from robustify.composing.choosing import Choosing
from robustify.composing.composed_set import Composed, compose
from robustify.composing.pool import Candidate, Pool, make_pools
from robustify.composing.proof import AFTER, Proof, Vectors
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import rule_table
from robustify.judging.stats.tests import LEVEL, holm
from robustify.judging.summary.model_parts import Gain
from robustify.pipeline.encoder import embed_texts

PUBLISHED = RESULTS / "atlas" / "mmlu_pro_composed.csv"
SEEDS, SHOWN = (0, 1, 2), 4
REDRAWS, CLEAN = 20, 400


def read(name: str, *writers: str) -> tuple[list[Item], list[list[Candidate]]]:
    """Return the items of a file of `distractors` with the first writer's three, and the candidates of the others."""
    items, offered = list[Item](), list[list[Candidate]]()
    for row in rows_by(name, writers):
        choices = tuple(dict.fromkeys((row["key"], *row[writers[0]])))
        items.append(Item(str(row["id"]), row["stem"], choices, 0, row["topic"]))
        offered.append([Candidate(text, writer) for writer in writers[1:] for text in row[writer]])
    return items, offered


def vectors(texts: Sequence[str]) -> Floats | None:
    """Return the encoder's vectors of texts, or None without an encoder."""
    return embed_texts(texts, cache_folder(), keep=True)


def blind(_: Sequence[str]) -> None:
    """Return no vectors, so that the encoder is left out."""


def measured(
    items: Sequence[Item], pools: Sequence[Pool], how: Choosing, seen: Vectors = vectors
) -> tuple[Composed, Tree]:
    """Return a composed set with what the audits found and what it took."""
    start, wall = time.process_time(), time.perf_counter()
    found = compose(items, pools, how, seen)
    took = {
        "processor_seconds": round(time.process_time() - start, 1),
        "seconds": round(time.perf_counter() - wall, 1),
        "gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }
    table = rule_table(found.items)["heuristics"]
    say = {one.name: round(100 * (one.gain[AFTER].value or 0.0), 1) for one in found.proof.auditors}
    print(f"seed {how.seed}: {len(items)} items, points above chance {say}, {took}", file=sys.stderr)
    total = sum(found.writers.values())
    return found, {
        "seed": how.seed,
        "items": len(items),
        "left_as_they_were": len(found.stays),
        "writers": {name: n / total for name, n in found.writers.items()},
        "rounds": len(found.composition.trace),
        "least": dict(found.composition.least),
        "trace": [{kind: accuracy(one) for kind, one in kinds.items()} for kinds in found.composition.trace],
        **audited(found.proof),
        "rules": {name: table[name]["value"] for name in ("longest_answer", "shortest_answer")},
        "bounds": [asdict(bound) for bound in found.bounds[:2]],
        "asked": len(found.requests),
        **took,
    }


def accuracy(one: Gain) -> Tree:
    """Return what an auditor finds, with chance added to its gain."""
    even, value, ends = one.chance or 0.0, one.value or 0.0, one.ci or (0.0, 0.0)
    return {"accuracy": even + value, "n": one.n, "ci": [even + end for end in ends], "p_holm": one.p_holm}


def audited(found: Proof) -> Tree:
    """Return what each auditor and reader finds in each version of a set."""
    auditors, readers = (
        {one.name: {name: accuracy(gain) for name, gain in one.gain.items()} for one in of}
        for of in (found.auditors, found.readers)
    )
    return {"auditors": auditors, "readers": readers, "hidden": found.hidden, "plausible": found.plausible}


def chosen(name: str, *writers: str, seeds: Sequence[int] = SEEDS, prefer_own: float = 0.0) -> list[Tree]:
    """Choose from the pools of a file of `distractors`, once for each seed."""
    items, offered = read(name, *writers)
    pools = make_pools(items, offered)
    return [measured(items, pools, Choosing(seed=seed, prefer_own=prefer_own))[1] for seed in seeds]


def clean() -> Tree:
    """Count alarms in composed redraws of a clean set, in which any of the seven texts of an item may be called the key."""
    pools, least = make_pools(*read("arc", "people", "gpt52"))[:CLEAN], list[float]()
    found: dict[str, list[float]] = {}
    for seed in range(REDRAWS):
        rng, items, offered = np.random.default_rng(seed), list[Item](), list[list[Candidate]]()
        for pool in pools:
            texts = [pool.texts[at] for at in rng.permutation(len(pool.texts)).tolist()]
            items.append(pool.item.with_choices(tuple(texts[:4]), 0))
            offered.append([Candidate(text, "others") for text in texts[4:]])
        composed = compose(items, make_pools(items, offered), Choosing(seed=seed), blind)
        for one in composed.proof.auditors:
            found.setdefault(one.name, []).append(one.gain[AFTER].p)
        least.append(min(holm([p[-1] for p in found.values()])))
    return {
        "redraws": REDRAWS,
        "items": CLEAN,
        "significant": sum(p <= LEVEL for p in least),
        "least_p_holm": least,
        "p": found,
    }


def published() -> Tree:
    """Choose four options of each item of MMLU-Pro, as they are typed, because the task shows them so."""
    items = [item.trimmed() for item in items_at(*ITEMS) if item.k >= SHOWN]
    pools = make_pools(items, [()] * len(items), same_typography=False)
    usable = [at for at, pool in enumerate(pools) if len(pool.texts) >= SHOWN]
    items, of = [items[at] for at in usable], [pools[at] for at in usable]
    found, result = measured(items, of, Choosing(), blind)
    write_indices(PUBLISHED, items, found.items)
    return {"options": SHOWN, "with_fewer_usable_options": len(pools) - len(usable), **result}


def write_indices(path: Path, items: Sequence[Item], composed: Sequence[Item]) -> None:
    """Write which options of each item are shown, in their order, as indices from 0. `check` is a digest of the public
    text, because questions are found by their IDs, but later versions of the set may have other options."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["question_id", "options", "check"])
        for item, shown in zip(items, composed, strict=True):
            places = " ".join(str(item.choices.index(choice)) for choice in shown.choices)
            rows.writerow([item.id.rpartition("-")[2], places, digest(item.stem, item.choices)])


def digest(question: str, options: Sequence[str]) -> int:
    """Return the first 32 bits of the SHA-256 of a question and its options, whose spaces do not count."""
    plain = "\0".join(" ".join(text.split()) for text in (question, *options))
    return int(hashlib.sha256(plain.encode()).hexdigest()[:8], 16)


PARTS: dict[str, Callable[[], Tree]] = {
    "arc": lambda: {"seeds": chosen("arc", "people", "gpt52", prefer_own=PREFERENCE)},
    "machine": lambda: {"alone": chosen("arc", "gpt52", "gpt52_nine", seeds=SEEDS[:1])[0]},
    "mmlu_pro": lambda: {"seeds": chosen("mmlu_pro", "people", "mmlu_pro")},
    "clean": clean,
}


def dated(part: Callable[[], Tree]) -> Tree:
    """Run a part, and return its numbers with the date and the version of Python."""
    found: Tree = rounded(part())
    return found | {"date": date.today().isoformat(), "python": platform.python_version()}


def main(names: Sequence[str]) -> int:
    """Measure the named parts, or all parts."""
    if not names or "published" in names:
        publish(PUBLISHED.with_suffix(".json"), dated(published))
    others = [name for name in names if name != "published"]
    parts = {name: partial(dated, part) for name, part in PARTS.items()}
    return measure(RESULTS / "bench" / "compose.json", parts, others) if others or not names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
