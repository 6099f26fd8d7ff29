"""Which servers may be asked, and which key a server may be sent. A config may come from a stranger: a pull request."""

import os
import re
from collections.abc import Mapping

from robustify.engines.settings import host_of
from robustify.errors import AuthorisationError, UsageError

NO_SERVERS = "ROBUSTIFY_NO_SERVERS"
"""Set in CI: only models that run here are asked, whatever a config says."""
KEYS = "ROBUSTIFY_KEYS"
"""Pairs NAME@HOST: the variables with keys that the user lets a config send to these hosts."""
_OURS = re.compile(r"ROBUSTIFY_(\w+_)?API_KEY")
_PROVIDERS: Mapping[str, str] = {
    "MISTRAL_API_KEY": "api.mistral.ai",
    "OPENAI_API_KEY": "api.openai.com",
    "OPENROUTER_API_KEY": "openrouter.ai",
    "TOGETHER_API_KEY": "api.together.xyz",
}
"""A provider's own variable goes to its own host."""


def refuse_servers(name: str) -> None:
    """Raise `AuthorisationError` for a model that is asked over a network where `$ROBUSTIFY_NO_SERVERS` is set."""
    if os.environ.get(NO_SERVERS):
        raise AuthorisationError(
            f"{name}: is asked over a network, which ${NO_SERVERS} forbids; expected models that run here (engine hf)"
        )


def key_for(name: str, variable: str | None, url: str) -> str:
    """Return the key in this environment variable, for the server at this address; without a variable "none".

    Raises:
        AuthorisationError: the variable is not meant for this server.
        UsageError: it is not set.
    """
    if variable is None:
        return "none"
    host = host_of(url) or "localhost"
    allowed = os.environ.get(KEYS, "").replace(",", " ").split()
    if not (_OURS.fullmatch(variable) or _PROVIDERS.get(variable) == host or f"{variable}@{host}" in allowed):
        raise AuthorisationError(
            f"{name}: api_key_env: {variable} is not sent to {host} unasked; expected ROBUSTIFY_API_KEY, or in the "
            f"environment {KEYS}={variable}@{host}"
        )
    if not (key := os.environ.get(variable, "")):
        raise UsageError(
            f"{name}: the environment variable {variable} is not set; expected the server's key in it"
        )
    return key
