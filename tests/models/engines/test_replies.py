"""What a model writes comes with how it ended, and a chat template is put around a prompt once."""

import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from robustify.freeform.free_run import generate
from robustify.freeform.schema import FreeItem
from robustify.models.engines.protocols import Reply, Writer
from robustify.models.folder import has_chat_template
from robustify.models.replies import Replies
from robustify.pipeline.free_settings import FreeSettings

ITEM = FreeItem("n", "How many legs has a spider?", "numeric", "8")


class Cut:
    name = "cut"
    has_chat_template = True

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        return [Reply("It has", "length") for _ in prompts]


class Plain(Cut):
    has_chat_template = False

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        return ["8" for _ in prompts]


def test_a_reply_is_its_text_and_keeps_its_reason_on_the_way_between_processes() -> None:
    reply = Reply("eight", "stop")
    assert reply == "eight"
    sent = pickle.loads(pickle.dumps(reply))
    assert (sent, sent.finish_reason) == ("eight", "stop")
    assert Reply("x").finish_reason is None


def test_answers_keep_why_they_ended(tmp_path: Path) -> None:
    writer = Cut()
    assert isinstance(writer, Writer)
    for _ in range(2):
        with Replies(tmp_path) as kept:
            (row,) = generate([ITEM], writer, FreeSettings(), kept)
        assert (row.text, row.finish_reason, type(row.text)) == ("It has", "length", str)
    (row,) = generate([ITEM], Plain(), FreeSettings(), Replies(None))
    assert row.finish_reason is None


@pytest.mark.parametrize("chat", [True, False])
def test_a_chat_template_is_found_where_transformers_finds_one(tmp_path: Path, chat: bool) -> None:
    pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")
    from transformers import AutoTokenizer

    from tests.support.model_cache import hf, tiny_llama

    folder = tiny_llama(tmp_path, chat=chat)
    assert has_chat_template(folder) is chat
    assert bool(AutoTokenizer.from_pretrained(folder).chat_template) is chat
    with hf(folder) as engine:
        assert engine.has_chat_template is chat
        (reply,) = engine.write(["the cat"], max_tokens=2)
    assert isinstance(reply, Reply)
    assert reply.finish_reason in ("stop", "length")
