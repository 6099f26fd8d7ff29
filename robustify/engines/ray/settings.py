"""The settings of a model that is run by workers of a Ray cluster, on this machine or on many."""

from typing import Literal

from pydantic import Field

from robustify.engines.settings import TransformersSettings

LOCAL = "local"


class RayModel(TransformersSettings):
    """A model of which each of several workers holds a copy, run with transformers as the engine hf runs it.

    `model`, `device`, `dtype` and `max_batch_tokens` as for the engine hf; `threads` of each worker, a device `cuda`
    takes one GPU a worker. `address`: of a running cluster (`auto` finds this machine's own), none for one that is
    started here and ended with the run. Work is handed out by sections of a plan, of `section` batches each: they
    and `threads` are part of what the numbers depend on, `workers` is not. `start_seconds`: how long the first worker
    may take to begin.
    """

    engine: Literal["ray"]
    section: int = Field(default=4, ge=1, le=4096, strict=True)
    workers: int = Field(default=2, ge=1, le=4096, strict=True)
    threads: int = Field(default=1, ge=1, le=1024, strict=True)
    address: str | None = None
    start_seconds: int = Field(default=600, ge=1, strict=True)

    @property
    def gpus(self) -> int:
        """GPUs of each worker."""
        return 1 if self.device.startswith("cuda") else 0

    @property
    def host(self) -> str | None:
        """The cluster that requests, as token ids, are sent to; None where it is started here and ends with the run.

        On a cluster they lie in its object store while they are asked, and Ray may write that to its machines' disks. A
        cluster that runs already is not known to be of this machine alone.
        """
        return None if self.address in (None, LOCAL) else self.address
