"""Vectors of many texts from a separate process, so that the memory of torch and the encoder is free before judging.

That process is this module. It reads one JSON object, writes the number of texts of each batch that is done, and at the
end an empty line and the vectors. Texts pass through a pipe, never through a file.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

import numpy as np
import numpy.typing as npt

from robustify.base.child_process import module_command
from robustify.base.errors import ResourceError
from robustify.models.engines.protocols import Progress

_END = b"\n"


def vectors_from_process(
    folder: Path, texts: Sequence[str], progress: Progress, *, dtype: str
) -> npt.NDArray[np.float32] | None:
    """Return what `sentence_vectors` returns (n_texts, width). Return None if the process ended with an error, which the
    same call in this process would raise. Raise `ResourceError` if the process was killed."""
    command = module_command(__name__)
    with Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            # A process that ended early reads nothing, and its exit code says why.
            with suppress(BrokenPipeError), process.stdin as given:
                given.write(json.dumps({"folder": str(folder), "texts": texts, "dtype": dtype}).encode())
            while (line := process.stdout.readline()) not in (_END, b""):
                progress(int(line))
            data = process.stdout.read()
        except BaseException:
            process.kill()
            raise
    if process.returncode < 0:
        raise ResourceError(
            f"The process of the sentence encoder was killed by signal {-process.returncode}; expected it to finish. Free "
            "some memory, or leave it out with `encoder: false`.",
            code="encoder-killed",
        )
    if process.returncode:
        return None
    return np.frombuffer(data, dtype=np.float32).reshape(len(texts), -1)


def answer_request() -> None:
    """Embed the texts of standard input."""
    # What a library prints must not end up among the vectors.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    from robustify.models.engines.local.model import sentence_vectors  # imports torch

    request = json.load(sys.stdin)

    def progress(n: int) -> None:
        out.write(b"%d\n" % n)
        out.flush()

    vectors = sentence_vectors(Path(request["folder"]), request["texts"], progress, dtype=request["dtype"])
    out.write(_END + vectors.tobytes())
    out.close()


if __name__ == "__main__":
    answer_request()
