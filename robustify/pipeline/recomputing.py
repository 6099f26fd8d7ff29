"""Judge a run's answers again, and compare every number and file with the stored ones."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from tempfile import TemporaryDirectory

from robustify.base.errors import DataError, Notice, counted
from robustify.pipeline.steps import rejudge
from robustify.runs.run import Run

Leaf = str | float | bool | None
SUMMARY = "summary.json"
_MISSING = "nothing"
_CLOSE = 1e-6
"""Largest relative difference of two numbers that another processor or library may cause."""


@dataclass(frozen=True, slots=True)
class OtherValue:
    """Value of `summary.json` whose recomputed value differs from the stored one, at the dotted `path`."""

    path: str
    stored: Leaf
    computed: Leaf


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Result of judging a run's answers again. Files other than `summary.json` are compared except for the last digits of
    their numbers. `n_files` is None if they were not compared, because `other_versions` of robustify or libraries, which
    may use other words, wrote them."""

    n_values: int
    n_files: int | None
    values: tuple[OtherValue, ...]
    files: tuple[str, ...]
    other_versions: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether every compared number and file equals the recomputed one."""
        return not self.values and not self.files


def recomputed(run: Run) -> Recomputed:
    """Judge the answers of a run again by its own rules, in a temporary folder. Raise the errors of `rejudge`."""
    with TemporaryDirectory(prefix="robustify-") as place:
        again = rejudge(run, {}, Path(place) / run.folder.resolve().name)
        first, second = run.manifest, again.manifest
        old, new = (judged.manifest.get("versions", {}) for judged in (run, again))
        other_versions = tuple(name for name in {**new, **old} if old.get(name) != new.get(name))
        same = not other_versions
        # Reading a summary drops what another version may have added.
        trees = (
            json.loads((judged.folder / SUMMARY).read_text(encoding="utf-8"))
            if same
            else judged.summary.tree()
            for judged in (run, again)
        )
        stored, computed = (dict(_leaves(tree)) for tree in trees)
        names = sorted({*first["files"], *second["files"]} - {SUMMARY}) if same else []
        digests = ((name, first["files"].get(name), second["files"].get(name)) for name in names)
        files = tuple(
            name for name, x, y in digests
            if x != y and not (x and y and _same_text(run.folder / name, again.folder / name))
        )  # fmt: skip
    for leaves in () if same else (stored, computed):
        leaves.pop("signature", None)  # names the version
    values = (
        OtherValue(path, stored.get(path, _MISSING), computed.get(path, _MISSING))
        for path in {**stored, **computed}
        if not (path in stored and path in computed and _alike(stored[path], computed[path]))
    )
    return Recomputed(len(stored), len(names) if same else None, tuple(values), files, other_versions)


_MOST_DIFFERENCES = 5
"""Most differing values and files that are named."""


def require_as_computed(run: Run) -> Recomputed:
    """Judge a run's answers again. Raise `DataError` if a stored number or file differs from the recomputed one."""
    result, code = recomputed(run), "not-as-computed"
    if result.agrees:
        return result
    lines = [
        Notice(
            f"{run.folder}: summary.json has {value.stored} at {value.path}, but the answers give {value.computed}",
            code=code,
        )
        for value in result.values[:_MOST_DIFFERENCES]
    ]
    lines += [
        Notice(f"{run.folder}: {name} differs from what the answers give", code=code)
        for name in result.files[:_MOST_DIFFERENCES]
    ]
    advice = Notice(
        f"{run.folder}: {counted(len(result.values), 'value')} and {counted(len(result.files), 'file')} differ. "
        "Quote only what `robustify judge RUN -o NEW` writes.",
        code=code,
    )
    raise DataError(*lines, advice)


def _leaves(tree: object, path: str = "") -> Iterator[tuple[str, Leaf]]:
    """Yield the values in a JSON tree, with their dotted paths."""
    match tree:
        case Mapping() | list() | tuple() if not tree:
            yield path, "empty"
        case Mapping():
            for name, part in tree.items():
                yield from _leaves(part, f"{path}.{name}" if path else str(name))
        case list() | tuple():
            for place, part in enumerate(tree):
                yield from _leaves(part, f"{path}.{place}")
        case str() | float() | int() | None:
            yield path, tree


_FRACTION = re.compile(r"(-?\d+\.\d+(?:e-?\d+)?)")


def _same_text(first: Path, second: Path) -> bool:
    """Return whether two text files are equal, or differ only in the last digits of fractions."""
    try:
        parts = [_FRACTION.split(path.read_text(encoding="utf-8")) for path in (first, second)]
    except UnicodeDecodeError:
        return False
    x, y = parts
    return (
        len(x) == len(y)
        and x[::2] == y[::2]
        and all(_alike(float(a), float(b)) for a, b in zip(x[1::2], y[1::2], strict=True))
    )


def _alike(x: Leaf, y: Leaf) -> bool:
    """Return whether two values are equal, or are fractions that differ only in the last digits."""
    if isinstance(x, int) or isinstance(y, int):
        return x == y and isinstance(x, bool) == isinstance(y, bool)
    if isinstance(x, float) and isinstance(y, float):
        return isclose(x, y, rel_tol=_CLOSE, abs_tol=_CLOSE)
    return x == y
