"""Filters of lm-eval, which extract answers from replies. A task with several filters has a row per filter for each
item."""

from collections import Counter
from collections.abc import Sequence

from robustify.base.errors import Notice, UsageError
from robustify.reading.loaders.rows import SourceRow
from robustify.reading.logs import log


def one_filter(
    name: str, rows: Sequence[SourceRow], wanted: str | None
) -> tuple[tuple[SourceRow, ...], list[Notice]]:
    """Return the rows of one filter, and a note. lm-eval writes one row per item and filter."""
    values = _filters(rows)
    filters, checked = list(dict.fromkeys(values)), log.names_in(values)
    if wanted is not None and wanted not in filters:
        raise UsageError(
            f"{name}: there is no filter {wanted!r}; expected one of {log.listed(filters, checked)}",
            code="unknown-filter",
        )
    taken = wanted or filters[0]
    kept = tuple(row for row, value in zip(rows, values, strict=True) if value == taken)
    others = log.listed((value for value in filters if value != taken), checked)
    name_shown = checked.get(taken, "of the first row")
    note = f"the filter {name_shown} was used, not {others} (to change this, use --filter)"
    return kept, [Notice(note, code="several-filters")] * (len(filters) > 1)


def _filters(rows: Sequence[SourceRow]) -> list[str]:
    """Return the filter of each row. lm-eval 0.4.0 to 0.4.5 named none, so repeated replies are numbered."""
    names = [str(row.cells.get("doc_id")) for row in rows]
    if any("filter" in row.cells for row in rows) or len(set(names)) == len(names):
        return [str(row.cells.get("filter", "none")) for row in rows]
    seen = Counter[str]()
    numbers = list[int]()
    for name, row in zip(names, rows, strict=True):
        reply = f"{name} {row.cells.get('doc')} {row.cells.get('resps')}"
        seen[reply] += 1
        numbers.append(seen[reply])
    return [str(number) if max(numbers) > 1 else "none" for number in numbers]
