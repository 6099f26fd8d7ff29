"""One split of a Hub dataset at a pinned commit, loaded by `datasets`. Dataset scripts are never run."""

import hashlib
import json
import re
import sys

from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.loaders.loaded import Source
from robustify.loaders.open_file import Opened, require_pinned
from robustify.loaders.rows import table_of

_RESTRICTED = re.compile(r"wmdp", re.IGNORECASE)


def open_hub(source: Source) -> Opened:
    """Return the rows of the split that a source names, from the local cache if there is no network.

    The digest is that of the rows, because one split may be stored in several forms.

    Raises:
        UsageError: the package is not installed.
        AuthorisationError: a restricted set, or a gated one without access.
        DataError: no such dataset, commit, configuration or split; or neither cached nor in reach.
    """
    named = f"{source.hub}@{str(source.revision)[:8]}"
    if _RESTRICTED.search(str(source.hub)):
        raise AuthorisationError(
            f"{source.hub}: is a restricted set, which is never fetched; expected `path` to a local file"
        )
    try:
        import datasets
    except ImportError:
        raise UsageError(f"{named}: needs a package: pip install 'robustcbrn-eval[hub]'") from None
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        found = datasets.load_dataset(
            source.hub, source.config, split=source.split, revision=source.revision, data_files=source.files
        )
    except Exception as error:
        # The library raises errors of many kinds, and their messages may quote rows.
        kind = type(error).__name__
        if "gated" in str(error).casefold():
            raise AuthorisationError(
                f"{named}: is gated; expected access: accept its terms, then run `hf auth login`"
            ) from None
        raise DataError(
            f"{named}: cannot be loaded ({kind}); expected a dataset in reach or in the cache, with this commit, "
            "`config`, `split` and `files`"
        ) from None
    if isinstance(found, datasets.DatasetDict):
        if len(found) > 1:
            raise DataError(f"{named}: has several splits; expected `split:` one of {', '.join(found)}")
        (found,) = found.values()
    rows = found.to_list()
    digest = hashlib.sha256(json.dumps(rows, default=str).encode("utf-8", "surrogatepass")).hexdigest()
    return Opened(table_of(enumerate(rows, start=1), flat=True), require_pinned(named, digest, source.sha256))
