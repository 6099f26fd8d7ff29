"""A model run here with transformers, behind the `Scorer` and `Writer` protocols.

Log-probabilities are those of lm-eval 0.4.13's HFLM within 1e-3: the same tokens, continuation only, float32
log-softmax. Shared beginnings are computed once where tree attention is exact for the model (checked on every
load), and the output head is applied only where something is read. It refuses pickled weights, custom code,
missing tensors, prompts that do not fit, and numbers that are no log-probabilities.
"""

import gc
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from robustify.engines.base import Logprob, Progress, Request, no_progress
from robustify.engines.plan import Encoded, Pack, batches, packs
from robustify.engines.tokens import encode, plain, prefix_token
from robustify.errors import DataError, ModelError, UsageError
from robustify.models.folder import check, digests

VERSION = "hf-1"
PACK_TOKENS = 256
"""Tokens of one tree: enough to share headers, few enough for attention to stay a small part of the work."""
_LOGITS = 64_000_000
"""Float32 logits held at once (256 MB): the vocabulary of Gemma has 262,144 entries."""
_LENGTHS = ("n_positions", "max_position_embeddings", "n_ctx")
_UNKNOWN_LENGTH = 2048
_WEIGHTS, _TOKENIZER = (
    (".safetensors",),
    ("tokenizer", "vocab", "merges", "special_tokens", "chat_template", "added_tokens"),
)


class HF:
    """A causal language model from a local folder, in memory until `close`.

    `device` and `dtype` are torch's names; `max_batch_tokens` bounds the tokens of one forward pass, padding
    included.

    Raises:
        UsageError: an unknown device or dtype.
        ModelError: the folder is refused, or transformers cannot load it.
    """

    def __init__(
        self,
        reference_name: str,
        folder: Path,
        device: str = "cpu",
        dtype: str = "float32",
        max_batch_tokens: int = 4096,
    ) -> None:
        check(folder)
        self.name = reference_name
        self._folder = folder
        self._dtype = _dtype(dtype)
        self._max_batch_tokens = max_batch_tokens
        _use_all_cores()
        self._device = _device(device)
        self._tokenizer, self._model = _load(folder, self._dtype, self._device)
        self.max_length = _max_length(self._model.config, self._tokenizer)
        self._deepest = _deepest_tree(self._model)
        if self._deepest and not self._trees_are_exact():
            self._deepest = 0

    def __enter__(self) -> "HF":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"HF({self.name!r}, {self._device}, {str(self._dtype).removeprefix('torch.')})"

    def close(self) -> None:
        """Give the model's memory back. Closing twice does nothing."""
        self._model = self._tokenizer = None
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        """One result for each request, in the order of the requests; equal requests are computed once.

        Raises:
            DataError: requests that do not fit into the model's context, named by their positions.
            ModelError: a log-probability that is NaN or infinite.
        """
        encoded = encode(self._tokenizer, requests)
        self._check_lengths(encoded)
        asked = Counter(encoded)
        known: dict[Encoded, Logprob] = {}
        planned = packs(encoded, most=PACK_TOKENS, deepest=self._deepest)
        for batch in self._batches(planned):
            fresh = self._score(batch)
            known |= fresh
            progress(sum(asked[request] for request in fresh))
        return [known[request] for request in encoded]

    def fingerprint(self) -> dict[str, str]:
        """What the numbers depend on: digests of weights, settings and tokenizer, dtype, device, batch, versions."""
        names = sorted(p.name for p in self._folder.iterdir() if p.is_file() and not p.name.startswith("."))
        found = digests(
            self._folder,
            [n for n in names if n.endswith(_WEIGHTS) or n.startswith(("config.json", *_TOKENIZER))],
        )
        return {
            "engine": VERSION,
            "weights": _joint({n: d for n, d in found.items() if n.endswith(_WEIGHTS)}),
            "config": found["config.json"],
            "tokenizer": _joint({n: d for n, d in found.items() if n.startswith(_TOKENIZER)}),
            "dtype": str(self._dtype).removeprefix("torch."),
            "device": str(self._device),
            "attention": "trees" if self._deepest else "rows",
            "max_batch_tokens": str(self._max_batch_tokens),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """A greedy reply of at most `max_tokens` tokens to each prompt, in the model's chat template if it has one.

        Special tokens come from the template only; those in a prompt's text stay text.

        Raises:
            DataError: a prompt that leaves no room for the reply.
        """
        encoded = [self._as_prompt(prompt) for prompt in prompts]
        limit = self.max_length - max_tokens
        faults = [
            f"prompt {i}: {len(ids)} tokens and {max_tokens} of reply; {self.name} takes {self.max_length}"
            for i, ids in enumerate(encoded)
            if len(ids) > limit
        ]
        if faults:
            raise DataError.gather(faults)
        return [self._reply(ids, max_tokens) for ids in encoded]

    def _check_lengths(self, encoded: Sequence[Encoded]) -> None:
        faults = [
            f"request {i}: {len(e.context)} tokens of context and {len(e.continuation)} of continuation;"
            f" {self.name} takes {self.max_length + 1} together; use a model with a longer context, or fewer shots"
            for i, e in enumerate(encoded)
            if len(e.row) > self.max_length
        ]
        if faults:
            raise DataError.gather(faults)

    def _batches(self, planned: Sequence[Pack]) -> Iterator[list[Pack]]:
        most_places = max(1, _LOGITS // int(self._model.get_input_embeddings().num_embeddings))
        return batches(planned, most_tokens=self._max_batch_tokens, most_places=most_places)

    def _score(self, batch: Sequence[Pack]) -> dict[Encoded, Logprob]:
        logits, slots = self._logits(batch)
        reads = [
            (read.request, [slots[b, node] for node in read.nodes])
            for b, pack in enumerate(batch)
            for read in pack.reads
        ]
        at = torch.tensor([slot for _, places in reads for slot in places], device=self._device)
        picked = torch.tensor(
            [token for request, _ in reads for token in request.continuation], device=self._device
        )
        chosen = logits[at, picked] - torch.logsumexp(logits, dim=-1)[at]
        values = iter(chosen.double().tolist())
        scored = {r: Logprob(sum(next(values) for _ in places), len(places)) for r, places in reads}
        if not all(-float("inf") < s.total <= 1e-3 for s in scored.values()):
            raise ModelError(
                f"{self.name}: gave a log-probability that is NaN, infinite or above 0; its weights are damaged"
            )
        return scored

    def _logits(self, batch: Sequence[Pack]) -> tuple[Any, dict[tuple[int, int], int]]:
        """Float32 logits (places, vocabulary) where something is read, and the slot of each (pack, node)."""
        places = [(b, node) for b, pack in enumerate(batch) for node in pack.places]
        rows, columns = (torch.tensor(side, device=self._device) for side in zip(*places, strict=True))
        inputs = _chains(batch, self._device)
        if not batch[0].chain:
            inputs |= _trees(batch, self._dtype, self._device)
        head = self._model.get_output_embeddings()
        # Whatever the model does after its head (soft capping, scaling) stays the model's own code.
        hook = head.register_forward_pre_hook(
            lambda _, args: (args[0][rows, columns].unsqueeze(0), *args[1:])
        )
        try:
            with torch.inference_mode():
                logits = self._model(**inputs, use_cache=False).logits[0].float()
        finally:
            hook.remove()
        return logits, {place: slot for slot, place in enumerate(places)}

    def _trees_are_exact(self) -> bool:
        """Whether a small tree gives what its rows give one by one."""
        vocabulary = int(self._model.get_input_embeddings().num_embeddings)
        tokens = [(7919 * i + 101) % vocabulary for i in range(64)]
        stem, rest = tuple(tokens[:16]), tokens[16:]
        trial = [Encoded(stem[: 16 - i], tuple(rest[12 * i : 12 * i + 12])) for i in range(4)]
        trees, rows = (
            {
                k: v
                for batch in self._batches(packs(trial, most=64, deepest=deep))
                for k, v in self._score(batch).items()
            }
            for deep in (64, 0)
        )
        # Wrong attention is off by whole nats; half precision wanders by tenths over twelve tokens.
        allowed = 1e-3 if self._dtype == torch.float32 else 1.0
        return all(abs(trees[t].total - rows[t].total) <= allowed for t in trial)

    def _as_prompt(self, text: str) -> list[int]:
        if not getattr(self._tokenizer, "chat_template", None):
            return list(plain(self._tokenizer, [text])[text]) or [prefix_token(self._tokenizer)]
        mark = "\u241fPROMPT\u241f"
        turn = [{"role": "user", "content": mark}]
        shell = self._tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        before, found, after = shell.partition(mark)
        if not found:
            raise ModelError(
                f"{self.name}: its chat template drops the user's turn; expected one that shows it"
            )
        ends = [self._tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, after)]
        return [*ends[0], *plain(self._tokenizer, [text], special=False)[text], *ends[1]]

    def _reply(self, ids: Sequence[int], max_tokens: int) -> str:
        given = torch.tensor([ids], device=self._device)
        stop = self._model.generation_config.eos_token_id
        with torch.inference_mode():
            out = self._model.generate(
                given,
                attention_mask=torch.ones_like(given),
                max_new_tokens=max_tokens,
                do_sample=False,
                num_beams=1,
                temperature=None,
                top_p=None,
                top_k=None,
                pad_token_id=stop[0] if isinstance(stop, list) else stop,
            )
        return str(self._tokenizer.decode(out[0, len(ids) :], skip_special_tokens=True))


def _load(folder: Path, dtype: Any, device: Any) -> tuple[Any, Any]:
    bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    where = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **where)
        model, told = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, output_loading_info=True, **where
        )
    except (
        Exception
    ) as e:  # transformers, tokenizers and safetensors raise many kinds; all mean the same here
        first = (str(e).splitlines() or [""])[0][:200]
        raise ModelError(
            f"{folder}: transformers cannot load this model ({type(e).__name__}: {first})"
        ) from e
    finally:
        if bar:
            transformers_logging.enable_progress_bar()
    if told["missing_keys"] or told["mismatched_keys"]:
        n = len(told["missing_keys"]) + len(told["mismatched_keys"])
        raise ModelError(
            f"{folder}: {n} tensors are missing or misshapen; expected every tensor the config names"
        )
    return tokenizer, model.to(device).eval()


def _chains(batch: Sequence[Pack], device: Any) -> dict[str, Any]:
    # Padding stands to the right and attention looks to the left: no mask is needed, as in lm-eval.
    ids = torch.zeros(len(batch), max(len(p.tokens) for p in batch), dtype=torch.long)
    for b, pack in enumerate(batch):
        ids[b, : len(pack.tokens)] = torch.tensor(pack.tokens)
    return {"input_ids": ids.to(device)}


def _trees(batch: Sequence[Pack], dtype: Any, device: Any) -> dict[str, Any]:
    width = max(len(p.tokens) for p in batch)
    positions = torch.zeros(len(batch), width, dtype=torch.long)
    seen = torch.eye(width, dtype=torch.bool).repeat(len(batch), 1, 1)
    for b, pack in enumerate(batch):
        positions[b, : len(pack.tokens)] = torch.tensor(pack.depths)
        for i, parent in enumerate(pack.parents):
            if parent >= 0:
                seen[b, i] |= seen[b, parent]
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)
    return {"position_ids": positions.to(device), "attention_mask": mask.unsqueeze(1).to(device)}


def _deepest_tree(model: Any) -> int:
    """The longest row for which a tree's mask says all there is to attention; 0 where trees are out of the question."""
    config = getattr(model.config, "text_config", None) or model.config
    kinds = set(getattr(config, "layer_types", None) or ())
    if not getattr(model, "_supports_attention_backend", False) or config._attn_implementation != "sdpa":
        return 0
    if not kinds <= {"full_attention", "sliding_attention"}:
        return 0
    # Within the window a sliding layer sees all that comes before.
    return min(PACK_TOKENS, int(getattr(config, "sliding_window", None) or PACK_TOKENS))


def _max_length(config: Any, tokenizer: Any) -> int:
    """The model's context in tokens, found as lm-eval finds it (`resolve_max_length`)."""
    text = getattr(config, "text_config", None) or config
    for name in _LENGTHS:
        if (length := getattr(text, name, None)) is not None:
            return int(length)
    length = int(tokenizer.model_max_length)
    return length if length < 10**9 else _UNKNOWN_LENGTH


def _dtype(name: str) -> Any:
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if name not in known:
        raise UsageError(f"dtype {name!r}: expected one of {', '.join(known)}")
    return known[name]


def _device(name: str) -> Any:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as e:
        raise UsageError(
            f"device {name!r}: torch cannot use it here; expected cpu, cuda or another that torch has"
        ) from e
    return device


def _use_all_cores() -> None:
    if "OMP_NUM_THREADS" in os.environ:
        return
    able = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    torch.set_num_threads(able or 1)


def _joint(files: dict[str, str]) -> str:
    """One digest for several files: sha256 over their names and digests, or the one digest of one file."""
    if len(files) == 1:
        return next(iter(files.values()))
    return hashlib.sha256("".join(f"{name} {files[name]}\n" for name in sorted(files)).encode()).hexdigest()
