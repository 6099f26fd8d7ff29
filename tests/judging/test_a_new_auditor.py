"""The contract of auditors: a new auditor is one function and one entry."""

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from robustify.answers import Answers
from robustify.judging.audit.auditor import AuditorRates, audited
from robustify.judging.audit.residual import AUDITORS, AuditTask, residual
from robustify.judging.context import Context, Facts, Rules, context
from robustify.report.page_tables import auditors
from robustify.screen.screen_rules import ScreenRules
from tests.support.fake_answers import bench, rows


def cheat(ctx: Context, task: AuditTask) -> Iterator[AuditorRates]:
    """Yield an auditor that saw the keys."""
    kept = task.kept
    right = kept.key[:, None] == np.arange(kept.would.shape[1])
    yield AuditorRates("cheat", "who saw the keys", audited(right, kept.key, kept.k, kept.would), True)


def test_a_made_up_auditor_is_one_function_and_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench(300)
    table = Answers.of(rows(made, rotations=False, bias=0.0))
    ctx = context(table, Facts("made-up"), Rules(ScreenRules(criterion="unanimous", voters=("v0", "v1"))))
    before = residual(ctx)
    assert (before.others, before.verdict) == (None, "inconclusive")
    monkeypatch.setitem(AUDITORS, "cheat", cheat)
    after = residual(ctx)
    assert after.leave_one_out == before.leave_one_out
    assert after.others["who saw the keys"].value == 1.0
    assert after.verdict == "not certified"
    assert [reason.params["auditor"] for reason in after.reasons] == ["who saw the keys"]
    shown = [name for (name, _), _ in auditors(SimpleNamespace(residual=after))]  # type: ignore[arg-type]
    assert shown[-1] == "who saw the keys"
