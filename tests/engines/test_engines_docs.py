"""The page on engines: its configs load, its commands run, its figures are those of the measurement."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from robustify.cli import cli
from robustify.config import parse

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
RESULT = ROOT / "results" / "bench" / "openai.json"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S)


@pytest.mark.parametrize("block", blocks("yaml"))
def test_every_config_on_the_page_loads(block: str) -> None:
    tree = {"name": "t", "sensitivity": "public", "data": "items.jsonl", **yaml.safe_load(block)}
    assert parse(tree, "docs/engines.md")


def test_the_page_shows_every_setting_of_a_server_of_vllm_and_of_a_cluster() -> None:
    from robustify.engines.settings import OpenAIModel, RayModel, VLLMModel

    shown = {name for block in blocks("yaml") for m in yaml.safe_load(block).get("models", ()) for name in m}
    told = set(re.findall(r"`([a-z_]+)", PAGE))
    assert set(OpenAIModel.model_fields) <= shown | told
    assert set(RayModel.model_fields) <= shown | told
    assert set(VLLMModel.model_fields) - {"gpu_memory", "eager"} <= shown | told


def test_the_command_that_writes_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai", reason="the openai extra is not installed")
    from tests.support.openai_stub import stub

    (command,) = [b for b in blocks("sh") if b.startswith("robustify free generate")]
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": f"q{n}", "stem": f"How many is {n}?", "choices": [str(4 * n), "1", "2"], "key": 0}
        for n in (5, 6)
    ]
    (tmp_path / "mc.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("free", "prepare", "mc.jsonl", "-o", "free/items.jsonl").exit_code == 0
    with stub(served="org/toy") as server:
        command = command.replace("http://127.0.0.1:8000/v1", server.url).replace("some-model", "org/toy")
        done = run(*command.split()[1:])
        before = server.completions
        assert run(*command.split()[1:]).exit_code == 0
        assert server.completions - before <= 1, "what was written is not asked again"
    assert done.exit_code == 0, done.output
    assert "org_toy: 3 requests" in done.stderr
    written = [json.loads(line) for line in (tmp_path / "free" / "answers.jsonl").read_text().splitlines()]
    assert [row["model"] for row in written] == ["org_toy"] * 2
    assert all(row["text"].startswith("echo ") for row in written)


def test_the_figures_are_those_of_the_measurement() -> None:
    told = json.loads(RESULT.read_text())
    assert measured(told) in PAGE


def measured(told: dict[str, Any]) -> str:
    engine, client = (
        len(told["rounds"]) / sum(1 / r[name] for r in told["rounds"]) for name in ("engine", "client")
    )
    shares = [100 * r["share"] for r in told["rounds"]]
    machine, load = told["machine"]["cores"], told["load"]["before"][0]
    return (
        f"{engine:.2f} against {client:.2f} requests a second, {told['requests']} requests in each of "
        f"{len(told['rounds'])} rounds,\n{told['concurrency']} at once: {100 * told['share']:.0f} % in all (goal "
        f"{100 * told['goal']:.0f} %), in single rounds {min(shares):.0f} to {max(shares):.0f} %. "
        f"Load average {load:.1f} on {machine} cores."
    )


def run(*words: str) -> Any:
    return CliRunner().invoke(cli, list(words))
