"""What runs on a worker: one model in memory, and the units of work that it is given. It knows nothing of Ray.

A worker whose model or software is not that of the machine which asks refuses to work: its numbers would be others.
What goes wrong is returned as a value, so that a worker which is lost is never taken for a model that refuses.
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import robustify
from robustify import errors
from robustify.engines.local.paths import Refused, Scored, Together
from robustify.engines.plan import Batch, Encoded
from robustify.errors import ModelError, RobustifyError

if TYPE_CHECKING:
    from robustify.engines.local.model import Local

T = TypeVar("T")
_SETTINGS = ("device", "dtype", "max_batch_tokens", "section", "threads")
"""Parts of a recipe that the config sets, and so the same everywhere."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a worker opens: `recipe` is what it must find there, `version` the robustify that asks."""

    name: str
    folder: str
    device: str
    dtype: str
    threads: int
    recipe: Mapping[str, str]
    version: str = robustify.__version__


@dataclass(frozen=True, slots=True)
class Hello:
    """A worker that is ready, and its model as `Work` describes it. `processor` is what its last bits depend on."""

    kind: str
    fits: bool
    window: int | None
    processor: str


@dataclass(frozen=True, slots=True)
class Failed:
    """What a worker could not do. `lines` are those of an error of ours, or what the model raised."""

    why: Literal["refused", "memory", "error"]
    kind: str
    lines: tuple[str, ...]

    def error(self) -> Exception:
        """The same as an exception, as it would have been raised here."""
        text = "; ".join(self.lines)
        match self.why:
            case "memory":
                return MemoryError(text)
            case "refused":
                refused = Refused(text)
                refused.__cause__ = RuntimeError(f"{self.kind}: {text}")
                return refused
            case "error":
                error: Exception = getattr(errors, self.kind, ModelError)(*self.lines)
                return error


class Worker:
    """One copy of a model, opened by `hello` or, where Ray has started the worker again, by the first unit."""

    def __init__(self, spec: Spec) -> None:
        # Before torch is loaded, which reads it once.
        os.environ["OMP_NUM_THREADS"] = str(spec.threads)
        self._spec = spec
        self._local: Local | None = None

    def hello(self) -> Hello | Failed:
        """Open the model, if it is the one that is wanted."""
        return _as_value(self._hello)

    def section(
        self, batches: Sequence[Batch], needed: Sequence[bool], budget: int
    ) -> list[tuple[int, float]] | Failed:
        """Every piece of a section that is needed, in order."""
        return _as_value(lambda: [p for ps in self._model().section(batches, needed, budget) for p in ps])

    def prefixes(self, batches: Sequence[Together]) -> Scored | Failed:
        """The totals of these batches, by shared prefixes."""
        return _as_value(lambda: {r: t for part in self._model().prefixes(batches) for r, t in part.items()})

    def rows(self, batches: Sequence[Together]) -> Scored | Failed:
        """The totals of these batches, in plain rows."""
        return _as_value(lambda: {r: t for part in self._model().rows(batches) for r, t in part.items()})

    def alone(self, requests: Sequence[Encoded]) -> list[float] | Failed:
        """Each request all by itself."""
        return _as_value(lambda: self._model().alone(requests))

    def replies(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str] | Failed:
        """What the model says next after each prompt."""
        return _as_value(lambda: self._model().replies(prompts, max_tokens))

    def _hello(self) -> Hello:
        import torch

        local = self._model()
        on_gpu = local.device.type == "cuda"
        processor = (
            torch.cuda.get_device_name(local.device) if on_gpu else torch.backends.cpu.get_cpu_capability()
        )
        return Hello(local.kind, local.fits, local.window, processor)

    def _model(self) -> "Local":
        if self._local is None:
            from robustify.engines.local.model import Local

            spec = self._spec
            _check(spec)
            self._local = Local(Path(spec.folder), spec.device, spec.dtype, spec.threads)
        return self._local


def _check(spec: Spec) -> None:
    from robustify.engines.recipe import recipe
    from robustify.models.folder import check_folder

    where = f"{spec.name}: worker on {socket.gethostname()}"
    if robustify.__version__ != spec.version:
        raise ModelError(
            f"{where}: has robustify {robustify.__version__}; expected {spec.version}, as on the machine that "
            "asks: install the same on every machine"
        )
    folder = Path(spec.folder)
    if not folder.is_dir():
        raise ModelError(
            f"{where}: has no folder {folder}; expected the model there, as on the machine that asks: put it on "
            "a disk that all machines see, or copy it to the same place on each"
        )
    check_folder(folder)
    here = recipe(folder, spec.device, spec.dtype, 0, n_threads=spec.threads)
    other = [n for n, v in spec.recipe.items() if n not in _SETTINGS and here.get(n) != v]
    if other:
        raise ModelError(
            f"{where}: differs in {', '.join(other)}; expected the same files and versions as on the machine "
            "that asks"
        )


def _as_value(work: Callable[[], T]) -> T | Failed:
    """What the work gives, or why it cannot be done. What else is raised is a bug, and not caught."""
    from robustify.engines.local.model import is_out_of_memory

    try:
        return work()
    except RobustifyError as error:
        return Failed("error", type(error).__name__, error.lines)
    except Refused as refusal:
        cause = refusal.__cause__ or refusal
        return Failed("refused", type(cause).__name__, (_first_line(cause),))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return Failed("memory", type(error).__name__, (_first_line(error),))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:200]
