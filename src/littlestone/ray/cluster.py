"""The cluster: Ray, started here for as long as the process lasts, or reached at its address."""

import logging
import os
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from littlestone.classes.base import HypothesisClass
from littlestone.errors import LittlestoneError
from littlestone.learners.dpsoa import engine_of
from littlestone.learners.forest import Root
from littlestone.privacy.parameters import BadParameter

if TYPE_CHECKING:
    from littlestone.ray.shards import ShardedForest


CLUSTER_TIMEOUT = 5
"""How many seconds a cluster has to answer the door."""
HEAD_PATIENCE = 30
"""How many seconds the head may be away. After 60 Ray ends the process, without a word."""
HERE = "local"
"""What Ray calls a cluster of its own, on this machine."""


class ClusterLost(LittlestoneError, RuntimeError):
    """A cluster that failed for good."""

    def __init__(self, what: str, why: Exception) -> None:
        said = " ".join(str(why).split())[:200] or "no reason is known"
        super().__init__(
            f"the cluster failed: {what} ({type(why).__name__}: {said}). What a --db has committed "
            "is safe: the same command goes on from there"
        )


@dataclass(frozen=True)
class Ray:
    """The engine `ray`. Without an `address`, a cluster of its own on this machine; `auto` is the
    one that runs here already. `workers` is how many shards there are, and how many blocks of rows
    are looked at together: by default as many as the cluster has cores."""

    address: str = ""
    workers: int | None = None

    remote, largest_window = True, 1 << 18

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise BadParameter(f"an engine has at least one worker, not {self.workers}")

    def connected(self) -> Any:
        """Ray, connected to the cluster."""
        ray = installed()
        if not ray.is_initialized():
            _connect(ray, self.address or HERE)
        elif self.address not in ("", "auto", address := ray.get_runtime_context().gcs_address):
            raise BadParameter(f"this process is connected to another cluster already: {address}")
        return ray

    def count(self) -> int:
        """How many workers there are."""
        ray = self.connected()
        return self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def create_forest(
        self, cls: HypothesisClass, leaves: Sequence[int], seed: int, root: Root, replant: bool
    ) -> "ShardedForest":
        """A forest whose trees grow in shards."""
        from littlestone.ray.shards import ForestSpec, ShardedForest

        return ShardedForest(self, ForestSpec(cls, tuple(leaves), seed, root, replant))


def ray_of(engine: str, workers: int | None) -> Ray:
    """The engine that `--engine` and `--workers` name, if it is installed."""
    found = engine_of(engine)
    assert isinstance(found, Ray), "there is no other by now"
    installed()
    return replace(found, workers=workers)


def installed() -> Any:
    """The module ray, or a sentence that says how to get it."""
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
        os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # we ask for what we need
        import ray
    except ModuleNotFoundError:
        raise BadParameter(
            "the engine ray is not installed: pip install 'littlestone[ray]'"
        ) from None
    return ray


def _connect(ray: Any, address: str) -> None:
    own = {"include_dashboard": False} if address == HERE else {}
    before = os.umask(0o077)  # what Ray spills to disk and logs is for its owner's eyes
    try:
        _answers(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BadParameter(f"there is no Ray cluster to reach at {address!r}: {reason}") from None
    finally:
        os.umask(before)


def _answers(address: str) -> None:
    """Ray would try an address at which nobody answers for many minutes."""
    if "://" in address:
        raise ValueError("run on a machine of the cluster, and say HOST:PORT or auto")
    host, found, port = address.rpartition(":")
    if found and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), CLUSTER_TIMEOUT).close()


@contextmanager
def redirect_output(engine: str | None) -> Iterator[None]:
    """For a command: what Ray has to say goes to standard error, and it ends with the command.

    Raises
    ------
    ClusterLost
        For whatever Ray raises: a sentence, and not a traceback.
    """
    if engine is None:
        yield
        return
    if sys.stderr.isatty():
        sys.stderr.write("connecting to Ray ...\n")
    over = threading.Event()
    threading.Thread(target=_watch_cluster, args=(over,), daemon=True).start()
    with redirect_stdout(sys.stderr):
        try:
            yield
        except Exception as error:
            _raise_plainly(error)
        finally:
            over.set()
            if "ray" in sys.modules:
                sys.modules["ray"].shutdown()


def _raise_plainly(error: Exception) -> NoReturn:
    """Raise `ClusterLost` for an error of Ray itself, and any other as it is."""
    cause, ray = error, sys.modules.get("ray")
    if ray is not None:
        cause = cause_of(ray, error)
        if isinstance(cause, ray.exceptions.RayError) or type(cause).__module__.startswith("ray."):
            raise ClusterLost("Ray gave up", cause) from None
    raise cause from (None if cause is error else error)


def _watch_cluster(over: threading.Event) -> None:
    """End this process with a sentence when the cluster is gone for good.

    Ray ends a process that has lost the node it is connected to, or the head, from within and
    without a word; nothing can be caught. So somebody looks, and says it before. Ending at any
    moment is safe: what is not committed is learned again (tests/soak.py).
    """
    doors: list[_Door] = []
    while not over.wait(1):
        doors = doors or list(_doors())
        for door in doors:
            if door.is_gone() and not over.is_set():
                sys.stderr.write(
                    f"error: {ClusterLost(door.what, ConnectionError('nobody answers'))}\n"
                )
                sys.stderr.flush()
                os._exit(2)


def _doors() -> "Iterator[_Door]":
    """What this process is connected to, once it is. A node does not come back; a head may be
    started again."""
    ray = sys.modules.get("ray")
    node = getattr(getattr(getattr(ray, "_private", None), "worker", None), "_global_node", None)
    if node is not None:
        host, _, port = str(node.gcs_address).rpartition(":")
        head = host.strip("[]"), int(port)
        yield _Door("the Ray node of this command has died", node.raylet_socket_name, 0)
        yield _Door("the head of the Ray cluster has died", head, HEAD_PATIENCE)


class _Door:
    """A connection that is held and not used: it breaks when the other end dies.

    Parameters
    ----------
    what
        What is wrong when nobody answers, for the person.
    address
        Of a Unix socket, or a host and a port.
    patience
        For how many seconds nobody may answer.
    """

    def __init__(self, what: str, address: str | tuple[str, int], patience: float) -> None:
        self.what, self._address, self._patience = what, address, patience
        self._held: socket.socket | None = None
        self._since: float | None = None

    def is_gone(self) -> bool:
        """Whether nobody has answered for too long."""
        if self._stands() or self._opens():
            self._since = None
            return False
        self._since = self._since or time.monotonic()
        return time.monotonic() - self._since >= self._patience

    def _stands(self) -> bool:
        """Whether the connection is there. Read first what came: the end is behind it."""
        try:
            while self._held is not None and self._held.recv(1 << 16):
                pass
        except BlockingIOError:
            return True
        except OSError:
            pass
        if self._held is not None:
            self._held.close()
        self._held = None
        return False

    def _opens(self) -> bool:
        family = socket.AF_UNIX if isinstance(self._address, str) else socket.AF_INET
        if isinstance(self._address, tuple) and ":" in self._address[0]:
            family = socket.AF_INET6
        held = socket.socket(family, socket.SOCK_STREAM)
        held.settimeout(CLUSTER_TIMEOUT)
        try:
            held.connect(self._address)
        except OSError as error:
            held.close()
            return isinstance(error, TimeoutError)  # busy, not gone
        held.setblocking(False)
        self._held = held
        return True


@contextmanager
def plain_error(ray: Any) -> Iterator[None]:
    """What went wrong in a task, as it was said there."""
    try:
        yield
    except ray.exceptions.RayError as error:
        cause = cause_of(ray, error)
        if isinstance(cause, ray.exceptions.RayError):
            raise ClusterLost("rows could not be read", cause) from None
        raise cause from error


def cause_of(ray: Any, error: Exception) -> Exception:
    """What went wrong in a task, without Ray's account of it."""
    while isinstance(error, ray.exceptions.RayTaskError):
        error = error.cause
    return error


def ray_data() -> Any:
    """The module ray.data, quietly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray.data

        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # errors are raised, too
        ray.data.DataContext.get_current()  # warns of its own names when it is made
    return ray.data
