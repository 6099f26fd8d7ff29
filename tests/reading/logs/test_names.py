"""Item text where a name should be, through a wrong column or in an odd log, never reaches a message or a note."""

import ast
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import RobustifyError
from robustify.items.item import Item
from robustify.reading.logs import Log, LogOptions, LogPath, gather, read_logs
from robustify.reading.logs.log import (
    checked_model_name,
    headings,
    listed,
    names_in,
    path_name,
    topics_in,
)
from robustify.reading.logs.tables.pick_tables import PARTS
from tests.support.cases import refuses
from tests.support.fake_logs import (
    inspect_sample,
    inspect_tree,
    jsonl,
    lm_eval_row,
    results,
    scores_for,
    written_row,
)

DATE = "2026-01-02T03-04-05.678"
TEXTS = ("zanzibar", "platypus", "quokka")
"""Words of every stem and every choice of the items below, and of nothing else."""
N = 14


def secret_items() -> list[Item]:
    return [
        Item(
            f"s{i}",
            f"Which zanzibar lies in the box with number {i} of the whole long row?",
            tuple(f"platypus {i}" if j % 2 else f"quokka-{i}-{j}" for j in range(4)),
            i % 4,
            "boxes",
        )
        for i in range(N)
    ]


PICKS = [i % 3 for i in range(N)]


def table(models: int = 2) -> list[dict[str, Any]]:
    return [
        {"id": i.id, "model": f"m{m}", "question": i.stem, "one": i.choices[0], "two": i.choices[1],
         "answer_text": i.choices[i.key], "choices": list(i.choices), "gold": "ABCD"[i.key], "pick": "ABCD"[p],
         "condition": "full", "subject": "boxes"}
        for m in range(models)
        for i, p in zip(secret_items(), PICKS, strict=True)
    ]  # fmt: skip


def said_of(paths: list[Path], options: LogOptions) -> str:
    """All that a message, a note or a run would print of these logs, except the items themselves."""
    try:
        logs: list[Log] = read_logs([LogPath(path) for path in paths], options)
    except RobustifyError as error:
        return str(error)
    said: list[object] = [[log.notes, log.facts, log.task, log.faults, log.templates] for log in logs]
    said += [{reply.model for reply in log.replies} for log in logs]
    try:
        found = gather(logs, None)
    except RobustifyError as error:
        return str([*said, str(error)])
    return str([*said, found.notes, set(found.topics.values()), found.set_aside, found.answers.askings()])


def words_of_items(said: str) -> list[str]:
    return [word for word in TEXTS if word in said]


@pytest.mark.parametrize("models", [1, 2])
def test_a_wrong_column_shows_no_text_of_an_item(tmp_path: Path, models: int) -> None:
    rows = table(models)
    path = jsonl(tmp_path / "picks.jsonl", rows)
    for part in (p for p in PARTS if p not in ("first", "key_is")):
        for column in rows[0]:
            for skip_bad in (False, True):
                said = said_of([path], LogOptions(columns={part: column}, skip_bad=skip_bad))
                assert not words_of_items(said), (part, column)


def leaves(node: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else None
    if inner is None:
        yield at
        return
    for step, value in inner:
        yield from leaves(value, (*at, step))


def put(tree: Any, at: tuple[str | int, ...], text: str, *, as_key: bool) -> None:
    for step in at[:-1]:
        tree = tree[step]
    if as_key and isinstance(tree, dict):
        tree[text] = tree.pop(at[-1])
    else:
        tree[at[-1]] = text


def lm_eval_rows(**more: Any) -> list[dict[str, Any]]:
    pairs = zip(secret_items(), scores_for(PICKS), strict=True)
    return [lm_eval_row(item, at, scores, **more) for at, (item, scores) in enumerate(pairs)]


def in_lm_eval_rows(folder: Path, as_key: bool) -> Iterator[tuple[object, Path]]:
    rows = lm_eval_rows()
    rows += [written_row(item, at, "A", "get", 0.0) for at, item in enumerate(secret_items())]
    for at in leaves(rows[0]):
        changed = copy.deepcopy(rows)
        for row, item in zip(changed, secret_items(), strict=False):
            put(row, at, item.stem, as_key=as_key)
        yield at, jsonl(folder / "one" / "samples_boxes.jsonl", changed)


def in_a_results_file(folder: Path, as_key: bool) -> Iterator[tuple[object, Path]]:
    log = jsonl(folder / "m" / f"samples_boxes_{DATE}.jsonl", lm_eval_rows())
    beside = results(log.parent, DATE, "boxes", "one", N)
    tree = json.loads(beside.read_text())
    for at in leaves(tree):
        changed = copy.deepcopy(tree)
        put(changed, at, secret_items()[0].stem, as_key=as_key)
        beside.write_text(json.dumps(changed))
        yield at, log


def in_an_inspect_log(folder: Path, as_key: bool) -> Iterator[tuple[object, Path]]:
    other = {"value": "C", "answer": "A"}
    samples = [inspect_sample(i, "ABCD"[p]) for i, p in zip(secret_items(), PICKS, strict=True)]
    samples = [{**s, "scores": {"judge": s["scores"]["choice"], "other": dict(other)}} for s in samples]
    tree, path = inspect_tree(samples), folder / "a.json"
    for at in leaves({**tree, "samples": samples[:1]}):
        changed = copy.deepcopy(tree)
        of_a_sample = at[0] == "samples"
        for n, item in enumerate(secret_items() if of_a_sample else secret_items()[:1]):
            put(changed, ("samples", n, *at[2:]) if of_a_sample else at, item.stem, as_key=as_key)
        path.write_text(json.dumps(changed))
        if at[:2] != ("eval", "dataset"):
            yield at, path


@pytest.mark.parametrize("as_key", [False, True])
@pytest.mark.parametrize("wanted", [None, "nothing"])
@pytest.mark.parametrize("places", [in_lm_eval_rows, in_a_results_file, in_an_inspect_log])
def test_text_in_any_place_of_a_log_is_not_shown(
    tmp_path: Path,
    places: Callable[[Path, bool], Iterator[tuple[object, Path]]],
    as_key: bool,
    wanted: str | None,
) -> None:
    for at, path in places(tmp_path, as_key):
        for skip_bad in (False, True) if places is in_lm_eval_rows else (True,):
            assert not words_of_items(said_of([path], LogOptions(filter=wanted, skip_bad=skip_bad))), at


# The check itself


def test_nothing_but_the_check_makes_a_name() -> None:
    """mypy demands a `Name` where names are printed; a cast or a call elsewhere would go around it."""
    package = Path(__file__).parents[3] / "robustify"
    for path in package.rglob("*.py"):
        if path.name == "log.py" or "Name" not in path.read_text(encoding="utf-8"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                made = isinstance(node.func, ast.Name) and node.func.id == "Name"
                cast = ast.unparse(node.func).endswith("cast") and "Name" in ast.unparse(node)
                assert (made, cast) == (False, False), (path, node.lineno)


def test_a_name_is_in_more_rows_than_there_are_names() -> None:
    assert set(names_in(["a b", "c"] * 2)) == {"a b", "c"}
    assert names_in([str(n) for n in range(9)] * 8) == {}
    assert set(names_in([str(n) for n in range(9)] * 9)) == {str(n) for n in range(9)}
    assert set(topics_in([f"topic {n}" for n in range(20)] * 2)) == {f"topic {n}" for n in range(20)}
    assert topics_in([f"topic {n}" for n in range(20)] * 2, each=2) == {}
    assert set(topics_in(["a", "b", "c"])) == {"a", "b", "c"}


def test_what_is_no_name_is_counted_and_not_listed() -> None:
    known = names_in(["a", "b"])
    assert listed(["a", "b", "a text"], known) == "a, b, 1 more"
    assert listed(["a text"], known) == "1 (not shown)"
    assert listed([], known) == "none"
    assert headings(["model", "the key"]).keys() == {"model", "the key"}
    assert headings(["model", "a head of four words"]) == {}
    assert path_name("My Runs|5") == "My-Runs-5"
    with refuses("invalid-model-name"):
        checked_model_name("one two three four five six seven eight nine")
