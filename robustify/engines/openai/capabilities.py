"""The capability probe: what a server can be asked, by a harmless text before any item; and whether its numbers hold.

Some servers shift an echo by one token, leave it out or ignore it, and some cut prompts in silence. So the server's own
next-token log-probabilities are compared with those that it gives for the same token in a prompt. A server whose two
answers differ, or that serves another model than it was asked for, is refused.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from robustify.engines.openai.client import Refusal, is_name, shown_name
from robustify.engines.openai.logprobs import PART, Form, Questions, Token, covers
from robustify.engines.openai.replies import ByChat, find_way
from robustify.errors import UsageError
from robustify.views import Template

TEXT = "The capital of France is Paris, and the capital of Italy is"
LETTERS = (
    "The following are multiple choice questions (with answers).\n\n"
    "Which of these is a colour?\nA. seven\nB. red\nC. slowly\nD. under\nAnswer:"
)
TOLERANCE = 0.25
"""Nats between two computations of one log-probability at one server: half precision wanders, a shift is off by more."""
TOPS = (20, 5)
"""How many likely tokens are asked for: what most servers give at most, and what OpenAI's completions do."""
_FORMS: tuple[Form, ...] = ("prompt_logprobs", "echo")
_CHECKED, _LEAST = 3, 2
"""Tokens that are compared, where the server shows as many that can be."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """How a server can be asked.

    `form`: in which it shows the log-probabilities of a prompt, None if it does not. `top`: how many likely next tokens it
    shows. `base`: what it says the model is. `probe`: log-probabilities of the harmless text, by which the model is
    recognised. `chat`: how it is asked for letters without log-probabilities.
    """

    form: Form | None
    top: int
    base: str
    probe: tuple[float, ...]
    chat: ByChat | None = None

    def require(self, name: str, templates: Sequence[Template]) -> None:
        """Refuse templates that this server cannot serve.
        Raises `UsageError`: the views with their templates, why, and the `asking` that can be served."""
        refused = [t for t in templates if not self._serves(t)]
        if not refused:
            return
        named = ", ".join(f"{t.view} ({t.name})" for t in refused)
        if self.top:
            why = f"log-probabilities of the {self.top} likeliest next tokens and of no prompt"
        else:
            why = "no log-probabilities"
        mend = "`asking: {mode: letter, views: [choices_only, full]}`"
        if not self.top and self.chat is None:
            mend = "a server of completions with log-probabilities, or a chat that answers with a letter"
        raise UsageError(f"{name}: its server shows {why}: it cannot serve {named}; expected {mend}")

    def _serves(self, template: Template) -> bool:
        if self.form is not None:
            return True
        if self.chat is not None:
            return template.by_letter
        # One token is shown, so the letter must be one: `(A` is two.
        letter = template.continuation.render(letter="A", choice="") if template.by_letter else ""
        return bool(self.top) and len(letter.strip()) == 1


def probe_server(questions: Questions) -> Capabilities:
    """Return what the server can be asked. Raises `ModelError`: another model, or numbers that cannot be used."""
    base = _listed(questions)
    sampled = questions.client.model.samples is not None
    form, tokens = (None, ()) if sampled else _form(questions)
    top, likely = (0, {}) if sampled else _likely(questions)
    if form is None and not top:
        return Capabilities(None, 0, base, (), find_way(questions.client, LETTERS, "ABCD"))
    if form is None:
        seen = questions.following(LETTERS, top) or {}
        if not {" A", " B", " C", " D"} & set(seen):
            raise questions.client.fault(
                f"shows {len(seen)} likely tokens and no letter among them where one is asked for; expected ` A`"
            )
        return Capabilities(None, top, base, tuple(sorted(seen.values(), reverse=True)[:5]))
    _check_consistency(questions, form, tokens, likely)
    logprobs = tuple(t.logprob for t in tokens if t.logprob is not None)
    return Capabilities(form, top, base, logprobs)


def _listed(questions: Questions) -> str:
    """Return what the server says that the model is."""
    client, served = questions.client, questions.client.model.served
    try:
        data = client.models().get("data")
    except Refusal:
        return served
    entries = [e for e in data if isinstance(e, dict)] if isinstance(data, list) else []
    mine: Mapping[str, Any] | None = next((e for e in entries if e.get("id") == served), None)
    if mine is None:
        listed = ", ".join(shown_name(e.get("id")) for e in entries[:10]) or "none"
        raise client.fault(f"lists no model {served!r}; found {listed} (`model: ID`)")
    root = str(mine.get("root") or "")
    # A path says where the files lie; its last part is the model's name.
    named = PurePath(root).name if PurePath(root).is_absolute() else root
    return named if is_name(named) else served


def _form(questions: Questions) -> tuple[Form | None, Sequence[Token]]:
    for form in _FORMS:
        try:
            tokens = questions.prompt(TEXT, form)
        except Refusal:
            continue
        # Only what it wrote itself: the prompt's tokens are left out.
        if not tokens or (len(tokens) == 1 and form == "echo"):
            continue
        if not covers(tokens, TEXT):
            raise questions.client.fault(
                f"tells of {len(tokens)} tokens that are not those of the prompt ({len(TEXT)} characters); expected all "
                "of it: prompts are cut or changed"
            )
        return form, tokens
    return None, ()


def _likely(questions: Questions) -> tuple[int, Mapping[str, float]]:
    for top in TOPS:
        try:
            seen = questions.following(TEXT, top)
        except Refusal:
            continue
        if not seen:
            return 0, {}
        if sum(map(math.exp, seen.values())) > 1.01:
            raise questions.client.fault(
                "gives its likeliest tokens a probability of more than 1 together; expected natural logarithms"
            )
        return top, seen
    return 0, {}


def _check_consistency(
    questions: Questions, form: Form, alone: Sequence[Token], likely: Mapping[str, float]
) -> None:
    """Check that the log-probability of a likely next token is that of the same token once it is in the prompt."""
    checked = 0
    for text, own in sorted(likely.items(), key=lambda pair: -pair[1]):
        tokens = questions.prompt(TEXT + text, form) if text.strip() and PART not in text else None
        # Otherwise the token has grown together with what is before it.
        if not tokens or [t.text for t in tokens] != [*(t.text for t in alone), text]:
            continue
        claimed = tokens[-1].logprob
        if claimed is None or abs(claimed - own) > TOLERANCE:
            given = "nothing" if claimed is None else f"{claimed:.2f}"
            raise questions.client.fault(
                f"gives {given} to a token of the prompt ({form}), and {own:.2f} as the next one; expected "
                f"the same within {TOLERANCE:g}: its prompt log-probabilities are shifted or scaled and cannot be used"
            )
        checked += 1
        if checked == _CHECKED:
            return
    if checked < _LEAST:
        raise questions.client.fault(
            f"tells log-probabilities of a prompt, and {len(likely)} likely next tokens to compare them with; expected at "
            f"least {_LEAST} that can be compared"
        )
