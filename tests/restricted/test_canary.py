"""Nothing that a command prints or writes holds the text of a restricted item, in any common encoding.

Every stem, choice and id of the made-up set holds a canary of twelve letters. Every command is run on it, whole and with
faults; then every byte of stdout, stderr and all files is searched. A public set may write its text into its own
folder, and may not print it.
"""

import base64
import bz2
import codecs
import gzip
import json
import lzma
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from robustify import cli, pipeline
from tests.support import restricted_run, restricted_set
from tests.support.restricted_run import Stub

N = 60
RECORDS = restricted_set.items(N)
CANARIES = [word.encode() for word in restricted_set.canaries(RECORDS)]
KNOWN = frozenset(CANARIES)


# The search, and that it finds what is there.


def forms(word: bytes) -> Iterator[bytes]:
    """The ways in which a text may write a word of letters."""
    text = word.decode()
    yield from (word, word.upper(), word[::-1], codecs.encode(text, "rot13").encode(), word.hex().encode())
    yield from (text.encode(f"utf-{size}-{end}") for size in (16, 32) for end in ("le", "be"))
    yield "".join(f"\\u{ord(c):04x}" for c in text).encode()
    yield "".join(f"%{ord(c):02X}" for c in text).encode()
    yield "".join(f"&#{ord(c)};" for c in text).encode()
    yield from (base64.b64encode(b" " * shift + word + b" ") for shift in range(3))


SHAPES: tuple[tuple[bytes, Callable[[bytes], bytes]], ...] = (
    (rb"(?=((?:qx|QX)[a-zA-Z]{10}))", bytes.lower),
    (rb"(?=([a-z]{10}xq))", lambda found: found[::-1]),
    (rb"(?=(dk[a-z]{10}))", lambda found: codecs.encode(found.decode(), "rot13").encode()),
    (rb"(?=(7178[0-9a-f]{20}))", lambda found: bytes.fromhex(found.decode())),
    (rb"(q\0{1,3}x\0{1,3}(?:[a-z]\0{0,3}){10})", lambda found: found.replace(b"\0", b"")),
    (rb"((?:\\u00[67][0-9a-f]){12})", lambda found: bytes.fromhex(found.decode().replace("\\u00", ""))),
    (rb"((?:%[67][0-9A-F]){12})", lambda found: bytes.fromhex(found.decode().replace("%", ""))),
    (rb"((?:&#1?[0-9][0-9];){12})", lambda found: bytes(map(int, re.findall(rb"[0-9]+", found)))),
)
"""What a canary looks like in each form, and how it is read."""
PATTERNS = [(re.compile(shape), read) for shape, read in SHAPES]
OPENERS: tuple[Callable[[bytes], bytes], ...] = (
    gzip.decompress,
    zlib.decompress,
    bz2.decompress,
    lzma.decompress,
)


def holds(content: bytes) -> bool:
    return any(read(found) in KNOWN for pattern, read in PATTERNS for found in pattern.findall(content))


def leaks(content: bytes, depth: int = 2) -> bool:
    """Whether any byte stream holds a canary, as it is or packed."""
    if holds(content) or holds(re.sub(rb"\s", b"", content)):
        return True
    for run in re.findall(rb"[A-Za-z0-9+/]{16,}", content):
        if any(holds(base64.b64decode(run[at:] + b"A" * (-len(run[at:]) % 4))) for at in range(4)):
            return True
    for opener in OPENERS if depth else ():
        try:
            inner = opener(content)
        except Exception:
            continue
        if leaks(inner, depth - 1):
            return True
    return False


WORD = CANARIES[7]
PLANTED = {
    **{f"form {i}": b"x " + form + b" y" for i, form in enumerate(forms(WORD))},
    **{opened.__module__: packed(b"x " + WORD) for opened, packed in zip(
        OPENERS, (gzip.compress, zlib.compress, bz2.compress, lzma.compress), strict=True)},
    "base64 in gzip": gzip.compress(base64.b64encode(b"a text with " + WORD + b" in it")),
    "one letter a line": b"\n".join(bytes([c]) for c in WORD),
}  # fmt: skip


@pytest.mark.parametrize("content", PLANTED.values(), ids=PLANTED)
def test_the_search_finds_what_is_planted(content: bytes) -> None:
    assert leaks(content)
    assert not leaks(b"nothing of it is here: " + bytes(range(256)))


# The commands.


class World:
    """A prepared folder, and commands whose every byte is searched."""

    def __init__(self, base: Path, capfd: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.base, self.run = base, base / "out" / "run"
        self._capfd, self._patch = capfd, patch

    def call(self, *args: object, quiet: tuple[Path, ...] = ()) -> int:
        """Run a command and search all that it said and wrote, but below the folders of `quiet`."""
        self._capfd.readouterr()
        self._patch.setattr("sys.argv", ["robustify", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = self._capfd.readouterr()
        assert not leaks(said.out.encode()), (args, "stdout")
        assert not leaks(said.err.encode()), (args, "stderr")
        assert "Traceback" not in said.err
        for path in self.base.rglob("*"):
            assert not leaks(str(path.relative_to(self.base)).encode()), "a file name"
            if path.is_file() and not any(path.is_relative_to(one) for one in (self.base / "data", *quiet)):
                assert not leaks(path.read_bytes()), path
        return int(ended.value.code or 0)


@pytest.fixture
def world(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> World:
    tmp_path.chmod(0o700)
    restricted_run.prepare(tmp_path, monkeypatch, N)
    monkeypatch.setenv("ROBUSTIFY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    models = (
        "models: [stub-a, stub-b]\nasking: {rotations: all}\nscreen: {criterion: unanimous, mode: text}\n"
    )
    (tmp_path / "mock.yaml").write_text(f"name: mock\nadapter: {restricted_set.ADAPTER}\n{models}")
    return World(tmp_path, capfd, monkeypatch)


ALLOWED = (
    ["validate", "mock.yaml"], ["validate", "mock.yaml", "--json"], ["heuristics", "mock.yaml"],
    ["run", "mock.yaml", "-o", "RUN", "--dry-run"], ["judge", "RUN"], ["check", "RUN"],
    ["export", "published", "RUN", "-o", "public"],
    ["restricted", "split", "emit", "RUN", "--split", "robust", "-o", "s.json"],
    ["restricted", "split", "open", "s.json", "--data", restricted_set.ADAPTER],
    ["restricted", "adapter", "check", restricted_set.ADAPTER, "-o", "RUN"], ["restricted", "adapter", "list"],
    ["restricted", "key", "releases"], ["restricted", "licence", "show", restricted_set.ADAPTER],
)  # fmt: skip
REFUSED = (
    ["validate", "mock.yaml", "--explain"], ["heuristics", "mock.yaml", "--items"], ["mock.yaml", "--safe-demo"],
    ["judge", "RUN", "--criterion", "majority"], ["explain", "RUN", "x"], ["agree", "RUN", "labels.csv"],
    ["compare", "RUN", "RUN"], ["export", "lm-eval", "RUN", "-o", "e"], ["export", "dataset", "RUN", "-o", "e"],
    ["export", "inspect", "RUN", "-o", "e"], ["export", "instruct", "RUN", "-o", "e"],
    ["export", "sarif", "RUN", "-o", "e.sarif", "--data", "DATA"], ["validate", "DATA"],
)  # fmt: skip


def test_every_command_on_a_restricted_set_keeps_its_text(world: World) -> None:
    (world.base / "labels.csv").write_text("rb1_x,shortcut\n")
    copy = world.base / "data" / "copy.jsonl"
    copy.write_bytes((world.base / "data" / "mock" / "items.jsonl").read_bytes())
    meant = {"RUN": world.run, "DATA": copy}

    def told(args: list[str]) -> list[object]:
        return [meant.get(word, word) for word in args]

    assert world.call("run", "mock.yaml", "-o", world.run) in (0, 7)
    for args in ALLOWED:
        assert world.call(*told(args)) in (0, 7), args
    for args in REFUSED:
        assert world.call(*told(args)) == 4, args
        assert not (world.base / "e").exists()
    # A private copy is the one thing that holds text.
    (mine := world.base / "mine").mkdir(mode=0o700)
    data = ("--data", restricted_set.ADAPTER)
    assert (
        world.call("restricted", "split", "open", "s.json", *data, "-o", mine / "robust.jsonl", quiet=(mine,))
        == 0
    )
    assert leaks((mine / "robust.jsonl").read_bytes())


def edited(rows: list[dict[str, Any]], **changes: object) -> bytes:
    rows[3] = {k: v for k, v in {**rows[3], **changes}.items() if v is not None}
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


FAULTS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "an answer that is no choice": lambda rows: edited(rows, answer=9),
    "an answer that is text": lambda rows: edited(rows, answer=rows[3]["question"]),
    "no choices": lambda rows: edited(rows, choices=None),
    "choices that are text": lambda rows: edited(rows, choices=rows[3]["question"]),
    "equal choices": lambda rows: edited(rows, choices=[rows[3]["choices"][0]] * 4),
    "an id twice": lambda rows: edited(rows, id=rows[2]["id"]),
    "an item twice": lambda rows: edited(rows, **{k: rows[2][k] for k in ("question", "choices")}),
    "a field that is named like a text": lambda rows: edited(rows, **{rows[3]["question"]: 1}),
    "a topic that is a text": lambda rows: edited(rows, topic=rows[3]["question"]),
    "a torn line": lambda rows: edited(rows)[:-40],
    "no UTF-8": lambda rows: edited(rows)[:400] + b"\xff" + edited(rows)[400:],
    "a NUL": lambda rows: edited(rows, question=rows[3]["question"] + "\0"),
    "nested without end": lambda rows: b"[" * 100_000 + edited(rows),
}  # fmt: skip


@pytest.mark.parametrize("spoil", FAULTS.values(), ids=FAULTS)
def test_a_fault_in_the_data_names_a_line_and_no_text(world: World, spoil: Callable[..., bytes]) -> None:
    content = spoil(restricted_set.items(N))
    shutil.rmtree(world.base / "data")
    shutil.rmtree(world.base / "adapters")
    restricted_set.write_set(world.base, N, data={
        "root_env": "ROBUSTIFY_DATA", "files": [{"path": "mock/items.jsonl"}]})  # fmt: skip
    (world.base / "data" / "mock" / "items.jsonl").write_bytes(content)
    restricted_set.accept(world.base)
    for args in (
        ["validate", "mock.yaml"],
        ["run", "mock.yaml", "-o", world.run],
        ["validate", "mock.yaml", "--skip-bad"],
    ):
        assert world.call(*args) in (0, 3, 7)


def raising(_: Any, requests: Any) -> None:
    raise ValueError(requests[0].context)


def printing(_: Any, requests: Any) -> None:
    import os
    import sys
    import threading
    import warnings

    text = requests[0].context
    print(text)
    print(text, file=sys.stderr)
    os.write(1, text.encode())
    os.write(2, text.encode())
    warnings.warn(text, stacklevel=1)
    thread = threading.Thread(target=lambda: int(text))
    thread.start()
    thread.join()


@pytest.mark.parametrize(("behave", "code"), [(raising, 1), (printing, 0)], ids=["raises it", "prints it"])
def test_an_engine_that_shows_a_prompt_is_not_heard(
    world: World, monkeypatch: pytest.MonkeyPatch, behave: Callable[..., None], code: int
) -> None:
    class Odd(Stub):
        def loglikelihoods(self, requests: Any, progress: Any = lambda _n: None) -> Any:
            behave(self, requests)
            return super().loglikelihoods(requests, progress)

    @contextmanager
    def opened(model: Any, *_: object, **__: object) -> Iterator[Stub]:
        yield Odd(model.name)

    monkeypatch.setattr(pipeline, "open_scorer", opened)
    assert world.call("run", "mock.yaml", "-o", world.run) in (code, 7 if code == 0 else code)


STEPS = ("load_bench", "require_models", "ask_models", "judged", "guess", "probe", "plan")


@pytest.mark.parametrize("step", STEPS)
def test_a_bug_anywhere_shows_its_place_and_no_message(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError(RECORDS[0]["question"])

    monkeypatch.setattr(pipeline, step, fail)
    assert world.call("run", "mock.yaml", "-o", world.run) == 1


def test_a_public_set_is_written_and_never_printed(world: World) -> None:
    public = world.base / "data" / "plain.jsonl"
    rows = [{**row, "id": f"i{n}"} for n, row in enumerate(RECORDS)]
    public.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    done = world.base / "done"
    assert world.call(public, "--public", "-o", done, quiet=(done,)) in (0, 7)
    assert leaks((done / "robust.jsonl").read_bytes())
    for args in (
        ["check", done],
        ["judge", done, "--criterion", "majority", "-o", done],
        ["compare", done, done],
    ):
        assert world.call(*args, quiet=(done,)) in (0, 2, 7)
