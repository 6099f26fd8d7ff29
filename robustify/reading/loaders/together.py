"""Checks that the rows of a file, each valid alone, fit together and agree with other columns.

Columns that could all be the key are accepted if they name the same choices. Such a column can tell whether numbers count
from 0 or from 1.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from robustify.base.errors import DataError
from robustify.base.texts import edges, undressed
from robustify.items.item import MOST
from robustify.reading.loaders import answer_keys, listed_options, rows
from robustify.reading.loaders.columns import KEYS, LOGGED_TARGET, Columns, several, usual_names
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.loaders.rows import RawItem
from robustify.reading.marks import labelling
from robustify.reading.marks.labelling import cut_at_labels, only_labels

_ROWS_OF_LETTERS = 10
"""Least number of rows whose options are only small letters, or letters of another script, for a refusal."""
_COLONS = (":", "：")
_PROMPT_LEAD, _PROMPT_TAIL = "Question: ", "\nAnswer:"
_SHARED_SPACE = "all options began or ended with the same white space, which was taken off"
_MARK = "the mark in the choices"
_ROWS_THAT_AGREE = 3
"""Least number of rows in which a second column can tell how the numbers of the first count."""
Meant = Mapping[str, Sequence[frozenset[int]]]
"""For each other column that may be the key: the choices that each row may mean."""
_NONE, *_ONLY = frozenset[int](), *(frozenset((at,)) for at in range(MOST))
"""Sets of no choice and of each choice, because a set for each row takes 216 bytes."""


class UncertainBaseError(DataError):
    """Error for a file whose numeric keys may count from 0 or from 1. Other files of the benchmark may tell."""


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
        self.led += is_led(raw)
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


def require_whole(name: str, file: FileRows, written: Counter[answer_keys.WrittenKey]) -> None:
    """Refuse a file whose rows are valid one by one but inconsistent as a whole."""
    n = written.total()
    most = max(file.sure, file.letters * (file.letters >= _ROWS_OF_LETTERS))
    if most * 2 > n:
        raise DataError(
            f"{name}: in {most} of {n} rows, the options are only letters, and their text is in the stem or "
            "missing. Use a version of the benchmark that includes the text of each option."
        )
    if forms := answer_keys.uncertain_base(written):
        raise UncertainBaseError(
            f"{name}: the keys are whole numbers and never 0, so they may count from 1{answer_keys.key_hint(forms)}"
        )
    if answer_keys.never_the_last(written):
        raise DataError(
            f"{name}: no key is the number of the last option, so keys may count from 0"
            f"{answer_keys.key_hint(('label', 'index'))}"
        )
    if 2 * (lone := file.unread[listed_options.ONE_TEXT]) > n:
        raise DataError(
            f"{name}: in {lone} of {n} rows, the wrong options are one text, perhaps several with commas between them. "
            "Write a list, separate them with `|` or `;`, or give each a column of its own."
        )
    if len(file.cuts) > 1 or len(file.sizes) > 1:
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


def asides(fields: FieldMap, columns: Columns, rivals: Sequence[str]) -> list[str]:
    """Return the other columns with a name for a key that are nearly as full as the key, but may differ from it."""
    taken = {fields.key, fields.id, fields.topic, *several(fields.choices), *rivals}
    if fields.key is None or fields.key in several(fields.choices):
        return []
    full = 0.9 * columns.filled.get(fields.key, 0)
    others = [name for rank in KEYS for name in usual_names(columns.names, [rank]) if name not in taken]
    return [name for name in others if columns.filled[name] >= full]


def differences(
    key: str, names: Sequence[str], keys: Sequence[answer_keys.ReadKey], meant: Meant
) -> Iterator[str]:
    """Yield a note for each column that names other options than the key in some rows, and an option in most."""
    for name in names:
        pairs = zip(keys, meant.get(f"`{name}`", ()), strict=False)
        read = [(one.index, other) for one, other in pairs if other and not one.fault]
        differ = sum(index not in other for index, other in read)
        if differ and 2 * len(read) > len(keys):
            yield f"`{name}` names another option than `{key}` in {differ:,} of {len(keys):,} rows; `{key}` counts"


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


def bare_items(raws: rows.Raws, led: int) -> tuple[rows.Raws, bool, tuple[str, ...]]:
    """Remove what surrounds all stems or choices of a file, such as labels. `led` rows are `is_led`. Return the items,
    whether labels were removed, and notes."""
    plain = _bare_stems(raws)
    if led * 2 > len(raws):
        # The first choice is a line such as "Options:".
        plain = rows.changed(plain, _without_lead)
    labelled = all(_labelled_inside(raw) is not None for raw in plain)
    unlabelled = rows.changed(plain, _without_labels) if labelled else plain
    bare = _evened(unlabelled)
    return bare, labelled, () if bare is unlabelled else (_SHARED_SPACE,)


def _bare_stems(raws: rows.Raws) -> rows.Raws:
    """Remove `Question: ` and `Answer:` from the stems if all stems have them."""
    lead = _PROMPT_LEAD if all(raw.stem.startswith(_PROMPT_LEAD) for raw in raws) else ""
    tail = _PROMPT_TAIL if all(raw.stem.removeprefix(lead).endswith(_PROMPT_TAIL) for raw in raws) else ""
    if not lead and not tail:
        return raws
    return rows.changed(raws, lambda raw: replace(raw, stem=raw.stem.removeprefix(lead).removesuffix(tail)))


def is_led(raw: rows.RawItem) -> bool:
    """Return whether the first choice alone ends in a colon, and the choices have no labels."""
    if raw.labels or not raw.choices or not raw.choices[0].rstrip().endswith(_COLONS):
        return False
    return not any(text.rstrip().endswith(_COLONS) for text in raw.choices[1:])


def _without_lead(raw: rows.RawItem) -> rows.RawItem:
    return (
        replace(raw, choices=raw.choices[1:], unread=(*raw.unread, listed_options.LINE_ABOVE))
        if is_led(raw)
        else raw
    )


def _labelled_inside(raw: rows.RawItem) -> labelling.Labelled | None:
    """Return the choices without their labels, or None if one is missing or it is unclear which labels the key means."""
    if raw.cut == listed_options.BY_LABEL:
        return labelling.Labelled(raw.labels, raw.choices, tuple(range(len(raw.choices))))
    found = labelling.split_labels(raw.choices)
    return None if found is None or _rival_marks(raw, found) else found


def _without_labels(raw: rows.RawItem) -> rows.RawItem:
    if (one := _labelled_inside(raw)) is None:
        return raw
    return replace(
        raw,
        choices=one.texts,
        labels=raw.labels or tuple(label.upper() for label in one.labels),
        key_is="label" if raw.key_is == "letter" and not one.in_order else raw.key_is,
    )


def _rival_marks(raw: rows.RawItem, found: labelling.Labelled) -> bool:
    """Return whether the key could mean two choices, because labels of the file and in the choices differ in order."""
    ours, theirs = ([*map(labelling.as_mark, labels)] for labels in (raw.labels, found.labels))
    return (
        labelling.bare_mark(str(raw.key)) in ours
        and ours != theirs
        and {*ours} == {*theirs}
        and not found.in_order
    )


def _evened(raws: rows.Raws) -> rows.Raws:
    """Remove the white space with which all choices of a file begin or end, such as the blank after each comma."""
    if not (raws and raws[0].choices and any(edges(raws[0].choices[0]))):
        return raws
    every = [choice for raw in raws for choice in raw.choices]
    texts = iter(even := undressed(every))
    if even[0] == every[0]:
        return raws
    return rows.changed(raws, lambda raw: replace(raw, choices=tuple(islice(texts, len(raw.choices)))))
