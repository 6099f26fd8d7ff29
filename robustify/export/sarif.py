"""Export findings as SARIF 2.1.0, so that GitHub and similar sites show them next to the lines of the benchmark's file.

A finding is a flagged item, with its first cue as the rule, or a defect. A restricted set has no findings, because each one
would reveal a single item.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from robustify import __version__
from robustify.base.errors import DataError
from robustify.base.files import write_json
from robustify.export.writing import exporter, refuse_restricted
from robustify.items.item import Item
from robustify.judging.lint.findings import Finding
from robustify.judging.lint.rules import DEFECT_WORDS
from robustify.reading.loaders import Source, load, load_many
from robustify.report.explaining import evidence_of, mends
from robustify.report.format import percent, plain
from robustify.report.printing import cue_words
from robustify.runs.run import Run

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FLAGGED, DEFECT = "flagged", "defect"
SAYS = {f"{FLAGGED}/{cue}": f"Flagged; first cue: {says}." for cue, says in cue_words("label").items()} | {
    f"{DEFECT}/{kind}": f"{says.capitalize()}." for kind, says in DEFECT_WORDS.items()
}
"""Description of each rule."""


@exporter(
    "sarif",
    (
        "--data ITEMS...",
        "Name the audited file by its path in the repository (repeatable).",
        {"required": True},
    ),
    out="Write this SARIF file.",
)
def export_sarif(run: Run, path: Path, data: Sequence[Path]) -> list[str]:
    """Write findings as SARIF, which GitHub can display next to the lines of a file.

    \b
    Example:
        robustify export sarif results/demo --data items.jsonl -o robustify.sarif
    """
    refuse_restricted(run)
    sources = [Source(path=str(file), skip_bad=True) for file in data]
    bench = load_many(sources, run.guard)
    if bench.sha256 != run.manifest["data"]["sha256"]:
        raise DataError(
            f"The content of {', '.join(file.name for file in data)} differs from the data that {run.folder} audited, "
            "so findings cannot be placed on lines. Use the audited files.",
            code="other-data",
        )
    # Files in different folders may have one name, so each is counted.
    files = [
        file.as_posix()
        for file, source in zip(data, sources, strict=True)
        for _ in load(source, run.guard).items
    ]
    places = dict(zip((item.id for item in bench.items), zip(files, bench.lines, strict=True), strict=True))
    findings = [
        Finding(rule, "warning", *places.get(item, ("", 0)), item, f"{plain(item)}: {says}")
        for rule, item, says in _flaws(run, {item.id: item for item in bench.items})
    ]
    write_json(path, sarif_log(findings, SAYS))
    return [f"{path}: findings {len(findings)}"]


def _flaws(run: Run, items: Mapping[str, Item]) -> Iterator[tuple[str, str, str]]:
    """Yield the rule, item ID, and message of each flagged item, and then of each defect in the file."""
    hidden = run.manifest["config"].get("hidden", "question")
    for row in evidence_of(run):
        if row["verdict"] == FLAGGED:
            cue = (row.get("cues") or [{"cue": "none"}])[0]
            chance, (mend, *_) = (
                row.get("p_shortcut"),
                mends(row | {"reason": ""}, items[row["item"]], cloze=False),
            )
            sure = "" if chance is None else f" A shortcut gave it away with probability {percent(chance)}."
            says = f"Can be answered without its {hidden}. {plain(mend, 600)}{sure}"
            yield f"{FLAGGED}/{cue['cue']}", row["item"], says
    for defect in run.manifest["data"]["defects"]:
        rule = f"{DEFECT}/{defect['kind']}"
        yield rule, defect["item"], SAYS.get(rule, rule)


def sarif_log(findings: Sequence[Finding], says: Mapping[str, str]) -> dict[str, Any]:
    """Build the SARIF log of the findings. A finding on line 0 has no location. `says` describes each rule."""
    rules = list(dict.fromkeys(finding.code for finding in findings))
    driver = {
        "name": "robustify",
        "version": __version__,
        "rules": [{"id": r, "shortDescription": {"text": says.get(r, r)}} for r in rules],
    }
    results = []
    for finding in findings:
        # A finding keeps its identity if its item moves to another line.
        digest = hashlib.sha256(f"{finding.code}\0{finding.path}\0{finding.item}".encode()).hexdigest()
        result = {
            "ruleId": finding.code,
            "ruleIndex": rules.index(finding.code),
            "level": finding.severity,
            "message": {"text": finding.message},
            "partialFingerprints": {"robustifyItem/v2": digest},
        }
        if finding.line:
            place = {"artifactLocation": {"uri": quote(finding.path)}, "region": {"startLine": finding.line}}
            result["locations"] = [{"physicalLocation": place}]
        results.append(result)
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
