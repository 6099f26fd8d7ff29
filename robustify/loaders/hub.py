"""One split of a Hub dataset at a fixed commit -> files on this machine, from the hub cache or from the hub.

Data files only: no dataset script is run and nothing pickled is read. A set that is known to be restricted is
refused by name, because such sets are read from local files alone.
"""

import glob
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from robustify.errors import AuthorisationError, DataError, RobustifyError, UsageError
from robustify.loaders.hub_files import HubSelection, choose_files
from robustify.loaders.loaded import Source

_RESTRICTED = re.compile(r"wmdp", re.IGNORECASE)
_CARD = "README.md"


def fetch(source: Source) -> tuple[Path, ...]:
    """The files of the split that a source names, in the order of their names; from the hub cache where offline.

    Raises:
        UsageError: the package is not installed.
        AuthorisationError: a restricted set, a gated one without access, or a token that the hub refuses.
        DataError: no such dataset, commit or split; neither in the cache nor in reach; or only partly there.
    """
    assert source.hub is not None
    if _RESTRICTED.search(source.hub):
        raise AuthorisationError(
            f"{source.hub}: is a restricted set; expected `path` to a local file, through its adapter: "
            "restricted sets are never fetched"
        )
    if find_spec("huggingface_hub") is None:
        raise UsageError(f"{source.hub}: a Hub dataset needs a package: pip install 'robustcbrn-eval[hub]'")
    folder, names = _listed(source)
    card = folder / _CARD
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    selection = HubSelection(_named(source), source.config, source.split, source.files)
    wanted = choose_files(selection, names, text)
    folder = _snapshot(source, [glob.escape(name) for name in wanted])
    missing = [name for name in wanted if not (folder / name).is_file()]
    if missing:
        raise _partly(source, len(wanted) - len(missing), len(wanted))
    return tuple(folder / name for name in wanted)


def _named(source: Source) -> str:
    return f"{source.hub}@{str(source.revision)[:8]}"


def _listed(source: Source) -> tuple[Path, list[str]]:
    """The snapshot's folder with the card in it, and the names of all files of the commit as far as known."""
    from huggingface_hub import get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError, IncompleteSnapshotError

    try:
        folder = _snapshot(source, [_CARD])
    except IncompleteSnapshotError as error:
        folder = Path(error.snapshot_path)
    try:
        tree = get_cached_repo_tree(str(source.hub), repo_type="dataset", revision=source.revision)
        return folder, [file.path for file in tree]
    except CachedRepoTreeNotFoundError:
        # A cache that was filled file by file: what lies there is all that can be known.
        return folder, [p.relative_to(folder).as_posix() for p in sorted(folder.rglob("*")) if p.is_file()]


def _snapshot(source: Source, patterns: list[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, IncompleteSnapshotError, LocalEntryNotFoundError
    from huggingface_hub.utils import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        return Path(
            snapshot_download(
                str(source.hub), repo_type="dataset", revision=source.revision, allow_patterns=patterns
            )
        )
    except IncompleteSnapshotError as error:
        if patterns == [_CARD]:
            raise
        raise _partly(source, "not all", len(patterns)) from error
    except LocalEntryNotFoundError as error:
        cause = error.__cause__
        answered = isinstance(cause, HfHubHTTPError)
        raise (refusal(source, cause) if answered else _out_of_reach(source, error)) from None
    except HfHubHTTPError as error:
        raise refusal(source, error) from None
    # The base of the hub's own error is that of its http package, whichever that is.
    except (*HfHubHTTPError.__bases__, OSError, ValueError) as error:
        raise _out_of_reach(source, error) from None


def _partly(source: Source, n: int | str, of: int) -> DataError:
    return DataError(
        f"{_named(source)}: {n} of the {of} data files are in the hub cache; expected all: {_mend(source)}"
    )


def _out_of_reach(source: Source, error: Exception) -> DataError:
    from huggingface_hub import constants

    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    offline = constants.is_offline_mode()
    why = "HF_HUB_OFFLINE is set" if offline else f"no answer ({type(root).__name__})"
    return DataError(
        f"{_named(source)}: is not in the hub cache, or not whole, and the hub is out of reach: {why}; {_mend(source)}"
    )


def _mend(source: Source) -> str:
    return (
        f"where there is a network, run `hf download {source.hub} --repo-type dataset --revision "
        f"{source.revision}` and bring the cache here, or name a local file with `path`"
    )


def refusal(source: Source, error: Any) -> RobustifyError:
    """What an answer of the hub means, in one line. A gate has three answers, and each has its own mend."""
    from huggingface_hub import get_token
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    status = getattr(getattr(error, "response", None), "status_code", None)
    said = str(getattr(error, "server_message", None) or error).lower()
    invalid = "invalid credentials" in said or "invalid username or password" in said
    kind: type[RobustifyError] = AuthorisationError
    match error:
        case GatedRepoError() if not invalid and ("awaiting" in said or "pending" in said):
            why = "is gated, and your request is pending; expected its owners' consent: wait for it"
        case GatedRepoError() if not invalid and get_token() is None:
            why = (
                "is gated, and no token is known here; expected access: accept the terms on the dataset's page, "
                "then run `hf auth login` or set HF_TOKEN"
            )
        case GatedRepoError() if not invalid and "fine-grained" not in said:
            why = (
                "is gated, and access was not asked for with this account; expected it to be: accept the terms on "
                "the dataset's page"
            )
        case RevisionNotFoundError() if not invalid:
            kind, why = (
                DataError,
                "has no such commit; expected one that its page shows under Files and versions",
            )
        case RepositoryNotFoundError() if not invalid and not isinstance(error, GatedRepoError):
            kind = DataError
            why = "no such dataset, or a private one that this token may not see; expected owner/name"
        case _ if invalid or status in (401, 403) or isinstance(error, GatedRepoError):
            why = (
                "the hub refuses this token; expected a valid one that may read gated repositories: run "
                "`hf auth login` or mend HF_TOKEN"
            )
        case _:
            kind = DataError
            why = f"the hub answers with status {status}; try again later, or name a local file with `path`"
    return kind(f"{_named(source)}: {why}")
