"""Servers that answer, but not what was asked: cut prompts, another model under the name, masked and clipped lists, counts
that mean something else, refusals, and replies that the server did not finish. Each is a report of a real server."""

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the openai extra is not installed")

from robustify.base.errors import ModelError
from robustify.items.views import Request
from robustify.models.engines.cache import Cache
from robustify.models.engines.openai.client import Refusal, refusal_of, shown_name
from robustify.models.engines.openai.engine import OpenAIServer
from robustify.models.engines.openai.letters import read_letter, read_replies
from robustify.models.engines.protocols import Reply
from tests.support.openai_stub import Toy, model, scored, stub

KINDS: dict[str, dict[str, Any]] = {
    "prompt_logprobs": {"prompt_logprobs": True},
    "echo": {},
    "next tokens": {"echo": "none"},
    "chat": {"completions": False, "letters": "structured"},
}
Fix = Callable[[dict[str, Any], dict[str, Any], int], None]


def letters(number: int, passage: str = "") -> list[Request]:
    context = f"{passage}A. blue\nB. red {number}\nC. green\nAnswer:"
    return [Request(context, f" {letter}") for letter in "ABC"]


MANY = [request for number in range(16) for request in letters(number)]
LONG = [*MANY, *letters(99, "many words of a passage that goes on and on " * 20)]


class Cut(Toy):
    """A model that reads the last 120 tokens."""

    def encode(self, text: str) -> list[int]:
        return super().encode(text)[-120:]


def usage(counted: Callable[[dict[str, Any], int], int | None]) -> Fix:
    """Change the number of tokens in the prompt that a reply reports."""

    def fix(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        reply["usage"]["prompt_tokens"] = counted(body, reply["usage"]["prompt_tokens"])

    return fix


# prompts that are cut


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_that_a_server_cuts_has_no_answer(kind: str, counts: bool, tmp_path: Path) -> None:
    with stub(Cut(), **KINDS[kind], usage=counts) as server:
        assert len(scored(server, tmp_path / "short", MANY)) == len(MANY)
        if not counts and kind in ("next tokens", "chat"):
            pytest.skip("nothing that this server sends shows that it cuts prompts")
        with pytest.raises(ModelError, match=r"cuts long prompts|do not spell the prompt") as e:
            scored(server, tmp_path, LONG, concurrency=4)
        assert "passage" not in str(e.value)
        with Cache(tmp_path) as cache:
            assert cache.info()["rows"] == 0, "the longest prompt is asked first"


def test_rounded_counts_are_not_taken_for_a_cut(tmp_path: Path) -> None:
    every = [letters(1, "x " * (length // 2)) for length in range(300, 900, 100)]
    with stub(Toy(), echo="none") as server:
        expected = [scored(server, tmp_path / f"exact {n}", asked) for n, asked in enumerate(every)]
    with stub(Toy(), echo="none", fix=usage(lambda body, n: -(-n // 64) * 64)) as server:
        assert [scored(server, tmp_path / f"{n}", asked) for n, asked in enumerate(every)] == expected


def test_a_prompt_with_more_tokens_than_the_longest_is_checked_when_it_comes(tmp_path: Path) -> None:
    dense = letters(7, ". , " * 70)
    assert len(dense[0].context) < len(LONG[-1].context) // 2
    longest = letters(98, "x" * 2000 + " ")
    with stub(Cut(), echo="none") as server, pytest.raises(ModelError, match="cuts long prompts"):
        scored(server, tmp_path, [*longest, *dense])


def without_cached(seen: list[str]) -> Callable[[dict[str, Any], int], int]:
    """Count the tokens that follow the longest known beginning, as servers with a cache of prompts do."""

    def counted(body: dict[str, Any], n: int) -> int:
        text = body.get("prompt") or body["messages"][-1]["content"]
        words = text.split(" ")
        shared = max((sum(1 for _ in _same(words, old.split(" "))) for old in seen), default=0)
        seen.append(text)
        return max(1, n - shared)

    return counted


def _same(one: Sequence[str], two: Sequence[str]) -> list[str]:
    at = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    return list(one[:at])


@pytest.mark.parametrize(
    "counted",
    [
        lambda _, n: n + 1,  # a mark at the beginning, which is not shown
        lambda _, n: n + 300,  # a system prompt
        without_cached([]),
        lambda *_: 5,
        lambda *_: None,
        lambda *_: 10**9,
        lambda body, n: n if "logprobs" in body else None,
    ],
)
@pytest.mark.parametrize("kind", ["echo", "next tokens", "chat"])
def test_a_count_that_means_something_else_changes_nothing(
    kind: str, counted: Callable[[dict[str, Any], int], int | None], tmp_path: Path
) -> None:
    asked = [
        *LONG[-9:],
        *([Request("The secret cat", " is blue mat")] if kind == "echo" else ()),
    ]
    with stub(**KINDS[kind]) as server:
        expected = scored(server, tmp_path / "whole", asked, concurrency=1)
    for _ in range(2):
        with stub(**KINDS[kind], fix=usage(counted)) as server:
            found = scored(server, tmp_path / "other", asked, concurrency=1)
    assert [s.n_tokens for s in found] == [s.n_tokens for s in expected]
    assert kind == "chat" or [s.total for s in found] == pytest.approx([s.total for s in expected])


# another model under the name


@pytest.mark.parametrize("kind", ["prompt_logprobs", "echo", "next tokens"])
def test_what_another_model_answered_under_the_name_is_not_kept(kind: str, tmp_path: Path) -> None:
    with stub(Toy(), **KINDS[kind]) as server:
        expected = scored(server, tmp_path / "one", MANY)
        whole = sum("blue" in str(body) for body in server.bodies)

        def change(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
            if n >= start + 18:
                server.brain = Toy(seed=1)

        start, server.manner.fix = server.completions, change
        with pytest.raises(ModelError, match="serves another model than at the start of the run"):
            scored(server, tmp_path, MANY, concurrency=1)
        server.manner.fix, server.brain = None, Toy()
        with Cache(tmp_path) as cache:
            assert 0 < cache.info()["rows"] < len(MANY)
        server.bodies = []
        assert scored(server, tmp_path, MANY) == expected
        assert 0 < sum("blue" in str(body) for body in server.bodies) < whole


@pytest.mark.parametrize("kind", ["prompt_logprobs", "echo", "next tokens"])
def test_replicas_that_take_turns_are_not_one_model(kind: str, tmp_path: Path) -> None:
    def turn(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        server.brain = brains[n % 2]

    brains = [Toy(), Toy(seed=1)]
    for width in (1, 3):
        with stub(Toy(), **KINDS[kind], fix=turn) as server, pytest.raises(ModelError):
            scored(server, tmp_path, MANY, concurrency=width)
    with Cache(tmp_path) as cache:
        assert cache.info()["rows"] == 0


def test_a_prompt_that_a_filter_blocks_has_an_empty_reply() -> None:
    with stub() as server, OpenAIServer(model(server)) as engine:
        assert engine.has_chat_template in (True, False)
        server.manner.faults = [(400, {}, {"error": {"message": "x", "code": "content_filter"}})]
        (reply,) = engine.write(["Say hello."], max_tokens=4)
        assert (reply, reply.finish_reason) == ("", "content_filter")
        server.manner.faults = [(400, {}, {"error": {"message": "no such option"}})]
        with pytest.raises(ModelError):
            engine.write(["Say hello."], max_tokens=4)


def test_free_replies_are_checked_like_letters() -> None:
    with stub(Cut()) as server, OpenAIServer(model(server)) as engine:
        assert len(engine.write(["Say hello."] * 3, max_tokens=4)) == 3
        with pytest.raises(ModelError, match="cuts long prompts"):
            engine.write([LONG[-1].context], max_tokens=4)
    with stub() as server, OpenAIServer(model(server)) as engine:
        engine.fingerprint()
        server.brain = Toy(seed=1)
        with pytest.raises(ModelError, match="serves another model"):
            engine.write(["Say hello."], max_tokens=4)


class Noisy(Toy):
    """A model whose numbers change a little with the batch, and those of unlikely tokens more."""

    def _following(self, before: Sequence[int], seen: set[int]) -> dict[int, float]:
        noise = random.Random()
        right = super()._following(before, seen)
        return {t: lp + noise.uniform(-0.03, 0.03) * max(1.0, -lp / 2) for t, lp in right.items()}


@pytest.mark.parametrize("kind", ["prompt_logprobs", "next tokens"])
def test_the_noise_of_one_model_is_not_another_model(kind: str, tmp_path: Path) -> None:
    with stub(Noisy(), **KINDS[kind]) as server:
        assert len(scored(server, tmp_path, MANY)) == len(MANY)


# lists of likely tokens


def listed(change: Callable[[dict[str, float], dict[str, Any]], None]) -> Fix:
    """Change the likely tokens after a prompt."""

    def fix(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        told = reply["choices"][0].get("logprobs")
        if told and not body.get("echo") and told.get("top_logprobs"):
            change(told["top_logprobs"][0], reply["choices"][0])

    return fix


@pytest.mark.parametrize("masked", [-9999.0, -math.inf, None, -1e30])
@pytest.mark.parametrize("kind", ["prompt_logprobs", "next tokens"])
def test_a_masked_token_of_a_list_is_not_likely(kind: str, masked: float | None, tmp_path: Path) -> None:
    def mask(top: dict[str, Any], _: dict[str, Any]) -> None:
        for token in sorted(top, key=lambda t: top[t])[:8]:
            top[token] = masked

    with stub(**KINDS[kind]) as server:
        expected = scored(server, tmp_path / "whole", MANY)
        server.manner.fix = listed(mask)
        assert [s.total for s in scored(server, tmp_path, MANY)] == [s.total for s in expected]


@pytest.mark.parametrize("form", [{}, {"prompt_logprobs": True}])
@pytest.mark.parametrize("masked", [-9999.0, -math.inf])
def test_a_masked_token_of_a_prompt_is_an_error_with_its_mend(
    form: dict[str, Any], masked: float, tmp_path: Path
) -> None:
    def mask(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        choice = reply["choices"][0]
        if " mat" in body["prompt"] and (entries := choice.get("prompt_logprobs")):
            next(iter(entries[-1].values()))["logprob"] = masked
        elif " mat" in body["prompt"]:
            choice["logprobs"]["token_logprobs"][-2] = masked

    with stub(**form, fix=mask) as server, pytest.raises(ModelError, match="raw_logprobs"):
        scored(server, tmp_path, [Request("the secret cat", " is a mat")])


@pytest.mark.parametrize("sampled", [" zebra", " C"])
def test_a_sampled_token_at_the_end_of_a_clipped_list_is_no_bound(sampled: str, tmp_path: Path) -> None:
    least = []

    def clip(top: dict[str, float], choice: dict[str, Any]) -> None:
        kept = [t for t in sorted(top, key=lambda t: -top[t]) if t != " C"][:5]
        least.append(top[kept[-1]])
        values = {**{t: top[t] for t in kept}, sampled: -30.0}
        top.clear()
        top.update(values)
        choice["text"] = sampled

    with stub(echo="none", fix=listed(clip)) as server:
        found = scored(server, tmp_path, MANY, concurrency=1)
    assert all(c.n_tokens == 0 and c.total in least for c in found[2::3])


def test_of_two_tokens_with_one_text_the_likelier_counts(tmp_path: Path) -> None:
    def double(top: dict[str, float], _: dict[str, Any]) -> None:
        for token, lp in list(top.items()):
            top["\u2581" + token.strip()] = lp - 3

    with stub(echo="none", top=40) as server:
        expected = scored(server, tmp_path / "once", MANY)
        server.manner.fix = listed(double)
        assert [s.total for s in scored(server, tmp_path, MANY)] == [s.total for s in expected]


# replies that are no answer


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "A."}]}, {"type": "text", "text": "B"}], "B"),
        ([{"type": "text", "text": "B"}], "B"),
        ([{"type": "reasoning", "text": "A"}], ""),
        ("A. Or is it?\n</think>\n\nB", "B"),
        ("A. Or is it?\n</seed:think>B", "B"),
        ("A. Or is it?<|END_THINKING|>B", "B"),
        ("A, perhaps.\n<think>no</think>\nB", "B"),
    ],
)  # fmt: skip
def test_a_letter_is_read_from_what_follows_the_thoughts(content: object, said: str) -> None:
    choice = {"message": {"content": content}, "finish_reason": "stop"}
    (reply,) = read_replies({"choices": [choice]}, "chat", "toy")
    assert (read_letter(reply, "AB") or "") == said


def test_a_reply_that_was_cut_is_read_only_if_it_is_a_letter() -> None:
    for text in ("A. That is the first option. Let me", "The answer may be A", "A\nLet me think", "A. That"):
        assert read_letter(Reply(text, "stop"), "AB") == "A"
        assert read_letter(Reply(text, "length"), "AB") is None
    for text in ("B", "(B)", '{"letter": "B"}\n\n\n'):
        assert read_letter(Reply(text, "length"), "AB") == "B"


@pytest.mark.parametrize(
    ("content", "reason", "written"),
    [("", "error", 0), (None, "abort", 0), ("", None, 0), ("A", "abort", 1), ("", "load", 0), ("", "length", 0)],
)  # fmt: skip
def test_a_reply_that_the_server_did_not_finish_ends_the_run_and_is_asked_again(
    content: str | None, reason: str | None, written: int, tmp_path: Path
) -> None:
    def stop(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        if n > start + 10:
            reply["usage"]["completion_tokens"] = written
            for choice in reply["choices"]:
                choice["message"]["content"], choice["finish_reason"] = content, reason

    with stub(**KINDS["chat"]) as server:
        start, server.manner.fix = server.completions, stop
        with pytest.raises(ModelError, match="did not finish"):
            scored(server, tmp_path, MANY, concurrency=1)
        server.manner.fix = None
        assert all(math.isfinite(one.total) for one in scored(server, tmp_path, MANY))


@pytest.mark.parametrize(
    ("reply", "how", "told"),
    [
        ({"message": {"content": "8"}, "finish_reason": "stop"}, "chat", ("8", "stop")),
        ({"message": {"content": None}, "finish_reason": "length"}, "chat", ("", "length")),
        ({"message": {"content": "8"}}, "chat", ("8", None)),
        ({"text": "8", "finish_reason": "length"}, "completions", ("8", "length")),
        ({"text": "8", "finish_reason": "How many legs"}, "completions", ("8", None)),
        ({"message": {"content": "8"}, "finish_reason": ["stop"]}, "chat", ("8", None)),
    ],
)
def test_a_server_s_reason_is_kept(reply: dict[str, object], how: str, told: tuple[str, str | None]) -> None:
    (found,) = read_replies({"choices": [reply]}, how, "server")
    assert (found, found.finish_reason) == told


# refusals

TOO_LONG = [
    (400, "This model's maximum context length is 120 tokens. However, you requested 201 tokens."),
    (
        400,
        "You passed 200 input tokens and requested 1 output tokens. However, the model's context length is only 120",
    ),
    (400, "The input (200 tokens) is longer than the model's context length (120 tokens)."),
    (400, "request (200 tokens) exceeds the available context size (120 tokens), try increasing it"),
    (400, "Trying to keep the first 200 tokens when context the overflows."),
    (
        422,
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 120. Given: 200 `inputs` tokens",
    ),
    (422, "Input validation error: `inputs` must have less than 120 tokens. Given: 200"),
    (400, "Please reduce the length of the messages or completion."),
    (400, "prompt is too long: 200 tokens > 120"),
    (400, "Prompt length (200) exceeds maximum input length (120). Set a larger max_input_len"),
    (400, "The input token count (200) exceeds the maximum number of tokens allowed (120)."),
    (400, "Prompt length 200 is greater than max_seq_len 120"),
    (400, "Range of input length should be [1, 120]"),
    (413, "Request too large for model, please reduce your message size and try again."),
    (500, "the request exceeds the available context size. try increasing the context size"),
]
FILTERED = [
    "The response was filtered due to the prompt triggering the content management policy.",
    "Content Exists Risk: content risk",
    "Input data may contain inappropriate content.",
    "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
    "Your request was rejected by the safety moderation",
]
NEITHER = [
    (400, "logprobs must be at most 5"),
    (400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
    (422, "Extra inputs are not permitted"),
    (404, "The context length of this model is unknown, because it does not exist"),
    (402, "Your token limit is exceeded"),
    (422, "x" * 400 + " the context length, a content filter"),
]


def meant(status: int, said: str) -> Refusal:
    for body in ({"message": said}, {"detail": said}, said):
        error = refusal_of("toy", status, body)
        assert said not in str(error)
        assert f"({status})" in str(error)
    return error if isinstance(error, Refusal) else Refusal(*error.lines, code=error.code)


@pytest.mark.parametrize(("status", "said"), TOO_LONG)
def test_a_prompt_that_is_too_long_is_known_by_the_words_of_each_server(status: int, said: str) -> None:
    assert meant(status, said).too_long
    assert "does not fit into the model's context" in str(meant(status, said))


@pytest.mark.parametrize("said", FILTERED)
def test_only_a_content_filter_s_400_is_one(said: str) -> None:
    assert meant(400, said).filtered
    assert not any(meant(status, said).filtered for status in (402, 403, 404, 413, 422))


@pytest.mark.parametrize(("status", "said"), NEITHER)
def test_other_words_are_neither(status: int, said: str) -> None:
    assert (meant(status, said).too_long, meant(status, said).filtered) == (False, False)


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (400, {"message": "This model only support stream mode"}, "only streams its replies"),
        (402, {}, "credits may be used up"),
        (404, {"code": "model_not_found"}, "`base_url`, which usually ends in /v1, `model`"),
        (413, "<html>", "too large for the server, or for a proxy"),
        (400, {"code": "context_length_exceeded"}, "does not fit"),
        (410, None, r"\(410\)$"),
    ],
)
def test_a_status_is_named_with_its_cause(status: int, body: Any, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        raise refusal_of("toy", status, body)


@pytest.mark.parametrize(
    "listed", ["/models/llama-3-8b.gguf", "C:\\models\\x.gguf", "~/x/y", "../m/x", "/r/" + "s" * 130]
)
def test_the_path_of_a_model_is_shown(listed: str) -> None:
    assert shown_name(listed) == repr(listed)
    assert "not shown" in shown_name(listed, f"the prompt has {listed} in it")
    assert "not shown" in shown_name(f"{listed} and more")
