"""Codes of errors and notes: what they keep when words change, and how commands show them."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from robustify.base.errors import DataError, Notice, RequestError, notice_code
from tests.support.cases import cases


def test_a_notice_is_its_text_and_keeps_its_code_in_copies() -> None:
    notice = Notice("two words", code="two-words")
    assert notice == "two words"
    assert notice_code(copy.deepcopy(notice)) == "two-words"
    assert notice_code("two words") == ""


def test_an_error_has_the_code_of_each_of_its_lines() -> None:
    faults = [Notice(f"line {n}", code=f"fault-{n}") for n in (1, 2)]
    assert DataError.gather(faults).codes == ("fault-1", "fault-2")
    assert DataError("line", code="a-code").codes == ("a-code",)
    assert DataError("line", faults[0], code="a-code").codes == ("a-code", "fault-1")
    assert DataError.gather([*faults, *faults], most=2).code == "fault-1"
    assert RequestError.of({3: faults[1], 4: "too long"}).codes == ("fault-2", "unfit-request")


def test_a_command_shows_the_code_of_its_error_on_both_streams() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "robustify", "models", "list", "--nothing", "--json"], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    tree = json.loads(done.stdout)["error"]
    assert (done.returncode, tree["exit_code"], tree["code"]) == (2, 2, "no-such-option")
    assert done.stderr.rstrip().endswith("[no-such-option]")
    assert tree["codes"] == [tree["code"]]


@pytest.mark.parametrize(("arguments", "code", "keys"), cases("base", "ends_of_commands"))
def test_stdout_has_one_json_object_however_a_command_ends(
    robustify, arguments: list[str], code: int, keys: list[str] | None
) -> None:
    Path("bad.json").write_text('[{"question": "zebra', encoding="utf-8")
    Path("good.csv").write_text("Question,A,B,Answer\nWhich?,x,x,A\nWhat?,u,v,B\n", encoding="utf-8")
    ended = robustify(*arguments)
    tree = json.loads(ended.out)
    assert ended.code == code
    assert keys is None or tree.keys() == set(keys)
