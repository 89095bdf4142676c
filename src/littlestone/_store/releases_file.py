"""The releases file: public, one line for each published rule and each window of evidence.

Promises: a release is in the file before the next row is read; an interrupted run leaves a file
that the next run continues. A line is written once, even if two processes try to. A file with more
releases than the store proves that the store is an old copy: going on from it would release again
for the same rows (docs/guarantee.md, Theorem 12).

Every line says which rule stands from its `round` on, so the last line is the present state. Lines
of kind "release" are published rules; lines of kind "evidence" repeat the rule that stands, with
what is known of its causes once a window has ended.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from littlestone._hypotheses.causes import causes_of
from littlestone._learners.base import Release
from littlestone._learners.evidence import Window, estimate_base, evidence_of
from littlestone._privacy.mechanism import MechanismMoved
from littlestone._store.files import BadStore, OldCopy, file_lock
from littlestone._store.store import Run

# Digits after the point of rates: what a line says must not depend on the version of a library.
DIGITS = 6
# The fields by which a line is known; the others are the same on all lines of a run.
RELEASED = ("kind", "round", "sentence", "rule", "time", "base_rate", "evidence")


def release_to_json(release: Release) -> dict[str, Any]:
    """Return a release as JSON data: its round, the rule as a sentence and as data."""
    rule = release.rule
    return {"round": release.round, "sentence": str(rule), "rule": rule.to_json()}


def release_lines(
    releases: Sequence[Release], windows: Sequence[Window] = ()
) -> list[tuple[Release, dict[str, Any]]]:
    """Return what the lines of a releases file say, without what is the same on all lines."""
    # A window that ends with a change of rule is known before the new rule is: the move itself was
    # drawn after the last round of the window. Of a table, the causes are drawn first, then counted.
    events: list[tuple[int, int, Release | Window]] = [
        *(
            (window.stop + 1, 2 * (window.start == 1 and bool(window.causes)), window)
            for window in windows
        ),
        *((release.round, 1, release) for release in releases),
    ]
    lines: list[tuple[Release, dict[str, Any]]] = []
    ended: list[Window] = []
    for number, _, event in sorted(events, key=lambda one: one[:2]):
        if isinstance(event, Window):
            ended.append(event)
            standing = Release(number, lines[-1][0].rule)
        else:
            standing = event
        kind = "evidence" if isinstance(event, Window) else "release"
        line = {"kind": kind, **release_to_json(standing)}
        lines.append((standing, line | evidence_at(ended, standing)))
    return lines


def evidence_at(windows: Sequence[Window], standing: Release) -> dict[str, Any]:
    """Return what is known of a rule's causes, and of the rows that none matched."""
    if not windows:
        return {}
    evidence = evidence_of(windows, causes_of(standing.rule))
    time = windows[-1].time
    line = {} if time is None else {"time": time}
    line |= _rounded({"base_rate": estimate_base(windows).rate})
    return line | {"evidence": [_rounded(entry.to_json()) for entry in evidence]}


def _rounded(data: Mapping[str, Any]) -> dict[str, Any]:
    return {n: round(v, DIGITS) if isinstance(v, float) else v for n, v in data.items()}


OTHER_RUN = (
    "{path} holds the releases of another run, or lines that this one did not write: choose another "
    "--out"
)


def refuse_begun(path: Path | None) -> None:
    """Refuse a file that holds something, for a store that is not there yet."""
    if path is not None and path.is_file() and path.stat().st_size:
        raise BadStore(OTHER_RUN.format(path=path))


class ReleasesFile:
    """Append what a run has published to a file; without a path, write nothing.

    A store continues its file, which must hold the beginning of what it has published. What is
    kept nowhere is written anew.
    """

    def __init__(self, path: Path | None, run: Run) -> None:
        self._path, self.run, self._count, self._size = path, run, 0, 0
        about = run.about
        self._about = about.terms.label_data | {
            "class": about.terms.spec,
            "horizon": about.chosen.plan.horizon,
        }
        self._name = {} if run.path is None else {"run": run.run}
        self._file: BinaryIO | None = None

    def __enter__(self) -> "ReleasesFile":
        if self._path is not None:
            # In append mode: a write never overwrites a line that is public already.
            self._file = open(self._path, "ab+")
        return self

    def __exit__(self, *problem: object) -> None:
        if self._file is not None:
            self._file.close()

    def refuse_other(self) -> None:
        """Refuse a file that is not of this run; write nothing. A store that is old says so itself."""
        if self._file is None or self.run.path is None:
            return
        try:
            self.run.refuse_if_taken()
            with self._locked(self._file):
                self._missing(self._file)
        except OldCopy:
            # From here on the store says so, also where the releases file is not at hand.
            self.run.mark_old_copy()
            raise

    def begin(self) -> None:
        """Begin the file, or complete it: after a crash lines may be missing, or cut short."""
        if self._file is None:
            return
        with self._locked(self._file):
            # Under the lock: whoever lost the store must not write lines that the new owner writes
            # too.
            self.run.refuse_if_taken()
            if self.run.path is None:
                self._file.truncate(0)
            self._append(self._file, self._missing(self._file))

    def publish(self) -> None:
        """Append the releases, and the windows that ended, that are not in the file yet."""
        # Only what is committed: the learner in memory may be ahead of it.
        public = self.run.published
        if self._file is None or len(public.releases) + len(public.windows) == self._count:
            return
        with self._locked(self._file):
            # Under the lock: else the other process could write between the check and the line.
            if os.fstat(self._file.fileno()).st_size != self._size:
                raise MechanismMoved(
                    f"{self._path} was written by another process: this one may not go on. What it "
                    "has committed is kept, and the other publishes it"
                )
            self._append(self._file, b"".join(map(self._line, self._lines()[self._count :])))

    def _lines(self) -> list[tuple[Release, dict[str, Any]]]:
        return release_lines(self.run.published.releases, self.run.published.windows)

    def _line(self, line: tuple[Release, Mapping[str, Any]]) -> bytes:
        standing, content = line
        guarantee = {"guarantee": self.run.guarantee_up_to(standing)}
        text = json.dumps({**content, **self._about, **guarantee, **self._name}, ensure_ascii=False)
        return text.encode("utf-8", "surrogatepass") + b"\n"

    def _missing(self, file: BinaryIO) -> bytes:
        """Return what the file lacks of what is published; refuse one that holds something else."""
        file.seek(0)
        written, lines = file.read(), self._lines()
        # A line that is public and that the store does not know: the store would draw fresh noise
        # for rounds that it has decided on.
        if self._has_other_lines(written, [content for _, content in lines]):
            raise OldCopy(
                f"{self._path} holds releases that the store does not know: the store is an older "
                "copy, or was continued from one. Going on would publish again for the same rows: "
                "put back the newest one, or begin another with a new budget"
            )
        expected = b"".join(map(self._line, lines))
        if not expected.startswith(written):
            raise BadStore(OTHER_RUN.format(path=self._path))
        return expected[len(written) :]

    def _has_other_lines(self, written: bytes, ours: Sequence[dict[str, Any]]) -> bool:
        """Return whether a line is of this learner and not among those given."""
        # Without label and guarantee: these are the same for all lines of a run.
        lines = [json.loads(json.dumps(line)) for line in ours]
        for text in written.split(b"\n"):
            try:
                line = json.loads(text)
                same_run = all(line[name] == value for name, value in self._name.items())
                released = {n: line[n] for n in line if n in RELEASED} if same_run else {}
            except (ValueError, KeyError, TypeError):
                continue  # a line that was cut short, or written by something else
            if "rule" in released and released not in lines:
                return True
        return False

    def _append(self, file: BinaryIO, data: bytes) -> None:
        file.write(data)
        # To the operating system, not to the disk: the store is the record, and `begin` repeats
        # what a power cut loses.
        file.flush()
        public = self.run.published
        self._count = len(public.releases) + len(public.windows)
        self._size = os.fstat(file.fileno()).st_size

    @contextmanager
    def _locked(self, file: BinaryIO) -> Iterator[None]:
        try:
            with file_lock(file):
                yield
        except BlockingIOError:
            raise BadStore(
                f"{self._path} is locked by another process, which may be suspended: end it first"
            ) from None
