"""Publication sheet of a run: the facts that STREAM and NIST require, with their sources.

`criteria.yaml` is the table of criteria. What only people know comes from a file of answers with the same names. The sheet
of a restricted run is made from its published page alone.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import yaml

from robustify.base.errors import AuthorisationError, UsageError
from robustify.base.files import read_regular, write_json, write_text
from robustify.base.settings_files import MOST_YAML, read_yaml
from robustify.base.texts import escaped
from robustify.items.views import View, names, template
from robustify.report.format import bracketed, count, in_points, percent
from robustify.report.opening import FirstScreen
from robustify.report.printing import html, markdown, standing
from robustify.runs.run import Run
from robustify.runs.stored import json_file

FORMAT = "robustify.sheet/1"
FILES = ("sheet.json", "sheet.md", "sheet.html")


@dataclass(frozen=True, slots=True)
class Fact:
    """Fact about a run: its subject (`label`), text, and value, with the JSON file and the path of the value in it."""

    label: str
    text: str
    file: str
    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """A criterion with the facts of a run and a person's answer. If both are missing, `provide` says how to get them."""

    name: str
    group: str
    of: tuple[str, ...]
    asks: str
    facts: tuple[Fact, ...]
    answer: str
    provide: str


@cache
def criteria_table() -> Mapping[str, Any]:
    """Return the criteria of the sheet, with their sources."""
    tree: Mapping[str, Any] = yaml.safe_load((files("robustify.export") / "criteria.yaml").read_bytes())
    return tree


def read_answers(
    path: Path | None, quoted_sets: Callable[[str], Sequence[str]] | None = None
) -> Mapping[str, str]:
    """Read people's answers, keyed by the names of the criteria. For a restricted run, `quoted_sets` returns the accepted
    sets whose items a text repeats.

    Raise `UsageError` if the file cannot be read, or has an unknown name or a value that is not a text. For a restricted
    run, raise `AuthorisationError` if it has what such a run never has, or repeats an item."""
    if path is None:
        return {}
    try:
        tree = read_yaml(read_regular(path, MOST_YAML, follow=True), str(path), texts=True)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}). Name a YAML file with answers.",
            code="unreadable-file",
        ) from None
    allowed = [criterion["name"] for criterion in criteria_table()["criteria"]]
    if not isinstance(tree, dict) or not all(isinstance(text, str) for text in tree.values()):
        raise UsageError(
            f"{path}: expected a mapping of names to text. Known names: {', '.join(allowed)}.",
            code="not-an-answer-sheet",
        )
    for name in tree:
        if name not in allowed:
            near = difflib.get_close_matches(str(name), allowed, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known names: {', '.join(allowed)}."
            raise UsageError(
                f"{path}: the name {escaped(str(name))[:40]} is unknown. {hint}", code="unknown-criterion"
            )
    for criterion in criteria_table()["criteria"]:
        if quoted_sets and criterion.get("private") and criterion["name"] in tree:
            raise AuthorisationError(
                f"{path}: {criteria_table()['private']} Remove {criterion['name']}.", code="restricted-field"
            )
    for name, text in tree.items():
        if quoted_sets and (sets := quoted_sets(text)):
            raise AuthorisationError(
                f"{path}: {name} repeats an item of {', '.join(sets)}. {criteria_table()['private']} Use other words.",
                code="quoted-item",
            )
    return {name: text for name, text in tree.items() if text.strip()}


def write_sheet(folder: Path, run: Run, answers: Mapping[str, str], published: Path | None = None) -> None:
    """Write the sheet of a run as JSON, Markdown, and HTML. For a restricted run, show only its `published` page."""
    trees = (
        {name: json_file(run.folder / name) for name in ("run.json", "summary.json")} if not published else {}
    )
    page = json_file(published) if published else None
    about = page or {"name": trees["run.json"]["config"]["name"], **trees["summary.json"]}
    state = about["state"] if page else standing(run.summary)
    entries = [_entry(criterion, trees, page, answers) for criterion in criteria_table()["criteria"]]
    tree = {
        "format": FORMAT, "name": about["name"], "state": state, "signature": about["signature"],
        "sources": criteria_table()["sources"], "caution": criteria_table()["caution"],
        "criteria": [asdict(entry) for entry in entries],
    }  # fmt: skip
    prompts = {} if published else dict(_prompts(trees["run.json"]["templates"]))
    values = {"sheet": {**tree, "prompts": prompts}, "name": str(about["name"])}
    first = FirstScreen(f"{about['name']}: {state}", "unsure")
    write_json(folder / FILES[0], values["sheet"])
    write_text(folder / FILES[1], markdown("sheet.md.j2", **values))
    write_text(folder / FILES[2], html("sheet.html.j2", **values, first=first, signature=about["signature"]))


def _entry(
    criterion: Mapping[str, Any],
    trees: Mapping[str, Any],
    page: Mapping[str, Any] | None,
    answers: Mapping[str, str],
) -> Entry:
    if page is None:
        candidates = (_fact(trees, *fact) for fact in criterion.get("facts", ()))
    else:
        candidates = (fact for group in criterion.get("released", ()) for fact in _released(page, group))
    facts = tuple(fact for fact in candidates if fact is not None)
    name, of = criterion["name"], tuple(criterion["of"])
    instead = "private" if "private" in criterion else "withheld" if "facts" in criterion else ""
    provide = criteria_table()[instead] if page and instead else criterion["provide"]
    return Entry(name, criterion["group"], of, criterion["asks"], facts, answers.get(name, ""), provide)


def _fact(trees: Mapping[str, Any], file: str, path: str, label: str, unit: str = "") -> Fact | None:
    value = find(trees[file], path)
    text = "" if value is None or (value in ({}, []) and unit != "none") else _text(value, unit)
    return Fact(label, text, file, path, value) if text else None


def _released(page: Mapping[str, Any], wanted: str) -> Iterator[Fact]:
    """Yield one fact per number of a published page whose group or measure matches, or a single fact for a top-level
    value."""
    group, _, form = wanted.partition(":")
    if group in page:
        yield Fact(
            {"n": "items"}.get(group, group), _text(page[group], ""), "summary.json", group, page[group]
        )
    for i, number in enumerate(page["numbers"]):
        if group in (number["group"], number["measure"]) and number["value"] is not None:
            unit = (form or "share") if number["kind"] == "share" else ""
            yield Fact(number["name"], _text(number, unit), "summary.json", f"numbers.{i}", number)


def find(tree: Any, path: str) -> Any:
    """Return the value at a path in a JSON tree, or None. A path has names and positions, and `*` means every member."""
    head, _, tail = path.partition(".")
    if head == "*" and isinstance(tree, dict):
        members = {name: find(value, tail) if tail else value for name, value in tree.items()}
        return {name: value for name, value in members.items() if value is not None} or None
    value = tree.get(head) if isinstance(tree, dict) else tree[int(head)] if isinstance(tree, list) else None
    return find(value, tail) if tail and value is not None else value


def _text(value: Any, unit: str) -> str:
    match value:
        case {"all": dict() as score, "kept": kept, "flagged": flagged} if unit == "parts":
            parts = {"all": score, "kept": kept, "flagged": flagged}
            return ", ".join(f"{name} {_text(part, 'share')}" for name, part in parts.items() if part)
        case {"all": dict() as score, "kept": _}:
            return _text(score, unit)
        case {"value": None}:
            return ""
        case {"value": float() | int() as number, "n": n}:
            form = in_points if unit == "points" else percent if unit else str
            words = [form(number) + ("" if unit == "fixed" else bracketed(value.get("ci")))]
            words += [] if n is None else [f"n = {count(n)}"]
            chance = value.get("chance")
            return ", ".join(words if chance is None else [*words, f"chance {percent(chance)}"])
        case {} | [] if not value:
            return "none"
        case dict():
            inner = {name: _text(member, unit) for name, member in value.items()}
            return "; ".join(f"{name}: {text}" for name, text in inner.items() if text)
        case list():
            return ", ".join(_text(member, unit) for member in value)
        case bool():
            return "yes" if value else "no"
        case float():
            return percent(value) if unit == "share" else f"{value:.3g}"
        case _:
            return "" if value is None else str(value)


def _prompts(templates: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the text of each template that still has the digest recorded in the run."""
    for name, digest in templates.items():
        view, _, words = name.partition("/")
        if view in get_args(View) and words in names(view) and template(view, words).digest == digest:  # type: ignore[arg-type]
            parts = yaml.safe_load(
                (files("robustify.items") / "templates" / view / f"{words}.yaml").read_bytes()
            )
            yield name, f"{parts['description']}{parts['context']}{parts['continuation']}"
