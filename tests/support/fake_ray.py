"""Ray without Ray: actors in this process, whose results come in an order of its choice, and which die on demand and are
started again as their options say.

What is given to an actor and what it returns or raises is pickled and unpickled, as between processes.
"""

import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class ActorDiedError(RayError):
    pass


@dataclass(eq=False)
class Ref:
    actor: "Actor"
    method: str
    given: bytes
    retries: int = 0
    done: bool = False
    result: bytes = b""
    error: Exception | None = None


class Method:
    def __init__(self, actor: "Actor", name: str) -> None:
        self._actor, self._name = actor, name

    def remote(self, *given: Any) -> Ref:
        ref = Ref(self._actor, self._name, pickle.dumps(given), self._actor.retries)
        self._actor.queue.append(ref)
        return ref


class Actor:
    def __init__(self, made: Callable[[], Any], retries: int) -> None:
        self.made, self.object, self.retries = made, None, retries
        self.alive = True
        self.queue: list[Ref] = []

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)


class ActorPool:
    """As `ray.util.ActorPool`, as far as it is used."""

    def __init__(self, ray: "FakeRay", actors: list[Actor]) -> None:
        self._ray, self._idle = ray, list(actors)
        self._busy: dict[Ref, Actor] = {}
        self._waiting: list[tuple[Any, Any]] = []

    def submit(self, work: Callable[[Actor, Any], Ref], given: Any) -> None:
        if self._idle:
            actor = self._idle.pop()
            self._busy[work(actor, given)] = actor
        else:
            self._waiting.append((work, given))

    def has_next(self) -> bool:
        return bool(self._busy)

    def get_next_unordered(self) -> Any:
        (ref,), _ = self._ray.wait(list(self._busy), num_returns=1)
        self._idle.append(self._busy.pop(ref))
        if self._waiting:
            self.submit(*self._waiting.pop(0))
        return self._ray.get(ref)


Deadly = Callable[[str, tuple[Any, ...]], bool]


@dataclass
class FakeRay:
    """`dies` says of each call, by its method and what it is given, whether the actor dies of it. `room`: so many actors
    begin at all."""

    seed: int = 0
    dies: Deadly = lambda _method, _given: False
    room: int = 99
    actors: list[Actor] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    restarts: int = 0
    exceptions: Any = field(
        default_factory=lambda: SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
    )

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self.util = SimpleNamespace(ActorPool=lambda actors: ActorPool(self, actors))

    def remote(self, **options: Any) -> Callable[[type], Any]:
        self.options = options
        return lambda kind: SimpleNamespace(remote=lambda *given: self._made(kind, given))

    def _made(self, kind: type, given: tuple[Any, ...]) -> Actor:
        assert self.options["max_restarts"] == -1
        copy = pickle.dumps(given)
        self.actors.append(Actor(lambda: kind(*pickle.loads(copy)), self.options["max_task_retries"]))
        return self.actors[-1]

    def wait(
        self, refs: list[Ref], num_returns: int, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        while sum(ref.done for ref in refs) < num_returns:
            begun = self.actors[: self.room]
            actors = [a for a in dict.fromkeys(ref.actor for ref in refs) if a.queue and a in begun]
            if not actors:
                assert timeout is not None, "waits for ever"
                break
            self._step(self._random.choice(actors))
        ready = [ref for ref in refs if ref.done]
        done = self._random.sample(ready, min(num_returns, len(ready)))
        return done, [ref for ref in refs if ref not in done]

    def get(self, ref: Ref) -> Any:
        if not ref.done:
            self.wait([ref], 1)
        if ref.error is not None:
            raise ref.error
        return pickle.loads(ref.result)

    def kill(self, actor: Actor, no_restart: bool) -> None:
        assert no_restart
        actor.alive = False
        for ref in actor.queue:
            ref.done, ref.error = True, ActorDiedError()
        actor.queue.clear()

    def _step(self, actor: Actor) -> None:
        ref = actor.queue.pop(0)
        given = pickle.loads(ref.given)
        method = given[1] if ref.method == "work" else ref.method
        self.calls.append(method)
        if self.dies(method, given):
            actor.object = None
            self.restarts += 1
            if ref.retries:
                ref.retries -= 1
                actor.queue.insert(0, ref)
            else:
                ref.done, ref.error = True, ActorDiedError()
            return
        if actor.object is None:
            actor.object = actor.made()
        try:
            ref.result = pickle.dumps(getattr(actor.object, ref.method)(*given))
        except Exception as error:
            ref.error = RayTaskError(pickle.loads(pickle.dumps(error)))
        ref.done = True
