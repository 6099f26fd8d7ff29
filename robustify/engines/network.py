"""Rules for which servers may be contacted and which API keys they may receive.

A config may come from a stranger, for example in a pull request.
"""

import os
import re
from collections.abc import Mapping

from robustify.engines.settings import host_of
from robustify.errors import AuthorisationError, UsageError

NO_SERVERS = "ROBUSTIFY_NO_SERVERS"
"""If set, as in CI, only models on this machine may run, whatever the config says."""
KEYS = "ROBUSTIFY_KEYS"
"""Pairs NAME@HOST of API key variables and the hosts to which the user lets a config send them."""
_OURS = re.compile(r"ROBUSTIFY_(\w+_)?API_KEY")
_PROVIDERS: Mapping[str, str] = {
    "MISTRAL_API_KEY": "api.mistral.ai",
    "OPENAI_API_KEY": "api.openai.com",
    "OPENROUTER_API_KEY": "openrouter.ai",
    "TOGETHER_API_KEY": "api.together.xyz",
}
"""Variables that providers define for their API keys, and the host that may receive each."""


def refuse_servers(name: str) -> None:
    """Raise `AuthorisationError` if `$ROBUSTIFY_NO_SERVERS` forbids models on a network."""
    if os.environ.get(NO_SERVERS):
        raise AuthorisationError(
            f"{name}: the model is on a network, which ${NO_SERVERS} forbids. Use a model on this machine (engine hf)."
        )


def key_for(name: str, variable: str | None, url: str) -> str:
    """Return the API key in an environment variable for the server at `url`, or "none" if no variable is named. Raise
    `AuthorisationError` if the variable must not be sent to this server. Raise `UsageError` if the variable is not set."""
    if variable is None:
        return "none"
    host = host_of(url) or "localhost"
    allowed = os.environ.get(KEYS, "").replace(",", " ").split()
    if not (_OURS.fullmatch(variable) or _PROVIDERS.get(variable) == host or f"{variable}@{host}" in allowed):
        raise AuthorisationError(
            f"{name}: api_key_env: {variable} may not be sent to {host}. Use ROBUSTIFY_API_KEY instead, or set the "
            f"environment variable {KEYS}={variable}@{host}."
        )
    if not (key := os.environ.get(variable, "")):
        raise UsageError(
            f"{name}: the environment variable {variable} is not set. Set it to the API key of the server."
        )
    return key
