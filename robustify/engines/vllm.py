"""A model run here with vLLM, without a server, behind the `Scorer` and `Writer` protocols.

The tokens are those of the local engine. Single tokens of one context are asked for by their ids after the context, whose
keys and values vLLM shares between requests; other continuations are read from the prompt that holds them. What the score
cache has is not asked again, and then vLLM is not even imported.
"""

import importlib.metadata
import importlib.util
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from robustify.engines.cache import Cache, KeptScores
from robustify.engines.plan import Encoded, Tokens
from robustify.engines.protocols import Closing, Logprob, Progress, Reply, no_progress
from robustify.engines.recipe import file_digests
from robustify.engines.settings import VLLMModel
from robustify.engines.tokens import as_prompt, check_lengths, check_room, encode, spelling
from robustify.errors import ModelError, first_line
from robustify.models.folder import check_folder, read_record
from robustify.views import Request

VERSION = "vllm-1"
"""Of the engine: another one is another recipe, whose scores are kept apart."""
CHUNK = 512
"""Prompts handed to vLLM at once; after each chunk its scores are kept."""
_MOST_IDS = 128
_ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}
_LOGGING = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CONFIGURE_LOGGING": "1"}
"""Where the user has not set them."""


def require_vllm(name: str) -> None:
    """Make sure that vLLM can be imported later; it is not imported here. Raises `ModelError`: it is not installed."""
    if importlib.util.find_spec("vllm") is None:
        raise ModelError(
            f"{name}: engine vllm needs vLLM: pip install 'robustcbrn-eval[vllm]' in an environment of its own, or serve "
            "the model and use engine openai"
        )


class VLLM(Closing):
    """A causal language model from a local folder, in vLLM's memory from the first request that is not cached.
    Raises `ModelError`: the folder is refused, or vLLM is not installed."""

    def __init__(self, model: VLLMModel, folder: Path, cache: Cache | None = None) -> None:
        require_vllm(model.name)
        check_folder(folder)
        self.name = model.name
        self._model, self._folder = model, folder
        self._speller = spelling(str(folder), cache.file.parent if cache else None).speller
        self._recipe = _recipe(model, folder)
        self._kept = KeptScores(cache, self._recipe, model.name)
        self._llm: Any = None

    def __repr__(self) -> str:
        return f"VLLM({self.name!r})"

    def close(self) -> None:
        """Give the model's memory back. Closing twice does nothing."""
        llm, self._llm = self._llm, None
        if llm is not None:
            llm.llm_engine.engine_core.shutdown()

    def fingerprint(self) -> dict[str, str]:
        """What the numbers depend on, and the model's licence."""
        record = read_record(self._folder)
        return {**self._recipe, "licence": record.licence if record else "see the model's own files"}

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        """See `Scorer`; equal requests are asked once."""
        if (kept_before := self._kept.known_texts(requests)) is not None:
            progress(len(requests))
            return kept_before
        encoded = encode(self._speller, requests)
        asked = Counter(encoded)
        known = self._kept.known(asked)
        progress(sum(asked[request] for request in known))
        left = [request for request in asked if request not in known]
        if left:
            # vLLM generates one token behind every prompt.
            check_lengths(encoded, self.name, self._longest - 1)
        for fresh in self._scored(left):
            known |= self._kept.keep(fresh)
            progress(sum(asked[request] for request in fresh))
        self._kept.keep_texts(requests, encoded)
        return [known[request] for request in encoded]

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """See `Writer`."""
        tokenizer = self._opened().get_tokenizer()
        encoded = [as_prompt(tokenizer, self.name, prompt) for prompt in prompts]
        check_room(encoded, self.name, max_tokens, self._longest)
        replies = self._asked(encoded, [{"temperature": 0.0, "max_tokens": max_tokens}] * len(encoded))
        return [Reply(str(one.outputs[0].text), one.outputs[0].finish_reason) for one in replies]

    @property
    def _longest(self) -> int:
        return int(self._opened().model_config.max_model_len)

    def _scored(self, left: Sequence[Encoded]) -> Iterator[dict[Encoded, Logprob]]:
        if not left:
            return
        from vllm import SamplingParams

        jobs = _jobs(left, by_id=hasattr(SamplingParams(), "logprob_token_ids"))
        for start in range(0, len(jobs), CHUNK):
            part = jobs[start : start + CHUNK]
            outputs = self._asked([prompt for prompt, _ in part], [_how(wanted) for _, wanted in part])
            yield {
                request: score
                for (_, wanted), one in zip(part, outputs, strict=True)
                for request, score in self._read(wanted, one).items()
            }

    def _read(self, wanted: Sequence[Encoded], output: Any) -> dict[Encoded, Logprob]:
        if len(wanted) > 1:
            (after,) = output.outputs[0].logprobs
            return {r: Logprob(self._number(after, r.continuation[0]), 1) for r in wanted}
        (request,) = wanted
        row, n = request.context + request.continuation, len(request.context)
        places = output.prompt_logprobs or []
        if len(places) != len(row):
            raise ModelError(f"{self.name}: vLLM gave {len(places)} log-probabilities for {len(row)} tokens")
        numbers = [self._number(places[i], row[i]) for i in range(n, len(row))]
        return {request: Logprob(sum(numbers), len(numbers))}

    def _number(self, logprobs: Any, token: int) -> float:
        value = logprobs[token].logprob if logprobs and token in logprobs else math.nan
        if not -float("inf") < value <= 1e-3:
            raise ModelError(
                f"{self.name}: gave a log-probability that is missing, NaN, infinite or above 0; expected a number: its "
                "weights are damaged, or its precision is too low"
            )
        return float(value)

    def _asked(self, prompts: Sequence[Sequence[int]], how: Sequence[dict[str, Any]]) -> list[Any]:
        llm = self._opened()
        from vllm import SamplingParams

        inputs = [{"prompt_token_ids": list(ids)} for ids in prompts]
        return list(llm.generate(inputs, [SamplingParams(**one) for one in how], use_tqdm=False))

    def _opened(self) -> Any:
        if self._llm is None:
            os.environ.update({**_LOGGING, **os.environ, **_ENVIRONMENT})
            from vllm import LLM

            try:
                self._llm = LLM(
                    model=str(self._folder),
                    dtype=self._model.dtype,
                    tensor_parallel_size=self._model.tensor_parallel_size,
                    max_model_len=self._model.max_model_len,
                    gpu_memory_utilization=self._model.gpu_memory,
                    enforce_eager=self._model.eager,
                    enable_prefix_caching=True,
                    trust_remote_code=False,
                    seed=0,
                    disable_log_stats=True,
                )
            # vLLM raises many kinds of error, in processes of its own; all mean the same here.
            except Exception as error:
                said = f"({type(error).__name__}: {first_line(error)})"
                raise ModelError(f"{self.name}: vLLM cannot open this model {said}") from error
        return self._llm


def _jobs(left: Sequence[Encoded], *, by_id: bool) -> list[tuple[Tokens, tuple[Encoded, ...]]]:
    """Prompts and the requests that each answers: several single tokens after one context, or one whole row."""
    single: dict[Tokens, list[Encoded]] = {}
    for request in left:
        if by_id and len(request.continuation) == 1:
            single.setdefault(request.context, []).append(request)
    shared = {c: tuple(several) for c, several in single.items() if 1 < len(several) <= _MOST_IDS}
    whole = [r for r in left if r not in set(shared.get(r.context, ()))]
    return [*shared.items(), *((r.context + r.continuation, (r,)) for r in whole)]


def _how(wanted: Sequence[Encoded]) -> dict[str, Any]:
    plain = {"max_tokens": 1, "temperature": 0.0, "detokenize": False}
    if len(wanted) == 1:
        return {**plain, "prompt_logprobs": 0}
    return {**plain, "logprob_token_ids": [request.continuation[0] for request in wanted]}


def _recipe(model: VLLMModel, folder: Path) -> dict[str, str]:
    """Everything that a change of numbers would have to come from, by name."""
    return {
        "engine": VERSION,
        **file_digests(folder),
        "dtype": model.dtype,
        "tensor_parallel_size": str(model.tensor_parallel_size),
        "max_model_len": str(model.max_model_len or "the model's own"),
        "eager": str(model.eager),
        "vllm": _version(),
    }


def _version() -> str:
    # The build for CPUs is another distribution of the same package.
    names = importlib.metadata.packages_distributions().get("vllm", ["vllm"])
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in sorted(set(names)))
