"""Files: whole writes, locks, bounded reads; and names from files that are no formula in a CSV."""

import contextlib
import csv
import errno
import os
from pathlib import Path

import numpy as np
import pytest

from robustify.base import files
from robustify.base.errors import ResourceError, UsageError
from robustify.base.files import neutral, original
from robustify.judging import Judgement
from robustify.judging.screen.consensus import Verdicts
from robustify.judging.summary.result import Summary
from robustify.pipeline.public import write_verdicts
from robustify.reading.guard import UNGUARDED
from robustify.runs.run import Run

FORMULAS = ["=1+1", "+1", "-1", "@x", "\t=1", "\r1", "\n1", "\uff1d1", "'=1", "''=1"]


def test_formula_like_ids_and_topics_are_quoted_in_verdicts_csv_and_read_back(tmp_path: Path) -> None:
    # Loaders refuse names with control characters, so none gets here.
    assert [original(neutral(text)) for text in FORMULAS] == FORMULAS
    plain = [formula for formula in FORMULAS if formula.isprintable()]
    topics = {f"{formula}#{i}": formula for i, formula in enumerate(plain)}
    path = tmp_path / "verdicts.csv"
    every = np.zeros(len(topics), dtype=np.int64)
    verdicts = Verdicts(tuple(topics), (("kept", 0, 2, "0 of 2"),), every)
    write_verdicts(path, Judgement(verdicts, {}, Summary.model_construct()), topics)
    with path.open(encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell[:1] in tuple("=+-@\t\r\n\uff1d")]
    assert Run(tmp_path, {"files": {"kept.jsonl": ""}}, UNGUARDED).topics == topics


def test_a_file_is_replaced_whole_or_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    files.write_atomic(path, b"old", private=True)
    assert path.stat().st_mode & 0o777 == 0o600
    with contextlib.suppress(RuntimeError), files.writing(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a", b"old")]


def test_a_page_that_does_not_fit_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, link = tmp_path / "a.html", tmp_path / "b.html"
    files.replace_text(page, "old")
    link.symlink_to(page)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResourceError) as error, files.writable(link, "choose another file"):
        files.replace_text(link, "new")
    assert error.value.code == "file-not-writable"
    assert files.MORE_SPACE in str(error.value)
    assert (page.read_text(), len(list(tmp_path.iterdir()))) == ("old", 2)
    with pytest.raises(ResourceError) as error, files.writable(link, "choose another file"):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    assert files.MORE_SPACE not in str(error.value)
    monkeypatch.undo()
    files.replace_text(link, "new")
    assert (page.read_text(), link.is_symlink()) == ("new", True)
    files.replace_text(Path(os.devnull), "gone")


def test_a_new_file_is_private_and_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "a"
    files.write_new(path, "text\n")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError) as error:
        files.write_new(path, "other")
    assert error.value.code == "file-exists"
    assert path.read_text() == "text\n"


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with files.locked(path, wait=False), pytest.raises(BlockingIOError), files.locked(path, wait=False):
        pass
    with files.locked(path, wait=True):
        pass


def test_only_a_regular_file_is_read_and_only_within_its_bound(tmp_path: Path) -> None:
    path, link, pipe = (tmp_path / name for name in ("a", "link", "pipe"))
    path.write_bytes(b"12345")
    link.symlink_to(path)
    os.mkfifo(pipe)
    assert files.read_regular(path, 5) == files.read_regular(link, 5, follow=True) == b"12345"
    for wrong, most, code in ((link, 9, errno.ELOOP), (pipe, 9, errno.EINVAL), (tmp_path, 9, errno.EINVAL),
                              (path, 4, errno.EFBIG)):  # fmt: skip
        with pytest.raises(OSError) as caught:  # noqa: PT011 - its number is asserted
            files.read_regular(wrong, most)
        assert caught.value.errno == code
