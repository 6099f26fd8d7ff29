"""A restricted set in a folder of its own, and commands of which every byte that they print or write is searched.

Every stem, choice and id of the made-up set holds a canary of twelve letters.
"""

import base64
import bz2
import codecs
import gzip
import json
import lzma
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from robustify import cli
from tests.support import restricted_run, restricted_set

N = 60
RECORDS = restricted_set.items(N)
CANARIES = [word.encode() for word in restricted_set.canaries(RECORDS)]
KNOWN = frozenset(CANARIES)
MODELS = "models: [stub-a, stub-b]\nasking: {rotations: all}\nscreen: {criterion: unanimous, mode: text}\n"


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
    gzip.decompress, zlib.decompress, bz2.decompress, lzma.decompress,
)  # fmt: skip


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


def rows_as_json(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


_AUDITED: list[Path] = []


class World:
    """A prepared folder with a git work tree in it, in which commands are called."""

    def __init__(self, base: Path, capfd: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        base.chmod(0o700)
        self.base, self.patch, self._capfd = base, patch, capfd
        self.out = restricted_run.prepare(base, patch, N)
        self.run, self.repo = self.out / "run", base / "repo"
        self.items = base / "data" / "mock" / "items.jsonl"
        self.manifest = base / "adapters" / restricted_set.ADAPTER / "manifest.yaml"
        self.said = ""
        patch.setenv("ROBUSTIFY_CACHE", str(base / "cache"))
        subprocess.run(["git", "init", "-q", str(self.repo)], check=True)
        patch.chdir(self.repo)
        self.write("mock.yaml", f"name: mock\nadapter: {restricted_set.ADAPTER}\n{MODELS}")
        self.git("add", "mock.yaml")

    def write(self, name: str, text: str) -> Path:
        """A file in the work tree."""
        (self.repo / name).write_text(text, encoding="utf-8")
        return self.repo / name

    def git(self, *args: str) -> str:
        """What git says in the work tree."""
        return self._git(self.repo, *args)

    @staticmethod
    def _git(tree: Path, *args: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "GIT_DIR"}
        line = ["git", "-C", str(tree), *args]
        return subprocess.run(line, check=True, capture_output=True, text=True, env=environment).stdout

    def visible(self) -> str:
        """What git would take up in the work tree, and the private folder if it lies in one."""
        trees = [self.repo, *(place for place in (self.out,) if (place / ".git").exists())]
        return "".join(self._git(tree, "status", "--porcelain", "-uall") for tree in trees)

    def audited(self) -> None:
        """Put the run of the set into the private folder; it was audited, and searched, once for all tests."""
        if not _AUDITED:
            assert self.call("run", "mock.yaml", "-o", self.run) in (0, 7), self.said
            _AUDITED.append(shutil.copytree(self.run, self.base.parent / "audited"))
        else:
            shutil.copytree(_AUDITED[0], self.run)

    def call(self, *args: object, quiet: tuple[Path, ...] = ()) -> int:
        """Run a command and search all that it said and wrote, but below the folders of `quiet`."""
        self._capfd.readouterr()
        lists, copy = self.out / "s.json", self.base / "copy.jsonl"
        named = {"RUN": self.run, "DATA": copy, "OUT": self.out, "LIST": lists}
        words = [str(named.get(str(arg), arg)).replace("BASE/", f"{self.base}/") for arg in args]
        self.patch.setattr("sys.argv", ["robustify", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = self._capfd.readouterr()
        self.said = said.out + said.err
        assert not leaks(said.out.encode()), (args, "stdout")
        assert not leaks(said.err.encode()), (args, "stderr")
        assert not [word for word in ("Traceback", "rb1_", "thimbles", "whistles") if word in self.said]
        self.search(*quiet)
        return int(ended.value.code or 0)

    def search(self, *quiet: Path) -> None:
        """Search every file but the data itself."""
        mine = (self.base / "data", self.base / "copy.jsonl", *quiet)
        for path in self.base.rglob("*"):
            assert not leaks(str(path.relative_to(self.base)).encode()), "a file name"
            if path.is_file() and not any(path.is_relative_to(one) for one in mine):
                assert not leaks(path.read_bytes()), path
