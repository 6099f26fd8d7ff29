"""Measure what composing reaches on real pools of distractors: writes results/bench/compose.json.

The parts are `arc` (people's distractors and GPT-5.2's three), `prefer` (the price of keeping people's), `machine`
(GPT-5.2's twelve candidates alone, then answered requests), `mmlu_pro` (three of nine on 997 items), `clean` (redraws of a
clean set), and `whole` (three of nine on MMLU-Pro's items of ten options). Characters and the encoder take no part in
choosing. Times include the audits. The output contains no text.

`python -m bench.compose` measures all parts (an hour of processor time), and with names of parts only those.
"""

import json
import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from bench.cases import folder
from robustify.base.arrays import Floats
from robustify.cli.composing import PREFERENCE
from robustify.composing.choosing import Choosing
from robustify.composing.composed import Composed, Proving, compose
from robustify.composing.pool import Candidate, Pool, pools_of
from robustify.composing.proof import AFTER, Proof, Vectors, proof
from robustify.items.item import Item
from robustify.judging.audit.probing import KINDS
from robustify.judging.baselines.heuristics import rule_table
from robustify.judging.stats.tests import LEVEL
from robustify.judging.summary.scored import LeftToFind
from robustify.models.downloads import cache_folder
from robustify.pipeline.by_meaning import text_vectors

RESULTS = Path(__file__).parents[1] / "results" / "bench" / "compose.json"
SEEDS, LEVELS, SHOWN = (0, 1, 2), (0.0, 0.5, 1.0, 2.0, 4.0), 4
REDRAWS, CLEAN = 20, 400
Result = dict[str, Any]


def read(name: str, *writers: str) -> tuple[list[Item], list[list[Candidate]]]:
    """Return the items of a file of `distractors` with the first writer's three, and the candidates of the others."""
    items, offered = list[Item](), list[list[Candidate]]()
    with (folder() / "distractors" / name / "pool.jsonl").open(encoding="utf-8") as file:
        for row in map(json.loads, file):
            if all(writer in row for writer in writers):
                choices = tuple(dict.fromkeys((row["key"], *row[writers[0]])))
                items.append(Item(str(row["id"]), row["stem"], choices, 0, row["topic"]))
                offered.append([Candidate(text, writer) for writer in writers[1:] for text in row[writer]])
    return items, offered


def whole() -> list[Item]:
    """Return MMLU-Pro's items with ten options."""
    with (folder() / "mmlu_pro_models" / "items.jsonl").open(encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if len(row["choices"]) == 10]
    return [Item(str(r["id"]), r["stem"], tuple(r["choices"]), r["key"], r["topic"]) for r in rows]


def vectors(texts: Sequence[str]) -> Floats | None:
    """Return the encoder's vectors of texts, or None without an encoder."""
    return text_vectors(texts, cache_folder(), keep=True)


def blind(_: Sequence[str]) -> None:
    """Return no vectors, so that the encoder is left out."""


def measured(
    items: Sequence[Item], offered: Sequence[Sequence[Candidate]], how: Choosing, seen: Vectors = vectors
) -> tuple[Composed, Result]:
    """Return a composed set with what the audits found and what it took."""
    start, wall = time.process_time(), time.perf_counter()
    found = compose(items, pools_of(items, offered), how, Proving(), seen)
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
        "rounds": found.composition.trace[-1].number,
        "quiet": found.composition.quiet,
        "least": dict(found.composition.least),
        "trace": [asdict(one) for one in found.composition.trace],
        **audited(found.proof),
        "rules": {name: table[name]["value"] for name in ("longest_answer", "shortest_answer")},
        "bounds": [asdict(bound) for bound in found.bounds[:2]],
        "asked": len(found.requests),
        **took,
    }


def audited(found: Proof) -> Result:
    """Return what each auditor and reader finds in each version of a set."""

    def accuracy(one: LeftToFind) -> Result:
        even, value, ends = one.chance or 0.0, one.value or 0.0, one.ci or (0.0, 0.0)
        return {
            "accuracy": even + value,
            "n": one.n,
            "ci": [even + end for end in ends],
            "p_holm": one.p_holm,
        }

    families = {"auditors": found.auditors, "readers": found.readers}
    return {
        **{
            family: {one.name: {name: accuracy(gain) for name, gain in one.gain.items()} for one in of}
            for family, of in families.items()
        },
        "hidden": found.hidden,
        "plausible": found.plausible,
    }


def others(versions: Mapping[str, Sequence[Item]], seen: Vectors = vectors) -> Result:
    """Return what the auditors find in sets that were not composed."""
    kinds = dict.fromkeys(KINDS, True)
    return {name: audited(proof({AFTER: items}, kinds, seen))["auditors"] for name, items in versions.items()}


def drawn(pools: Sequence[Pool]) -> list[Item]:
    """Return the items with three candidates drawn at random, if they have as many."""
    pools = [pool for pool in pools if len(pool.candidates) >= SHOWN - 1]
    rng = np.random.default_rng(0)
    picks = [rng.permutation(len(pool.candidates))[: SHOWN - 1].tolist() for pool in pools]
    return [
        p.item.with_choices((p.texts[0], *(p.texts[1 + at] for at in of)), 0)
        for p, of in zip(pools, picks, strict=True)
    ]


def arc() -> Result:
    """Choose from people's and GPT-5.2's three."""
    items, offered = read("arc", "people", "gpt52")
    seeds = [measured(items, offered, Choosing(seed=seed, prefer_own=PREFERENCE))[1] for seed in SEEDS]
    versions = {"gpt52": read("arc", "gpt52")[0], "drawn": drawn(pools_of(items, offered))}
    return {"seeds": seeds, "others": others(versions)}


def prefer() -> Result:
    """Measure the price of keeping people's distractors: what the auditors find at each preference."""
    items, offered = read("arc", "people", "gpt52")
    found = [
        {"prefer_own": level} | measured(items, offered, Choosing(prefer_own=level), blind)[1]
        for level in LEVELS
    ]
    return {"levels": found}


def machine() -> Result:
    """Choose from GPT-5.2's twelve alone, then let people's distractors answer the requests."""
    items, offered = read("arc", "gpt52", "gpt52_nine")
    alone, first = measured(items, offered, Choosing())
    people = {item.id: item.choices[1:] for item in read("arc", "people")[0]}
    for at in {request.at for request in alone.requests}:
        offered[at] += [Candidate(text, "people") for text in people[items[at].id]]
    return {"alone": first, "answered": measured(items, offered, Choosing())[1]}


def mmlu_pro() -> Result:
    """Choose three of MMLU-Pro's nine."""
    items, offered = read("mmlu_pro", "people", "mmlu_pro")
    seeds = [measured(items, offered, Choosing(seed=seed))[1] for seed in SEEDS]
    return {"seeds": seeds, "others": others({"drawn": drawn(pools_of(items, offered))})}


def clean() -> Result:
    """Count alarms in composed redraws of a clean set, in which any of the seven texts of an item may be called the key."""
    pools, least = pools_of(*read("arc", "people", "gpt52"))[:CLEAN], list[float]()
    for seed in range(REDRAWS):
        rng, items, offered = np.random.default_rng(seed), list[Item](), list[list[Candidate]]()
        for pool in pools:
            texts = [pool.texts[at] for at in rng.permutation(len(pool.texts)).tolist()]
            items.append(pool.item.with_choices(tuple(texts[:4]), 0))
            offered.append([Candidate(text, "others") for text in texts[4:]])
        found = compose(items, pools_of(items, offered), Choosing(seed=seed), Proving(), blind)
        least.append(min(one.gain[AFTER].p_holm for one in found.proof.auditors))
    return {
        "redraws": REDRAWS,
        "items": CLEAN,
        "significant": sum(p <= LEVEL for p in least),
        "least_p_holm": least,
    }


def largest() -> Result:
    """Choose three of nine on MMLU-Pro as a whole."""
    items = whole()
    none: list[tuple[Candidate, ...]] = [()] * len(items)
    return {"seeds": [measured(items, none, Choosing(seed=seed), blind)[1] for seed in SEEDS]}


PARTS: dict[str, Callable[[], Result]] = {
    "arc": arc, "prefer": prefer, "machine": machine, "mmlu_pro": mmlu_pro, "clean": clean, "whole": largest,
}  # fmt: skip


def main(names: Sequence[str]) -> None:
    """Measure parts and keep what stands in the file for the others."""
    if unknown := set(names) - set(PARTS):
        raise SystemExit(f"unknown parts: {', '.join(sorted(unknown))}. Expected {', '.join(PARTS)}.")
    out = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names or PARTS:
        out[name] = PARTS[name]() | {"date": date.today().isoformat(), "python": platform.python_version()}
        RESULTS.write_text(json.dumps(rounded(out), indent=1) + "\n")
        print(name, "measured", file=sys.stderr)


def rounded(value: Any) -> Any:
    """Round all numbers to four places."""
    match value:
        case float():
            return round(value, 4)
        case dict():
            return {key: rounded(one) for key, one in value.items()}
        case list() | tuple():
            return [rounded(one) for one in value]
    return value


if __name__ == "__main__":
    main(sys.argv[1:])
