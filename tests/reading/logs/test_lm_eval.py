"""lm-eval's logs, of today and of its first versions: whose they are, how they were asked, what was picked."""

from pathlib import Path

import pytest

from robustify.items.item import Item
from robustify.items.orders import own
from robustify.items.views import View, names, template
from robustify.reading.logs import Log, LogOptions, read_log
from tests.support.cases import codes, refuses
from tests.support.fake_logs import boxes, jsonl, lm_eval_row, scores_for

DATE = "2026-07-09T22-44-17.123456"


def log_of(path: Path, rows: list[dict[str, object]], **wanted: object) -> Log:
    return read_log(jsonl(path, rows), LogOptions(**wanted))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "owner__name" / f"samples_boxes_{DATE}.jsonl"


def test_a_log_of_our_own_prompts_is_known_word_for_word(path: Path) -> None:
    items = boxes()
    for view in ("choices_only", "full", "cloze", "choices_only_text"):
        for name in names(view):
            rows = [ours(item, at, view, name) for at, item in enumerate(items)]
            log = log_of(path, rows)
            assert {(r.view, r.template) for r in log.replies} == {(view, name)}
            assert log.templates == {f"{view}/{name}": template(view, name).digest}
            assert codes(log.notes) == ["model-named-by-folder"]


def ours(item: Item, at: int, view: View, name: str) -> dict[str, object]:
    asked = template(view, name).requests(item, own(item.k))
    row = lm_eval_row(item, at, scores_for([0])[0], texts=not template(view, name).by_letter)
    pairs = {f"gen_args_{j}": {"arg_0": r.context, "arg_1": r.continuation} for j, r in enumerate(asked)}
    return {**row, "arguments": pairs}


def test_one_other_word_in_a_prompt_and_it_is_not_ours(path: Path) -> None:
    rows = [ours(item, at, "choices_only", "d4-like-v1") for at, item in enumerate(boxes())]
    rows[3]["arguments"]["gen_args_0"]["arg_0"] += " "
    log = log_of(path, rows)
    assert {(r.view, r.template) for r in log.replies} == {("choices_only", "lm-eval")}
    assert "view-without-question" in codes(log.notes)
    assert {r.view for r in log_of(path, rows, view="full").replies} == {"full"}
    assert {r.view for r in log_of(path, rows, view="choices_only").replies} == {"choices_only"}

    rows = [ours(item, at, "choices_only", "d4-like-v1") for at, item in enumerate(boxes())]
    with refuses("contradicted-view"):
        log_of(path, rows, view="full")
