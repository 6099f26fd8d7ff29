"""Causal language model in memory that scores sections of prefix trees, or plain rows.

Loading refuses pickled weights, custom code, and missing tensors, and never contacts a model hub.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from robustify.base.errors import ModelError, UsageError, first_line
from robustify.models.engines.local.freed_memory import give_back, keep_freed
from robustify.models.engines.local.linear import quickened
from robustify.models.engines.local.loading import is_out_of_memory, loading
from robustify.models.engines.local.paths import Pieces, Refused, Rows, Scored, Traits
from robustify.models.engines.local.tree import Trees, attending, fits, window
from robustify.models.engines.plan import Batch, Encoded, Sections
from robustify.models.engines.protocols import Reply

_LENGTHS = ("n_positions", "max_position_embeddings", "n_ctx")
_UNKNOWN_LENGTH = 2048
_FROM_FILES: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError, AssertionError)

F = TypeVar("F", bound=Callable[..., Any])


def _inference(function: F) -> F:
    without_gradients: F = torch.inference_mode()(function)
    return without_gradients


class Local:
    """Model loaded with transformers in this process. Raise `UsageError` if torch cannot use the device. Raise `ModelError`
    if transformers cannot load the folder."""

    def __init__(self, folder: Path, device: str, dtype: str, n_threads: int) -> None:
        self.device = device_of(device)
        torch.set_num_threads(n_threads)
        self.tokenizer, self.model = open_folder(folder, getattr(torch, dtype), self.device)
        self.max_length = max_length(self.model.config, self.tokenizer)
        sliding_window = window(self.model.config.get_text_config())
        self.traits = Traits(type(self.model).__name__, dtype, fits(self.model), sliding_window)
        self._trees: Trees | None = None
        # Not before, because loading frees memory that scoring does not need.
        keep_freed()

    def close(self) -> None:
        """Release the memory of the model."""
        self._trees = None
        self.model = self.tokenizer = None
        gc.collect()
        give_back()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def trees(self, sections: Sections, needed: Sequence[Sequence[bool]]) -> Iterator[Pieces]:
        """Yield the token log-probabilities of each batch that is `needed`."""
        for section, flags in zip(sections, needed, strict=True):
            yield from self.section(section, flags)

    @_inference
    def section(self, batches: Sequence[Batch], needed: Sequence[bool]) -> Iterator[Pieces]:
        """Yield (request, token log-probability) pairs of a section, one batch at a time. `needed` selects the batches."""
        with attending(self.model), _refusing():
            if self._trees is None:
                self._trees = Trees(self.model, self.device)
            yield from self._trees.score(batches, needed)

    @_inference
    def rows(self, batches: Iterable[Rows]) -> Iterator[Scored]:
        """Yield the summed log-probabilities of each batch of plain rows."""
        for batch in batches:
            yield score_rows(self.model, batch, self.device)

    @_inference
    def alone(self, requests: Sequence[Encoded]) -> list[float]:
        """Return the summed log-probability of each request, scored one by one with the model's standard attention."""
        with attending(self.model, plainly=True):
            return [score_rows(self.model, ((r.row, (r,)),), self.device)[r] for r in requests]

    def replies(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str]:
        """Return the greedily decoded reply to each tokenized prompt, with its finish reason."""
        return [self._reply(ids, max_tokens) for ids in prompts]

    @_inference
    def _reply(self, ids: Sequence[int], max_tokens: int) -> Reply:
        prompt = torch.tensor([ids], device=self.model.device)
        stop = self.model.generation_config.eos_token_id
        ends = stop if isinstance(stop, list) else [stop]
        out: Any = self.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=max_tokens,
            do_sample=False,
            num_beams=1,
            temperature=None,
            top_p=None,
            top_k=None,
            pad_token_id=ends[0],
        )
        written = out[0, len(ids) :]
        ended = len(written) > 0 and int(written[-1]) in ends
        return Reply(self.tokenizer.decode(written, skip_special_tokens=True), "stop" if ended else "length")


@contextmanager
def _refusing() -> Iterator[None]:
    """Convert errors of a model that does not support tree scoring into `Refused`."""
    try:
        yield
    except _REFUSALS as error:
        if is_out_of_memory(error):
            raise
        raise Refused(f"{type(error).__name__}: {first_line(error)}") from error


def open_folder(folder: Path, dtype: torch.dtype, device: torch.device) -> tuple[Any, Any]:
    """Return the tokenizer and the model in a folder, ready for inference. Raise `ModelError` if transformers cannot load
    the folder, or if tensors named by the config are missing."""
    bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        with loading(folder):
            tokenizer = AutoTokenizer.from_pretrained(folder, **_FROM_FILES)
            model, report = AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, use_safetensors=True, output_loading_info=True, **_FROM_FILES
            )
    finally:
        if bar:
            transformers_logging.enable_progress_bar()
    if n := len(report["missing_keys"]) + len(report["mismatched_keys"]):
        raise ModelError(
            f"{folder}: {n} tensors are missing or have the wrong shape. Use weights that match config.json.",
            code="mismatched-weights",
        )
    return tokenizer, quickened(model.to(device).eval())


def open_tokenizer(folder: Path) -> tuple[Any, int]:
    """Return the tokenizer and the context length of a model in tokens, without loading its weights.
    Raise `ModelError` if transformers cannot load the tokenizer or the config."""
    with loading(folder):
        tokenizer = AutoTokenizer.from_pretrained(folder, **_FROM_FILES)
        return tokenizer, max_length(AutoConfig.from_pretrained(folder, **_FROM_FILES), tokenizer)


def max_length(config: Any, tokenizer: Any) -> int:
    """Return the context length of the model in tokens, by the rules of lm-eval (`resolve_max_length`)."""
    text = getattr(config, "text_config", None) or config
    for name in _LENGTHS:
        if (length := getattr(text, name, None)) is not None:
            return int(length)
    length = int(tokenizer.model_max_length)
    return length if length < 10**9 else _UNKNOWN_LENGTH


def device_of(name: str) -> torch.device:
    """Return the torch device with this name. Raise `UsageError` if torch cannot use the device."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise UsageError(
            f"torch cannot use the device {name!r}; expected cpu or another device of this machine.",
            code="unknown-device",
        ) from None
    return device


def score_rows(model: Any, batch: Rows, device: torch.device) -> Scored:
    """Return the summed log-probability of each request in a batch. The first row must be the longest."""
    # Padding is on the right and attention looks left, so no mask is needed, as in lm-eval.
    ids = torch.zeros(len(batch), len(batch[0][0]), dtype=torch.long)
    for b, (row, _) in enumerate(batch):
        ids[b, : len(row)] = torch.tensor(row)
    wants = [
        (request, b, len(request.context) - 1 + i, token)
        for b, (_, same) in enumerate(batch)
        for request in same
        for i, token in enumerate(request.continuation)
    ]
    positions = sorted({(b, position) for _, b, position, _ in wants})
    logits = _logits_at(model, positions, ids.to(device))
    slot = {position: i for i, position in enumerate(positions)}
    slots = torch.tensor([slot[b, position] for _, b, position, _ in wants], device=device)
    tokens = torch.tensor([token for *_, token in wants], device=device)
    logprobs = logits[slots, tokens] - torch.logsumexp(logits, dim=-1)[slots]
    totals: Scored = {}
    for (request, *_), value in zip(wants, logprobs.double().tolist(), strict=True):
        totals[request] = totals.get(request, 0.0) + value
    return totals


def _logits_at(model: Any, positions: Sequence[tuple[int, int]], ids: torch.Tensor) -> torch.Tensor:
    """Return the float32 logits at these positions (n_positions, n_vocabulary), because all logits of a long row could take
    gigabytes. A position is (row, column). Code that the model runs after its head still runs."""
    rows, columns = (torch.tensor(side, device=ids.device) for side in zip(*positions, strict=True))
    head = model.get_output_embeddings()
    hook = head.register_forward_pre_hook(lambda _, args: (args[0][rows, columns].unsqueeze(0), *args[1:]))
    try:
        logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits[0]
    finally:
        hook.remove()
    return logits.float()
