"""Keep mechanisms with state forward-only, because stepping a copy is a second release.

Promises: such a mechanism (a spender) cannot be copied or pickled; it takes one step at a time,
whatever the threads; and it works only in the process that made it, because a fork is a copy.
`export` returns its state, for a store to move (live threshold noise included, draws made ahead
never), and leaves the exporter unusable. `checkpoint` has its state kept in a `with` block and goes
on, or, if the block fails, is unusable too. The store has to see that a state is resumed once only:
data can be copied.
"""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NoReturn, TypeAlias

from littlestone.errors import LittlestoneError
from littlestone.privacy.parameters import BadParameter, whole

State: TypeAlias = dict[str, Any]
"""Plain data that survives JSON. As sensitive as the stream: it holds live noise and counts."""


class MechanismMoved(LittlestoneError, RuntimeError):
    """Report a mechanism that was exported or forked, or that another thread is stepping."""


def whole_field(live: State, name: str, least: int | None = 0, most: int | None = None) -> int:
    """Read a whole number of an exported state.

    Parameters
    ----------
    live
        The part of the state that changes.
    name
        The field's name.
    least, most
        The range allowed; None is no limit.

    Raises
    ------
    BadParameter
        If it is missing or out of range.
    """
    value = whole(live.get(name, "missing"), f"the state's {name}", least)
    if most is not None and value > most:
        raise BadParameter(f"the state's {name} is {value}, above {most}")
    return value


def threshold_noise_field(live: State) -> int | None:
    """Return the threshold noise of an exported state, or None if none was drawn."""
    return None if live.get("lift") is None else whole_field(live, "lift", least=None)


class _Step:
    """Guard one step: refuse it when moved, in another process, or while another is under way."""

    def __init__(self, spender: "Mechanism") -> None:
        self._spender = spender
        self._home = os.getpid()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if self._spender._moved:
            raise MechanismMoved("this spender was exported; only the place it moved to may go on")
        if os.getpid() != self._home:
            raise MechanismMoved(
                "this spender belongs to another process; export it there, resume it here"
            )
        if not self._lock.acquire(blocking=False):
            raise MechanismMoved(
                "another thread is in the middle of a step: a spender takes one at a time"
            )
        self._spender._begun = True

    def __exit__(self, *problem: object) -> None:
        self._lock.release()


class ForwardOnly:
    """Refuse to be copied or pickled, with a reason."""

    def __copy__(self) -> NoReturn:
        raise TypeError("a spender cannot be copied: stepping a copy is a second release")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a spender cannot be pickled: use export, which is a move")


class Mechanism(ForwardOnly, ABC):
    """Move forward only; subclasses return their `_parameters` and their `_state_data`."""

    _moved = False
    _begun = False

    def __init__(self) -> None:
        self._step = _Step(self)

    def export(self) -> State:
        """Return the whole state; after this, the present object refuses to work."""
        with self._step:
            self._moved = True
            return self._state()

    @contextmanager
    def checkpoint(self) -> Iterator[State]:
        """Yield the state to be kept by the `with` block; if it raises, this object is unusable."""
        with self._step:
            # Nobody knows whether a block that failed has kept: either state may be resumed.
            self._moved = True
            yield self._state()
            self._moved = False

    def resume(self, state: State) -> None:
        """Take over an exported state.

        Raises
        ------
        BadParameter
            If this object has begun, or the state is that of other parameters.
        """
        if self._begun or self._moved:
            raise BadParameter("only a spender that has not begun can resume a state")
        mine = {"kind": type(self).__name__, "promise": self._parameters_kept}
        theirs = {name: state.get(name) for name in mine}
        if mine != theirs:
            raise BadParameter(f"the state belongs to {theirs}, not to {mine}")
        self._begun = self._moved = True
        self._revive(state.get("live", {}))
        self._moved = False  # a state that cannot be read leaves a dead spender, not a fresh budget

    def _state(self) -> State:
        return {
            "kind": type(self).__name__,
            "promise": self._parameters_kept,
            "live": self._state_data(),
        }

    @cached_property
    def _parameters_kept(self) -> State:
        """Return the parameters: they never change, and may take a while to write."""
        return self._parameters()

    @abstractmethod
    def _parameters(self) -> State:
        """Return the public parameters on which the guarantee rests."""

    @abstractmethod
    def _state_data(self) -> State:
        """Return what the next step needs."""

    @abstractmethod
    def _revive(self, live: State) -> None:
        """Restore what `_state_data` returned."""
