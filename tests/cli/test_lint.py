"""`lint` names the items to edit, by code and line, and is silent about items whose options only differ."""

import json
import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
import pytest
import yaml

from bench.simulate.dependent import DEPENDENT
from robustify.cli.lint import _MOST_LINES
from robustify.items.item import Item, item_row
from robustify.judging.baselines import relatives
from robustify.judging.lint.findings import cues_of, key_position, marks_of
from robustify.judging.lint.rules import RULES
from tests.support.cases import cases, contents
from tests.test_action import ROOT, STEPS, outputs, step

ONLY = ("--select", "R012,R061")
SAME = ("red box", "tin box", "old box", "wet box")
Row = tuple[str, Sequence[str], int]
OF_FILE = ("R006", "R007", "R008", "R031", "R032", "R033")
"""Cues that only a whole file shows."""

LONG = "sailboat lighthouse teaspoon wardrobe notebook keyboard umbrella doorbell backpack raincoat postcard snowball"
TYPED = {
    word: f"{word[:3]}{(word[4] + word[3], word[4], word[3] + 'x' + word[4], 'x' + word[4])[at % 4]}{word[5:]}"
    for at, word in enumerate(LONG.split())
}
FIRES: dict[str, list[Row]] = {
    **{
        code: [*map(tuple, rows)] * (12 if code in OF_FILE else 1)
        for code, rows in contents("lint")["fires"].items()
    },
    "R021": [(f"Which {n}?", SAME, 1) for n in range(12)],
    "R034": [(f"Which {right}?", (f"a {wrong}", f"a {right}"), 1) for right, wrong in TYPED.items()],
}
"""Items by the code that they show. Those of one item show it in a note or a defect."""
SPARED: list[Row] = cases("lint", "spared")


def written(path: Path, rows: Iterable[Row]) -> Path:
    items = [
        {"question": stem, "options": list(choices), "answer": ascii_uppercase[key]}
        for stem, choices, key in rows
    ]
    path.write_text(json.dumps(items, indent=1), encoding="utf-8")
    return path


def spread(rows: Sequence[Row]) -> list[Row]:
    """Give each stem a number, so that no question is repeated, and shuffle the options."""
    rng = random.Random(7)
    out = []
    for at, (stem, choices, key) in enumerate(rows):
        order = rng.sample(range(len(choices)), len(choices))
        out.append((f"{at}. {stem}", tuple(choices[i] for i in order), order.index(key)))
    return out


@pytest.fixture
def found(robustify, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Return the findings on these items."""

    def call(rows: Iterable[Row], *options: str) -> list[dict[str, Any]]:
        file = written(tmp_path / "quiz.json", rows)
        return list(json.loads(robustify("lint", file, "--json", *options).out)["findings"])

    return call


@pytest.mark.parametrize("code", RULES)
def test_each_rule_fires_and_says_what_to_do(found: Callable[..., list[dict[str, Any]]], code: str) -> None:
    rows = FIRES[code]
    if len(rows) > 2:  # a cue of the whole file
        rows = rows if code == "R021" else spread(rows)
        (whole, *single) = found(rows, "--select", code)
        assert (whole["severity"], whole["item"]) == ("warning", "")
        assert len(single) == (0 if code == "R021" else len(rows))
        assert {one["severity"] for one in single} <= {"warning"}
    else:
        of_pair = code in ("R066", "R067")
        for at, row in [(0, rows)] if of_pair else enumerate([one] for one in rows):
            lines = found(row, "--select", code)
            assert len(lines) == (2 if code == "R067" else 1), (at, lines)
            assert lines[0]["severity"] == ("warning" if RULES[code].defect else "note")
    assert found(rows, "--ignore", code[:3]) == [one for one in found(rows) if one["code"][:3] != code[:3]]


@pytest.mark.parametrize("row", SPARED, ids=[row[0][:20] for row in SPARED])
def test_what_only_differs_is_spared(found: Callable[..., list[dict[str, Any]]], row: Row) -> None:
    assert found([row]) == []


def even(n: int, rng: random.Random) -> list[Row]:
    """Items whose options differ in everything, with keys drawn at random."""
    ends = (
        "", ".", ", of course", " (old)", " and never more", " – or so", " which may be 3 m long", " ‘in’",
    )  # fmt: skip
    rows = [tuple(f"{rng.choice('Bb')}ox {j}{rng.choice(ends)}" for j in range(4)) for _ in range(n)]
    return [(f"Which box is box {i}?", choices, rng.randrange(4)) for i, choices in enumerate(rows)]


def test_few_even_files_are_called_uneven_and_planted_ones_are(
    found: Callable[..., list[dict[str, Any]]],
) -> None:
    rng = random.Random(1)
    sets = [
        [Item(*map(str, (i, row[0])), row[1], row[2]) for i, row in enumerate(even(60, rng))]
        for _ in range(40)
    ]
    assert sum(bool(cues_of(marks_of(items), items) or key_position(items)) for items in sets) <= 5
    rows = [
        (s, (*c[:k], f"{c[k]} of a longer sort of wood", *c[k + 1 :]) if n % 2 else c, k)
        for n, (s, c, k) in enumerate(even(60, rng))
    ]
    first, *_ = found(rows)
    assert (first["code"], first["line"], first["item"]) == ("R012", 1, "")
    assert re.search(r"in \d\d of \d\d items .* 1\d expected by chance", first["message"])


def test_files_too_small_for_a_finding_have_one_together(robustify, tmp_path: Path) -> None:
    for n in range(20):
        rows = [(f"Which box is {n} {i}?", SAME, key) for i, key in enumerate((1, 1, 1, 0, 2, 3))]
        written(tmp_path / f"quiz{n}.json", rows)
    ended = robustify("lint", *sorted(tmp_path.glob("quiz*.json")), "--select", "R021")
    assert (ended.code, len(ended.out.splitlines())) == (7, 1)
    assert re.match(r"20 files: R021 60 of 120 keys are B, 30 expected by chance \[fix: ", ended.out)


def test_lines_have_a_place_and_listed_words_their_counts(robustify, tmp_path: Path) -> None:
    choices = [(f"it always opens {i}", f"it opens {i}", f"it shuts {i}") for i in range(30)]
    rows = [(f"Which box is {i}?", of, 1 + i % 2) for i, of in enumerate(choices)]
    file = written(tmp_path / "quiz.json", spread(rows))
    ended = robustify("lint", file, "--select", "r03")
    first, *rest, last = ended.out.splitlines()
    assert "R031 the key has an absolute word in 0 of 30 items" in first
    assert "(“always” in 30 wrong options) [fix: " in first
    starts = [n for n, line in enumerate(file.read_text().splitlines(), start=1) if line.strip() == "{"]
    assert [int(line.split(":")[1]) for line in rest] == starts[:_MOST_LINES]
    assert last == f"{file}: R031 10 more items (--json lists all)"
    assert ended.err == "robustify: 1 file of 30 items: 31 warnings, 0 notes\n"


def test_what_fails_can_be_chosen(robustify, tmp_path: Path) -> None:
    note, clean = written(tmp_path / "note.json", FIRES["R012"]), written(tmp_path / "clean.json", SPARED[:1])
    defect = written(tmp_path / "defect.json", FIRES["R061"])
    for file, codes in ((clean, [0, 0, 0]), (note, [0, 7, 0]), (defect, [7, 7, 0])):
        ended = [robustify("lint", file, "--fail-on", on).code for on in ("warning", "note", "never")]
        assert ended == codes
    assert re.fullmatch(rf"{note}:2: R012 note: .* 257 % \[fix: .*\]\n", robustify("lint", note).out)
    assert robustify("lint", note, "-q").out == ""
    for bad in ("R9", "", "R01,x"):
        assert robustify("lint", note, "--select", bad).code == 2


def test_a_bad_file_does_not_hide_what_others_have(robustify, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('[{"question": "zebra', encoding="utf-8")
    defect = written(tmp_path / "defect.json", FIRES["R061"])
    ended = robustify("lint", "bad.json", defect, "gone.json")
    assert (ended.code, ended.out.count("R061")) == (3, 1)
    assert all(name in ended.err for name in ("bad.json:1", "gone.json"))
    assert "zebra" not in ended.err
    assert robustify("lint", "bad.json").out == ""


def test_no_form_shows_a_text(robustify, tmp_path: Path) -> None:
    texts = [(f"zebra {i}, never", f"zebra{i} of zebras", f"Zebra’s {i}.") for i in range(40)]
    rows = [(f"Which zebra is {i}?", of, i % 3) for i, of in enumerate(texts)]
    rows += [("Which zebra?", ("zebra", "zebra ", " zebra", "zebra\0"), 0)] * 2
    file = written(tmp_path / "quiz.json", rows)
    for form in ("text", "json", "sarif", "github"):
        ended = robustify("lint", file, "--format", form)
        assert ended.code == 7
        assert len(ended.out) > 500
        assert "zebra" not in (ended.out + ended.err).casefold()


def test_code_hosts_get_what_they_read(robustify, tmp_path: Path) -> None:
    file = written(tmp_path / "a,b:c%.json", [*FIRES["R012"], *FIRES["R061"]])
    other = written(tmp_path / "other.json", FIRES["R061"])
    notice, warning = robustify("lint", file.name, *ONLY, "--format", "github").out.splitlines()
    assert re.match("::notice file=a%2Cb%3Ac%25.json,line=2,title=R012::.* 257 %25 \\[", notice)
    assert warning.startswith("::warning file=a%2Cb%3Ac%25.json,line=")
    (log,) = json.loads(robustify("lint", file.name, other.name, *ONLY, "--format", "sarif").out)["runs"]
    assert [one["ruleId"] for one in log["results"]] == ["R012", "R061", "R061"]
    texts = {rule["id"]: rule["shortDescription"]["text"] for rule in log["tool"]["driver"]["rules"]}
    assert all(texts[code].casefold().endswith(f"fix: {RULES[code].fix}.") for code in ("R012", "R061"))
    assert log["results"][0]["level"] == "note"
    assert len({one["partialFingerprints"]["robustifyItem/v2"] for one in log["results"]}) == 3
    assert log["results"][2]["locations"][0]["physicalLocation"]["region"]["startLine"] == 2


def test_validate_asks_for_the_passages_of_translations(
    robustify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = DEPENDENT["four languages without shared letters"](120, np.random.default_rng(0)).items
    for named in (False, True):
        group = [f"p{int(item.stem.split()[-1]) % 30}" if named else "" for item in items]
        rows = [item_row(replace(item, group=g)) for item, g in zip(items, group, strict=True)]
        (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        told = json.loads(robustify("validate", "all.jsonl", "--json").out)["parallel_items"]
        assert (told > 100, told == 0) == (not named, named)
        said = f"{told} items look parallel: name their passage in a field `group`"
        assert (said in robustify("validate", "all.jsonl").out) is not named
    monkeypatch.setattr(relatives, "MOST_COMPARED", 119)
    assert json.loads(robustify("validate", "all.jsonl", "--json").out)["parallel_items"] is None
    assert "translations are not sought among so many items" in robustify("validate", "all.jsonl").out


def test_a_config_and_mapped_columns_are_read_as_validate_does(robustify, tmp_path: Path) -> None:
    lines = ("Frage,Erste,Zweite,Richtig", "Was ist 0,rot,rot,Erste", "Was ist 1,rot,rot,Erste")
    (tmp_path / "fragen.csv").write_text("\n".join(lines), encoding="utf-8")
    options = ("--map", "stem=Frage", "--map", "choices=Erste,Zweite", "--map", "key=Richtig")
    ended = robustify("lint", "fragen.csv", *options, "--select", "R061")
    assert [line.split(": ")[0] for line in ended.out.splitlines()] == ["fragen.csv:2", "fragen.csv:3"]
    robustify("init", "fragen.csv", *options, "-q")
    assert robustify("lint", "fragen.yaml", "--select", "R061").out == ended.out


def test_the_action_lints_without_a_config(tmp_path: Path) -> None:
    (tmp_path / "quizzes").mkdir()
    written(tmp_path / "quizzes" / "a.json", FIRES["R061"])
    done = step("lint", tmp_path, FILES="quizzes/*.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("::warning file=quizzes/a.json,line=2,title=R061::")
    assert outputs(tmp_path)["code"] == "7"
    for audit, lint, code in (("", "7", 7), ("", "", 0), ("0", "", 0), ("0", "7", 7), ("4", "7", 4)):
        assert step("verdict", tmp_path, CODE=audit, LINT=lint).returncode == code
    assert STEPS["audit"]["if"] == "inputs.config != ''"


@pytest.mark.parametrize("document", [
    {"questions": [], "more": [{"a": 1, "b": 2}]}, {"meta": {"questions": "no list"}, "quiz": {"questions": []}},
])  # fmt: skip
def test_items_inside_a_document_have_their_lines(
    robustify, tmp_path: Path, document: dict[str, Any]
) -> None:
    rows = [{"question": f"Which {i}?", "options": ["red", "tin", "tin"], "answer": "A"} for i in range(3)]
    inner = document.get("quiz", document)
    inner["questions"] = rows
    (tmp_path / "quiz.json").write_text(json.dumps(document, indent=2), encoding="utf-8")
    lines = (tmp_path / "quiz.json").read_text("utf-8").splitlines()
    out = robustify("lint", "quiz.json", "--select", "R061").out
    shown = [lines[int(line.split(":")[1])] for line in out.splitlines()]
    assert [json.loads(line.split(": ", 1)[1].rstrip(",")) for line in shown] == [r["question"] for r in rows]


def test_the_hook_takes_files_of_items_and_runs_this_command(robustify) -> None:
    *_, hook = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert (hook["id"], hook["entry"], hook["language"]) == ("robustify-lint", "robustify lint", "python")
    takes = re.compile(hook["files"])
    assert all(takes.search(name) for name in ("a/quiz_1.json", "questions.csv", "set/items.jsonl"))
    assert not any(takes.search(name) for name in ("package.json", "quiz/app.json", "data.csv", "quiz.py"))
