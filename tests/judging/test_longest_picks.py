"""Share of picks that are the longest option."""

import numpy as np
import pytest

from robustify.answers import Answers
from robustify.baselines.heuristics import guess
from robustify.judging.context import Facts, Rules
from robustify.judging.judgement import judge
from tests.support.fake_answers import bench, items_of, rows
from tests.support.rules import unanimous
from tests.support.trees import measured


def test_the_share_of_picks_that_are_the_longest_option_is_that_of_the_texts() -> None:
    b = bench(120, 2, s=0.4, options=(4, 3), seed=5)
    items = items_of(b, cue=True)
    asked = Answers.of([*rows(b), *rows(b, view="full", template="mmlu-v1")])
    found = judge(Answers.concat([guess(items), asked]), Facts("made-up"), Rules(unanimous()), items)
    kept = np.array([verdict.verdict == "robust" for verdict in found.verdicts])
    for m, name in enumerate(b.voters):
        lengths = [list(map(len, item.choices)) for item in items]
        hit = np.array([own[pick] == max(own) for own, pick in zip(lengths, b.picks[:, m], strict=True)])
        parts = measured(found.summary, "longest_picks", name)
        assert [parts[part]["n"] for part in ("all", "kept")] == [120, kept.sum()]
        assert parts["all"]["value"] == pytest.approx(hit.mean())
        assert parts["kept"]["value"] == pytest.approx(hit[kept].mean())
        assert parts["all"]["chance"] is None


def test_without_texts_or_the_full_question_there_is_no_such_share() -> None:
    b = bench(30, 1, seed=5)
    for answers in (Answers.of(rows(b, view="full", template="mmlu-v1")), guess(items_of(b))):
        found = judge(answers, Facts("made-up"), Rules(unanimous()))
        assert measured(found.summary, "longest_picks", "v0") is None
