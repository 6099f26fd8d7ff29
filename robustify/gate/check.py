"""Contents through every layer and the policy: what stays a finding, what was let pass and why, and the printed report.

`scan` is pure: bytes in, findings out. It opens no file, knows no git and keeps no state between files but the index.
Findings are printed to stdout, one line each; counts and layers that did not run to stderr.
"""

import hashlib
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import compress, count
from operator import ne
from typing import Literal

from robustify.gate.detect import LEAST_TERMS, Shapes, holds_split, lexicon, states
from robustify.gate.fingerprints import Fingerprints, Match
from robustify.gate.key_file import Key, keys_in
from robustify.gate.policy import BY_ID, VARIABLE, GateFinding, Policy, digests_of
from robustify.gate.reading import DecodedText, Decoder, Undecoded
from robustify.gate.reading.folding import streams
from robustify.gate.reading.unpack import MOST_BYTES, ColumnNames
from robustify.gate.sources import Blob

Demo = Literal["off", "on", "ignored"]
"""What became of SAFE_DEMO."""
_NEAR = 6
"""Lines around an unescaped one in which words are looked for again."""
_AROUND = 60
"""The same for shapes and states: an item's first line may be far above."""
MOST_SECONDS = 40.0
"""Seconds of the processor for one file; the largest harmless ones take a quarter of it."""


class OutOfTimeError(Exception):
    """A file took more than its seconds."""


def scan(
    data: bytes,
    fingerprints: Fingerprints | None = None,
    keys: Sequence[Key] = (),
    seconds: float = MOST_SECONDS,
    *,
    reviewed: bool = False,
) -> list[GateFinding]:
    """Everything that the layers find in one file's content, without a path, one line a rule, the strongest.

    `keys`: this user's own, whose secrets are known even where they stand alone. A file that takes more than so many
    seconds of the processor is refused with what was found until then. `reviewed`: a person looked at its shapes.
    """
    shapes = Shapes()
    matches: dict[str, Match] = {}
    findings: dict[tuple[str, str], GateFinding] = {}
    try:
        with _within(seconds) as in_time:
            _scan(data, fingerprints, keys, None if reviewed else shapes, matches, findings, in_time)
    except OutOfTimeError:
        says = f"(more than {seconds:g} s of the processor)"
        findings["RBG503", says] = GateFinding(BY_ID["RBG503"], 1, says)
    every = [*map(_matched, matches.values()), *_shaped(shapes, data), *findings.values()]
    return sorted(every, key=lambda finding: (finding.line, finding.rule.id))


@contextmanager
def _within(seconds: float) -> Iterator[Callable[[], None]]:
    """Raise `OutOfTimeError` where the body computes for longer; gives a check for where no timer can be set.

    The timer interrupts a single long search too. It needs the main thread, and no other timer of its kind.
    """
    end = time.process_time() + seconds

    def in_time() -> None:
        if time.process_time() >= end:
            raise OutOfTimeError

    def stop(*_: object) -> None:
        raise OutOfTimeError

    timed = (
        threading.current_thread() is threading.main_thread() and signal.getitimer(signal.ITIMER_PROF)[0] == 0
    )
    before = signal.signal(signal.SIGPROF, stop) if timed else None
    try:
        if timed and seconds > 0:
            signal.setitimer(signal.ITIMER_PROF, seconds)
        yield in_time
    finally:
        if timed:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)


def _scan(
    data: bytes,
    fingerprints: Fingerprints | None,
    keys: Sequence[Key],
    shapes: Shapes | None,
    matches: dict[str, Match],
    findings: dict[tuple[str, str], GateFinding],
    in_time: Callable[[], None],
) -> None:
    """Fill in what is found in each reading of a content."""
    lines = [""]
    for part in Decoder(holds_split, apart=shapes is not None or fingerprints is not None).read(data):
        in_time()
        if isinstance(part, Undecoded):
            findings.setdefault((part.rule, part.says), GateFinding(BY_ID[part.rule], part.line, part.says))
            continue
        if isinstance(part, ColumnNames):
            if shapes is not None:
                shapes.count(part)
            continue
        if part.raw:
            lines = part.text.split("\n")
        new = part.raw or part.joined
        near = part if new else replace(part, text=changed(lines, part.text, _AROUND))
        if shapes is not None:
            shapes.look(near)
        key_lines = (("RBG402", offset, "") for offset in keys_in(near.text, keys, alone=part.raw))
        for rule, offset, says in (*states(near.text, whole=near.raw), *key_lines):
            line = near.line_at(near.text.count("\n", 0, offset) + 1)
            findings.setdefault((rule, ""), GateFinding(BY_ID[rule], line, says))
        if fingerprints is not None:
            text = part.text if new else changed(lines, part.text)
            for match in fingerprints.matches(text, disguised=part.raw):
                best = matches.get(match.set_name)
                if best is None or match.weight > best.weight:
                    matches[match.set_name] = replace(match, line=part.line_at(match.line))


def changed(old: Sequence[str], unescaped: str, near: int = _NEAR) -> str:
    """The lines of an unescaped text that differ from the `old` ones, with their neighbours; the others left blank.

    What did not change was looked at in the raw text already.
    """
    new = unescaped.split("\n")
    if len(old) != len(new):
        return unescaped
    out = [""] * len(new)
    done = 0
    for i in compress(count(), map(ne, old, new)):
        begin, end = max(done, i - near), i + near + 1
        out[begin:end] = new[begin:end]
        done = min(end, len(new))
    return "\n".join(out)


def _matched(match: Match) -> GateFinding:
    strength = "a whole text" if match.whole else f"cover {match.cover} words"
    rule = "RBG301" if match.refuses else "RBG302"
    return GateFinding(BY_ID[rule], match.line, f'(set "{match.set_name}", {strength})')


def _shaped(shapes: Shapes, data: bytes) -> Iterator[GateFinding]:
    verdict = shapes.verdict()
    if verdict is None:
        return
    rule, line, says = verdict
    yield GateFinding(BY_ID[rule], line, says)
    if rule == "RBG104":  # the lexicon is asked only where it decides
        parts = Decoder(holds_split).read(data)
        texts = (part.text for part in parts if isinstance(part, DecodedText) and part.raw)
        terms = max((lexicon().named(streams(text)[0]) for text in texts), default=0)
        if terms >= LEAST_TERMS:
            yield GateFinding(BY_ID["RBG201"], line, f"(a shape of an item, {terms} terms of the lexicon)")


@dataclass(slots=True)
class Outcome:
    """What a check found. `allowed`, `demo` and `reviewed`: numbers of findings that an entry lifted, SAFE_DEMO, and
    the review of an earlier history."""

    findings: list[GateFinding] = field(default_factory=list)
    allowed: int = 0
    demo: int = 0
    reviewed: int = 0
    files: int = 0
    size: int = 0

    @property
    def refused(self) -> list[GateFinding]:
        """The findings that refuse; the others are warnings."""
        return [finding for finding in self.findings if finding.rule.refuses]


def check_contents(
    contents: Iterable[Blob],
    fingerprints: Fingerprints | None,
    policy: Policy,
    *,
    demo: bool,
    today: date,
    keys: Sequence[Key] = (),
) -> Outcome:
    """Scan contents and compare the findings with the policy; `keys` as for `scan`."""
    outcome = Outcome()
    known: dict[tuple[str, bool], list[GateFinding]] = {}
    for content in contents:
        outcome.files += 1
        outcome.size += content.size
        digest = "" if content.data is None else hashlib.sha256(content.data).hexdigest()
        same = (digest, content.reviewed)
        if content.data is None:
            most = f"{content.size:,} bytes; the gate reads at most {MOST_BYTES >> 20} MiB of a file"
            known[same] = [GateFinding(BY_ID["RBG503"], 1, f"({most})")]
        elif same not in known:
            known[same] = scan(content.data, fingerprints, keys, reviewed=content.reviewed)
        path, in_path = _in_path(content, fingerprints)
        findings = [replace(finding, path=path) for finding in (*in_path, *known[same])]
        digests = digests_of(content.data) if findings and content.data is not None else ()
        for placed in findings:
            if policy.allows(placed, digests, today):
                outcome.allowed += 1
            elif content.reviewed and placed.rule.allowable:
                outcome.reviewed += 1
            elif demo and policy.demonstrates(placed):
                outcome.demo += 1
            else:
                outcome.findings.append(placed)
    return outcome


def _in_path(content: Blob, fingerprints: Fingerprints | None) -> tuple[str, list[GateFinding]]:
    """The path to print and the findings in it: a path that holds registered text is not printed."""
    if fingerprints is None or not content.named:
        return content.path, []
    match = next((match for match in fingerprints.matches(content.path) if match.refuses), None)
    if match is None:
        return content.path, []
    says = f'(in the path itself: set "{match.set_name}", cover {match.cover} words)'
    return f"<a path of {len(content.path)} characters>", [GateFinding(BY_ID["RBG301"], 1, says)]


def print_report(
    outcome: Outcome, why_not: str, notes: Sequence[str] = (), *, demo: Demo, as_json: bool, quiet: bool
) -> None:
    """Print an outcome. `why_not`: why the fingerprint layer did not run, empty where it did."""
    if as_json:
        print(json.dumps(_summary(outcome, why_not, demo=demo) | {"notes": list(notes)}))
        return
    for finding in outcome.findings:
        print(finding.as_line())
    if outcome.findings or not quiet:
        for line in (*notes, *_lines(outcome, why_not, demo=demo)):
            print(f"robustify gate: {line}", file=sys.stderr)


def _summary(outcome: Outcome, why_not: str, *, demo: Demo) -> dict[str, object]:
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
        "lifted": {"allow_list": outcome.allowed, "safe_demo": outcome.demo, "reviewed": outcome.reviewed},
        "findings": [finding.as_json() for finding in outcome.findings],
    }


def _lines(outcome: Outcome, why_not: str, *, demo: Demo) -> Iterator[str]:
    scanned = f"{outcome.files:,} contents, {outcome.size / 1e6:.1f} MB"
    if why_not:
        passes = "text of a registered set passes unless it has the shape of an item"
        yield f"the fingerprint layer did not run: {why_not}; {passes}"
    if demo == "ignored":
        yield f"{VARIABLE}=true is ignored in CI and for ranges of commits"
    if demo == "on":
        yield f"{VARIABLE}=true: structure and lexicon lifted on listed paths ({outcome.demo} findings)"
    if outcome.allowed:
        yield f"{outcome.allowed} findings passed by allow-list entries"
    if outcome.reviewed:
        yield f"{outcome.reviewed} findings passed as part of the reviewed history"
    if not outcome.refused:
        warnings = len(outcome.findings)
        yield f"clean: {scanned}" + (f", {warnings} warnings" if warnings else "")
        return
    rules = sorted({finding.rule.id for finding in outcome.refused})
    paths = len({finding.path for finding in outcome.refused})
    yield (
        f"REFUSED: {len(outcome.refused)} findings in {paths} of {scanned}; "
        f"what to do: robustify gate --explain {rules[0] if len(rules) == 1 else 'all'}"
    )
