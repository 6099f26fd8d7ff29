"""Cloze: every exclusion has its reason, every normalisation its formula, every tie its fair credit."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from robustify.items.answers import Answers, Asked, Block, answer, unanswered
from robustify.items.item import Item
from robustify.items.scoring import Norm, best, credit, normalised, picks
from robustify.judging.cloze import ClozeSettings, Profile, cloze_labels, excluded, exclusion
from tests.support.cases import cases, refuses

PLAIN = ("red", "green", "blue", "grey")
PROFILES: tuple[Profile, ...] = ("cross-ref", "strict", "labels")


def item(
    stem: str = "What colour is grass?", choices: Sequence[str] = PLAIN, key: int = 1, name: str = "i"
) -> Item:
    return Item(name, stem, tuple(choices), key)


@pytest.mark.parametrize("profile", PROFILES)
def test_what_cannot_be_scored_is_out_in_every_profile(profile: Profile) -> None:
    labels = {"i": False}
    assert exclusion(item(), profile, labels) is None
    assert exclusion(item(choices=("red", " ", "blue")), profile, labels) == "empty_choice"
    assert exclusion(item(choices=("red", "green ", "green", "grey")), profile, labels) == "repeated_key_text"
    assert exclusion(item(choices=("red", "green", "blue", "Blue")), profile, labels) is None


@pytest.mark.parametrize("choice", chain.from_iterable(cases("judging", "choices_about_choices")))
def test_choices_that_speak_of_choices(choice: str) -> None:
    one = item(choices=("red", "green", "blue", choice), key=0)
    assert exclusion(one, "cross-ref") == exclusion(one, "strict") == "cross_reference"


@pytest.mark.parametrize("choice", chain.from_iterable(cases("judging", "choices_that_only_look_so")))
def test_choices_that_only_look_so(choice: str) -> None:
    assert exclusion(item(choices=("red", "green", "blue", choice), key=0), "cross-ref") is None


@pytest.mark.parametrize(("stem", "reason"), cases("judging", "stems_of_the_strict_profile"))
def test_the_strict_profile(stem: str, reason: str | None) -> None:
    assert exclusion(item(stem), "strict") == reason
    listed = ("Which of the following is green?", "Rain fell all night. Which of these is wet?")
    assert exclusion(item(stem), "cross-ref") == ("stem_refers_to_choices" if stem in listed else None)


def labels_file(folder: Path, text: str) -> str:
    path = folder / "labels.jsonl"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_labels_decide_and_else_the_profile_gives_its_reasons_by_id(tmp_path: Path) -> None:
    path = labels_file(
        tmp_path,
        '{"id": "a", "is_mcqa_only": true}\n\n{"id": "b", "is_mcqa_only": false, "reasoning": "x"}\n',
    )
    items = [item(name="a"), item(name="b", choices=("red", "green", "All of the above"))]
    labelled = ClozeSettings(profile="labels", labels=path)
    assert excluded(items, labelled) == {"a": "labelled"}
    items.append(item(name="c", choices=("x", "")))
    assert excluded(items, ClozeSettings()) == {"b": "cross_reference", "c": "empty_choice"}
    with refuses("unlabelled-items"):
        excluded(items, labelled)


def test_faulty_labels_are_refused_all_at_once_and_missing_ones_as_a_usage_error(tmp_path: Path) -> None:
    path = labels_file(
        tmp_path, '{"id": "a", "is_mcqa_only": true}\n{"id": "b"}\nnope\n{"id": "a", "is_mcqa_only": false}\n'
    )
    with refuses("invalid-decision", "invalid-decision", "repeated-label") as error:
        cloze_labels(Path(path))
    assert [line.split(": ")[0].rsplit(":", 1)[1] for line in error.value.lines] == ["2", "3", "4"]
    with refuses("no-such-file"):
        cloze_labels(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    "tree", [{"profile": "labels"}, {"labels": "x.jsonl"}, {"profile": "lax"}, {"profil": "strict"}]
)
def test_settings_that_contradict_themselves_are_refused(tree: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        ClozeSettings.model_validate(tree)


def block(view: str = "cloze") -> Block:
    rows = [
        answer(Asked("a", "cloze", "m", (0, 1), "qa-v1", 0), [-4.0, -6.0],
               n_chars=[2, 6], n_bytes=[4, 6], n_tokens=[1, 3]),
        answer(Asked("b", "cloze", "m", (0, 1, 2), "qa-v1", 2), [-3.0, -2.0, -9.0],
               n_chars=[1, 1, 9], n_bytes=[1, 1, 9], n_tokens=[1, 1, 3]),
        unanswered(Asked("c", "cloze", "m", (0, 1), "qa-v1", 0), "too long"),
        answer(Asked("b", "choices_only_text", "m", (0, 1, 2), "answer-v1", 2), [-3.0, -1.0, -9.5]),
        answer(Asked("a", "choices_only_text", "m", (0, 1), "answer-v1", 0), [-5.0, -6.5]),
    ]  # fmt: skip
    return Answers.of(rows).block(view, "m")


@pytest.mark.parametrize(("norm", "expected"), cases("judging", "cloze_norms"))
def test_each_normalisation_by_hand(norm: Norm, expected: list[list[float]]) -> None:
    found = normalised(block(), norm, block("choices_only_text"))
    assert found[:2] == pytest.approx(np.array(expected, dtype=float), nan_ok=True)
    assert np.isnan(found[2]).all()


def test_pmi_without_its_other_half_is_absent() -> None:
    assert np.isnan(normalised(block(), "pmi", None)).all()
    empty = block("choices_only_text").where(np.zeros(2, dtype=bool))
    assert np.isnan(normalised(block(), "pmi", empty)).all()
    only_b = block("choices_only_text").where(np.array([True, False]))
    assert np.isnan(normalised(block(), "pmi", only_b)[0]).all()


def test_credit_by_hand() -> None:
    scores, key, k, *expected = map(np.array, zip(*cases("judging", "credit_of_scores"), strict=True))
    found = picks(scores, key, k)
    for column, wanted in zip(found, expected, strict=True):
        assert column == pytest.approx(wanted, nan_ok=True)
    each = credit(np.stack([best(scores, k)] * 2, axis=1), key)
    assert np.array_equal(each, np.column_stack([found[0]] * 2), equal_nan=True), "of many voters as of one"
    assert np.isnan(credit(np.zeros((2, 0), dtype=bool), np.array([-1, -1]))).all()
