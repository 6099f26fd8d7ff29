"""Decide which column of a file is the key, from the values of all columns that could be it.

Columns that name the same choices are accepted. Columns that name different ones are refused. A second column can tell
whether the numbers of the first count from 0 or from 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from robustify.errors import DataError
from robustify.loaders.answer_keys import ReadKey, positions, read_keys
from robustify.loaders.choices import truth, usual_names
from robustify.loaders.fields import KEYS, LOGGED_TARGET, own_label, rival_keys
from robustify.loaders.loaded import FieldMap
from robustify.loaders.rows import Cells, RawItem, as_object, cell_value, has

MARK = "the mark in the choices"
ROWS_THAT_AGREE = 3
"""Least number of rows in which a second column can tell how the numbers of the first count."""
Meant = Mapping[str, Sequence[set[int]]]
"""For each other column that may be the key: the choices that each row may mean."""


def rivals(fields: FieldMap, rows: Sequence[Cells], raws: Sequence[RawItem]) -> Meant:
    """Return what the other columns that may contain the key say about each row."""
    said = {MARK: [set() if raw.marked is None else {raw.marked} for raw in raws]}
    names = [*dict.fromkeys(column for cells in rows for column in cells)]
    for rival in (*rival_keys(fields, names), *({LOGGED_TARGET} & {*names})):
        said[f"`{rival}`"] = [
            positions(replace(raw, key_is="auto", key=own_label(cells.get(rival), fields, raw.labels)))
            for cells, raw in zip(rows, raws, strict=True)
        ]
    return {what: meant for what, meant in said.items() if any(meant)}


def counted_as_rivals(raws: Sequence[RawItem], meant: Meant) -> Sequence[RawItem]:
    """Set how number keys count if another column agrees with them in every row from 1, but not from 0."""
    from_0, from_1 = ([replace(raw, key_is=form) for raw in raws] for form in ("index", "number"))
    auto = meant and all(raw.key_is == "auto" for raw in raws)
    return from_1 if auto and _agree(from_1, meant) and not _agree(from_0, meant) else raws


def _agree(raws: Sequence[RawItem], meant: Meant) -> bool:
    keys = read_keys(raws)
    if len(keys) < ROWS_THAT_AGREE or any(key.fault for key in keys):
        return False
    return any(all(key.index in one for key, one in zip(keys, said, strict=True)) for said in meant.values())


def require_one_key(
    name: str, fields: FieldMap, lines: Sequence[int], keys: Sequence[ReadKey], meant: Meant
) -> None:
    """Refuse a file in which several columns name different correct choices."""
    for what, others in meant.items():
        if what == f"`{LOGGED_TARGET}`":
            continue
        read = [
            (line, key.index, other)
            for line, key, other in zip(lines, keys, others, strict=True)
            if other and not key.fault
        ]
        differ = [one for one in read if one[1] not in one[2]]
        if differ and len(read) * 2 > sum(not key.fault for key in keys):
            line, key, other = differ[0]
            mend = "" if any(one.fault for one in keys) else f", for example `--map key={fields.key}`"
            raise DataError(
                f"{name}:{line}: `{fields.key}` names choice {key + 1}, but {what} names choice {min(other) + 1} "
                f"({len(differ)} such rows). Name the key column{mend}."
            )


def possible_flags(cells: Cells, choices: str | Sequence[str] | None) -> list[str]:
    """Return the members of a row's option objects that say yes for exactly one option, and no for the others."""
    options = cell_value(cells, choices) if isinstance(choices, str) and has(cells, choices) else None
    options = [*options.values()] if isinstance(options, Mapping) else options
    members = [as_object(option) for option in options] if isinstance(options, list) else []
    names = dict.fromkeys(name for member in members for name in member)
    said = {name: [truth(member.get(name, False)) for member in members] for name in names}
    return [
        name for name, marks in said.items() if all(m in (0, 1) for m in marks) and sum(map(bool, marks)) == 1
    ]


def sparse_keys(fields: FieldMap, names: Iterable[str], filled: Mapping[str, int]) -> list[str]:
    """Return the columns named like a key that have values in some rows only, and were therefore not read."""
    known = [name for rank in KEYS for name in usual_names(names, [rank]) if filled[name]]
    return [
        name for name in known if fields.key in filled and filled[name] * 10 < filled[str(fields.key)] * 9
    ]
