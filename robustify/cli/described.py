"""What `validate` and `heuristics` say of a file in words: the verdict first, then what it rests on.

Everything here is made from counts, ids and names of columns; a text of an item is printed by `explained_lines` alone.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from robustify.errors import counted
from robustify.loaders.rows import line_spans

ABOVE = 0.05
"""A rule whose corrected p is at most this is starred."""
_LISTED = 5
_FORMS = {"label": "labels of the options", "letter": "letters", "text": "an option's text"}
_DEFECTS = {
    "repeated_choice": "two options are the same",
    "repeated_key_text": "another option has the key's text",
    "empty_choice": "an option is empty",
    "blank_stem": "the question is blank",
    "control_character": "control characters in the text",
    "repeated_stem": "an earlier item has this question",
    "conflicting_key": "the same item with another key",
}


def survey_lines(tree: Mapping[str, Any], data: str) -> list[str]:
    """What a benchmark holds, for people: the verdict, then a line a fact, then a block for a config.

    `tree` as `Survey.description` gives it; `data` is the path, or a config's name.
    """
    return [_verdict(tree), *(f"  {name:9} {says}" for name, says in _facts(tree)), *_next(tree, data)]


def _verdict(tree: Mapping[str, Any]) -> str:
    n, aside = tree["n_items"], tree["n_quarantined"]
    faulty = {d["line"] for one in tree["defects"].values() for d in one["at"]}
    parts = [f"{tree['name']}: {counted(n, 'item')}"]
    if aside:
        parts.append(f"{counted(aside, 'row')} set aside")
    parts.append(f"{counted(len(faulty), 'item')} to look at" if faulty else "ready to audit")
    return ", ".join(parts)


def _facts(tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "layout", tree["layout"] + "".join(f"; {how}" for how in _read(tree.get("read", ())))
    chance = tree["chance_accuracy"]
    sizes = ", ".join(f"{k} ({counted(n, 'item')})" for k, n in tree["option_counts"].items())
    yield "options", sizes + (f"; chance {chance:.1%}" if chance is not None else "")
    yield "keys", ", ".join(f"{ascii_uppercase[int(at)]} {n:,}" for at, n in tree["key_positions"].items())
    topics = [(name, n) for name, n in tree["topics"].items() if name]
    if topics:
        most = sorted(topics, key=lambda topic: -topic[1])[:_LISTED]
        more = f" and {len(topics) - _LISTED:,} more" if len(topics) > _LISTED else ""
        yield "topics", ", ".join(f"{name} {n:,}" for name, n in most) + more
    for kind, one in tree["defects"].items():
        yield "look at", f"{counted(one['n'], 'item')} ({_places(one['at'])}): {_DEFECTS.get(kind, kind)}"
    reasons: dict[str, list[Mapping[str, Any]]] = {}
    for row in tree["quarantined"]:
        reasons.setdefault(re.sub("[0-9]+", "0", row["reason"]), []).append(row)
    for rows in reasons.values():
        yield "set aside", f"{counted(len(rows), 'row')} ({_places(rows)}): {rows[0]['reason']}"
    for note in tree["notes"]:
        yield "note", note


def _places(at: Sequence[Mapping[str, Any]]) -> str:
    files: dict[str, list[int]] = {}
    for one in at:
        files.setdefault(one["file"], []).append(one["line"])
    if len(files) > 1:
        return f"in {counted(len(files), 'file')}"
    lines = next(iter(files.values()))
    return f"line{'s' * (len(lines) > 1)} {line_spans(lines, _LISTED)}"


def _read(files: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How the first file was read; the others of a benchmark are nearly always alike."""
    for one in files[:1]:
        parts = (f"{part} {_columns(name)}" for part, name in one["fields"].items() if part != "key_is")
        if said := ", ".join(parts):
            yield said
        yield "keys as " + " and ".join(_FORMS.get(form, f"a {form}") for form in sorted(one["key_forms"]))


def _columns(name: object) -> str:
    if isinstance(name, str):
        return json.dumps(name, ensure_ascii=False)
    assert isinstance(name, list | tuple)
    names = [json.dumps(one, ensure_ascii=False) for one in name]
    return ", ".join(names) if len(names) < 3 else f"{names[0]} to {names[-1]}"


def _next(tree: Mapping[str, Any], data: str) -> list[str]:
    if "data" not in tree:
        return []
    return [
        f"next: robustify heuristics {data}, or robustify {data} --public; in a config:",
        *data_block(tree["data"]),
    ]


def data_block(data: Mapping[str, Any]) -> list[str]:
    """The lines of a config that name this data."""
    if set(data) == {"path"}:
        return [f"data: {_scalar(data['path'])}"]
    return ["data:", *(f"  {name}: {_inline(value)}" for name, value in data.items())]


def _inline(value: object) -> str:
    match value:
        case Mapping():
            return "{" + ", ".join(f"{name}: {_inline(one)}" for name, one in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_inline, value)) + "]"
        case str():
            return _scalar(value)
    return json.dumps(value)


def _scalar(text: str) -> str:
    """A text as YAML reads it back as this text; quoted unless it is plainly a word."""
    plain = re.fullmatch(r"[A-Za-z_./][\w./-]*", text) and text.casefold() not in ("true", "false", "null")
    return text if plain else json.dumps(text, ensure_ascii=False)


def rule_lines(table: Mapping[str, Any]) -> list[str]:
    """What rules score on the choices alone, the best first, starred where above chance; a sentence of conclusion first."""
    rules = sorted(table["heuristics"].items(), key=lambda rule: -(rule[1]["value"] or 0.0))
    n, chance = table["n"], table["chance_accuracy"]
    lines = [
        _conclusion(rules, n, chance),
        f"  {counted(n, 'item')}, chance {chance:.1%}" if n else "  no items",
    ]
    for name, rate in rules:
        if rate["value"] is None:
            continue
        interval = "" if rate["ci"] is None else f"  ({rate['ci'][0]:.1%} to {rate['ci'][1]:.1%})"
        ties = f"  ties in {counted(rate['ties'], 'item')}" if rate["ties"] else ""
        lines.append(f"{'*' if is_above(rate) else ' '} {name:21} {rate['value']:6.1%}{interval}{ties}")
    if any(is_above(rate) for _, rate in rules):
        lines.append(f"* above chance, p at most {ABOVE} after Holm's correction for {len(rules)} rules")
    return lines


def is_above(rate: Mapping[str, Any]) -> bool:
    """Whether a rule is right more often than chance explains."""
    return rate["p_holm"] is not None and rate["p_holm"] <= ABOVE


def _conclusion(rules: Sequence[tuple[str, Mapping[str, Any]]], n: int, chance: float | None) -> str:
    starred = [(name, rate) for name, rate in rules if is_above(rate)]
    if not n or chance is None:
        return "No items, nothing to say."
    if not starred:
        return f"None of {len(rules)} rules on the options alone is above chance on {counted(n, 'item')}."
    name, rate = starred[0]
    others = f", and {counted(len(starred) - 1, 'other rule')} above chance" if len(starred) > 1 else ""
    return (
        f"The options alone give keys away: {name.replace('_', ' ')} is right in {rate['value']:.1%}, "
        f"chance {chance:.1%}{others}."
    )


def item_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The items that starred rules find, those that most rules find first."""
    return [f"{row['file']}:{row['line']}  {row['item']}  {', '.join(row['rules'])}" for row in rows]


def explained_lines(shown: Mapping[str, Any]) -> list[str]:
    """How each file was read, and some items as models will be asked them: the one place that prints their text."""
    lines = []
    for file in shown["files"]:
        fields = ", ".join(f"{part}={json.dumps(name)}" for part, name in file["fields"].items())
        forms = ", ".join(f"{form} ({n})" for form, n in file["key_forms"].items())
        lines.append(f"{file['file']}: layout {file['layout']}; fields {fields or 'its own'}; keys: {forms}")
    for row in shown["rows"]:
        place = f"{row['file']}:{row['line']}"
        lines += [
            "",
            f"=== item {row['item']} ({place}), topic {row['topic'] or 'none'}, key {row['key']} (from 0)",
        ]
        for view in row["views"]:
            order = " ".join(map(str, view["order"]))
            lines.append(
                f"--- {view['view']} ({view['template']}@{view['digest']}), choices in the order {order}"
            )
            lines += [f"| {line}" for line in (view["prompt"] or f"not asked: {view['refusal']}").split("\n")]
            lines.append(f"continuations: {json.dumps(view['continuations'], ensure_ascii=False)}")
    return lines


def plain_lines(tree: Mapping[str, Any]) -> list[str]:
    """A tree as it is, a line a name: what a restricted set may say of itself."""
    lines = []
    for name, value in tree.items():
        match value:
            case dict():
                lines.append(f"{name}:" + ("" if value else " none"))
                lines += [
                    f"  {k}: {json.dumps(v, ensure_ascii=False) if isinstance(v, dict | list) else v}"
                    for k, v in value.items()
                ]
            case list():
                lines.append(f"{name}: {json.dumps(value, ensure_ascii=False)}")
            case _:
                lines.append(f"{name}: {value}")
    return lines
