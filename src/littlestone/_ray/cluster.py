"""The cluster: Ray, started for as long as the process lasts, or reached at its address."""

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from littlestone._classes.base import HypothesisClass
from littlestone._learners.dpsoa import Engine, engine_of
from littlestone._learners.forest import Root
from littlestone._privacy.parameters import BadParameter
from littlestone.errors import LittlestoneError

if TYPE_CHECKING:
    from littlestone._ray.shards import ShardedForest


# Seconds in which a cluster must accept a connection.
CLUSTER_TIMEOUT = 5
# Seconds for which the head may be unreachable. After 60 Ray ends the process silently.
HEAD_TIMEOUT = 30
# Ray's address for a new cluster on this machine.
LOCAL = "local"


class ClusterLost(LittlestoneError, RuntimeError):
    """Report a cluster that failed for good."""

    def __init__(self, what: str, why: Exception) -> None:
        reason = " ".join(str(why).split())[:200] or "no reason is known"
        super().__init__(
            f"the cluster failed: {what} ({type(why).__name__}: {reason}). What a --db has "
            "committed is safe: the same command goes on from there"
        )


@dataclass(frozen=True)
class Ray(Engine):
    """Run a learner on a Ray cluster.

    Parameters
    ----------
    address
        The cluster; "auto" is the one that runs on this machine, and "" a new one.
    workers
        How many shards there are, and how many blocks of rows are evaluated together; by default
        as many as the cluster has cores.
    """

    address: str = ""
    workers: int | None = None

    remote, largest_window = True, 1 << 18

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise BadParameter(f"an engine has at least one worker, not {self.workers}")

    def connected(self) -> Any:
        """Return the module ray, connected to the cluster."""
        ray = installed()
        if not ray.is_initialized():
            _connect(ray, self.address or LOCAL)
        elif self.address not in ("", "auto", address := ray.get_runtime_context().gcs_address):
            raise BadParameter(f"this process is connected to another cluster already: {address}")
        return ray

    def count(self) -> int:
        """Return the number of workers."""
        ray = self.connected()
        return self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def create_forest(
        self, cls: HypothesisClass, leaves: Sequence[int], seed: int, root: Root, replant: bool
    ) -> "ShardedForest":
        """Implement `Engine.create_forest`: the trees grow in shards."""
        from littlestone._ray.shards import ForestSpec, ShardedForest

        return ShardedForest(self, ForestSpec(cls, tuple(leaves), seed, root, replant))


def ray_of(engine: str, workers: int | None) -> Ray:
    """Return the engine that `--engine` and `--workers` name."""
    made = engine_of(engine)
    assert isinstance(made, Ray), "ray is the only engine"
    installed()
    return replace(made, workers=workers)


def installed() -> Any:
    """Return the module ray, or raise `BadParameter` if it is not installed."""
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
        os.environ.setdefault(
            "RAY_IGNORE_UNHANDLED_ERRORS", "1"
        )  # we fetch the results that we need
        import ray
    except ModuleNotFoundError:
        raise BadParameter(
            "the engine ray is not installed: pip install 'littlestone[ray]'"
        ) from None
    return ray


def _connect(ray: Any, address: str) -> None:
    options = {"include_dashboard": False} if address == LOCAL else {}
    before = os.umask(0o077)  # what Ray spills and logs is as sensitive as the data
    try:
        _check_address(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BadParameter(f"there is no Ray cluster to reach at {address!r}: {reason}") from None
    finally:
        os.umask(before)


def _check_address(address: str) -> None:
    """Raise an error for an address without a server; Ray would try it for many minutes."""
    if "://" in address:
        raise ValueError("run on a machine of the cluster, and give HOST:PORT or auto")
    # "auto" and "local" have no port: Ray finds them itself.
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), CLUSTER_TIMEOUT).close()


@contextmanager
def redirect_output(engine: str | None) -> Iterator[None]:
    """Send Ray's output to standard error, and shut Ray down at the end; for commands."""
    if engine is None:
        yield
        return
    if sys.stderr.isatty():
        sys.stderr.write("connecting to Ray ...\n")
    done = threading.Event()
    threading.Thread(target=_watch_cluster, args=(done,), daemon=True).start()
    with redirect_stdout(sys.stderr):
        try:
            yield
        except Exception as error:
            raise_cause(error)
        finally:
            done.set()
            if "ray" in sys.modules:
                sys.modules["ray"].shutdown()


def raise_cause(error: Exception) -> NoReturn:
    """Raise `ClusterLost` for an error of Ray itself, and any other as it is."""
    cause, ray = error, sys.modules.get("ray")
    if ray is not None:
        cause = task_cause(ray, error)
        if isinstance(cause, ray.exceptions.RayError) or type(cause).__module__.startswith("ray."):
            raise ClusterLost("Ray gave up", cause) from None
    raise cause from (None if cause is error else error)


def _watch_cluster(done: threading.Event) -> None:
    """End this process with a sentence when the cluster is gone for good."""
    peers: list[Peer] = []
    while not done.wait(1):
        peers = peers or list(peers_of_process())
        for peer in peers:
            if peer.is_gone() and not done.is_set():
                sys.stderr.write(
                    f"error: {ClusterLost(peer.message, ConnectionError('no answer'))}\n"
                )
                # _exit: in this thread sys.exit would end the thread only.
                sys.stderr.flush()
                os._exit(2)


def peers_of_process() -> "Iterator[Peer]":
    """Yield what this process is connected to, once it is."""
    ray = sys.modules.get("ray")
    node = getattr(getattr(getattr(ray, "_private", None), "worker", None), "_global_node", None)
    if node is not None:
        host, _, port = str(node.gcs_address).rpartition(":")
        head = host.strip("[]"), int(port)
        # A node does not come back; a head may be started again.
        yield Peer("the Ray node of this command has died", node.raylet_socket_name, 0)
        yield Peer("the head of the Ray cluster has died", head, HEAD_TIMEOUT)


class Peer:
    """Watch a process through an idle connection, which breaks when the process dies."""

    def __init__(self, message: str, address: str | tuple[str, int], timeout: float) -> None:
        self.message, self._address, self._timeout = message, address, timeout
        self._socket: socket.socket | None = None
        self._since: float | None = None

    def is_gone(self) -> bool:
        """Return whether the process has been unreachable for too long."""
        if self._is_connected() or self._connect():
            self._since = None
            return False
        self._since = self._since or time.monotonic()
        return time.monotonic() - self._since >= self._timeout

    def _is_connected(self) -> bool:
        """Return whether the connection is open, after reading what precedes its end."""
        try:
            while self._socket is not None and self._socket.recv(1 << 16):
                pass
        except BlockingIOError:
            return True
        except OSError:
            pass
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        return False

    def _connect(self) -> bool:
        family = socket.AF_UNIX if isinstance(self._address, str) else socket.AF_INET
        if isinstance(self._address, tuple) and ":" in self._address[0]:
            family = socket.AF_INET6
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(CLUSTER_TIMEOUT)
        try:
            connection.connect(self._address)
        except OSError as error:
            connection.close()
            return isinstance(error, TimeoutError)  # the process is busy, not gone
        connection.setblocking(False)
        self._socket = connection
        return True


@contextmanager
def task_errors(ray: Any) -> Iterator[None]:
    """Raise what was raised in a task, without Ray's wrapping."""
    try:
        yield
    except ray.exceptions.RayError as error:
        cause = task_cause(ray, error)
        if isinstance(cause, ray.exceptions.RayError):
            raise ClusterLost("rows could not be read", cause) from None
        raise cause from error


def task_cause(ray: Any, error: Exception) -> Exception:
    """Return the error that was raised in a task, without Ray's wrapping."""
    while isinstance(error, ray.exceptions.RayTaskError):
        error = error.cause
    return error
