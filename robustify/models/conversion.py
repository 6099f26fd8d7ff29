"""Conversion of GGUF files to safetensors, each in a separate process that returns its memory when it ends."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from robustify.base.errors import ModelError, ResourceError, first_line


def convert(gguf: Path, folder: Path) -> None:
    """Write model.safetensors (float32), config.json, and the tokenizer files of a GGUF file into `folder`. Raise
    `ModelError` if transformers cannot convert the file, and `ResourceError` if the conversion was killed."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(gguf), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # no setting of transformers silences its progress bars
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
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
