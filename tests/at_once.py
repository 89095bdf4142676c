"""A stand-in for the module ray that runs every call at once, and loses what a test names.

With it a shard can be lost before every single call there is, which no real cluster could stage.
The real one has its own tests.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import ray
from ray.exceptions import ActorDiedError, WorkerCrashedError

from littlestone._ray import Ray

How: TypeAlias = Literal["dies", "died", "misses"]


class Answer(NamedTuple):
    """What a call came to."""

    value: Any
    error: Exception | None = None


@dataclass
class AtOnce:
    """The module. `lost` says whether something goes wrong before a shard's next call, `how` what
    does: the shard dies, and the call with it; it died while nobody asked; or the call fails, and
    the shard is well."""

    lost: Callable[[], bool] = lambda: False
    how: How = "dies"
    exceptions: Any = ray.exceptions
    actors: list["Actor"] = field(default_factory=list)

    tasks: list[str] = field(default_factory=list)
    # What the driver has got.
    fetched: list[Any] = field(default_factory=list)

    def remote(self, kind: Any) -> "Maker | Task":
        return Maker(self, kind) if isinstance(kind, type) else Task(self, kind)

    def put(self, value: object) -> "Answer":
        return Answer(value)

    def get(self, asked: Any) -> Any:
        if isinstance(asked, list):
            return [self.get(one) for one in asked]
        self.fetched.append(resolved(asked))
        return self.fetched[-1]

    def wait(self, asked: list[Answer], **_: object) -> None:
        assert asked


def resolved(argument: Any) -> Any:
    """What an address stands for; anything else is itself."""
    if not isinstance(argument, Answer):
        return argument
    if argument.error is not None:
        raise argument.error
    return argument.value


class Maker(NamedTuple):
    cluster: AtOnce
    kind: type

    def options(self, **_: object) -> "Maker":
        return self

    def remote(self, *arguments: Any) -> "Actor":
        self.cluster.actors.append(Actor(self.cluster, partial(self.kind, *arguments)))
        return self.cluster.actors[-1]


class Task(NamedTuple):
    """A function of objects and of addresses of objects. What it returns is a copy."""

    cluster: AtOnce
    function: Callable[..., Any]
    returns: int = 1

    def options(self, num_returns: int) -> "Task":
        return self._replace(returns=num_returns)

    def remote(self, *arguments: Any) -> Answer | list[Answer]:
        self.cluster.tasks.append(self.function.__name__)
        try:
            found = pickle.loads(pickle.dumps(self.function(*map(resolved, arguments))))
        except Exception as error:
            answers = [Answer(None, error)] * self.returns
        else:
            answers = [Answer(part) for part in (found if self.returns > 1 else [found])]
        return answers if self.returns > 1 else answers[0]


class Actor:
    """A shard that is started again without its memory when it is lost, as Ray does it."""

    def __init__(self, cluster: AtOnce, make: Callable[[], Any]) -> None:
        self._cluster, self._make = cluster, make
        self._shard = make()

    def __getattr__(self, name: str) -> "Method":
        return Method(self, name)

    def call(self, name: str, *arguments: Any) -> Answer:
        if self._cluster.lost():
            if self._cluster.how == "misses":
                return Answer(None, WorkerCrashedError())
            self._shard = self._make()
            if self._cluster.how == "dies":
                return Answer(None, ActorDiedError())
        try:
            return Answer(getattr(self._shard, name)(*map(resolved, arguments)))
        except Exception as error:
            return Answer(None, error)


class Method(NamedTuple):
    actor: Actor
    name: str

    def remote(self, *arguments: Any) -> Answer:
        return self.actor.call(self.name, *arguments)


@dataclass(frozen=True)
class Pretended(Ray):
    """An engine whose cluster is the stand-in."""

    cluster: AtOnce = field(default_factory=AtOnce)

    def connected(self) -> Any:
        return self.cluster


def losing(fatal: int, how: How) -> AtOnce:
    """A cluster in which the call of this number, counted from 0, goes wrong, and no other."""
    left = iter(range(fatal, -1, -1))
    return AtOnce(lambda: next(left, -1) == 0, how)
