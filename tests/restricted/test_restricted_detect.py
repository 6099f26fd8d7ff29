"""A sensitive file that calls itself public is recognised by its content; harmless ones are not held up."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from robustify.base.errors import AuthorisationError, RobustifyError
from robustify.items.item import Item
from robustify.pipeline import config as configs
from robustify.pipeline import steps
from robustify.pipeline.public import PublicPolicy
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from robustify.restricted.access import require_inside
from robustify.restricted.adapters import Manifest
from robustify.restricted.recognition import recognised, require_ordinary
from robustify.wings import GUARD, wings
from tests.gate.corpus import zipped
from tests.restricted.conftest import authorised, edit, items_of, manifest_of
from tests.restricted.world import rows_as_json
from tests.support.cases import contents, refuses
from tests.support.command import invoked
from tests.support.fake_logs import jsonl, lm_eval_row
from tests.support.restricted_set import items, write_set

N = 60
GUID = "00000000-1111-2222-3333-444444444444"


def public(folder: Path, rows: list[dict[str, Any]], name: str = "quiz.jsonl") -> Path:
    place = folder / "public" / name
    place.parent.mkdir(exist_ok=True)
    place.write_text(rows_as_json(rows))
    return place


def harmless(n: int, say: str = "") -> list[dict[str, Any]]:
    return [{**row, "question": f"{say}{row['question']}"} for row in items(max(n, 20), seed=7)[:n]]


def codes(file: Path, **named: Any) -> list[str]:
    return [
        sign.code
        for sign in recognised(load(Source(path=str(file)), UNGUARDED), [Source(path=str(file), **named)])
    ]


SPEAKS = "In view of biosecurity and the chemical weapons convention, "
SIGNS = contents("signs")


def made(mock: Path, case: dict[str, Any]) -> Path:
    """Return the file of a case."""
    if "pinned" in case:
        return shutil.copy(items_of(mock), mock / "public.jsonl")
    n, total = case.get("speaks", [0, 3])
    rows = [*harmless(n, case.get("words", SPEAKS)), *harmless(total)[n:]]
    if "canary" in case:
        edit(mock, canary_sha256=[hashlib.sha256(GUID.encode()).hexdigest()])
        rows = [{**row, "note": f"id {GUID.upper()} end"} for row in rows]
    if "columns" in case:
        edit(mock, columns=["vodak level", "merun writer"])
        rows = [{**row, **dict.fromkeys(case["columns"], 1)} for row in rows]
    return public(mock, rows, case.get("file", "quiz.jsonl"))


@pytest.mark.parametrize("case", SIGNS.values(), ids=SIGNS)
def test_which_signs_a_file_shows(mock: Path, case: dict[str, Any]) -> None:
    assert codes(made(mock, case)) == case["signs"]


@pytest.mark.parametrize("written", [GUID.replace("-", r"\u002d"), f"canary_{GUID}_end"])
def test_a_canary_is_found_in_other_writings(mock: Path, written: str) -> None:
    edit(mock, canary_sha256=[hashlib.sha256(GUID.encode()).hexdigest()])
    file = public(mock, [{**row, "note": "@"} for row in harmless(3)])
    file.write_text(file.read_text().replace("@", written))
    assert codes(file) == ["S2"]


@pytest.mark.parametrize("place", ["a folder inside", "a folder around it", "the target of a link"])
def test_a_restricted_name_is_seen_in(mock: Path, place: str) -> None:
    edit(mock, names=["vodakset"])
    file = public(mock, harmless(3))
    folder = file.parent
    if place == "a folder around it":
        (mock / "vodakset" / "data").mkdir(parents=True)
        folder = folder.rename(mock / "vodakset" / "data" / "test") / file.name
    elif place == "a folder inside":
        (folder / "vodakset").mkdir()
        file.rename(folder / "vodakset" / "quiz.jsonl")
        public(mock, harmless(3), "other.jsonl")
    else:
        file.rename(mock / "vodakset.jsonl")
        file.symlink_to(mock / "vodakset.jsonl")
    assert codes(folder) == ["S4"]


@pytest.mark.parametrize("spoil", ["an unknown key", "no YAML", "a folder that is gone"])
def test_a_set_whose_adapter_cannot_be_read_lets_nothing_pass(
    mock: Path, monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    file = public(mock, harmless(3))
    match spoil:
        case "an unknown key":
            edit(mock, unknown_key=1)
        case "no YAML":
            manifest_of(mock).write_text("a: [1")
        case _:
            monkeypatch.setenv("ROBUSTIFY_ADAPTERS", str(mock / "gone"))
    with refuses("broken-adapter"):
        require_ordinary(load(Source(path=str(file)), UNGUARDED), [Source(path=str(file))])


@pytest.mark.parametrize("place", ["set", "set/data", "set/data/test"])
def test_a_pinned_file_is_recognised_in_a_folder(mock: Path, place: str) -> None:
    folder = mock / place
    folder.mkdir(parents=True)
    pinned = shutil.copy(items_of(mock), folder / "test.jsonl")
    bench = load(Source(path=str(pinned)), UNGUARDED)
    assert "S1" in {sign.code for sign in recognised(bench, [Source(path=str(mock / "set"))])}


def test_logs_that_speak_of_controlled_categories_are_refused_too(mock: Path) -> None:
    asked = [Item(r["id"], SPEAKS + r["question"], tuple(r["choices"]), r["answer"]) for r in items(N)]
    rows = [lm_eval_row(item, at, [-1.0, -2.0, -3.0, -4.0]) for at, item in enumerate(asked)]
    log = jsonl(mock / "samples_quiz_2026-01-01T00-00-00.jsonl", rows)
    with refuses("controlled-words"):
        raise invoked("import", log, "-o", mock / "written").exception
    assert not (mock / "written").exists()


def test_a_person_s_word_is_bound_to_the_content_and_lifts_no_pinned_file(
    mock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROBUSTIFY_PUBLIC", str(mock / "public"))
    write_set(mock / "vouched", 20, sensitivity="public")["manifest"].parent.rename(
        mock / "adapters" / "quiz-set"
    )
    manifest = mock / "adapters" / "quiz-set" / "manifest.yaml"
    (mock / "quiz.yaml").write_text("adapter: quiz-set\n")

    def vouch(file: Path, digest: str) -> None:
        word = {
            "by": "A Person",
            "date": "2026-01-02",
            "reason": "read it: a policy quiz",
            "content_sha256": digest,
        }
        data = {"root_env": "ROBUSTIFY_PUBLIC", "files": [{"path": file.name}]}
        held = json.loads(manifest.read_text())
        manifest.write_text(
            json.dumps({**held, "id": "quiz-set", "data": data, "attest": {"not_sensitive": word}})
        )

    def loaded() -> int:
        config = configs.load(mock / "quiz.yaml", wings().adapters)
        return len(steps.load_bench(PublicPolicy(config, GUARD)).items)

    file = public(mock, harmless(20, SPEAKS))
    vouch(file, "0" * 64)
    checked = invoked("restricted", "adapter", "check", "quiz-set", "--json")
    told = json.loads(checked.stdout)
    assert checked.return_value == 4
    assert [fact["holds"] for fact in told["facts"] if fact["fact"] == "content"] == [False]
    vouch(file, told["content_sha256"])
    assert loaded() == 20
    with refuses("controlled-words"):
        require_ordinary(load(Source(path=str(file)), UNGUARDED), [Source(path=str(file))])
    file.write_text(file.read_text() + "\n")
    with refuses("controlled-words"):
        loaded()
    file.write_bytes(items_of(mock).read_bytes())
    vouch(file, hashlib.sha256(file.read_bytes()).hexdigest())
    with refuses("registered-file"):
        loaded()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "zip": lambda raw: zipped({"folder/a.txt": b"nothing", "folder/quiz.jsonl": raw}),
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "tar": lambda raw: taped(raw, "w"),
    "tar.gz": lambda raw: taped(raw, "w:gz"),
    "zip in zip": lambda raw: zipped({"inner.zip": zipped({"quiz.jsonl": raw})}),
    "gzip in zip": lambda raw: zipped({"quiz.jsonl.gz": gzip.compress(raw)}),
}


def taped(raw: bytes, mode: Literal["w", "w:gz"]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tape:
        about = tarfile.TarInfo("folder/quiz.jsonl")
        about.size = len(raw)
        tape.addfile(about, io.BytesIO(raw))
    return out.getvalue()


@pytest.mark.parametrize("kind", PACKERS)
def test_a_registered_file_is_found_in_an_archive(mock: Path, kind: str) -> None:
    packed = mock / "data.bin"
    packed.write_bytes(PACKERS[kind](items_of(mock).read_bytes()))
    with refuses("registered-file"):
        GUARD.require_unrestricted("lm-eval:boxes", [], [packed])
    packed.write_bytes(PACKERS[kind](items_of(mock).read_bytes() + b"\n"))
    GUARD.require_unrestricted("lm-eval:boxes", [], [packed])


def refusal(packed: Path) -> str:
    """Return the code with which a file is refused, or "" if it is accepted."""
    try:
        GUARD.require_unrestricted("lm-eval:boxes", [], [packed])
    except AuthorisationError as error:
        return error.code
    return ""


@pytest.mark.parametrize("kind", PACKERS)
def test_a_damaged_archive_ends_in_no_other_error(mock: Path, kind: str) -> None:
    whole, packed, draw = PACKERS[kind](items_of(mock).read_bytes()), mock / "data.bin", random.Random(kind)
    outcomes = []
    for _ in range(100):
        damaged = bytearray(whole[: draw.choice((len(whole), draw.randrange(1, len(whole))))])
        for at in draw.choices(range(len(damaged)), k=draw.randrange(4)):
            damaged[at] = draw.randrange(256)
        packed.write_bytes(damaged)
        outcomes.append(refusal(packed))
    # Some damaged bytes are in no member, and most are in the registered file.
    assert {*outcomes} == {"registered-file", ""}


def test_what_stands_before_the_damage_is_searched(mock: Path) -> None:
    packed, registered = mock / "data.bin", items_of(mock).read_bytes()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tape:
        link = tarfile.TarInfo("lost.jsonl")
        link.type, link.linkname = tarfile.SYMTYPE, "nowhere.jsonl"
        tape.addfile(link)
        for name, raw in (("quiz.jsonl", registered), ("other.txt", b"x" * 9_000)):
            about = tarfile.TarInfo(name)
            about.size = len(raw)
            tape.addfile(about, io.BytesIO(raw))
    packed.write_bytes(out.getvalue())
    assert refusal(packed) == "registered-file"
    packed.write_bytes(out.getvalue()[: out.getvalue().index(b"xxxx") + 4_000])
    assert refusal(packed) == "registered-file"
    archive = zipped({"a/": b"", "quiz.jsonl": registered, "other.txt": b"x" * 9_000})
    packed.write_bytes(archive.replace(b"other", b"\xff\xfe\xff\xfe\xff"))
    assert refusal(packed) == "registered-file"


def test_the_shipped_benign_sets_are_not_held_up() -> None:
    for file in configs.shipped().glob("data/*.jsonl"):
        if "planted" not in file.name:
            assert recognised(load(Source(path=str(file)), UNGUARDED), [Source(path=str(file))]) == []


@pytest.mark.slow
def test_no_real_public_benchmark_file_is_held_up(data: Path, mock: Path) -> None:
    n = 0
    for file in sorted(data.rglob("*")):
        try:
            bench = load(Source(path=str(file), skip_bad=True), UNGUARDED) if file.is_file() else None
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
    access = authorised(configs.load(mock / "mock.yaml", wings().adapters), None)
    return access.manifest


@pytest.mark.parametrize(("address", "host"), HOSTS.items())
def test_a_model_elsewhere_is_refused_unless_the_manifest_names_its_host(
    manifest: Manifest, address: str, host: str
) -> None:
    kind, place = ("openai", "base_url") if "http" in address else ("ray", "address")
    engine = {"engine": kind, place: address}
    asked = models({"name": "a", **engine}, {"name": "b"}, {"name": "c", "engine": "ray"})
    if host:
        with refuses("host-not-allowed", says=f"'{host}'"):
            require_inside(asked, manifest)
    require_inside(asked, manifest.model_copy(update={"egress": (host,) if host else ()}))


def test_a_permitted_host_is_talked_to_under_tls(manifest: Manifest) -> None:
    permitted = manifest.model_copy(update={"egress": ("llm.example",)})
    plain = models({"name": "a", "engine": "openai", "base_url": "http://llm.example/v1"})
    with refuses("unencrypted-host"):
        require_inside(plain, permitted)
