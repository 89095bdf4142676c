"""Spenders: objects that go forward only, because stepping a copy again is a second release.

Promises: a spender cannot be copied or pickled, and works in the process that made it only, because
a fork is a copy. `export` hands its state over once, for a store to move (live threshold noise
included, draws made ahead never), and leaves the exporter dead.
"""

import os
from abc import ABC, abstractmethod
from typing import Any, NoReturn, TypeAlias

from littlestone.privacy.exact import BadParameter

State: TypeAlias = dict[str, Any]
"""Plain data that survives JSON. As sensitive as the stream: it holds live noise and counts."""


class Moved(RuntimeError):
    """The spender was exported or forked: its budget lives elsewhere."""


class Spender(ABC):
    """Forward only. Subclasses say what is promised (`_promise`) and what changes (`_live`)."""

    _moved = False
    _begun = False

    def __init__(self) -> None:
        self._home = os.getpid()

    def export(self) -> State:
        """The whole state, handed over: after this, the present object refuses to work."""
        self._go_on()
        self._moved = True
        return {"kind": type(self).__name__, "promise": self._promise(), "live": self._live()}

    def resume(self, state: State) -> None:
        """Take over an exported state. Only a fresh spender with the same promise may."""
        if self._begun or self._moved:
            raise BadParameter("only a spender that has not begun can resume a state")
        mine = {"kind": type(self).__name__, "promise": self._promise()}
        theirs = {name: state.get(name) for name in mine}
        if mine != theirs:
            raise BadParameter(f"the state belongs to {theirs}, not to {mine}")
        self._begun = True
        self._revive(state["live"])

    def _go_on(self) -> None:
        """Every verb starts here."""
        if self._moved:
            raise Moved("this spender was exported; only the place it moved to may go on")
        if os.getpid() != self._home:
            raise Moved("this spender belongs to another process; export it there, resume it here")
        self._begun = True

    @abstractmethod
    def _promise(self) -> State:
        """The public parameters on which the guarantee rests."""

    @abstractmethod
    def _live(self) -> State:
        """What the next step needs."""

    @abstractmethod
    def _revive(self, live: State) -> None:
        """The inverse of `_live`."""

    def __copy__(self) -> NoReturn:
        raise TypeError("a spender cannot be copied: stepping a copy is a second release")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a spender cannot be pickled: use export, which is a move")
