"""Evidence on whether a file's numeric keys count from 0 or from 1, and on marks that all rows share.

Columns that could all be the key are accepted if they name the same options, and can tell whether numbers count from 0 or
from 1. `file_checks` refuses a file whose rows do not fit together.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from robustify.base.errors import DataError, Notice
from robustify.items.item import MOST
from robustify.reading import counting
from robustify.reading.bare_items import has_lead
from robustify.reading.columns import LOGGED_TARGET, every_named, is_named, several
from robustify.reading.loaders import answer_keys, listed_options, option_columns
from robustify.reading.loaders.column_rules import Columns
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.loaders.rows import RawItem
from robustify.reading.marks import labelling
from robustify.reading.marks.labelling import begins_without_label, cut_at_labels, only_labels

_FEWEST_ASKED_TWICE, _MOST_BETWEEN = 3, 8
"""Least number of options in a question, and the number of other characters for each, such as a label and a line end."""
_LONGEST = 40
"""Most characters of a key in a column such as `solution`, which otherwise explains it."""
_MARK = "the mark in the choices"
ROWS_THAT_AGREE = 3
"""Least number of rows in which a second column can tell how the numbers of the first count."""
OptionsNamed = Mapping[str, Sequence[frozenset[int]]]
"""For each other column that may be the key: the options that it may name, by row."""
_NONE, *_ONLY = frozenset[int](), *(frozenset((i,)) for i in range(MOST))
"""Sets of no option and of each option, because a set for each row takes 216 bytes."""


class UncertainBaseError(DataError):
    """Error for a file whose numeric keys may count from 0 or from 1. Other files of the benchmark may tell."""


@dataclass(frozen=True, slots=True)
class OtherColumns:
    """Columns other than the key that may name the right option. `checked` columns and the marks in options must agree
    with the key, unless it is None. `beside` columns may differ, which a note says. `picks` may hold what models picked."""

    checked: tuple[str, ...] | None = None
    beside: tuple[str, ...] = ()
    picks: tuple[str, ...] = ()

    @classmethod
    def find(cls, fields: FieldMap, columns: Columns, mapped: FieldMap | None, outer: str) -> "OtherColumns":
        """Find the columns beside a complete field map, of which the user may have mapped parts. A table of an `outer`
        log has no columns of picks. If the key column has a most usual name, only such columns are checked."""
        in_options = fields.key is None or fields.key in several(fields.choices)
        taken = {fields.key, fields.stem, fields.id, fields.topic, *several(fields.choices)}

        def free(part: str, ranks: slice = slice(None)) -> list[str]:
            named = [] if in_options else every_named(columns.names, part, ranks)
            return [name for name in named if name not in taken]

        checked: tuple[str, ...] | None = None
        if mapped is None or mapped.key is None:
            ranks = slice(1) if is_named(fields.key or "", "key", slice(1)) else slice(None)
            checked = (*free("key", ranks), *({LOGGED_TARGET} & {*columns.names}))
        full = 0.9 * columns.filled.get(fields.key or "", 0)
        short = [name for name in free("perhaps_key") if len(str(columns.example.get(name))) <= _LONGEST]
        beside = [name for name in (*free("key"), *short) if name not in (checked or ())]
        return cls(
            checked,
            tuple(name for name in beside if columns.filled[name] >= full),
            () if mapped is not None or outer else tuple(free("picks.pick")),
        )

    @property
    def every(self) -> tuple[str, ...]:
        """All of these columns."""
        return (*(self.checked or ()), *self.beside, *self.picks)


class FileEvidence:
    """Statistics of a file's rows, collected in one pass."""

    def __init__(self, fields: FieldMap, others: OtherColumns) -> None:
        self.fields, self.others = fields, others
        self._keys, self.ids = answer_keys.WrittenKeys(), array("q")
        self.written: Sequence[answer_keys.WrittenKey] = []
        self._marked: list[frozenset[int]] = []
        self._named: dict[str, list[frozenset[int]]] = {f"`{name}`": [] for name in others.every}
        self.cuts, self.unread, self.sizes = Counter[str](), Counter[str](), set[int]()
        self.n_unreviewed = self.n_with_lead = self.n_sure_letters = self.n_letters = self.n_inside = 0
        self.n_several_right = self.n_true_first = self.n_asked_twice = self.n_in_other_order = 0
        self.counted_from_1 = False
        self.passages, self.stems, self.short_keys = False, set[str](), set[str]()

    def recount(self, raws: Iterable[RawItem]) -> "FileEvidence":
        """Collect the evidence of changed rows of the same file."""
        evidence = FileEvidence(self.fields, self.others)
        evidence.n_unreviewed = self.n_unreviewed
        for raw in raws:
            evidence.add(raw)
        return evidence

    def add(self, raw: RawItem) -> None:
        """Count a row."""
        assert isinstance(self.written, list)
        inside, choices = None, raw.choices
        if not (choices and begins_without_label(choices[0])):
            inside = labelling.split_labels(choices)
            self.n_inside += inside is not None
            if only_labels(choices):
                self.n_sure_letters += choices[0].strip() == "A" or cut_at_labels(raw.stem) is not None
                self.n_letters += not choices[0].strip().isdecimal()
        self.written.append(self._keys.read(raw, inside))
        self._marked.append(_NONE if raw.marked is None else _ONLY[raw.marked])
        for cell, options in (
            zip(raw.candidates, self._named.values(), strict=False) if raw.candidates else ()
        ):
            key = option_columns.own_label(cell, self.fields.choices, raw.labels)
            options.append(self._keys.read(replace(raw, key_is="auto", key=key), inside).places)
        self.cuts[raw.cut] += 1
        same_order = _contains_options(raw.stem, choices)
        other_order = not same_order and _lists_in_other_order(raw.stem, choices)
        self.n_asked_twice += same_order or other_order
        self.n_in_other_order += other_order
        self.n_with_lead += not raw.labels and has_lead(raw)
        self.n_true_first += [*map(option_columns.truth, choices)] == [True, False]
        self.n_several_right += raw.marked is not None and _right_has_separator(choices, raw.marked)
        if raw.unread:
            self.unread.update([*dict.fromkeys(raw.unread)])
        if raw.cut not in ("", listed_options.BY_LABEL):
            self.sizes.add(len(choices))
        if isinstance(raw.key, str) and len(raw.key) < answer_keys.LONGEST_MARK:
            self.short_keys.add(raw.key.strip())
        self.passages = self.passages or bool(raw.passage and raw.passage.strip())
        if len(self.stems) < 2:
            self.stems.add(raw.stem)
        self.ids.append(hash(raw.id))

    @property
    def must_agree(self) -> OptionsNamed:
        """Options that the checked columns, or marks in the options, name as correct in each row."""
        if self.others.checked is None:
            return {}
        every = {
            _MARK: self._marked,
            **{name: self._named[name] for name in map("`{}`".format, self.others.checked)},
        }
        return {name: options for name, options in every.items() if any(options)}

    @property
    def picked(self) -> OptionsNamed:
        """Options that columns of picks name in each row."""
        return {name: self._named[name] for name in map("`{}`".format, self.others.picks)}

    @property
    def kinds(self) -> Counter[answer_keys.WrittenKey]:
        """Number of rows with each kind of key."""
        return Counter(self.written)

    def differences(self, keys: Sequence[answer_keys.ReadKey]) -> Iterator[Notice]:
        """Yield notes on doubtful keys. Another column may contradict the key, its text may be that of no option, or
        a key 1 could mean true or the second option."""
        if self.counted_from_1:
            text = "keys are never 0 and are the number of the last option in some rows, so they were counted from 1"
            yield Notice(text, code="keys-counted-from-one")
        if n := sum(key.other_text for key in self.written):
            text = f"in {n:,} of {len(keys):,} rows, the text after the key's letter is not an option; the letter counts"
            yield Notice(text, code="key-text-is-no-option")
        forms = {key.form for key in keys if not key.fault}
        if (
            self.others.checked is not None
            and 2 * self.n_true_first > len(keys)
            and forms == {answer_keys.FORMS["index"]}
        ):
            n_first = f"in {self.n_true_first:,} of {len(keys):,} rows"
            text = f"{n_first}, true or yes is the first of two options; the key 1 was read as the second"
            yield Notice(text, code="one-may-mean-true")
        if 2 * self.n_asked_twice > len(keys):
            text = (
                f"in {self.n_asked_twice:,} of {len(keys):,} rows, the question contains its options, so models see them "
                "twice. If there is a field with the question alone, name it with `--map stem=NAME`"
            )
            yield Notice(text, code="options-in-question")
        for name in self.others.beside:
            pairs = zip(keys, self._named[f"`{name}`"], strict=True)
            both = [(answer.index, other) for answer, other in pairs if other and not answer.fault]
            n = sum(index not in other for index, other in both)
            if n and 2 * len(both) > len(keys):
                key = self.fields.key
                text = f"`{name}` names a different option than `{key}` in {n:,} of {len(keys):,} rows; `{key}` counts"
                yield Notice(text, code="second-key-differs")


def settle_base(evidence: FileEvidence) -> None:
    """Count numeric keys from 1 if they must: keys show this, or they agree with another column in every row only
    then."""
    written, others = evidence.written, evidence.must_agree
    if len(written) < ROWS_THAT_AGREE or any(key.key_is != "auto" for key in written):
        return
    kinds = {*written}
    evidence.counted_from_1 = counting.surely_from_1(evidence.kinds)
    if not others and not evidence.counted_from_1:
        return
    forms = ({key: replace(key, key_is=form) for key in kinds} for form in ("index", "number"))
    from_0, from_1 = ([*map(of.__getitem__, written)] for of in forms)
    agree = [
        not any(key.fault for key in keys)
        and any(
            all(k.index in options for k, options in zip(keys, other, strict=True))
            for other in others.values()
        )
        for keys in (answer_keys.read_keys(from_0), answer_keys.read_keys(from_1))
    ]
    if evidence.counted_from_1 or agree == [False, True]:
        evidence.written = from_1
        evidence.fields = evidence.fields.model_copy(update={"key_is": "number"})


def _contains_options(stem: str, choices: Sequence[str]) -> bool:
    """Return whether a question lists all of its options (at least three) in order, with little text between them."""
    if len(choices) < _FEWEST_ASKED_TWICE or choices[-1] not in stem or choices[0] not in stem:
        return False
    start = begin = stem.rfind(choices[0])
    for choice in choices:
        if (start := stem.find(choice, start)) < 0 or not choice.strip():
            return False
        start += len(choice)
    return start - begin <= sum(map(len, choices)) + _MOST_BETWEEN * len(choices)


def _lists_in_other_order(stem: str, choices: Sequence[str]) -> bool:
    """Return whether a question lists the options with labels, but in a different order."""
    if len(choices) < _FEWEST_ASKED_TWICE or not all(choice in stem for choice in choices):
        return False
    listed = cut_at_labels(stem)
    return listed is not None and labelling.in_other_order(listed.texts[: len(choices)], choices)


def _right_has_separator(choices: Sequence[str], right: int) -> bool:
    """Return whether a separator splits only the right option, as if this option were several options."""
    return any(
        mark in choices[right] and "".join(choices).count(mark) == choices[right].count(mark) for mark in "|;"
    )
