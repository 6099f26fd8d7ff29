"""A causal language model in memory, which computes what its paths ask for: sections of trees, or rows.

It refuses pickled weights, custom code and missing tensors, and never asks a hub.
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
    """A model with transformers; see `Work`. `n_threads`: of this process, as many as `recipe.threads` says unless given.

    Raises:
        UsageError: a device that torch cannot use.
        ModelError: transformers cannot load the folder.
    """

    def __init__(self, folder: Path, device: str, dtype: str, n_threads: int | None = None) -> None:
        self.device = device_of(device)
        torch.set_num_threads(n_threads or threads())
        self.tokenizer, self.model = opened(folder, getattr(torch, dtype), self.device)
        self.max_length = max_length(self.model.config, self.tokenizer)
        sliding_window = window(self.model.config.get_text_config())
        self.traits = Traits(type(self.model).__name__, dtype, fits(self.model), sliding_window)
        self._trees: Trees | None = None

    def close(self) -> None:
        """Give the memory back."""
        self._trees = None
        self.model = self.tokenizer = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def trees(self, sections: Sections, needed: Sequence[Sequence[bool]]) -> Iterator[Pieces]:
        """See `Work`."""
        for number, (section, flags) in enumerate(zip(sections, needed, strict=True)):
            for pieces in self.section(section, flags):
                yield number, pieces

    @_inference
    def section(self, batches: Sequence[Batch], needed: Sequence[bool]) -> Iterator[list[tuple[int, float]]]:
        """See `Trees.score`."""
        with attending(self.model), _refusing():
            if self._trees is None:
                self._trees = Trees(self.model, self.device)
            yield from self._trees.score(batches, needed)

    @_inference
    def rows(self, batches: Iterable[Rows]) -> Iterator[Scored]:
        """See `Work`."""
        for batch in batches:
            yield score_rows(self.model, batch, self.device)

    @_inference
    def alone(self, requests: Sequence[Encoded]) -> list[float]:
        """See `Work`."""
        with attending(self.model, plainly=True):
            return [score_rows(self.model, ((r.row, (r,)),), self.device)[r] for r in requests]

    def replies(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str]:
        """See `Work`; without sampling, and with the reason why each ended."""
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
    """Raise as `Refused` what a model raises that cannot be run in this way."""
    try:
        yield
    except _REFUSALS as error:
        if is_out_of_memory(error):
            raise
        raise Refused(f"{type(error).__name__}: {first_line(error)}") from error


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether torch means that there was no memory: a CPU says so in words only."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def opened(
    folder: Path, dtype: torch.dtype, device: torch.device, kind: Any = AutoModelForCausalLM
) -> tuple[Any, Any]:
    """Return tokenizer and model of a kind, ready to score.
    Raises `ModelError`: transformers cannot load the folder, or tensors that the config names are missing."""
    bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **_FROM_FILES)
        model, loading = kind.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, output_loading_info=True, **_FROM_FILES
        )
    # transformers, tokenizers and safetensors raise many kinds of error; all mean the same here.
    except Exception as error:
        raise _cannot_load(folder, error) from None
    finally:
        if bar:
            transformers_logging.enable_progress_bar()
    if n := len(loading["missing_keys"]) + len(loading["mismatched_keys"]):
        raise ModelError(f"{folder}: {n} tensors are missing or misshapen; expected all the config names")
    return tokenizer, model.to(device).eval()


def opened_tokenizer(folder: Path) -> tuple[Any, int]:
    """Return the tokenizer alone, and the model's context in tokens. Raises `ModelError`: transformers cannot load them."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **_FROM_FILES)
        return tokenizer, max_length(AutoConfig.from_pretrained(folder, **_FROM_FILES), tokenizer)
    # As in `opened`: errors of many kinds, of one meaning.
    except Exception as error:
        raise _cannot_load(folder, error) from None


def _cannot_load(folder: Path, error: Exception) -> ModelError:
    first = (str(error).splitlines() or [""])[0][:200]
    return ModelError(f"{folder}: transformers cannot load this model ({type(error).__name__}: {first})")


def max_length(config: Any, tokenizer: Any) -> int:
    """Return the model's context in tokens, found as lm-eval finds it (`resolve_max_length`)."""
    text = getattr(config, "text_config", None) or config
    for name in _LENGTHS:
        if (length := getattr(text, name, None)) is not None:
            return int(length)
    length = int(tokenizer.model_max_length)
    return length if length < 10**9 else _UNKNOWN_LENGTH


def device_of(name: str) -> torch.device:
    """Return the device of this name. Raises `UsageError`: it cannot."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise UsageError(f"device {name!r}: torch cannot use it; expected cpu, cuda or the like") from None
    return device
