"""Labels in front of options, such as `A. red`, `(b) blue`, `أ) ...` or `① ...`. A label is a mark of a series (an
alphabet, roman numbers, or counting) with its usual punctuation. Options are labeled only if all labels are the first
marks of one series, in any order, so that a text which only begins like a label, such as `A.D. 1066` or `1.5 kg`, is
kept."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from os.path import commonprefix
from string import ascii_uppercase

from robustify.base.redaction import HoldsText
from robustify.base.texts import UNSEEN, compatible, is_blank, undressed
from robustify.items.item import MOST

_FOLDED = str.maketrans("أإآٱ", "اااا", "ـ\u20e3'’׳΄`´") | {
    first + index: chr(ord("a") + index) for first in (0x1F150, 0x1F170) for index in range(MOST)
}
_CIRCLED = r"[\u2460-\u24ff\u2776-\u2793\u3200-\u32bf\U0001F110-\U0001F189]"
"""Marks that bring their own brackets or circle."""
TOKEN = rf"(?:{_CIRCLED}|[^\W\d_]{{1,5}}ـ?['’׳΄]?|\d{{1,2}}(?!\d))"
"""Pattern of a text that may be a mark."""
OPENING, CLOSING = r"(\[{<（［【〔「〈", r")\]}>）］】〕」〉"
_DRESSED = re.compile(
    rf"[\s{UNSEEN}]*(?P<bold>[*_`]*)(?:(?:option|choice|选项|選項|보기|вариант|opción|opção)\s*)?(?P<open>[{OPENING}]?)\s*"
    rf"(?P<mark>{TOKEN})[*_`]*(?:\s?(?:(?P<close>[{CLOSING}]+[.:：．]?)|(?P<dot>[.:])|(?P<wide>[．。：、，·])|(?P<weak>,|[-–—|=](?=\s))))?"
    r"[*_`]*(?P<gap>\s*)(?=(?P<rest>.{0,3}))",
    re.IGNORECASE | re.DOTALL,
)
_PLAIN = re.compile(r"(?!(?i:option|choice))[A-Za-z]{6}|(?=[A-Za-z]*[a-hj-uwyz])[A-Za-z]{2,5} [A-Za-z]")
"""Start of nearly all options, which is no label: a long word, or two words of which the first is no mark."""
_BARE = re.compile(rf"\s*(?P<mark>{TOKEN})\s+(?=\S)")


@lru_cache(maxsize=4096)
def as_mark(mark: str) -> str:
    """Return a mark in its plain form: without circle, width, case, or hamza."""
    uncircled = str(unicodedata.digit(mark, mark)) if len(mark) == 1 else mark
    plain = compatible(uncircled).casefold().strip("()").translate(_FOLDED)
    if plain.isdecimal():
        return str(int(plain))
    return {"الف": "ا", "στ": "ς"}.get(plain, plain)


def _read_series() -> tuple[tuple[str, ...], ...]:
    lines = files(__package__).joinpath("alphabets.txt").read_text(encoding="utf-8").splitlines()
    alphabets = [line.split() if " " in line else line for line in lines if not line.startswith("#")]
    return tuple(tuple(map(as_mark, alphabet[:MOST])) for alphabet in alphabets)


SERIES = _read_series()
"""Series of marks other than digits. The first is Latin, and the last is roman."""
LETTERS, ROMAN = SERIES[0], SERIES[-1]
COUNTED: tuple[tuple[str, ...], ...] = (tuple(map(str, range(MOST))), tuple(map(str, range(1, MOST + 1))))
"""Digits from 0, and digits from 1."""
EVERY_SERIES = (*SERIES, *COUNTED)
_MARKS = frozenset().union(*EVERY_SERIES)


@cache
def _index_by_mark(series: tuple[str, ...]) -> dict[str, int]:
    return {mark: index for index, mark in enumerate(series)}


def positions_in_series(marks: Sequence[str]) -> tuple[int, ...] | None:
    """Return the position of each mark if the marks are the first of one series, in any order, and otherwise None."""
    plain = [as_mark(mark) for mark in marks]
    for series in EVERY_SERIES:
        index_by_mark = _index_by_mark(series)
        positions = [index_by_mark.get(mark, MOST) for mark in plain]
        if sorted(positions) == list(range(len(plain))):
            return tuple(positions)
    return None


def series_named(labels: Sequence[str]) -> tuple[str, ...] | None:
    """Return the series that begins with these labels, in order, or None if no series does."""
    plain = tuple(map(as_mark, labels))
    return next((series for series in EVERY_SERIES if plain and series[: len(plain)] == plain), None)


def begins_without_label(text: str) -> bool:
    """Return whether a text certainly begins without a label. Nearly all options do, and this check is fast."""
    return _PLAIN.match(text) is not None


def only_labels(texts: tuple[str, ...]) -> bool:
    """Return whether the texts are only the first labels of a series, in order, such as `A.` and `B.`."""
    # Nearly always, the first text already is no label.
    if not texts or bare_mark(texts[0]) is None:
        return False
    marks = [mark for text in texts if (mark := bare_mark(text)) is not None]
    return len(marks) == len(texts) > 0 and positions_in_series(marks) == tuple(range(len(marks)))


_BARE_LABEL = re.compile(rf"[\s*_`{OPENING}{UNSEEN}]*(?P<mark>{TOKEN})[\s*_`{CLOSING}.:．。：、,，]*")
_EQUALS = re.compile(r"\s*([A-Z]|[0-9]{1,2})\s*=\s*(?=\S)")


@dataclass(frozen=True, slots=True, repr=False)
class Labelled(HoldsText):
    """Options of one item without their labels. `positions` are the labels' positions in their series."""

    labels: tuple[str, ...]
    texts: tuple[str, ...]
    positions: tuple[int, ...]

    @property
    def in_order(self) -> bool:
        """Whether the labels are in the order of their series."""
        return self.positions == tuple(range(len(self.positions)))


def split_labels(options: Sequence[str]) -> Labelled | None:
    """Return the options and labels separately. Return None unless all options are labeled and each has text next to
    its label."""
    # Nearly always, the first option already has no label.
    if len(options) < 2 or not (_split_punctuated(options[0]) or _split_at_space(options[0])):
        return None
    punctuated = [_split_punctuated(option) for option in options]
    n = sum(pair is not None for pair in punctuated)
    # One label may lack its punctuation, as in `C rome`, if the labels are in order, and so may all of A, B, C, and so on.
    split = [pair or _split_at_space(option) for pair, option in zip(punctuated, options, strict=True)]
    pairs = [pair for pair in split if pair is not None]
    capitals = len(options) > 2 and [mark for mark, _ in pairs] == [*ascii_uppercase[: len(options)]]
    if n * 2 <= len(options) and not capitals:
        return None
    labels, texts = tuple(mark for mark, _ in pairs), undressed([text for _, text in pairs])
    positions = positions_in_series(labels)
    if positions is None or len(pairs) < len(options) or any(map(is_blank, texts)):
        return None
    labelled = Labelled(labels, texts, positions)
    return labelled if n == len(options) or labelled.in_order else None


def split_at_equals(options: Sequence[str]) -> Labelled | None:
    """Split labels such as `A=` from the options if every option has one, and they run in order from the first letter or
    number."""
    heads = [_EQUALS.match(option) for option in options]
    if len(options) < 2 or not all(heads):
        return None
    labels = tuple(head[1] for head in heads if head)
    positions = positions_in_series(labels)
    texts = tuple(option[head.end() :] for option, head in zip(options, heads, strict=True) if head)
    labelled = Labelled(labels, texts, positions) if positions else None
    return labelled if labelled and labelled.in_order else None


def damaged_labels(options: Sequence[str]) -> bool:
    """Return whether all options begin with labels, but the labels repeat or lack one, such as A, B, B, D."""
    pairs = [_split_punctuated(option) for option in options]
    return len(pairs) > 1 and all(pairs) and positions_in_series([pair[0] for pair in pairs if pair]) is None


def _split_punctuated(option: str) -> tuple[str, str] | None:
    """Return the mark and the text of an option whose label has punctuation, or None."""
    head = _DRESSED.match(option)
    if head is None:
        return None
    mark, start, digit = head["mark"], head["rest"], head["mark"][-1:].isdecimal()
    if (head["open"] and not head["close"]) or not _is_mark(mark):
        return None
    if head["close"]:
        is_label = (
            not digit or bool(head["open"] or head["gap"]) or not start[:1].isascii() or start[:1].isalpha()
        )
    elif head["dot"]:
        # `A.D.`, `1.5` and `a:b` are no labels.
        word = re.match(r"[^\W\d_]\w" if digit else r"\w\w", start)
        is_label = bool(head["gap"] or word) or not start[:1].isascii()
    elif head["wide"]:
        is_label = not (digit and head["wide"] in "·，" and start[:1].isdecimal())
    elif head["weak"]:
        # `A, B` is a list, and `1 - 2` is a range.
        is_label = not digit and bool(head["gap"]) and not _is_mark(option[head.end() :].strip())
    else:
        circled = re.match(rf"{_CIRCLED}|\w+['’׳΄]", mark)
        is_label = bool(circled or re.match(r"\s{2}|[\t\u3000]", head["gap"]))
    text = head["gap"][1:] + option[head.end() :]
    bold = head["bold"]
    return (mark, text.removesuffix(bold) if bold and text.count(bold) % 2 else text) if is_label else None


def _split_at_space(option: str) -> tuple[str, str] | None:
    head = _BARE.match(option)
    return (head["mark"], option[head.end("mark") + 1 :]) if head and _is_mark(head["mark"]) else None


def _is_mark(text: str) -> bool:
    return as_mark(text) in _MARKS


@dataclass(frozen=True, slots=True, repr=False)
class ListedOptions(HoldsText):
    """Text that lists labeled options: the text before them, their labels, and their texts."""

    before: str
    labels: tuple[str, ...]
    texts: tuple[str, ...]


def cut_at_labels(text: str, labels: Sequence[str] = ()) -> ListedOptions | None:
    """Return the options that a text lists last, or None if it lists no options. Labels begin lines or, if not, are
    within lines in a form that all labels share. With `labels`, only options with these labels count."""
    wanted = [as_mark(label) for label in labels]
    for pattern in (_AT_LINE, _INLINE):
        run = _last_run([mark for mark in pattern.finditer(text) if _is_mark(mark["mark"])], wanted)
        if run:
            ends = [*(mark.start() for mark in run[1:]), len(text)]
            texts = tuple(
                text[mark.end() : end].strip(" \t\r\n|;,/") for mark, end in zip(run, ends, strict=True)
            )
            if all(texts):
                return ListedOptions(
                    text[: run[0].start()].rstrip(), tuple(mark["mark"] for mark in run), texts
                )
    return None


_LISTED = (
    rf"(?P<open>[{OPENING}]?)(?P<mark>{TOKEN})(?:\s?(?P<close>[{CLOSING}]+)|(?<={_CIRCLED})|(?=[.:．。：、]))"
    r"[.:．。：、]?(?:\s+|(?=[^\W\d_])|(?<=[^.:])(?=\S))"
)
_AT_LINE = re.compile(rf"^[ \t]*{_LISTED}", re.MULTILINE)
_INLINE = re.compile(rf"(?:(?<=[\s|;,/])|^){_LISTED}")


def _last_run(marks: Sequence["re.Match[str]"], wanted: Sequence[str]) -> Sequence["re.Match[str]"]:
    """Return the last run of marks in a text that begins a series, in order."""
    plain = [as_mark(mark["mark"]) for mark in marks]
    for start in range(len(marks) - 2, -1, -1):
        for series in [wanted] if wanted else EVERY_SERIES:
            if start and plain[start - 1] == "0" and series is COUNTED[1]:
                # The options are numbered from 0.
                continue
            n = len(commonprefix([plain[start:], [*series]]))  # noqa: RUF071 (marks, not paths)
            run = marks[start : start + n]
            complete = n == len(wanted) if wanted else n > 1 and start + n == len(marks)
            if complete and len({(mark["open"], mark["close"]) for mark in run}) == 1:
                return run
    return []


def in_other_order(listed: Sequence[str], options: Sequence[str], plain: Callable[[str], str] = str) -> bool:
    """Return whether listed texts are the options in a different order. Other lines may follow the last text. `plain`
    normalizes texts."""
    *texts, last = map(str.strip, listed)
    shown = [*map(plain, texts), plain(last.split("\n")[0].strip())]
    own = [plain(option.strip()) for option in options]
    return shown != own and sorted(shown) == sorted(own)


def without_tail(cut: ListedOptions) -> ListedOptions | None:
    """Remove the lines that follow the last option of a prompt, such as `Answer:`. Return None if it is unclear where
    the last option ends, because the other options have several lines."""
    *others, last = [text.split("\n") for text in cut.texts]
    n_lines = {len(lines) for lines in others}
    if len(n_lines) == 1 and len(last) >= (n := n_lines.pop()):
        kept = last[:n]
    else:
        ends = [n for n, line in enumerate(last) if not line.strip() or line.rstrip().endswith((":", "："))]
        if not ends:
            return None
        kept = last[: ends[0]]
    text = "\n".join(kept).strip()
    return ListedOptions(cut.before, cut.labels, (*cut.texts[:-1], text)) if text else None


def bare_mark(text: str) -> str | None:
    """Return the plain mark of a text that is only a label, such as `(b)`, or None for any other text."""
    label = _BARE_LABEL.fullmatch(text)
    return as_mark(label["mark"]) if label and _is_mark(label["mark"]) else None


def series_of(cells: Iterable[str]) -> tuple[str, ...] | None:
    """Return the series of most of the marks among a file's cells, or None if there are no marks. Digits are not
    marks here, because the caller decides how they count."""
    split = [(cell, _split_punctuated(cell)) for cell in cells]
    counts = Counter(as_mark(pair[0]) if pair else bare_mark(cell) for cell, pair in split)
    best: tuple[int, int, tuple[str, ...]] | None = None
    for series in SERIES:
        positions = [index for index, mark in enumerate(series) if counts[mark]]
        n = sum(counts[series[index]] for index in positions)
        # Of two series with the same marks, the marks of a file are the first ones.
        if n and (best is None or (n, -max(positions)) > best[:2]):
            best = (n, -max(positions), series)
    return best[2] if best else None
