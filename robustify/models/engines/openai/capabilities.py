"""Probe which requests a server supports, and whether its numbers are consistent.

The probe sends a harmless text before any item. Some servers shift, omit, or ignore an echo, and some cut prompts silently,
so next-token log-probabilities are compared with those of the same tokens in a prompt.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import get_args

from robustify.base.errors import ModelError, UsageError
from robustify.items.views import Template
from robustify.models.engines.openai.client import Client, Refusal, Unreachable, is_name, shown_name
from robustify.models.engines.openai.jobs import TEXT
from robustify.models.engines.openai.letters import LENGTHS, ByChat, find_way
from robustify.models.engines.openai.logprobs import PART, Form, Questions, Token, Unusable, covers

LETTERS = (
    "The following are multiple choice questions (with answers).\n\n"
    "Which of these is a colour?\nA. seven\nB. red\nC. slowly\nD. under\nAnswer:"
)
TOLERANCE = 0.25
"""Allowed difference in nats between two computations of one log-probability. Shifted echoes differ by more."""
SAME = 0.2
"""Allowed mean difference in nats between two probes of one model. Rounding, other batches, and other hardware change a
probe by less than 0.1 on average, even if one unlikely token changes by more. Another model changes most tokens."""
TOPS = (20, 5)
"""Numbers of likely tokens to try: the maximum of most servers, and that of OpenAI's completions."""
_UNKNOWN = "no-such-model"
"""Name under which a server answers only if it ignores names."""
_CHECKED, _LEAST = 3, 2
"""Usual and minimum number of tokens to compare."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Requests that a server supports.

    `form` is its reply format for prompt log-probabilities, if any, `top` its number of likely next tokens, `base` the
    model name that it reports. `probe` has log-probabilities of the harmless text, which identify the model, or of the
    tokens `likely` after it. `chat` is the way to ask for letters without them. `tried` says what was not supported.
    """

    form: Form | None
    top: int
    base: str
    probe: tuple[float, ...]
    chat: ByChat | None = None
    tried: tuple[str, ...] = ()
    likely: Mapping[str, float] = field(default_factory=dict)

    def require(self, name: str, templates: Sequence[Template]) -> None:
        """Check that the server supports these templates. Raise `UsageError` if some views are not supported. The message
        gives the reason, and the `asking` setting that works."""
        views = ", ".join(f"{t.view} ({t.name})" for t in templates if not self._serves(t))
        if not views:
            return
        likely = f"only log-probabilities of the {self.top} most likely next tokens"
        returned = (likely if self.top else "no log-probabilities") + f" ({'; '.join(self.tried)})"
        mend = "`asking: {mode: letter, views: [choices_only, full]}`"
        if not self.top and self.chat is None:
            mend = "a completions server with log-probabilities, or a chat model that answers with a letter"
        raise UsageError(
            f"{name}: the server returns {returned}, so it does not support {views}. Use {mend}.",
            code="unsupported-views",
        )

    def _serves(self, template: Template) -> bool:
        if self.form is not None or self.chat is not None:
            return self.form is not None or template.by_letter
        # The letter must be a single token: `(A` is two.
        letter = template.continuation.render(letter="A", choice="") if template.by_letter else ""
        return bool(self.top) and len(letter.strip()) == 1


def probe_server(questions: Questions) -> Capabilities:
    """Send harmless text to a server, and return the requests that it supports. Raise `ModelError` if the server has
    another model, or its numbers are unusable."""
    client = questions.client
    base = _reported_name(client)
    form, tokens, top, likely = None, list[Token](), 0, dict[str, float]()
    tried: list[str] = []
    if client.model.samples is None:
        form, tokens = _form(questions, tried)
        top, likely = _likely(questions, tried)
    if form is not None:
        _check_consistency(questions, form, tokens, likely)
        return Capabilities(form, top, base, tuple(t.logprob for t in tokens if t.logprob is not None))
    if not top:
        way = find_way(client, LETTERS, "ABCD")
        if way is None and not client.answered:
            # Where every request was refused, the refusal of a plain one names the cause.
            client.chat({"messages": [{"role": "user", "content": TEXT}]})
        return Capabilities(None, 0, base, (), way, (*tried, "chat: no reply names a letter"))
    letters = questions.following(LETTERS, top) or {}
    if not {" A", " B", " C", " D"} & set(letters):
        raise client.fault(
            f"returned {len(letters)} likely tokens for a question with lettered options, but no letter such as ` A`",
            code="no-letter-tokens",
        )
    best = dict(sorted(letters.items(), key=lambda pair: -pair[1])[:5])
    return Capabilities(None, top, base, tuple(best.values()), tried=tuple(tried), likely=best)


def require_same(questions: Questions, can: Capabilities) -> None:
    """Check that two further probes find the same model. Two are needed, because servers that take turns may have different
    models. Raise `ModelError` if a probe differs. Without log-probabilities, models cannot be distinguished."""
    for probe in (_probe_again(questions, can), _probe_again(questions, can)):
        distance = math.fsum(abs(a - b) for a, b in zip(can.probe, probe, strict=False)) / max(1, len(probe))
        if len(probe) != len(can.probe) or distance > SAME:
            raise questions.client.fault(
                "serves a different model than at the start of the run: its log-probabilities of a harmless text differ by "
                f"{distance:.2f} nats on average (allowed: {SAME:g}). Serve one model under this name, and run the same "
                "command again.",
                code="changed-model",
            )


def _probe_again(questions: Questions, can: Capabilities) -> tuple[float, ...]:
    if can.form is not None:
        tokens = questions.spelled(TEXT, can.form)
        return tuple(t.logprob for t in tokens if t.logprob is not None)
    listed = questions.following(LETTERS, can.top) if can.top else None
    # A token that is no longer listed has at most the least probability listed.
    return tuple(listed.get(token, min(listed.values())) for token in can.likely) if listed else can.probe


def _reported_name(client: Client) -> str:
    served = client.model.served
    try:
        data = client.models().get("data")
    except Unreachable as error:
        if error.status not in (500, 501):
            raise
        return served
    except ModelError:
        # Some keys may ask models, but not list them. An invalid key is refused again by the probe.
        return served
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    own_entry = next((entry for entry in entries if entry.get("id") == served), None)
    if own_entry is None and _answers(client, served) and not _answers(client, _UNKNOWN):
        return served
    if own_entry is None:
        listed = ", ".join(shown_name(entry.get("id")) for entry in entries[:10]) or "none"
        raise client.fault(
            f"does not list the model {served!r}; found {listed}. Set `model: ID` to a listed model.",
            code="unlisted-model",
        )
    root = str(own_entry.get("root") or "")
    # If the root is a path, its last part is the name of the model.
    name = PurePath(root).name if PurePath(root).is_absolute() else root
    return name if is_name(name) else served


def _answers(client: Client, name: str) -> bool:
    """Return whether the server replies under this model name. Some reply under unlisted names, or under any name."""
    client.answered = False
    with suppress(ModelError):
        client.completions({"model": name, "prompt": TEXT, "max_tokens": 1})
    for length in LENGTHS:
        with suppress(ModelError):
            client.chat({"model": name, "messages": [{"role": "user", "content": TEXT}], length: 16})
    return client.answered


def _form(questions: Questions, tried: list[str]) -> tuple[Form | None, list[Token]]:
    for form in get_args(Form):
        try:
            tokens = questions.prompt(TEXT, form)
        except Unusable as error:
            tried.append(f"{form}: {str(error).partition('the server ')[2]}")
            continue
        except (Refusal, Unreachable) as error:
            # Some servers break at a field that they do not support.
            if isinstance(error, Unreachable) and error.status not in (500, 501):
                raise
            tried.append(f"{form}: status {error.status}")
            continue
        # The reply contains only the generated token, not the tokens of the prompt.
        if not tokens or (len(tokens) == 1 and form == "echo"):
            tried.append(f"{form}: ignored")
            continue
        _require_texts(questions, [token.text for token in tokens])
        if not covers(tokens, TEXT):
            raise questions.client.fault(
                f"returned {len(tokens)} tokens that do not spell the prompt ({len(TEXT)} characters). The server "
                "shortens or changes prompts.",
                code="changed-prompt",
            )
        return form, tokens
    return None, []


def _likely(questions: Questions, tried: list[str]) -> tuple[int, dict[str, float]]:
    for top in TOPS:
        try:
            likely = questions.following(TEXT, top)
        except Refusal as refusal:
            tried.append(f"logprobs {top}: status {refusal.status}")
            continue
        _require_texts(questions, likely or ())
        if likely and sum(map(math.exp, likely.values())) > 1.01:
            raise questions.client.fault(
                "returned likely tokens whose probabilities sum to more than 1; expected natural logarithms",
                code="impossible-probabilities",
            )
        if likely:
            return top, likely
        tried.append(f"logprobs {top}: ignored")
    return 0, {}


def _require_texts(questions: Questions, tokens: Collection[str]) -> None:
    if tokens and all(re.fullmatch(r"(token_id:)?[0-9]+", token) for token in tokens if token):
        raise questions.client.fault(
            "returns tokens as IDs instead of texts. Start vLLM without `--return-tokens-as-token-ids`.",
            code="token-ids",
        )


def _check_consistency(
    questions: Questions, form: Form, probe_tokens: Sequence[Token], likely: Mapping[str, float]
) -> None:
    """Check that a likely next token gets the same log-probability when it is part of the prompt."""
    n_checked = 0
    for text, own in sorted(likely.items(), key=lambda pair: -pair[1]):
        tokens = questions.prompt(TEXT + text, form) if text.strip() and PART not in text else None
        # Otherwise, the token has merged with the preceding text.
        if not tokens or [t.text for t in tokens] != [*(t.text for t in probe_tokens), text]:
            continue
        claimed = tokens[-1].logprob
        if claimed is None or abs(claimed - own) > TOLERANCE:
            returned = "nothing" if claimed is None else f"{claimed:.2f}"
            raise questions.client.fault(
                f"returned {returned} for a token of the prompt ({form}), but {own:.2f} for the same token as the next one "
                f"(allowed difference: {TOLERANCE:g}). Its prompt log-probabilities are shifted or scaled and cannot "
                "be used.",
                code="shifted-log-probabilities",
            )
        n_checked += 1
        if n_checked == _CHECKED:
            return
    if n_checked < _LEAST:
        raise questions.client.fault(
            f"returned prompt log-probabilities, but only {n_checked} of its {len(likely)} likely next tokens can be "
            f"compared with them; expected at least {_LEAST}",
            code="uncheckable-log-probabilities",
        )
