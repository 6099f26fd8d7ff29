"""Check that a server reads whole prompts, because some cut long ones without an error."""

import math
import secrets
import threading
from collections.abc import Callable

from robustify.models.engines.openai.client import Client, Json, count_in
from robustify.models.engines.openai.refusals import Refusal

Check = Callable[[str, Json], None]
"""Check of a prompt and the server's reply to it."""
TEXT = "The capital of France is Paris, and the capital of Italy is"
_SEAM = 8
"""Number of tokens by which the parts of a text may differ from the whole, because tokens merge where it is cut."""
_WHOLE = 2**53
"""Number of tokens for a server that refuses long prompts instead of cutting them, or does not count."""


class Reach:
    """Thread-safe check of the prompts that have more tokens than a server is known to read.

    `spelled` raises an error if the tokens of a prompt do not spell it. Without it, a prompt must have about as many tokens
    as its two halves together, as counted in the replies that `send` returns. Each begins with a new number, because some
    servers do not count tokens that they have cached. A server that counts nothing cannot be checked.
    """

    def __init__(
        self, client: Client, spelled: Callable[[str], object] | None, send: Callable[[str], Json]
    ) -> None:
        self._client, self._spelled, self._send = client, spelled, send
        self._read = 0
        self._lock = threading.Lock()

    def check(self, prompt: str, reply: Json) -> None:
        """Check a prompt whose reply counts more tokens than the server is known to read. Raise `ModelError` if the prompt
        was cut."""
        n = count_in(reply, "prompt_tokens")
        with self._lock:
            if n < self._read:
                return
            if self._spelled is not None:
                self._spelled(prompt)
            read = n + 1 if self._spelled is not None or not n else self._added(prompt)
            # Some servers report the same count for every prompt.
            self._read = max(read, self._read + 1)

    def _added(self, prompt: str) -> int:
        middle = prompt.find(" ", len(prompt) // 2) % (len(prompt) + 1)
        number = secrets.randbelow(8000) + 1000
        texts = ("", prompt[:middle], prompt[middle:], prompt)
        try:
            # The lead is longer than `_SEAM`, so that the loss shows even if the prompt is a single token too long.
            replies = [self._send(f"{number + i}. {TEXT}. {TEXT}.\n\n{text}") for i, text in enumerate(texts)]
        except Refusal:
            return _WHOLE
        lead, first, second, whole = (count_in(reply, "prompt_tokens") for reply in replies)
        # Counts that are rounded to a multiple of this number are off by up to twice as much.
        grain = math.gcd(lead, first, second, whole)
        if whole + max(_SEAM, 2 * grain) < first + second - lead:
            raise self._client.fault(
                f"cuts long prompts: it read {whole:,} tokens of a prompt that has {first + second - lead:,} or more. Give "
                "it a longer context (such as `num_ctx`), or use fewer shots."
            )
        return whole or _WHOLE
