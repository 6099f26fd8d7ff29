"""Questions inferred from the choices: asked, likened to the real ones, and split among what is flagged."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from robustify.items.answers import Answer, Answers
from robustify.items.item import Item
from robustify.judging.audit.people import agreement_with_people
from robustify.judging.text_overlap import likeness_by_words
from robustify.models.replies import Replies
from robustify.pipeline.config import Inferring
from robustify.pipeline.inferred_questions import compare_inferred, infer_questions
from robustify.pipeline.steps import rejudge
from robustify.report.explaining import evidence_of, explained
from robustify.runs.run import Run
from tests.support.cases import refuses
from tests.support.exported_run import made_run, made_up, renewed
from tests.support.fake_scorer import FakeWriter


def with_answers(run: Run, more: Iterable[Answer]) -> Run:
    """The run judged again, as if it had these answers too."""
    Answers.concat([run.answers, Answers.of(more)]).write(run.folder / "answers.parquet")
    return rejudge(renewed(run.folder, "answers.parquet"), {}, run.folder)


ITEMS = [
    Item("a", "Which bird swims?", ("duck", "wren"), 0),
    Item("b", "Which tool cuts?", ("saw", "glue"), 0),
]


def test_a_model_sees_the_choices_alone_and_is_asked_once(tmp_path: Path) -> None:
    author = FakeWriter(lambda _: "\n Which bird swims?\nand more", "author")
    for _ in range(2):
        with Replies(tmp_path) as kept:
            found = infer_questions(author, Inferring(), ITEMS, kept)
    assert found == {"author": {"a": "Which bird swims?", "b": "Which bird swims?"}}
    assert (len(author.asked), author.most) == (2, 40)
    assert "- duck\n- wren\n" in author.asked[0]
    assert not any(item.stem in prompt for item in ITEMS for prompt in author.asked)


def test_only_models_that_are_named_write_and_one_that_cannot_is_refused() -> None:
    with Replies(None) as kept:
        assert infer_questions(FakeWriter(str), Inferring(models=("other",)), ITEMS, kept) == {}
        assert infer_questions(object(), Inferring(), ITEMS, kept) == {}
        scorer = type("Scorer", (), {"name": "s"})()
        with refuses("engine-cannot-generate"):
            infer_questions(scorer, Inferring(models=("s",)), ITEMS, kept)


def test_words_in_common_make_questions_alike(tmp_path: Path) -> None:
    assert likeness_by_words("Which bird swims?", "which BIRD swims") == 1
    assert likeness_by_words("Which bird swims?", "Which bird is that?") == pytest.approx(2 / 3)
    assert likeness_by_words("Which bird?", "Name a tool") == 0
    rows = list(
        compare_inferred(ITEMS, {"m": {"a": "Which bird swims?"}, "n": {"a": "A tool."}}, tmp_path, keep=True)
    )
    assert [(row.model, row.item, row.correct, row.error) for row in rows] == [
        ("m", "a", 1.0, None), ("m", "b", None, "no_question"), ("n", "a", 0.0, None), ("n", "b", None, "no_question"),
    ]  # fmt: skip


def test_flagged_items_are_split_into_inferred_and_given_away(tmp_path: Path) -> None:
    texts = {i.id: "Something else?" if int(i.id[1:]) % 2 else i.stem for i in made_up() if i.id != "i5"}
    run = with_answers(made_run(tmp_path), compare_inferred(made_up(), {"m": texts}, tmp_path, keep=True))
    found = run.summary.inference
    flagged = [item for item, verdict in run.verdicts.items() if verdict == "flagged" and item != "i5"]
    even = [item for item in flagged if int(item[1:]) % 2 == 0]
    assert (found.by, found.flagged.n, found.unasked) == ("words", len(flagged), 1)
    assert found.flagged.value == pytest.approx(len(even) / len(flagged))
    assert f'{len(even)} are "question inferred"' in " ".join(
        (run.folder / "report.html").read_text().split()
    ).replace("&#34;", '"')
    rows = {row["item"]: row for row in evidence_of(run)}
    assert (rows["i0"]["likeness"], rows["i0"]["inferred"]) == ({"words": 1.0}, True)
    assert (rows["i5"]["likeness"], rows["i5"]["inferred"]) == ({"words": None}, None)
    assert 0 < rows["i0"]["p_key"] < 1
    assert any("by words: 1.00" in line for line in explained(run, "i0")[1])
    island = (run.folder / "explorer.html").read_text()
    assert '"inferred":true' in island
    assert "Something else" not in island
    again = rejudge(run, {"screen.criterion": "majority"}, tmp_path / "again").summary.inference
    assert again.unasked == 1


def test_people_s_labels_are_ranked_by_likeness_and_by_the_probability_of_the_key() -> None:
    row = {"verdict": "kept"}
    likeness = [1, 0.75, 0.5, None, 0]
    rows = [
        {**row, "item": str(n), "p_key": n / 10, "likeness": {"words": at}} for n, at in enumerate(likeness)
    ]
    found = agreement_with_people(rows, {str(at): at >= 2 for at in range(5)})["rankings"]
    assert found["p_key"]["auroc"]["value"] == 1
    inferred = found["not_inferred_by_words"]["auroc"]
    assert (inferred["value"], inferred["n"]) == (1, 4)
