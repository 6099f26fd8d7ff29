"""Findings of `lint`: defects, cues of single items, and tests over all items.

In a single item, some option always differs, so a cue is a note. Over all items, the number of keys that have it is tested
in both directions. If m of the k options of an item have a cue, its key has it with probability m / k under the null.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from string import ascii_uppercase
from typing import TYPE_CHECKING, Literal

from robustify.base.errors import counted
from robustify.items.item import Item
from robustify.judging.lint.cues import Cue
from robustify.judging.lint.rules import CUES, DEFECTS, POSITION, RULES
from robustify.reading.loaders.loaded import Loaded

if TYPE_CHECKING:
    from robustify.judging.lint.log_evidence import LintedLog

LEAST_EXCESS = 0.1
"""Smallest difference from the expected number of keys, as a share of the items whose options differ in the cue."""
_LEVEL, _MOST_NAMES = 0.05, 3
Severity = Literal["note", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of a rule on an item, or on all items if `item` is empty. The message has no text of an item.

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
        """What to do about the finding."""
        if rule := RULES.get(self.code):
            return rule.fix
        from robustify.judging.lint.log_rules import LOG_RULES

        return LOG_RULES[self.code].fix


@dataclass(frozen=True, slots=True)
class KeysMarked:
    """How many keys have a cue, compared with the number expected by chance. Only the `n` items whose options
    differ in it count.

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


def keys_marked(marks: Sequence[Sequence[bool]], items: Sequence[Item]) -> KeysMarked:
    """Test whether keys are marked as often as other options. `marks` has one value per option of each item. Items with
    the same texts count as one."""
    marked_items = zip(marks, items, strict=True)
    counts = Counter(
        (sum(own), len(own), own[item.key]) for own, item in marked_items if 0 < sum(own) < len(own)
    )
    n, n_keys = counts.total(), sum(of * hit for (*_, hit), of in counts.items())
    expected = math.fsum(m / k for m, k, _ in counts.elements())
    if abs(n_keys - expected) < max(1.0, LEAST_EXCESS * n):
        return KeysMarked(n_keys, n, expected, is_large=False)
    import numpy as np

    from robustify.judging.baselines.heuristics import credit_p
    from robustify.judging.baselines.near_duplicates import equal_texts

    rows = [i for i, own in enumerate(marks) if 0 < sum(own) < len(own)]
    groups, size = equal_texts([items[i] for i in rows]), np.array([len(marks[i]) for i in rows])
    more, marked = n_keys > expected, np.array([sum(marks[i]) for i in rows])
    hit = marked if more else size - marked
    p = credit_p(n_keys if more else n - n_keys, np.ones_like(size), size, hit, groups)
    return KeysMarked(n_keys, n, expected, is_large=True, p=min(1.0, 2 * p))


def key_position(items: Sequence[Item]) -> tuple[str, KeysMarked] | None:
    """Describe and test the position that has too many keys, or return None if there is none (Bonferroni's correction)."""
    pairs = Counter((item.key, item.k) for item in items)
    position = Counter(key for key, _ in pairs.elements()).most_common(1)[0][0] if pairs else 0
    most = max((k for _, k in pairs), default=0)
    marks = {k: [i == position for i in range(k)] for _, k in pairs}
    tested = keys_marked([marks[item.k] for item in items], items)
    share = f"{tested.keys:,} of {counted(tested.n, 'key')} are {ascii_uppercase[position]}"
    says = f"{share}, {tested.expected:.0f} expected by chance"
    return (says, tested) if tested.is_large and tested.is_more and most * tested.p <= _LEVEL else None


def marks_of(items: Sequence[Item], codes: Collection[str] = CUES.keys()) -> dict[str, list[Sequence[bool]]]:
    """Return, for the code of each rule, which options of each item have the rule's cue."""
    texts = [(item.choices, item.question or item.stem) for item in items]
    chosen = {code: cue for code, cue in CUES.items() if code in codes}
    # Item by item, because several cues read the same words.
    rows = [[cue.marks(*item_texts) for cue in chosen.values()] for item_texts in texts]
    by_code = {code: [row[column] for row in rows] for column, code in enumerate(chosen)}
    return by_code | {code: cue.among(texts) for code, cue in chosen.items() if cue.among}


def cues_of(marks: Mapping[str, Sequence[Sequence[bool]]], items: Sequence[Item]) -> dict[str, KeysMarked]:
    """Return, by code, the cues that keys have significantly more or less often than expected (Holm's correction)."""
    tested = {code: keys_marked(own, items) for code, own in marks.items()}
    if not any(test.is_large for test in tested.values()):
        return {}
    from robustify.judging.stats.tests import holm

    corrected = dict(zip(tested, holm([test.p for test in tested.values()]), strict=True))
    # That keys are rarely the shortest option is said by how often they are the longest.
    reported = [c for c, test in tested.items() if test.is_large and (test.is_more or not CUES[c].ahead)]
    return {code: tested[code] for code in reported if corrected[code] <= _LEVEL}


def findings(benches: Sequence[Loaded], codes: Collection[str]) -> list[Finding]:
    """Return the findings of the given rules, first those about several files together, then those of each file."""
    marks = [marks_of(bench.items) for bench in benches]
    all_items = [item for bench in benches for item in bench.items]
    shared_cues = cues_of({code: [m for own in marks for m in own[code]] for code in CUES}, all_items)
    listed = list(_whole(f"{len(benches)} files", 0, all_items, shared_cues)) if len(benches) > 1 else []
    for bench, own in zip(benches, marks, strict=True):
        cues = cues_of(own, bench.items) if len(benches) > 1 else shared_cues
        listed += [*_whole(bench.path, 1, bench.items, cues), *_single(bench, own, {**shared_cues, **cues})]
    return [finding for finding in listed if finding.code in codes]


def log_findings(logs: "Sequence[LintedLog]", codes: Collection[str]) -> list[Finding]:
    """Return the findings of the given rules about logs, by file and then by code."""
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
    """Describe the words or characters that commonly make a cue of keys, or of wrong options, with their counts."""
    if not cue.names_in:
        return ""
    texts = (c for item in items for i, c in enumerate(item.choices) if (i == item.key) == of_keys)
    counts = Counter(chain.from_iterable(map(cue.names_in, texts)))
    most = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:_MOST_NAMES]
    names, place = ", ".join(f"{name} in {n}" for name, n in most), "keys" if of_keys else "wrong options"
    return f" ({names} {place})" if most else ""


def _single(
    bench: Loaded, marks: Mapping[str, Sequence[Sequence[bool]]], cues: Mapping[str, KeysMarked]
) -> Iterator[Finding]:
    """Yield the findings of single items in the order of the file. Those of a significant cue are warnings."""
    defects = {(defect.item, DEFECTS[defect.kind]): defect.first for defect in bench.defects}
    for row, item in enumerate(bench.items):
        path = bench.path if len(bench.recognised) == 1 else bench.files[row]
        for code, rule in RULES.items():
            own: Sequence[bool] = marks[code][row] if rule.cue else ()
            texts, significant = (item.choices, item.key, own), cues.get(code)
            says = rule.cue.unlike("the key", *texts) if rule.cue and own else ""
            if (item.id, code) in defects:
                message = (rule.details and rule.details(item.choices)) or says or rule.meaning
                message += f" (line {line})" if (line := defects[item.id, code]) else ""
                yield Finding(code, "warning", path, bench.lines[row], item.id, message)
            elif rule.cue and says and not rule.defect:
                if significant and significant.is_more == own[item.key]:
                    yield Finding(code, "warning", path, bench.lines[row], item.id, says)
                elif rule.alone and rule.cue.stands_out(*texts):
                    yield Finding(code, "note", path, bench.lines[row], item.id, says)
