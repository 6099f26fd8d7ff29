"""Files that are written at random, with known truth, are read as they were meant, or refused."""

from collections import Counter
from pathlib import Path

from tests.support.random_files import read_random_file


def test_no_random_file_is_read_wrongly(tmp_path: Path) -> None:
    read = [(seed, *read_random_file(seed, tmp_path)) for seed in (*range(150), 1124)]
    assert [one for one in read if one[2] == "wrong"] == []
    # A reader that refuses everything is never wrong.
    assert Counter(verdict for *_, verdict in read)["right"] >= 106
