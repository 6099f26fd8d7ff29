"""A restricted run end to end, with stubs for models: what is around it, and what it leaves behind."""

import hashlib
import json
import os
import resource
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import RequestError
from robustify.base.key_file import evaluator_key
from robustify.pipeline import config as configs
from robustify.pipeline import model_steps, steps
from robustify.restricted.confinement import OFFLINE, TEMPORARY, confined
from robustify.restricted.disclosure import record
from robustify.restricted.disclosure.released_page import read_released
from robustify.restricted.restricted_folder import emit_split
from robustify.runs.run import refuse_other
from robustify.wings import wings
from tests.support import restricted_run, restricted_set
from tests.support.cases import refuses
from tests.support.restricted_set import key_file, write_set

N = 60


@pytest.fixture
def mock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    restricted_run.prepare(tmp_path, monkeypatch, N)
    return tmp_path


def test_while_it_runs_the_process_is_offline_private_and_leaves_no_dump(
    mock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {"seals": []}
    before, scorer = model_steps.ask_models, model_steps.open_scorer
    proxy = "http://p.example:1"
    proxies = {"HTTP_PROXY": proxy, "all_proxy": proxy, "ROBUSTIFY_GATE_KEY": "a secret"}
    for name, value in proxies.items():
        monkeypatch.setenv(name, value)

    def opened(model: Any, cache: Path, seal: bytes | None = None) -> Any:
        seen["seals"].append(seal)
        return scorer(model, cache)

    def look(*args: Any) -> Any:
        seen["offline"] = {name: os.environ.get(name) for name in OFFLINE}
        seen["proxies"] = [name for name in proxies if name in os.environ]
        seen["umask"] = os.umask(0o077)
        seen["core"] = resource.getrlimit(resource.RLIMIT_CORE)[0]
        seen["tmp"] = [Path(tempfile.mkdtemp()).parent, Path(os.environ["TMPDIR"])]
        return before(*args)

    monkeypatch.setattr(model_steps, "ask_models", look)
    monkeypatch.setattr(model_steps, "open_scorer", opened)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", "0")
    mask, temporary = os.umask(0o022), tempfile.gettempdir()
    try:
        restricted_run.run(mock, mock / "out" / "run")
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(mask)
    assert (seen["offline"], seen["proxies"]) == (OFFLINE, [])
    assert {name: os.environ[name] for name in proxies} == proxies
    assert seen["seals"] == [evaluator_key().derived("cache")] * 2
    assert (seen["umask"], seen["core"]) == (0o077, 0)
    assert {p.parent for p in seen["tmp"]} == {mock / "out" / "run"}
    assert tempfile.gettempdir() == temporary
    assert "HF_HUB_OFFLINE" not in os.environ
    assert os.environ["TRANSFORMERS_OFFLINE"] == "0"
    assert not list((mock / "out" / "run").glob(f"{TEMPORARY}*"))
    restricted_run.run(mock, mock / "out" / "again")
    files = (restricted_run.files(mock / "out" / name) for name in ("run", "again"))
    assert next(files) == next(files)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with refuses("file-not-writable"), confined(tmp_path / "file"):
        pytest.fail("entered")


def test_items_that_do_not_fit_are_counted_in_one_line(mock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(requests: Any) -> None:
        lengths = [len((r.context + r.continuation).split()) for r in requests]
        most = sorted(set(lengths))[-3]
        raise RequestError.of({i: f"has {n} tokens" for i, n in enumerate(lengths) if n >= most})

    restricted_run.while_asked(monkeypatch, short)
    with refuses("unaskable-items", says=r"^(?!.*rb1_)(?!.*\d+ tokens).*stub-a: .*: \d+ in the view "):
        restricted_run.run(mock, mock / "out" / "run")


def test_a_public_adapter_runs_without_leave_and_without_its_path_in_the_record(
    mock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ROBUSTIFY_KEY_FILE", "ROBUSTIFY_DATA"):
        monkeypatch.delenv(name)
    public = write_set(mock / "open", 40, sensitivity="public", id="open-set")["adapter"]
    public = public.rename(public.with_name("open-set"))
    monkeypatch.setenv("ROBUSTIFY_DATA", str(mock / "open" / "data"))
    (mock / "open.yaml").write_text(f"adapter: {public}\nmodels: [stub-a, stub-b]\n")
    run = steps.robustify(
        configs.load(mock / "open.yaml", wings().adapters), mock / "open-run", mock / "cache", wings()
    )
    assert (run.folder / "kept.jsonl").is_file()
    assert run.manifest["config"]["adapter"] == "open-set"
    assert str(mock) not in (run.folder / "run.json").read_text()


def test_a_run_keeps_its_log_and_clears_what_a_killed_one_left(
    mock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, out = model_steps.ask_models, mock / "out" / "run"
    spent = {"model": "m", "calls": 3}
    monkeypatch.setattr(model_steps, "ask_models", lambda *args: replace(real(*args), spent=[spent]))
    (left := out / f"{TEMPORARY}dead").mkdir(parents=True, mode=0o700)
    out.chmod(0o700)
    (left / "left").write_text("of a killed run")
    run = restricted_run.run(mock, out)
    assert not list(out.glob(f"{TEMPORARY}*"))
    assert json.loads((out / "run.log").read_text())["calls"] == 3
    assert (out / "run.log").stat().st_mode & 0o777 == 0o600
    assert "run.log" not in run.manifest["files"]


@pytest.mark.parametrize("changes", ["key", "version"])
def test_a_run_of_another_key_or_version_is_replaced_by_force_only(
    mock: Path, monkeypatch: pytest.MonkeyPatch, changes: str
) -> None:
    folder, cache = mock / "out" / "run", mock / "cache"
    first = restricted_run.run(mock, folder)
    assert restricted_run.run(mock, folder).manifest == first.manifest
    with refuses("run-of-another-benchmark"):  # a public run of that name
        refuse_other(folder, "mock", "0", (), wings().guard)
    before = (folder / "run.json").read_bytes()
    if changes == "key":
        (mock / "newer").mkdir(mode=0o700)
        newer = key_file(mock / "newer", hashlib.sha256(b"newer").digest())
        monkeypatch.setenv("ROBUSTIFY_KEY_FILE", str(newer))
        record.begin(evaluator_key(), record.record_file())
    else:
        manifest = mock / "adapters" / restricted_set.ADAPTER / "manifest.yaml"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": "2"}))
        restricted_set.accept(mock)
    for start in (steps.robustify, steps.foretold):
        with refuses("run-of-another-benchmark"):
            start(restricted_run.config(), folder, cache, wings())
    assert (folder / "run.json").read_bytes() == before
    forced = steps.robustify(restricted_run.config(), folder, cache, wings(), force=True)
    assert forced.manifest["key_id"] == evaluator_key().id
    assert forced.manifest["adapter"]["version"] != first.manifest["adapter"]["version"] or changes == "key"


def test_a_halted_run_says_so_and_lists_no_items(mock: Path) -> None:
    told = restricted_run.config(limits={"min_kept": 10_000})
    run = restricted_run.run(mock, mock / "out" / "run", told)
    (guardrail,) = read_released(run).halting
    assert {*run.manifest["files"]} == {
        "summary.json",
        "report.html",
        "report.md",
        "release.json",
        "candidates.json",
    }
    for name in ("report.html", "report.md"):
        assert "No split" in (run.folder / name).read_text("utf-8")
    assert guardrail == "enough_kept_items"
    with refuses("failed-guardrail"):
        emit_split(run, "kept")
