"""Keep mechanisms with state forward-only, because stepping a copy is a second release.

Promises: a mechanism cannot be copied or pickled; it takes one step at a time, whatever the
threads; and it works only in the process that made it, because a fork is a copy. `checkpoint` yields
its state to a `with` block (live threshold noise included, draws made ahead never) and goes on or, if
the block fails, is unusable: the state may have been saved. The store has to see that a state is
resumed once only: data can be copied (docs/guarantee.md, Theorem 12).
"""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NoReturn, TypeAlias

from littlestone._privacy.parameters import BadParameter, whole
from littlestone.errors import LittlestoneError

# Plain data that survives JSON. As sensitive as the stream: it holds live noise and counts.
State: TypeAlias = dict[str, Any]


class MechanismMoved(LittlestoneError, RuntimeError):
    """Report a mechanism whose state was moved, that was forked, or that another thread is using."""


def whole_field(state: State, name: str, least: int | None = 0, most: int | None = None) -> int:
    """Read a whole number of a saved state."""
    value = whole(state.get(name, "missing"), f"the state's {name}", least)
    if most is not None and value > most:
        raise BadParameter(f"the state's {name} is {value}, above {most}")
    return value


def threshold_noise_field(state: State) -> int | None:
    """Return the threshold noise of a saved state, or None if none was drawn."""
    name = "threshold_noise"
    return None if state.get(name) is None else whole_field(state, name, least=None)


class _Step:
    """Guard one step: refuse it when moved, in another process, or while another is under way."""

    def __init__(self, mechanism: "Mechanism") -> None:
        self._mechanism = mechanism
        # A forked child has a copy of the noise and of the counts: it must not go on.
        self._home = os.getpid()
        self._lock = threading.Lock()

    def check(self) -> None:
        """Refuse a step of a mechanism that has moved, or is in another process."""
        if self._mechanism._moved:
            raise MechanismMoved(
                "saving its state failed, so it may not go on: open what was saved"
            )
        if os.getpid() != self._home:
            raise MechanismMoved(
                "it belongs to another process: a fork is a copy, and may not go on"
            )

    def __enter__(self) -> None:
        self.check()
        # Two threads in one step would read the same noise or count one firing for two.
        if not self._lock.acquire(blocking=False):
            raise MechanismMoved("another thread is in a step, and steps are taken one at a time")
        self._mechanism._begun = True

    def __exit__(self, *problem: object) -> None:
        self._lock.release()


class ForwardOnly:
    """Refuse to be copied or pickled, with a reason."""

    def __copy__(self) -> NoReturn:
        raise TypeError("it cannot be copied: a step of the copy would be a second release")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("it cannot be pickled: a pickle is a copy; checkpoint moves the state")


class Mechanism(ForwardOnly, ABC):
    """Spend privacy budget in steps, each of them once."""

    _moved = False
    _begun = False

    def __init__(self) -> None:
        self._step = _Step(self)

    @contextmanager
    def checkpoint(self) -> Iterator[State]:
        """Yield the state to be kept by the `with` block; if it raises, this object is unusable."""
        with self._step:
            # Theorem 12: a block that failed may have saved, so this object must not go on.
            self._moved = True
            yield self._state()
            self._moved = False

    def resume(self, state: State) -> None:
        """Take over a saved state."""
        # A step that was made has spent budget, which the state that is loaded would hide.
        if self._begun or self._moved:
            raise BadParameter("only a mechanism that has not begun can resume a state")
        # Parameters are compared, not trusted: another epsilon would make the counts mean something
        # else.
        theirs = {name: state.get(name) for name in self._identity}
        if self._identity != theirs:
            raise BadParameter(f"the state belongs to {theirs}, not to {self._identity}")
        # A state that cannot be read must leave a dead mechanism, not one with a fresh budget.
        self._begun = self._moved = True
        self._load_state_data(state.get("live", {}))
        self._moved = False

    def _state(self) -> State:
        return {**self._identity, "live": self._state_data()}

    @cached_property
    def _identity(self) -> State:
        """Return kind and parameters: they never change, and may take a while to compute."""
        return {"kind": type(self).__name__, "promise": self._parameters()}

    @abstractmethod
    def _parameters(self) -> State:
        """Return the public parameters on which the guarantee rests."""

    @abstractmethod
    def _state_data(self) -> State:
        """Return what the next step needs."""

    @abstractmethod
    def _load_state_data(self, data: State) -> None:
        """Load what `_state_data` returned."""
