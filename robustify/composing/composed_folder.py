"""Folder of a composed set: the set, its page and numbers, a review sheet, and requests for what its pools still lack.

The page and the closing lines name writers and auditors, but contain no text of an item.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from robustify.base.errors import DataError
from robustify.base.files import QUOTED, neutral, write_json, write_text
from robustify.composing.composed_set import Composed
from robustify.composing.consulting import review_sheet
from robustify.composing.proof import AFTER, BEFORE, PEOPLE, Finder
from robustify.export.mending import write_set
from robustify.export.writing import files_of, staged
from robustify.judging.summary.quantity import Quantity
from robustify.judging.summary.scored import Gain
from robustify.report.explorer import page
from robustify.report.format import Table, Tone, cell, plain, table
from robustify.report.opening import FirstScreen
from robustify.report.printing import catalogue, html, markdown
from robustify.runs.run import write_lines

VERSIONS = {BEFORE: "Before", PEOPLE: "Other writer", AFTER: "Composed"}


def write_composed(found: Composed, folder: Path, name: str, *, as_csv: bool) -> list[Path]:
    """Write a composed set into a new or empty folder: as CSV with `as_csv` if no item changes, else as JSON Lines. Return
    the paths of the files. Raise `UsageError` if the folder is not empty, and `ResourceError` if a file cannot be written.
    """
    with staged(folder) as place:
        try:
            write_set(found.items, place / ("composed.csv" if as_csv else "composed.jsonl"), _marks(found))
        except DataError:
            write_set(found.items, place / "composed.jsonl", _marks(found))
        write_json(place / "composed.json", composed_tree(found))
        write_text(place / "report.html", composed_html(found, name))
        if any(found.unreviewed):
            sheet = review_sheet(found.pools, found.unreviewed, name)
            write_sheet(place / "review.csv", sheet)
            write_text(place / "review.html", page(sheet, "review"))
        if found.requests:
            rows = list(_requests(found))
            write_lines(place / "requests.jsonl", rows)
            cells = [[*map(str, {**row, "form": "; ".join(row["form"])}.values()), ""] for row in rows]
            wanted = (one for row, one in zip(rows, cells, strict=True) for _ in range(row["wanted"]))
            _write_csv(place / "requests.csv", [[*rows[0], QUOTED], *wanted])
    return files_of(folder)


def write_sheet(path: Path, sheet: Mapping[str, Any]) -> None:
    """Write a review sheet as CSV, with a row per candidate and empty columns for its verdict and rater."""
    rows = [["item", "question", "answer", "candidate", "verdict", "rater", "code", "options"]]
    for item in sheet["items"]:
        lettered = zip(ascii_uppercase, item["choices"], strict=False)
        options = "; ".join(f"{letter}) {text}" for letter, text in lettered)
        for text, code in zip(item["choices"], item["codes"], strict=True):
            if code:
                rows.append([item["id"], item["stem"], item["choices"][0], text, "", "", code, options])
    _write_csv(path, rows)


def _write_csv(path: Path, rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="", errors="surrogatepass") as file:
        csv.writer(file, lineterminator="\n").writerows(list(map(neutral, row)) for row in rows)


def composed_tree(found: Composed) -> dict[str, Any]:
    """Return the numbers of a composed set as a JSON object, without text."""
    proof, marked = found.proof, found.unreviewed
    return {
        "n_items": len(found.items),
        "left_as_they_were": [found.items[at].id for at in found.stays],
        "retyped": [found.items[at].id for at in found.retyped],
        "writers": found.writers,
        "set_aside": found.set_aside,
        "unreviewed": {"candidates": sum(map(len, marked)), "items": sum(map(bool, marked))},
        "consulted": found.consulted and found.consulted.tree(),
        "proof": {
            "hidden": proof.hidden,
            "plausible": proof.plausible,
            "worst": proof.worst and proof.worst.name,
            "auditors": {one.name: _numbers(one) for one in proof.auditors},
            "readers": {one.name: _numbers(one) for one in proof.readers},
        },
        "least": dict(found.composition.least),
        "bounds": [asdict(one) for one in found.bounds],
        "requests": len(found.requests),
        "rounds": [_gains(probes) for probes in found.composition.trace],
    }


def _marks(found: Composed) -> dict[str, str]:
    """Return, for each item, the letters of the options that nobody reviewed."""
    marks = {}
    for item, some in zip(found.items, found.unreviewed, strict=True):
        texts = {one.text for one in some}
        lettered = zip(ascii_uppercase, item.choices, strict=False)
        marks[item.id] = ", ".join(letter for letter, text in lettered if text in texts)
    return {name: letters for name, letters in marks.items() if letters}


def _gains(found: Mapping[str, Gain]) -> dict[str, Any]:
    return {name: gain.tree() for name, gain in found.items()}


def _numbers(one: Finder) -> dict[str, Any]:
    changes = {f"since_{version}": change.json() for version, change in one.change.items()}
    return {"took_part": not one.independent, "gain": _gains(one.gain), **changes}


def _requests(found: Composed) -> Iterator[dict[str, Any]]:
    """Yield a row for each request. Its `candidate` is empty, for a person or a writer to fill."""
    for one in found.requests:
        item = found.pools[one.at].item
        yield {
            "id": item.id, "question": item.stem, "key": item.choices[item.key], "wanted": one.n, "form": one.form,
            "candidate": "",
        }  # fmt: skip


def composed_html(found: Composed, name: str) -> str:
    """Return the HTML page of a composed set."""
    rules = ((one.rule, one.least, one.chance, one.lacking, one.n) for one in found.bounds if one.lacking)
    rounds = (
        (str(number), kind, cell(one, "points"), one.p)
        for number, probes in enumerate(found.composition.trace, start=1)
        for kind, one in probes.items()
    )
    consulted, unreviewed = found.consulted, [len(some) for some in found.unreviewed if some]
    checks = [] if consulted is None else consulted.checks
    models = (
        (model, Quantity.of(rate), "yes" if model in one.voices else "no")
        for one in checks for model, rate in one.found.items()
    )  # fmt: skip
    pairs = {} if consulted is None else consulted.review.agreements
    kappas = (
        (" and ".join(pair), one.n, cell(Quantity.of(one.kappa), "number"), Quantity.of(one.raw))
        for pair, one in pairs.items()
    )
    return html(
        "composed.html.j2", name=plain(name), signature="", first=_first(found), found=found,
        aside=found.set_aside, reasons=catalogue()["set_aside"],
        candidates=sum(len(pool.candidates) for pool in found.pools) / max(1, len(found.pools)),
        auditors=_finders("Keys found above chance without the question", found.proof.auditors),
        readers=_finders("Keys found above chance with the question", found.proof.readers),
        bounds=table("Bounds", ("Option with", "Found at least", "Chance", "Items that lack", "Items"), rules),
        unreviewed=unreviewed, consulted=consulted,
        models=table("Models that saw the question", ("Model", "Prefers the key", "Has a voice"), models),
        raters=table("Raters", ("Raters", "Candidates", "Kappa", "Raw agreement"), kappas),
        writers=table("Chosen distractors", ("Writer", "Distractors"), found.writers.items()),
        rounds=table("Rounds", ("Round", "Probe", "Keys found above chance", "p"), rounds, names=2),
    )  # fmt: skip


def composed_lines(found: Composed) -> Iterator[str]:
    """Yield lines for a terminal: the verdict on a composed set, and its checks."""
    first = _first(found)
    yield from filter(None, (first.verdict, first.number))
    yield from (f"{state}: {said}" if state else said for state, said in first.checks)


def proof_failure(found: Composed) -> str:
    """Return in one line which parts of the proof failed and what to do, or "" if none did."""
    proof = found.proof
    parts = (
        ("without the question", "beyond chance", proof.beyond_chance),
        ("with the question", "more easily than before", [one for one in proof.readers if one.finds_more]),
    )
    says = [
        f"{where}, keys are found {how} ({', '.join(one.name for one in some)})"
        for where, how, some in parts
        if some
    ]
    return (
        f"The proof failed: {'; '.join(says)}. Add other candidates with --pool or --writer." if says else ""
    )


def proof_gap(found: Composed) -> str:
    """Return in one line which parts of the proof were not evaluated, or "" if all were."""
    parts = {"without the question": found.proof.hidden, "with the question": found.proof.plausible}
    some = " and ".join(where for where, state in parts.items() if state == "not evaluated")
    return (
        f"The proof was not evaluated ({some}), so this set may still give its keys away. More items or another "
        "--auditor may decide."
    ) * bool(some)


def _first(found: Composed) -> FirstScreen:
    lines = [line for line in markdown("composed.j2", found=found).splitlines() if line]
    verdict, number, *_ = [*(line for line in lines if "|" not in line), ""]
    checks: Any = tuple((one[0] or None, one[2]) for line in lines if (one := line.partition("|"))[1])
    states = {found.proof.hidden, found.proof.plausible}
    tone: Tone = "bad" if found.proof.plausible == "failed" else "good" if states == {"passed"} else "unsure"
    return FirstScreen(verdict, tone, number=number, checks=checks)


def _finders(caption: str, finders: Sequence[Finder]) -> Table:
    """Return a table of each auditor's or reader's gain over chance in each version, and of its change from before."""
    used = [version for version in VERSIONS if any(version in one.gain for one in finders)]
    heads = ("", *(VERSIONS[version] for version in used), "Change", "Power to see 3 points")
    rows = []
    for one in finders:
        gains = [*map(one.gain.get, used), Quantity.of(one.change[BEFORE]) if BEFORE in one.change else None]
        points = (cell(gain, "points") for gain in gains)
        rows.append((one.name + "*" * (not one.independent), *points, one.gain[AFTER].power))
    return table(caption, heads, rows)
