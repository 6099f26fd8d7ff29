"""Write the folder of a composed set: the set, a page, numbers, a review sheet, and requests for missing candidates.

The page and the closing lines name writers and auditors, but contain no text of an item.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from robustify.base.errors import DataError, Notice
from robustify.base.files import QUOTED, neutral, write_json, write_text
from robustify.composing.candidate_checks import review_sheet
from robustify.composing.composed_set import Composed
from robustify.composing.proof import AFTER, BEFORE, PEOPLE, Finder
from robustify.export.mending import write_set
from robustify.export.writing import files_of, staged
from robustify.judging.summary.model_parts import Gain
from robustify.judging.summary.quantity import Quantity
from robustify.report.explorer import page
from robustify.report.format import Table, Tone, cell, plain, table
from robustify.report.opening import FirstScreen
from robustify.report.printing import catalogue, html, markdown
from robustify.runs.run import write_lines

VERSIONS = {BEFORE: "Before", PEOPLE: "Other writer", AFTER: "Composed"}


def write_composed(composed: Composed, folder: Path, name: str, *, as_csv: bool) -> list[Path]:
    """Write a composed set into a new or empty folder: as CSV if `as_csv` and no item changes, and otherwise as JSON Lines.
    Return the paths of the files. Raise `UsageError` if the folder is not empty, and `ResourceError` if a file cannot be
    written."""
    with staged(folder) as place:
        try:
            name_of_set = "composed.csv" if as_csv else "composed.jsonl"
            write_set(composed.items, place / name_of_set, _marks(composed))
        except DataError:
            write_set(composed.items, place / "composed.jsonl", _marks(composed))
        write_json(place / "composed.json", composed_tree(composed))
        write_text(place / "report.html", composed_html(composed, name))
        if any(composed.unreviewed):
            sheet = review_sheet(composed.pools, composed.unreviewed, name)
            write_review_sheet(place / "review.csv", sheet)
            write_text(place / "review.html", page(sheet, "review"))
        if composed.requests:
            rows = list(_requests(composed))
            write_lines(place / "requests.jsonl", rows)
            cells = [[*map(str, {**row, "form": "; ".join(row["form"])}.values()), ""] for row in rows]
            repeated = (line for row, line in zip(rows, cells, strict=True) for _ in range(row["wanted"]))
            _write_csv(place / "requests.csv", [[*rows[0], QUOTED], *repeated])
    return files_of(folder)


def write_review_sheet(path: Path, sheet: Mapping[str, Any]) -> None:
    """Write a review sheet as CSV, with one row per candidate and empty columns for the verdict and the rater."""
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


def composed_tree(composed: Composed) -> dict[str, Any]:
    """Return the numbers of a composed set as a JSON object, without text."""
    proof, unreviewed = composed.proof, composed.unreviewed
    return {
        "n_items": len(composed.items),
        "left_as_they_were": [composed.items[i].id for i in composed.stays],
        "retyped": [composed.items[i].id for i in composed.retyped],
        "writers": composed.writers,
        "set_aside": composed.set_aside,
        "unreviewed": {"candidates": sum(map(len, unreviewed)), "items": sum(map(bool, unreviewed))},
        "consulted": composed.consulted and composed.consulted.tree(),
        "proof": {
            "hidden": proof.hidden,
            "plausible": proof.plausible,
            "worst": proof.worst and proof.worst.name,
            "auditors": {finder.name: _numbers(finder) for finder in proof.auditors},
            "readers": {finder.name: _numbers(finder) for finder in proof.readers},
        },
        "least": dict(composed.composition.least),
        "bounds": [asdict(bound) for bound in composed.bounds],
        "requests": len(composed.requests),
        "rounds": [_gains(probes) for probes in composed.composition.trace],
    }


def _marks(composed: Composed) -> dict[str, str]:
    """Return the letters of each item's unreviewed options."""
    marks = {}
    for item, candidates in zip(composed.items, composed.unreviewed, strict=True):
        texts = {candidate.text for candidate in candidates}
        lettered = zip(ascii_uppercase, item.choices, strict=False)
        marks[item.id] = ", ".join(letter for letter, text in lettered if text in texts)
    return {name: letters for name, letters in marks.items() if letters}


def _gains(gains: Mapping[str, Gain]) -> dict[str, Any]:
    return {name: gain.tree() for name, gain in gains.items()}


def _numbers(finder: Finder) -> dict[str, Any]:
    changes = {f"since_{version}": change.json() for version, change in finder.change.items()}
    return {"took_part": not finder.independent, "gain": _gains(finder.gain), **changes}


def _requests(composed: Composed) -> Iterator[dict[str, Any]]:
    """Yield a row for each request. Its `candidate` is empty, so that a person or a writer can fill it in."""
    for request in composed.requests:
        item = composed.pools[request.pool_index].item
        yield {
            "id": item.id, "question": item.stem, "key": item.choices[item.key], "wanted": request.n,
            "form": request.form, "candidate": "",
        }  # fmt: skip


def composed_html(composed: Composed, name: str) -> str:
    """Return the HTML page of a composed set."""
    bounds = ((b.rule, b.least, b.chance, b.lacking, b.n) for b in composed.bounds if b.lacking)
    rounds = (
        (str(number), probe, cell(gain, "points"), gain.p)
        for number, probes in enumerate(composed.composition.trace, start=1)
        for probe, gain in probes.items()
    )
    consultation = composed.consulted
    checks = [] if consultation is None else consultation.checks
    models = (
        (model, Quantity.from_rate(rate), "yes" if model in check.voices else "no")
        for check in checks for model, rate in check.prefers_key.items()
    )  # fmt: skip
    pairs = {} if consultation is None else consultation.review.agreements
    kappas = (
        (
            " and ".join(pair),
            agreed.n,
            cell(Quantity.from_rate(agreed.kappa), "number"),
            Quantity.from_rate(agreed.raw),
        )
        for pair, agreed in pairs.items()
    )
    return html(
        "composed.html.j2", name=plain(name), signature="", first=_first(composed), found=composed,
        aside=composed.set_aside, reasons=catalogue()["set_aside"],
        candidates=sum(len(pool.candidates) for pool in composed.pools) / max(1, len(composed.pools)),
        auditors=_finders("Keys found above chance without the question", composed.proof.auditors),
        readers=_finders("Keys found above chance with the question", composed.proof.readers),
        bounds=table("Bounds", ("Option with", "Found at least", "Chance", "Items that lack", "Items"), bounds),
        unreviewed=[len(candidates) for candidates in composed.unreviewed if candidates], consulted=consultation,
        models=table("Models that saw the question", ("Model", "Prefers the key", "Has a voice"), models),
        raters=table("Raters", ("Raters", "Candidates", "Kappa", "Raw agreement"), kappas),
        writers=table("Chosen distractors", ("Writer", "Distractors"), composed.writers.items()),
        rounds=table("Rounds", ("Round", "Probe", "Keys found above chance", "p"), rounds, names=2),
    )  # fmt: skip


def composed_lines(composed: Composed) -> Iterator[str]:
    """Yield lines for a terminal: the verdict on a composed set, and the results of its checks."""
    first = _first(composed)
    yield from filter(None, (first.verdict, first.number))
    yield from (f"{state}: {text}" if state else text for state, text in first.checks)


def proof_failure(composed: Composed) -> str:
    """Return a line that says which parts of the proof failed and what to do, or "" if no part failed."""
    proof = composed.proof
    parts = (
        ("without the question", "beyond chance", proof.beyond_chance),
        ("with the question", "more easily than before", [r for r in proof.readers if r.finds_more]),
    )
    faults = [
        f"{where}, keys are found {how_often} ({', '.join(finder.name for finder in finders)})"
        for where, how_often, finders in parts
        if finders
    ]
    line = f"The proof failed: {'; '.join(faults)}. Add other candidates with --pool or --writer."
    return Notice(line, code="proof-failed") if faults else ""


def proof_gap(composed: Composed) -> str:
    """Return a line that says which parts of the proof were not evaluated, or "" if all parts were."""
    parts = {"without the question": composed.proof.hidden, "with the question": composed.proof.plausible}
    gaps = " and ".join(where for where, state in parts.items() if state == "not evaluated")
    line = (
        f"The proof was not evaluated ({gaps}), so this set may still give its keys away. Try more items or another "
        "--auditor."
    )
    return Notice(line, code="proof-not-evaluated") if gaps else ""


def _first(composed: Composed) -> FirstScreen:
    lines = [line for line in markdown("composed.j2", found=composed).splitlines() if line]
    verdict, number, *_ = [*(line for line in lines if "|" not in line), ""]
    checks: Any = tuple((parts[0] or None, parts[2]) for line in lines if (parts := line.partition("|"))[1])
    states = {composed.proof.hidden, composed.proof.plausible}
    tone: Tone = (
        "bad" if composed.proof.plausible == "failed" else "good" if states == {"passed"} else "unsure"
    )
    return FirstScreen(verdict, tone, number=number, checks=checks)


def _finders(caption: str, finders: Sequence[Finder]) -> Table:
    """Return a table of each auditor's or reader's gain over chance in each version, and of the change from before."""
    used = [version for version in VERSIONS if any(version in finder.gain for finder in finders)]
    heads = ("", *(VERSIONS[version] for version in used), "Change", "Power to see 3 points")
    rows = []
    for finder in finders:
        change = Quantity.from_rate(finder.change[BEFORE]) if BEFORE in finder.change else None
        points = (cell(gain, "points") for gain in (*map(finder.gain.get, used), change))
        rows.append((finder.name + "*" * (not finder.independent), *points, finder.gain[AFTER].power))
    return table(caption, heads, rows)
