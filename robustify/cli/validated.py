"""Format the terminal output of `validate` and `heuristics`, which contains only counts, IDs, and column names."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from robustify.base.errors import counted
from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS
from robustify.judging.lint.rules import DEFECT_WORDS, POSITION, RULES
from robustify.reading.loaders.rows import line_spans

ABOVE = 0.05
"""Largest corrected p-value of a starred rule."""
_LISTED = 5
_FORMS = {
    "label": "labels of the options",
    "numbered label": "numbers of the options",
    "letter": "letters",
    "mark": "the mark or the column of the right option",
    "text": "an option's text",
}


def survey_lines(tree: Mapping[str, Any], data: str) -> list[str]:
    """Return the lines that describe a benchmark: a verdict, its facts, and the `data` block of a config.

    `tree` contains the facts. `data` is the path of the file, or the name of a config.
    """
    n, aside = tree["n_items"], tree["n_quarantined"]
    faulty = {d["line"] for defect in tree["defects"].values() for d in defect["at"]}
    verdict = f"{counted(len(faulty), 'item')} to look at" if faulty else "ready to audit"
    if n < FEWEST_ITEMS:
        verdict = f"too few for a verdict without models, which needs at least {FEWEST_ITEMS}"
    set_aside = [f"{counted(aside, 'row')} set aside"] if aside else []
    lines = [", ".join([f"{tree['name']}: {counted(n, 'item')}", *set_aside, verdict])]
    lines += [f"  {name:9} {says}" for name, says in _facts(tree)]
    if "data" in tree:
        named = f"{shlex.quote(data)}{_naming(tree['data'])}"
        lines.append(f"next: robustify lint {named}, or robustify {named} --public; in a config:")
        lines += data_block(tree["data"])
    return lines


def _naming(data: Mapping[str, Any]) -> str:
    """Return the command-line options of a `data` block: the split, and those with which a harness finds the set."""
    split = ["--split", data["split"]] if data.get("split") else []
    places = [word for place in data.get("include_path", ()) for word in ("--include-path", str(place))]
    trust = ["--trust-task-code"] * bool(data.get("trust_task_code"))
    return "".join(f" {shlex.quote(word)}" for word in (*split, *places, *trust))


def why_lines(tree: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each part of an item, with its columns, the rule that chose them, the reason, and other
    candidates."""
    for file in tree["read"]:
        yield f"why {file['file']} is read so:"
        for decision in file["decisions"]:
            columns = f"{_columns(decision['columns'])} by " if decision["columns"] else ""
            names = ", ".join(decision["candidates"])
            others = f"; other candidates: {names}" if names else ""
            yield f"  {decision['part']:15} {columns}{decision['rule']} ({decision['reason']}){others}"


def _facts(tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "layout", tree["layout"] + "".join(f"; {part}" for part in _read(tree.get("read", ())))
    chance = tree["chance_accuracy"]
    sizes = ", ".join(f"{k} ({counted(n, 'item')})" for k, n in tree["option_counts"].items())
    yield "options", sizes + (f"; chance {chance:.1%}" if chance is not None else "")
    yield (
        "keys",
        ", ".join(f"{ascii_uppercase[int(position)]} {n:,}" for position, n in tree["key_positions"].items()),
    )
    for file in tree.get("read", ()):
        if origin := file["origin"]:
            yield "loaded", loaded_words(origin)
    if (placed := tree["key_position"]) and len(tree["key_positions"]) > 1:
        yield "look at", f"{placed['says']}: {RULES[POSITION].fix}"
    if parallel := tree["parallel_items"]:
        yield "look at", f"{counted(parallel, 'item')} look parallel: name their passage in a field `group`"
    if parallel is None:
        yield (
            "look at",
            "translations are not sought among so many items: name their passages in a field `group`",
        )
    topics = [(name, n) for name, n in tree["topics"].items() if name]
    if topics:
        most = sorted(topics, key=lambda topic: -topic[1])[:_LISTED]
        more = f" and {len(topics) - _LISTED:,} more" if len(topics) > _LISTED else ""
        yield "topics", ", ".join(f"{name} {n:,}" for name, n in most) + more
    for kind, file in tree["defects"].items():
        yield ("look at", f"{counted(file['n'], 'item')} ({_lines_of(file['at'])}): {DEFECT_WORDS[kind]}")
    reasons: dict[str, list[Mapping[str, Any]]] = {}
    for row in tree["quarantined"]:
        reasons.setdefault(re.sub("[0-9]+", "0", row["reason"]), []).append(row)
    for rows in reasons.values():
        yield "set aside", f"{counted(len(rows), 'row')} ({_lines_of(rows)}): {rows[0]['reason']}"
    for note in tree["notes"]:
        yield "note", note


def loaded_words(origin: Mapping[str, str]) -> str:
    """Return a phrase that names the data a harness loaded by name, and says whether their commit is pinned."""
    if not (commit := origin.get("revision")):
        return origin.get("set", "")
    pinned = (
        "pinned" if origin["pinned"] == "yes" else "not pinned: a later load may differ, so name this commit"
    )
    return f"{origin['set']} at commit {commit} ({pinned})"


def _lines_of(places: Sequence[Mapping[str, Any]]) -> str:
    files: dict[str, list[int]] = {}
    for place in places:
        files.setdefault(place["file"], []).append(place["line"])
    if len(files) > 1:
        return f"in {counted(len(files), 'file')}"
    lines = next(iter(files.values()))
    first = f" as line {places[0]['first']}" if places[0].get("first") and len(lines) == 1 else ""
    return f"line{'s' * (len(lines) > 1)} {line_spans(lines, _LISTED)}{first}"


def _read(files: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for file in files[:1]:  # the files of a benchmark nearly always have the same layout
        parts = (f"{part} {_columns(name)}" for part, name in file["fields"].items() if part != "key_is")
        if names := ", ".join(parts):
            yield names
        if file["keyed_by"]:
            yield f"keys by {file['keyed_by']}"
            return
        yield "keys as " + " and ".join(_FORMS.get(form, f"a {form}") for form in sorted(file["key_forms"]))


def _columns(name: str | Sequence[str]) -> str:
    names = [json.dumps(column, ensure_ascii=False) for column in ([name] if isinstance(name, str) else name)]
    return ", ".join(names) if len(names) < 3 else f"{names[0]} to {names[-1]}"


def data_block(data: Mapping[str, Any]) -> list[str]:
    """Return the `data` block of a config as lines."""
    import yaml

    tree = {"data": data["path"] if set(data) == {"path"} else dict(data)}
    # By default, PyYAML writes a mapping of plain values on one line.
    flow = None if any(isinstance(value, dict | list | tuple) for value in tree.values()) else False
    style: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 10_000}
    text: str = yaml.safe_dump(tree, default_flow_style=flow, **style)
    return text.splitlines()


def rule_lines(table: Mapping[str, Any]) -> list[str]:
    """Return lines with a conclusion about the rules, the number of items, and the score of each rule. Rules are sorted by
    score, but those that also read the question come last."""
    rules, others = (
        sorted(table[of].items(), key=lambda rule: -(rule[1]["value"] or 0.0))
        for of in ("heuristics", "with_question")
    )
    n, chance = table["n"], table["chance_accuracy"]
    starred = [(name, rate) for name, rate in rules if is_above(rate)]
    if not n or chance is None:
        lines = ["There are no items to score."]
    elif not starred:
        lines = [f"None of {len(rules)} rules on the options alone is above chance on {counted(n, 'item')}."]
    else:
        (name, rate), *more = starred
        beside = f", and {counted(len(more), 'other rule')} above chance" if more else ""
        lines = [
            f"The options alone give keys away: {name.replace('_', ' ')} is right in {rate['value']:.1%}, "
            f"chance {chance:.1%}{beside}."
        ]
    some = f" in {counted(table['groups'], 'independent group')}" if table["groups"] < n else ""
    lines.append(f"  {counted(n, 'item')}{some}, chance {chance:.1%}" if n else "  no items")
    lines += _rated_rules(rules)
    if n:
        lines += ["  Rules that read the question, too:", *_rated_rules(others)]
    if starred:
        lines.append(f"* above chance, p at most {ABOVE} after Holm's correction for {len(rules)} rules")
    return lines


def _rated_rules(rules: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    for name, rate in rules:
        if rate["value"] is not None:
            interval = "" if rate["ci"] is None else f"  ({rate['ci'][0]:.1%} to {rate['ci'][1]:.1%})"
            ties = f"  ties in {counted(rate['ties'], 'item')}" if rate["ties"] else ""
            yield f"{'*' if is_above(rate) else ' '} {name:21} {rate['value']:6.1%}{interval}{ties}"


def is_above(rate: Mapping[str, Any]) -> bool:
    """Return whether the score of a rule is significantly above chance."""
    return rate["p_holm"] is not None and rate["p_holm"] <= ABOVE
