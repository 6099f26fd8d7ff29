"""Runs beside one another, as lines for a terminal: every rate with its n and interval, what is absent said so."""

from collections.abc import Iterator, Mapping
from typing import Any

from robustify.report.reading import number, quantity
from robustify.report.words import percent, plain, rate

_VIEWS = {"full": "full", "choices_only": "choices only", "cloze_chars": "cloze", "free": "free"}
_PARTS = ("all", "robust")


def lines(tree: Mapping[str, Any]) -> Iterator[str]:
    """What `robustify.report.comparing.compared` found."""
    for place, run in enumerate(tree["runs"], start=1):
        yield from _run(place, run)
    for pair in tree["pairs"]:
        first, second = pair["runs"]
        yield ""
        yield f"[{first + 1}] and [{second + 1}]: " + _pair(pair)
        yield from (f"  {n} {moved}" for moved, n in (pair.get("moved") or {}).items())


def _run(place: int, run: Mapping[str, Any]) -> Iterator[str]:
    screen, splits = run["screen"], run["splits"] or {}
    yield f"[{place}] {plain(run['run'])}: {run['certificate'] or 'no verdict'}"
    yield f"    {plain(run['signature'], 500)}"
    rule = "/".join(str(screen[name]) for name in ("criterion", "mode") if screen[name]) or "no screen"
    luck = quantity(screen["expected_false_flags"]).value
    yield f"    removed by {rule}: {rate(quantity(screen['flagged']))}" + (
        "" if luck is None else f"; luck alone removes {luck:.0f} items"
    )
    sizes = ", ".join(
        f"{name} {splits[name]}" for name in ("robust", "shortcut", "undecided") if name in splits
    )
    yield f"    splits: {sizes or 'not shown'}"
    for model, told in run["accuracy"].items():
        voter = " (voter)" if told["is_voter"] else ""
        for view, words in _VIEWS.items():
            if view in told:
                parts = ", ".join(_part(part, told[view].get(part)) for part in _PARTS)
                yield f"    {plain(model)}{voter}, {words}: {parts}"


def _part(name: str, told: object) -> str:
    chance = number(told.get("chance")) if isinstance(told, Mapping) else None
    luck = "" if chance is None else f", chance {percent(chance)}"
    return f"{name} {rate(quantity(told))}{luck}"


def _pair(pair: Mapping[str, Any]) -> str:
    if pair["why_not"] is not None:
        return f"items are not compared ({pair['why_not']})"
    one, two = pair["removed"]
    alone = sum(pair["n_only"])
    return (
        f"of {pair['n_common']} items in both, {one} and {two} are removed; both remove "
        f"{rate(quantity(pair['jaccard']))} of what either removes"
        + (f"; {alone} items are in one of them only" if alone else "")
    )
