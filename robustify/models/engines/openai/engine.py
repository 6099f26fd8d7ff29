"""Engine that implements `Scorer` and `Writer` for a model on an OpenAI-compatible server.

The server's numbers are checked before any item is sent. If it keeps failing, finished scores are kept, but no partial
result is returned.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from robustify.base.errors import DataError, ModelError, Notice, RequestError
from robustify.items.views import BY_CHAT, Request
from robustify.models.engines.cache import Cache, CachedScores
from robustify.models.engines.openai.capabilities import SAME, Capabilities
from robustify.models.engines.openai.jobs import TOO_LONG, Job, Scored, jobs_of, keys_of, one_letter
from robustify.models.engines.openai.letters import letter_of, sampled_keys
from robustify.models.engines.openai.probes import ENDED, PROBES, RESUMED, ProbeError, are_alike
from robustify.models.engines.openai.servers import Servers
from robustify.models.engines.plan import Encoded
from robustify.models.engines.protocols import Logprob, Progress, no_progress
from robustify.models.model_settings import DEFAULT_SAMPLES, OpenAIModel

VERSION = "openai-1"
"""Version of the engine. It is part of the recipe, so each version has separate scores."""
UNKNOWN = "unknown (remote)"
_UNPROBED, _SPOILT = "none", "spoilt"
"""Marks of scores without a probe, and of scores that a probe at the end of their session rejected."""
_PROBED, _MOST, _SECONDS = 8, 128, 5.0
"""Number of jobs between two probes at first, and at most as it doubles, and the intended seconds between them."""


class OpenAIServer(Servers):
    """Model on one or several servers. Nothing is sent before the first request or call of `fingerprint`. Raise the errors
    of `Client`."""

    def __init__(self, model: OpenAIModel, cache: Cache | None = None) -> None:
        super().__init__(model)
        self.name, self._cache = model.name, cache
        self._tastes, self._is_identified = "", False

    def fingerprint(self) -> dict[str, str]:
        """Return the properties on which scores depend, if the server reports them. `probe` contains log-probabilities of a
        harmless text, which identify the model."""
        return {**self._recipe, "licence": "see the model's provider"}

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        """Return one log-probability per request. Identical requests are sent only once. Raise `RequestError` if requests
        do not fit or cannot be scored, and `ModelError` if the server keeps failing or returns unusable numbers."""
        can = self.capabilities
        keys = sampled_keys(requests) if can.chat else keys_of(requests)
        counts = Counter(keys)
        cache, scores = self._stored(counts)
        progress(sum(counts[key] for key in scores))
        if can.chat and not scores.keys() >= counts.keys() and not self._is_identified:
            self._identify()
            cache, scores = self._stored(counts)
        # Jobs are planned from all requests, so that a resumed run sends the same requests as an uninterrupted one.
        planned = jobs_of(requests, keys, letter_of if can.chat else one_letter)
        jobs = [job for job in planned if not scores.keys() >= job.continuations.keys()]
        if can.form is None and (not (can.top or can.chat) or not all(job.letters for job in jobs)):
            raise self.living[0].client.fault(
                "returns no prompt log-probabilities, so only letters can be scored", code="letters-only"
            )
        longest = max((job.context for job in jobs), key=len, default="")
        if jobs:
            self.each(lambda server: server.probe(PROBES["before the first item"], longest))
        unfit: dict[Encoded, str] = {}
        try:
            for scored in self._verified(jobs):
                fresh = {key: value for key, value in scored.items() if key not in scores}
                unfit |= {key: reason for key, reason in fresh.items() if isinstance(reason, str)}
                scores |= cache.keep({key: lp for key, lp in fresh.items() if isinstance(lp, Logprob)})
                progress(sum(counts[key] for key in fresh))
        except ModelError as error:
            # Equal requests count as often as they are asked, as in the forecast and in progress.
            error.lines += (self._remaining(len(keys), sum(counts[key] for key in scores)),)
            error.args = ("\n".join(error.lines),)
            raise
        if jobs:
            try:
                self.each(lambda server: server.probe(PROBES["after the last item"], longest))
            except ProbeError:
                # Nobody knows which scores are wrong, so none is used again.
                recipe = {name: value for name, value in self._recipe.items() if name != "probe"}
                CachedScores(self._cache, recipe, self.name).path = _SPOILT
                raise
        if unfit:
            raise RequestError.of({i: unfit[key] for i, key in enumerate(keys) if key in unfit})
        return [scores[key] for key in keys]

    def _remaining(self, n_requests: int, n_done: int) -> Notice:
        cached = f"{n_done:,} are cached, so the same command continues from there"
        return Notice(
            f"{self.name}: {n_requests - n_done:,} of {n_requests:,} requests remain; "
            f"{cached if self._cache else 'none are cached'} ({self.usage()['tokens_in']:,} tokens were sent)",
            code="remaining-requests",
        )

    def _verified(self, jobs: Sequence[Job]) -> Iterator[Scored]:
        """Run the jobs in parts, and yield the results of a part if a later probe finds the same model. The first job is
        run alone on each server, and nothing else is asked during a probe."""
        can, start, size = self.capabilities, 0, 1
        if jobs and len(self.living) > 1:
            self.each(lambda server: server.score(jobs[0]))
        while start < len(jobs):
            began, part = time.monotonic(), jobs[start : start + size]
            results = self.run(lambda server, job: server.score(job), part, self.verify)
            yield {key: value for _, scored in results for key, value in scored.items()}
            start += len(part)
            in_time = int(size * _SECONDS / max(time.monotonic() - began, 1e-3))
            size = max(_PROBED, min(2 * size, in_time, _MOST if can.probe else _PROBED))

    @property
    def has_chat_template(self) -> bool:
        """Whether prompts go through the server's chat template."""
        return self.least_busy(lambda server: server.writing)[1][0] == "chat"

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """Return one reply per prompt, in order. The reply is empty if a filter blocks the prompt. Raise `DataError` if
        prompts do not fit, and `ModelError` if the server keeps failing, cuts prompts, has a different model than at first,
        or cannot generate text."""
        places = range(len(prompts))
        replies = dict(self.run(lambda server, i: server.write(prompts[i], max_tokens), places, self.verify))
        if unfit := [i for i in places if replies[i] is None]:
            raise DataError.gather([Notice(f"prompt {i}: {TOO_LONG}", code=TOO_LONG.code) for i in unfit])
        return [reply for _, reply in sorted(replies.items()) if reply is not None]

    def _stored(self, keys: Iterable[Encoded]) -> tuple[CachedScores, dict[Encoded, Logprob]]:
        cache = CachedScores(self._cache, self._recipe, self.name)
        return cache, cache.known(keys)

    def _identify(self) -> None:
        """Ask chat servers the questions with many answers, because the replies identify the model. Raise `ModelError` if
        the replies of servers differ."""
        (_, first), *others = self.each(lambda server: (server, server.session.tastes))
        for other, tastes in others:
            if not are_alike(first, tastes, ENDED):
                raise other.client.fault(
                    "answers differently from the first server; expected the same model on all servers of base_urls",
                    code="differing-servers",
                )
        self._tastes, self._is_identified = " ".join(first), True
        del self._recipe

    @cached_property
    def _recipe(self) -> dict[str, str]:
        """Properties of the server and the model that identify their scores in the cache. Because a name may stand for two
        models, scores are also stored by probe: by the first stored probe that equals the current probe except for
        rounding, or, if replies are drawn, except for chance."""
        can = self.capabilities
        for n in range(1000):
            recipe = {**_recipe(self.model, can), "variant": str(n)}
            cache = CachedScores(self._cache, recipe, self.name)
            stored = cache.path
            if stored is None or (stored == _UNPROBED and self._tastes):
                cache.path = stored = (
                    " ".join(f"{number:.4f}" for number in can.probe) or self._tastes or _UNPROBED
                )
            if not can.probe and stored != _SPOILT:
                tastes = [] if stored == _UNPROBED else stored.split()
                if are_alike(tastes, self._tastes.split(), RESUMED):
                    return {**recipe, "probe": _UNPROBED}
            # Each number must agree, because asking again is better than mixing two models.
            elif can.probe:
                numbers = [float(number) for number in stored.split()]
                if len(numbers) == len(can.probe) and all(
                    abs(a - b) <= SAME for a, b in zip(numbers, can.probe, strict=True)
                ):
                    return {**recipe, "probe": stored}
        raise self.living[0].client.fault(
            "seems to serve a different model each time; expected the same model", code="unstable-model"
        )


def _recipe(model: OpenAIModel, can: Capabilities) -> Mapping[str, str]:
    scores = can.form or f"the {can.top} likeliest next tokens, others bounded"
    letters = f"next tokens, {can.top} shown"
    drawn: dict[str, str] = {}
    if can.chat is not None:
        scores, letters = "shares of replies", "structured" if can.chat.structured else "first of a reply"
        drawn = {
            "samples": str(model.samples or DEFAULT_SAMPLES),
            "reply_tokens": str(model.reply_tokens),
            "words": hashlib.sha256(BY_CHAT.encode()).hexdigest()[:16],
        }
    return {
        "engine": VERSION,
        "model": can.base,
        "served_as": model.served,
        "answers_as": model.pin or model.served,
        "weights": UNKNOWN,
        "dtype": UNKNOWN,
        "scores": scores,
        "letters": letters,
        **drawn,
        "tokenizer": "the server's",
    }
