"""Where item text may be sent: to this machine, and to the hosts that a set's manifest names.

Asked before any model is looked at, because looking at a server already talks to it.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from robustify import engines
from robustify.engines.openai.settings import OpenAIModel
from robustify.errors import AuthorisationError
from robustify.logs.replay import ReplayModel
from robustify.restricted.manifest import Manifest


def require_inside(models: Iterable["engines.Runnable | ReplayModel"], manifest: Manifest) -> None:
    """Refuse models whose prompts would leave this machine for a host that the manifest does not name, or unencrypted
    for one that it names. The traffic of a Ray cluster is the cluster's to guard.

    Raises:
        AuthorisationError: all of them, with their hosts.
    """
    outside = [
        (model, host)
        for model in models
        if not isinstance(model, ReplayModel) and (host := engines.remote_host(model)) is not None
    ]
    require_hosts([(model.name, host) for model, host in outside], manifest)
    bare = [
        f"{model.name}: would send the items of {manifest.id} to {host!a} in the clear; expected https"
        for model, host in outside
        if isinstance(model, OpenAIModel) and urlsplit(model.base_url).scheme != "https"
    ]
    if bare:
        raise AuthorisationError(*bare)


def require_hosts(named: Iterable[tuple[str, str]], manifest: Manifest) -> None:
    """The same for (name, address) pairs; of an address its host counts.

    Raises:
        AuthorisationError: hosts that the manifest does not name.
    """
    refused = [
        f"{name}: would send the items of {manifest.id} to {host!a}, which egress of its manifest does not name; "
        "expected a model on this machine"
        for name, address in named
        if (host := _host(address)) not in manifest.egress
    ]
    if refused:
        raise AuthorisationError(*refused)


def _host(address: str) -> str:
    bare = address.split("://")[-1]
    return (urlsplit(f"//{bare}").hostname or bare).casefold()
