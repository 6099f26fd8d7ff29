"""Answers for item response models: what py-irt and mirt read is what the models got right."""

import json
from pathlib import Path

import pandas as pd
import pytest

from robustify.base.errors import AuthorisationError, DataError
from robustify.export.responses import export_responses
from robustify.pipeline.from_logs import import_logs
from robustify.reading.logs import LogPath
from robustify.runs.run import Run, open_run
from tests.support.fake_archives import openeval
from tests.support.fake_logs import boxes

REPLIES = {"alpha": ["A", "B", "C", "D", "A", "B"], "beta": ["A", "A", "not sure", "A", "A"]}


@pytest.fixture
def imported(tmp_path: Path) -> Run:
    (archive,) = openeval(tmp_path, boxes(), REPLIES)
    return import_logs([LogPath(archive)], tmp_path / "run")


def test_answers_are_written_for_py_irt_and_as_a_matrix(imported: Run, tmp_path: Path) -> None:
    paths = export_responses(imported, tmp_path / "irt")
    assert [path.name for path in paths] == ["py_irt.jsonlines", "responses.csv"]
    lines = [json.loads(line) for line in paths[0].read_text().splitlines()]
    items = list(imported.answers.items)
    assert lines == [
        {"subject_id": "alpha", "responses": dict.fromkeys(items, 1)},
        {"subject_id": "beta", "responses": dict(zip([items[at] for at in (0, 1, 3, 4)], (1, 0, 0, 1), strict=True))},
    ]  # fmt: skip
    matrix = pd.read_csv(paths[1], index_col="model")
    assert list(matrix.columns) == items
    assert list(matrix.index) == ["alpha", "beta"]
    assert matrix.loc["beta"].isna().tolist() == [False, False, True, False, False, True]
    assert matrix.sum(axis=1).tolist() == [6, 2]


def test_a_run_without_the_full_question_and_a_restricted_run_are_refused(
    tmp_path: Path, restricted: Path, imported: Run
) -> None:
    (archive,) = openeval(tmp_path / "again", boxes(), REPLIES)
    other = import_logs([LogPath(archive, view="choices_only")], tmp_path / "other")
    with pytest.raises(DataError, match="no model was asked the full question"):
        export_responses(other, tmp_path / "irt")
    with pytest.raises(AuthorisationError, match="restricted run"):
        export_responses(open_run(restricted / "out" / "run"), tmp_path / "irt")
    assert not (tmp_path / "irt").exists()
