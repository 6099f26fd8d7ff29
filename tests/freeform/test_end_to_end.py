"""End to end with a real model: SmolLM2 answers 20 demo items in words, rules grade, and a made-up judge does the rest."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from robustify.freeform.grade.graders import grade_answers
from robustify.freeform.llm_judge.judges import CachedJudge
from robustify.freeform.metrics import summarise
from robustify.freeform.prompt_templates import Message
from robustify.freeform.questions import convert_item, generate
from robustify.freeform.settings import FreeSettings
from robustify.models.replies import Replies
from robustify.reading.loaders import Source, load
from tests.freeform.scripted import ScriptedJudge
from tests.support.model_cache import hf, model_folder

pytestmark = [pytest.mark.slow, pytest.mark.model]

ROOT = Path(__file__).parents[2]
N = 20


def by_length(messages: Sequence[Message]) -> str:
    """A judge that needs no model: every third prompt by its length is right, one in seven unreadable at first."""
    size = sum(len(m.content) for m in messages if m.role != "assistant")
    if size % 7 == 0 and len(messages) == 2:
        return "I think so."
    return json.dumps({"reasoning": "by length", "verdict": "correct" if size % 3 == 0 else "incorrect"})


def test_a_real_model_answers_and_is_graded(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")

    loaded = load(Source(path=str(ROOT / "configs" / "data" / "benign_demo.jsonl")))
    items = [item for item in map(convert_item, loaded.items) if not item.excluded_reason][:N]
    with hf(model_folder("smollm2-135m"), name="smollm2-135m") as model, Replies(tmp_path) as kept:
        rows = generate(items, model, FreeSettings(max_tokens=12), kept)
    assert [row.item_id for row in rows] == [item.id for item in items]
    assert all(row.text.strip() for row in rows)
    # Twelve tokens are enough for some answers and not for others, and the engine says for which.
    assert {row.finish_reason for row in rows} == {"stop", "length"}
    plain = grade_answers(items, rows, FreeSettings(mode="deterministic"))
    left = [g for g in plain if g.status == "needs_judge"]
    assert left, "the rules decided everything: nothing is left for the judge"
    with Replies(tmp_path) as kept:
        judge = CachedJudge(ScriptedJudge(by_length, name="by-length"), kept)
        grades = grade_answers(items, rows, FreeSettings(), judge)
        assert (
            grade_answers(items, rows, FreeSettings(), CachedJudge(ScriptedJudge([], "by-length"), kept))
            == grades
        )
    assert [g.method for g in grades].count("judge") == len(left)
    unscored = [g for g in grades if g.score is None]
    assert {g.status for g in unscored} == {"truncated"}
    for before, after in zip(plain, grades, strict=True):
        assert before.status == "needs_judge" or before.score == after.score
    told = summarise(items, grades)["models"]["smollm2-135m"]["all"]
    n = N - len(unscored)
    assert (told["n"], told["accuracy"]["n"], told["coverage"]["value"]) == (N, n, n / N)
    assert told["by_judge"]["value"] == len(left) / n
