"""Too little memory ends a command with 6, wherever it shows: in Python, in the dynamic loader, or while weights load."""

import errno
from pathlib import Path

import pytest

from robustify.base.errors import ResourceError
from robustify.cli import exit_code

LOADER = "libtorch_cpu.so: failed to map segment from shared object"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), 6),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 6),
        (ImportError(LOADER), 6),
        (ImportError("libgomp.so.1: cannot allocate memory in static TLS block"), 6),
        (ImportError("cannot import name 'made_up'"), 1),
    ],
)
def test_too_little_memory_is_not_a_bug(error: BaseException, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(
    "error", [MemoryError("Cannot allocate memory (os error 12)"), OSError("Cannot allocate memory")]
)
def test_a_model_that_does_not_fit_into_memory_says_what_its_weights_need(
    tmp_path: Path, error: BaseException
) -> None:
    model = pytest.importorskip("robustify.models.engines.local.model")
    (tmp_path / "model.safetensors").write_bytes(b"0" * (3 << 20))
    with pytest.raises(ResourceError, match="3 MiB"), model._loading(tmp_path):
        raise error
