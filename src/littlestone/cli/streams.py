"""Catch the signals that end sources without an end."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def stop_on_signal(endless: bool) -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set, if rows may come without an end.

    The first signal ends the run after what is being learned; a second SIGINT interrupts it.

    Parameters
    ----------
    endless : bool
        Otherwise signals are left as they are.
    """
    stop = threading.Event()
    before: dict[int, Any] = {}

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[number])

    if endless and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, end)
    try:
        yield stop
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)
