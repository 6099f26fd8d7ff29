"""Greedy replies of a model in memory. A prompt's own text cannot become a special token."""

from collections.abc import Sequence
from typing import Any

import torch

from robustify.engines.protocols import Reply
from robustify.engines.tokens import Transformers
from robustify.errors import ModelError

_MARK = "\u241fPROMPT\u241f"


def as_prompt(tokenizer: Any, name: str, text: str) -> list[int]:
    """The tokens of one turn, through the chat template where there is one.

    Raises:
        ModelError: a chat template that does not show the user's turn.
    """
    speller = Transformers(tokenizer)
    if not getattr(tokenizer, "chat_template", None):
        return list(speller.spell([text], special=True)[0]) or [speller.prefix]
    turn = [{"role": "user", "content": _MARK}]
    shell = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    before, found, after = shell.partition(_MARK)
    if not found:
        raise ModelError(f"{name}: its chat template drops the user's turn; expected one that shows it")
    ends = [tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, after)]
    return [*ends[0], *speller.spell([text], special=False)[0], *ends[1]]


def reply(model: Any, tokenizer: Any, ids: Sequence[int], max_tokens: int) -> Reply:
    """What the model says next, without sampling, and whether it ended by itself."""
    given = torch.tensor([ids], device=model.device)
    stop = model.generation_config.eos_token_id
    ends = stop if isinstance(stop, list) else [stop]
    with torch.inference_mode():
        out: Any = model.generate(
            given,
            attention_mask=torch.ones_like(given),
            max_new_tokens=max_tokens,
            do_sample=False,
            num_beams=1,
            temperature=None,
            top_p=None,
            top_k=None,
            pad_token_id=ends[0],
        )
    said = out[0, len(ids) :]
    ended = len(said) > 0 and int(said[-1]) in ends
    return Reply(tokenizer.decode(said, skip_special_tokens=True), "stop" if ended else "length")
