"""A sensitive file that calls itself public is recognised by its content; harmless ones are not held up."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from robustify import config as configs
from robustify import pipeline
from robustify.errors import AuthorisationError, RobustifyError
from robustify.loaders import Source, load
from robustify.policy.public import PublicPolicy
from robustify.restricted.access import require_inside
from robustify.restricted.adapters import Manifest
from robustify.restricted.recognition import recognised, require_ordinary
from tests.restricted.conftest import authorised
from tests.support.command import invoked
from tests.support.restricted_set import ADAPTER, items, write_set

N = 60
GUID = "00000000-1111-2222-3333-444444444444"


def public(folder: Path, rows: list[dict[str, Any]], name: str = "quiz.jsonl") -> Path:
    place = folder / "public" / name
    place.parent.mkdir(exist_ok=True)
    place.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return place


def harmless(n: int, say: str = "") -> list[dict[str, Any]]:
    return [{**row, "question": f"{say}{row['question']}"} for row in items(max(n, 20), seed=7)[:n]]


def codes(file: Path, **named: Any) -> list[str]:
    return [sign.code for sign in recognised(load(Source(path=str(file))), [Source(path=str(file), **named)])]


def test_made_up_harmless_items_show_no_sign(mock: Path) -> None:
    assert codes(public(mock, harmless(50))) == []


def test_a_pinned_file_is_recognised_wherever_it_lies(mock: Path) -> None:
    copy = mock / "public.jsonl"
    copy.write_bytes((mock / "data" / "mock" / "items.jsonl").read_bytes())
    assert codes(copy) == ["S1"]


def test_a_canary_of_a_registered_set_is_recognised(mock: Path) -> None:
    told = json.loads((mock / "adapters" / ADAPTER / "manifest.yaml").read_text())
    told["canary_sha256"] = [hashlib.sha256(GUID.encode()).hexdigest()]
    (mock / "adapters" / ADAPTER / "manifest.yaml").write_text(json.dumps(told))
    rows = [{**row, "note": f"id {GUID.upper()} end"} for row in harmless(3)]
    assert codes(public(mock, rows)) == ["S2"]
    assert codes(public(mock, harmless(3))) == []


@pytest.mark.parametrize("spoil", ["an unknown key", "no YAML", "a folder that is gone"])
def test_a_set_whose_adapter_cannot_be_read_lets_nothing_pass(
    mock: Path, monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    file = public(mock, harmless(3))
    folder = mock / "adapters" / ADAPTER
    match spoil:
        case "an unknown key":
            told = json.loads((folder / "manifest.yaml").read_text())
            (folder / "manifest.yaml").write_text(json.dumps({**told, "unknown_key": 1}))
        case "no YAML":
            (folder / "manifest.yaml").write_text("a: [1")
        case _:
            monkeypatch.setenv("ROBUSTIFY_ADAPTERS", str(mock / "gone"))
    with pytest.raises(AuthorisationError, match="mend it or take it out") as refused:
        require_ordinary(load(Source(path=str(file))), [Source(path=str(file))])
    assert refused.value.exit_code == 4


NAMES = {
    "wmdp_bio.jsonl": True,
    "WMDP-quiz.jsonl": True,
    "my.mock-restricted.jsonl": True,
    "swmdp.jsonl": False,
    "restricted-mock.jsonl": False,
}


@pytest.mark.parametrize(("name", "found"), NAMES.items())
def test_names_of_known_sets_are_recognised(mock: Path, name: str, found: bool) -> None:
    assert codes(public(mock, harmless(3), name)) == (["S4"] if found else [])


def test_unusual_columns_of_a_known_set_are_recognised(mock: Path) -> None:
    place = mock / "adapters" / ADAPTER / "manifest.yaml"
    place.write_text(
        json.dumps({**json.loads(place.read_text()), "columns": ["vodak level", "merun writer"]})
    )
    rows = harmless(3)
    assert codes(public(mock, [{**row, "vodak level": 1} for row in rows])) == []
    assert codes(public(mock, [{**row, "vodak level": 1, "merun writer": "x"} for row in rows])) == ["S4"]


SPEAKS = "In view of biosecurity and the chemical weapons convention, "


@pytest.mark.parametrize(
    ("n", "of", "found"), [(5, 20, True), (5, 100, True), (5, 101, False), (4, 4, False)]
)
def test_the_lexicon_counts_records_and_their_share(mock: Path, n: int, of: int, found: bool) -> None:
    file = public(mock, [*harmless(n, SPEAKS), *harmless(of)[n:]])
    assert codes(file) == (["S5"] if found else [])


def test_one_category_word_is_no_sign(mock: Path) -> None:
    assert codes(public(mock, harmless(50, "Because of biosecurity, "))) == []


def test_logs_that_speak_of_controlled_categories_are_refused_too(mock: Path) -> None:
    rows = [
        {"doc": {"question": SPEAKS + r["question"], "choices": r["choices"], "answer": r["answer"]}, "doc_id": i,
         "target": str(r["answer"]), "arguments": [[r["question"], " A"]], "resps": [[[-1.0, False]]],
         "filtered_resps": [[-1.0, False]], "acc": 1.0}
        for i, r in enumerate(items(N))
    ]  # fmt: skip
    log = mock / "samples_quiz_2026-01-01T00-00-00.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = invoked("import", log, "-o", mock / "written")
    assert isinstance(done.exception, RobustifyError)
    assert not (mock / "written").exists()


def vouching(mock: Path, digest: str, rows: list[dict[str, Any]]) -> Path:
    file = public(mock, rows)
    told = write_set(mock / "vouched", 20, sensitivity="public")["manifest"].parent
    folder = mock / "adapters" / "quiz-set"
    told.rename(folder)
    held = json.loads((folder / "manifest.yaml").read_text())
    attest = {
        "by": "A Person",
        "date": "2026-01-02",
        "reason": "read it: a policy quiz",
        "content_sha256": digest,
    }
    held |= {
        "id": "quiz-set",
        "data": {"root_env": "ROBUSTIFY_PUBLIC", "files": [{"path": file.name}]},
        "attest": {"not_sensitive": attest},
    }
    (folder / "manifest.yaml").write_text(json.dumps(held))
    (mock / "quiz.yaml").write_text("adapter: quiz-set\n")
    return file


def test_a_person_s_word_is_bound_to_the_content(mock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = harmless(20, SPEAKS)
    digest = hashlib.sha256(public(mock, rows).read_bytes()).hexdigest()
    file = vouching(mock, digest, rows)
    monkeypatch.setenv("ROBUSTIFY_PUBLIC", str(file.parent))
    config = configs.load(mock / "quiz.yaml")
    assert len(pipeline.load_bench(config, PublicPolicy(config)).items) == 20
    with pytest.raises(AuthorisationError, match="sign S5"):
        require_ordinary(load(Source(path=str(file))), [Source(path=str(file))])
    file.write_text(file.read_text() + "\n")
    with pytest.raises(AuthorisationError, match="sign S5"):
        pipeline.load_bench(config, PublicPolicy(config))


def test_nobody_vouches_against_a_pinned_file(mock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = hashlib.sha256((mock / "data" / "mock" / "items.jsonl").read_bytes()).hexdigest()
    file = vouching(mock, digest, items(N))
    monkeypatch.setenv("ROBUSTIFY_PUBLIC", str(file.parent))
    config = configs.load(mock / "quiz.yaml")
    with pytest.raises(AuthorisationError, match="sign S1"):
        pipeline.load_bench(config, PublicPolicy(config))


def test_check_gives_the_digest_to_vouch_for(mock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = harmless(20, SPEAKS)
    file = vouching(mock, "0" * 64, rows)
    monkeypatch.setenv("ROBUSTIFY_PUBLIC", str(file.parent))
    done = invoked("restricted", "adapter", "check", "quiz-set", "--json")
    told = json.loads(done.stdout)
    assert done.return_value == 4
    assert [f["holds"] for f in told["facts"] if f["fact"] == "content"] == [False]
    assert told["content_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_the_shipped_benign_sets_are_not_held_up() -> None:
    for file in configs.shipped().glob("data/*.jsonl"):
        if "planted" not in file.name:
            assert recognised(load(Source(path=str(file))), [Source(path=str(file))]) == []


@pytest.mark.slow
def test_no_real_public_benchmark_file_is_held_up(data: Path, mock: Path) -> None:
    n = 0
    for file in sorted(data.rglob("*")):
        try:
            bench = load(Source(path=str(file), skip_bad=True)) if file.is_file() else None
        except RobustifyError:
            continue
        if bench is not None:
            n += 1
            assert recognised(bench, [Source(path=str(file))]) == [], file.name
    assert n >= 20


def models(*told: dict[str, Any]) -> Any:
    tree = {"name": "t", "sensitivity": "public", "data": "x.jsonl", "models": list(told)}
    return configs.parse(tree, "t").models


HOSTS = {
    "http://127.0.0.1:8000/v1": "", "http://localhost:8000/v1": "", "http://[::1]:8000/v1": "",
    "https://llm.example/v1": "llm.example", "https://127.0.0.1.example:80/v1": "127.0.0.1.example",
    "https://10.0.0.7:8000/v1": "10.0.0.7", "https://localhost.localdomain/v1": "localhost.localdomain",
    "ray://head.example:10001": "head.example", "auto": "auto",
}  # fmt: skip
"""Addresses of models, and the host that a manifest must name; "" for this machine."""


@pytest.fixture
def manifest(mock: Path) -> Manifest:
    access = authorised(configs.load(mock / "mock.yaml"), None)
    return access.manifest


@pytest.mark.parametrize(("address", "host"), HOSTS.items())
def test_a_model_elsewhere_is_refused_unless_the_manifest_names_its_host(
    manifest: Manifest, address: str, host: str
) -> None:
    engine = (
        {"engine": "openai", "base_url": address}
        if "http" in address
        else {"engine": "ray", "address": address}
    )
    asked = models({"name": "a", **engine}, {"name": "b"}, {"name": "c", "engine": "ray"})
    if host:
        with pytest.raises(AuthorisationError, match=f"'{host}', which egress"):
            require_inside(asked, manifest)
    require_inside(asked, manifest.model_copy(update={"egress": (host,) if host else ()}))


def test_a_permitted_host_is_talked_to_under_tls(manifest: Manifest) -> None:
    permitted = manifest.model_copy(update={"egress": ("llm.example",)})
    with pytest.raises(AuthorisationError, match="expected https"):
        require_inside(
            models({"name": "a", "engine": "openai", "base_url": "http://llm.example/v1"}), permitted
        )


def test_a_remote_server_is_refused_before_it_is_asked_anything(
    mock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "check_model", lambda *_: pytest.fail("a server was asked"))
    (mock / "mock.yaml").write_text(
        f"adapter: {ADAPTER}\nmodels:\n- {{name: a, engine: openai, base_url: 'https://llm.example/v1'}}\n"
    )
    with pytest.raises(AuthorisationError, match="llm"):
        pipeline.robustify(configs.load(mock / "mock.yaml"), mock / "out" / "run", mock / "cache")
