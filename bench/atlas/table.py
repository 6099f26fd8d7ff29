"""One table of all sets in results/atlas: atlas.json, and atlas.html, which sorts.

Each file of sets.yaml and more.yaml is a set, or several by file or topic. No model is asked: the probes of `blind` and the
filter see only the options. A set with an unchanged signature is not audited again. Fields of a row are:

- `n`, `chance`, `probes` (accuracy of each probe), `best` (the probe with the highest), and `worth` (1 / its accuracy).
- `cue`: what keys most often have or lack, `keys` of `n` items that differ in it, and the number `expected`.
- `advice`: what to do about the cue; `flagged`: items that the filter flags; `models`: the models asked elsewhere.
- `signature`: set, number of items, digest of the file, probes, and version.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jinja2
import yaml

from bench.atlas.blind import blind, keys_of
from bench.atlas.fitted import Entry, tie_fair
from bench.atlas.index import publish
from bench.atlas.larger import SETS as LARGER
from bench.atlas.sample import Data, loaded, paths_of, sampled
from robustify import __version__
from robustify.base.errors import RobustifyError
from robustify.base.files import write_text
from robustify.items.item import Item
from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS
from robustify.judging.baselines.heuristics import guess
from robustify.judging.baselines.near_duplicates import fold_groups
from robustify.judging.context import Facts, Rules, context
from robustify.judging.lint.findings import cues_of, marks_of
from robustify.judging.lint.rules import CUES, RULES
from robustify.judging.stats.intervals import rate

MORE, PAGE = (Path(__file__).with_name(name) for name in ("more.yaml", "table.html.j2"))
MOST = 2_000
"""Most items that are audited of a set, the first in hash order of sample.py."""
ADVICE = {
    "form": "Make the options alike in form and length.",
    "words": "Use the same words in keys and distractors.",
    "characters": "Use the same words and spelling in keys and distractors.",
    "logit": "Make the options alike in form and length.",
    "comparing": "Do not make distractors by changing the key.",
}


def sets_of(sets: Mapping[str, Data]) -> Iterator[tuple[str, str, tuple[Item, ...]]]:
    """Yield the name, the digest, and the items of each set whose files exist, and of its parts."""
    more: dict[str, dict[str, Any]] = yaml.safe_load(MORE.read_text(encoding="utf-8"))
    for name, data in sets.items():
        yield from _read(name, data)
        for path in paths_of(data) if isinstance(data, list) else ():
            yield from _read(f"{name.partition('-')[0]}: {Path(path).stem}", path)
    for name, about in more.items():
        for whole, digest, items in _read(name, about["data"]):
            topics = sorted({item.topic for item in items}) if about.get("by") == "topic" else []
            for topic in topics:
                yield f"{whole}: {topic}", digest, tuple(item for item in items if item.topic == topic)
            if not topics:
                yield whole, digest, items


def _read(name: str, data: Data) -> Iterator[tuple[str, str, tuple[Item, ...]]]:
    try:
        bench = loaded(data)
    except RobustifyError:
        return
    yield name, bench.sha256, tuple(item.trimmed() for item in bench.items)


def write_table(folder: Path, sets: Mapping[str, Data]) -> None:
    """Write atlas.json and atlas.html in the folder that has the results of the other audits."""
    place = folder / "atlas.json"
    before = json.loads(place.read_text(encoding="utf-8"))["sets"] if place.is_file() else {}
    rows: dict[str, Entry] = {}
    for name, digest, items in sets_of(sets):
        if len(items) < FEWEST_ITEMS:
            continue
        signature = (
            f"set:{name}|n:{len(items)}|data:{digest[:8]}|voters:none|probes:5|robustify:{__version__}"
        )
        found = before.get(name, {})
        rows[name] = found if found.get("signature") == signature else row(items) | {"signature": signature}
        rows[name]["models"] = _asked(folder, name)
        publish(place, {"sets": rows})
    page = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(PAGE.read_text(encoding="utf-8"))
    write_text(folder / "atlas.html", page.render(sets=rows))


def _asked(folder: Path, name: str) -> str:
    """Return which models answered a set in other results: none, two small ones, or larger ones."""
    of = folder / f"{name}.json"
    small = of.is_file() and json.loads(of.read_text(encoding="utf-8"))["models"] is not None
    return "larger ones" if name in LARGER else "two small ones, a sample" if small else "none"


def row(every: tuple[Item, ...]) -> Entry:
    """Return the numbers of a set, without a model."""
    items = sampled(every, MOST)
    key, k = keys_of(items)
    groups = fold_groups(items)
    won = {name: tie_fair(logits, key, k) for name, logits in blind(items, groups).items()}
    best = max(won, key=lambda name: float(won[name].mean()))
    flagged = context(guess(items), Facts("atlas"), Rules(), items).parts.flagged
    cues = cues_of(marks_of(items), items)
    code = max(cues, key=lambda one: abs(cues[one].keys - cues[one].expected), default=None)
    accuracy = {name: rate(credit, groups).json() for name, credit in won.items()}
    return {
        "n": len(every),
        "audited": len(items),
        "chance": float((1 / k).mean()),
        "probes": accuracy,
        "best": best,
        "worth": 1 / float(won[best].mean()),
        "flagged": int(flagged.sum()),
        "cue": code
        and {
            "code": code,
            "says": CUES[code].having if cues[code].is_more else CUES[code].lacking,
            **{of: getattr(cues[code], of) for of in ("keys", "n", "expected")},
        },
        "advice": f"{RULES[code].fix[0].upper()}{RULES[code].fix[1:]}." if code else ADVICE[best],
    }
