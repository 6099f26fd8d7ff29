"""A model run here with transformers, behind the `Scorer` and `Writer` protocols.

Log-probabilities are those of lm-eval 0.4.13's HFLM within 1e-3: the same tokens, continuation only, float32
log-softmax. What the score cache holds is not computed again, and then neither torch nor the model is loaded. It
refuses prompts that do not fit and numbers that are no log-probabilities.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from robustify.engines.cache import Cache, Kept
from robustify.engines.local.paths import Scored
from robustify.engines.plan import SECTION, Encoded
from robustify.engines.protocols import Logprob, Progress, no_progress
from robustify.engines.recipe import recipe, tokenizer_key
from robustify.engines.tokens import Saved, Speller, Transformers, encode, save
from robustify.errors import DataError, ModelError, RequestError, ResourceError, UsageError
from robustify.models.folder import check, has_chat_template, read_record
from robustify.views import Request

DTYPES = ("float32", "bfloat16", "float16")
LEAST_TOKENS = 64
"""A batch that does not fit into memory is halved down to this."""


class Opened(Protocol):
    """A model that can be asked now: in this process (`Local`), or on workers (`Remote`)."""

    @property
    def tokenizer(self) -> Any:
        """As transformers loads it."""
        ...

    @property
    def max_length(self) -> int:
        """The model's context in tokens."""
        ...

    @property
    def path(self) -> str:
        """By which path it is scored."""
        ...

    def score(self, requests: Sequence[Encoded], known: frozenset[Encoded], budget: int) -> Iterator[Scored]:
        """See `Paths.score`."""
        ...

    def replies(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str]:
        """What the model says next after each prompt, given in tokens."""
        ...

    def close(self) -> None:
        """Give its memory back."""
        ...


Elsewhere = Callable[[Mapping[str, str], str | None], Opened]
"""Opens a model of this recipe that was scored by this path before, or by none."""


class HF:
    """A causal language model from a local folder, in memory from the first request that is not cached to `close`.

    `device` and `dtype` are torch's names; `max_batch_tokens` bounds the tokens of one forward pass; a section of a
    plan has `section` batches; `n_threads` compute, as many as `recipe.threads` says unless given. `elsewhere` opens
    the model on other machines.

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
        *,
        section: int = SECTION,
        n_threads: int | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        if dtype not in DTYPES:
            raise UsageError(f"dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
        check(folder)
        self.name = name
        self._folder, self._device, self._dtype = folder, device, dtype
        self._budget = max_batch_tokens
        self._section, self._n_threads, self._elsewhere = section, n_threads, elsewhere
        self._cache = cache
        self._recipe = recipe(folder, device, dtype, max_batch_tokens, section=section, n_threads=n_threads)
        self._kept = Kept(cache, self._recipe, name)
        self._opened: Opened | None = None
        self._speller, self.max_length = self._tokens()

    def __enter__(self) -> "HF":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"HF({self.name!r}, {self._device}, {self._dtype})"

    @property
    def path(self) -> str:
        """By which path the numbers were computed."""
        return (self._opened.path if self._opened else self._kept.path) or "untried"

    def close(self) -> None:
        """Give the model's memory back. Closing twice does nothing."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        """One result for each request, in the order of the requests; equal requests are computed once.

        Raises:
            DataError: requests that do not fit into the model's context, named by their positions.
            ModelError: a log-probability that is NaN or infinite.
            ResourceError: not even a small batch fits into memory.
        """
        encoded = encode(self._speller, requests)
        self._check_lengths(encoded)
        asked = Counter(encoded)
        # What is halved is scored again, and told once.
        told: set[Encoded] = set()
        known: dict[Encoded, Logprob] = {}
        for fresh in self._growing(list(asked)):
            known |= fresh
            progress(sum(asked[request] for request in fresh if request not in told))
            told |= fresh.keys()
        return [known[request] for request in encoded]

    def fingerprint(self) -> dict[str, str]:
        """What the numbers depend on, by which path they were computed, and the model's licence."""
        record = read_record(self._folder)
        licence = record.licence if record else "see the model's own files"
        return {**self._recipe, "path": self.path, "licence": licence}

    @property
    def has_chat_template(self) -> bool:
        """Whether `write` puts the model's chat template around a prompt."""
        return has_chat_template(self._folder)

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """One greedy reply for each prompt, through the model's chat template where it has one.

        Raises:
            DataError: prompts that leave no room for the reply, named by their positions.
        """
        from robustify.engines.local.replies import as_prompt

        local = self._loaded()
        encoded = [as_prompt(local.tokenizer, self.name, prompt) for prompt in prompts]
        faults = [
            f"prompt {i}: {len(ids)} tokens and {max_tokens} for the reply; {self.name} takes {self.max_length}"
            for i, ids in enumerate(encoded)
            if len(ids) + max_tokens > self.max_length
        ]
        if faults:
            raise DataError.gather(faults)
        return local.replies(encoded, max_tokens)

    def _growing(self, requests: Sequence[Encoded]) -> Iterator[Mapping[Encoded, Logprob]]:
        """What is known, and then every batch; where batches are halved, all of it again."""
        known = self._kept.known(requests)
        yield known
        while len(known) < len(requests):
            try:
                for fresh in self._loaded().score(requests, frozenset(known), self._budget):
                    self._check_numbers(fresh)
                    # Before its scores: another run may find them all, and must find the path with them.
                    self._keep_path()
                    kept = self._kept.keep({r: Logprob(t, len(r.continuation)) for r, t in fresh.items()})
                    known |= kept
                    yield kept
                break
            except (RuntimeError, MemoryError) as error:
                self._halve(error)
                # Scores of batches of another size differ in their last bits: they are another recipe's.
                known = self._kept.known(requests)
                yield known
        self._keep_path()

    def _keep_path(self) -> None:
        if self._opened is not None and self._kept.path != self._opened.path:
            self._kept.path = self._opened.path

    def _halve(self, error: Exception) -> None:
        from robustify.engines.local.local import is_out_of_memory

        if not is_out_of_memory(error):
            raise error
        if self._budget // 2 < LEAST_TOKENS:
            raise ResourceError(
                f"{self.name}: a batch of {self._budget} tokens does not fit into memory; expected room for it: "
                "use a smaller model, a shorter prompt or dtype bfloat16"
            ) from None
        path = self.path
        self.close()
        self._budget //= 2
        self._recipe |= {"max_batch_tokens": str(self._budget)}
        self._kept = Kept(self._cache, self._recipe, self.name)
        self._loaded(path)

    def _loaded(self, path: str | None = None) -> Opened:
        if self._opened is None:
            self._opened = self._open(path or self._kept.path)
        return self._opened

    def _open(self, path: str | None) -> Opened:
        if self._elsewhere is not None:
            return self._elsewhere(self._recipe, path)
        from robustify.engines.local.local import Local

        return Local(
            self._folder, self._device, self._dtype, path, section=self._section, n_threads=self._n_threads
        )

    def _tokens(self) -> tuple[Speller, int]:
        place = None
        if self._cache is not None:
            place = self._cache.file.parent / "tokenizers" / f"{tokenizer_key(self._recipe)}.json"
            if place.is_file() and self._device == "cpu":
                try:
                    saved = Saved(place)
                    return saved, saved.max_length
                # A damaged file is made again; the tokenizers library raises plain exceptions.
                except Exception:
                    place.unlink(missing_ok=True)
        local = self._loaded()
        if place is not None:
            save(local.tokenizer, local.max_length, place)
        return Transformers(local.tokenizer), local.max_length

    def _check_lengths(self, encoded: Sequence[Encoded]) -> None:
        faults = {
            i: f"{len(e.context)} tokens of context and {len(e.continuation)} of continuation;"
            f" {self.name} takes {self.max_length + 1} together; use a model with a longer context, or fewer shots"
            for i, e in enumerate(encoded)
            if len(e.row) > self.max_length
        }
        if faults:
            raise RequestError.of(faults)

    def _check_numbers(self, fresh: Mapping[Any, float]) -> None:
        if not all(-float("inf") < total <= 1e-3 for total in fresh.values()):
            raise ModelError(
                f"{self.name}: gave a log-probability that is NaN, infinite or above 0; expected a number: "
                "its weights are damaged, or its precision is too low"
            )
