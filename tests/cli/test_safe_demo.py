"""`--safe-demo` and the variable of earlier versions, which means the same."""

import pytest


@pytest.mark.parametrize("value", ["1", "true"])
def test_the_variable_of_earlier_versions_refuses_restricted_sets(
    robustify, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SAFE_DEMO", value)
    ended = robustify("wmdp_bio.yaml", "--dry-run")
    assert (ended.code, "[no-safe-demo]" in ended.err) == (4, True)
    monkeypatch.setenv("SAFE_DEMO", "0")
    assert "[no-safe-demo]" not in robustify("wmdp_bio.yaml", "--dry-run").err
