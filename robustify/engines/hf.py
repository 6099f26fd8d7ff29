"""A model run here with transformers, behind the `Scorer` and `Writer` protocols.

Log-probabilities are those of lm-eval 0.4.13's HFLM within 1e-3: the same tokens, continuation only, float32
log-softmax. Each distinct prefix is computed once (`plan`, `tree`) where that is exact for the model: the
first batch of every model is held to scoring one by one, and a model that fails is scored in plain
length-sorted rows. It refuses prompts that do not fit and numbers that are no log-probabilities.
"""

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import transformers

from robustify.engines.base import Logprob, Progress, Request, no_progress
from robustify.engines.cache import Cache, Kept
from robustify.engines.opening import device_of, dtype_of, file_digests, max_length, opened, use_all_cores
from robustify.engines.plan import Encoded, plan
from robustify.engines.rows import score_alone, score_rows
from robustify.engines.tokens import encode, plain, prefix_token
from robustify.engines.tree import Trees, attending, fits, window
from robustify.errors import DataError, ModelError
from robustify.models.folder import check, read_record

VERSION = "hf-1"
_HELD_TO = 4
"""Requests of the first batch that are scored one by one as well."""


class HF:
    """A causal language model from a local folder, in memory until `close`.

    `device` and `dtype` are torch's names; `max_batch_tokens` bounds the tokens of one forward pass; what
    `cache` holds is not computed again.

    Raises:
        UsageError: an unknown device or dtype.
        ModelError: the folder is refused, or transformers cannot load it.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        device: str = "cpu",
        dtype: str = "float32",
        max_batch_tokens: int = 2048,
        cache: Cache | None = None,
    ) -> None:
        check(folder)
        self.name = name
        self._folder = folder
        self._dtype = dtype_of(dtype)
        self._max_batch_tokens = max_batch_tokens
        use_all_cores()
        self._device = device_of(device)
        self._tokenizer, self._model = opened(folder, self._dtype, self._device)
        self.max_length = max_length(self._model.config, self._tokenizer)
        self._kept = Kept(cache, self._recipe(), name)
        self.path = self._kept.path or ("untried" if fits(self._model) else "rows")

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
        known = self._kept.known(asked)
        progress(sum(asked[request] for request in known))
        with torch.inference_mode():
            for fresh in self._scored(list(asked), frozenset(known)):
                self._check_numbers(fresh)
                scored = {r: Logprob(total, len(r.continuation)) for r, total in fresh.items()}
                self._kept.keep(scored)
                progress(sum(asked[request] for request in scored if request not in known))
                known |= scored
        self._kept.path = self.path
        return [known[request] for request in encoded]

    def fingerprint(self) -> dict[str, str]:
        """What the numbers depend on, by which path they were computed, and the model's licence."""
        record = read_record(self._folder)
        licence = record.licence if record else "see the model's own files"
        return {**self._recipe(), "path": self.path, "licence": licence}

    def _recipe(self) -> dict[str, str]:
        return {
            "engine": VERSION,
            **file_digests(self._folder),
            "dtype": str(self._dtype).removeprefix("torch."),
            "device": str(self._device),
            "threads": str(torch.get_num_threads()),
            "max_batch_tokens": str(self._max_batch_tokens),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """One greedy reply for each prompt, through the model's chat template where it has one.

        Raises:
            DataError: prompts that leave no room for the reply, named by their positions.
        """
        encoded = [self._as_prompt(prompt) for prompt in prompts]
        faults = [
            f"prompt {i}: {len(ids)} tokens and {max_tokens} for the reply; {self.name} takes {self.max_length}"
            for i, ids in enumerate(encoded)
            if len(ids) + max_tokens > self.max_length
        ]
        if faults:
            raise DataError.gather(faults)
        return [self._reply(ids, max_tokens) for ids in encoded]

    def _scored(
        self, requests: Sequence[Encoded], known: frozenset[Encoded]
    ) -> Iterator[dict[Encoded, float]]:
        """Batches are planned from all requests before anything is left out, so that a run which is resumed
        computes in the same batches, to the same bits. A batch whose requests are all known is left out."""
        deepest = window(self._model.config) or self.max_length
        deep = [r for r in requests if len(r.row) > deepest]
        shallow = [r for r in requests if len(r.row) <= deepest]
        if self.path != "rows":
            yield from self._by_trees(shallow, known)
        if self.path == "rows":
            deep = list(requests)
        yield from score_rows(self._model, deep, known, self._max_batch_tokens, self._device)

    def _by_trees(
        self, requests: Sequence[Encoded], known: frozenset[Encoded]
    ) -> Iterator[dict[Encoded, float]]:
        left = [len(r.continuation) for r in requests]
        totals = [0.0] * len(requests)
        with attending(self._model):
            trees = Trees(self._model, self._device)
            for batch in plan(requests, self._max_batch_tokens).batches:
                if all(requests[want.request] in known for want in batch.wants):
                    continue
                done = []
                for number, logprob in trees.score(batch):
                    totals[number] += logprob
                    left[number] -= 1
                    if left[number] == 0:
                        done.append(number)
                fresh = {requests[number]: totals[number] for number in done}
                if self.path == "untried" and fresh:
                    self.path = "trees" if self._agrees(fresh) else "rows"
                if self.path == "rows":
                    return
                yield fresh

    def _agrees(self, fresh: dict[Encoded, float]) -> bool:
        # Wrong attention is off by whole nats; half precision wanders by tenths.
        allowed = 1e-3 if self._dtype == torch.float32 else 1.0
        held = list(fresh)[:: max(1, len(fresh) // _HELD_TO)][:_HELD_TO]
        with attending(self._model, plainly=True):
            alone = [score_alone(self._model, r, self._device) for r in held]
        return all(abs(a - fresh[r]) <= allowed for a, r in zip(alone, held, strict=True))

    def _check_lengths(self, encoded: Sequence[Encoded]) -> None:
        faults = [
            f"request {i}: {len(e.context)} tokens of context and {len(e.continuation)} of continuation;"
            f" {self.name} takes {self.max_length + 1} together; use a model with a longer context, or fewer shots"
            for i, e in enumerate(encoded)
            if len(e.row) > self.max_length
        ]
        if faults:
            raise DataError.gather(faults)

    def _check_numbers(self, fresh: dict[Encoded, float]) -> None:
        if not all(-float("inf") < total <= 1e-3 for total in fresh.values()):
            raise ModelError(
                f"{self.name}: gave a log-probability that is NaN, infinite or above 0; expected a number: "
                "its weights are damaged, or its precision is too low"
            )

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
            out: Any = self._model.generate(
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
