"""Models and people against second keys: who overrules whom, and what is counted."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from robustify.composing import consulting
from robustify.composing.consulting import Consulted, Consulting, consulted
from robustify.composing.pool import Pool
from robustify.composing.review import Votes, code_of
from robustify.items.answers import Answers
from robustify.models.asking import Asking, ask, plan
from robustify.models.engines.settings import HFModel
from robustify.pipeline.asked import unwatched
from tests.composing.test_right_answers import SECOND, knows, pools
from tests.support.fake_scorer import FakeScorer


def consult(
    some: tuple[Pool, ...], model: FakeScorer | None, votes: Votes, tmp_path: Path, **how: Any
) -> Consulted:
    @contextmanager
    def opened(*_: object) -> Iterator[Any]:
        yield model

    models = (HFModel(name="m"),) if model else ()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consulting, "open_scorer", opened)
        patch.setattr(consulting, "check_model", lambda *_: {})
        return consulted(
            some, lambda _: some, (3, 3), Consulting(models=models, votes=votes, **how), tmp_path, unwatched
        )


def votes_on(some: tuple[Pool, ...], text: str, *verdicts: str) -> Votes:
    return {code_of(some[SECOND].item, text): {f"rater {n}": said for n, said in enumerate(verdicts)}}


CASES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "nobody doubts": ("", (), ()),
    "a model doubts": ("extra 5 1", (), ("second_key",)),
    "people overrule the model": ("extra 5 1", ("wrong", "wrong"), ()),
    "people agree with the model": ("extra 5 1", ("right too",), ("right_too",)),
    "people alone": ("", ("right too",), ("right_too",)),
    "people differ": ("", ("right too", "wrong"), ("unclear",)),
}  # fmt: skip


@pytest.mark.parametrize(("preferred", "verdicts", "aside"), CASES.values(), ids=CASES)
def test_people_overrule_models(
    preferred: str, verdicts: tuple[str, ...], aside: tuple[str, ...], tmp_path: Path
) -> None:
    some = pools()
    found = consult(some, knows(preferred), votes_on(some, "extra 5 1", *verdicts), tmp_path)
    assert found.pools[SECOND].aside == aside
    assert ("extra 5 1" in found.pools[SECOND].texts) == (not aside)
    assert sum(len(pool.aside) for pool in found.pools) == len(aside)
    assert [check.voices for check in found.checks] == [(preferred or "m",)]
    assert sum(found.review.verdicts.values()) == bool(verdicts)


def test_a_run_is_asked_nothing_and_its_second_keys_count(tmp_path: Path) -> None:
    some = pools()
    items = [pool.item for pool in some]
    answers = Answers.of(ask(plan(items, Asking(views=("full",))), knows("wrong 5")))
    found = consult(some, None, {}, tmp_path, run=(items, answers))
    assert found.pools[SECOND].aside == ("second_key",)
    assert "wrong 5" not in found.pools[SECOND].texts
