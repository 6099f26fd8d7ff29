"""Contents through the layers and the policy: what stays a finding, and what was let pass and why."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date

from robustify.gate.decode.unpack import MOST_BYTES
from robustify.gate.findings import Finding, refused
from robustify.gate.fingerprints.matching import Fingerprints
from robustify.gate.policy import Policy, digest_of
from robustify.gate.scan import Found, scan
from robustify.gate.sources import Content


@dataclass(slots=True)
class Outcome:
    """What a check found. `allowed` and `demo`: findings that an entry or SAFE_DEMO lifted."""

    findings: list[Finding] = field(default_factory=list)
    allowed: int = 0
    demo: int = 0
    files: int = 0
    size: int = 0

    @property
    def refused(self) -> list[Finding]:
        """The findings that refuse."""
        return refused(self.findings)


def check(
    contents: Iterable[Content], fingerprints: Fingerprints | None, policy: Policy, *, demo: bool, today: date
) -> Outcome:
    """Scan contents and hold the findings against the policy."""
    outcome = Outcome()
    known: dict[str, list[Found]] = {}
    for content in contents:
        outcome.files += 1
        outcome.size += content.size
        digest = "" if content.data is None else digest_of(content.data)
        if digest not in known or content.data is None:
            known[digest] = _scanned(content, fingerprints)
        path, in_path = _path(content, fingerprints)
        found = [found.at(path) for found in known[digest]]
        for finding in (*in_path, *found):
            if policy.allows(finding, digest, today):
                outcome.allowed += 1
            elif demo and policy.demonstrates(finding):
                outcome.demo += 1
            else:
                outcome.findings.append(finding)
    return outcome


def _scanned(content: Content, fingerprints: Fingerprints | None) -> list[Found]:
    if content.data is None:
        most = f"{content.size:,} bytes; the gate reads at most {MOST_BYTES >> 20} MiB of a file"
        return [Found("RBG503", 1, f"({most})")]
    return scan(content.data, fingerprints)


def _path(content: Content, fingerprints: Fingerprints | None) -> tuple[str, list[Finding]]:
    """The path to tell and the findings in it: a path that holds registered text is not told."""
    if fingerprints is None or not content.named:
        return content.path, []
    found = [match for match in fingerprints.matches(content.path) if match.refuses]
    if not found:
        return content.path, []
    told = f"<a path of {len(content.path)} characters>"
    says = f'(in the path itself: set "{found[0].set_name}", cover {found[0].cover} words)'
    return told, [Found("RBG301", 1, says).at(told)]
