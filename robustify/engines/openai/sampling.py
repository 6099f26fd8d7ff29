"""Scores of letters from a server that chats and shows no probability: shares of its replies.

An asking is sent several times, and each letter's share of the replies that can be read stands for its probability, with
half a reply added to each letter's count (Krichevsky and Trofimov 1981), because none in five is not never. A share of few
replies is a noisy number: how many were read goes with it into the answer table, and the judge says how many picks
another drawing would change. A reply that names no letter is no wrong answer; where half of an asking's replies or more
name none, it is unanswered.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from robustify.engines.openai.client import Client, Refusal
from robustify.engines.openai.continuations import TOO_LONG, Job, Scored, Unfit, keys_of
from robustify.engines.openai.replies import ByChat, letter_of, read_letter
from robustify.engines.plan import Encoded
from robustify.engines.protocols import NO_LETTER, Logprob
from robustify.views import Request


@dataclass(frozen=True, slots=True)
class Sampling:
    """Scores of jobs of letters; as `Scoring`."""

    client: Client
    way: ByChat
    samples: int

    def __call__(self, job: Job) -> Scored:
        """The log of each letter's share of the replies, or `NO_LETTER` for all of them.

        Raises:
            ModelError: as the client.
        """
        named = {one.key: str(letter_of(one.continuation)) for one in job.wanted}
        letters = sorted(set(named.values()))
        try:
            replies = self.way.replies(self.client, job.context, letters, self.samples)
        except Refusal as refusal:
            if refusal.too_long:
                return dict.fromkeys(named, Unfit(TOO_LONG))
            # Hosted models refuse questions that their filter stops; others of the same form they answer.
            replies = []
        counts = Counter(letter for reply in replies if (letter := read_letter(reply, letters)))
        n = counts.total()
        if 2 * n <= self.samples:
            return dict.fromkeys(named, NO_LETTER)
        total = n + len(letters) / 2
        return {key: Logprob(math.log((counts[letter] + 0.5) / total), 1, n) for key, letter in named.items()}


def sampled_keys(requests: Sequence[Request]) -> list[Encoded]:
    """By what each share is kept: the text, and the letters of which one was asked for."""
    letters: dict[str, set[str]] = {}
    for request in requests:
        letters.setdefault(request.context, set()).add(letter_of(request.continuation) or "")
    among = ["".join(sorted(letters[request.context])).encode() for request in requests]
    keys = keys_of(requests, None)
    return [Encoded(k.context, (*k.continuation, *b"|", *a)) for k, a in zip(keys, among, strict=True)]
