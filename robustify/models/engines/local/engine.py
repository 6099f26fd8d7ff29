"""Engine that implements `Scorer` and `Writer` for a model on this machine.

Log-probabilities equal those of HFLM in lm-eval 0.4.13 within 0.001. Neither torch nor the model is loaded if all scores
are cached.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from robustify.base.errors import ModelError, ResourceError
from robustify.items.views import Request
from robustify.models.engines.cache import Cache, CachedScores
from robustify.models.engines.local.paths import Paths, Work
from robustify.models.engines.plan import (
    SECTION,
    Encoded,
    Speller,
    as_prompt,
    check_lengths,
    check_room,
    encode,
)
from robustify.models.engines.protocols import Closing, Logprob, Progress, no_progress
from robustify.models.folder import check_folder, file_digests, has_chat_template, read_record
from robustify.models.model_settings import TransformersSettings

VERSION = "hf-2"
"""Version of the engine. It is part of the recipe, so each version has separate scores."""


def recipe(model: TransformersSettings, folder: Path) -> dict[str, str]:
    """Return all properties on which the scores of a model depend: file digests, precision, software, and batch size. If
    the scores change, at least one property has changed. The model is not opened."""
    return {
        "engine": VERSION,
        **file_digests(folder),
        "dtype": model.dtype,
        "device": model.device,
        "threads": str(getattr(model, "threads", None) or _threads()),
        "max_batch_tokens": str(model.budget),
        # The default is left out, so that older caches remain valid.
        **({"section": str(model.section)} if model.section != SECTION else {}),
        "torch": version("torch"),
        "transformers": version("transformers"),
    }


def _threads() -> int:
    """Return OMP_NUM_THREADS or, if it is not set, the number of cores available to this process."""
    value = os.environ.get("OMP_NUM_THREADS", "")
    if value.isdigit() and int(value):
        return int(value)
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) or 1


class HF(Closing):
    """Causal language model in a local folder, loaded at the first uncached request and released by `close`. `elsewhere`
    opens the model on other machines. Raise `ModelError` if the folder is refused."""

    def __init__(
        self,
        model: TransformersSettings,
        folder: Path,
        cache: Cache | None = None,
        *,
        elsewhere: Callable[[Mapping[str, str]], Work] | None = None,
    ) -> None:
        check_folder(folder)
        self.name = model.name
        self._model, self._folder, self._elsewhere = model, folder, elsewhere
        self._recipe = recipe(model, folder)
        self._kept = CachedScores(cache, self._recipe, model.name)
        self._work: Work | None = None
        self._paths: Paths | None = None

    @cached_property
    def speller(self) -> Speller:
        """Tokenizer of the model, which is loaded together with the model."""
        return Speller(self.open_model().tokenizer)

    @property
    def path(self) -> str:
        """Scoring path with which the scores were computed (`trees` or `rows`), or `untried` if there are no scores."""
        return (self._paths.path if self._paths else self._kept.path) or "untried"

    def close(self) -> None:
        """Release the memory of the model. Further calls do nothing."""
        work, self._work, self._paths = self._work, None, None
        if work is not None:
            work.close()

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        """Return one log-probability per request. Identical requests are computed once. Raise the errors of `Scorer`."""
        if (cached := self._kept.known_texts(requests)) is not None:
            progress(len(requests))
            return cached
        encoded = encode(self.speller, requests)
        # The last token is predicted but not read.
        check_lengths(encoded, self.name, self.open_model().max_length + 1)
        counts = Counter(encoded)
        scores = self._kept.known(counts)
        progress(sum(counts[request] for request in scores))
        if len(scores) < len(counts):
            for fresh in self._compute(list(counts), frozenset(scores)):
                progress(sum(counts[request] for request in fresh if request not in scores))
                scores |= fresh
        self._kept.keep_texts(requests, encoded)
        return [scores[request] for request in encoded]

    def fingerprint(self) -> dict[str, str]:
        """Return the recipe of the scores, their scoring path, and the license of the model."""
        record = read_record(self._folder)
        licence = record.licence if record else "see the model's own files"
        return {**self._recipe, "path": self.path, "licence": licence}

    @property
    def has_chat_template(self) -> bool:
        """Whether `write` wraps prompts in a chat template."""
        return has_chat_template(self._folder)

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """Return one reply per prompt, in order. Raise `DataError` if prompts leave no room for a reply."""
        work = self.open_model()
        encoded = [as_prompt(work.tokenizer, self.name, prompt) for prompt in prompts]
        check_room(encoded, self.name, max_tokens, work.max_length)
        return work.replies(encoded, max_tokens)

    def open_model(self) -> Work:
        """Return the model, after loading it if necessary."""
        if self._work is None:
            from robustify.models.engines.local.model import Local

            if self._elsewhere is not None:
                self._work = self._elsewhere(self._recipe)
            else:
                self._work = Local(self._folder, self._model.device, self._model.dtype, _threads())
        return self._work

    def _compute(
        self, requests: Sequence[Encoded], cached: frozenset[Encoded]
    ) -> Iterator[Mapping[Encoded, Logprob]]:
        """Score the requests that are not `cached`, and yield the stored scores of each batch."""
        from robustify.models.engines.local.loading import is_out_of_memory

        paths = self._paths = self._paths or Paths(self.open_model(), self._kept.path, self._model.section)
        budget = self._model.budget
        try:
            for fresh in paths.score(requests, cached, budget):
                if not all(-float("inf") < total <= 1e-3 for total in fresh.values()):
                    raise ModelError(
                        f"{self.name}: the model returned a log-probability that is NaN, infinite, or above 0. Its "
                        "weights are damaged, or its precision is too low.",
                        code="invalid-log-probability",
                    )
                # Store the path before the scores, because another run that finds all scores also needs the path.
                self._kept.path = paths.path
                yield self._kept.keep({r: Logprob(t, len(r.continuation)) for r, t in fresh.items()})
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise ResourceError(
                f"{self.name}: a batch of {budget:,} tokens does not fit into memory. Set `max_batch_tokens: "
                f"{budget // 2}` for this model in the config, or use a smaller model or dtype bfloat16.",
                code="batch-out-of-memory",
            ) from None
