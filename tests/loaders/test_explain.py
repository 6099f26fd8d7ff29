"""`robustify validate --explain`: how a file was read, and three items as models will be asked them."""

import json
from pathlib import Path

import pytest

from robustify.ask import Asking, plan
from robustify.cli.data import explained
from robustify.item import Item
from robustify.loaders import FieldMap, Source, load
from robustify.run import write_items


def strange(path: Path) -> Path:
    rows = [
        {"frage": f"Which box {i}?", "a1": "red", "a2": "blue", "recht": "blue", "fach": "boxes"}
        for i in range(9)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_field_map_reads_a_layout_that_nobody_knows_and_is_told_back(tmp_path: Path) -> None:
    said = FieldMap(stem="frage", choices=("a1", "a2"), key="recht", topic="fach")
    loaded = load(Source(path=str(strange(tmp_path / "x.jsonl")), fields=said))
    (file,) = explained(loaded, Asking())["files"]
    assert file["fields"] == {"stem": "frage", "choices": ("a1", "a2"), "key": "recht", "topic": "fach"}
    assert file["key_forms"] == {"text": 9}
    assert {item.topic for item in loaded.items} == {"boxes"}


@pytest.mark.parametrize(
    ("row", "form"),
    [
        ({"question": "Which?", "choices": ["x", "y"], "answer": 1}, "number from 0"),
        ({"question": "Which?", "choices": ["x", "y"], "answer": "1"}, "number from 0"),
        ({"question": "Which?", "choices": ["x", "y"], "answer": "B"}, "letter"),
        ({"question": "Which?", "choices": ["x", "y"], "answer": "y"}, "text"),
        ({"question": "Which?", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "answerKey": "2"}, "label"),
    ],
)  # fmt: skip
def test_the_form_of_the_keys_is_told_as_it_was_read(
    tmp_path: Path, row: dict[str, object], form: str
) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    loaded = load(Source(path=str(tmp_path / "x.jsonl")))
    assert loaded.items[0].key == 1
    assert loaded.recognised[0].key_forms == {form: 1}


@pytest.mark.parametrize("shots", [0, 2])
def test_the_prompts_shown_are_those_that_a_run_would_ask(
    tmp_path: Path, toys: list[Item], shots: int
) -> None:
    write_items(tmp_path / "items.jsonl", toys)
    loaded = load(Source(path=str(tmp_path / "items.jsonl")))
    asking = Asking(shots=shots)
    shown = explained(loaded, asking)
    assert [row["item"] for row in shown["rows"]] == [toys[0].id, toys[4].id, toys[7].id]
    run = {(p.item.id, p.template.view, p.order): p.requests for p in plan(loaded.items, asking)}
    for row in shown["rows"]:
        assert [view["view"] for view in row["views"]] == list(asking.views)
        for view in row["views"]:
            requests = run[row["item"], view["view"], tuple(view["order"])]
            assert {request.context for request in requests} == {view["prompt"]}
            assert [request.continuation for request in requests] == view["continuations"]


def test_one_item_is_shown_once(tmp_path: Path, toys: list[Item]) -> None:
    write_items(tmp_path / "items.jsonl", toys[:1])
    assert len(explained(load(Source(path=str(tmp_path / "items.jsonl"))), Asking())["rows"]) == 1


def test_the_command_prints_prompts_on_stdout_and_one_object_with_json(
    robustify, tmp_path: Path, toys: list[Item]
) -> None:
    write_items(tmp_path / "items.jsonl", toys)
    code, out, _ = robustify("validate", "items.jsonl", "--explain")
    assert code == 0
    assert "items.jsonl: layout robustify; fields its own; keys: number from 0 (8)" in out
    assert "| Which box number 0 is meant?" in out
    assert "--- choices_only (d4-like-v1@" in out
    code, out, _ = robustify("validate", "items.jsonl", "--explain", "--json")
    assert len(json.loads(out)["explained"]["rows"]) == 3
    code, out, _ = robustify("validate", "items.jsonl")
    assert "Which box" not in out


def test_a_restricted_set_is_refused_before_its_file_is_opened(robustify, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "name: x\nsensitivity: restricted\ndata: not-there.jsonl\n", encoding="utf-8"
    )
    code, out, err = robustify("validate", "c.yaml", "--explain")
    assert (code, out) == (4, "")
    assert "--explain shows the text of public sets only" in err


def test_control_characters_of_an_item_do_not_reach_the_terminal(robustify, tmp_path: Path) -> None:
    row = {"id": "x", "stem": "Which \u001b[2J box?", "choices": ["a", "b"], "key": 0}
    (tmp_path / "x.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    _, out, _ = robustify("validate", "x.jsonl", "--explain")
    assert "\u001b" not in out
    assert "| Which ?[2J box?" in out
