"""Define the options of sources without an end, and catch the signals that end them."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

KafkaOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-option",
        metavar="KEY=VALUE",
        help="For kafka://: a setting of librdkafka, such as security.protocol=SSL. Can be "
        "repeated. Secrets belong in --kafka-config.",
    ),
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="For kafka://: settings of librdkafka, a KEY=VALUE a line."),
]


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
