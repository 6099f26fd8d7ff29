"""Cases of logs: their contents, or a recipe for the rows of a harness, and what the readers make of them.

`contents` is the text of `file`, and `rows` are its JSON lines, or those of Parquet. A recipe is `harness` with `boxes`
(number of items and of options), and `picks`, `scores`, or `replies` in the order of the items. With `repeat`, each
item has several rows. `with` are arguments of the maker. `set` has values by dotted path for all rows, and `set_in` for
one row by its number, where `*` is every member and `$drop` removes one. `printed`, `scored`, and `requests` change the
scores. With `one_list`, which has its format, the rows are one JSON list. `for` has values of a variable, each of which
gives a case. In texts, $stem, $options, and so on are those of the item.

`expect` names what must come of it. Without `error` and `faults`, there must be none. `notes` are codes that must be there,
`no_notes` codes that must not, and `counts` the last number in the note with a code. With `data` the log is matched with
items of a file.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from robustify.base.errors import RobustifyError, notice_code
from robustify.items.item import Item
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Loaded, Source, load
from robustify.reading.logs import Log, LogOptions, gather, mapping, read_log
from robustify.runs.run import write_items
from tests.support.cases import contents, filled_in
from tests.support.fake_archives import eee_row
from tests.support.fake_logs import (
    boxes,
    inspect_sample,
    inspect_tree,
    jsonl,
    lighteval_row,
    lm_eval_row,
    old_lighteval_row,
    results,
    scores_for,
    written_row,
)
from tests.support.tables import parquet

Case = Mapping[str, Any]
DATE = "2026-07-09T22-44-17.123456"


def log_cases(name: str) -> list[Case]:
    """Return the cases of a file, one for each value of their variables."""
    return [varied for case in contents(name) for varied in _varied(case)]


def _varied(case: Case) -> Iterator[Case]:
    variables = dict(case.get("for", {}))
    if not variables:
        yield case
        return
    variable = next(iter(variables))
    for value in variables.pop(variable):
        named = {**case, "for": variables, "name": f"{case['name']}: {str(value)[:20]}"}
        yield from _varied(filled_in(named, {variable: value}))


def _put(tree: Any, path: str, value: Any) -> None:
    step, _, deeper = path.partition(".")
    keys = [int(step) if isinstance(tree, list) else step]
    if step == "*":
        keys = [*range(len(tree))] if isinstance(tree, list) else [*tree]
    for key in keys:
        if deeper:
            _put(tree[key], deeper, value)
        elif value == "$drop":
            del tree[key]
        else:
            tree[key] = value


def _rescore(row: Any) -> None:
    """Change how the scores of a row are printed, the texts that were scored, or all requests."""
    if printed := row.pop("printed", None):
        row["resps"] = row["filtered_resps"] = [[printed.format(pair[0])] for (pair,) in row["resps"]]
    if scored := row.pop("scored", None):
        for mark, request in zip(scored, row["arguments"].values(), strict=True):
            request["arg_1"] = f" {mark}"
    if requests := row.pop("requests", None):
        row["arguments"] = [["Q", f" {text}"] for text in requests["choices"]]
        row["resps"] = [[[str(-1.0 - place), "False"]] for place in range(len(requests["choices"]))]


def _names(item: Item, at: int) -> dict[str, Any]:
    marks = "ABCDE"[: item.k]
    listed = [f"{mark}. {choice}\n" for mark, choice in zip(marks, item.choices, strict=True)]
    return {
        "at": at, "stem": item.stem, "STEM": item.stem.upper(), "options": "".join(listed), "letter": marks[item.key],
        "key": item.key, "choices": list(item.choices), "three": "".join(listed[:3]), "right": item.choices[item.key],
        "RIGHT": item.choices[item.key].upper(), **{f"text{j}": choice for j, choice in enumerate(item.choices)},
        **{f"TEXT{j}": choice.upper() for j, choice in enumerate(item.choices)},
    }  # fmt: skip


def _row(case: Case, item: Item, at: int, reply: Any) -> dict[str, Any]:
    more = case.get("with", {})
    match case["harness"]:
        case "lm-eval":
            return lm_eval_row(item, at, reply, **more)
        case "inspect":
            return inspect_sample(item, reply, **more)
        case "lighteval":
            return lighteval_row(item, at, reply, **more)
        case "old lighteval":
            return old_lighteval_row(item, at, reply, **more)
        case "every-eval-ever":
            return eee_row(item, "m", reply, **more)
        case _:
            return written_row(item, at, reply, "none", float(reply == "ABCDE"[item.key]))


def write_log(case: Case, folder: Path) -> Path:
    """Write the log of a case."""
    path = folder / case.get("file", f"owner__name/samples_boxes_{DATE}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    if "contents" in case:
        path.write_text(case["contents"], encoding="utf-8")
        return path
    if "rows" in case:
        return (parquet if path.suffix == ".parquet" else jsonl)(path, case["rows"])
    items = [item for item in boxes(*case.get("boxes", [6])) for _ in range(case.get("repeat", 1))]
    replies = case.get("replies") or case.get("scores") or scores_for(case["picks"])
    pairs = [
        (_names(item, at), _row(case, item, at, replies[at % len(replies)])) for at, item in enumerate(items)
    ]
    for number, (names, row) in enumerate(pairs, start=1):
        for place, value in {**case.get("set", {}), **case.get("set_in", {}).get(number, {})}.items():
            _put(row, place, filled_in(value, names))
        if case["harness"] == "lm-eval":
            _rescore(row)
    rows = [row for _, row in pairs]
    if "results" in case:
        beside = results(path.parent, DATE, "boxes", **case["results"])
        beside.write_text(json.dumps(json.loads(beside.read_text()) | case.get("configs", {})))
    if case["harness"] == "inspect":
        path = folder / "a.json"
        tree = inspect_tree(rows)
        for place, value in case.get("tree", {}).items():
            _put(tree, place, value)
        path.write_text(json.dumps(tree))
        return path
    if "lighteval" in case["harness"]:
        in_file_order = rows if case["harness"].startswith("old") else rows[::-1]
        return parquet(folder / case.get("file", "details.parquet"), in_file_order)
    if "one_list" in case:
        path.write_text(json.dumps(rows, **case["one_list"]))
        return path
    return jsonl(path, rows)


def _data(told: Case, folder: Path) -> Loaded:
    """The items with which a log is matched, read from their file."""
    changes = [told.get("change", {}).get(number, {}) for number in range(1, told["boxes"][0] + 1)]
    items = [replace(item, **more) for item, more in zip(boxes(*told["boxes"]), changes, strict=True)]
    items += [Item(**row) for row in told.get("add", [])]
    write_items(folder / "data.jsonl", items)
    return load(Source(path=str(folder / "data.jsonl")), UNGUARDED)


class Outcome:
    """What the readers make of the log of a case."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.error, self.words, self.lines, self.notes = None, "", [], []
        self.log: Log | None = None
        try:
            options = LogOptions(columns=mapping(case.get("map", ())), **case.get("options", {}))
            self.log = read_log(write_log(case, folder), options)
            self.notes = [*self.log.notes]
            bench = _data(case["data"], folder) if "data" in case else None
            gathered = gather([self.log], bench, skip_bad=options.skip_bad)
        except RobustifyError as error:
            self.words = str(error)
            self.error, self.lines = error.code, [line.partition(": ")[0] for line in error.lines]
            self.table, self.gathered = {}, None
        else:
            self.gathered, self.table = gathered, gathered.answers.table.to_pydict()
            self.notes += gathered.notes

    def part(self, name: str, expected: Any) -> Any:
        """Return what a name in `expect` is about."""
        codes = {notice_code(note) for note in self.notes}
        replies, items = (self.log.replies if self.log else ()), (self.gathered and self.gathered.items) or ()
        match name:
            case "error" | "lines":
                return getattr(self, name)
            case "faults":
                return (
                    {fault.line: notice_code(fault.reason) for fault in self.log.faults} if self.log else {}
                )
            case "fault_lines":
                return [fault.line for fault in self.log.faults] if self.log else []
            case "fault_codes":
                return [notice_code(fault.reason) for fault in self.log.faults] if self.log else []
            case "facts":
                return dict(self.log.facts) if self.log else {}
            case "topics":
                return sorted({item.topic for item in items})
            case "hides":
                return expected if expected not in self.words else self.words
            case "n_items" | "left_out" | "groups":
                return {
                    "n_items": len(items),
                    "left_out": self.gathered.left_out,
                    "groups": self.gathered.groups,
                }[name]
            case "set_aside":
                return {row.line: notice_code(row.reason) for row in self.gathered.set_aside}
            case "notes" | "no_notes":
                return [code for code in expected if (code in codes) == (name == "notes")]
            case "counts":
                last = {
                    notice_code(note): int(re.findall(r"\d+", note)[-1])
                    for note in self.notes
                    if re.search(r"\d", note)
                }
                return {code: last.get(code) for code in expected}
            case "views" | "models":
                return sorted({getattr(reply, name.removesuffix("s")) for reply in replies})
            case "boxes":
                own = [(item.stem, item.choices, item.key) for item in boxes(*expected)]
                return expected if own == [(item.stem, item.choices, item.key) for item in items] else items
            case "stems":
                return [item.stem for item in items]
            case "choices":
                return [list(item.choices) for item in items]
            case "rows":
                return [" ".join(str(self.table[column][n]) for column in ("model", "item", "key", "pick", "correct"))
                        for n in range(len(self.table["pick"]))]  # fmt: skip
            case "scores" | "correct" | "n_chars":
                return self.table[name]
            case _:
                return self.table[name.removesuffix("s")]


def missed(case: Case, folder: Path) -> dict[str, tuple[Any, Any]]:
    """Return each expectation of a case that is not met, with what is there instead."""
    outcome = Outcome(case, folder)
    expected = {"error": None, "faults": {}, **case["expect"]}
    seen = {
        name: outcome.part(name, value)
        for name, value in expected.items()
        if value is not None or name == "error"
    }
    return {name: (expected[name], value) for name, value in seen.items() if value != expected[name]}
