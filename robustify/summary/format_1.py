"""Reads `summary.json`: format 2, and format 1 (until version 0.1) with its former names and sentences.

What a file of format 1 lacks is null, and what only it holds is left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from robustify.errors import DataError
from robustify.summary.result import FORMAT, Summary

Tree = dict[str, Any]
RENAMED = (
    ("heuristics.*.*", "luck", "expected"),
    ("screen.independence", "unanimous_by_luck", "unanimous_by_chance"),
    ("accuracy.*.*.*", "told_from_chance", "significant"),
    ("residual", "held_out", "non_voters"),
    ("contamination.memorisation.*", "told", "significant"),
)
"""Where, the name in format 1, the name in format 2."""
FORMER = tuple(
    (where, "expected_false_flags", "expected_flags")
    for where in ("screen", "screen.by_place", "screen.d4_rule", "screen.d4_rule.by_place")
)
"""Names that files of format 1 and early ones of format 2 have: it was never a count of clean items lost."""
SENTENCES = (
    "benchmark.key_places.sentence", "screen.sentence", "position_bias.*.sentence", "residual.reasons.*",
    "label_noise.reason", "contamination.sentence", "guardrails.*.reason", "certificate.reasons.*",
    "certificate.sentence",
)  # fmt: skip
"""Sentences of format 1, codes with parameters in format 2."""
GATHERED = (
    ("topics", "by_topic", ("kl_nats", "kl_null", "p")),
    ("permutation", "by_model", ("cloze_invariance",)),
)
"""Parts in which names of topics or models stood beside fixed ones."""
GROUP_NAMES = {
    "luck": "chance", "luck, places known": "chance, positions known", "cues": "surface features",
}  # fmt: skip


def read(tree: object) -> Summary:
    """The summary in a tree of `summary.json`.

    Raises:
        DataError: another format, or a tree that is no summary.
    """
    if not isinstance(tree, Mapping):
        raise DataError(f"summary.json: a {type(tree).__name__}; expected an object of format 1 or {FORMAT}")
    try:
        match tree.get("format"):
            case 1:
                return Summary.model_validate(from_format_1(tree), extra="ignore")
            case 2:
                current = _copied(tree)
                _renewed(current)
                return Summary.model_validate(current)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(f"summary.json: {where}: {first['type']} ({error.error_count()} faults)") from None
    raise DataError(f"summary.json: format {tree.get('format')!r}; expected 1 or {FORMAT}")


def from_format_1(tree: Mapping[str, Any]) -> Tree:
    """A tree of format 1 as one of format 2."""
    out: Tree = {**_without_empty_ends(tree), "format": FORMAT}
    _rename(out, RENAMED)
    _renewed(out)
    _each(out, SENTENCES, lambda text: {"code": "sentence", "text": text} if isinstance(text, str) else None)
    for name, gathered, fixed in GATHERED:
        part = out.get(name)
        if isinstance(part, dict):
            rows = {key: row for key, row in part.items() if key not in fixed}
            out[name] = {gathered: rows, **{key: part[key] for key in fixed if key in part}}
    _each(out, ("release.coarser.*", "release.withheld.*"), lambda group: GROUP_NAMES.get(group, group))
    return out


def _renewed(tree: Tree) -> None:
    """Both formats: former names, and no number of draws of random removal, which is exact."""
    _rename(tree, FORMER)
    for row in _at(tree, "random_removal.*"):
        if isinstance(row, dict):
            row.pop("draws", None)


def _rename(tree: Tree, names: Sequence[tuple[str, str, str]]) -> None:
    for where, old, new in names:
        for node in _at(tree, where):
            if isinstance(node, dict) and old in node:
                node[new] = node.pop(old)


def _copied(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {name: _copied(one) for name, one in node.items()}
    return [_copied(one) for one in node] if isinstance(node, list) else node


def _without_empty_ends(node: Any) -> Any:
    """A copy in which a list of nothing but nulls, as a release left of an interval that it withheld, is null."""
    if isinstance(node, Mapping):
        return {name: _without_empty_ends(one) for name, one in node.items()}
    if isinstance(node, list):
        return (
            None if node and all(one is None for one in node) else [_without_empty_ends(one) for one in node]
        )
    return node


def _each(tree: Tree, paths: tuple[str, ...], change: Callable[[Any], Any]) -> None:
    """Replace every value at these paths by what `change` makes of it."""
    for path in paths:
        where, _, last = path.rpartition(".")
        for node in _at(tree, where):
            for name in _names(node, last):
                node[name] = change(node[name])


def _at(tree: Any, path: str) -> Iterator[Any]:
    """The nodes at a path; `*` is every entry of a mapping or list."""
    step, _, rest = path.partition(".")
    for name in _names(tree, step):
        yield from _at(tree[name], rest) if rest else (tree[name],)


def _names(node: Any, step: str) -> list[Any]:
    if isinstance(node, dict):
        return list(node) if step == "*" else [step] * (step in node)
    return list(range(len(node))) if isinstance(node, list) and step == "*" else []
