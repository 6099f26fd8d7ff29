"""Python in separate processes, and conversion of GGUF files to safetensors in one that returns its memory when it ends.

A separate process imports nothing from the current folder, which may be a checkout of other authors. A conversion sees only
its file, because the files beside it could change the result.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from robustify.base.errors import ModelError, ResourceError, first_line

_START = (
    "import json, runpy, sys; sys.path[:] = json.loads(sys.argv[1]); module = sys.argv[2]; del sys.argv[1:3]; "
    "runpy.run_module(module, run_name='__main__', alter_sys=True)"
)
"""Start of a module under an import path that is given. Python 3.10 has no other way (`-P`) that keeps the path."""


def run_module(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a Python module in an empty folder, isolated from the current folder and the variables of Python. Arguments that
    are paths must be absolute."""
    here, own = os.path.realpath(os.curdir), str(Path(__file__).resolve().parents[2])
    path = json.dumps([one for one in (*sys.path, own) if here == own or os.path.realpath(one) != here])
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, "-I", "-c", _START, path, name, *arguments]
        return subprocess.run(command, cwd=empty, capture_output=True, text=True, check=False)


def convert(gguf: Path, folder: Path) -> None:
    """Write model.safetensors (float32), config.json, and the tokenizer files of a GGUF file into `folder`. Raise
    `ModelError` if transformers cannot convert the file, and `ResourceError` if the conversion was killed."""
    with tempfile.TemporaryDirectory() as alone:
        alias = Path(alone, gguf.name)
        try:
            alias.symlink_to(gguf.absolute())
        except OSError:  # Windows allows links only to some users
            shutil.copyfile(gguf, alias)
        done = run_module(__name__, str(alias), str(folder.absolute()))
    said = (done.stdout.splitlines() or [""])[-1]
    match done.returncode:
        case 0:
            return
        case ResourceError.exit_code:
            raise OSError(int(said), os.strerror(int(said)))
        case ModelError.exit_code:
            raise ModelError(f"{gguf.name}: transformers cannot convert this GGUF file ({said})")
        case code:
            raise ResourceError(
                f"{gguf.name}: the conversion ended with code {code}, probably because memory ran out. It needs "
                "twice the size of the float32 model."
            )


def _write(file: Path, folder: Path) -> None:
    import gguf
    import numpy as np
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    class Reader(gguf.GGUFReader):  # type: ignore[misc]
        data: Any

        def _get(self, *args: Any, **named: Any) -> Any:
            if isinstance(self.data, np.memmap):
                self.data = self.data.view(np.ndarray)  # slicing a memmap takes several times as long
            return super()._get(*args, **named)

    # transformers parses the file for the config, the weights, and the tokenizer. Once is enough.
    gguf.GGUFReader = cache(Reader)
    where: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True, "trust_remote_code": False}
    AutoModelForCausalLM.from_pretrained(
        file.parent, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True), **where
    ).save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, **where).save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)


if __name__ == "__main__":
    try:
        _write(Path(sys.argv[1]), Path(sys.argv[2]))
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            print(error.errno)
            sys.exit(ResourceError.exit_code)
        print(f"{type(error).__name__}: {first_line(error)}")
        sys.exit(ModelError.exit_code)
