"""Leaks made on purpose, one on each channel: a leak test that does not find all of them proves nothing."""

import base64
import json
import os
import pickle
import sqlite3
import struct
import sys
import zlib
from collections.abc import Callable
from functools import partial
from hashlib import sha256

import numpy as np

from tools.leak.encodings import ENCODERS
from tools.leak.world import World

Plant = Callable[[World, str], str]
"""Leaks a text on one channel; the stream it must be found in."""


def _process(world: World, name: str, code: str, *arguments: str) -> None:
    world.start(name, [sys.executable, "-c", f"import sys\nTEXT = sys.argv[1]\n{code}", *arguments])


def _file(name: str, made: Callable[[World, str], bytes], world: World, text: str) -> str:
    return _out(world, name, made(world, text))


def _out(world: World, name: str, data: bytes) -> str:
    path = world.root / "cwd" / "out" / name
    path.write_bytes(data)
    return path.relative_to(world.root).as_posix()


def log(world: World, text: str) -> str:
    """A log record of a library."""
    _process(world, "plant-log", "import logging; logging.getLogger('a').error('cannot take %r', TEXT)", text)
    return "streams/plant-log.err"


def traceback(world: World, text: str) -> str:
    """An error that nobody catches, without the firewall."""
    _process(world, "plant-traceback", "int(TEXT)", text)
    return "streams/plant-traceback.err"


def terminal(world: World, text: str) -> str:
    """A progress bar that is named by an item, on a terminal."""
    code = "import os; os.write(2, TEXT.encode()); assert os.isatty(2)"
    world.start(
        "plant-tty", [sys.executable, "-c", f"import sys\nTEXT = sys.argv[1]\n{code}", text], tty=True
    )
    return "streams/plant-tty.pty"


def child_stderr(world: World, text: str) -> str:
    """A child process that complains about its input."""
    code = "import subprocess; subprocess.run(['/bin/sh', '-c', 'cat >&2'], input=TEXT.encode())"
    _process(world, "plant-child", code, text)
    return "streams/plant-child.err"


def command_line(world: World, text: str) -> str:
    """A child process that is given an item as an argument, where everybody on the machine can read it."""
    code = "import subprocess; subprocess.run(['/bin/sh', '-c', 'sleep 1; true', TEXT])"
    _process(world, "plant-arguments", code, text)
    return "streams/plant-arguments.children"


def cache_text(world: World, text: str) -> str:
    """A row of text in a database, still in its write-ahead log."""
    path = world.root / "cache" / "plant.sqlite"
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE t(x)")
    db.execute("INSERT INTO t VALUES(?)", (text,))
    db.commit()
    wal = path.with_name(path.name + "-wal").read_bytes()
    db.close()
    path.unlink()
    path.with_name("plant.sqlite-wal").write_bytes(wal)
    return "cache/plant.sqlite-wal"


def free_page(world: World, text: str) -> str:
    """A row that was deleted and still lies in the file."""
    path = world.root / "cache" / "plant-free.sqlite"
    db = sqlite3.connect(path)
    db.execute("PRAGMA secure_delete=OFF")
    db.execute("CREATE TABLE t(x)")
    db.executemany("INSERT INTO t VALUES(?)", [(text,)] * 50)
    db.commit()
    db.execute("DELETE FROM t")
    db.commit()
    db.close()
    return "cache/plant-free.sqlite"


def file_name(world: World, text: str) -> str:
    """A file that is named by a word of an item."""
    word = next(word for word in text.split() if word.startswith("qx"))
    _out(world, f"{word}.png", b"")
    return "names"


def removed(world: World, text: str) -> str:
    """A temporary file that is gone when the command ends."""
    code = (
        "from pathlib import Path\nfrom tools.leak.entry import Spy\nimport tempfile\n"
        f"Spy(Path({str(world.root / 'spy')!r}))\n"
        "with tempfile.TemporaryDirectory() as d: (Path(d) / 'x').write_text(TEXT)"
    )
    before = set((world.root / "spy" / "removed").glob("*"))
    _process(world, "plant-removed", code, text)
    new = sorted(set((world.root / "spy" / "removed").glob("*")) - before)
    return new[-1].relative_to(world.root).as_posix() if new else "spy/removed/nothing was kept"


def _ids(world: World, text: str) -> list[int]:
    from tokenizers import Tokenizer

    return list(Tokenizer.from_file(str(world.planted.model / "tokenizer.json")).encode(text).ids)


def _picture(text: str) -> bytes:
    """A PNG with a compressed text chunk."""
    body = b"zTXtComment\x00\x00" + zlib.compress(text.encode())
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return b"\x89PNG\r\n\x1a\n" + chunk


FILES: dict[str, tuple[str, Callable[[World, str], bytes]]] = {
    "token ids": ("plant.ids", lambda w, t: b"\x93NUMPY" + np.array(_ids(w, t), dtype=np.int32).tobytes()),
    "token ids in JSON": ("plant-ids.json", lambda w, t: json.dumps({"prompt": _ids(w, t)}).encode()),
    "HTML comment": ("plant.html", lambda w, t: f"<p>87 %</p><!-- {t} -->".encode()),
    "base64 in JSON": (
        "plant.json",
        lambda w, t: json.dumps({"x": base64.b64encode(b"ab" + t.encode()).decode()}).encode(),
    ),
    "pickle": ("plant.pkl", lambda w, t: pickle.dumps([t, 1])),
    "PNG metadata": ("plant.png", lambda w, t: _picture(t)),
    # By a digest without a key a guess can be confirmed.
    "unkeyed digest": (
        "plant-id.json",
        lambda w, t: json.dumps({"id": sha256(t.encode()).hexdigest()}).encode(),
    ),
    "core dump": ("core.1234", lambda w, t: os.urandom(5000) + t.encode("utf-16-le") + os.urandom(5000)),
    "log-probabilities": ("plant-logprobs.json", lambda w, t: ENCODERS["token records"](t)),
    "table of tokens": ("plant-table.html", lambda w, t: ENCODERS["table of a page"](t)),
    # A page of items in the folder of a restricted run, even one that shows none.
    "explorer": ("explorer.html", lambda w, t: b"<p>0 items</p>"),
}
"""Leaks that are a file of a run: its name and its bytes."""
PLANTS: dict[str, Plant] = {
    "log": log, "traceback": traceback, "terminal": terminal, "stderr of a child": child_stderr,
    "command line of a child": command_line, "text in a cache": cache_text, "SQLite free page": free_page,
    "file name": file_name, "removed file": removed,
    **{name: partial(_file, file, made) for name, (file, made) in FILES.items()},
}  # fmt: skip


def found(world: World) -> dict[str, bool]:
    """Whether each planted leak was found, in the stream where it lies."""
    text = world.planted.secrets[0]
    planted = {name: plant(world, text) for name, plant in PLANTS.items()}
    streams = {hit.stream for hit in world.hits()}
    return {name: any(s.startswith(stream[:45]) for s in streams) for name, stream in planted.items()}


def clear(world: World) -> None:
    """Take the planted leaks away again."""
    for path in sorted(world.root.rglob("*plant*")):
        path.unlink()
    for path in (world.root / "cwd" / "out").glob("*"):
        if path.name.startswith(("core.", "qx", "explorer")):
            path.unlink()
