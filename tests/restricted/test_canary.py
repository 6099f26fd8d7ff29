"""Nothing that a command prints or writes holds the text of a restricted item, in any common encoding.

Every stem, choice and id of the made-up set holds a canary of twelve letters. Every command is run on it, whole and with
faults; then every byte of stdout, stderr and all files is searched. A public set may write its text into its own
folder, and may not print it.
"""

import base64
import bz2
import gzip
import hashlib
import json
import lzma
import os
import shutil
import sys
import tempfile
import threading
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from robustify.pipeline import model_steps, run_input, steps
from tests.restricted.world import CANARIES, OPENERS, RECORDS, N, World, forms, leaks, rows_as_json
from tests.support import restricted_set
from tests.support.cases import contents
from tests.support.restricted_run import while_asked

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


def test_every_command_on_a_restricted_set_keeps_its_text(world: World) -> None:
    world.write("labels.csv", "rb1_x,shortcut\n")
    shutil.copy(world.items, world.base / "copy.jsonl")
    assert world.call("run", "mock.yaml", "-o", "RUN") in (0, 7)
    commands = contents("restricted_commands")
    for line in commands["allowed"]:
        assert world.call(*line.split()) in (0, 7), line
        assert not [word for word in ("lamps", "items.jsonl") if word in world.said], line
    for line in commands["refused"]:
        assert world.call(*line.split()) == 4, line
        assert not (world.repo / "e").exists()
    # A private copy is the one thing that holds text.
    (mine := world.base / "mine").mkdir(mode=0o700)
    told = ("LIST", "--data", restricted_set.ADAPTER, "-o", mine / "kept.jsonl")
    assert world.call("restricted", "split", "open", *told, quiet=(mine,)) == 0
    assert leaks((mine / "kept.jsonl").read_bytes())


def edited(rows: list[dict[str, Any]], **changes: object) -> bytes:
    rows[3] = {k: v for k, v in {**rows[3], **changes}.items() if v is not None}
    return rows_as_json(rows).encode()


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
    "groups that are texts": lambda rows: rows_as_json(
        [{**row, "group": rows[i - i % 2]["question"]} for i, row in enumerate(rows)]).encode(),
    "choices for names of fields": lambda rows: rows_as_json(
        [{"q": r["question"], **{c.split()[-1]: 1 for c in r["choices"]}} for r in rows]).encode(),
    "choices for names of all fields": lambda rows: rows_as_json(
        [{"question": r["question"], **{c.split()[-1]: 1 for c in rows[0]["choices"]}} for r in rows]).encode(),
    "a row for each field": lambda rows: rows_as_json(
        [{"question": name, **{r["question"].split()[4]: r[name] for r in rows[:20]}} for name in rows[0]]).encode(),
    "a choice for a key, twice": lambda rows: "".join(
        f"- {{question: x, {word}: 1, {word}: 2}}\n" for word in [rows[0]["choices"][0].split()[-1]] * 9).encode(),
    "ids for names of fields": lambda rows: json.dumps({row["id"]: row for row in rows}).encode(),
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
    items = world.items.with_suffix(".yaml" if content.startswith(b"-") else ".jsonl")
    file = {"path": f"mock/{items.name}", "sha256": hashlib.sha256(content).hexdigest(), "records": N}
    restricted_set.write_set(world.base, N, data={"root_env": "ROBUSTIFY_DATA", "files": [file]})
    items.write_bytes(content)
    restricted_set.accept(world.base)
    terms = hashlib.sha256(restricted_set.LICENCE.encode()).hexdigest()
    accept = ("license", "accept", restricted_set.ADAPTER, "--name", "a test", "--license-sha256", terms)
    assert world.call("restricted", *accept) in (0, 2, 3)
    ended = world.call("run", "mock.yaml", "-o", "RUN")
    assert ended in (0, 2, 3, 7)
    assert ended in (0, 7) or world.call("run", "mock.yaml", "-o", "RUN", "--skip-bad") in (0, 2, 3, 7)
    assert world.call("restricted", "adapter", "check", restricted_set.ADAPTER) in (0, 4)


def raising(requests: Any) -> None:
    raise ValueError(requests[0].context)


def printing(requests: Any) -> None:
    text = requests[0].context
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        print(text, file=stream)
        os.write(number, text.encode())
    warnings.warn(text, stacklevel=1)
    thread = threading.Thread(target=lambda: int(text))
    thread.start()
    thread.join()


@pytest.mark.parametrize(("behave", "code"), [(raising, 1), (printing, 0)], ids=["raises it", "prints it"])
def test_an_engine_that_shows_a_prompt_is_not_heard(
    world: World, monkeypatch: pytest.MonkeyPatch, behave: Callable[..., None], code: int
) -> None:
    while_asked(monkeypatch, behave)
    assert world.call("run", "mock.yaml", "-o", "RUN") in (code, 7 if code == 0 else code)


STEPS = [(steps, step) for step in ("require_settings", "load_bench", "judge_input")]
STEPS += [(model_steps, step) for step in ("require_models", "ask_models", "plan")]
STEPS += [(run_input, "guess"), (run_input, "probe")]


@pytest.mark.parametrize(("module", "step"), STEPS)
def test_a_bug_anywhere_shows_its_place_and_no_message_and_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, module: ModuleType, step: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        (Path(tempfile.gettempdir()) / "left").write_text(RECORDS[0]["question"])
        raise KeyError(RECORDS[0]["question"])

    monkeypatch.setattr(module, step, fail)
    assert world.call("run", "mock.yaml", "-o", "RUN") == 1
    assert list(world.out.iterdir()) == []


def test_a_public_set_is_written_and_never_printed(world: World) -> None:
    public = world.base / "data" / "plain.jsonl"
    rows = [{**row, "id": f"i{n}"} for n, row in enumerate(RECORDS)]
    public.write_text(rows_as_json(rows), encoding="utf-8")
    done = world.base / "done"
    assert world.call(public, "--public", "-o", done, quiet=(done,)) in (0, 7)
    assert leaks((done / "kept.jsonl").read_bytes())
    for args in (
        ["check", done],
        ["judge", done, "--criterion", "majority", "-o", done],
        ["compare", done, done],
    ):
        assert world.call(*args, quiet=(done,)) in (0, 2, 7)
