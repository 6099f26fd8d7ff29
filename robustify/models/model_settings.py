"""Settings of a config's models (one class per engine) with their defaults, and rules for servers that may be contacted.

A config may come from a stranger, for example in a pull request.
"""

import ipaddress
import os
import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PlainSerializer, model_validator

from robustify.base.errors import AuthorisationError, UsageError
from robustify.base.settings_files import Settings

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
LOCAL = "local"
"""Address of a Ray cluster that is started on this machine."""
PROBES = 12
"""Largest number of probes of a server in one session. If one fails, as many more, at most, show if its model is weak."""
DEFAULT_SAMPLES = 5
"""Default number of replies per question from a server without log-probabilities."""
_NO_SERVERS = "ROBUSTIFY_NO_SERVERS"
"""If set, as in CI, only models on this machine may run, whatever the config says."""
_KEYS = "ROBUSTIFY_KEYS"
"""Pairs NAME@HOST of API key variables and the hosts to which the user lets a config send them, set beside the keys."""
_OUR_KEY = re.compile(r"ROBUSTIFY_(\w+_)?API_KEY")
_PROVIDERS: Mapping[str, str] = {
    "MISTRAL_API_KEY": "api.mistral.ai",
    "OPENAI_API_KEY": "api.openai.com",
    "OPENROUTER_API_KEY": "openrouter.ai",
    "TOGETHER_API_KEY": "api.together.xyz",
}
"""Variables that providers define for their API keys, and the host that may receive each."""
_HOST = re.compile(r"[\w%:-]{1,63}(\.[\w%:-]{1,63})*\.?")
_SERVED = re.compile(r"(?P<model>[^=\s]+)=openai:(?P<url>\S+)")


def _address(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or parts.port == 0 or not _HOST.fullmatch(host):
        raise ValueError("not an address with http:// or https://; expected http://HOST:PORT/v1")
    # Some numbers that are no IP address, such as 127.1, are resolved to this machine.
    if host.replace(".", "").isdigit():
        ipaddress.ip_address(host)
    if parts.path.rstrip("/").endswith(("/completions", "/models")):
        raise ValueError(
            "the URL contains an API path; expected a base URL, for example one that ends in /v1"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(
            "the URL contains a user, a password, or a query. Give only the address, and put the API key in an "
            "environment variable (api_key_env: NAME)."
        )
    return url.rstrip("/")


def _without_host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{'elsewhere' if host_of(url) else 'localhost'}{parts.path}"


Address = Annotated[str, AfterValidator(_address), PlainSerializer(_without_host, when_used="json")]
"""Address of a server. Files do not contain its host, which may change from day to day, or reveal an internal network."""
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class ModelSettings(Settings):
    """Settings of a model in a config, including what cost forecasts and the rules for restricted sets need to know. They
    import no engine, and neither does a new subclass, which is named in `ENGINES`."""

    name: str = Field(pattern=NAME_PATTERN)
    engine: str
    model: str = ""
    role: Literal["voter", "under_test"] = "voter"
    sends_prompts: ClassVar[bool] = False
    """Whether each prompt is sent in full, instead of computing shared prefixes once."""

    @property
    def reference(self) -> str:
        """Name by which the engine finds the model."""
        return self.model or self.name

    @property
    def identity(self) -> str:
        """Identifier that two models share only if their scores are equal. Two such models would vote twice."""
        return self.reference

    @property
    def probes(self) -> int:
        """Number of probe requests that a session usually sends at most to the model's servers."""
        return 0

    @property
    def hosts(self) -> tuple[str, ...]:
        """Addresses to which prompts of this model are sent, or none if prompts stay on this machine. Addresses have a
        scheme, unless the engine itself checks its traffic."""
        return ()

    def cost(self, tokens: int, written: int, letters: int = 0) -> float | None:
        """Return the cost of reading and writing tokens and of replying with letters, or None if prices are unknown."""
        return None


class TransformersSettings(ModelSettings):
    """Settings shared by the engines that run a model with transformers."""

    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    max_batch_tokens: int | None = Field(default=None, ge=64)
    section: int

    @property
    def identity(self) -> str:
        """Model and precision, which together determine the scores."""
        return f"{self.reference} {self.dtype}"

    @property
    def budget(self) -> int:
        """Maximum number of tokens per forward pass."""
        return self.max_batch_tokens or (2048 if self.device == "cpu" else 8192)


class HFModel(TransformersSettings):
    """Model that runs on this machine with transformers.

    `model` is a known name (`robustify models list`), `hf:owner/name@revision`, a folder, or a GGUF file. `role` decides
    whether it votes in the screen. `max_batch_tokens` limits a forward pass (default: 2,048 tokens on a CPU, 8,192
    elsewhere). A shared prefix is recomputed after every `section` batches.
    """

    engine: Literal["hf"] = "hf"
    section: int = Field(default=64, ge=1, le=4096, strict=True)


class RayModel(TransformersSettings):
    """Model that several workers of a Ray cluster run with transformers.

    It also accepts all keys of the engine hf. `address` is that of a running cluster, and `auto` finds the one of this
    machine. Without an address, a cluster is started. A worker has `threads`, or one GPU with `device: cuda`, and must be
    ready within `start_seconds`. `section` and `threads` can change the last digits of scores, but `workers` cannot.
    """

    engine: Literal["ray"]
    section: int = Field(default=4, ge=1, le=4096, strict=True)
    workers: int = Field(default=2, ge=1, le=4096, strict=True)
    threads: int = Field(default=1, ge=1, le=1024, strict=True)
    address: str | None = None
    start_seconds: int = Field(default=600, ge=1, strict=True)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Address of the running cluster that receives requests as token IDs, or none if the run starts its own cluster. A
        running cluster may include other machines, and Ray may write its objects to disk."""
        return () if self.address in (None, LOCAL) else (self.address,)


class OpenAIModel(ModelSettings):
    """Model behind a server that supports the OpenAI protocol, such as vLLM, SGLang, or a hosted endpoint.

    `base_url` ends in `/v1`; `base_urls` are those of several servers with this model, which share its requests, with
    `concurrency` for each. `model` is the ID on the server (default: `name`), and `pin` is the ID in its replies if that
    differs. `api_key_env` names the variable with the API key: ROBUSTIFY_API_KEY on this machine, the variable of a
    provider, or one from a NAME@HOST pair in $ROBUSTIFY_KEYS. `concurrency` is the number of parallel requests. `timeout`
    (seconds) and `retries` apply to each request. If `samples` is set, letters are sampled from that many chat replies of
    at most `reply_tokens` tokens. Otherwise, the server is asked for log-probabilities. `price_in` and `price_out` are per
    million tokens.
    """

    engine: Literal["openai"]
    base_url: Address
    base_urls: tuple[Address, ...] = ()
    pin: str = ""
    api_key_env: Variable | None = None
    concurrency: int = Field(default=16, ge=1, le=512, strict=True)
    timeout: float = Field(default=120.0, gt=0, le=3600)
    sends_prompts: ClassVar[bool] = True
    retries: int = Field(default=6, ge=0, le=20, strict=True)
    samples: int | None = Field(default=None, ge=1, le=1000, strict=True)
    reply_tokens: int = Field(default=32, ge=1, le=100_000, strict=True)
    price_in: float | None = Field(default=None, ge=0)
    price_out: float | None = Field(default=None, ge=0)

    @property
    def served(self) -> str:
        """Model ID on the server."""
        return self.model or self.name

    @property
    def reference(self) -> str:
        """Identifier of the model within a config. Only the servers can show whether two names mean the same model."""
        return f"openai|{self.served}|{self.name}"

    @property
    def probes(self) -> int:
        """Usual maximum number of requests that test the servers in one session."""
        return PROBES * len(self.servers)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Addresses of the servers that are not on this machine."""
        return tuple(server.base_url for server in self.servers if host_of(server.base_url))

    @property
    def servers(self) -> tuple["OpenAIModel", ...]:
        """Settings of each server of this model."""
        if not self.base_urls:
            return (self,)
        shared = {"base_urls": (), "model": self.served}
        names = (
            f"{self.name} (server {n} of {len(self.base_urls)})" for n in range(1, len(self.base_urls) + 1)
        )
        urls = zip(names, self.base_urls, strict=True)
        return tuple(self.model_copy(update={**shared, "name": name, "base_url": url}) for name, url in urls)

    @model_validator(mode="before")
    @classmethod
    def _use_first_url(cls, fields: object) -> object:
        """Set `base_url` to the first of `base_urls`. A config has one of the two keys, and a stored config has both."""
        match fields:
            case {"base_urls": [first, *others], **other_fields}:
                if other_fields.get("base_url", first) != first:
                    raise ValueError(
                        "base_url and base_urls name different servers; give only one of these keys"
                    )
                return {**other_fields, "base_url": first, "base_urls": (first, *others)}
        return fields

    def api_key(self) -> str:
        """Return the API key for the server, or "none" if no variable is named. Raise `AuthorisationError` if the variable
        must not be sent to this server, and `UsageError` if the variable is not set or contains no key."""
        variable, remote = self.api_key_env, host_of(self.base_url)
        if variable is None:
            return "none"
        host = remote or "localhost"
        allowed = f"{variable}@{host}" in os.environ.get(_KEYS, "").replace(",", " ").split()
        ours = remote is None and _OUR_KEY.fullmatch(variable)
        if not (allowed or ours or _PROVIDERS.get(variable) == host):
            raise AuthorisationError(
                f"{self.name}: api_key_env: {variable} may not be sent to {host}. If the key is meant for this "
                f"server, set the environment variable {_KEYS}={variable}@{host}.",
                code="forbidden-api-key",
            )
        if remote and urlsplit(self.base_url).scheme == "http":
            raise AuthorisationError(
                f"{self.name}: {variable} may not be sent to {host} over http, because others could read it. "
                "Use https, or a tunnel to a port of this machine.",
                code="unencrypted-api-key",
            )
        key = os.environ.get(variable, "")
        if not re.fullmatch("[!-~]+", key):
            fault = "contains characters that no key has, such as curly quotes" if key else "is not set"
            raise UsageError(
                f"{self.name}: the environment variable {variable} {fault}. Set it to the API key of the server.",
                code="invalid-api-key" if key else "missing-api-key",
            )
        return key

    def cost(self, tokens: int, written: int, letters: int = 0) -> float | None:
        """Return the cost at the configured prices. A letter is one token, or about eight tokens in a JSON reply."""
        if self.price_in is None:
            return None
        out = written + letters * (8 * self.samples if self.samples else 1)
        return (tokens * self.price_in + out * (self.price_out or 0.0)) / 1e6


def served_at(text: str) -> tuple[str, str] | None:
    """Return the ID and URL of a model written as `ID=openai:URL`, or None if the text has another form."""
    match = _SERVED.fullmatch(text)
    return None if match is None else (match["model"], match["url"])


def host_of(url: str) -> str | None:
    """Return the host of a URL, or None if the host is this machine. Servers also print this machine as 0.0.0.0."""
    host = (urlsplit(url).hostname or "").casefold().rstrip(".")
    if host in ("localhost", "ip6-localhost"):
        return None
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    address = getattr(address, "ipv4_mapped", None) or address
    return None if address.is_loopback or address.is_unspecified else host


def refuse_servers(name: str) -> None:
    """Raise `AuthorisationError` if `$ROBUSTIFY_NO_SERVERS` forbids models on a network."""
    if os.environ.get(_NO_SERVERS):
        raise AuthorisationError(
            f"{name}: the model is on a network, which ${_NO_SERVERS} forbids. Use a model on this machine (engine hf).",
            code="forbidden-servers",
        )
