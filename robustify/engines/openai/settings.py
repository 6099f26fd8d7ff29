"""The settings of a model behind an OpenAI-compatible server, and where its prompts go.

A key is read from the environment variable that the config names; an address that carries a password or a key is
refused. run.json says which model was asked and not where it was served.
"""

import ipaddress
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

from robustify.engines.settings import NAME_PATTERN

_LOCAL_NAMES = ("localhost", "ip6-localhost")


class OpenAIModel(BaseModel):
    """A model that a server gives over the OpenAI protocol: vLLM, SGLang, a hosted endpoint.

    `base_url`: up to and with `/v1`. `model`: the id that the server knows, `name` where it is left out; `pin`: what
    the server must call it in its replies, where that is another name (a dated snapshot). `api_key_env`: the
    environment variable that holds the key. `tokenizer`: a known name, a folder or `hf:owner/name@revision`, by which
    prompts are sent as the tokens that the local engine would read; without it prompts are sent as text.
    `concurrency`: requests on the way at once; `timeout` in seconds, of one of them; `retries`: how often one is tried
    again. `price_in`, `price_out`: of a million tokens, for the closing line.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME_PATTERN)
    engine: Literal["openai"]
    base_url: str
    model: str = ""
    pin: str = ""
    role: Literal["voter", "under_test"] = "voter"
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    tokenizer: str = ""
    concurrency: int = Field(default=16, ge=1, le=512, strict=True)
    timeout: float = Field(default=120.0, gt=0, le=3600)
    retries: int = Field(default=6, ge=0, le=20, strict=True)
    price_in: float | None = Field(default=None, ge=0)
    price_out: float | None = Field(default=None, ge=0)

    @field_validator("base_url")
    @classmethod
    def _an_address_and_no_secret(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("no http address; expected http://HOST:PORT/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError(
                "carries a user, a password or a query; expected an address alone, and the key in the environment "
                "(api_key_env: NAME)"
            )
        return url.rstrip("/")

    @field_serializer("base_url", when_used="json")
    def _without_host(self, url: str) -> str:
        # As with folders: a server's address differs from one day to the next, and may name an inner network.
        parts = urlsplit(url)
        return f"{parts.scheme}://{'elsewhere' if host_of(url) else 'localhost'}{parts.path}"

    @property
    def served(self) -> str:
        """The id that the server knows."""
        return self.model or self.name

    @property
    def reference(self) -> str:
        """What distinguishes it from another model of the same config. Whether two names are one model, the servers say."""
        return f"openai|{self.served}|{self.name}"


def host_of(url: str) -> str | None:
    """The host of an address; None where it is this machine."""
    host = (urlsplit(url).hostname or "").casefold()
    if host in _LOCAL_NAMES:
        return None
    try:
        return None if ipaddress.ip_address(host).is_loopback else host
    except ValueError:
        return host
