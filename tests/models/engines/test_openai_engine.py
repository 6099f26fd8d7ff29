"""A model behind a server: what is asked, what is refused, what is tried again, and what is never taken for whole."""

import json
import logging
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.wings import wings

pytest.importorskip("openai", reason="the openai extra is not installed")

from bench.torture.runs import files_of
from robustify.base.errors import UsageError
from robustify.items.views import Request
from robustify.models.engines import check_model
from robustify.models.engines.cache import Cache
from robustify.models.engines.openai import client
from robustify.models.engines.openai.engine import OpenAIServer
from robustify.models.engines.openai.logprobs import PART, Token, covers, tokens_of
from robustify.models.model_settings import RayModel
from robustify.pipeline import steps
from tests.support.cases import contents, refuses
from tests.support.openai_stub import Stub, Toy, config, model, scored, stub
from tests.support.server_cases import MIXED, REQUESTS, reference

MANY = REQUESTS["texts"]
CASES = contents("models")
KEY = "sk-4f0e-hidden-9a7"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)


@pytest.fixture
def server() -> Iterator[Stub]:
    with stub() as running:
        yield running


# the numbers


@given(
    st.lists(st.text(min_size=1, max_size=5).filter(lambda t: PART not in t), min_size=2, max_size=12),
    st.data(),
)
def test_a_prompt_is_cut_where_its_continuation_begins(pieces: list[str], data: st.DataObject) -> None:
    tokens = [Token(piece, -1.0 if i else None) for i, piece in enumerate(pieces)]
    text, n = "".join(pieces), data.draw(st.integers(1, len(pieces) - 1))
    assert covers(tokens, text)
    assert tokens_of("".join(pieces[-n:]), tokens) == n
    inside = "".join(pieces[-n:])[1:]
    ends = {"".join(pieces[-k:]) for k in range(1, len(pieces))}
    assert inside == "" or inside in ends or tokens_of(inside, tokens) is None


@pytest.mark.parametrize(
    ("kind", "requests"), [("echo", "mixed"), ("prompt_logprobs", "mixed"), ("next tokens", "letters")]
)
def test_scores_are_those_of_the_definition_token_by_token(kind: str, requests: str) -> None:
    def defined(request: Request) -> float:
        brain = Toy()
        before, row = brain.encode(request.context), brain.encode(request.context + request.continuation)
        after = brain.scored(row)
        return sum(after[i - 1][row[i]] for i in range(len(before), len(row)))

    found, _ = reference(kind, requests, None)
    assert [s.total for s in found] == pytest.approx([defined(request) for request in REQUESTS[requests]])


def test_requests_that_are_repeated_are_counted(server: Stub) -> None:
    with OpenAIServer(model(server)) as engine:
        server.manner.faults = [(503, {}), (503, {"Retry-After": "0.1"})]
        engine.loglikelihoods(MIXED)
        usage = engine.usage()
    assert (usage["tried_again"], usage["calls"]) == (2, server.completions + 1)


# what a server lists


def test_a_name_that_is_no_name_of_a_model_is_left_out_of_the_fingerprint() -> None:
    with stub(lists=("the secret cat",), root="/m/the secret cat") as server:
        assert (
            check_model(model(server, model="the secret cat", pin="toy"), Path(), ())["model"]
            == "the secret cat"
        )


# what is tried again


def test_an_address_where_nobody_listens_is_given_up_after_a_few_tries() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with refuses("unreachable-server") as e:
        check_model(model(url, retries=20), Path(), ())
    assert " 3 " in str(e.value)


def test_a_proxy_of_the_environment_never_sees_this_machine_s_prompts(
    server: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert len(scored(server, tmp_path, MIXED)) == len(MIXED)


@pytest.mark.parametrize("proxy", ["socks://me:sesame@h:1", "socks5://me:sesame@h:1", "http://h:sesame"])
def test_a_proxy_that_cannot_be_used_is_named_by_its_variable(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with refuses("unusable-proxy") as e:
        check_model(model("https://llm.example.org/v1"), Path(), ())
    assert "ALL_PROXY" in str(e.value)
    assert "sesame" not in str(e.value)


@pytest.mark.parametrize(
    ("url", "loads"),
    [
        ("http://127.0.0.1:1/v1", False),
        ("HTTPS://127.0.0.1:1/v1", True),
        ("https://llm.example.org/v1", True),
        # The proxy may have TLS.
        ("http://llm.example.org/v1", True),
    ],
)
def test_certificates_are_loaded_if_the_server_or_a_proxy_may_have_tls(
    url: str, loads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import openai

    given = []
    real = openai.DefaultHttpxClient
    monkeypatch.setattr(
        "openai.DefaultHttpxClient", lambda **more: given.append(more["verify"]) or real(**more)
    )
    client.Client(model(url)).close()
    assert given == [True] or not loads
    assert loads or given[0].verify_mode == ssl.CERT_REQUIRED
    assert loads or given[0].cert_store_stats()["x509"] == 0


# the key


@pytest.mark.parametrize("remote", [False, True])
def test_the_key_is_sent_and_nothing_else_of_the_environment_and_it_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path, remote: bool
) -> None:
    # The environment is trusted with the proxies of other machines only.
    monkeypatch.setattr(client, "host_of", lambda _: "elsewhere" if remote else None)
    (tmp_path / ".netrc").write_text("default login other password other")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ROBUSTIFY_API_KEY", KEY)
    others = {
        "API_KEY": "sk-other",
        "ADMIN_KEY": "sk-other",
        "ORG_ID": "org-other-\N{SNOWMAN}",
        "PROJECT_ID": "project-other",
        "BASE_URL": "http://127.0.0.1:9",
        "CUSTOM_HEADERS": "Authorization: Bearer other\nX-Api-Key: other\nCookie: other\nX-\N{SNOWMAN}: other",
    }
    for name, value in others.items():
        monkeypatch.setenv(f"OPENAI_{name}", value)
    with stub(key=KEY) as server:
        found = check_model(model(server, api_key_env="ROBUSTIFY_API_KEY"), Path(), ())
        assert "other" not in str(server.headers)
        assert {name for sent in server.headers for name in sent} <= client.SENT
        server.manner.key = "sk-new"
        with refuses("refused-api-key") as e:
            check_model(model(server, api_key_env="ROBUSTIFY_API_KEY"), Path(), ())
        assert "ROBUSTIFY_API_KEY" in str(e.value)
        with refuses("refused-api-key"):
            check_model(model(server), Path(), ())
        for key, code in (("", "missing"), (f"“{KEY}”", "invalid"), (f"{KEY}\r", "invalid")):
            monkeypatch.setenv("ROBUSTIFY_API_KEY", key)
            with refuses(f"{code}-api-key") as e:
                check_model(model(server, api_key_env="ROBUSTIFY_API_KEY"), Path(), ())
            assert "hidden" not in str(e.value)
    assert "hidden" not in f"{found} {e.value} {caplog.text}"


@pytest.mark.parametrize(("variable", "url", "listed", "code"), CASES["keys"])
def test_a_config_sends_no_key_that_is_not_meant_for_its_server_or_unencrypted(
    monkeypatch: pytest.MonkeyPatch, variable: str, url: str, listed: str, code: str | None
) -> None:
    monkeypatch.setenv(variable, KEY)
    monkeypatch.setenv("ROBUSTIFY_KEYS", listed)
    if code is None:
        assert model(url, api_key_env=variable).api_key() == KEY
        return
    with refuses(code) as e:
        client.Client(model(url, api_key_env=variable))
    assert (f"ROBUSTIFY_KEYS={variable}@" in str(e.value)) == (code == "forbidden-api-key")
    assert "hidden" not in str(e.value)


def test_where_servers_are_forbidden_none_is_asked(
    server: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROBUSTIFY_NO_SERVERS", "1")
    for settings in (model(server), RayModel(name="m", engine="ray", address="10.0.0.7:6379")):
        with refuses("forbidden-servers"):
            check_model(settings, tmp_path)
    assert server.completions == 0


@pytest.mark.parametrize("url", CASES["addresses"]["refused"])
def test_an_address_that_carries_a_secret_or_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UsageError, match="base_url") as e:
        config(url)
    assert "pass" not in str(e.value).replace("password", "")


# what the scores are kept under


def test_scores_are_kept_by_the_model_behind_a_name_and_not_by_its_address(tmp_path: Path) -> None:
    with stub() as one, stub(Toy(seed=1)) as two, stub() as again:
        first, other = scored(one, tmp_path, MIXED), scored(two, tmp_path, MIXED)
        assert scored(again, tmp_path, MIXED) == first != other
        assert not [body for body in again.bodies if "secret" in str(body)]
        with Cache(tmp_path) as cache:
            variants = []
            for server in (one, two, again):
                with OpenAIServer(model(server), cache) as engine:
                    variants.append(engine.fingerprint()["variant"])
    assert variants == ["0", "1", "0"]


# writing


# threads


def test_an_interrupt_waits_for_nobody_and_what_was_kept_is_not_asked_again(
    server: Stub, tmp_path: Path
) -> None:
    server.manner.service = 0.02
    reference = scored(server, tmp_path / "reference", MANY)

    def interrupt(n: int) -> None:
        if n:
            raise KeyboardInterrupt

    with Cache(tmp_path) as cache, OpenAIServer(model(server, concurrency=2), cache) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.loglikelihoods(MANY, interrupt)
        kept = cache.info()["rows"]
    time.sleep(0.3)
    assert 0 < kept < len(MANY)
    server.bodies = []
    assert scored(server, tmp_path, MANY) == reference
    checked = 1
    assert sum("secret" in str(body) for body in server.bodies) <= len(MANY) - kept + checked


# a whole run


def test_a_warm_run_asks_no_item_has_the_same_bytes_and_tells_what_it_cost(
    tmp_path: Path, items: Path
) -> None:
    with stub() as server:
        for name in ("cold", "warm"):
            asked = config(server, items, price_in=2.0, price_out=4.0)
            run = steps.robustify(asked, tmp_path / name, tmp_path / "cache", wings())
            server.bodies, sent = [], server.bodies
    assert not any("cup number" in str(body) for body in sent)
    assert files_of(tmp_path / "cold") == files_of(tmp_path / "warm")
    cold, warm = (json.loads((tmp_path / name / "run.log").read_text()) for name in ("cold", "warm"))
    assert cold["model"] == "toy"
    assert cold["tokens_in"] > warm["tokens_in"] > 0
    assert cold["cost"] == pytest.approx((2 * cold["tokens_in"] + 4 * cold["tokens_out"]) / 1e6)
    assert "run.log" not in run.manifest["files"]
    assert "tokens_in" not in json.dumps(run.manifest)


def test_a_run_holds_neither_host_nor_key_and_can_be_judged_again(
    tmp_path: Path, items: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROBUSTIFY_API_KEY", KEY)
    with stub(key=KEY) as server:
        run = steps.robustify(
            config(server, items, api_key_env="ROBUSTIFY_API_KEY", price_in=2.0, price_out=4.0),
            tmp_path / "run",
            tmp_path / "c",
            wings(),
        )
        port = server.url.split(":")[2].split("/")[0]
    held = b"".join(p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file())
    assert b"4f0e" not in held
    assert f":{port}".encode() not in held
    assert run.manifest["config"]["models"][0]["base_url"] == "http://localhost/v1"
    assert steps.rejudge(run, {}, tmp_path / "judged").summary == run.summary


def test_one_model_under_two_names_does_not_vote_twice(tmp_path: Path, items: Path) -> None:
    with stub(lists=("toy", "alias"), root="org/toy-7b") as server:
        asked = config(server, items, models=[{}, {"name": "second", "model": "toy"}])
        with pytest.raises(UsageError, match=r"toy.*second"):
            steps.robustify(asked, tmp_path / "run", tmp_path / "cache", wings())
