"""What the replies of servers say: letters, texts, reasons to end, refusals, names of models, and clipped lists."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the openai extra is not installed")

from robustify.models.engines.openai.client import Refusal, refusal_of, shown_name
from robustify.models.engines.openai.letters import read_letter, read_replies
from robustify.models.engines.protocols import Reply
from tests.support.openai_stub import scored, stub
from tests.support.server_cases import CASES, LETTERED, listing


def letters() -> Iterator[tuple[Reply, str]]:
    for reason, by_letter in CASES["letters"].items():
        for letter, replies in by_letter.items():
            yield from ((Reply(reply, reason), letter) for reply in replies)


@pytest.mark.parametrize(("reply", "letter"), letters())
def test_a_letter_is_read_from_what_follows_the_thoughts_and_a_cut_reply_only_if_it_is_one(
    reply: Reply, letter: str
) -> None:
    assert (read_letter(reply, "ABCD") or "") == letter


@pytest.mark.parametrize(("path", "choice", "text", "reason"), CASES["choices"])
def test_a_reply_is_its_text_with_the_server_s_reason(
    path: str, choice: object, text: str, reason: str | None
) -> None:
    (reply,) = read_replies({"choices": [choice]}, path, "server")
    assert (reply, reply.finish_reason) == (text, reason)


@pytest.mark.parametrize(
    ("code", "status", "said"), [(code, *case) for code, cases in CASES["refusals"].items() for case in cases]
)
def test_a_refusal_is_known_by_its_status_and_its_words(code: str, status: int, said: Any) -> None:
    bodies = [said] if isinstance(said, dict) else [{"message": said}, {"detail": said}, said]
    for body in bodies:
        error = refusal_of("toy", status, body)
        assert error.code == code
        assert f"({status})" in str(error)
        assert not said or str(said) not in str(error)
        if isinstance(error, Refusal):
            assert (error.too_long, error.filtered) == (code == "prompt-too-long", code == "filtered-prompt")
    # Only the start is read, because a prompt may follow.
    assert refusal_of("toy", 422, {"message": "x" * 400 + str(said)}).code == "refused-request"


@pytest.mark.parametrize(
    "listed", ["/models/llama-3-8b.gguf", "C:\\models\\x.gguf", "~/x/y", "../m/x", "/r/" + "s" * 130]
)
def test_the_path_of_a_model_is_shown_unless_it_may_be_part_of_a_prompt(listed: str) -> None:
    assert shown_name(listed) == repr(listed)
    for name, prompt in ((listed, f"the prompt has {listed} in it"), (f"{listed} and more", "")):
        assert listed not in shown_name(name, prompt)


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

    with stub(echo="none", fix=listing(clip)) as server:
        found = scored(server, tmp_path, LETTERED, concurrency=1)
    assert all(c.n_tokens == 0 and c.total in least for c in found[2::3])
