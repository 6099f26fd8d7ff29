"""What of robustify's own the gate refuses, made by the code that makes it: keys, caches, records; and what may pass."""

import base64
import json
import os
from pathlib import Path

import pytest
import yaml

from robustify.gate.check import examine
from robustify.models.engines.cache import Cache
from robustify.restricted import ids
from robustify.restricted.restricted_folder import publish
from robustify.runs.run import open_run
from robustify.wings import GUARD
from tests.gate.repo import rules_of, scan

# Keys.


def test_a_key_is_refused_broken_over_lines_and_one_s_own_without_its_prefix(tmp_path: Path) -> None:
    key = ids.new_key(tmp_path / "key")
    line = (tmp_path / "key").read_text(encoding="ascii").strip()
    _, name, secret = line.split(":")
    wrapped = "\n".join(f'    "{line[i : i + 16]}"' for i in range(0, len(line), 16))
    whole = [f"{line[:30]}\n{line[30:]}", wrapped, f"rbk1 : {name} : {secret}"]
    assert [form for form in whole if rules_of(form) != {"RBG402"}] == []
    assert secret not in str(scan(line.encode()))
    alone = [secret, base64.b64encode(key.secret).decode(), key.secret.hex(), f"{secret[:20]}\n  {secret[20:]}",
             f"{name}:{secret}", f'{{"id": "{name}", "secret": "{secret}"}}']  # fmt: skip
    for form in alone:
        assert rules_of(form) == set()  # nothing tells it from another digest
        assert {finding.rule.id for finding in scan(form.encode(), keys=[key])} == {"RBG402"}, form


# Caches and records.


@pytest.mark.parametrize("seal", [None, bytes(range(32))], ids=["public", "sealed"])
def test_our_own_score_cache_is_refused_by_its_bytes(tmp_path: Path, seal: bytes | None) -> None:
    with Cache(tmp_path / "cache", seal) as cache:
        cache.run(lambda db: db.execute("INSERT INTO path VALUES (?, ?)", (b"m", "a model")))
        journal = cache.file.with_name(cache.file.name + "-wal").read_bytes()
    data = cache.file.read_bytes()
    assert rules_of(journal) == {"RBG404"}
    assert rules_of(data) == {"RBG404"}
    other = bytearray(data)
    other[68:72] = bytes(4)  # another program's database
    assert rules_of(bytes(other)) == {"RBG501"}


# What a restricted run leaves, and what it publishes.


def test_what_a_restricted_run_leaves_is_refused_and_what_it_publishes_passes(
    restricted: Path, tmp_path: Path
) -> None:
    folder = restricted / "out" / "run"
    publish(open_run(folder, GUARD), tmp_path / "public")
    ledger = Path(f"{os.environ['ROBUSTIFY_KEY_FILE']}.releases").read_bytes()
    assert ledger.count(b"\n") > 1
    assert "RBG404" in rules_of(ledger)
    assert "RBG404" in rules_of((folder / "release.json").read_bytes())
    for name in ("run.json", "summary.json", "report.html", "report.md"):
        assert rules_of((folder / name).read_bytes()) == {"RBG403"}, name
    for name in ("run.json", "release.json"):
        text = (folder / name).read_text(encoding="utf-8")
        lines = {"cells": [{"outputs": [{"text": text.splitlines(keepends=True)}]}]}
        tree = json.loads(text)
        forms = (yaml.safe_dump(tree), repr(tree), text.replace("\n", "\n> "), json.dumps(lines))
        assert [form[:40] for form in forms if not rules_of(form) & {"RBG403", "RBG404"}] == []
    public = {p.name: rules_of(p.read_bytes()) for p in (tmp_path / "public").rglob("*") if p.is_file()}
    assert "summary.json" in public
    assert {name: rules for name, rules in public.items() if rules} == {}


@pytest.mark.parametrize(
    "mark", ["release level %s", "Release Level: **%s**", "release_level=%s", "release <b>level</b>\n<i>%s</i>",
             "release&#32;level %s"],
)  # fmt: skip
def test_a_content_that_carries_the_mark_of_the_evaluator_s_level_is_refused(mark: str) -> None:
    assert rules_of(f"A page shown under {mark % 'evaluator'}: for one machine.") == {"RBG403"}
    assert rules_of(f"A page shown under {mark % 'published'}: for all.") == set()


def test_each_canary_of_a_file_is_a_finding_of_its_own() -> None:
    lines = [f"canary GUID {n}0000000-1111-2222-3333-444444444444" for n in (1, 2)]
    (one,), (both,) = (examine("\n".join(part).encode()).findings for part in (lines[:1], lines))
    assert set(one.digests) < set(both.digests)
