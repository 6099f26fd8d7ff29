"""A model behind a server: what is asked, what is refused, what is tried again, and what is never taken for whole."""

import json
import logging
import socket
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.wings import wings

pytest.importorskip("openai", reason="the openai extra is not installed")

from bench.torture.runs import files_of
from robustify.base.errors import AuthorisationError, DataError, ModelError, RequestError, UsageError
from robustify.items.item import Item
from robustify.items.views import Request
from robustify.models.asking import Asking
from robustify.models.engines import check_model
from robustify.models.engines.cache import Cache
from robustify.models.engines.openai import client
from robustify.models.engines.openai.engine import OpenAIServer
from robustify.models.engines.openai.logprobs import PART, Token, covers, tokens_of
from robustify.models.engines.protocols import NO_LETTER
from robustify.models.engines.settings import RayModel, host_of
from robustify.pipeline import steps
from robustify.runs.run import write_items
from tests.support.openai_stub import Answer, Stub, Toy, config, model, scored, stub

REQUESTS = [
    *(
        Request("Question: the secret cat\nAnswer:", f" {text}")
        for text in ("blue", "blue mat", "red", "12 21")
    ),
    *(Request("A. blue\nB. red\nC. green\nAnswer:", f" {letter}") for letter in "ABC"),
]
LETTERS = REQUESTS[-3:]
MANY = [
    Request(f"Question: the secret cat {n}\nAnswer:", f" {w}") for n in range(20) for w in ("red", "blue")
]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)


@pytest.fixture
def server() -> Iterator[Stub]:
    with stub() as running:
        yield running


def expected(request: Request) -> float:
    """The definition, token by token."""
    brain = Toy()
    before, row = brain.encode(request.context), brain.encode(request.context + request.continuation)
    after = brain.scored(row)
    return sum(after[i - 1][row[i]] for i in range(len(before), len(row)))


def no_text(error: BaseException) -> bool:
    return not any(word in str(error) for word in ("secret", "cat", "blue", "green"))


# the numbers


def test_a_token_across_the_end_of_the_context_is_refused(server: Stub, tmp_path: Path) -> None:
    straddling = Request("the secret", "ive cat")
    with pytest.raises(
        RequestError, match="crosses the end of its context; run this model with the engine hf"
    ) as e:
        scored(server, tmp_path, [REQUESTS[0], straddling])
    assert list(e.value.faults) == [1]
    assert no_text(e.value)


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


# what a server can serve


def told(**changes: Any) -> tuple[Any, ...]:
    return Asking(**changes).templates()


@pytest.mark.parametrize("echo", ["missing", "none"])
def test_a_server_without_echo_serves_letters_and_names_what_it_cannot(echo: str, tmp_path: Path) -> None:
    letters = ("choices_only", "full")
    with stub(echo=echo) as server:
        with pytest.raises(UsageError) as e:
            check_model(model(server), Path(), Asking().templates())
        assert "does not support choices_only_text (answer-v1), cloze (qa-v1)" in str(e.value)
        assert "(prompt_logprobs: ignored; echo: ignored)" in str(e.value)
        assert "`asking: {mode: letter, views: [choices_only, full]}`" in str(e.value)
        check_model(model(server), Path(), Asking(views=letters).templates())
        with pytest.raises(UsageError, match=r"does not support choices_only \(balepur-v1\)"):
            check_model(
                model(server), Path(), Asking(views=letters, letter_templates=("balepur-v1",)).templates()
            )
        found = scored(server, tmp_path, LETTERS)
        with pytest.raises(ModelError, match="only letters can be scored"):
            scored(server, tmp_path, REQUESTS)
    assert [s.total for s in found] == pytest.approx([expected(r) for r in LETTERS])


@pytest.mark.parametrize("manner", [{"echo": "ignored"}, {"completions": False}])
def test_a_server_without_log_probabilities_can_only_write(manner: dict[str, Any]) -> None:
    said = ["echo: (status 404|ignored)", "chat: no reply names a letter", "does not support choices_only"]
    says = ".*".join([*said, "a chat model that answers with a letter"])
    with stub(**manner) as server, OpenAIServer(model(server)) as engine:
        with pytest.raises(UsageError, match=says):
            check_model(model(server), Path(), Asking().templates())
        with pytest.raises(ModelError, match="only letters can be scored"):
            engine.loglikelihoods(LETTERS)
        assert len(engine.write(["hello", "you"], max_tokens=4)) == 2


BROKEN = [
    ({"fields": {"echo": n, "prompt_logprobs": n}}, f"prompt_logprobs: status {n}; echo: status {n}")
    for n in (400, 500, 501)
]
BROKEN += [
    ({"spoil": spoil, "prompt_logprobs": form}, f"echo: sent {found} instead of a log-probability")
    for form in (False, True)
    for spoil, found in (("null", "NoneType"), ("nan", "nan"), ("positive", "0.7"))
]


@pytest.mark.parametrize(("manner", "says"), BROKEN)
def test_where_only_prompts_fail_letters_are_asked_and_the_tried_is_named(
    manner: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with stub(**manner) as server:
        check_model(model(server, retries=0), Path(), Asking(views=("choices_only", "full")).templates())
        found = scored(server, tmp_path, LETTERS, retries=0)
        with pytest.raises(UsageError, match=rf"{says}.*does not support choices_only_text .*, cloze") as e:
            check_model(model(server, retries=0), Path(), Asking().templates())
        assert no_text(e.value)
    assert [s.total for s in found] == pytest.approx([expected(r) for r in LETTERS])


def test_a_server_that_takes_no_prompt_is_named_for_the_cause() -> None:
    with stub(streams="This model only support stream mode") as server:
        cut = server.url.removesuffix("/v1")
        for url, says in ((cut, r"no such model or path\. Check `base_url`"), (server.url, "only streams")):
            with pytest.raises(ModelError, match=says) as e:
                check_model(model(url), Path(), Asking().templates())
            assert "log-probabilities" not in str(e.value)


# servers whose numbers do not hold


@pytest.mark.parametrize(
    ("manner", "told"),
    [
        ({"echo": "shifted"}, "shifted or scaled and cannot be used"),
        ({"echo": "cut"}, "shortens or changes prompts"),
        ({"lists": ("other", "more")}, "does not list the model 'toy'; found 'other', 'more'"),
        ({"lists": ()}, "does not list the model 'toy'; found none"),
        ({"says": "something-else"}, "replied as 'something-else'; expected 'toy'"),
        ({"spoil": "fewer"}, "do not spell the prompt"),
        ({"spoil": "half"}, "not a complete JSON"),
        ({"ids": True}, "returns tokens as IDs .*`--return-tokens-as-token-ids`"),
        ({"ids": True, "echo": "missing"}, "returns tokens as IDs .*`--return-tokens-as-token-ids`"),
        ({"lists": ("/models/llama.gguf",)}, "found '/models/llama.gguf'. Set `model: ID`"),
        ({"spoil": "fewer", "prompt_logprobs": True}, "do not spell the prompt"),
    ],
)
def test_a_server_that_cannot_be_trusted_is_refused_before_any_item(
    manner: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with stub(**manner) as server:
        with pytest.raises(ModelError, match=told):
            check_model(model(server), Path(), ())
        with pytest.raises(ModelError, match=told):
            scored(server, tmp_path, REQUESTS)
        assert not any("secret" in str(body) for body in server.bodies)


@pytest.mark.parametrize("kind", [{}, {"letters": "first", "completions": False}])
@pytest.mark.parametrize(
    "answer",
    [
        (403, {"error": {"message": "missing scopes"}}),
        (501, {}),
        (200, [{"id": "toy"}]),
        (200, {"data": None}),
    ],
)
def test_a_model_that_a_gateway_lists_otherwise_or_not_is_asked(
    answer: tuple[int, Any], kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gateway(self: Stub, path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        if path == "/v1/models":
            return Answer(*answer)
        known = body["model"] == "toy"
        return ask(self, path, body, headers) if known else Answer(404, {"error": {"message": "no model"}})

    ask = Stub.answer
    monkeypatch.setattr(Stub, "answer", gateway)
    with stub(**kind) as server:
        assert check_model(model(server, retries=0), Path(), ())["model"] == "toy"
        with pytest.raises(ModelError):
            check_model(model(server, retries=0, model="typo"), Path(), ())


@pytest.mark.parametrize("form", [{}, {"prompt_logprobs": True}])
@pytest.mark.parametrize("spoil", ["null", "nan", "positive", "fewer", "half"])
def test_what_goes_wrong_later_ends_the_run_and_keeps_what_was_right(
    spoil: Any, form: dict[str, Any], tmp_path: Path
) -> None:
    with stub(**form) as server:
        reference = scored(server, tmp_path / "reference", MANY)
        server.manner.spoil, server.manner.spoil_after = spoil, server.completions + 30
        with pytest.raises(
            ModelError, match=r"of 40 requests remain; \d+ are cached, so the same command"
        ) as e:
            scored(server, tmp_path / "home", MANY, concurrency=2)
        assert no_text(e.value)
        server.manner.spoil = ""
        server.bodies = []
        assert scored(server, tmp_path / "home", MANY) == reference
        assert 0 < sum("secret" in str(body) for body in server.bodies) < len(MANY)


@pytest.mark.parametrize(
    "says", ["cheaper-model", "Question: the secret cat", "secret", "a" * 200, "cat\nblue"]
)
def test_another_model_is_refused_and_a_name_that_may_be_a_piece_of_a_prompt_is_not_shown(
    says: str, server: Stub
) -> None:
    shown = "'cheaper-model'" if says == "cheaper-model" else "another name"
    with OpenAIServer(model(server)) as engine:
        engine.fingerprint()
        engine.write(["hello"], max_tokens=3)
        server.manner.says = says
        for ask in (
            lambda: engine.loglikelihoods(REQUESTS[:4]),
            lambda: engine.write(["a secret"], max_tokens=3),
        ):
            with pytest.raises(ModelError, match=f"replied as {shown}") as e:
                ask()
            assert no_text(e.value)
            assert "aaa" not in str(e.value)
    with stub(lists=("the secret cat",), root="/m/the secret cat") as other:
        with pytest.raises(ModelError, match="does not list the model 'toy'") as e:
            check_model(model(other), Path(), ())
        assert no_text(e.value)
        said = check_model(model(other, model="the secret cat", pin="toy"), Path(), ())
    assert said["model"] == "the secret cat", "the config's own name, because the server's is no name"


# what is tried again


@pytest.mark.parametrize("status", [500, 503, 429])
def test_what_may_pass_is_tried_again(status: int, server: Stub) -> None:
    with OpenAIServer(model(server)) as engine:
        server.manner.faults = [(status, {}), (status, {"Retry-After": "0.1"})]
        found = engine.loglikelihoods(REQUESTS)
        usage = engine.usage()
    assert [s.total for s in found] == pytest.approx([expected(r) for r in REQUESTS])
    assert (usage["tried_again"], usage["calls"]) == (2, server.completions + 1)


def test_an_error_behind_the_status_200_is_tried_again_like_one_before_it(server: Stub) -> None:
    bodies: list[Any] = [{"error": {"code": 503}}, {"object": "error", "code": "502"}]
    bodies += [{"choices": [{"error": {"code": 429}, "finish_reason": "error"}]}]
    with OpenAIServer(model(server, retries=3)) as engine:
        server.manner.faults = [(200, {}, body) for body in bodies]
        found = engine.loglikelihoods(REQUESTS)
        assert engine.usage()["tried_again"] == 3
    assert [s.total for s in found] == pytest.approx([expected(r) for r in REQUESTS])


def test_a_server_that_asks_to_wait_for_long_is_not_waited_for(server: Stub, tmp_path: Path) -> None:
    later = formatdate(time.time() + 7200, usegmt=True)
    for said, shown in (("3600", r"3600 s \(`Retry-After`, 60 minutes"), (later, r"\d+ minutes")):
        server.manner.faults = [None] * 6 + [(429, {"Retry-After": said})] * 9
        before = server.completions
        with pytest.raises(ModelError, match=f"status 429 and asks to wait .*{shown}.*\n.*requests remain"):
            scored(server, tmp_path / said[:3], MANY, concurrency=1)
        assert server.completions - before == 7


@pytest.mark.parametrize("samples", [None, 3])
@pytest.mark.parametrize(
    ("status", "body", "named"),
    [
        (402, {"error": {"message": "Insufficient credits", "code": 402}}, 402),
        (404, {"error": {"message": "model `toy` was unloaded"}}, 404),
        (413, b"<html>413 Request Entity Too Large</html>", 413),
        (400, {"error": {"message": "no"}}, 400),
        (403, {"error": {"message": "flagged by moderation"}}, 403),
        (410, {}, 410),
        (200, {"error": {"message": "Insufficient credits", "code": 402}}, 402),
        (200, {"error": "Unexpected endpoint"}, 400),
    ],
)
def test_a_refusal_in_the_middle_ends_the_run_and_is_never_taken_for_an_answer(
    status: int, body: Any, named: int, samples: int | None, tmp_path: Path
) -> None:
    many = [
        Request(f"The secret cat {n}\nA. blue\nB. red\nAnswer:", f" {x}") for n in range(20) for x in "AB"
    ]
    with stub(letters="first") as server:
        with (
            Cache(tmp_path) as cache,
            OpenAIServer(model(server, samples=samples, concurrency=2), cache) as engine,
        ):
            engine.fingerprint()
            server.manner.faults = [None] * (24 if samples else 9) + [(status, {}, body)] * 99

            with pytest.raises(ModelError, match=rf"(?s)\({named}\).* are cached") as e:
                engine.loglikelihoods(many)
            assert no_text(e.value)
        server.manner.faults = []
        assert NO_LETTER not in scored(server, tmp_path, many, samples=samples)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<!doctype html><html>", "is a web page. .*`base_url`.*/v1"),
        (b"data: {}\n\ndata: [DONE]", "is streamed"),
    ],
)
def test_a_reply_that_is_no_json_is_named_for_what_it_is(body: bytes, says: str, server: Stub) -> None:
    server.manner.faults = [(200, {}, body)]
    with pytest.raises(ModelError, match=says):
        check_model(model(server), Path(), ())


def test_a_server_that_hangs_is_given_up(server: Stub) -> None:
    with OpenAIServer(model(server, timeout=0.3, retries=1, concurrency=2)) as engine:
        engine.fingerprint()
        before = server.completions
        server.manner.spoil = "hang"
        with pytest.raises(ModelError, match=r"sent no reply within 0\.3 s"):
            engine.loglikelihoods(MANY)
    assert server.completions - before <= 8, "of 40 requests, two at once, each tried twice"


def test_an_address_where_nobody_listens_is_given_up_after_a_few_tries() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    says = (
        r"cannot be reached \(up to 3 tries\)\. Check that an OpenAI-compatible server runs at its base_url"
    )
    with pytest.raises(ModelError, match=says):
        check_model(model(url, retries=20), Path(), ())


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("before", [0, 6])
def test_a_server_that_sends_elsewhere_is_not_followed(
    status: int, before: int, server: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROBUSTIFY_API_KEY", "sk-4f0e")
    with stub() as other:
        server.manner.faults = [None] * before + [(status, {"Location": f"{other.url}/completions"})]
        with pytest.raises(ModelError, match=rf"redirects requests \({status}\).*base_url"):
            scored(server, tmp_path, MANY, api_key_env="ROBUSTIFY_API_KEY")
        assert other.completions == 0


def test_a_proxy_of_the_environment_never_sees_this_machine_s_prompts(
    server: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert len(scored(server, tmp_path, REQUESTS)) == len(REQUESTS)


@pytest.mark.parametrize("proxy", ["socks://me:sesame@h:1", "socks5://me:sesame@h:1", "http://h:sesame"])
def test_a_proxy_that_cannot_be_used_is_named_by_its_variable(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(UsageError, match=r"the proxy of the environment .*ALL_PROXY") as e:
        check_model(model("https://llm.example.org/v1"), Path(), ())
    assert "sesame" not in str(e.value)


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
    monkeypatch.setenv("ROBUSTIFY_API_KEY", "sk-4f0e-hidden-9a7")
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
    with stub(key="sk-4f0e-hidden-9a7") as server:
        found = check_model(model(server, api_key_env="ROBUSTIFY_API_KEY"), Path(), ())
        assert "other" not in str(server.headers)
        assert {name for sent in server.headers for name in sent} <= client.SENT
        server.manner.key = "sk-new"
        with pytest.raises(
            ModelError, match=r"refused the key in ROBUSTIFY_API_KEY \(401\).*variable ROBUSTIFY_API_KEY"
        ) as e:
            check_model(model(server, api_key_env="ROBUSTIFY_API_KEY"), Path(), ())
        with pytest.raises(ModelError, match=r"refused a request without a key.*`api_key_env: NAME`"):
            check_model(model(server), Path(), ())
        no_key = "characters that no key has"
        for key, says in (
            ("", "is not set"),
            ("“sk-4f0e-hidden-9a7”", no_key),
            ("sk-4f0e-hidden-9a7\r", no_key),
        ):
            monkeypatch.setenv("ROBUSTIFY_API_KEY", key)
            with pytest.raises(UsageError, match=f"variable ROBUSTIFY_API_KEY .*{says}") as e:
                check_model(model(server, api_key_env="ROBUSTIFY_API_KEY"), Path(), ())
            assert "hidden" not in str(e.value)
    assert "hidden" not in f"{found} {e.value} {caplog.text}"


@pytest.mark.parametrize(
    ("variable", "url", "listed", "allowed"),
    [
        ("GITHUB_TOKEN", "https://llm.example.org/v1", "", False),
        ("OPENAI_API_KEY", "https://openai.example.org/v1", "", False),
        ("OPENAI_API_KEY", "http://127.0.0.1:9/v1", "", False),
        ("OPENAI_API_KEY", "https://api.openai.com/v1", "", True),
        ("ROBUSTIFY_API_KEY", "https://llm.example.org/v1", "", False),
        ("ROBUSTIFY_API_KEY", "https://llm.example.org/v1", "ROBUSTIFY_API_KEY@llm.example.org", True),
        (
            "ROBUSTIFY_API_KEY",
            "https://llm.example.org.evil.example/v1",
            "ROBUSTIFY_API_KEY@llm.example.org",
            False,
        ),
        ("ROBUSTIFY_HOSTED_API_KEY", "http://0.0.0.0:9/v1", "", True),
        ("LLM_KEY", "https://llm.example.org/v1", "A@b, LLM_KEY@llm.example.org", True),
        ("LLM_KEY", "https://other.example.org/v1", "LLM_KEY@llm.example.org", False),
        ("LLM_KEY", "http://localhost:9/v1", "LLM_KEY@localhost", True),
    ],
)
def test_a_config_sends_no_key_that_is_not_meant_for_its_server(
    monkeypatch: pytest.MonkeyPatch, variable: str, url: str, listed: str, allowed: bool
) -> None:
    monkeypatch.setenv(variable, "sk-4f0e-hidden-9a7")
    monkeypatch.setenv("ROBUSTIFY_KEYS", listed)
    if allowed:
        assert model(url, api_key_env=variable).api_key() == "sk-4f0e-hidden-9a7"
        return
    says = rf"toy: api_key_env: {variable} .*ROBUSTIFY_KEYS={variable}@"
    with pytest.raises(AuthorisationError, match=says) as e:
        client.Client(model(url, api_key_env=variable))
    assert "hidden" not in str(e.value)


@pytest.mark.parametrize(
    "url", ["http://llm.example.org/v1", "http://10.0.0.7:8000/v1", "http://[fd00::1]/v1"]
)
def test_no_key_goes_over_http_to_another_machine(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("ROBUSTIFY_API_KEY", "sk-4f0e-hidden-9a7")
    monkeypatch.setenv("ROBUSTIFY_KEYS", f"ROBUSTIFY_API_KEY@{host_of(url)}")
    with pytest.raises(AuthorisationError, match=r"ROBUSTIFY_API_KEY may not be sent to .* over http") as e:
        client.Client(model(url, api_key_env="ROBUSTIFY_API_KEY"))
    assert "hidden" not in str(e.value)
    assert model(url.replace("http", "https"), api_key_env="ROBUSTIFY_API_KEY").api_key()


def test_where_servers_are_forbidden_none_is_asked(
    server: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROBUSTIFY_NO_SERVERS", "1")
    with pytest.raises(AuthorisationError, match=r"toy: .*\$ROBUSTIFY_NO_SERVERS forbids"):
        check_model(model(server), tmp_path)
    with pytest.raises(AuthorisationError, match="forbids"):
        check_model(RayModel(name="m", engine="ray", address="10.0.0.7:6379"), tmp_path)
    assert server.completions == 0


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://me:pass@h/v1", "contains a user"),
        ("http://h/v1?key=1", "contains a user"),
        ("h:8000/v1", "not an address with http://"),
        ("localhost/v1", "not an address with http://"),
        ("ftp://h/v1", "not an address with http://"),
        ("http:///v1", "not an address with http://"),
        ("http://h/v1/chat/completions/", "for example in /v1"),
        ("http://h/v1/models", "for example in /v1"),
        *((f"http://{host}/v1", "base_url") for host in ("my pass", "a..b", "999.1.1.1", "127.1", "h:0")),
    ],
)
def test_an_address_that_carries_a_secret_or_is_none_is_refused_without_repeating_it(
    url: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says) as e:
        config(url)
    assert "base_url" in str(e.value)
    assert "pass" not in str(e.value).replace("password", "")


# what the scores are kept under


def test_scores_are_kept_by_the_model_behind_a_name_and_not_by_its_address(tmp_path: Path) -> None:
    with stub() as one, stub(Toy(seed=1)) as two, stub() as again:
        first, other = scored(one, tmp_path, REQUESTS), scored(two, tmp_path, REQUESTS)
        assert scored(again, tmp_path, REQUESTS) == first != other
        assert not [body for body in again.bodies if "secret" in str(body)]
        with Cache(tmp_path) as cache:
            variants = []
            for server in (one, two, again):
                with OpenAIServer(model(server), cache) as engine:
                    variants.append(engine.fingerprint()["variant"])
    assert variants == ["0", "1", "0"]


# writing


@pytest.mark.parametrize(
    ("manner", "chat"),
    [({}, True), ({"chat_field": "max_completion_tokens"}, True), ({"chat": False}, False)],
)
def test_it_writes_by_chat_and_where_there_is_none_by_completions(manner: dict[str, Any], chat: bool) -> None:
    with stub(**manner) as server, OpenAIServer(model(server)) as engine:
        replies = engine.write(["x" * n for n in range(1, 20)], max_tokens=7)
        assert engine.has_chat_template is chat
    assert len(replies) == 19
    assert not chat or replies == [f"echo {n}" for n in range(1, 20)]


@pytest.mark.parametrize(
    ("manner", "error", "says"),
    [
        ({"chat": False, "completions": False}, ModelError, "supports neither chat nor completions"),
        ({"max_length": 30}, DataError, r"^prompt 1: does not fit"),
    ],
)
def test_what_cannot_be_written_is_refused(manner: dict[str, Any], error: type[Exception], says: str) -> None:
    with (
        stub(**manner) as server,
        OpenAIServer(model(server)) as engine,
        pytest.raises(error, match=says) as e,
    ):
        engine.write(["short", "the secret cat " * 20, "short"], max_tokens=3)
    assert no_text(e.value)


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


@pytest.fixture
def items(tmp_path: Path, toys: list[Item]) -> Path:
    write_items(tmp_path / "items.jsonl", toys)
    return tmp_path / "items.jsonl"


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
    monkeypatch.setenv("ROBUSTIFY_API_KEY", "sk-4f0e-hidden-9a7")
    with stub(key="sk-4f0e-hidden-9a7") as server:
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
        with pytest.raises(UsageError, match="toy and second are the same model"):
            steps.robustify(asked, tmp_path / "run", tmp_path / "cache", wings())
