"""The gate's key and the index command: what a key file must be, what is registered, what is refused."""

import json
import os
import re
from pathlib import Path

import pytest

from robustify.errors import AuthorisationError
from robustify.gate.command import INDEX_VARIABLE, main
from robustify.gate.key_file import FILE_VARIABLE, VARIABLE, Key, load_key
from tests.gate.repo import registered
from tests.gate.sets import KEY, key, key_file, mock_items

pytestmark = pytest.mark.usefixtures("alone")


# Keys.


def test_a_key_comes_from_a_file_or_a_secret_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_key() is None
    assert load_key(str(key_file(tmp_path))) == KEY
    monkeypatch.setenv(VARIABLE, KEY.as_text())
    assert load_key() == KEY
    monkeypatch.setenv(FILE_VARIABLE, str(key_file(tmp_path, key("other"))))
    assert load_key() == key("other")
    assert KEY.secret.hex() not in repr(KEY)
    assert repr(KEY.secret) not in repr(KEY)
    assert KEY.derived("a") != KEY.derived("b") != KEY.secret


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no key of the form"),
        ("a passphrase", "no key of the form"),
        (KEY.as_text()[:40], "no key of the form"),
        (KEY.as_text().replace(KEY.id, "0" * 16), "damaged"),
        ("rbk1:" + "0" * 16 + ":" + "A" * 43, "weak"),
        ("rbk1:" + "0" * 16 + ":" + "QUJD" * 10 + "QUE", "weak"),
        (Key.of(bytes(range(15)) + bytes([3]) * 17).as_text(), "weak"),
        (Key.of(bytes(range(31))).as_text(), "no key of the form"),
        (Key.of(bytes(range(33))).as_text(), "no key of the form"),
    ],
)
def test_a_key_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    place = tmp_path / "key"
    place.write_text(text)
    place.chmod(0o600)
    words = [word for word in text.strip().split(":") if len(word) > 8]
    with pytest.raises(AuthorisationError, match=says) as caught:
        load_key(str(place))
    assert not any(word in str(caught.value) for word in words)
    monkeypatch.setenv(VARIABLE, text or " ")
    with pytest.raises(AuthorisationError, match=says):
        load_key()


def _faulty(tmp_path: Path, fault: str) -> Path:
    place = key_file(tmp_path)
    match fault:
        case "mode":
            place.chmod(0o644)
        case "link":
            (tmp_path / "link").symlink_to(place)
        case "in_git":
            (tmp_path / ".git").mkdir()
        case "pipe":
            os.mkfifo(tmp_path / "pipe", 0o600)
    return {"mode": place, "in_git": place, "folder": tmp_path}.get(fault, tmp_path / fault)


@pytest.mark.parametrize("fault", ["mode", "link", "folder", "missing", "in_git", "pipe"])
def test_a_key_file_that_others_could_reach_is_refused(tmp_path: Path, fault: str) -> None:
    assert main(["index", "items.jsonl", "--key", str(_faulty(tmp_path, fault)), "-o", "out"]) == 4
    assert not Path("out").exists()


def test_a_key_file_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = key_file(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    with pytest.raises(AuthorisationError, match="belongs to user"):
        load_key(str(place))


def test_a_key_where_its_file_is_expected_is_refused_and_not_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["index", "items.jsonl", "--key", KEY.as_text().strip(), "-o", "out"]) == 4
    assert KEY.as_text()[:40] not in "".join(capsys.readouterr())


# The index command.


@pytest.mark.slow
def test_an_index_is_made_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mock.jsonl").write_text("".join(json.dumps(item.texts) + "\n" for item in mock_items()))
    monkeypatch.setenv(FILE_VARIABLE, str(key_file(tmp_path)))
    assert main(["index", "mock.jsonl", "-o", "mock.idx"]) == 0
    assert "mock.idx: 200 items" in capsys.readouterr().out
    monkeypatch.setenv(INDEX_VARIABLE, "mock.idx")
    Path("a.md").write_text(f"A note.\n\n{mock_items()[3].stem}\n")
    assert main(["a.md", "--require-fingerprints"]) == 4
    assert re.fullmatch(
        r'a\.md:3: RBG301 fingerprint \(set "mock", a whole text\)\n', capsys.readouterr().out
    )


def test_the_index_command_says_what_it_cannot_recognise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("short.csv").write_text("Why?,yes,no\nWhen?,now,then\n" + ",".join(mock_items()[0].texts) + "\n")
    key = str(key_file(tmp_path))
    assert main(["index", "short.csv", "--key", key, "-o", "out.idx", "--name", "mock"]) == 0
    out, err = capsys.readouterr()
    assert re.fullmatch(rf"out\.idx: 3 items, \d+ shingles, key {KEY.id}\n", out)
    assert "2 not at all" in err


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own library is no background: reading it takes seconds."""
    monkeypatch.setattr("robustify.gate.build._BACKGROUND", 0)


@pytest.mark.usefixtures("no_library")
def test_an_index_says_how_much_of_a_set_it_recognises_and_forgets_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [*mock_items()[:5], ("Why so?", "yes", "no")]
    Path("mock.json").write_text(json.dumps([tuple(getattr(item, "texts", item)) for item in items]))
    monkeypatch.setenv(FILE_VARIABLE, str(key_file(tmp_path)))
    assert main(["index", "mock.json", "-o", "mock.idx"]) == 0
    out, err = capsys.readouterr()
    assert re.fullmatch(rf"mock\.idx: 6 items, [\d,]+ shingles, key {KEY.id}\n", out)
    assert "0 items are recognised only verbatim, 1 not at all" in err
    monkeypatch.setenv(INDEX_VARIABLE, "mock.idx")
    Path("a.md").write_text(f"A note: {mock_items()[3].stem}\n")
    Path("b.md").write_text(f"A note: {' '.join(mock_items()[4].stem.split()[1:-2])}\n")
    assert main(["a.md", "--require-fingerprints"]) == main(["b.md"]) == 4
    Path("known.md").write_text(mock_items()[4].stem)
    assert main(["index", "mock.json", "-o", "mock.idx", "--background", "known.md"]) == 0
    assert main(["a.md"]) == 4
    assert main(["b.md"]) == 0
    capsys.readouterr()
    Path("whole.json").write_text(json.dumps([item.texts for item in mock_items()[:5]]))
    assert main(["index", "whole.json", "-o", "whole.idx"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("no_library")
@pytest.mark.parametrize(
    ("args", "code", "says"),
    [(["short.csv"], 3, "none has enough text"), (["short.csv", "--background", "gone"], 2, "no such background: gone")],
)  # fmt: skip
def test_an_index_of_too_little_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], code: int, says: str
) -> None:
    Path("short.csv").write_text("Why?,yes,no\n")
    assert main(["index", *args, "--key", str(key_file(tmp_path)), "-o", "out.idx"]) == code
    assert says in capsys.readouterr().err
    assert main(["index", "short.csv", "-o", "out.idx"]) == 4
    assert "no key for the index" in capsys.readouterr().err
    assert not Path("out.idx").exists()


@pytest.mark.slow
def test_an_index_of_nothing_or_without_a_key_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("short.csv").write_text("Why?,yes,no\n")
    key = ["--key", str(key_file(tmp_path))]
    for args, code in ((["short.csv", *key], 3), (["short.csv"], 4), (["gone.csv", *key], 3),
                       (["short.csv", *key, "--background", "gone"], 2)):  # fmt: skip
        assert main(["index", *args, "-o", "out.idx"]) == code
    assert not Path("out.idx").exists()


def test_an_index_that_cannot_be_trusted_stops_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(tmp_path, monkeypatch)
    Path("a.md").write_text("harmless")
    assert main(["a.md"]) == 0
    raw = Path("mock.idx").read_bytes()
    Path("mock.idx").write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    assert main(["a.md"]) == 3
    monkeypatch.setenv(FILE_VARIABLE, str(key_file(tmp_path, key("other"))))
    assert main(["a.md"]) == 3
    Path("mock.idx").unlink()
    assert main(["a.md"]) == 3
