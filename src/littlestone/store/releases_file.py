"""The releases file: public, one line for each published rule.

Promises: a release is in the file before the next row is read; an interrupted run leaves a file
that the next run continues. A line is written once, even if two processes try to. A file with more
releases than the store proves that the store is an old copy: going on from it would release again
for the same rows (docs/guarantee.md, Theorem 12).
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
    """Return a release as JSON data: its round, the rule as a sentence and as data.

    Examples
    --------
    >>> from littlestone.hypotheses.rules import NEVER
    >>> release_to_json(Release(1, NEVER))
    {'round': 1, 'sentence': 'never', 'rule': {'kind': 'constant', 'answer': False}}
    """
    rule = release.rule
    return {"round": release.round, "sentence": str(rule), "rule": rule.to_json()}


class ReleasesFile:
    """Append releases to a file; without a path, write nothing.

    Parameters
    ----------
    path : Path or None
        Where it is.
    guarantee : str or callable
        The guarantee of all releases together, or a function that returns that of the releases up
        to a given one. It is on every line.
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
            # In append mode: a write never overwrites a line that is public already.
            self._file = open(self._path, "ab+")
        return self

    def __exit__(self, *problem: object) -> None:
        if self._file is not None:
            self._file.close()

    def begin(self) -> None:
        """Empty the file."""
        if self._file is not None:
            with self._locked(self._file):
                self._file.truncate(0)

    def catch_up(self, releases: Iterable[Release], still_ours: Callable[[], None]) -> None:
        """Continue the file, which must hold the beginning of these releases.

        Parameters
        ----------
        releases : iterable of Release
            All releases of the learner.
        still_ours : callable
            Raises an error if another process has taken over the learner: then further lines are no
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
        with self._locked(self._file):
            # Under the lock: whoever lost the store must not write lines that the new owner writes
            # too.
            still_ours()
            self._file.seek(0)
            ours = tuple(releases)
            found, known = self._file.read(), b"".join(map(self._line, ours))
            # A release that is public and that the store does not know: the store would draw fresh
            # noise for rounds that it has decided on.
            if self._has_other_releases(found, ours):
                raise OldCopy(
                    f"{self._path} holds releases that the store does not know: the store is an "
                    "older copy, or was continued from one. Going on would publish again for the "
                    "same rows: put back the newest one, or begin another with a new budget"
                )
            if not known.startswith(found):
                raise BadStore(
                    f"{self._path} holds the releases of another run, or lines that this one did "
                    "not write: choose another --out"
                )
            # Lines that were committed and not written before a crash, and the rest of a line cut
            # short.
            self._append(self._file, known[len(found) :])
            self._count, self._size = len(ours), len(known)

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
        with self._locked(self._file):
            # Under the lock: else the other process could write between the check and the line.
            if os.fstat(self._file.fileno()).st_size != self._size:
                raise MechanismMoved(
                    f"{self._path} was written by another process: this one may not go on. What it "
                    "has committed is kept, and the other publishes it"
                )
            new = b"".join(map(self._line, releases[self._count :]))
            self._append(self._file, new)
            self._count, self._size = len(releases), self._size + len(new)

    def _has_other_releases(self, found: bytes, ours: tuple[Release, ...]) -> bool:
        """Return whether a line is a release of this learner that is not among those given."""
        known = [release_to_json(release) for release in ours]
        for line in found.split(b"\n"):
            try:
                written = json.loads(line)
                same_run = all(written[name] == value for name, value in self._more.items())
                release = {name: written[name] for name in known[0]}
            except (ValueError, KeyError, TypeError):
                continue  # a line that was cut short, or written by something else
            if same_run and release not in known:
                return True
        return False

    @contextmanager
    def _locked(self, file: BinaryIO) -> Iterator[None]:
        try:
            with file_lock(file):
                yield
        except BlockingIOError:
            raise BadStore(
                f"{self._path} is locked by another process, which may be suspended: end it first"
            ) from None

    @staticmethod
    def _append(file: BinaryIO, data: bytes) -> None:
        file.write(data)
        # To the operating system, not to the disk: the store is the record, and `catch_up` repeats
        # what a power cut loses.
        file.flush()

    def _line(self, release: Release) -> bytes:
        given = self._guarantee
        guarantee = given if isinstance(given, str) else given(release)
        line = release_to_json(release) | {"guarantee": guarantee} | self._more
        return json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
