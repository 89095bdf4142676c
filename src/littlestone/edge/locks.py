"""Locks on files, which end with the process that holds them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

PAUSE = 0.02
PATIENCE = 5.0
"""Seconds to wait for whoever holds a lock."""


@contextmanager
def held(file: IO[Any], patience: float = PATIENCE) -> Iterator[None]:
    """Hold a file against others who do the same.

    Raises
    ------
    BlockingIOError
        If another process still holds it after `patience` seconds.
    """
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock  # not on every system

    until = time.monotonic() + patience
    while True:
        try:
            flock(file, LOCK_EX | LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(PAUSE)
    try:
        yield
    finally:
        flock(file, LOCK_UN)
