"""What the explorer knows of the askings: each answer as the table has it, and nothing of a restricted set."""

import json
import math
from pathlib import Path

import pytest

from robustify.items.answers import Answers, Asked, answer, unanswered
from robustify.items.item import Item
from robustify.items.views import VIEWS, names, template
from robustify.report.explorer import Transcript, askings
from robustify.runs.run import EXPLORER
from tests.report.explorer_islands import read_island
from tests.restricted.conftest import world
from tests.restricted.world import MODELS, World
from tests.support import exported_run, restricted_set

__all__ = ["world"]
ITEMS = [Item(f"i{at}", f"Which is {at}?", ("red", "green", "blue"), at % 3) for at in range(4)]
DIGESTS = {f"{view}/{name}": template(view, name).digest for view in VIEWS for name in names(view)}


def asked(at: int, view: str, model: str, order: tuple[int, ...] = (0, 1, 2)) -> Asked:
    words = {"choices_only": "d4-like-v1", "full": "mmlu-v1", "cloze": "qa-v1"}[view]
    return Asked(f"i{at}", view, model, order, words, at % 3)


def test_each_answer_is_there_as_the_table_has_it() -> None:
    logs = [math.log(p) for p in (0.1, 0.7, 0.2)]
    rows = [
        answer(asked(0, "choices_only", "a", (2, 0, 1)), logs),
        answer(asked(0, "choices_only", "a", (0, 1, 2)), logs),
        answer(asked(1, "choices_only", "a"), [math.log(x / 6.5) for x in (0.5, 4.5, 1.5)], draws=5),
        answer(asked(0, "choices_only", "b", (2, 0, 1)), [0.0, 0.0, -9.0]),
        unanswered(asked(1, "choices_only", "b"), "no_letter_in_replies"),
        answer(asked(2, "cloze", "b"), [-9.0, -5.0, -20.0], [-3.0, -1.0, -5.0], n_chars=[3, 5, 4]),
    ]
    found = askings(Transcript(Answers.of(rows), DIGESTS), ITEMS, (0, 1, 2))
    letters, cloze = found["askings"]
    assert (letters["label"], letters["models"], letters["orders"]) == (
        "Without the question, by letter",
        ["a", "b"],
        2,
    )
    assert (letters["chat"], cloze["chat"], cloze["by"]) == (["a"], [], "text")
    assert [one[0] for one in found["asked"]] == [
        [[2, 0, 1], [1, 70], -2],
        [0, [1, 4, 5], "no letter in replies"],
        [],
    ]
    assert found["asked"][2][1] == [0, [1, round(100 * math.exp(-1))]]


@pytest.mark.parametrize(
    ("digests", "known"),
    [(DIGESTS, True), ({}, False), ({"choices_only/d4-like-v1": "0" * 64}, False)],
)
def test_a_prompt_is_shown_only_if_its_template_is_that_of_the_run(
    digests: dict[str, str], known: bool
) -> None:
    rows = [answer(asked(0, "choices_only", "a"), [0.0, -1.0, -2.0])]
    found = askings(Transcript(Answers.of(rows), digests), ITEMS, (0,))
    assert (found["askings"][0]["prompt"] is not None) is known


def test_examples_that_are_not_on_the_page_are_not_made_up() -> None:
    rows = [answer(asked(at, "full", "a"), [0.0, -1.0, -2.0]) for at in range(4)]
    record = Transcript(Answers.of(rows), DIGESTS, shots=2)
    assert askings(record, ITEMS, (0, 1, 2, 3))["examples"] == 2
    assert askings(record, ITEMS, (0, 2, 3))["examples"] is None


def test_an_imported_run_shows_what_was_picked_without_a_prompt(tmp_path: Path) -> None:
    run = exported_run.made_run(tmp_path)
    tree = read_island((run.folder / EXPLORER).read_text("utf-8"))
    assert [(one["prompt"], one["models"]) for one in tree["askings"]] == [(None, ["one", "two"])]
    for row, (at, item) in zip(tree["items"], enumerate(run.items), strict=True):
        pick = exported_run.voted(at, item)
        assert row["asked"][0][1] == ("empty" if pick is None else [pick])


PROMPT = b"multiple choice questions (with answers)"
"""Words of a template, which only the tasks of a restricted run contain."""
STAGES = (
    ("run", "mock.yaml", "--set", "explore=true", "-o", "RUN"),
    ("judge", "RUN", "--set", "explore=true"), ("judge", "RUN", "--set", "explore=true", "-o", "OUT"),
    ("judge", "RUN", "--set", "sensitivity=public"), ("judge", "RUN", "--set", "adapter=null", "--set", "explore=true"),
    ("report", "RUN"), ("explain", "RUN"), ("explain", "RUN", "--csv"), ("compare", "RUN", "RUN", "--html", "c.html"),
    ("dashboard", "OUT", "-o", "d.html"), ("run", "mock.yaml", "--public", "-o", "RUN"),
)  # fmt: skip


def test_no_way_to_print_a_restricted_run_makes_an_explorer_or_a_prompt(world: World) -> None:
    world.write("mock.yaml", f"name: mock\nadapter: {restricted_set.ADAPTER}\nexplore: true\n{MODELS}")
    world.audited()
    for stage in STAGES:
        world.call(*stage)
    # A run's manifest says that it is restricted; somebody edits that, and asks for the pages once more.
    manifest = world.run / "run.json"
    tree = json.loads(manifest.read_text("utf-8"))
    for edit in (
        {"sensitivity": "public"},
        {"config": {**tree["config"], "sensitivity": "public", "explore": True}},
    ):
        manifest.write_text(json.dumps({**tree, **edit}), "utf-8")
        for stage in STAGES[1:7]:
            world.call(*stage)
    written = [
        path for path in world.base.rglob("*") if path.is_file() and world.base / "data" not in path.parents
    ]
    assert len(written) > 10
    assert [path for path in written if path.name == EXPLORER or "explorer" in path.name] == []
    pages = [path for path in written if "lm_eval_tasks" not in path.parts]
    assert any(path.suffix == ".html" for path in pages)
    assert [path for path in pages if any(word in path.read_bytes() for word in (PROMPT, b"askings"))] == []
