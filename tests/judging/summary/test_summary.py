"""The typed summary: what reads back, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from robustify.judging.summary.quantity import Reason
from robustify.judging.summary.result import Summary, read
from robustify.pipeline.steps import rejudge
from robustify.runs.run import open_run
from robustify.wings import GUARD
from tests.support.cases import cases, refuses
from tests.support.exported_run import made_run, renewed

ROOT = Path(__file__).parents[3]
FULL: dict[str, Any] = json.loads((ROOT / "tests/data/summary_full.json").read_text(encoding="utf-8"))


def test_a_summary_reads_back() -> None:
    summary = read(FULL)
    assert read(json.loads(json.dumps(summary.tree()))) == summary


@pytest.mark.parametrize(("tree", "code"), cases("judging", "no_summaries"))
def test_what_is_no_summary_is_refused(tree: dict[str, Any], code: str) -> None:
    with refuses(code):
        read(tree)


def test_a_run_of_an_older_format_is_judged_again_when_its_report_is_renewed(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    path = run.folder / "summary.json"
    new = path.read_bytes()
    path.write_text(json.dumps({**json.loads(new), "format": 2}))
    renewed(run.folder, "summary.json")
    with refuses("unsupported-summary-format"):
        _ = open_run(run.folder, GUARD).summary
    assert rejudge(open_run(run.folder, GUARD), {}, run.folder).summary == read(json.loads(new))


def test_the_schema_gives_the_unit_of_a_number() -> None:
    found = Summary.model_json_schema(mode="serialization")["$defs"]["Topics"]["properties"]["kl_nats"]
    assert found["anyOf"][0]["unit"] == "nats"


def test_a_reason_reads_back_with_the_reasons_that_it_holds() -> None:
    inner = Reason.of("topic_count", name="a", before=3, after=1)
    reason = Reason.of("topics_lost", topics=(inner,), share=0.5, forced=True, none=None, kinds=("x",))
    again = Reason.model_validate_json(reason.model_dump_json())
    assert (again, again.nested("topics"), again.nested("kinds")) == (reason, (inner,), ())
