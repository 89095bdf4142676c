"""The releases file: public, a line for each published rule, and a witness of what was published.

Promises: a release is in the file before the next row is read; a run that is interrupted leaves a
file that goes on where it stopped. A file that knows more than a store proves that the store is an
old copy, put back: going on from it would release again for the same rows.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

from littlestone.edge.about import BadStore
from littlestone.learning.releases import Release


def release_to_json(release: Release) -> dict[str, Any]:
    """A release as JSON data: the round from which it stands, the rule as a sentence and as data.

    >>> from littlestone.theory.hypothesis import NEVER
    >>> release_to_json(Release(1, NEVER))
    {'round': 1, 'sentence': 'never', 'rule': {'kind': 'constant', 'answer': False}}
    """
    rule = release.rule
    return {"round": release.round, "sentence": str(rule), "rule": rule.to_json()}


class ReleasesFile:
    """The file of releases, open for appending; without a path, nothing is written. Each line has
    the guarantee of the releases up to it."""

    def __init__(self, path: Path | None, guarantee: str | Callable[[Release], str]) -> None:
        self._path, self._guarantee, self._count = path, guarantee, 0
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
            self._file.truncate(0)

    def catch_up(self, releases: Iterable[Release]) -> None:
        """Go on with what there is, which must be the beginning of these releases."""
        if self._file is None:
            return
        self._file.seek(0)
        found, known = self._file.read(), b"".join(map(self._line, releases))
        if found.startswith(known) and found != known:
            raise BadStore(
                f"{self._path} holds releases that the store does not know: the store is an older "
                "copy. Going on from it would publish again for the same rows: put back a newer one"
            )
        if not known.startswith(found):
            raise BadStore(f"{self._path} holds the releases of another run: choose another --out")
        self._file.write(known[len(found) :])
        self._file.flush()
        self._count = known.count(b"\n")

    def publish(self, releases: tuple[Release, ...]) -> None:
        """Append the releases that are not in the file yet."""
        if self._file is None or len(releases) == self._count:
            return
        self._file.write(b"".join(map(self._line, releases[self._count :])))
        self._file.flush()
        self._count = len(releases)

    def _line(self, release: Release) -> bytes:
        held = self._guarantee
        said = held if isinstance(held, str) else held(release)
        line = release_to_json(release) | {"guarantee": said}
        return json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
