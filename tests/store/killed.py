"""Processes that are killed: at a statement of SQL, when a file gets its name, or at some time."""

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

# Statements that may change a file; those between them read.
WRITES = (
    "BEGIN",
    "COMMIT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "PRAGMA user_version =",
    "PRAGMA journal",
)


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def forked(work: Callable[[], object], seconds: float | None = None) -> bool:
    """Run something in a fork, killed after some seconds; return whether it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, "it failed, and was not killed"
        return True
    assert os.WTERMSIG(status) == signal.SIGKILL
    return False


def kill_at_every_write(work: Callable[[], object]) -> Iterator[int]:
    """Run something in forks, killed at its first write, its second, ...; at last not at all.

    After each, what it left is there to be checked.
    """
    for number in range(1, 1000):
        if forked(partial(_killed_at, number, work)):
            return
        yield number
    raise AssertionError("it never came to its end")


def _killed_at(number: int, work: Callable[[], object]) -> None:
    left, connect, link = number, sqlite3.connect, os.link

    def count(statement: str) -> None:
        nonlocal left
        left -= statement.startswith(WRITES)
        if not left:
            kill_self()

    def counted(*arguments: Any, **more: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*arguments, **more)
        db.set_trace_callback(count)
        return db

    def counted_link(*arguments: Any) -> None:
        count("BEGIN")
        link(*arguments)
        count("COMMIT")

    # In this process only, which is about to be killed.
    for owner, name, replaced in (
        (sqlite3, "connect", counted),
        (os, "link", counted_link),
    ):
        setattr(owner, name, replaced)
    work()
