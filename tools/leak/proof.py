"""The full leak test: every command and fault at full size, the planted leaks, and each control taken away in turn."""

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.leak import planted, steps
from tools.leak.encodings import ENCODERS
from tools.leak.faults import CONTROLS
from tools.leak.search import Search
from tools.leak.steps import RUN, step
from tools.leak.world import Step, World, make

DEVELOPER = {
    "PYTHONDEVMODE": "1", "PYTHONWARNINGS": "default", "ROBUSTIFY_TRACEBACK": "1", "PYTHONFAULTHANDLER": "1",
}  # fmt: skip


def proof(folder: Path, n: int = 200) -> dict[str, Any]:
    """Run it all in `folder`; what is counted, found and missed."""
    begun = time.monotonic()
    world = make(folder, n)
    before = world.inputs()
    oracle = step("oracle", "run", _config(world), "-o", "out/oracle", "--cache-dir", "../allowed/oracle",
                  codes=RUN, without="sealed cache")  # fmt: skip
    ended = world.run("oracle", [oracle])
    keys = _keys(world.root / "allowed" / "oracle")
    world = _with_digests(world, keys)
    ended += world.run("restricted", steps.restricted(world, short=False), {"PYTHONWARNINGS": "default"})
    ended += world.run("public", steps.public(world, short=False))
    ended += world.run("terminal", _again(world), DEVELOPER, tty=True)
    killed = _killed(world)
    ended += world.run("reprs", _again(world), DEVELOPER, reprs=True)
    streams = [(name, len(data)) for name, data, _ in world.streams()]
    hits = world.hits()
    unchanged = world.inputs() == before
    found = planted.found(world)
    planted.clear(world)
    return {
        "items": n,
        "canaries": world.all_secrets.n_marks,
        "runs_of_five_words": world.all_secrets.n_windows,
        "cache_keys_without_the_evaluators_key": len(keys),
        "encodings": len(ENCODERS),
        "commands": len(ended),
        "commands_not_as_expected": sorted(one.step.name for one in ended if not one.as_expected),
        "faults_met": sum(one.fired > 0 for one in ended),
        "killed_by_hand": killed,
        "streams": len(streams),
        "bytes": sum(size for _, size in streams),
        "hits": sorted({f"{hit.stream}: {hit.kind} ({hit.reading})" for hit in hits}),
        "dataclasses_that_show_text": _shown(world, "reprs"),
        "inputs_unchanged": unchanged,
        "planted_leaks": len(found),
        "planted_leaks_missed": sorted(name for name, there in found.items() if not there),
        "controls": len(CONTROLS),
        "controls_not_missed": [name for name in CONTROLS if not missed(world, name)],
        "seconds": round(time.monotonic() - begun),
    }


def passed(result: dict[str, Any]) -> bool:
    """Zero hits, and proof that there would have been some."""
    bad = ("hits", "commands_not_as_expected", "dataclasses_that_show_text", "planted_leaks_missed",
           "controls_not_missed")  # fmt: skip
    return not any(result[name] for name in bad) and bool(result["inputs_unchanged"])


def missed(world: World, control: str) -> bool:
    """Whether the test fails once this control is taken away."""
    name = f"without-{control.replace(' ', '-')}"
    before = len(world.hits())
    world.run(
        name,
        [replace(one, without=control) for one in _touched_by(world, control)],
        reprs=control == "redaction",
    )
    there = len(world.hits()) > before or bool(_shown(world, name))
    _cleared(world, name)
    return there


def _touched_by(world: World, control: str) -> Sequence[Step]:
    config, stem = _config(world), world.planted.secrets[0]
    cache = ("--cache-dir", f"../cache/without-{control.replace(' ', '-')}")
    match control:
        case "redaction":
            return [step("redaction", "validate", config)]
        case "firewall":
            return [step("firewall", "run", config, "-o", "out/without", *cache, fault="engine:raises")]
        case "quiet":
            return [step("quiet", "run", config, "-o", "out/without", *cache, fault="engine:prints")]
        case "arguments":
            return [step("arguments", "check", stem)]
        case _:
            return [step("cache", "run", config, "-o", "out/without", *cache)]


def _cleared(world: World, name: str) -> None:
    import shutil

    for path in (world.root / "streams").glob(f"{name}.*"):
        path.unlink()
    shutil.rmtree(world.root / "cache" / name, ignore_errors=True)
    shutil.rmtree(world.root / "cwd" / "out" / "without", ignore_errors=True)


def _config(world: World) -> str:
    return str(world.planted.inputs / "mock.yaml")


def _again(world: World) -> list[Step]:
    """The whole way once more, for developers' switches, a terminal and the watch on reprs."""
    config, public = _config(world), str(world.planted.inputs / "public.yaml")
    return [
        step("validate, developer", "validate", config),
        step("heuristics, developer", "heuristics", config),
        step("run, developer", "run", config, "-o", "out/developer", "--progress", "--cache-dir", "../cache/dev",
             codes=RUN),
        step("report, developer", "report", "out/developer"),
        step(
            "bug, developer", "run", config, "-o", "out/bug",
            codes=frozenset({1}), fault="site:robustify.judge.judgement:judge",
        ),
        step("defects, developer", "validate", str(world.planted.inputs / "defects" / "00.jsonl"), codes=frozenset({3})),
        step("public, developer", "run", public, "-o", "public/developer", "--progress", codes=RUN),
    ]  # fmt: skip


def _killed(world: World) -> int:
    """A run that is killed while it asks; its exit code."""
    import sys

    code = (
        "import os, signal, sys\nfrom robustify import cli\nfrom robustify.engines import cache\n"
        "real = cache.Cache.put\n"
        "def put(self, *a, **k):\n    real(self, *a, **k)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "cache.Cache.put = put\ncli.main()\n"
    )
    arguments = ["run", _config(world), "-o", "out/killed", "--cache-dir", "../cache/killed"]
    return world.start("killed", [sys.executable, "-c", code, *arguments])


def _keys(folder: Path) -> list[bytes]:
    """The keys of a cache."""
    keys: list[bytes] = []
    for path in sorted(folder.glob("*.sqlite")):
        db = sqlite3.connect(path)
        keys += [bytes(key) for (key,) in db.execute("SELECT key FROM score")]
        db.close()
    return keys


def _with_digests(world: World, keys: Sequence[bytes]) -> World:
    both = [
        Search(s.texts, s.vocabularies, more_digests=keys, innocent=s.innocent)
        for s in (world.all_secrets, world.restricted_secrets)
    ]
    return replace(world, all_secrets=both[0], restricted_secrets=both[1])


def _shown(world: World, job: str) -> dict[str, int]:
    place = world.root / "jobs" / f"{job}.results.reprs"
    return dict(json.loads(place.read_text("utf-8"))) if place.is_file() else {}
