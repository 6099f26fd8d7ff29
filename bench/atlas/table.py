"""One table of all sets in the results of the atlas: atlas.json, and atlas.html, which sorts.

The rows come from index.json, mmlu_pro.json (also by source and topic), and writers.json. Fields of a row are:

- `n`, `chance`, and the accuracy of the `probe` that finds most without the question (`value`, `ci`).
- `cue`: what gives most, in words with its figures; `advice`: what to do about it.
- `flagged`: items that the filter flags.
- `signature`: set, number of items, digest of its data, and file of results.
"""

from collections.abc import Iterator
from pathlib import Path

import jinja2

from bench.atlas.fitted import Entry
from bench.cases import folder as shared
from bench.results import publish, read
from robustify.base.files import sha256, write_text
from robustify.judging.lint.rules import CUES, RULES

PAGE = Path(__file__).with_name("table.html.j2")
FIX = {cue.having: RULES[code].fix for code, cue in CUES.items()}
GROUPS = {
    "words": ("words that are more frequent in keys", "use the same words in keys and distractors"),
    "length": ("length", "make the options of an item equally long"),
    "form": ("punctuation, capitals, and form", "write all options in the same form"),
    "characters": (
        "letter sequences that are more frequent in keys",
        "use the same words in keys and distractors",
    ),
    "meaning": ("the meaning of the options", "write distractors about the same things as the key"),
    "comparing": (
        "form, numbers, and strings compared",
        "vary distractors that were made by changing the key",
    ),
}
"""What a group of features or a probe sees, and the advice for it."""
FILES = {
    "mmlu_pro": "mmlu_pro_models/items.jsonl",
    "arc": "distractors/arc/pool.jsonl",
    "mmlu-pro": "distractors/mmlu_pro/pool.jsonl",
}


def write_table(folder: Path) -> None:
    """Write atlas.json and atlas.html from the results in a folder."""
    found = {name: row for part in (_index, _whole, _writers) for name, row in part(folder)}
    publish(folder / "atlas.json", {"sets": found})
    page = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(PAGE.read_text(encoding="utf-8"))
    write_text(folder / "atlas.html", page.render(sets=found))


def _index(folder: Path) -> Iterator[tuple[str, Entry]]:
    for name, row in read(folder / "index.json").get("sets", {}).items():
        cue = row["strongest_cue"]
        says, advice = GROUPS.get(cue["cue"], (cue["cue"].replace("_", " "), GROUPS["form"][1]))
        named = {"cue": f"{says}: {100 * cue['value']:.1f} % alone", "advice": advice}
        flagged, digest = round(row["flagged"]["value"] * row["n"]), read(folder / f"{name}.json")["sha256"]
        yield name, _row(name, {**row, **row["scorer"]}, "scorer", named, flagged, (digest, f"{name}.json"))


def _whole(folder: Path) -> Iterator[tuple[str, Entry]]:
    if found := read(folder / "mmlu_pro.json"):
        best = found["worth"]["best"]
        parts = found["probes"][best]
        for name, row in {"all": parts["all"], **parts["source"], **parts["topic"]}.items():
            of = "mmlu-pro" if name == "all" else f"mmlu-pro: {name}"
            flagged = found["ranking"]["flagged"] if name == "all" else None
            cue = _cue(found["cues"].get(name, []), best)
            yield of, _row(of, row, best, cue, flagged, (_digest("mmlu_pro"), "mmlu_pro.json"))


def _writers(folder: Path) -> Iterator[tuple[str, Entry]]:
    found = read(folder / "writers.json")
    for name in ("arc", "mmlu_pro") if found else ():
        for writer, row in found[name]["writers"].items():
            best = max(row["accuracy"], key=lambda one: row["accuracy"][one]["value"])
            plain = name.replace("_", "-")
            of, probe, cue = f"{plain} by {writer}", best.replace("_", " "), _cue(row["cues"], best)
            accuracy = {**found[name], **row["accuracy"][best], "n": found[name]["n"]}
            made = _digest(plain), "writers.json"
            yield of, _row(of, accuracy, probe, cue, row["flagged"]["items"], made)


def _row(name: str, of: Entry, probe: str, cue: Entry, flagged: int | None, made: tuple[str, str]) -> Entry:
    signature = f"set:{name}|n:{of['n']}|data:{made[0][:8]}|voters:none|from:{made[1]}"
    figures = {"value": of["value"], "ci": of["ci"], "worth": 1 / of["value"]}
    known = {"n": of["n"], "chance": of["chance"], "probe": probe}
    return {**known, **figures, **cue, "flagged": flagged, "signature": signature}


def _cue(cues: list[Entry], best: str) -> Entry:
    """Return the largest cue of keys with its figures and advice, or what the best probe sees if none is significant."""
    if not cues:
        says, advice = GROUPS.get(best) or GROUPS["form" if best == "logit" else "length"]
        return {"cue": says, "advice": advice}
    cue = cues[0]
    figures = f"{cue['keys']:,} of {cue['n']:,} items that differ in it, {cue['expected']:,.0f} expected"
    return {"cue": f"the key {cue['key']} in {figures}", "advice": FIX[cue["key"]]}


def _digest(name: str) -> str:
    return sha256(shared() / FILES[name])
