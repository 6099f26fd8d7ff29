"""Compute vectors of many texts in a separate process. It works in parallel with the process that started it, and when it
ends, the memory of torch and the encoder is free.

That process is this module. It reads a line of JSON, writes the number of texts of each batch that is done, and at the end
an empty line and the vectors. When its input ends, nobody works beside it any more, so it uses all cores. Texts pass
through a pipe, never through a file.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from robustify.base.child_process import module_command
from robustify.base.errors import ResourceError
from robustify.models.engines.protocols import Progress

Received: TypeAlias = Callable[[Progress], npt.NDArray[np.float32] | None]
"""Function that waits for vectors (n_texts, width), or for None if they could not be computed."""
_END = b"\n"


@contextmanager
def encoding(
    folder: Path, texts: Sequence[str], *, dtype: str, leave_core: bool = False
) -> Iterator[Received]:
    """Start `sentence_vectors` in a separate process, and yield a function that waits for the vectors. If `leave_core`,
    this process keeps a core for itself until it waits. The function returns None if the separate process ended with an
    error, which the same call here would also raise. It raises `ResourceError` if the process was killed."""
    with Popen(module_command(__name__), stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as process:
        assert process.stdin is not None
        request = {"folder": str(folder), "texts": texts, "dtype": dtype, "leave_core": leave_core}
        try:
            # A process that ended early reads nothing, and its exit code says why.
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
            yield lambda progress: _received(process, len(texts), progress)
        finally:
            process.kill()
            with suppress(BrokenPipeError):
                process.stdin.close()


def _received(process: "Popen[bytes]", n_texts: int, progress: Progress) -> npt.NDArray[np.float32] | None:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    while (line := process.stdout.readline()) not in (_END, b""):
        progress(int(line))
    data = process.stdout.read()
    if (code := process.wait()) < 0:
        raise ResourceError(
            f"The process of the sentence encoder was killed by signal {-code}; expected it to finish. Free some memory, "
            "or leave the encoder out with `encoder: false`.",
            code="encoder-killed",
        )
    return None if code else np.frombuffer(data, dtype=np.float32).reshape(n_texts, -1)


def answer_request() -> None:
    """Embed the texts of standard input, and write the vectors to standard output."""
    request = json.loads(sys.stdin.readline())
    # What a library prints must not end up among the vectors.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import torch

    from robustify.models.engines.local.sentence_encoder import sentence_vectors

    n_cores, is_alone = torch.get_num_threads(), threading.Event()
    torch.set_num_threads(max(1, n_cores - request["leave_core"]))

    def wait() -> None:
        os.read(0, 1)
        is_alone.set()

    # Python's own reader would hold a lock when this process ends.
    threading.Thread(target=wait, daemon=True).start()

    def progress(n: int) -> None:
        if is_alone.is_set():
            torch.set_num_threads(n_cores)
        out.write(b"%d\n" % n)
        out.flush()

    vectors = sentence_vectors(Path(request["folder"]), request["texts"], progress, dtype=request["dtype"])
    out.write(_END)
    out.write(vectors.data)
    out.close()


if __name__ == "__main__":
    answer_request()
