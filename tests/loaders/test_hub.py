"""Hub datasets: which files are the split, what the cache gives without a network, and what refusals say.

No real hub is asked: huggingface_hub talks to a small one on this machine, or has only its cache folder.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from robustify import config as configs
from robustify.errors import AuthorisationError, DataError, RobustifyError, UsageError
from robustify.loaders import Source, load, load_many
from robustify.loaders.hub_files import HubSelection, choose_files, data_files
from tests.support.fake_hub import REPO, SHA, Refusal, hub

pytest.importorskip("huggingface_hub")
Client = Callable[[str | None], Path]
COLOURS = ["red", "green", "blue", "grey"]
CARD = """---
license: mit
configs:
- config_name: Lamps-Hard
  data_files:
  - {split: train, path: Lamps-Hard/train-*}
  - {split: test, path: Lamps-Hard/test-*}
- config_name: Lamps-Easy
  data_files:
  - {split: test, path: Lamps-Easy/test-*}
---
# Lamps
"""


def rows(n: int, first: int = 0) -> list[dict[str, object]]:
    choices = {"text": COLOURS, "label": list("ABCD")}
    return [{"question": f"Which lamp {first + i}?", "choices": choices, "answerKey": "C"} for i in range(n)]


def parquet(n: int, first: int = 0) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows(n, first)), out)
    return out.getvalue()


FILES = {
    "README.md": CARD.encode(),
    "Lamps-Hard/train-00000-of-00001.parquet": parquet(9),
    "Lamps-Hard/test-00000-of-00002.parquet": parquet(3),
    "Lamps-Hard/test-00001-of-00002.parquet": parquet(2, 3),
    "Lamps-Easy/test-00000-of-00001.parquet": parquet(4),
    "lamps.py": b"raise SystemExit('a dataset script was run')",
}
HARD = {"hub": REPO, "revision": SHA, "config": "Lamps-Hard", "split": "test"}


def source(**said: object) -> Source:
    return Source.model_validate({**HARD, **said})


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Sends the hub's own client to an address (None: offline) with a cache of its own and no token."""
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)

    def goes_to(address: str | None) -> Path:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", address is None)
        there = address or "http://127.0.0.1:9"
        monkeypatch.setattr(constants, "ENDPOINT", there)
        path = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", there + path)
        return cache

    return goes_to


def filled(cache: Path, files: dict[str, bytes]) -> None:
    """A hub cache as another machine may have left it, without a listing."""
    for name, data in files.items():
        path = cache / f"datasets--{REPO.replace('/', '--')}" / "snapshots" / SHA / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


# ---- what a source must say ----


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"hub": REPO}, "revision is missing; expected 40 hexadecimal digits"),
        ({"hub": REPO, "revision": "main"}, "revision is no commit (a branch or a tag can move)"),
        ({"hub": REPO, "revision": "COMMIT-OF-40-HEX-DIGITS"}, "revision is no commit"),
        ({"hub": REPO, "revision": SHA[:39]}, "revision is no commit"),
        ({"hub": "lamps", "revision": SHA}, "expected `hub: owner/name`"),
        ({"hub": "../lamps/x", "revision": SHA}, "expected `hub: owner/name`"),
        ({"hub": REPO, "revision": SHA, "path": "x"}, "both `path` and `hub`"),
        ({"path": "x", "split": "test"}, "split is of a Hub dataset only"),
        ({}, "names no data"),
    ],
)
def test_a_hub_source_without_a_pinned_commit_is_refused(said: dict[str, str], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Source.model_validate(said)
    assert told in str(caught.value)


def test_restricted_sets_are_never_fetched(client: Client) -> None:
    client(None)
    with pytest.raises(AuthorisationError, match="restricted sets are never fetched"):
        load(source(hub="somebody/WMDP-mirror"))


def test_a_restricted_config_names_local_files_only() -> None:
    tree = {"name": "x", "sensitivity": "restricted", "data": {"hub": REPO, "revision": SHA}}
    with pytest.raises(UsageError, match="a restricted set is read from local files only"):
        configs.parse(tree, "c.yaml")
    assert configs.parse({**tree, "sensitivity": "public"}, "c.yaml").data[0].hub == REPO


def test_without_the_package_the_error_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustify.loaders.hub.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'robustcbrn-eval\[hub\]'"):
        load(source())


# ---- which files ----


def test_the_card_says_which_files_are_a_split() -> None:
    part = HubSelection("x", "Lamps-Hard", "test")
    assert choose_files(part, list(FILES), CARD) == [
        "Lamps-Hard/test-00000-of-00002.parquet",
        "Lamps-Hard/test-00001-of-00002.parquet",
    ]


@pytest.mark.parametrize(
    ("names", "part", "found"),
    [
        (["data/test-00000-of-00001.parquet", "data/train-00000-of-00001.parquet"], {"split": "test"}, 0),
        (["plain/test/0000.parquet", "plain/validation/0000.parquet"], {"config": "plain", "split": "validation"}, 1),
        (["test.jsonl", "train.jsonl"], {"split": "train"}, 1),
        (["lamps_test.csv", "lamps_dev.csv"], {"split": "dev"}, 1),
        (["a/gems.csv", "b/lamps.csv"], {"files": "*/lamps.csv"}, 1),
        (["data/test-00000-of-00001-9ee2c7a4e0e0d1b3.parquet"], {"split": "test"}, 0),
        (["only.json", "lamps.py", "model.pkl", "dataset_infos.json"], {}, 0),
    ],
)  # fmt: skip
def test_without_a_card_names_say_it(names: list[str], part: dict[str, str], found: int) -> None:
    assert choose_files(HubSelection("x", **part), names, "") == [names[found]]


@pytest.mark.parametrize(
    ("names", "part", "told"),
    [
        (["lamps.py", "x.pkl"], {}, "dataset scripts are never run"),
        (["test.jsonl", "train.jsonl"], {}, "2 files fit (test.jsonl, train.jsonl)"),
        (["a/test.parquet", "b/test.parquet"], {"split": "test"}, "files of several splits fit"),
        (["data/test.parquet", "data/train.parquet"], {}, "files of several splits fit"),
        (["test/0000.parquet", "train/0000.parquet"], {}, "files of several splits fit"),
        (["test-00000-of-00003.parquet", "test-00002-of-00003.parquet"], {}, "2 of 3 shards are here"),
        (["test-00000-of-00002-ab.parquet", "test-00000-of-00002-cd.parquet"], {}, "2 of 2 shards are here"),
        (["test.jsonl"], {"split": "dev"}, "no data file fits; found test.jsonl"),
        (["test.jsonl"], {"files": "*.parquet"}, "no data file fits"),
        (None, {}, "has several configurations; expected `config:` one of Lamps-Hard, Lamps-Easy"),
        (None, {"config": "Lamps"}, "no configuration is called Lamps"),
        (None, {"config": "Lamps-Hard"}, "has several splits; expected `split:` one of train, test"),
        (None, {"config": "Lamps-Easy", "split": "train"}, "no split is called train"),
    ],
)
def test_what_could_be_another_split_is_not_guessed(
    names: list[str] | None, part: dict[str, str], told: str
) -> None:
    """Without names: the files and the card of the lamps."""
    with pytest.raises(DataError) as caught:
        choose_files(HubSelection("x", **part), names or list(FILES), "" if names else CARD)
    assert told in str(caught.value)


def test_shards_with_a_hash_of_their_own_are_one_series() -> None:
    names = ["data/test-00000-of-00002-9ee2c7.parquet", "data/test-00001-of-00002-0a1b2c.parquet"]
    assert choose_files(HubSelection("x", split="test"), names, "") == names
    numbered = ["plain/test/0000.parquet", "plain/test/0001.parquet"]
    assert (
        choose_files(HubSelection("x", split="test"), [*numbered, "plain/train/0000.parquet"], "") == numbered
    )


@given(st.text(max_size=200))
def test_no_card_breaks_the_choice(text: str) -> None:
    for card in (text, f"---\n{text}\n---\n", f"---\nconfigs:\n- {text!r}\n---\n"):
        assert choose_files(HubSelection("x"), ["only.jsonl"], card) == ["only.jsonl"]


def test_hidden_files_and_metadata_are_no_data() -> None:
    assert data_files([".cache/a.json", "dataset_info.json", "x/state.json", "a.py", "b.bin", "c.csv"]) == [
        "c.csv"
    ]


# ---- fetched, cached, offline ----


def test_a_split_is_fetched_once_and_then_needs_no_network(client: Client) -> None:
    with hub(FILES) as (address, asked):
        client(address)
        first = load(source())
        wanted = [line.rsplit("/", 1)[1] for line in asked if line.startswith("GET") and "/resolve/" in line]
    client(None)
    second = load(source())
    assert first == second
    assert [item.stem for item in first.items] == [f"Which lamp {i}?" for i in range(5)]
    assert first.items[0].id == "lamp_questions-Lamps-Hard-0001"
    assert first.name == "lamp_questions-Lamps-Hard"
    assert sorted(set(wanted)) == ["README.md", "test-00000-of-00002.parquet", "test-00001-of-00002.parquet"]


def test_several_configurations_are_one_benchmark(client: Client) -> None:
    with hub(FILES) as (address, _):
        client(address)
        both = load_many([source(), source(config="Lamps-Easy", topic="easy")])
    assert len(both.items) == len({item.id for item in both.items}) == 9
    assert {item.topic for item in both.items} == {"", "easy"}


def test_two_splits_of_one_dataset_have_ids_of_their_own(client: Client) -> None:
    with hub(FILES) as (address, _):
        client(address)
        both = load_many([source(), source(split="train")])
    assert len({item.id for item in both.items}) == len(both.items) == 14
    assert both.items[-1].id == "train-lamp_questions-Lamps-Hard-0009"
    assert both.name == "lamp_questions"


def test_a_cache_without_a_listing_serves_what_it_holds(client: Client) -> None:
    cache = client(None)
    filled(cache, {name: FILES[name] for name in FILES if name.startswith(("README", "Lamps-Hard/test"))})
    assert len(load(source()).items) == 5


@pytest.mark.parametrize("address", [None, "http://127.0.0.1:9"])
def test_out_of_reach_and_not_cached_names_the_command(
    client: Client, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The hub's client tries again five times, after 1, 2, 4, 8 and 8 seconds.
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    client(address)
    with pytest.raises(DataError) as caught:
        load(source())
    assert "is not in the hub cache, or not whole, and the hub is out of reach" in str(caught.value)
    assert f"hf download {REPO} --repo-type dataset --revision {SHA}" in str(caught.value)
    assert ("HF_HUB_OFFLINE is set" in str(caught.value)) is (address is None)


def test_a_cache_with_a_shard_missing_is_not_taken_for_whole(client: Client) -> None:
    cache = client(None)
    filled(cache, {name: FILES[name] for name in ("README.md", "Lamps-Hard/test-00000-of-00002.parquet")})
    with pytest.raises(DataError, match="1 of 2 shards are here"):
        load(source())


def test_a_file_that_the_listing_has_and_the_cache_has_not_is_told(client: Client) -> None:
    with hub(FILES) as (address, _):
        cache = client(address)
        load(source())
    next(cache.glob("datasets--*/snapshots/*/Lamps-Hard/test-00001*")).unlink()
    client(None)
    with pytest.raises(DataError, match="is not in the hub cache, or not whole"):
        load(source())


def test_json_lines_and_csv_of_a_repository_are_read_by_our_readers(client: Client) -> None:
    house = [{"id": f"q{i}", "stem": f"Which {i}?", "choices": COLOURS, "key": 1} for i in range(3)]
    files = {
        "test.jsonl": "".join(json.dumps(row) + "\n" for row in house).encode(),
        "dev.csv": b"question,A,B,answer\nWhich?,red,blue,B\n",
    }
    with hub(files) as (address, _):
        client(address)
        lines = load(source(config=None))
        table = load(source(config=None, split="dev"))
    assert [item.id for item in lines.items] == ["q0", "q1", "q2"]
    assert (table.items[0].key, table.items[0].id) == (1, "lamp_questions-0001")


def test_a_pinned_digest_holds_for_hub_files_too(client: Client) -> None:
    with hub(FILES) as (address, _):
        client(address)
        assert load(source(sha256=load(source()).sha256)).items
        with pytest.raises(DataError, match="as the config pins it"):
            load(source(sha256="0" * 64))


# ---- gates ----

ASK = "Access to dataset lamps/lamp_questions is restricted and you are not in the authorized list."
NO_TOKEN = "Access to dataset lamps/lamp_questions is restricted. You must be authenticated."
PENDING = "Your request to access dataset lamps/lamp_questions is awaiting a review."
NO_RIGHT = "Please enable access to public gated repositories in your fine-grained token settings."
GATES: dict[str, tuple[Refusal, str | None, str]] = {
    "no token": ((401, "GatedRepo", NO_TOKEN), None, "is gated, and no token is known here"),
    "not asked": ((403, "GatedRepo", ASK), "hf_x", "is gated, and access was not asked for with this account"),
    "pending": ((403, "GatedRepo", PENDING), "hf_x", "is gated, and your request is pending"),
    "wrong token": ((401, "", "Invalid credentials in Authorization header"), "hf_x", "the hub refuses this token"),
    "token without the right": ((403, "GatedRepo", NO_RIGHT), "hf_x", "the hub refuses this token"),
}  # fmt: skip


@pytest.mark.parametrize("case", GATES)
def test_each_answer_of_a_gate_has_its_own_message_and_exit_code_4(
    client: Client, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    refusal, token, told = GATES[case]
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with hub(FILES, refusal) as (address, _):
        client(address)
        with pytest.raises(AuthorisationError) as caught:
            load(source())
    assert told in str(caught.value)
    assert caught.value.exit_code == 4
    assert "hf_x" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "told"),
    [({"revision": "f" * 40}, "has no such commit"), ({"hub": "lamps/none"}, "no such dataset")],
)
def test_what_the_hub_does_not_have_is_no_network_fault(
    client: Client, said: dict[str, str], told: str
) -> None:
    with hub(FILES) as (address, _):
        client(address)
        with pytest.raises(RobustifyError, match=told) as caught:
            load(source(**said))
    assert caught.value.exit_code == 3


def test_a_hub_that_fails_is_told_by_its_status(client: Client) -> None:
    with hub(FILES, (418, "", "short and stout")) as (address, _):
        client(address)
        with pytest.raises(DataError, match="status 418"):
            load(source())
