"""Page and closing lines of a composed set. They name writers and auditors, but contain no text of an item."""

from collections.abc import Iterator, Sequence
from typing import Any

from robustify.composing.composed import Composed
from robustify.composing.pool import set_aside
from robustify.composing.proof import AFTER, BEFORE, Finder
from robustify.judging.summary.quantity import Quantity
from robustify.report.cells import Table, Tone, cell, table
from robustify.report.format import plain
from robustify.report.messages import catalogue
from robustify.report.opening import FirstScreen
from robustify.report.printing import html, markdown

VERSIONS = {BEFORE: "Before", "people": "Other writer", AFTER: "Composed"}


def composed_html(found: Composed, name: str) -> str:
    """Return the page of a composed set."""
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
        aside=set_aside(found.pools), reasons=catalogue()["set_aside"],
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
    """Yield the verdict and its checks for a terminal."""
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


def _first(found: Composed) -> FirstScreen:
    lines = [line for line in markdown("composed.j2", found=found).splitlines() if line]
    verdict, number, *_ = [*(line for line in lines if "|" not in line), ""]
    checks: Any = tuple((one[0] or None, one[2]) for line in lines if (one := line.partition("|"))[1])
    states = {found.proof.hidden, found.proof.plausible}
    tone: Tone = "bad" if found.proof.plausible == "failed" else "good" if states == {"passed"} else "unsure"
    return FirstScreen(verdict, tone, number=number, checks=checks)


def _finders(caption: str, finders: Sequence[Finder]) -> Table:
    """Return what each finds above chance in each version, and the paired change from before."""
    used = [version for version in VERSIONS if any(version in one.gain for one in finders)]
    heads = ("", *(VERSIONS[version] for version in used), "Change", "Power to see 3 points")
    rows = []
    for one in finders:
        gains = [*map(one.gain.get, used), Quantity.of(one.change[BEFORE]) if BEFORE in one.change else None]
        points = (cell(gain, "points") for gain in gains)
        rows.append((one.name + "*" * (not one.independent), *points, one.gain[AFTER].power))
    return table(caption, heads, rows)
