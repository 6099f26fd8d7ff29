"""lighteval's details, from a made-up file of its shape: the package does not run as installed."""

from pathlib import Path

import pytest

from robustify.items.item import Item
from robustify.reading.logs import LogOptions, gather, read_log
from tests.support.fake_logs import boxes, lighteval_parquet, scores_for

PICKS = [0, 1, 1, 3, 2, 2]
FOLDER = Path("details") / "owner" / "name" / "2026-05-05T10-00-00.000000"
NAME = "details_community|boxes|0_2026-05-05T10-00-00.000000.parquet"


@pytest.mark.parametrize("letters", [True, False])
def test_picks_and_scores_are_those_of_the_log(tmp_path: Path, letters: bool) -> None:
    items = boxes(12)
    picks = PICKS * 2
    path = lighteval_parquet(tmp_path / FOLDER / NAME, items, scores_for(picks), letters=letters)
    log = read_log(path, LogOptions())
    assert {r.model for r in log.replies} == {"owner/name"}
    found = gather([log], None)
    # Its rows were written backwards; the items stand in the order of their numbers, 10 after 9.
    assert [(i.stem, i.choices, i.key) for i in found.items or ()] == [
        (i.stem, i.choices, i.key) for i in items
    ]
    block = found.answers.block("full" if letters else "cloze", "owner/name")
    assert block.scores.tolist() == scores_for(picks)
    if letters:
        assert block.pick.tolist() == picks
    else:
        alone = found.answers.block("choices_only_text", "owner/name")
        assert alone.scores.tolist() == [[-4.0, -5.0, -6.0, -7.0]] * 12


def test_items_whose_options_the_prompt_does_not_show_are_told_by_line(tmp_path: Path) -> None:
    item = Item("x", "Which letter?", ("a thing", "b thing"), 0)
    path = lighteval_parquet(tmp_path / NAME, [item], [[-1.0, -2.0]], letters=True)
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pq.read_table(path).to_pylist()
    rows[0]["doc"]["query"] = "Which letter?\nAnswer:"
    pq.write_table(pa.Table.from_pylist(rows), path)
    assert [
        (f.line, "has lines with their texts" in f.reason) for f in read_log(path, LogOptions()).faults
    ] == [(1, True)]


def test_a_row_without_finite_scores_is_unanswered(tmp_path: Path) -> None:
    scores = scores_for([0, 1])
    scores[1][2] = float("nan")
    path = lighteval_parquet(tmp_path / NAME, boxes(2), scores, letters=True)
    assert gather([read_log(path, LogOptions())], None).answers.table["pick"].to_pylist() == [0, None]


def lettered(tmp_path: Path, prompt: str, labels: list[str]) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the options, and the reasons of unreadable rows, of details whose prompts have this form."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    scored = [f" {label}" for label in labels]
    rows = [
        {
            "doc": {"query": prompt.format(at), "choices": scored, "gold_index": [1], "id": str(at)},
            "model_response": {"logprobs": [-1.0 - j for j in range(len(labels))]},
        }
        for at in range(3)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / NAME)
    log = read_log(tmp_path / NAME, LogOptions())
    assert {reply.view for reply in log.replies} <= {"full"}
    return [reply.item.choices for reply in log.replies], [fault.reason for fault in log.faults]


COLOURS = [(f"red {at}", f"green {at}", f"blue {at}") for at in range(3)]


@pytest.mark.parametrize(
    "lines",
    [
        "A: {}\nB: {}\nC: {}",
        "(A) {}\n(B) {}\n(C) {}",
        "A) {}\nB) {}\nC) {}",
        "A、{}\nB、{}\nC、{}",
        "- A: {}\n- B: {}\n- C: {}",
    ],
)
@pytest.mark.parametrize(
    "cue", ["Answer:", "\nAnswer:", "\nReply with one letter.\nAnswer:", "Answer with A, B, or C:"]
)
def test_options_may_be_labelled_in_any_dress(tmp_path: Path, lines: str, cue: str) -> None:
    shown = lines.format("red {0}", "green {0}", "blue {0}")
    found = lettered(tmp_path, f"Question: Which colour {{0}}?\n{shown}\n{cue}", list("ABC"))
    assert found == (COLOURS, [])


def test_an_option_may_have_several_lines(tmp_path: Path) -> None:
    shown = "A. red {0}\nand more\nB. green {0}\nand more\nC. blue {0}\nand more"
    found = lettered(tmp_path, f"Question: Which colour {{0}}?\n{shown}\nAnswer:", list("ABC"))
    assert found == ([tuple(f"{text}\nand more" for text in texts) for texts in COLOURS], [])
    uneven = "A. red {0}\nB. green {0}\nand more\nC. blue {0}"
    choices, _ = lettered(tmp_path, f"Question: Which colour {{0}}?\n{uneven}\nAnswer:", list("ABC"))
    assert choices == [(texts[0], f"{texts[1]}\nand more", texts[2]) for texts in COLOURS]
    _, reasons = lettered(tmp_path, f"Question: Which colour {{0}}?\n{uneven}\nSay which.", list("ABC"))
    assert ["end clearly" in reason for reason in reasons] == [True] * 3


def test_only_the_last_options_of_a_prompt_with_examples_count(tmp_path: Path) -> None:
    example = "Question: Which one?\nA. one\nB. two\nC. three\nAnswer: B\n\n"
    shown = "A. red {0}\nB. green {0}\nC. blue {0}"
    found = lettered(tmp_path, f"{example}Question: Which colour {{0}}?\n{shown}\nAnswer:", list("ABC"))
    assert found == (COLOURS, [])
