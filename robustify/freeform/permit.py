"""Restricted sets in free response: permission to read and write rows, and what may be shown of them.

Every command asks for permission before a model or a judge is opened. Rows that are labelled public are checked by their
content. Shown are counts of k or more and whole percents, and no rate of none or all, from a list of places. Where a part
is too small, the parts beside it are withheld too, so that nothing follows by subtraction.
"""

import contextlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robustify.disclosure.coarse import FINEST, one_digit_up, plain_rate, rounded, withheld
from robustify.errors import AuthorisationError, ItemError
from robustify.freeform.schema import FreeItem, GradeResult
from robustify.item import MOST, Item
from robustify.restricted.access import Access, admitted
from robustify.restricted.adapters import find_adapter
from robustify.restricted.confinement import confined
from robustify.restricted.ids import item_id
from robustify.restricted.recognition import require_ordinary_files

MIN_CELL = 10
"""The smallest count that is shown, where no manifest says another."""
_SETTINGS = ("format", "repeats")
_OTHER = "another text"


@dataclass(frozen=True, slots=True)
class Permit:
    """Permission for the rows of one set, and what may be shown of them: of a public set everything, as it is.

    `min_cell` is the smallest count that is shown, `seal` the subkey for digests of a restricted set's text.
    """

    adapter: str = ""
    min_cell: int = MIN_CELL
    seal: bytes | None = field(default=None, repr=False)

    @property
    def restricted(self) -> bool:
        """Whether the set is restricted."""
        return self.seal is not None

    def share(self, x: float, n: int) -> float | None:
        """A share of n."""
        return share(x, n, self.min_cell) if self.restricted else x

    def prepared(self, counts: dict[str, Any]) -> dict[str, Any]:
        """How many items can be asked without options, and why the others cannot."""
        return prepared(counts, self.min_cell) if self.restricted else counts

    def result(self, tree: Any) -> Any:
        """Any other result."""
        return coarse(tree, self.min_cell) if self.restricted else tree


@contextlib.contextmanager
def permitted(
    items: Sequence[FreeItem], files: Sequence[Path], folder: Path, grades: Sequence[GradeResult] = ()
) -> Iterator[Permit]:
    """Permission to read these rows, which come from `files`, and to write into `folder`.

    Inside, a restricted set's process is `confined`.

    Raises:
        AuthorisationError: rows of several sets, a restricted set without one of its four facts, items that are not
            that set's under this key, or a public label on content that is recognised as sensitive.
    """
    labels = {(i.restricted, i.adapter) for i in items} | {(g.restricted, g.adapter) for g in grades}
    if len(labels) > 1:
        raise AuthorisationError(f"rows: of {len(labels)} sets or labels; expected those of one set alone")
    restricted, adapter = next(iter(labels), (False, ""))
    if not restricted:
        require_ordinary_files("items", list(map(_as_item, items)), files)
        yield Permit()
        return
    access = admitted(adapter or "free", find_adapter(adapter) if adapter else None, folder)
    _require_its_own(items, access)
    with inside(access, folder) as permit:
        yield permit


@contextlib.contextmanager
def inside(access: Access | None, folder: Path) -> Iterator[Permit]:
    """A confined process for a restricted set, which may write into `folder`; of a public one the process as it is."""
    if access is None:
        yield Permit()
        return
    with confined(folder):
        yield Permit(access.manifest.id, access.manifest.min_cell, access.key.derived("free"))


def _require_its_own(items: Sequence[FreeItem], access: Access) -> None:
    manifest, key = access.manifest, access.key.derived("ids")

    def own(item: FreeItem) -> bool:
        try:
            expected = item_id(key, manifest.id, manifest.version, item.question, item.options)
        except ItemError:
            return False
        return hmac.compare_digest(expected.encode(), item.id.encode("utf-8", "surrogatepass"))

    other = sum(not own(item) for item in items)
    if other:
        raise AuthorisationError(
            f"{manifest.id}: {other} of {len(items)} items do not have the ids of this set under the key {access.key_id}; "
            "expected the file of `robustify free prepare`, unchanged, and the key it was made with"
        )


def _as_item(item: FreeItem) -> Item:
    """As the detection reads it. An item that never had options gets its reference and a neutral text."""
    choices = item.options if 2 <= len(item.options) <= MOST else (item.reference, _OTHER)
    return Item(item.id, item.question, choices, 0)


# What is shown


def cell(n: int, k: int) -> int | str:
    """A count, or "< k"."""
    return n if n == 0 or n >= k else f"< {k}"


def share(x: float, n: int, k: int) -> float | None:
    """A share of n in whole percents; None where n is small."""
    return rounded(x, FINEST) if n >= k else None


def cells(counts: Mapping[str, int], k: int) -> dict[str, int] | None:
    """The counts of the parts of a whole; None where one of them is too small to be shown."""
    return None if any(0 < n < k for n in counts.values()) else dict(counts)


def prepared(counts: Mapping[str, Any], k: int) -> dict[str, Any]:
    """The counts of `questions.exclusions` without topics: items that can be asked, by kind, and others, by reason."""
    n, asked = counts["n"], counts["asked"]
    large = cells({"asked": asked, "excluded": n - asked}, k) is not None
    return {
        "n": cell(n, k),
        "asked": asked if large else None,
        "kinds": cells(counts["kinds"], k) if large else None,
        "excluded": cells(counts["excluded"], k) if large else None,
    }


def few_rate(node: Mapping[str, Any], k: int) -> dict[str, Any]:
    """A rate in whole percents; withheld where fewer than k are counted, or fewer than k are right or wrong."""
    value, n = node.get("value"), node.get("n")
    if isinstance(value, int | float) and isinstance(n, int) and n >= k and min(value * n, n - value * n) < k:
        return withheld(f"< {k} right or wrong")
    return plain_rate(node, k)


def summary_to_show(summary: Mapping[str, Any], k: int) -> dict[str, Any]:
    """The summary of `report.summarise`, as far as it may be shown of a restricted set."""
    models = {name: _model(entry, k) for name, entry in summary["models"].items()}
    against = summary["against_base"]

    def pairs(model: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        # With one model's rate and the difference, the other's would be known.
        hidden = {
            kind
            for kind in entry["kinds"]
            for name in (model, against["base"])
            if models[name]["kinds"].get(kind, {}).get("lower") is None
        }
        return {kind: _pair(pair, kind in hidden, k) for kind, pair in entry["kinds"].items()}

    calibration = {
        name: part if name == "status" else part and coarse(part, k)
        for name, part in summary["calibration"].items()
        if name in ("status", "verdicts", "nuggets")
    }
    compared = {
        n: {"kinds": pairs(n, e), "topics": {}} for n, e in (against or {"models": {}})["models"].items()
    }
    return {
        "format": summary["format"], "restricted": True, "min_cell": k, "n_items": cell(summary["n_items"], k),
        "models": models,
        "calibration": calibration, "against_base": against and {"base": against["base"], "models": compared},
    }  # fmt: skip


def _model(entry: Mapping[str, Any], k: int) -> dict[str, Any]:
    kinds = {name: _part(part, k) for name, part in entry["kinds"].items()}
    # One kind that is left out is the whole less the others.
    small = any(part["lower"] is None for part in kinds.values())
    return {
        "kinds": {} if small else kinds, "topics": {}, "all": _part(entry["all"], k),
        "statuses": cells(entry["all"]["statuses"], k), "judges": entry["judges"], "templates": entry["templates"],
        "self_judging": cell(entry["self_judging"], k),
    }  # fmt: skip


def _part(part: Mapping[str, Any], k: int) -> dict[str, Any]:
    given, by_judge = part["accuracy"], part["by_judge"]
    scored, low = given["n"], given.get("withheld")
    # Where coverage is low the rate is not given, but what the bounds reveal is the same.
    known = (
        part["lower"] * part["n"] / scored if low and scored and part["lower"] is not None else given["value"]
    )
    accuracy = few_rate({**given, "value": known}, k)
    shown = accuracy["value"] is not None
    # That a judge decided none or all of the answers says nothing of what was right.
    all_or_none = by_judge.get("value") in (0, 1, None)
    return {
        "n": cell(part["n"], k),
        "accuracy": withheld(low) if low and (shown or part["lower"] is None) else accuracy,
        **{name: _step(part[name]) if shown else None for name in ("lower", "upper")},
        "coverage": plain_rate(part["coverage"], k),
        "by_judge": plain_rate(by_judge, k) if all_or_none else few_rate(by_judge, k),
    }


def _pair(entry: Mapping[str, Any], hidden: bool, k: int) -> dict[str, Any]:
    small = hidden or entry["n_both"] < k
    few = small or min(entry["gained"], entry["lost"]) < k
    difference = withheld("a rate of one of them") if hidden else plain_rate(entry["difference"], k)
    return {
        "n_both": cell(entry["n_both"], k), "difference": difference,
        **{name: None if small else _step(entry[name]) for name in ("lower", "upper")},
        **{name: None if few else entry[name] for name in ("gained", "lost")},
        **{name: None if small or (p := entry[name]) is None else one_digit_up(p) for name in ("p", "p_holm")},
    }  # fmt: skip


def _agreement(part: Mapping[str, Any], k: int) -> dict[str, Any]:
    """How far judge and people agree, without the table of their words."""
    large = part["n"] >= k and all(n >= k for row in part["confusion"] for n in row)
    corrected = part.get("corrected_rate")
    return {
        "n": cell(part["n"], k),
        "doubt": part["doubt"],
        "base_rates": {"first": {}},
        "raw": few_rate(part["raw"], k),
        "kappa": plain_rate(part["kappa"], k) if large else withheld(f"< {k} in a cell"),
        "n_judge_unread": cell(part.get("n_judge_unread", 0), k),
        "corrected_rate": few_rate(corrected, k) if large and corrected else None,
    }


def coarse(node: Any, k: int) -> Any:
    """Any other result: small counts as "< k", everything else in whole percents.

    Its rates are of a judge's words, not of what a model knows: none and all may be shown, on k or more.
    """
    match node:
        case Mapping() if "confusion" in node:
            return _agreement(node, k)
        case Mapping() if {"value", "n"} <= node.keys():
            return plain_rate(node, k)
        case Mapping():
            return {name: x if name in _SETTINGS else coarse(x, k) for name, x in node.items()}
        case list() | tuple():
            return [coarse(x, k) for x in node]
        case bool():
            return node
        case int():
            return cell(node, k)
        case _:
            return _step(node) if isinstance(node, float) else node


def _step(x: Any) -> float | None:
    return rounded(x, FINEST) if isinstance(x, int | float) else None
