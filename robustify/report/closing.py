"""What a run says on a terminal before it asks: what the asking will take."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from robustify.report.format import count, counted, plain

if TYPE_CHECKING:
    from robustify.forecast import Forecast, Need


def forecast_lines(found: "Forecast") -> list[str]:
    """What asking will take, a line a model."""
    items = counted(found.items, "item")
    if not found.needs:
        return [f"{found.name}: {items}, no model to ask; rules and a probe take seconds"]
    width = max(len(need.model) for need in found.needs)
    lines = [f"{found.name}: {items}; at most (what the score cache holds is not asked again):"]
    lines += [f"  {plain(need.model):{width}}  {', '.join(_need(need))}" for need in found.needs]
    lines += [
        f"  {plain(need.model)}: {need.megabytes} MB to fetch first: robustify models pull {plain(need.model)}"
        for need in found.needs
        if need.megabytes
    ]
    if found.seconds is not None and len(found.needs) > 1:
        lines.append(f"together {_duration(found.seconds)}")
    return lines


def _need(need: "Need") -> Iterator[str]:
    yield f"about {_rounded(need.requests)} requests"
    if need.tokens is not None:
        yield f"{_rounded(need.tokens)} tokens"
    yield "time unknown for its device" if need.seconds is None else _duration(need.seconds)
    if need.cost is not None:
        yield f"cost {need.cost:,.2f}"


def _rounded(n: float) -> str:
    """A number of which two digits are known."""
    step = 10 ** max(0, len(str(round(n))) - 2)
    return count(round(n / step) * step)


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.0f} {unit}"
    return f"about {max(1, round(seconds)):.0f} s"
