"""A world of its own for the commands: every place where something could be written lies below one folder.

Whatever appears there is searched, but for what was planted, what a user asked to have written in clear (`split apply`,
`validate --explain` of a public set) and the split files of public runs.
"""

import hashlib
import json
import os
import pty
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from robustify.run import EXPLORER
from tools.leak.planting import Planted, plant
from tools.leak.search import Hit, Search, vocabulary

REPOSITORY = Path(__file__).parents[2]
FOLDERS = (
    "home", "tmp", "cache", "config", "cwd", "cwd/out", "cwd/private", "allowed", "streams", "spy", "jobs",
)  # fmt: skip
PATIENCE = 900
_IN_CLEAR = ("in/", "jobs/", "allowed/", "cwd/private/")
_SPLITS = (".jsonl", ".parquet", ".json", ".yaml", ".py", ".md")


@dataclass(frozen=True, slots=True)
class Step:
    """One command line. `codes` it may end with; `fault` and `without` as in the entry; `stdout` a file below
    `allowed/` for a command that prints text by its task."""

    name: str
    argv: tuple[str, ...]
    codes: frozenset[int] = frozenset({0})
    fault: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    stdout: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    without: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a step ended: its exit code, and how often its fault was met."""

    step: Step
    code: int
    fired: int

    @property
    def as_expected(self) -> bool:
        """Whether the command did what it was run for."""
        # Not every function is met by the command it was put into; how many were is counted.
        met = (
            bool(self.fired)
            or not self.step.fault
            or (self.step.fault.startswith("site:") and self.code in (0, 7))
        )
        return self.code in self.step.codes and met


@dataclass(frozen=True, slots=True)
class World:
    """One folder, what was planted in it, and the searches."""

    root: Path
    planted: Planted
    all_secrets: Search
    restricted_secrets: Search

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Where a process may read and write."""
        home = str(self.root / "home")
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "HOME": home,
            "TMPDIR": str(self.root / "tmp"),
            **{f"XDG_{n}_HOME": f"{home}/{n.lower()}" for n in ("CACHE", "DATA", "STATE")},
            "HF_HOME": f"{home}/hf",
            "HF_HUB_OFFLINE": "1",
            "ROBUSTIFY_CACHE": str(self.root / "cache"),
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            **self.planted.environment,
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "ROBUSTIFY_LEDGER": str(self.root / "config" / "ids.ledger"),
            **(more or {}),
        }

    def run(
        self,
        name: str,
        steps: Sequence[Step],
        more: Mapping[str, str] | None = None,
        *,
        tty: bool = False,
        reprs: bool = False,
    ) -> list[Ended]:
        """Run these steps in one process; what it says goes to `streams/`, and with `reprs` to `jobs/` which
        dataclasses showed a canary."""
        job, results = self.root / "jobs" / f"{name}.json", self.root / "jobs" / f"{name}.results.json"
        as_json = [{**asdict(step), "codes": sorted(step.codes)} for step in steps]
        # An id may stand in a repr; a word of the item may not.
        ids = {word for t in self.planted.secrets if t.startswith("mock-") for word in t.split("-")}
        watched = [mark for mark in self.all_secrets.marks if mark not in ids] if reprs else []
        spy = str(self.root / "spy")
        what = {"text": self.planted.secrets[0], "spy": spy, "steps": as_json, "reprs": watched}
        job.write_text(json.dumps(what), "utf-8")
        command = [sys.executable, "-m", "tools.leak.entry", str(job), str(results)]
        code = self.start(name, command, more, tty=tty)
        done = json.loads(results.read_text("utf-8")) if results.is_file() else []
        ended = [Ended(s, d["code"], d["fired"]) for s, d in zip(steps, done, strict=False)]
        # A process that dies takes the step with it that it was at, and those after.
        return ended + [Ended(step, code, 1) for step in steps[len(done) :]]

    def start(
        self, name: str, command: Sequence[str], more: Mapping[str, str] | None = None, *, tty: bool = False
    ) -> int:
        """Run a command, watched; its exit code."""
        streams = self.root / "streams"
        with open(streams / f"{name}.out", "wb") as out, open(streams / f"{name}.err", "wb") as err:
            master, slave = pty.openpty() if tty else (-1, -1)
            process = subprocess.Popen(
                command, cwd=self.root / "cwd", env=self.environment(more), stdin=subprocess.DEVNULL,
                stdout=slave if tty else out, stderr=slave if tty else err, preexec_fn=_dumps_cores,
            )  # fmt: skip
            if tty:
                os.close(slave)
                threading.Thread(target=_copied, args=(master, streams / f"{name}.pty"), daemon=True).start()
            seen = _watched(process)
        (streams / f"{name}.children").write_bytes(b"\n".join(sorted(seen)))
        return process.returncode

    def streams(self) -> Iterator[tuple[str, bytes, Search]]:
        """Every file that the commands left, its name in the stream, with what may not stand in it."""
        names: list[str] = []
        for path in sorted(self.root.rglob("*")):
            name = path.relative_to(self.root).as_posix()
            if name.startswith(_IN_CLEAR):
                continue
            names.append(name)
            if path.is_file() and not path.is_symlink():
                yield name, path.read_bytes(), self._search(name)
        yield "names", "\n".join(names).encode("utf-8", "surrogateescape"), self.all_secrets

    def _search(self, name: str) -> Search:
        shows_items = name.endswith((*_SPLITS, f"/{EXPLORER}")) and not _is_claim(name)
        public = name.startswith("cwd/public/") and shows_items
        removed = name.startswith("spy/removed/")
        # Temporary split files of a public run are removed too; whose a removed file was is not known.
        return self.restricted_secrets if public or removed else self.all_secrets

    def hits(self) -> list[Hit]:
        """Every find, anywhere; a page of items outside of public runs is one whatever it says."""
        return [
            hit
            for name, data, search in self.streams()
            for hit in (*search.hits(name, data), *_misplaced(name))
        ]

    def inputs(self) -> str:
        """A digest of all that was planted: no command may change it."""
        return tree_digest(self.root / "in")


def _misplaced(name: str) -> list[Hit]:
    misplaced = Path(name).name == EXPLORER and not name.startswith("cwd/public/")
    return [Hit(name, "name", "explorer")] if misplaced else []


def _is_claim(name: str) -> bool:
    """The files of a public run that hold numbers, and no text either."""
    claims = ("run.json", "summary.json", "report.md", "report.html", "verdicts.csv", "answers.parquet")
    return Path(name).name in claims


def make(root: Path, n: int = 200) -> World:
    """An empty world with everything planted."""
    planted = plant(root / "in", n)
    for name in FOLDERS:
        (root / name).mkdir(mode=0o700)
    shutil.rmtree(root / "config")
    shutil.move(root / "in" / "config", root / "config")
    words = [vocabulary(str(planted.model))]
    return World(
        root,
        planted,
        Search((*planted.secrets, *planted.public), words),
        Search(planted.secrets, words, innocent=planted.public),
    )


def tree_digest(folder: Path) -> str:
    """One digest of the names, modes and bytes of all files below a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found.update(f"{path.relative_to(folder)} {path.stat().st_mode:o}\n".encode())
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _dumps_cores() -> None:
    """A core dump is allowed here, so that one which is written is found."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def _watched(process: "subprocess.Popen[Any]") -> set[bytes]:
    """Wait for a process; the command lines of its children, as anybody on the machine sees them."""
    seen: set[bytes] = set()
    stop = time.monotonic() + PATIENCE
    while process.poll() is None:
        seen |= set(_command_lines(process.pid))
        if time.monotonic() > stop:
            process.kill()
            process.wait()
            raise TimeoutError(f"a command ran for more than {PATIENCE} s")
        time.sleep(0.02)
    return seen


def _command_lines(parent: int) -> Iterator[bytes]:
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            try:
                yield Path(f"/proc/{child}/cmdline").read_bytes()
            except OSError:
                continue
            yield from _command_lines(int(child))


def _copied(master: int, place: Path) -> None:
    with open(place, "wb") as file:
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:
                return
            if not data:
                return
            file.write(data)
            file.flush()
