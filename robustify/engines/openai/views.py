"""Which views a server can serve, said by name before the first item is asked."""

from collections.abc import Sequence

from robustify.engines.openai.capabilities import Found
from robustify.engines.openai.settings import Asked
from robustify.errors import UsageError


def require_views(name: str, found: Found, told: Sequence[Asked]) -> None:
    """Refuse templates that this server cannot serve.

    Raises:
        UsageError: the views with their templates, why, and the `asking` that can be served.
    """
    lost = [words for words in told if not _serves(found, words)]
    if not lost:
        return
    kept = list(dict.fromkeys(words.view for words in told if words not in lost))
    named = ", ".join(f"{words.view} ({words.name})" for words in lost)
    mend = (
        f"expected `asking: {{views: [{', '.join(kept)}]}}`"
        if kept
        else "expected a server of completions with log-probabilities; this one can only write (`robustify free generate`)"
    )
    raise UsageError(f"{name}: its server {_why(found)}: it cannot serve {named}; {mend}")


def _serves(found: Found, words: Asked) -> bool:
    if found.form is not None:
        return True
    # One token is shown, so the letter must be one: `(A` is two.
    letter = words.continuation.render(letter="A", choice="") if words.by_letter else ""
    return bool(found.top) and len(letter.strip()) == 1


def _why(found: Found) -> str:
    if found.top:
        return f"tells log-probabilities of the {found.top} likeliest next tokens and of no prompt"
    return "tells no log-probabilities"
