"""Checks of a whole file of items, because rows that are valid alone may not fit together.

Each entry of `CHECKS` is a reason to refuse a file, and says what to do. A column that the user maps is not questioned.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from robustify.base.errors import DataError, ItemError, Notice
from robustify.reading import counting
from robustify.reading.columns import (
    LOGGED_TARGET,
    choice_columns,
    is_named,
    labelled_series,
    several,
    usual_names,
)
from robustify.reading.loaders import answer_keys, option_columns
from robustify.reading.loaders.file_evidence import ROWS_THAT_AGREE, FileEvidence, UncertainBaseError
from robustify.reading.loaders.rows import Cells
from robustify.reading.marks.labelling import as_mark, bare_mark
from robustify.reading.printed import literal

_ROWS_OF_LETTERS = 10
"""Least number of rows whose options are only small letters, or letters of another script, for a refusal."""
_FEWEST_PICKS = 10
"""Least number of rows in which a pick is always the key for a refusal."""
_LOOK_ALIKE = str.maketrans("abcehkmoptxy", "авсенкмортху")
"""Latin letters, and the Cyrillic letters that look like them."""
_GRADES = {"correct": True, "right": True, "incorrect": False, "wrong": False}


@dataclass(frozen=True, slots=True)
class Case:
    """Evidence from a file, with the lines and keys of its rows. `weak_stem` is set if the question's column was
    chosen by a less usual name. `sample` has the cells of the first rows, unless the user mapped the columns."""

    evidence: FileEvidence
    lines: Sequence[int]
    keys: Sequence[answer_keys.ReadKey]
    weak_stem: bool = False
    sample: Sequence[Cells] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """Reason to refuse a whole file. `find` returns the fault and the remedy, or None. `error` is the type of the error."""

    name: str
    reason: str
    find: Callable[[Case], Notice | None]
    error: type[DataError] = DataError


def _one_stem(case: Case) -> Notice | None:
    stem = case.evidence.fields.stem
    if not case.weak_stem or len(case.lines) < ROWS_THAT_AGREE or len(case.evidence.stems) > 1:
        return None
    return Notice(
        f" `{stem}` is the same in all rows, so it may not be the question. Name the question's field with `--map "
        f"stem=NAME`, for example `--map stem={stem}`.",
        code="same-stem-in-all-rows",
    )


def _numbered(case: Case) -> Notice | None:
    stem = case.evidence.fields.stem
    cells = [str(row.get(str(stem), "")).strip() for row in case.sample]
    if len(cells) < ROWS_THAT_AGREE or not all(map(str.isdecimal, cells)):
        return None
    return Notice(
        f" `{stem}` has only numbers, so it may not be the question. Name the question's field with `--map stem=NAME`, for "
        f"example `--map stem={stem}`.",
        code="numbers-as-stems",
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


def _other_column(case: Case) -> Notice | None:
    key, n = case.evidence.fields.key, len(case.lines)
    if 2 * (n_bad := sum(bool(answer.fault) for answer in case.keys)) <= n:
        return None
    for name, options in case.evidence.must_agree.items():
        column = name.strip("`")
        if n >= ROWS_THAT_AGREE and all(options) and column in (case.evidence.others.checked or ()):
            return Notice(
                f" `{key}` names no option in {n_bad} of {n} rows, but {name} does in all. Name the key column, for "
                f"example `--map key={column}`.",
                code="other-key-column-fits",
            )
    return None


def _two_orders(case: Case) -> Notice | None:
    columns, sample = several(case.evidence.fields.choices), case.sample
    if not sample or _by_text(case):
        return None
    names = [
        name for name in dict.fromkeys(name for cells in sample for name in cells) if name not in columns
    ]
    orders = [_options(cells, columns) for cells in sample]
    if 2 * case.evidence.n_asked_twice > len(case.lines) and (n := case.evidence.n_in_other_order):
        mapped = ",".join(columns)
        return Notice(
            f" the question lists the options of `{mapped}` in a different order ({n} of {len(case.lines)} rows), and keys "
            f"may count either. If they count `{mapped}`, add `--map choices={mapped}`.",
            code="options-in-two-orders",
        )
    for others in (*((name,) for name in names), *labelled_series(names), *choice_columns(names)):
        pairs = [(order, _options(cells, others)) for order, cells in zip(orders, sample, strict=True)]
        same = [pair for pair in pairs if pair[0] and sorted(pair[0]) == sorted(pair[1])]
        if 2 * len(same) > len(sample) and (n := sum(order != other for order, other in same)):
            mapped = ",".join(columns)
            return Notice(
                f" `{','.join(others)}` lists the options of `{mapped}` in a different order ({n} of the first "
                f"{len(sample)} rows), and keys may count either. Name the list that they count, for example "
                f"`--map choices={mapped}`.",
                code="options-in-two-orders",
            )
    return None


def _two_alphabets(case: Case) -> Notice | None:
    if not case.sample or _by_text(case):
        return None
    bare = {bare_mark(key) for key in case.evidence.short_keys}
    marks = {mark for mark in bare if mark and len(mark) == 1 and mark.isalpha()}
    latin = {mark for mark in marks if mark.isascii()}
    labels = {as_mark(label) for key in case.evidence.kinds for label in key.labels}
    # Latin A and B may stand for the first and third Cyrillic letters, which look like them.
    may_be_theirs = "b" in latin and {mark.translate(_LOOK_ALIKE) for mark in latin} <= labels - latin
    if not may_be_theirs and not (latin and latin < marks):
        return None
    key = case.evidence.fields.key
    return Notice(
        f" keys in `{key}` are letters of several alphabets that look alike, so they may name other options. Write all "
        f"keys in the alphabet of the labels, or add `--map key={key}` if they are right as they are.",
        code="mixed-alphabets",
    )


def _permuted(case: Case) -> Notice | None:
    columns, sample = several(case.evidence.fields.choices), case.sample
    if not sample or _by_text(case):
        return None
    for name in usual_names([name for name in sample[0] if name not in columns], "order"):
        orders = [_order(cells.get(name), len(_options(cells, columns))) for cells in sample]
        n = sum(order != sorted(order) for order in orders)
        if 2 * sum(map(bool, orders)) > len(sample) and n:
            mapped = ",".join(columns)
            return Notice(
                f" `{name}` holds an order of the options ({n} of the first {len(sample)} rows), and keys may count that "
                f"order. If they count the options as they are listed, add `--map choices={mapped}`.",
                code="keys-may-count-an-order",
            )
    return None


def _by_text(case: Case) -> bool:
    """Return whether each key is the text of an option, so that the order of the options is irrelevant."""
    return all(key.form == "text" for key in case.keys if not key.fault)


def _options(cells: Cells, columns: Sequence[str]) -> list[str]:
    """Return the texts in a column with a list, or in columns with one option each."""
    if len(columns) == 1:
        return _texts(cells.get(columns[0]))
    return [str(cell) for name in columns if (cell := cells.get(name)) not in (None, "")]


def _order(cell: object, k: int) -> list[int]:
    """Return a list of k different numbers that count from 0 or 1, or an empty list."""
    with suppress(ItemError):
        cell = literal(cell) if isinstance(cell, str) else cell
    numbers = cell if isinstance(cell, list) and all(type(number) is int for number in cell) else []
    return numbers if k and sorted(numbers) in ([*range(k)], [*range(1, k + 1)]) else []


def _texts(cell: object) -> list[str]:
    with suppress(ItemError):
        cell = literal(cell) if isinstance(cell, str) and cell.lstrip()[:1] == "[" else cell
    return cell if isinstance(cell, list) and all(isinstance(member, str) for member in cell) else []


def _picked(case: Case) -> Notice | None:
    evidence = case.evidence
    key, n = evidence.fields.key or "", sum(not answer.fault for answer in case.keys)
    if is_named(key, "key", slice(2)):
        return None
    for name, picks in evidence.picked.items():
        same = [answer.index in pick for answer, pick in zip(case.keys, picks, strict=True) if len(pick) == 1]
        if len(same) >= _FEWEST_PICKS and 2 * len(same) > n and all(same):
            return Notice(
                f" `{key}` and {name} name the same option in all {len(same)} rows, so `{key}` may contain the picks of "
                f"a model. Name the column of the right options, for example `--map key={key}`.",
                code="key-equals-picks",
            )
    return None


def _grade(cell: object, marked: bool) -> object:
    """Return the truth value of `correct` or `incorrect`, or, with `marked`, of any mark."""
    grade = _GRADES.get(cell.strip().casefold()) if isinstance(cell, str) else None
    return option_columns.truth(cell) if grade is None and marked else grade


def _points(cell: object) -> float | None:
    """Return the points in a cell, or None if the cell is not a number."""
    with suppress(TypeError, ValueError):
        return float(cell) if not isinstance(cell, bool) else None  # type: ignore[arg-type]
    return None


def _graded(case: Case) -> Notice | None:
    key, sample = case.evidence.fields.key or "", case.sample
    if is_named(key, "key", slice(2)) or key in several(case.evidence.fields.choices):
        return None
    if usual_names([name for name in next(iter(sample), ()) if name != key], "picks.pick"):
        return None  # The marks are those of the picks.
    for name in [name for name in sample[0] if name != key] if sample and key else ():
        marked = is_named(name, "option_mark") or is_named(name, "picks.correct")
        marks = [_grade(cells.get(name), marked) for cells in sample]
        points = [_points(cells.get(name)) for cells in sample] if is_named(name, "grade") else []
        if points and None not in points:
            # Points that are never 0 are those of a right answer.
            marks = [number != 0 for number in points] if any(points) else []
        if marks and all(mark in (True, False) for mark in marks) and (n := marks.count(False)):
            return Notice(
                f" `{name}` says that `{key}` is wrong in {n} of the first {len(sample)} rows, so `{key}` may contain "
                f"answers that somebody gave. Name the column of the right answers, for example `--map key={key}`.",
                code="graded-answers",
            )
    return None


CHECKS = (
    Check(
        "one stem",
        "a column that never changes, with a less usual name, is probably an instruction",
        _one_stem,
    ),
    Check("numbered", "a column of numbers probably counts the questions", _numbered),
    Check("only letters", "options such as A and B are probably labels of options", _only_letters),
    Check("base", "numbers that are never 0 probably count from 1", _base, UncertainBaseError),
    Check("last number", "if the last option is never right, keys probably count from 0", _last_number),
    Check("one text", "a text with commas may list several wrong options", _one_text),
    Check("several right", "a right option with separators may be several right answers", _several_right),
    Check("separators", "rows with different separators may have one inside an option", _separators),
    Check("other keys", "two columns with usual names for a key should name the same options", _other_keys),
    Check("other column", "a column whose keys name no options is probably not the key", _other_column),
    Check(
        "two orders",
        "if options are listed in two orders, nothing tells which order keys count",
        _two_orders,
    ),
    Check("two alphabets", "letters of several alphabets look alike, but count differently", _two_alphabets),
    Check("permuted", "a column with an order of the options may be what keys count", _permuted),
    Check("picked", "keys that always equal a column of picks may be these picks", _picked),
    Check(
        "graded",
        "answers that another column marks as right or wrong are probably those of test takers",
        _graded,
    ),
)
"""In order. The first that finds something refuses the file."""


def require_clear(name: str, case: Case) -> None:
    """Refuse a file whose rows are valid one by one but unclear together."""
    for check in CHECKS:
        if (fault := check.find(case)) is not None:
            raise check.error(f"{name}:{fault}", code=fault.code)
