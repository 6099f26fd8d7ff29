"""What a server means by refusing a request, in the words of many servers."""

from typing import Any

import pytest

from robustify.base.errors import ModelError
from robustify.models.engines.openai.client import Refusal, refusal_of, shown_name

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
    return error if isinstance(error, Refusal) else Refusal(*error.lines)


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
