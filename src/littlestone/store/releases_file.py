"""The releases file: public, a line for each published rule, and a witness of what was published.

Promises: a release is in the file before the next row is read; a run that is interrupted leaves a
file that goes on where it stopped. A line is written once, though two processes may have come to
write it. A file that knows more than a store proves that the store is an old copy, put back: going
on from it would release again for the same rows.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from littlestone.learners.base import Release
from littlestone.privacy.mechanism import MechanismMoved
from littlestone.store.files import file_lock
from littlestone.store.serialization import BadStore, OldCopy


def release_to_json(release: Release) -> dict[str, Any]:
    """Return a release as JSON data: its first round, the rule as a sentence and as data.

    >>> from littlestone.hypotheses.base import NEVER
    >>> release_to_json(Release(1, NEVER))
    {'round': 1, 'sentence': 'never', 'rule': {'kind': 'constant', 'answer': False}}
    """
    rule = release.rule
    return {"round": release.round, "sentence": str(rule), "rule": rule.to_json()}


class ReleasesFile:
    """Append releases to a file; without a path, nothing is written.

    Parameters
    ----------
    path : Path or None
        Where it is.
    guarantee : str or callable
        What all releases together promise, or what the releases up to a given one do; it is on
        every line.
    run : str, optional
        The public name of a stored learner: it is on every line, so that the releases of one
        learner are not taken for those of another that began with the same rule.
    """

    def __init__(
        self,
        path: Path | None,
        guarantee: str | Callable[[Release], str],
        run: str | None = None,
    ) -> None:
        self._path, self._count, self._size = path, 0, 0
        self._guarantee = guarantee
        self._more = {} if run is None else {"run": run}
        self._file: BinaryIO | None = None

    def __enter__(self) -> "ReleasesFile":
        if self._path is not None:
            self._file = open(self._path, "ab+")
        return self

    def __exit__(self, *problem: object) -> None:
        if self._file is not None:
            self._file.close()

    def begin(self) -> None:
        """Write over what there is."""
        if self._file is not None:
            with self._held(self._file):
                self._file.truncate(0)

    def catch_up(self, releases: Iterable[Release], still_ours: Callable[[], None]) -> None:
        """Go on with what there is, which must be the beginning of these releases.

        Parameters
        ----------
        releases : iterable of Release
            All releases of the learner.
        still_ours : callable
            Raises if another process has taken the learner over: then more lines than these are no
            sign of an old copy.

        Raises
        ------
        OldCopy
            If the file holds releases of this learner that are not among these: it went on from
            the same state twice, or is about to.
        BadStore
            If it holds those of another run.
        """
        if self._file is None:
            return
        with self._held(self._file):
            # Under the lock of the file: a successor of this process may have just written to it.
            still_ours()
            self._file.seek(0)
            # Bytes are compared, not lines: the last line may have been cut short.
            said = tuple(releases)
            found, known = self._file.read(), b"".join(map(self._line, said))
            if self._knows_more(found, said):
                raise OldCopy(
                    f"{self._path} holds releases that the store does not know: the store is an "
                    "older copy, or was gone on with from one. Going on would publish again for "
                    "the same rows: put back the newest one, or begin another with a new budget"
                )
            if not known.startswith(found):
                raise BadStore(
                    f"{self._path} holds the releases of another run, or lines that this one did "
                    "not write: choose another --out"
                )
            self._append(self._file, known[len(found) :])
            self._count, self._size = len(said), len(known)

    def publish(self, releases: tuple[Release, ...]) -> None:
        """Append the releases that are not in the file yet.

        Raises
        ------
        MechanismMoved
            If the file is not as this process left it: another has gone on with the learner while
            this one was stopped between its commit and this line, and has written the line too.
        """
        if self._file is None or len(releases) == self._count:
            return
        with self._held(self._file):
            # The file only grows, so its size shows whether another process has written.
            if os.fstat(self._file.fileno()).st_size != self._size:
                raise MechanismMoved(
                    f"{self._path} was written by another process: this one may not go on. What it "
                    "has committed is kept, and the other publishes it"
                )
            new = b"".join(map(self._line, releases[self._count :]))
            self._append(self._file, new)
            self._count, self._size = len(releases), self._size + len(new)

    def _knows_more(self, found: bytes, said: tuple[Release, ...]) -> bool:
        """Return whether a line is a release of this learner that is not among those given."""
        known = [release_to_json(release) for release in said]
        for line in found.split(b"\n"):
            try:
                written = json.loads(line)
                ours = all(written[name] == value for name, value in self._more.items())
                told = {name: written[name] for name in known[0]}
            except (ValueError, KeyError, TypeError):
                continue  # a line that was cut short, or is not ours
            if ours and told not in known:
                return True
        return False

    @contextmanager
    def _held(self, file: BinaryIO) -> Iterator[None]:
        try:
            with file_lock(file):
                yield
        except BlockingIOError:
            raise BadStore(
                f"{self._path} is held by another process, which may be stopped: end that one first"
            ) from None

    @staticmethod
    def _append(file: BinaryIO, data: bytes) -> None:
        file.write(data)
        file.flush()

    def _line(self, release: Release) -> bytes:
        held = self._guarantee
        said = held if isinstance(held, str) else held(release)
        line = release_to_json(release) | {"guarantee": said} | self._more
        return json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
