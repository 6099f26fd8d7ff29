"""Runs many commands in one process, as the console script would run each, with one fault or none in place.

`python -m tools.leak.entry JOB RESULTS`: JOB is JSON {"text", "spy", "steps": [{"name", "argv", "fault", "files",
"stdout", "environment", "without"}], "reprs"}. An audit hook notes what is opened for writing, connected to or started, and
keeps a copy of every file that is removed, so that what was written and deleted is searched too.
"""

import contextlib
import dataclasses
import functools
import importlib
import json
import os
import pkgutil
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_CANARY = re.compile(r"qx[a-z]{10}", re.IGNORECASE)


class Spy:
    """Notes writes, connections and child processes of this process, and keeps what is removed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "removed").mkdir(parents=True, exist_ok=True)
        self._log = os.open(folder / "audit.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._n = 0
        self._busy = False
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if self._busy or event not in _EVENTS:
            return
        self._busy = True
        try:
            self._note(event, args)
        finally:
            self._busy = False

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        match event, args:
            case "open", (int(), _, _):
                return
            case "open", (str() | bytes() as path, mode, flags):
                writes = any(c in str(mode) for c in "wax+") or (flags or 0) & (os.O_WRONLY | os.O_RDWR)
                if writes:
                    self._say("write", os.path.abspath(os.fsdecode(path)))
            case "os.remove", (path, dir_fd):
                self._keep(path, dir_fd)
            case "os.rename", (_, new, _, dir_fd):
                self._keep(new, dir_fd)
            case _:
                self._say(event, repr(args))

    def _say(self, what: str, detail: str) -> None:
        os.write(self._log, f"{what}\t{detail}\n".encode("utf-8", "surrogateescape"))

    def _keep(self, path: Any, dir_fd: int) -> None:
        base = os.readlink(f"/proc/self/fd/{dir_fd}") if dir_fd is not None and dir_fd >= 0 else ""
        full = os.path.abspath(os.path.join(base, os.fsdecode(path)))
        self._say("remove", full)
        if os.path.isfile(full) and not os.path.islink(full) and "/removed/" not in full:
            self._n += 1
            with contextlib.suppress(OSError):
                shutil.copyfile(full, self.folder / "removed" / f"{os.getpid()}-{self._n}")


_EVENTS = {
    "open", "os.remove", "os.rename", "socket.connect", "socket.sendto", "socket.getaddrinfo",
    "subprocess.Popen", "os.exec", "os.system", "os.posix_spawn",
}  # fmt: skip


def main() -> None:
    """Run the job."""
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    results = Path(sys.argv[2])
    if job.get("spy"):
        Spy(Path(job["spy"]))
    shown: dict[str, int] = {}
    if job.get("reprs"):
        watch_reprs(frozenset(job["reprs"]), shown)
    done = []
    for step in job["steps"]:
        mark = f"\n=== {step['name']} ===\n"
        for stream in (sys.stdout, sys.stderr):
            stream.write(mark)
            stream.flush()
        begun = time.process_time()
        ended = _ran(step, job["text"])
        done.append({"name": step["name"], **ended, "seconds": round(time.process_time() - begun, 2)})
        results.write_text(json.dumps(done), "utf-8")
        results.with_suffix(".reprs").write_text(json.dumps(shown), "utf-8")


def _ran(step: dict[str, Any], text: str) -> dict[str, Any]:
    from robustify import cli
    from tools.leak.faults import fault, without

    for path, content in step.get("files", {}).items():
        Path(path).write_text(content, "utf-8")
    sys.argv = ["robustify", *step["argv"]]
    with (
        _environment(step.get("environment", {})),
        _stdout(step.get("stdout")),
        without(step.get("without", "")),
        fault(step.get("fault", ""), text) as fired,
    ):
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1 if ended.code else 0
        sys.stdout.flush()
        sys.stderr.flush()
    return {"code": code, "fired": len(fired)}


@contextlib.contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _stdout(path: str | None) -> Iterator[None]:
    """Where a command may print text, as `validate --explain` of a public set does, it goes to a file of its own."""
    if path is None:
        yield
        return
    with open(path, "w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        yield


def watch_reprs(canaries: frozenset[str], shown: dict[str, int]) -> None:
    """Watch every dataclass of the package being made; `shown` counts by class the values whose repr holds a canary."""
    import robustify

    kinds: set[type] = set()
    for module in pkgutil.walk_packages(robustify.__path__, "robustify."):
        if module.name.endswith("__main__"):
            continue
        try:
            imported = importlib.import_module(module.name)
        # Engines whose packages are not installed.
        except ImportError:
            continue
        kinds |= {
            value
            for value in vars(imported).values()
            if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.name
        }
    for kind in kinds:
        _watch(kind, canaries, shown)


def _watch(kind: type, canaries: frozenset[str], shown: dict[str, int]) -> None:
    made = kind.__init__

    @functools.wraps(made)
    def init(self: Any, *args: Any, **named: Any) -> None:
        made(self, *args, **named)
        if not canaries.isdisjoint(word.lower() for word in _CANARY.findall(repr(self))):
            shown[kind.__qualname__] = shown.get(kind.__qualname__, 0) + 1

    kind.__init__ = init


if __name__ == "__main__":
    main()
