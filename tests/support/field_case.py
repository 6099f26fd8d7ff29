"""A case from the field: input files and a `case.json` whose `check` says what a right program makes of them.

`run` has the arguments of one or several commands, where "OUT" is a fresh folder. The other members are expectations:
`exit`, `says`, `not_says`, `items`, `flagged`, `keys`, `choices`, `answered`, `right`, `rule_above`, `no_rule_above`. Each
object in `or`, and a refusal that matches `or_refused`, are other ways to be right.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from robustify.cli import exit_code
from tests.support.command import invoked

Check = Mapping[str, Any]


def squeezed(text: object) -> str:
    return " ".join(str(text).split())


@dataclass(frozen=True)
class Outcome:
    """Exit codes and output of the commands of a case, and the folder that they wrote."""

    codes: Sequence[int]
    text: str
    out: Path

    @cached_property
    def items(self) -> list[tuple[str, dict[str, Any]]]:
        """Items of the run, with the name of the split that has them."""
        return [
            (name, json.loads(line))
            for name in ("kept", "flagged", "undecided")
            if (file := self.out / f"{name}.jsonl").exists()
            for line in file.read_text("utf-8").split("\n")
            if line.strip()
        ]

    @cached_property
    def answers(self) -> list[dict[str, Any]]:
        file = self.out / "answers.parquet"
        return (
            pq.read_table(file, columns=["model", "view", "pick", "correct"]).to_pylist()
            if file.exists()
            else []
        )

    @cached_property
    def rules(self) -> dict[str, float]:
        """Score of each rule on all items."""
        rows = [r for r in self.answers if r["view"] == "heuristic" and r["correct"] is not None]
        by = {r["model"]: [q["correct"] for q in rows if q["model"] == r["model"]] for r in rows}
        return {name: sum(won) / len(won) for name, won in by.items()}


def unmet(want: Check, seen: Outcome) -> Iterator[str]:
    """Yield each expectation that the outcome does not meet."""
    if not set(seen.codes) <= set(want.get("exit", [0, 7])):
        yield f"exit {seen.codes}: {seen.text[-300:]}"
    for name, wanted in (("says", True), ("not_says", False)):
        for pattern in want.get(name, []):
            if bool(re.search(pattern, seen.text, re.IGNORECASE)) != wanted:
                yield f"{name} /{pattern}/: {seen.text[-300:]}"
    if "items" in want and len(seen.items) != want["items"]:
        yield f"{len(seen.items)} items, not {want['items']}"
    if sum(name == "flagged" for name, _ in seen.items) < want.get("flagged", 0):
        yield "too few flagged items"
    yield from _texts(want, seen)
    for name in ("answered", "right"):
        for who, number in want.get(name, {}).items():
            rows = [r for r in seen.answers if re.search(who, f"{r['model']} {r['view']}")]
            found = sum(r["correct"] == 1 if name == "right" else r["pick"] is not None for r in rows)
            if found != number:
                yield f"{name} by {who!r}: {found}, not {number}"
    best = max(seen.rules.values(), default=None)
    for name, wanted in (("rule_above", True), ("no_rule_above", False)):
        if name in want and (best is None or (best >= want[name]) != wanted):
            yield f"{name} {want[name]}: the best rule has {best}"


def _texts(want: Check, seen: Outcome) -> Iterator[str]:
    for part, sought in want.get("keys", {}).items():
        found = [squeezed(i["choices"][i["key"]]) for _, i in seen.items if part in squeezed(i["stem"])]
        if not found or not all(text.endswith(squeezed(sought)) for text in found):
            yield f"key of {part!r}: {found[:3]}, not {sought!r}"
    for part, sought in want.get("choices", {}).items():
        shown = [[squeezed(c) for c in i["choices"]] for _, i in seen.items if part in squeezed(i["stem"])]
        if not shown or not all(sought in (len(texts), texts) for texts in shown):
            yield f"choices of {part!r}: {shown[:2]}, not {sought!r}"


def misses(case: Path, place: Path) -> list[str]:
    """Run the commands of a case in a copy of its folder. Return the unmet expectations of the first way to be right, or
    nothing if any way is met."""
    check = json.loads((case / "case.json").read_text("utf-8"))["check"]
    copy, out = place / "case", place / "out"
    shutil.copytree(case, copy)
    os.chdir(copy)
    codes, said = [], ""
    for words in check["run"] if isinstance(check["run"][0], list) else [check["run"]]:
        done = invoked(*(out if word == "OUT" else word for word in words))
        code = done.return_value if isinstance(done.return_value, int) else 0
        codes.append(exit_code(done.exception) if done.exception else code)
        said += f"{done.output}\n{done.exception or ''}\n".replace(str(place), "")
    seen = Outcome(codes, squeezed(said), out)
    refused = [{"exit": [2, 3], "says": check["or_refused"]}] if "or_refused" in check else []
    missed = [list(unmet(way, seen)) for way in (check, *check.get("or", []), *refused)]
    return missed[0] if all(missed) else []
