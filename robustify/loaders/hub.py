"""Splits of Hugging Face Hub datasets, pinned to a commit and loaded by the `datasets` library. No script is ever run."""

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
    """Return the rows of a Hub dataset split, from the local cache if there is no network.

    The digest is computed from the rows, because one split may be stored in several formats.

    Raises:
        UsageError: the `datasets` package is not installed.
        AuthorisationError: the dataset is restricted, or it is gated and access was not granted.
        DataError: the dataset, commit, config, or split does not exist, or is neither cached nor reachable.
    """
    named = f"{source.hub}@{str(source.revision)[:8]}"
    if _RESTRICTED.search(str(source.hub)):
        raise AuthorisationError(
            f"{source.hub} is a restricted set, which robustify never downloads. Set `path` to a local file."
        )
    try:
        import datasets
    except ImportError:
        raise UsageError(
            f"{named} cannot be loaded without the `datasets` package. Run `pip install 'robustcbrn-eval[hub]'`."
        ) from None
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        found = datasets.load_dataset(
            source.hub, source.config, split=source.split, revision=source.revision, data_files=source.files
        )
    except Exception as error:
        # The library raises many types of errors, and their messages may quote rows.
        kind = type(error).__name__
        if "gated" in str(error).casefold():
            raise AuthorisationError(
                f"{named} is gated. To get access, accept its terms on the Hub and run `hf auth login`."
            ) from None
        raise DataError(
            f"{named} cannot be loaded ({kind}). Check the network connection and the commit, "
            "`config`, `split`, and `files`."
        ) from None
    if isinstance(found, datasets.DatasetDict):
        if len(found) > 1:
            raise DataError(f"{named} has several splits. Set `split` to one of {', '.join(found)}.")
        (found,) = found.values()
    rows = found.to_list()
    digest = hashlib.sha256(json.dumps(rows, default=str).encode("utf-8", "surrogatepass")).hexdigest()
    return Opened(table_of(enumerate(rows, start=1), flat=True), require_pinned(named, digest, source.sha256))
