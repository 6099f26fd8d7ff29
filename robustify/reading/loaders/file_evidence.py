"""Evidence of how the keys of a file count and what all its rows carry, and checks of the file as a whole.

Rows that are valid alone may not fit together. Each entry of `CHECKS` is a reason to refuse a file. Columns that could all
be the key are accepted if they name the same options, and can tell whether numbers count from 0 or from 1.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from robustify.base.errors import DataError, ItemError, Notice
from robustify.items.item import MOST
from robustify.reading import counting
from robustify.reading.bare_items import has_lead
from robustify.reading.loaders import answer_keys, listed_options, option_columns
from robustify.reading.loaders.column_rules import Columns
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.loaders.rows import Cells, RawItem
from robustify.reading.marks import labelling
from robustify.reading.marks.labelling import begins_without_label, cut_at_labels, only_labels
from robustify.reading.part_rules import several
from robustify.reading.printed import literal
from robustify.reading.vocabulary import LOGGED_TARGET, NAMES, every_named, is_named, usual_names

_ROWS_OF_LETTERS = 10
"""Least number of rows whose options are only small letters, or letters of another script, for a refusal."""
_MARK = "the mark in the choices"
_ROWS_THAT_AGREE = 3
"""Least number of rows in which a second column can tell how the numbers of the first count."""
_GRADES = {"correct": True, "right": True, "incorrect": False, "wrong": False}
OptionsNamed = Mapping[str, Sequence[frozenset[int]]]
"""For each other column that may be the key: the options that it may name, by row."""
_NONE, *_ONLY = frozenset[int](), *(frozenset((i,)) for i in range(MOST))
"""Sets of no option and of each option, because a set for each row takes 216 bytes."""


class UncertainBaseError(DataError):
    """Error for a file whose numeric keys may count from 0 or from 1. Other files of the benchmark may tell."""


class FileEvidence:
    """Statistics of the rows of a file, collected in one pass. `checked` columns may be the key, and they and the marks in
    options must agree with it, unless it is None. `beside` columns may differ, which a note says."""

    def __init__(
        self, fields: FieldMap, checked: Sequence[str] | None = None, beside: Sequence[str] = ()
    ) -> None:
        self.fields, self._keys, self.ids = fields, answer_keys.WrittenKeys(), array("q")
        self.checked, self.beside = checked, (*beside,)
        self.written: Sequence[answer_keys.WrittenKey] = []
        self._marked: list[frozenset[int]] = []
        self._named: dict[str, list[frozenset[int]]] = {
            f"`{name}`": [] for name in (*(checked or ()), *beside)
        }
        self.cuts, self.unread, self.sizes = Counter[str](), Counter[str](), set[int]()
        self.n_unreviewed = self.n_with_lead = self.n_sure_letters = self.n_letters = self.n_inside = 0
        self.n_several_right = self.n_true_first = 0
        self.passages, self.stems, self.short_keys = False, set[str](), set[str]()

    def recount(self, raws: Iterable[RawItem]) -> "FileEvidence":
        """Collect the evidence of changed rows of the same file."""
        evidence = FileEvidence(self.fields, self.checked, self.beside)
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
        if self.checked is None:
            return {}
        every = {
            _MARK: self._marked,
            **{name: self._named[name] for name in map("`{}`".format, self.checked)},
        }
        return {name: options for name, options in every.items() if any(options)}

    @property
    def kinds(self) -> Counter[answer_keys.WrittenKey]:
        """Number of rows with each kind of key."""
        return Counter(self.written)

    def differences(self, keys: Sequence[answer_keys.ReadKey]) -> Iterator[Notice]:
        """Yield a note for each column beside the key that names another option in some rows, and an option in most, one on
        keys whose text is that of no option, and one on keys 1 that could mean true or the second option."""
        if n := sum(key.other_text for key in self.written):
            text = f"in {n:,} of {len(keys):,} rows, the text after the letter of the key is no option; the letter counts"
            yield Notice(text, code="key-text-is-no-option")
        forms = {key.form for key in keys if not key.fault}
        if (
            self.checked is not None
            and 2 * self.n_true_first > len(keys)
            and forms == {answer_keys.FORMS["index"]}
        ):
            n_first = f"in {self.n_true_first:,} of {len(keys):,} rows"
            text = f"{n_first}, true or yes is the first of two options; the key 1 was read as the second"
            yield Notice(text, code="one-may-mean-true")
        for name in self.beside:
            pairs = zip(keys, self._named[f"`{name}`"], strict=True)
            both = [(answer.index, other) for answer, other in pairs if other and not answer.fault]
            n = sum(index not in other for index, other in both)
            if n and 2 * len(both) > len(keys):
                key = self.fields.key
                text = f"`{name}` names another option than `{key}` in {n:,} of {len(keys):,} rows; `{key}` counts"
                yield Notice(text, code="second-key-differs")


def checked_columns(fields: FieldMap, names: Sequence[str]) -> list[str]:
    """Return the other columns that may be the key. If the key column is called correct, return only others called so."""
    taken = {fields.key, fields.id, fields.topic, *several(fields.choices)}
    ranks = NAMES["key"][:1] if is_named(fields.key or "", "key", slice(1)) else NAMES["key"]
    others = [name for rank in ranks for name in usual_names(names, [rank]) if name not in taken]
    if fields.key is None or fields.key in several(fields.choices):
        others = []
    return [*others, *({LOGGED_TARGET} & {*names})]


def columns_beside(fields: FieldMap, columns: Columns, checked: Sequence[str]) -> list[str]:
    """Return the other columns with a name for a key that are nearly as full as the key, but may differ from it."""
    taken = {fields.key, fields.id, fields.topic, *several(fields.choices), *checked}
    if fields.key is None or fields.key in several(fields.choices):
        return []
    full = 0.9 * columns.filled.get(fields.key, 0)
    others = [name for name in every_named(columns.names, "key") if name not in taken]
    return [name for name in others if columns.filled[name] >= full]


def counts_from_1(evidence: FileEvidence) -> bool:
    """Return whether numeric keys agree with some other column in every row if they count from 1, but with none if they
    count from 0. If so, they are counted from 1."""
    written, others = evidence.written, evidence.must_agree
    if not others or len(written) < _ROWS_THAT_AGREE or any(key.key_is != "auto" for key in written):
        return False
    kinds = {*written}
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
    if agree == [False, True]:
        evidence.written = from_1
        evidence.fields = evidence.fields.model_copy(update={"key_is": "number"})
        return True
    return False


@dataclass(frozen=True, slots=True)
class Case:
    """Evidence of a file, with the lines and keys of its rows. `weak_stem` is set if the column of the question was chosen
    by a less usual name. `sample` are the cells of the first rows, unless the user mapped the columns."""

    evidence: FileEvidence
    lines: Sequence[int]
    keys: Sequence[answer_keys.ReadKey]
    weak_stem: bool = False
    sample: Sequence[Cells] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """Reason to refuse a file as a whole. `find` returns what is wrong and what to do, or None. `error` is its type."""

    name: str
    reason: str
    find: Callable[[Case], Notice | None]
    error: type[DataError] = DataError


def _one_stem(case: Case) -> Notice | None:
    stem = case.evidence.fields.stem
    if not case.weak_stem or len(case.lines) < _ROWS_THAT_AGREE or len(case.evidence.stems) > 1:
        return None
    return Notice(
        f" `{stem}` is the same in all rows, so it may not be the question. Name the question's field with `--map "
        f"stem=NAME`, for example `--map stem={stem}`.",
        code="same-stem-in-all-rows",
    )


def _only_letters(case: Case) -> Notice | None:
    evidence, n = case.evidence, len(case.lines)
    most = max(evidence.n_sure_letters, evidence.n_letters * (evidence.n_letters >= _ROWS_OF_LETTERS))
    if most * 2 <= n:
        return None
    return Notice(
        f" in {most} of {n} rows, the options are only letters, and their text is in the stem or missing. Use a version of "
        "the benchmark that includes the text of each option.",
        code="options-are-letters",
    )


def _right_has_separator(choices: Sequence[str], right: int) -> bool:
    """Return whether the right option alone is cut by a separator, as if it were several."""
    return any(
        mark in choices[right] and "".join(choices).count(mark) == choices[right].count(mark) for mark in "|;"
    )


def _several_right(case: Case) -> Notice | None:
    n, key = len(case.lines), case.evidence.fields.key
    if case.evidence.n_several_right * 2 <= n or key not in several(case.evidence.fields.choices):
        return None
    return Notice(
        f" in {case.evidence.n_several_right} of {n} rows, the right option contains `|` or `;`, and no wrong one does, so "
        f"`{key}` may hold several right answers. Keep one in each row.",
        code="several-right-answers",
    )


def _base(case: Case) -> Notice | None:
    forms = counting.uncertain_forms(case.evidence.kinds)
    unsure = " the keys are whole numbers and never 0, so they may count from 1"
    return Notice(unsure + answer_keys.key_hint(forms), code="uncertain-key-base") if forms else None


def _last_number(case: Case) -> Notice | None:
    if not counting.never_the_last(case.evidence.kinds):
        return None
    hint = answer_keys.key_hint(("label", "index"))
    text = f" no key is the number of the last option, so keys may count from 0{hint}"
    return Notice(text, code="last-option-never-key")


def _one_text(case: Case) -> Notice | None:
    n, n_texts = len(case.lines), case.evidence.unread[option_columns.ONE_TEXT]
    if 2 * n_texts <= n:
        return None
    return Notice(
        f" in {n_texts} of {n} rows, the wrong options are one text, perhaps several with commas between them. Write a "
        "list, separate them with `|` or `;`, or give each a column of its own.",
        code="wrong-options-in-one-text",
    )


def _separators(case: Case) -> Notice | None:
    if len(case.evidence.cuts) < 2 and len(case.evidence.sizes) < 2:
        return None
    return Notice(
        " the options are in one cell, and rows differ in separator or number of options. The separator may be part of an "
        "option. Put each option in its own column.",
        code="mixed-separators",
    )


def _other_keys(case: Case) -> Notice | None:
    key, good = case.evidence.fields.key, sum(not answer.fault for answer in case.keys)
    mend = f", for example `--map key={key}`" * (good == len(case.keys))
    for name, others in case.evidence.must_agree.items():
        triples = zip(case.lines, case.keys, others, strict=True)
        both = [(line, answer.index, other) for line, answer, other in triples if other and not answer.fault]
        differ = [pair for pair in both if pair[1] not in pair[2]]
        if differ and name != f"`{LOGGED_TARGET}`" and len(both) * 2 > good:
            line, index, other = differ[0]
            return Notice(
                f"{line}: `{key}` names choice {index + 1}, but {name} names choice {min(other) + 1} "
                f"({len(differ)} such rows). Name the key column{mend}.",
                code="contradicting-keys",
            )
    return None


def _two_orders(case: Case) -> Notice | None:
    column, sample = case.evidence.fields.choices, case.sample
    if not isinstance(column, str) or all(key.form == "text" for key in case.keys if not key.fault):
        return None
    orders = [_texts(cells.get(column)) for cells in sample]
    for name in {name: None for cells in sample for name in cells if name != column}:
        others = [_texts(cells.get(name)) for cells in sample]
        pairs = [(order, other) for order, other in zip(orders, others, strict=True) if order and other]
        same = [pair for pair in pairs if sorted(pair[0]) == sorted(pair[1])]
        if 2 * len(same) > len(sample) and (n := sum(order != other for order, other in same)):
            return Notice(
                f" `{name}` lists the options of `{column}` in another order ({n} of the first {len(sample)} rows), and "
                f"keys may count either. Name the list that they count, for example `--map choices={column}`.",
                code="options-in-two-orders",
            )
    return None


def _texts(cell: object) -> list[str]:
    with suppress(ItemError):
        cell = literal(cell) if isinstance(cell, str) and cell.lstrip()[:1] == "[" else cell
    return cell if isinstance(cell, list) and all(isinstance(member, str) for member in cell) else []


def _grade(cell: object, marked: bool) -> object:
    """Return the truth value of `correct` or `incorrect`, and with `marked`, of any mark."""
    grade = _GRADES.get(cell.strip().casefold()) if isinstance(cell, str) else None
    return option_columns.truth(cell) if grade is None and marked else grade


def _graded(case: Case) -> Notice | None:
    key, sample = case.evidence.fields.key or "", case.sample
    if is_named(key, "key", slice(2)) or key in several(case.evidence.fields.choices):
        return None
    if usual_names([name for name in next(iter(sample), ()) if name != key], NAMES["picks.pick"]):
        return None  # The marks are those of the picks.
    for name in sample[0] if sample and key else ():
        marked = is_named(name, "option_mark") or is_named(name, "picks.correct")
        marks = [_grade(cells.get(name), marked) for cells in sample]
        if name != key and all(mark in (True, False) for mark in marks) and (n := marks.count(False)):
            return Notice(
                f" `{name}` says that `{key}` is wrong in {n} of the first {len(sample)} rows, so it may hold answers that "
                f"somebody gave. Name the column of the right ones, for example `--map key={key}`.",
                code="graded-answers",
            )
    return None


CHECKS = (
    Check("one stem", "a column of a less usual name that never changes is rather an instruction", _one_stem),
    Check("only letters", "options such as A and B are rather the labels of options", _only_letters),
    Check("base", "numbers that are never 0 rather count from 1", _base, UncertainBaseError),
    Check(
        "last number", "numbered options whose last is never right are rather counted from 0", _last_number
    ),
    Check("one text", "a text with commas may list several wrong options", _one_text),
    Check("several right", "a right option with separators may be several right answers", _several_right),
    Check("separators", "rows with different separators may have one inside an option", _separators),
    Check("other keys", "two columns with usual names for a key should name the same options", _other_keys),
    Check(
        "two orders",
        "beside the same options in another order, nothing tells which one keys count",
        _two_orders,
    ),
    Check(
        "graded",
        "answers that another column marks as right or wrong are rather those of test takers",
        _graded,
    ),
)
"""In order. The first that finds something refuses the file."""


def require_clear(name: str, case: Case) -> None:
    """Refuse a file whose rows are valid one by one but unclear as a whole."""
    for check in CHECKS:
        if (fault := check.find(case)) is not None:
            raise check.error(f"{name}:{fault}", code=fault.code)
