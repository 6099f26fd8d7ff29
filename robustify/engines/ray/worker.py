"""What runs on a worker: one model in memory, and the units of work that it is handed. It knows nothing of Ray.

A worker whose model or software is not that of the machine which asks refuses to work: its numbers would be others.
What goes wrong is told as a value, so that a worker which is lost is never taken for a model that refuses.
"""

import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import robustify
from robustify import errors
from robustify.engines.local.batches import Together
from robustify.engines.local.paths import Refused, Scored
from robustify.engines.plan import Batch, Encoded
from robustify.errors import ModelError, RobustifyError

if TYPE_CHECKING:
    from robustify.engines.local.local import Local

T = TypeVar("T")
_OURS = ("device", "dtype", "max_batch_tokens", "section", "threads")
"""Parts of a recipe that are settings, and so the same everywhere."""


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
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class Failed:
    """What a worker could not do. `said` are the lines of an error of ours, or what the model raised."""

    why: Literal["refused", "memory", "error"]
    kind: str
    said: tuple[str, ...]

    def error(self) -> Exception:
        """The same as an exception, as it would have been raised here."""
        text = "; ".join(self.said)
        match self.why:
            case "memory":
                return MemoryError(text)
            case "refused":
                refused = Refused(text)
                refused.__cause__ = RuntimeError(f"{self.kind}: {text}")
                return refused
            case "error":
                known = getattr(errors, self.kind, ModelError)
                error: Exception = known(*self.said)
                return error


class Worker:
    """One copy of a model. `hello` comes first."""

    def __init__(self, spec: Spec) -> None:
        # Before torch is loaded, which reads it once.
        os.environ["OMP_NUM_THREADS"] = str(spec.threads)
        self._spec = spec
        self._local: Local | None = None

    def hello(self) -> Hello | Failed:
        """Open the model, if it is the one that is wanted."""
        return _told(self._opened)

    def section(
        self, batches: Sequence[Batch], needed: Sequence[bool], budget: int
    ) -> list[tuple[int, float]] | Failed:
        """Every piece of a section that is needed, in order."""
        return _computed(
            lambda: [p for pieces in self._model.section(batches, needed, budget) for p in pieces]
        )

    def contexts(self, batches: Sequence[Together]) -> Scored | Failed:
        """The totals of these batches, by shared prefixes."""
        return _computed(lambda: _joined(self._model.contexts(batches)))

    def rows(self, batches: Sequence[Together]) -> Scored | Failed:
        """The totals of these batches, in plain rows."""
        return _computed(lambda: _joined(self._model.plain_rows(batches)))

    def alone(self, requests: Sequence[Encoded]) -> list[float] | Failed:
        """Each request all by itself."""
        return _computed(lambda: self._model.alone(requests))

    def replies(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str] | Failed:
        """What the model says next after each prompt."""
        return _computed(lambda: self._model.replies(prompts, max_tokens))

    @property
    def _model(self) -> "Local":
        assert self._local is not None
        return self._local

    def _opened(self) -> Hello:
        import torch

        from robustify.engines.local.local import Local

        spec = self._spec
        host = socket.gethostname()
        self._check(host)
        self._local = local = Local(Path(spec.folder), spec.device, spec.dtype, None, n_threads=spec.threads)
        processor = (
            torch.cuda.get_device_name(local.device)
            if local.device.type == "cuda"
            else torch.backends.cpu.get_cpu_capability()
        )
        return Hello(local.kind, local.fits, local.window, processor, host, os.getpid())

    def _check(self, host: str) -> None:
        from robustify.engines.recipe import recipe
        from robustify.models.folder import check

        spec = self._spec
        where = f"{spec.name}: worker on {host}"
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
        check(folder)
        found = recipe(folder, spec.device, spec.dtype, 0, n_threads=spec.threads)
        other = [n for n, v in spec.recipe.items() if n not in _OURS and found.get(n) != v]
        if other:
            raise ModelError(
                f"{where}: differs in {', '.join(other)}; expected the same files and versions as on the machine "
                "that asks"
            )


def _joined(parts: Iterable[Scored]) -> Scored:
    whole: Scored = {}
    for part in parts:
        whole |= part
    return whole


def _computed(work: Callable[[], T]) -> T | Failed:
    import torch

    with torch.inference_mode():
        return _told(work)


def _told(work: Callable[[], T]) -> T | Failed:
    """What the work gives, or why it cannot be done. What else is raised is a bug, and not caught."""
    from robustify.engines.local.local import is_out_of_memory

    try:
        return work()
    except RobustifyError as error:
        return Failed("error", type(error).__name__, error.lines)
    except Refused as refusal:
        cause = refusal.__cause__ or refusal
        return Failed("refused", type(cause).__name__, (_line(cause),))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return Failed("memory", type(error).__name__, (_line(error),))


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:200]
