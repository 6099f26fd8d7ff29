"""Adapters: strict manifests, found by name or path, and a shipped name that nobody can take."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import RobustifyError
from robustify.base.settings_files import shipped
from robustify.pipeline import config as configs
from robustify.restricted.adapters import FILE, all_adapters, find_adapter
from robustify.restricted.terms import accepted
from robustify.wings import wings
from tests.restricted.conftest import edit, items_of, manifest_of
from tests.support.cases import each_case, refuses
from tests.support.command import invoked
from tests.support.restricted_set import ADAPTER, LICENCE, canaries, items, write_set

N = 40


@pytest.mark.parametrize(
    "name", ["benign-demo", "benign_demo", "cbrn-template", "wmdp-bio", "wmdp-chem", "wmdp-cyber"]
)
def test_shipped_adapters_are_found_whole_and_hold_no_content(name: str) -> None:
    found = find_adapter(name)
    assert found.licence
    assert {p.name for p in found.folder.iterdir()} == {FILE, "licence.txt", "README.md"}
    assert found.manifest.restricted == (found.manifest.id != "benign-demo")
    assert found.manifest.egress == ()


def test_the_published_sizes_of_the_wmdp_sets() -> None:
    sizes = {
        name: find_adapter(f"wmdp-{name}").manifest.data.files[0].records for name in ("bio", "cyber", "chem")
    }
    assert sizes == {"bio": 1273, "cyber": 1987, "chem": 408}
    assert sum(n or 0 for n in sizes.values()) == 3668


@pytest.mark.parametrize("name", ["bio", "chem", "cyber"])
def test_the_shipped_restricted_configs_load_anywhere_and_ask_for_the_terms_first(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    config = configs.load(configs.find_config(f"wmdp_{name}"), wings().adapters)
    assert (config.name, config.sensitivity, config.adapter) == (f"wmdp-{name}", "restricted", f"wmdp-{name}")
    done = invoked(f"wmdp_{name}.yaml")
    assert done.exception.code == "terms-not-accepted"
    assert list(tmp_path.iterdir()) == []


@each_case("manifests", "change", "at", "code")
def test_a_faulty_manifest_is_refused_with_the_place_and_never_the_value(
    mock: Path, change: dict[str, Any], at: str, code: str
) -> None:
    edit(mock, **change)
    with refuses(code, says=rf"^{ADAPTER}/{FILE}: {re.escape(at)}: (?!.*/etc/x)"):
        find_adapter(ADAPTER)


@pytest.mark.parametrize("k", [1, 4])
def test_a_restricted_set_has_no_cells_below_the_floor(mock: Path, k: int) -> None:
    edit(mock, min_cell=k)
    with refuses("small-min-cell"):
        find_adapter(ADAPTER)


def test_a_shipped_name_cannot_be_taken(mock: Path) -> None:
    write_set(mock / "forged", N)
    (mock / "forged" / "adapters" / ADAPTER).rename(mock / "adapters" / "wmdp-bio")
    forged = mock / "adapters" / "wmdp-bio"
    held = json.loads((forged / FILE).read_text())
    assert find_adapter("wmdp-bio").folder == shipped("adapters") / "wmdp-bio"
    for label in ("public", "restricted"):
        (forged / FILE).write_text(json.dumps({**held, "id": "wmdp-bio", "sensitivity": label}))
        with refuses("shadowed-adapter"):
            find_adapter(str(forged))


def test_a_public_set_of_one_s_own_needs_its_folder(mock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(mock, sensitivity="public")
    (mock / "open.yaml").write_text(f"adapter: {ADAPTER}\n")
    (source,) = configs.load(mock / "open.yaml", wings().adapters).data
    assert Path(source.path) == items_of(mock)
    monkeypatch.delenv("ROBUSTIFY_DATA")
    with refuses("unset-data-folder", says=r"\$ROBUSTIFY_DATA "):
        configs.load(mock / "open.yaml", wings().adapters)


def test_a_path_is_taken_relative_to_the_config(mock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    (mock / "deep.yaml").write_text(f"adapter: ./adapters/{ADAPTER}\n")
    (mock / "deeper.yaml").write_text(f"adapter: adapters/{ADAPTER}/manifest.yaml\n")
    for name in ("deep", "deeper"):
        assert configs.load(mock / f"{name}.yaml", wings().adapters).name == ADAPTER


def test_broken_adapters_do_not_hide_the_others(mock: Path) -> None:
    manifest_of(mock).write_text("{}")
    found = list(all_adapters())
    assert sum(isinstance(one, RobustifyError) for one in found) == 1
    assert len(found) == 6
    listed = invoked("restricted", "adapter", "list", "--json")
    assert len(json.loads(listed.stdout)["adapters"]) == 5
    assert ADAPTER in listed.stderr


def test_check_tells_every_fact_and_ends_with_4_where_one_is_missing(
    mock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = invoked("restricted", "adapter", "check", ADAPTER, "-o", mock / "out" / "run", "--json")
    facts = json.loads(done.stdout)["facts"]
    assert {f["fact"]: f["holds"] for f in facts} == dict.fromkeys(
        ["license", "data", "key", "folder", "records"], True
    )
    assert done.return_value == 0
    monkeypatch.delenv("ROBUSTIFY_KEY_FILE")
    monkeypatch.delenv("ROBUSTIFY_DATA")
    done = invoked("restricted", "adapter", "check", ADAPTER, "--json")
    facts = json.loads(done.stdout)["facts"]
    assert {f["fact"]: f["holds"] for f in facts} == {"license": True, "data": False, "key": False}
    assert done.return_value == 4
    assert not any(c in done.output for c in canaries(items(N)))


def test_terms_are_accepted_by_their_digest(mock: Path) -> None:
    (mock / "config" / "robustify" / "licences.json").unlink()
    digest = hashlib.sha256(LICENCE.encode()).hexdigest()
    terms = mock / "adapters" / ADAPTER / "licence.txt"
    edited = LICENCE + "One more term.\n"
    right = hashlib.sha256(edited.encode()).hexdigest()
    for text, given, code in (
        (LICENCE, "0" * 64, "other-terms-digest"), (edited, right, "terms-not-as-pinned"), (LICENCE, digest, ""),
    ):  # fmt: skip
        terms.write_text(text, encoding="utf-8")
        own = ("restricted", "license", "accept", ADAPTER, "--name", "A Name")
        done = invoked(*own, "--license-sha256", given)
        former = invoked(*own, f"--licence-sha256={given}")
        assert getattr(former.exception, "code", "") == code
        assert getattr(done.exception, "code", "") == code
        assert right in str(done.exception) or text == LICENCE
    assert done.return_value == 0
    assert [row.name for row in accepted()] == ["A Name"]
    shown = invoked("restricted", "license", "show", ADAPTER)
    former = invoked("restricted", "licence", "show", ADAPTER)
    assert (former.return_value, former.stdout) == (0, shown.stdout)
    assert former.stderr.count("\n") == shown.stderr.count("\n") + 1
    assert LICENCE in shown.stdout
    assert f"accept {ADAPTER} --name NAME --license-sha256 {digest}" in shown.stderr
