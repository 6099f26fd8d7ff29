"""What releases about the same items reveal together and none of them alone.

A reader of two releases can subtract them. Items that all releases count in the same cells form a *part*: sums and
differences of counts say how many items of a part were flagged, and never which. A release is compared with all
earlier ones that share items with it, whatever their set and version are called, and must not

1. cut out a part of fewer than k items, or one of which fewer than k or all but fewer than k are counted;
2. with its numbers and theirs exceed the bit budget of the parts (`coarse.available`);
3. as a list, cut fewer than k ids out of the lists of the same set and version (`apart`).

The attacker is granted the counts of every part, and that the flags of shared items did not change.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from robustify.disclosure.coarse import TopicBlock, available
from robustify.errors import AuthorisationError, DataError
from robustify.restricted.ids import NAMES, Split

SUMMARY = "summary"
UNKNOWN = "unknown"
"""The verdict of the items beside a list whose run is not here."""


@dataclass(frozen=True, slots=True)
class VerdictCell:
    """Items that a release counts together: keyed digests by verdict."""

    name: str
    digests: Mapping[str, tuple[str, ...]]

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each digest."""
        return {digest: verdict for verdict, found in self.digests.items() for digest in found}


@dataclass(frozen=True, slots=True)
class Release:
    """One publication: a summary, counted by cells, or a list (its name), whose one cell is the set.

    `content` is a keyed digest of what is published, `bits` what its numbers can reveal at most.
    """

    what: str
    dataset: str
    version: str
    content: str
    bits: float
    cells: tuple[VerdictCell, ...]

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each digest of all cells."""
        return {digest: verdict for cell in self.cells for digest, verdict in cell.verdicts.items()}

    @property
    def listed(self) -> frozenset[str]:
        """The digests of a list; none of a summary."""
        return frozenset(digest for cell in self.cells for digest in cell.digests.get(self.what, ()))

    @property
    def n(self) -> int:
        """All items."""
        return sum(len(found) for cell in self.cells for found in cell.digests.values())

    def is_again(self, new: "Release") -> bool:
        """Whether `new` publishes the same. The ids of a list are others in another set or version."""
        named = new.what == SUMMARY or (self.dataset, self.version) == (new.dataset, new.version)
        return named and self.content == new.content

    def under(self, other: Mapping[str, str], version: str) -> "Release":
        """The same with these digests in the place of its own, where there are others; ids of this version."""
        cells = (
            VerdictCell(
                cell.name, {v: tuple(other.get(d, d) for d in found) for v, found in cell.digests.items()}
            )
            for cell in self.cells
        )
        return replace(self, version=version, cells=tuple(cells))

    def places(self, verdict: str) -> dict[str, int]:
        """The cell of each digest where this release counts items of this verdict; else nothing.

        A summary shows the robust items by cell and the shortcuts of the whole set.
        """
        if self.what == SUMMARY and verdict == "robust":
            return {digest: i for i, cell in enumerate(self.cells) for digest in cell.verdicts}
        counted = "shortcut" if self.what == SUMMARY else self.what
        return dict.fromkeys(self.verdicts, 0) if verdict == counted else {}


def cells_of(parts: Sequence[TopicBlock], rows: Iterable[tuple[str, str, str]]) -> tuple[VerdictCell, ...]:
    """The cells of a summary that shows these topics, from (topic, verdict, digest) of every item."""
    block = {topic: i for i, part in enumerate(parts) for topic in part.topics}
    found: list[dict[str, list[str]]] = [defaultdict(list) for _ in parts]
    for topic, verdict, digest in rows:
        found[block.get(topic, 0)][verdict].append(digest)
    return tuple(_cell(part.name, one) for part, one in zip(parts, found, strict=True))


def as_one(cells: Iterable[VerdictCell]) -> tuple[VerdictCell, ...]:
    """All cells as one: what a list counts."""
    found: dict[str, list[str]] = defaultdict(list)
    for cell in cells:
        for verdict, digests in cell.digests.items():
            found[verdict] += digests
    return (_cell("all", found),)


def _cell(name: str, found: Mapping[str, Iterable[str]]) -> VerdictCell:
    return VerdictCell(name, {verdict: tuple(sorted(digests)) for verdict, digests in sorted(found.items())})


def revealed(new: Release, earlier: Sequence[Release], k: int) -> str | None:
    """Why this release must not be published beside the earlier ones; None where it may."""
    mine = new.verdicts
    related = [one for one in earlier if not mine.keys().isdisjoint(one.verdicts)]
    if not related:
        return None
    for verdict in NAMES:
        if any(_few(part, verdict, [new, *related], k) for part in _cut(verdict, new, related)):
            return f"cuts out a part of fewer than {k} items, or one with fewer than {k} {verdict} or other items"
    lists = [one.listed for one in related if (one.dataset, one.version) == (new.dataset, new.version)]
    if new.listed and not apart(new.listed, [found for found in lists if found], k):
        return f"cuts a part of fewer than {k} ids out of the lists, or they out of it"
    counts = _bits_of_counts(new, related)
    if new.bits + counts == 0:
        return None
    spent, bits = new.bits + counts + sum(one.bits for one in related), _budget(new, related)
    if spent > bits:
        return f"exceeds the bit budget, which holds for all releases together ({math.ceil(spent)} of {int(bits)} bits)"
    return None


def _cut(verdict: str, new: Release, related: Sequence[Release]) -> Iterator[Sequence[str]]:
    """The parts that are not parts of the earlier releases alone, of those that count this verdict."""
    mine, *others = (one.places(verdict) for one in (new, *related))
    others = [places for places in others if places]
    if not mine or not others:
        return
    parts: dict[tuple[int | None, ...], list[str]] = defaultdict(list)
    for digest in mine.keys() | set().union(*others):
        parts[(mine.get(digest), *(places.get(digest) for places in others))].append(digest)
    whole = Counter({at[1:]: 0 for at in parts})
    for at, part in parts.items():
        whole[at[1:]] += len(part)
    for at, part in parts.items():
        if len(part) < whole[at[1:]] or not any(place is not None for place in at[1:]):
            yield part


def _few(part: Sequence[str], verdict: str, releases: Sequence[Release], k: int) -> bool:
    if len(part) < k:
        return True
    for one in releases:
        of = one.verdicts
        if one.places(verdict) and part[0] in of:
            counted = sum(of[digest] == verdict for digest in part)
            if min(counted, len(part) - counted) < k:
                return True
    return False


def _bits_of_counts(new: Release, related: Sequence[Release]) -> float:
    """Counts of other flags than those of an earlier release are numbers about them."""
    mine = new.verdicts
    if any(
        all(of.get(digest) == verdict for digest, verdict in mine.items())
        for of in (one.verdicts for one in related)
    ):
        return 0.0
    return sum(math.log2(1 + len(cell.verdicts)) for cell in new.cells)


def _budget(new: Release, related: Sequence[Release]) -> float:
    """The bits of the parts into which all releases together divide the items of the new one."""
    tables = [one.places("robust") for one in (new, *related)]
    parts: dict[tuple[int | None, ...], list[str]] = defaultdict(list)
    for digest, verdict in new.verdicts.items():
        parts[tuple(places.get(digest) for places in tables)].append(verdict)
    return available((len(part), part.count("robust")) for part in parts.values())


def apart(new: Set[str], earlier: Sequence[Set[str]], k: int) -> bool:
    """Whether no part that a list cuts out of earlier ones, or they out of it, has 1 to k - 1 ids.

    Under one key any lists can be intersected and subtracted, whatever they are called. What the earlier ones cut out
    of each other is known already, and is no fault of this one.
    """
    parts = Counter((i in new, *(i in ids for ids in earlier)) for i in set(new).union(*earlier))
    cut = [n for at, n in parts.items() if parts[(not at[0], *at[1:])] or not any(at[1:])]
    pairs = [n for ids in earlier for n in (len(new & ids), len(new - ids), len(ids - new))]
    return not any(0 < n < k for n in (*cut, *pairs))


def require_apart(split: Split, earlier: Sequence[Split], k: int) -> None:
    """Refuse a list that, with those in these files, cuts out so few items that it describes single ones.

    Raises:
        DataError: a list of another set, version or key, which cannot be compared.
        AuthorisationError: a part that is too small.
    """
    for previous in earlier:
        same = (previous.dataset, previous.version, previous.key_id)
        if (split.dataset, split.version, split.key_id) != same:
            raise DataError(
                f"--previous: is of {previous.dataset} version {previous.version} under key {previous.key_id}; expected "
                f"{split.dataset} version {split.version} under key {split.key_id}"
            )
    if not apart(set(split.ids), [set(one.ids) for one in earlier], k):
        raise AuthorisationError(
            f"split {split.name}: with the earlier releases it cuts out a part of fewer than {k} items, which "
            "describes single items; keep the earlier releases, or publish under another key"
        )
