"""Export of findings as SARIF 2.1.0, so that a code host shows each one at its line of the benchmark's file.

A finding is a flagged item, with its first cue as the rule, or a defect of the file. Line numbers refer to the audited
bytes. A restricted set has no findings, because each one would reveal a single item.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from robustify import __version__
from robustify.base.errors import DataError
from robustify.base.files import write_json
from robustify.export.writing import Exporter, Option, refuse_restricted
from robustify.judging.lint.findings import Finding
from robustify.judging.lint.rules import RULES
from robustify.reading.loaders import Source, load, load_many
from robustify.report.explaining import evidence_of
from robustify.report.format import percent, plain
from robustify.report.messages import catalogue, cue_words
from robustify.runs.run import Run

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FLAGGED, DEFECT = "shortcut", "defect"
SAYS = {
    f"{FLAGGED}/{cue}": f"Flagged as a shortcut; first cue: {says}."
    for cue, says in cue_words("label").items()
} | {f"{DEFECT}/{kind}": f"{says[:1].upper()}{says[1:]}." for kind, says in catalogue()["defects"].items()}
"""Description of each rule."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a rule. `subject` identifies it within the rule, and a line of 0 is unknown."""

    rule: str
    subject: str
    message: str
    level: str = "warning"
    file: str = ""
    line: int = 0


def export_sarif(run: Run, path: Path, data: Sequence[Path]) -> list[str]:
    """Write the findings of a public run on the files that it audited. Return a line with their number. Raise
    `AuthorisationError` for a restricted run, and `DataError` for other files or a run without evidence."""
    refuse_restricted(run)
    sources = [Source(path=str(file), skip_bad=True) for file in data]
    bench = load_many(sources)
    if bench.sha256 != run.manifest["data"]["sha256"]:
        raise DataError(
            f"{', '.join(file.name for file in data)}: differs from the data that {run.folder} audited, so lines are "
            "unknown. Expected the audited files."
        )
    found = list(_results(run))
    # Files in different folders may have one name, so each is counted.
    files = [file.as_posix() for file, one in zip(data, sources, strict=True) for _ in load(one).items]
    places = zip(bench.items, files, bench.lines, strict=True)
    where = {item.id: (file, line) for item, file, line in places}
    known = [
        replace(one, file=where[one.subject][0], line=where[one.subject][1]) if one.subject in where else one
        for one in found
    ]
    write_json(path, _log(known, SAYS))
    return [f"{path}: findings {len(found)}"]


def lint_log(found: Sequence[Finding]) -> dict[str, Any]:
    """Return the SARIF log of the findings of `lint`."""
    says = {code: f"{rule.meaning[:1].upper()}{rule.meaning[1:]}." for code, rule in RULES.items()}
    return _log(
        [
            Result(
                one.code,
                f"{one.path}\0{one.item}",
                f"{one.message}. Fix: {one.fix}.",
                one.severity,
                one.path,
                one.line,
            )
            for one in found
        ],
        says,
    )


def _results(run: Run) -> Iterator[Result]:
    """Yield the flagged items, then the defects of the file."""
    hidden, labels = run.manifest["config"].get("hidden", "question"), cue_words("label")
    for row in evidence_of(run):
        if row["verdict"] == FLAGGED:
            cue = (row.get("cues") or [{"cue": "none"}])[0]
            chance, cause = row.get("p_shortcut"), plain(cue.get("says") or labels[cue["cue"]], 600)
            sure = "" if chance is None else f" A shortcut gave it away with probability {percent(chance)}."
            says = f"{plain(row['item'])}: Can be answered without its {hidden}: {cause}.{sure}"
            yield Result(f"{FLAGGED}/{cue['cue']}", row["item"], says)
    for defect in run.manifest["data"]["defects"]:
        rule = f"{DEFECT}/{defect['kind']}"
        yield Result(rule, defect["item"], f"{plain(defect['item'])}: {SAYS.get(rule, rule)}")


def _log(results: Sequence[Result], says: Mapping[str, str]) -> dict[str, Any]:
    """Build the SARIF log of the results. `says` describes each rule."""
    rules = list(dict.fromkeys(one.rule for one in results))
    driver = {
        "name": "robustify",
        "version": __version__,
        "rules": [{"id": r, "shortDescription": {"text": says.get(r, r)}} for r in rules],
    }
    entries = []
    for one in results:
        # A finding keeps its identity if its item moves to another line.
        digest = hashlib.sha256(f"{one.rule}\0{one.subject}".encode()).hexdigest()
        entry = {
            "ruleId": one.rule,
            "ruleIndex": rules.index(one.rule),
            "level": one.level,
            "message": {"text": one.message},
            "partialFingerprints": {"robustifyItem/v1": digest},
        }
        if one.line:
            place = {"artifactLocation": {"uri": quote(one.file)}, "region": {"startLine": one.line}}
            entry["locations"] = [{"physicalLocation": place}]
        entries.append(entry)
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": entries}]}


SARIF = Exporter(
    "sarif",
    r"""Write findings as SARIF, which code hosts display beside the lines of a file.

    \b
    Example:
        robustify export sarif results/demo --data items.jsonl -o robustify.sarif
    """,
    export_sarif,
    {
        "data": Option(
            "Name the audited file by its path in the repository (repeatable).", "ITEMS", required=True
        )
    },
    out="Write this SARIF file.",
)
