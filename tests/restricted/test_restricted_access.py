"""Authorisation: four facts in their order, each missing one a refusal of its own, and nothing is read before."""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import AuthorisationError, DataError, UsageError
from robustify.base.key_file import evaluator_key
from robustify.base.settings_files import shipped
from robustify.pipeline import config as configs
from robustify.pipeline import model_steps, steps
from robustify.restricted import access
from robustify.restricted.access import Access
from robustify.restricted.adapters import find_adapter
from robustify.restricted.terms import accepted, record_acceptance
from robustify.wings import wings
from tests.restricted.conftest import authorised, edit, items_of, told
from tests.restricted.world import rows_as_json
from tests.support import restricted_set
from tests.support.cases import contents, refuses
from tests.support.restricted_set import ADAPTER, LICENCE, canaries, items

N = 40


def ask(mock: Path, folder: Path | None = None) -> Access | None:
    config = configs.load(mock / "mock.yaml", wings().adapters)
    return authorised(config, folder or mock / "out" / "run")


def terms_of(mock: Path) -> Path:
    return mock / "adapters" / ADAPTER / "licence.txt"


def record_of(mock: Path) -> Path:
    return mock / "config" / "robustify" / "licences.json"


def test_with_all_facts_there_is_leave_and_nothing_is_written(mock: Path) -> None:
    leave = ask(mock)
    assert leave.key == evaluator_key()
    assert leave.manifest.id == ADAPTER
    assert [Path(s.path) for s in leave.sources] == [items_of(mock).resolve()]
    assert list((mock / "out").iterdir()) == []


def spoil(mock: Path, case: dict[str, Any]) -> None:
    """Spoil a fact as a case says."""
    data, record = items_of(mock), record_of(mock)
    places = {"record": record, "terms": terms_of(mock), "data": data, "data folder": data.parent}
    for name, text in case.get("write", {}).items():
        places[name].unlink() if text is None else places[name].write_text(text)
    for name, value in case.get("environment", {}).items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
    if "edit" in case:
        edit(mock, **case["edit"])
    if "accepted" in case:
        held = json.loads(record.read_text())
        held["accepted"][0] |= case["accepted"]
        record.write_text(json.dumps(held))
    if "link" in case:
        place = places[case["link"]]
        place.rename(mock / "moved")
        place.symlink_to(mock / "moved")
    if "pipe" in case:
        os.mkfifo(data)
    if "other_items" in case:
        data.write_text(rows_as_json(items(N, seed=7)))
    if "open_folder" in case:
        (mock / "out" / "run").mkdir()
        (mock / "out" / "run").chmod(0o755)
    if "changed_licence" in case:
        text = LICENCE + "One more term.\n"
        terms_of(mock).write_text(text)
        edit(mock, licence={**told(mock)["licence"], "sha256": hashlib.sha256(text.encode()).hexdigest()})
        restricted_set.accept(mock)


CASES = contents("missing_facts")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_missing_fact_is_a_refusal_of_its_own(mock: Path, case: dict[str, Any]) -> None:
    spoil(mock, case)
    with pytest.raises((AuthorisationError, UsageError, DataError)) as error:
        ask(mock)
    assert (error.value.code, len(error.value.lines)) == (case["code"], 1)
    assert not any(c in str(error.value) for c in canaries(items(N)))


def test_no_model_and_no_data_are_looked_at_before_the_facts(
    mock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((model_steps, "check_model"), (model_steps, "open_scorer"), (steps, "load_bench")):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("too early"))
    config = configs.with_models(configs.load(mock / "mock.yaml", wings().adapters), ["smollm2-135m"])
    record_of(mock).unlink()
    with refuses("terms-not-accepted"):
        steps.robustify(config, mock / "out" / "run", mock / "cache", wings())
    assert not (mock / "out" / "run").exists()


def test_a_restricted_set_without_an_adapter_is_refused_and_told_what_to_do(mock: Path) -> None:
    (mock / "bare.yaml").write_text(f"name: bare\nsensitivity: restricted\ndata: {items_of(mock)}\n")
    with refuses("missing-adapter"):
        authorised(configs.load(mock / "bare.yaml", wings().adapters), mock / "out" / "run")


def test_a_config_may_raise_the_label_of_a_public_adapter(mock: Path) -> None:
    edit(mock, sensitivity="public")
    restricted_set.accept(mock)
    (mock / "mock.yaml").write_text(f"adapter: {ADAPTER}\nsensitivity: restricted\n")
    leave = ask(mock)
    assert leave is not None
    record_of(mock).unlink()
    with refuses("terms-not-accepted"):
        ask(mock)


def test_a_copy_of_a_shipped_adapter_takes_over_no_acceptance(mock: Path) -> None:
    record_acceptance(find_adapter("wmdp-bio"), "Somebody", {}, ())
    copy = mock / "repo" / "wmdp-bio"
    shutil.copytree(shipped("adapters") / "wmdp-bio", copy)
    (mock / "repo" / "study.yaml").write_text("adapter: ./wmdp-bio\n")
    with refuses("shadowed-adapter"):
        authorised(configs.load(mock / "repo" / "study.yaml", wings().adapters), mock / "out" / "run")
    assert find_adapter(str(shipped("adapters") / "wmdp-bio")).manifest.id == "wmdp-bio"


def test_accepting_is_recorded_for_its_owner_alone_and_once(mock: Path) -> None:
    record_of(mock).unlink()
    made = access.accept(find_adapter(ADAPTER), "  Some   Body ")
    again = access.accept(find_adapter(ADAPTER), "Some Body")
    assert [row.name for row in accepted()] == ["Some Body"]
    assert made.licence_sha256 == again.licence_sha256
    assert record_of(mock).stat().st_mode & 0o777 == 0o600
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made.at)
    assert ask(mock) is not None
