"""Findings of `lint`: defects, cues of single items, and tests over all items.

In a single item, some option always differs, so a cue is a note. Over all items, the number of keys that have it is tested
in both directions. If m of the k options of an item have a cue, its key has it with probability m / k under the null.
"""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from string import ascii_uppercase
from typing import TYPE_CHECKING, Literal

from robustify.base.errors import counted
from robustify.items.item import Item, no_collector
from robustify.judging.lint.cues import Cue, SetTexts
from robustify.judging.lint.rules import CUES, DEFECTS, POSITION, RULES, LintRule
from robustify.reading.loaders.loaded import Loaded

if TYPE_CHECKING:
    from robustify.judging.lint.log_evidence import LintedLog

LEAST_EXCESS = 0.1
"""Smallest difference from the expected number of keys, as a share of the items whose options differ in the cue."""
_LEVEL, _MOST_NAMES = 0.05, 3
_PLACES = {code: place for place, code in enumerate(RULES)}
Severity = Literal["note", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of a rule on an item, or on all items if `item` is empty. The message contains no item text.

    `line` is 1 for all items of a file, and 0 for those of several files.
    """

    code: str
    severity: Severity
    path: str
    line: int
    item: str
    message: str

    @property
    def fix(self) -> str:
        """Advice on how to fix the finding."""
        if rule := RULES.get(self.code):
            return rule.fix
        from robustify.judging.lint.log_rules import LOG_RULES

        return LOG_RULES[self.code].fix


@dataclass(frozen=True, slots=True)
class CueMarks:
    """Marks of the options that have a cue: one byte for each option of all items. Those of item `i` are from
    `bounds[i]` to `bounds[i + 1]`, and `keys[i]` is the index of its key among them."""

    marks: bytes
    bounds: Sequence[int]
    keys: bytes

    @classmethod
    def joined(cls, sets: "Sequence[CueMarks]") -> "CueMarks":
        """Join the marks of several sets of items into one."""
        sizes = (end - start for own in sets for start, end in pairwise(own.bounds))
        marks, keys = (
            b"".join(parts) for parts in zip(*((own.marks, own.keys) for own in sets), strict=True)
        )
        return cls(marks, array("q", accumulate(sizes, initial=0)), keys)

    def __getitem__(self, index: int) -> bytes:
        """Return which options of an item have the cue."""
        return self.marks[self.bounds[index] : self.bounds[index + 1]]

    def __iter__(self) -> Iterator[bytes]:
        return (self.marks[start:end] for start, end in pairwise(self.bounds))


@dataclass(frozen=True, slots=True)
class KeysMarked:
    """Number of keys that have a cue, compared with the number expected by chance. Only the `n` items whose options
    differ in the cue count.

    `is_large` says whether the difference matters. If it does not, it is not tested.
    """

    keys: int
    n: int
    expected: float
    is_large: bool
    p: float = 1.0

    @property
    def is_more(self) -> bool:
        """Whether keys have the cue more often than expected."""
        return self.keys > self.expected


def marks_of(items: Sequence[Item], codes: Collection[str] = CUES.keys()) -> dict[str, CueMarks]:
    """Return, by rule code, which options of each item have the rule's cue."""
    keys = bytearray()
    choices, questions = list[Sequence[str]](), list[str]()
    for item in items:
        keys.append(item.key)
        choices.append(item.choices)
        questions.append(item.question or item.stem)
    texts, bounds = SetTexts(choices, questions), array("q", accumulate(map(len, choices), initial=0))
    return {
        code: CueMarks(cue.marks_among(texts), bounds, bytes(keys))
        for code, cue in CUES.items()
        if code in codes
    }


def keys_marked(marks: CueMarks | Sequence[bytes], keys: bytes, items: Sequence[Item]) -> KeysMarked:
    """Test whether keys are marked as often as other options. `marks` has one value per option of each item, and `keys` the
    index of its key. Items with the same texts count as one."""
    counts = Counter[tuple[int, int, int]]()
    for (own, key), of in Counter(zip(marks, keys, strict=True)).items():
        if 0 < sum(own) < len(own):
            counts[sum(own), len(own), own[key]] += of
    n, n_keys = counts.total(), sum(of * hit for (*_, hit), of in counts.items())
    expected = math.fsum(m / k for m, k, _ in counts.elements())
    if abs(n_keys - expected) < max(1.0, LEAST_EXCESS * n):
        return KeysMarked(n_keys, n, expected, is_large=False)
    import numpy as np

    from robustify.judging.baselines.heuristics import credit_p
    from robustify.judging.baselines.near_duplicates import equal_texts

    differ = {i: own for i, own in enumerate(marks) if 0 < sum(own) < len(own)}
    groups, size = equal_texts([items[i] for i in differ]), np.array([*map(len, differ.values())])
    more, marked = n_keys > expected, np.array([*map(sum, differ.values())])
    hit = marked if more else size - marked
    p = credit_p(n_keys if more else n - n_keys, np.ones_like(size), size, hit, groups)
    return KeysMarked(n_keys, n, expected, is_large=True, p=min(1.0, 2 * p))


def key_position(items: Sequence[Item]) -> tuple[str, KeysMarked] | None:
    """Describe and test the position that has too many keys (Bonferroni's correction). Return None if no position has."""
    keys, sizes = bytes(item.key for item in items), bytes(item.k for item in items)
    position, most = Counter(keys or (0,)).most_common(1)[0][0], max(sizes, default=0)
    marks = [bytes(i == position for i in range(k)) for k in range(most + 1)]
    tested = keys_marked([marks[k] for k in sizes], keys, items)
    share = f"{tested.keys:,} of {counted(tested.n, 'key')} are {ascii_uppercase[position]}"
    says = f"{share}, {tested.expected:.0f} expected by chance"
    return (says, tested) if tested.is_large and tested.is_more and most * tested.p <= _LEVEL else None


def cues_of(marks: Mapping[str, CueMarks], items: Sequence[Item]) -> dict[str, KeysMarked]:
    """Return, by rule code, the cues that keys have significantly more or less often than expected (Holm's correction)."""
    tested = {code: keys_marked(own, own.keys, items) for code, own in marks.items()}
    if not any(test.is_large for test in tested.values()):
        return {}
    from robustify.judging.stats.tests import holm

    corrected = dict(zip(tested, holm([test.p for test in tested.values()]), strict=True))
    # That keys are rarely the shortest option is said by how often they are the longest.
    reported = [c for c, test in tested.items() if test.is_large and (test.is_more or not CUES[c].ahead)]
    return {code: tested[code] for code in reported if corrected[code] <= _LEVEL}


@no_collector()
def findings(benches: Sequence[Loaded], codes: Collection[str]) -> list[Finding]:
    """Return the findings of these rules. Findings on several files come first, then the findings of each file."""
    if not benches:
        return []
    marks = [marks_of(bench.items) for bench in benches]
    all_items = benches[0].items if len(benches) == 1 else [item for bench in benches for item in bench.items]
    shared_cues = cues_of({code: CueMarks.joined([own[code] for own in marks]) for code in CUES}, all_items)
    listed = list(_whole(f"{len(benches)} files", 0, all_items, shared_cues)) if len(benches) > 1 else []
    for bench, own in zip(benches, marks, strict=True):
        cues = cues_of(own, bench.items) if len(benches) > 1 else shared_cues
        listed += [*_whole(bench.path, 1, bench.items, cues), *_single(bench, own, {**shared_cues, **cues})]
    return [finding for finding in listed if finding.code in codes]


def log_findings(logs: "Sequence[LintedLog]", codes: Collection[str]) -> list[Finding]:
    """Return the findings of the given rules about logs, sorted by file, with those about a whole log before those about
    items."""
    from robustify.judging.lint.log_rules import log_hits

    return [
        Finding(code, hit.severity, hit.path, hit.line, hit.item, hit.message)
        for code, hit in log_hits(logs, codes)
    ]


def _whole(path: str, line: int, items: Sequence[Item], cues: Mapping[str, KeysMarked]) -> Iterator[Finding]:
    if placed := key_position(items):
        yield Finding(POSITION, "warning", path, line, "", placed[0])
    for code, tested in sorted(cues.items(), key=lambda cue: -abs(cue[1].keys - cue[1].expected)):
        often = f"in {tested.keys:,} of {counted(tested.n, 'item')} whose options differ in this"
        names = _commonest(items, CUES[code], tested.is_more)
        says = f"the key {CUES[code].having} {often}, {tested.expected:,.0f} expected by chance{names}"
        yield Finding(code, "warning", path, line, "", says)


def _commonest(items: Sequence[Item], cue: Cue, of_keys: bool) -> str:
    """Describe the words or characters of a cue that are most common in keys (or in wrong options), with their counts."""
    if not cue.names_in:
        return ""
    texts = (c for item in items for i, c in enumerate(item.choices) if (i == item.key) == of_keys)
    counts = Counter(chain.from_iterable(map(cue.names_in, texts)))
    most = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:_MOST_NAMES]
    names, place = ", ".join(f"{name} in {n}" for name, n in most), "keys" if of_keys else "wrong options"
    return f" ({names} {place})" if most else ""


def _single(
    bench: Loaded, marks: Mapping[str, CueMarks], cues: Mapping[str, KeysMarked]
) -> Iterator[Finding]:
    """Yield the findings on single items in the order of the file. Findings with a significant cue are warnings."""
    defects = {(defect.item, DEFECTS[defect.kind]): defect.first for defect in bench.defects}
    hits, codes = set(_hits(marks, cues)), defaultdict[str, list[str]](list)
    for id, code in defects:
        codes[id].append(code)
    if defects:
        hits.update((row, code) for row, item in enumerate(bench.items) for code in codes.get(item.id, ()))
    for row, code in sorted(hits, key=lambda hit: (hit[0], _PLACES[hit[1]])):
        rule, item = RULES[code], bench.items[row]
        path = bench.path if len(bench.recognised) == 1 else bench.files[row]
        texts = (item.choices, item.key, marks[code][row] if rule.cue else [])
        says, significant = rule.cue.unlike("the key", *texts) if rule.cue else "", cues.get(code)
        if (id_code := (item.id, code)) in defects:
            message = (rule.details and rule.details(item.choices)) or says or rule.meaning
            message += f" (line {line})" if (line := defects[id_code]) else ""
            yield Finding(code, "warning", path, bench.lines[row], item.id, message)
        elif significant and significant.is_more == texts[2][item.key]:
            yield Finding(code, "warning", path, bench.lines[row], item.id, says)
        elif rule.cue and rule.cue.stands_out(*texts):
            yield Finding(code, "note", path, bench.lines[row], item.id, says)


def _hits(marks: Mapping[str, CueMarks], cues: Mapping[str, KeysMarked]) -> Iterator[tuple[int, str]]:
    """Yield the index of each item that may have a finding, with the code of the finding's rule."""
    for code, own in marks.items():
        if 1 in own.marks and not RULES[code].defect:
            is_hit = {
                pair: _is_hit(*pair, RULES[code], cues.get(code))
                for pair in set(zip(own, own.keys, strict=True))
            }
            yield from ((i, code) for i, pair in enumerate(zip(own, own.keys, strict=True)) if is_hit[pair])


def _is_hit(marks: bytes, key: int, rule: LintRule, significant: KeysMarked | None) -> bool:
    """Return whether the key differs from another option in a significant cue, or from all others in a notable cue."""
    differ, is_ahead = len(marks) - marks.count(marks[key]), bool(rule.cue and rule.cue.ahead)
    alone = rule.alone and (bool(marks[key]) if is_ahead else differ == len(marks) - 1)
    return differ > 0 and (alone or (significant is not None and significant.is_more == marks[key]))
