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

from robustify.engines.local.paths import Pieces, Refused, Rows, Scored, Traits
from robustify.engines.local.plain import score_rows
from robustify.engines.local.tree import Trees, attending, fits, window
from robustify.engines.plan import Batch, Encoded, Sections
from robustify.engines.protocols import Reply
from robustify.engines.recipe import threads
from robustify.errors import ModelError, UsageError, first_line

_LENGTHS = ("n_positions", "max_position_embeddings", "n_ctx")
_UNKNOWN_LENGTH = 2048
_FROM_FILES: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError, AssertionError)

F = TypeVar("F", bound=Callable[..., Any])


def _inference(function: F) -> F:
    inside: F = torch.inference_mode()(function)
    return inside


class Local:
    """Model loaded with transformers in this process. `n_threads` defaults to `recipe.threads`. Raise `UsageError` if torch
    cannot use the device. Raise `ModelError` if transformers cannot load the folder."""

    def __init__(self, folder: Path, device: str, dtype: str, n_threads: int | None = None) -> None:
        self.device = device_of(device)
        torch.set_num_threads(n_threads or threads())
        self.tokenizer, self.model = opened(folder, getattr(torch, dtype), self.device)
        self.max_length = max_length(self.model.config, self.tokenizer)
        sliding_window = window(self.model.config.get_text_config())
        self.traits = Traits(type(self.model).__name__, dtype, fits(self.model), sliding_window)
        self._trees: Trees | None = None

    def close(self) -> None:
        """Release the memory of the model."""
        self._trees = None
        self.model = self.tokenizer = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def trees(self, sections: Sections, needed: Sequence[Sequence[bool]]) -> Iterator[Pieces]:
        """Yield the section number and token log-probabilities of each batch that is `needed`."""
        for number, (section, flags) in enumerate(zip(sections, needed, strict=True)):
            for pieces in self.section(section, flags):
                yield number, pieces

    @_inference
    def section(self, batches: Sequence[Batch], needed: Sequence[bool]) -> Iterator[list[tuple[int, float]]]:
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
        given = torch.tensor([ids], device=self.model.device)
        stop = self.model.generation_config.eos_token_id
        ends = stop if isinstance(stop, list) else [stop]
        out: Any = self.model.generate(
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
        return Reply(self.tokenizer.decode(said, skip_special_tokens=True), "stop" if ended else "length")


@contextmanager
def _refusing() -> Iterator[None]:
    """Convert errors of a model that does not support tree scoring into `Refused`."""
    try:
        yield
    except _REFUSALS as error:
        if is_out_of_memory(error):
            raise
        raise Refused(f"{type(error).__name__}: {first_line(error)}") from error


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the error means that torch ran out of memory. On a CPU, only the message shows this."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def opened(
    folder: Path, dtype: torch.dtype, device: torch.device, kind: Any = AutoModelForCausalLM
) -> tuple[Any, Any]:
    """Return the tokenizer and the model from a folder, ready for inference. `kind` is the model class. Raise `ModelError`
    if transformers cannot load the folder, or tensors named by the config are missing."""
    bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **_FROM_FILES)
        model, loading = kind.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, output_loading_info=True, **_FROM_FILES
        )
    # transformers, tokenizers, and safetensors raise errors of many types, which all mean the same here.
    except Exception as error:
        raise _cannot_load(folder, error) from None
    finally:
        if bar:
            transformers_logging.enable_progress_bar()
    if n := len(loading["missing_keys"]) + len(loading["mismatched_keys"]):
        raise ModelError(
            f"{folder}: {n} tensors are missing or have the wrong shape. Use weights that match config.json."
        )
    return tokenizer, model.to(device).eval()


def opened_tokenizer(folder: Path) -> tuple[Any, int]:
    """Return the tokenizer and the context length of a model in tokens, without loading its weights.
    Raise `ModelError` if transformers cannot load the tokenizer or the config."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **_FROM_FILES)
        return tokenizer, max_length(AutoConfig.from_pretrained(folder, **_FROM_FILES), tokenizer)
    # The libraries raise errors of many types, which all mean the same here.
    except Exception as error:
        raise _cannot_load(folder, error) from None


def _cannot_load(folder: Path, error: Exception) -> ModelError:
    first = (str(error).splitlines() or [""])[0][:200]
    return ModelError(f"{folder}: transformers cannot load this model ({type(error).__name__}: {first})")


def max_length(config: Any, tokenizer: Any) -> int:
    """Return the context length of the model in tokens, using the rules of lm-eval (`resolve_max_length`)."""
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
            f"torch cannot use the device {name!r}; expected cpu or another device of this machine."
        ) from None
    return device
