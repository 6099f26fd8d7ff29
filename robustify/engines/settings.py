"""What a config says of a model, one class for each engine, and the host that a model's prompts go to."""

import ipaddress
import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_serializer, field_validator

from robustify.settings_files import Settings

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
LOCAL = "local"
"""The address of a Ray cluster that is started here."""
DEFAULT_SAMPLES = 5
"""Replies to one asking of a server that only chats."""
_SERVED = re.compile(r"(?P<model>[^=\s]+)=openai:(?P<url>\S+)")
_LOCAL_NAMES = ("localhost", "ip6-localhost")


class TransformersSettings(Settings):
    """A model that is run with transformers, in this process or in others."""

    name: str = Field(pattern=NAME_PATTERN)
    engine: str
    model: str = ""
    role: Literal["voter", "under_test"] = "voter"
    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    max_batch_tokens: int | None = Field(default=None, ge=64)
    section: int

    @property
    def reference(self) -> str:
        """What `robustify.models` looks up."""
        return self.model or self.name

    @property
    def budget(self) -> int:
        """Tokens of one forward pass."""
        return self.max_batch_tokens or (2048 if self.device == "cpu" else 8192)


class HFModel(TransformersSettings):
    """A model that runs here with transformers.

    `model` is a known name (`robustify models list`), `hf:owner/name@revision`, a folder or a GGUF file. `role`
    says whether it votes in the screen. `max_batch_tokens` bounds a forward pass (default: 2,048 on a CPU, 8,192
    elsewhere). After `section` batches a shared beginning is computed again.
    """

    engine: Literal["hf"] = "hf"
    section: int = Field(default=64, ge=1, le=4096, strict=True)


class RayModel(TransformersSettings):
    """A model that several `workers` of a Ray cluster run with transformers.

    The keys of the engine hf hold here too. `address` is that of a running cluster (`auto` finds this machine's);
    without it one is started. A worker has `threads`, or one GPU with `device: cuda`, and `start_seconds` to begin.
    `section` and `threads` can change the last digits of scores; `workers` cannot.
    """

    engine: Literal["ray"]
    section: int = Field(default=4, ge=1, le=4096, strict=True)
    workers: int = Field(default=2, ge=1, le=4096, strict=True)
    threads: int = Field(default=1, ge=1, le=1024, strict=True)
    address: str | None = None
    start_seconds: int = Field(default=600, ge=1, strict=True)

    @property
    def gpus(self) -> int:
        """GPUs of each worker."""
        return 1 if self.device.startswith("cuda") else 0

    @property
    def host(self) -> str | None:
        """The cluster that requests are sent to as token ids; None if it is started here and ends with the run.

        A running cluster is not known to be of this machine alone, and Ray may write its objects to disk.
        """
        return None if self.address in (None, LOCAL) else self.address


class OpenAIModel(Settings):
    """A model behind a server that speaks the OpenAI protocol: vLLM, SGLang, a hosted endpoint.

    `base_url` ends in `/v1`. `model` is the server's id (default: `name`), `pin` the id in its replies if that
    differs. `api_key_env` names the variable with the key: ROBUSTIFY_API_KEY, a provider's own, or a pair
    NAME@HOST of $ROBUSTIFY_KEYS. `concurrency`, `timeout` (seconds) and `retries` are per
    request. With `samples`, letters are drawn from that many chat replies of at most `reply_tokens`; without it
    log-probabilities are asked for. `price_in` and `price_out` are for a million tokens.
    """

    name: str = Field(pattern=NAME_PATTERN)
    engine: Literal["openai"]
    base_url: str
    model: str = ""
    pin: str = ""
    role: Literal["voter", "under_test"] = "voter"
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    concurrency: int = Field(default=16, ge=1, le=512, strict=True)
    timeout: float = Field(default=120.0, gt=0, le=3600)
    retries: int = Field(default=6, ge=0, le=20, strict=True)
    samples: int | None = Field(default=None, ge=1, le=1000, strict=True)
    reply_tokens: int = Field(default=32, ge=1, le=100_000, strict=True)
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


def served_at(text: str) -> tuple[str, str] | None:
    """Return the id and the address of a model given as `ID=openai:URL`; None where the text is none."""
    match = _SERVED.fullmatch(text)
    return None if match is None else (match["model"], match["url"])


def host_of(url: str) -> str | None:
    """Return the host of an address; None where it is this machine."""
    host = (urlsplit(url).hostname or "").casefold()
    if host in _LOCAL_NAMES:
        return None
    try:
        return None if ipaddress.ip_address(host).is_loopback else host
    except ValueError:
        return host
