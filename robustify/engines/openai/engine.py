"""A model behind an OpenAI-compatible server, behind the `Scorer` and `Writer` protocols.

No item is sent before the server's numbers have been held against each other. What the score cache holds is not asked
again; when a server fails for good, what it has scored is kept and nothing partial is handed on as whole. The weights of
such a model are not known here, and its fingerprint says so.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from robustify.engines.cache import Cache, Kept
from robustify.engines.openai.capabilities import Found, shake_hands
from robustify.engines.openai.chat import Chat
from robustify.engines.openai.client import Client, Json, Unreachable
from robustify.engines.openai.questions import Questions
from robustify.engines.openai.scoring import Job, Scored, Scoring, Unfit, jobs_of, keys_of
from robustify.engines.openai.settings import Asked, OpenAIModel
from robustify.engines.openai.thread_pool import ThreadPool
from robustify.engines.openai.views import require_views
from robustify.engines.plan import Encoded
from robustify.engines.protocols import Logprob, Progress, no_progress
from robustify.engines.spelling import Spelling, spelling
from robustify.errors import ModelError, RequestError
from robustify.views import Request

VERSION = "openai-1"
"""Of the engine: another one is another recipe, whose scores are kept apart."""
UNKNOWN = "unknown (remote)"
FIRST_TRIES = 2
"""Further tries of the first contact: an address that is wrong should be told soon."""
_SAME_PROBE = 0.2


class OpenAIServer:
    """One model at one server. Nothing is sent before the first request or `fingerprint`.

    Raises:
        ModelError: the openai package or the tokenizer is missing.
        UsageError: the environment variable with the key is not set.
    """

    def __init__(self, model: OpenAIModel, folder: Path, cache: Cache | None = None) -> None:
        self.name = model.name
        self._model = model
        self._client = Client(model)
        self._questions = Questions(self._client)
        self._spelling: Spelling | None = spelling(model.tokenizer, folder) if model.tokenizer else None
        self._cache = cache
        self._found: Found | None = None
        self._recipe: dict[str, str] = {}
        self._chat: Chat | None = None

    def __enter__(self) -> "OpenAIServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OpenAIServer({self.name!r})"

    @property
    def has_chat_template(self) -> bool:
        """Whether prompts go through the server's chat template."""
        return self._writer().is_chat

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def usage(self) -> Json:
        """What was sent, what the server counted, and what it costs by the config's prices."""
        return self._client.usage.as_log(self._model)

    def found(self) -> Found:
        """What the server can be asked; the handshake is made once.

        Raises:
            ModelError: as `shake_hands`.
        """
        if self._found is None:
            self._found = shake_hands(self._questions, self._spelling.speller if self._spelling else None)
            self._recipe = self._known_again(self._found)
        return self._found

    def fingerprint(self) -> dict[str, str]:
        """What the numbers depend on, as far as a server tells; `probe` is the model's log-probabilities of a harmless
        text, by which it is known again."""
        self.found()
        return {**self._recipe, "licence": "see the model's provider"}

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        """One result for each request, in the order of the requests; equal requests are asked once.

        Raises:
            RequestError: requests that the server cannot take, by their positions.
            ModelError: a server that fails for good, or sends what is no log-probability; what was scored is kept.
        """
        found = self.found()
        by_tokens = self._spelling if found.form is not None else None
        keys = keys_of(requests, by_tokens.speller if by_tokens else None)
        asked, kept = Counter(keys), Kept(self._cache, self._recipe, self.name)
        known = kept.known(asked)
        progress(sum(asked[key] for key in known))
        # All jobs are planned from all requests, so that a resumed run asks as the first one would have.
        jobs = [job for job in jobs_of(requests, keys) if any(one.key not in known for one in job.wanted)]
        if found.form is None and (not found.top or not all(job.letters for job in jobs)):
            raise ModelError(
                f"{self.name}: its server tells no log-probabilities of a prompt; expected letters alone"
            )
        scoring = Scoring(self._questions, found, by_tokens is not None)
        _refuse({key: why for job in jobs for key, why in scoring.unfit(job).items()}, keys)
        unfit: dict[Encoded, str] = {}
        pool: ThreadPool[Job, Scored] = ThreadPool(scoring, self._model.concurrency, self._client.give_up)
        try:
            for batch in pool.done(jobs):
                fresh = {key: value for scored in batch for key, value in scored.items() if key not in known}
                unfit |= {key: value.why for key, value in fresh.items() if isinstance(value, Unfit)}
                known |= kept.keep({k: v for k, v in fresh.items() if isinstance(v, Logprob)})
                progress(sum(asked[key] for key in fresh))
        except ModelError as error:
            raise self._broken_off(error, len(asked), len(known)) from None
        _refuse(unfit, keys)
        return [known[key] for key in keys]

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """One reply for each prompt, in their order, the likeliest where the server can do without drawing.

        Raises:
            DataError: prompts that do not fit, named by their positions.
            ModelError: a server that cannot write, or fails for good.
        """
        return self._writer().write(prompts, max_tokens=max_tokens)

    def _writer(self) -> Chat:
        if self._chat is None:
            self._chat = Chat.opened(self._client)
        return self._chat

    def _broken_off(self, error: ModelError, n: int, done: int) -> ModelError:
        usage = self._client.usage
        kept = (
            f"{done:,} are kept, and the same command goes on from there" if self._cache else "none is kept"
        )
        last = f"{self.name}: {n - done:,} of {n:,} requests are left; {kept} ({usage.tokens_in:,} tokens were sent)"
        return type(error)(*error.lines, last)

    def _known_again(self, found: Found) -> dict[str, str]:
        """The recipe of this server's scores.

        Two servers may give one name to two models, and one server another model the next day. So scores are kept by
        the probe too: by the first one that was kept, where this one is the same but for rounding.
        """
        recipe = _recipe(self._model, found, self._spelling)
        for n in range(1000):
            place = Kept(self._cache, {**recipe, "variant": str(n)}, self.name)
            before = place.path
            if before is None:
                place.path = before = " ".join(f"{number:.4f}" for number in found.probe) or "none"
            if is_same_probe(before, found.probe):
                return {**recipe, "variant": str(n), "probe": before}
        raise ModelError(f"{self.name}: its server serves another model every time; expected one")


def check_server(model: OpenAIModel, cache: Path, told: Sequence[Asked]) -> dict[str, str]:
    """Make sure that the server answers, that its numbers hold and that it can serve these templates.

    What says which model it is.

    Raises:
        UsageError: views that it cannot serve, by name; or the environment variable with the key is not set.
        ModelError: no answer, another model, or numbers that cannot be used.
    """
    soon = model.model_copy(update={"retries": min(model.retries, FIRST_TRIES)})
    with OpenAIServer(soon, cache) as server:
        try:
            found = server.found()
        except Unreachable as error:
            raise Unreachable(
                f"{error.lines[0]}; expected an OpenAI-compatible server at its base_url"
            ) from None
        require_views(model.name, found, told)
        return server.fingerprint()


def _refuse(unfit: Mapping[Encoded, str], keys: Sequence[Encoded]) -> None:
    faults = {i: unfit[key] for i, key in enumerate(keys) if key in unfit}
    if faults:
        raise RequestError.of(faults)


def is_same_probe(before: str, probe: Sequence[float]) -> bool:
    """Whether log-probabilities are those that were written down before, but for what half precision wanders."""
    numbers = [] if before == "none" else [float(number) for number in before.split()]
    pairs = list(zip(numbers, probe, strict=False))
    return len(numbers) == len(probe) and all(abs(a - b) <= _SAME_PROBE for a, b in pairs)


def _recipe(model: OpenAIModel, found: Found, spelled: Spelling | None) -> Mapping[str, str]:
    by_tokens = spelled if found.form is not None else None
    return {
        "engine": VERSION,
        "model": found.base,
        "served_as": model.served,
        "answers_as": model.pin or model.served,
        "weights": UNKNOWN,
        "dtype": UNKNOWN,
        "scores": found.form or f"the {found.top} likeliest next tokens",
        "letters": f"next tokens, {found.top} shown",
        "tokenizer": f"sent as tokens ({by_tokens.digest[:16]})" if by_tokens else "the server's",
    }
