"""The blocks of docs/adapters.md: each is printed by the program on the mock set, none is typed."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

from robustify.errors import RobustifyError
from tests.support import restricted_set

OUT = "private/run"


def listed() -> str:
    with _environment({"ROBUSTIFY_ADAPTERS": ""}):
        return f"```text\n$ robustify adapter list\n{said(['adapter', 'list'])}```\n"


def template() -> str:
    from robustify.settings_files import shipped

    text = (shipped("adapters") / "cbrn_template" / "manifest.yaml").read_text(encoding="utf-8")
    return f"```yaml\n{text}```\n"


def signs() -> str:
    from robustify.restricted.recognition import TABLE

    rows = [f"| {code} | {says} | {effect} |" for code, (says, effect) in TABLE.items()]
    head = "| sign | what is recognised | the set is |\n|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def refusals() -> str:
    """What a run says as one fact after the other is mended."""
    lines = ["```text"]
    with _prepared() as (folder, there):
        record = folder / "config" / "robustify" / "licences.json"
        accepted = record.read_text(encoding="utf-8")
        record.unlink()
        out = folder / "private"
        out.mkdir()
        out.chmod(0o755)
        mends: Sequence[tuple[str, Callable[[], object]]] = (
            ("the terms are accepted", lambda: record.write_text(accepted, encoding="utf-8")),
            ("the data folder is named", lambda: os.environ.update(ROBUSTIFY_DATA=there["ROBUSTIFY_DATA"])),
            ("the key is named", lambda: os.environ.update(ROBUSTIFY_KEY_FILE=there["ROBUSTIFY_KEY_FILE"])),
            ("the folder is closed to others", lambda: out.chmod(0o700)),
        )
        for name in ("ROBUSTIFY_DATA", "ROBUSTIFY_KEY_FILE"):
            os.environ.pop(name)
        for fact, mend in mends:
            lines += [
                f"$ robustify mock.yaml -o private\n{said(['mock.yaml', '-o', 'private'])}",
                f"({fact})",
            ]
            mend()
    return "\n".join(lines) + "\n```\n"


def session() -> str:
    """What is printed of the mock set once every fact is there."""
    with _prepared() as (folder, _):
        (folder / "private").mkdir(mode=0o700)
        asked = (
            ["adapter", "check", restricted_set.ADAPTER, "--out", OUT],
            ["validate", "mock.yaml"],
            ["heuristics", "mock.yaml"],
        )
        printed = [f"$ robustify {' '.join(args)}\n{said(args)}" for args in asked]
    return "```text\n" + "\n".join(printed) + "```\n"


@contextmanager
def _prepared() -> Iterator[tuple[Path, dict[str, str]]]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        there = restricted_set.prepared(folder)
        before = Path.cwd()
        with _environment(there):
            os.chdir(folder)
            try:
                yield folder, there
            finally:
                os.chdir(before)


@contextmanager
def _environment(there: dict[str, str]) -> Iterator[None]:
    ours = {name for name in os.environ if name.startswith(("ROBUSTIFY_KEY", "ROBUSTIFY_GATE"))}
    with mock.patch.dict(os.environ, there):
        for name in ours - there.keys():
            del os.environ[name]
        yield


def said(args: Sequence[str]) -> str:
    from robustify.cli import cli

    done = CliRunner().invoke(cli, list(args), standalone_mode=False)
    if isinstance(done.exception, RobustifyError):
        lines = "".join(f"robustify: {line}\n" for line in done.exception.lines)
        return f"{done.output}{lines}exit {done.exception.exit_code}\n"
    assert done.exception is None, done.exception
    return done.output


BLOCKS: dict[str, Callable[[], str]] = {
    "adapter-list": listed,
    "adapter-template": template,
    "adapter-signs": signs,
    "adapter-refusals": refusals,
    "adapter-session": session,
}
