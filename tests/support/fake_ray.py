"""Ray without Ray: actors in this process, whose results come in an order of its choice, and which die on demand and are
started again as their options say.

What is given to an actor and what it returns is pickled and unpickled, as between processes.
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
    pass


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


Deadly = Callable[[str, tuple[Any, ...]], bool]


@dataclass
class FakeRay:
    """`dies` says of each call, by its method and what it is given, whether the actor dies of it."""

    seed: int = 0
    dies: Deadly = lambda _method, _given: False
    actors: list[Actor] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    restarts: int = 0
    exceptions: Any = field(
        default_factory=lambda: SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
    )

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def remote(self, **options: Any) -> Callable[[type], Any]:
        self.options = options
        return lambda kind: SimpleNamespace(remote=lambda *given: self._made(kind, given))

    def _made(self, kind: type, given: tuple[Any, ...]) -> Actor:
        assert self.options["max_restarts"] == -1
        copy = pickle.dumps(given)
        self.actors.append(Actor(lambda: kind(*pickle.loads(copy)), self.options["max_task_retries"]))
        return self.actors[-1]

    def wait(self, refs: list[Ref], num_returns: int, timeout: float | None) -> tuple[list[Ref], list[Ref]]:
        assert num_returns == 1
        done = [ref for ref in refs if ref.done]
        if not done:
            actors = [a for a in dict.fromkeys(ref.actor for ref in refs) if a.queue]
            assert actors, "waits for ever"  # no timeout is simulated
            while not done:
                self._step(self._random.choice([a for a in actors if a.queue]))
                done = [ref for ref in refs if ref.done]
        return [self._random.choice(done)], []

    def get(self, ref: Ref) -> Any:
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
        self.calls.append(ref.method)
        if self.dies(ref.method, given):
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
            ref.error = RayTaskError(str(error))
        ref.done = True
