"""Free response of a restricted set: inside its run alone, on this machine, with nothing of it on disk but numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from robustify.freeform.llm_judge.judges import Call, Completion, HttpJudge
from robustify.items.prompt_templates import Message
from robustify.judging import Judgement
from robustify.pipeline import steps
from tests.freeform.scripted import run as command
from tests.support import restricted_run
from tests.support.cases import refuses
from tests.support.fake_logs import jsonl
from tests.support.restricted_set import canaries, items
from tests.support.trees import measured

N = 60
SECRET = "zanzibar"
"""A word that every answer has, and that must be nowhere on disk."""


def taken(folder: Path, patch: pytest.MonkeyPatch, free: dict[str, Any]) -> Judgement:
    """How the run of the mock set with this block was judged."""
    seen: list[Judgement] = []
    real, opened = steps.judge_input, restricted_run.Stub

    def judged(*words: Any) -> Judgement:
        seen.append(real(*words))
        return seen[-1]

    def write(self: Any, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        return [f"I think of {SECRET}" for _ in prompts]

    patch.setattr(opened, "write", write, raising=False)
    patch.setattr(steps, "judge_input", judged)
    out = restricted_run.prepare(folder, patch, N)
    restricted_run.run(folder, out / "run", restricted_run.config(free=free))
    return seen[0]


@pytest.fixture
def mock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tmp_path.chmod(0o700)

    def complete(self: HttpJudge, messages: Sequence[Message], call: Call) -> Completion:
        return Completion('{"verdict": "incorrect"}')

    monkeypatch.setattr(HttpJudge, "complete", complete)
    return tmp_path


def test_the_numbers_are_judged_and_no_row_is_written(mock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = {"model": "big", "base_url": "http://127.0.0.1:9/v1"}
    judgement = taken(mock, monkeypatch, {"judge": judge})
    coverage = measured(judgement.summary, "free_coverage", restricted_run.NAMES[0])["all"]
    assert (coverage["n"] > 10, coverage["value"]) == (True, 1.0)
    files = [p for p in mock.rglob("*") if p.is_file() and "data" not in p.relative_to(mock).parts[0]]
    assert files
    words = [SECRET.encode(), *(word.encode() for word in canaries(items(N)))]
    assert [path for path in files if any(word in path.read_bytes() for word in words)] == []
    assert not [path for path in files if path.name in ("free.jsonl", "replies.sqlite")]


def test_a_judge_elsewhere_is_refused(mock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refuses("judge-elsewhere"):
        taken(mock, monkeypatch, {"judge": {"model": "big", "base_url": "https://api.example.org/v1"}})


def test_rows_that_are_called_like_a_restricted_set_are_not_graded_by_a_command(mock: Path) -> None:
    rows = [
        {"id": i, "question": row["question"], "options": row["choices"]} for i, row in enumerate(items(N))
    ]
    path = jsonl(
        mock / "wmdp-bio.jsonl", [{"type": "mcq", "answer": "A", "text": "x", **row} for row in rows]
    )
    found = command("grade", path, "-o", mock / "graded", fails=4)
    assert not (mock / "graded").exists()
    assert not [word for word in canaries(items(N)) if word in str(found.exception)]
