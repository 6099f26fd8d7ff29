"""What the gate says: findings on stdout, one line each; counts and what did not run on stderr."""

import json
import sys
from typing import Literal

from robustify.gate.check import Outcome
from robustify.gate.policy import VARIABLE

Demo = Literal["off", "on", "ignored"]
"""What became of SAFE_DEMO."""
_PASSES = "text of a registered set passes unless it has the shape of an item"


def tell(outcome: Outcome, why_not: str, *, demo: Demo, as_json: bool, quiet: bool) -> None:
    """Print an outcome. `why_not`: why the fingerprint layer did not run, empty where it did."""
    if as_json:
        print(json.dumps(told(outcome, why_not, demo=demo)))
        return
    for finding in outcome.findings:
        print(finding.told())
    if quiet and not outcome.findings:
        return
    for line in _summary(outcome, why_not, demo=demo):
        print(f"robustify gate: {line}", file=sys.stderr)


def told(outcome: Outcome, why_not: str, *, demo: Demo) -> dict[str, object]:
    """The outcome for a program."""
    lifted = "ran, lifted on listed paths" if demo == "on" else "ran"
    return {
        "format": 1,
        "refused": len(outcome.refused),
        "warnings": len(outcome.findings) - len(outcome.refused),
        "scanned": {"contents": outcome.files, "bytes": outcome.size},
        "layers": {
            "structure": lifted,
            "lexicon": lifted,
            "fingerprints": f"did not run: {why_not}" if why_not else "ran",
        },
        "safe_demo": demo,
        "lifted": {"allow_list": outcome.allowed, "safe_demo": outcome.demo},
        "findings": [finding.as_json() for finding in outcome.findings],
    }


def _summary(outcome: Outcome, why_not: str, *, demo: Demo) -> list[str]:
    scanned = f"{outcome.files:,} contents, {outcome.size / 1e6:.1f} MB"
    lines = []
    if why_not:
        lines.append(f"the fingerprint layer did not run: {why_not}; {_PASSES}")
    if demo == "ignored":
        lines.append(f"{VARIABLE}=true is ignored in CI and for ranges of commits")
    if demo == "on":
        lines.append(
            f"{VARIABLE}=true: structure and lexicon lifted on listed paths ({outcome.demo} findings)"
        )
    if outcome.allowed:
        lines.append(f"{outcome.allowed} findings passed by allow-list entries")
    if outcome.refused:
        rules = sorted({finding.rule.id for finding in outcome.refused})
        paths = len({finding.path for finding in outcome.refused})
        lines.append(
            f"REFUSED: {len(outcome.refused)} findings in {paths} of {scanned}; "
            f"what to do: robustify gate --explain {rules[0] if len(rules) == 1 else 'all'}"
        )
    else:
        warnings = len(outcome.findings)
        lines.append(f"clean: {scanned}" + (f", {warnings} warnings" if warnings else ""))
    return lines
