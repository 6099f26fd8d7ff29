"""Checks that the rows of a file, each valid alone, fit together and agree with other columns.

Columns that could all be the key are accepted if they name the same choices. Such a column can tell whether numbers count
from 0 or from 1.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from robustify.base.errors import DataError
from robustify.items.item import MOST
from robustify.reading.loaders import answer_keys, listed_options
from robustify.reading.loaders.columns import KEYS, LOGGED_TARGET, several, usual_names
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.loaders.rows import RawItem
from robustify.reading.marks.labelling import cut_at_labels, only_labels

_ROWS_OF_LETTERS = 10
"""Least number of rows whose options are only small letters, or letters of another script, for a refusal."""
_MARK = "the mark in the choices"
_ROWS_THAT_AGREE = 3
"""Least number of rows in which a second column can tell how the numbers of the first count."""
Meant = Mapping[str, Sequence[frozenset[int]]]
"""For each other column that may be the key: the choices that each row may mean."""
_NONE, *_ONLY = frozenset[int](), *(frozenset((at,)) for at in range(MOST))
"""Sets of no choice and of each choice, because a set for each row takes 216 bytes."""


class FileRows:
    """Statistics of the rows of a file, which are read by a field map and counted in one pass. `rivals` are the other
    columns that may be the key, and `meant` is what they say of each row."""

    def __init__(self, fields: FieldMap, rivals: Sequence[str] = (), raws: Iterable[RawItem] = ()) -> None:
        self._keys, self._choices, self.ids = answer_keys.WrittenKeys(), fields.choices, array("q")
        self.written: list[answer_keys.WrittenKey] = []
        self._said: dict[str, list[frozenset[int]]] = {_MARK: [], **{f"`{name}`": [] for name in rivals}}
        self.cuts, self.unread, self.sizes = Counter[str](), Counter[str](), set[int]()
        self.unreviewed = self.led = self.sure = self.letters = 0
        self.passages, self.stems, self.short_keys = False, set[str](), set[str]()
        for raw in raws:
            self.add(raw)

    def add(self, raw: RawItem) -> None:
        """Add a row to the counts."""
        self.written.append(self._keys.of(raw))
        self._said[_MARK].append(_NONE if raw.marked is None else _ONLY[raw.marked])
        for cell, said in zip(raw.rivals, [*self._said.values()][1:], strict=False):
            key = listed_options.own_label(cell, self._choices, raw.labels)
            said.append(self._keys.of(replace(raw, key_is="auto", key=key)).places)
        self.cuts[raw.cut] += 1
        self.led += listed_options.is_led(raw)
        if raw.unread:
            self.unread.update([*dict.fromkeys(raw.unread)])
        if raw.cut not in ("", listed_options.BY_LABEL):
            self.sizes.add(len(raw.choices))
        if only_labels(raw.choices):
            self.sure += raw.choices[0].strip() == "A" or cut_at_labels(raw.stem) is not None
            self.letters += not raw.choices[0].strip().isdecimal()
        if isinstance(raw.key, str) and len(raw.key) < answer_keys.LONGEST_MARK:
            self.short_keys.add(raw.key.strip())
        self.passages = self.passages or bool(raw.passage.strip())
        if len(self.stems) < 2:
            self.stems.add(raw.stem)
        self.ids.append(hash(raw.id))

    @property
    def meant(self) -> Meant:
        """Choices that are named as correct in each row, by other columns or by marks in the choices."""
        return {what: said for what, said in self._said.items() if any(said)}


def require_whole(name: str, rows: FileRows, written: Counter[answer_keys.WrittenKey]) -> None:
    """Refuse a file whose rows are valid one by one but inconsistent as a whole."""
    n = written.total()
    most = max(rows.sure, rows.letters * (rows.letters >= _ROWS_OF_LETTERS))
    if most * 2 > n:
        raise DataError(
            f"{name}: in {most} of {n} rows, the options are only letters, and their text is in the stem or "
            "missing. Use a version of the benchmark that includes the text of each option."
        )
    if forms := answer_keys.uncertain_base(written):
        raise DataError(
            f"{name}: the keys are whole numbers and never 0, so they may count from 1{answer_keys.key_hint(forms)}"
        )
    if answer_keys.never_the_last(written):
        raise DataError(
            f"{name}: no key is the number of the last option, so keys may count from 0"
            f"{answer_keys.key_hint(('label', 'index'))}"
        )
    if len(rows.cuts) > 1 or len(rows.sizes) > 1:
        raise DataError(
            f"{name}: the options are in one cell, and rows differ in separator or number of options. The separator may be "
            "part of an option. Put each option in its own column."
        )


def rivals(fields: FieldMap, names: Sequence[str]) -> list[str]:
    """Return the other columns that may be the key. If the key column is called correct, return only others called so."""
    taken = {fields.key, fields.id, fields.topic, *several(fields.choices)}
    ranks = KEYS[:1] if usual_names([fields.key or ""], KEYS[:1]) else KEYS
    others = [name for rank in ranks for name in usual_names(names, [rank]) if name not in taken]
    if fields.key is None or fields.key in several(fields.choices):
        others = []
    return [*others, *({LOGGED_TARGET} & {*names})]


def counted_as_rivals(
    written: Sequence[answer_keys.WrittenKey], meant: Meant
) -> Sequence[answer_keys.WrittenKey]:
    """Count numeric keys from 1 if they then agree with some column in every row, but with no column if counted from 0."""
    if not meant or len(written) < _ROWS_THAT_AGREE or any(key.key_is != "auto" for key in written):
        return written
    kinds = {*written}
    forms = ({key: replace(key, key_is=form) for key in kinds} for form in ("index", "number"))
    from_0, from_1 = ([*map(of.__getitem__, written)] for of in forms)
    agree = [
        not any(key.fault for key in keys)
        and any(all(k.index in one for k, one in zip(keys, said, strict=True)) for said in meant.values())
        for keys in (answer_keys.read_keys(from_0), answer_keys.read_keys(from_1))
    ]
    return from_1 if agree == [False, True] else written


def require_one_key(
    name: str, fields: FieldMap, lines: Sequence[int], keys: Sequence[answer_keys.ReadKey], meant: Meant
) -> None:
    """Refuse a file in which several columns name different correct choices."""
    good = sum(not key.fault for key in keys)
    mend = f", for example `--map key={fields.key}`" * (good == len(keys))
    for what, others in meant.items():
        pairs = zip(lines, keys, others, strict=True)
        read = [(line, key.index, other) for line, key, other in pairs if other and not key.fault]
        differ = [one for one in read if one[1] not in one[2]]
        if differ and what != f"`{LOGGED_TARGET}`" and len(read) * 2 > good:
            line, index, other = differ[0]
            raise DataError(
                f"{name}:{line}: `{fields.key}` names choice {index + 1}, but {what} names choice {min(other) + 1} "
                f"({len(differ)} such rows). Name the key column{mend}."
            )
