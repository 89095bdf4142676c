"""News: what is published, as clients see it, and the stream of events. All of it is public.

An event carries a mark: rounds, releases, a digest of the rules, and a code that only the key of
the learner can make. A subscriber that comes back with a mark which is ahead of the store, or of
another history, is a witness that the file is an old copy; a forged mark says nothing.
"""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from littlestone.service.writer import PublicState
from littlestone.store.releases_file import release_to_json

BEAT = 15.0
"""Seconds of silence after which a stream shows that it is alive."""

PACE = 0.25
"""Seconds between two events of a stream, at least."""


class StreamPosition(NamedTuple):
    """Where a history was: rounds, releases, a digest of the rules released."""

    rounds: int
    releases: int
    digest: str

    def signed(self, key: bytes) -> str:
        """The mark as an id of an event.

        >>> read_mark(Mark(7, 1, "00").signed(b"key"), b"key")
        Mark(rounds=7, releases=1, digest='00')
        """
        text = f"{self.rounds}-{self.releases}-{self.digest}"
        return f"{text}-{_code(key, text)}"


def read_position(text: str, key: bytes) -> StreamPosition | None:
    """The mark that an id tells of, if it was made with the key.

    >>> read_mark("7-1-00-forged", b"key")
    """
    said, _, code = text.rpartition("-")
    if not hmac.compare_digest(code.encode(), _code(key, said).encode()):
        return None
    rounds, releases, digest = said.split("-")
    return StreamPosition(int(rounds), int(releases), digest)


def _code(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32]


class EventHub:
    """What is published now. Lives in the event loop, which tells it after each commit."""

    def __init__(self, public: PublicState, key: bytes) -> None:
        self._key = key
        self._changed = asyncio.Event()
        self.releases: list[dict[str, Any]] = []
        self._digests = [""]
        self.closed = False
        self.stale = False
        self.public = public
        self._note(None)

    def publish(self, public: PublicState) -> None:
        """This is on disk now."""
        self.public = public
        self._note(datetime.now(UTC).isoformat(timespec="seconds"))
        self._wake()

    def close(self) -> None:
        """End every stream."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    def _note(self, at: str | None) -> None:
        """Take in the releases that are new; `at` is when they came, if this process saw it."""
        for release in self.public.published.releases[len(self.releases) :]:
            number = {"number": len(self.releases) + 1}
            self.releases.append(number | release_to_json(release) | {"since": at})
            line = json.dumps([self._digests[-1], release.round, release.rule.to_json()])
            self._digests.append(hashlib.sha256(line.encode()).hexdigest()[:16])

    @property
    def mark(self) -> StreamPosition:
        """Where the history is."""
        return StreamPosition(self.public.published.rounds, len(self.releases), self._digests[-1])

    def denies(self, text: str) -> bool:
        """Whether an id proves that this is not the whole history: it was made with our key, and we
        were further then, or elsewhere."""
        seen = read_position(text, self._key)
        if seen is None:
            return False
        if seen.rounds > self.public.published.rounds or seen.releases > len(self.releases):
            return True
        return self._digests[seen.releases] != seen.digest

    def known(self, text: str) -> int:
        """How many releases whoever brings this id has seen; all of them, if it tells nothing."""
        seen = read_position(text, self._key)
        return len(self.releases) if seen is None else min(seen.releases, len(self.releases))

    def rounds_json(self) -> dict[str, Any]:
        """How far the stream is, and what it has cost."""
        published, spent = self.public
        return {
            "rounds": published.rounds,
            "releases": len(self.releases),
            "spent": published.spent,
            "spent_epsilon": float(spent.epsilon),
            "spent_delta": float(spent.delta),
            "final": published.final,
        }

    async def stream(self, seen: int) -> AsyncIterator[bytes]:
        """Releases from number `seen` + 1 on, as they come, and rounds."""
        yield b"retry: 2000\n\n"
        while True:
            changed = self._changed
            for release in self.releases[seen:]:
                yield _event("release", release)
            seen = len(self.releases)
            mark = None if self.stale else self.mark.signed(self._key)  # a witness keeps its mark
            yield _event("rounds", self.rounds_json(), mark)
            if self.closed:
                return
            await asyncio.sleep(PACE)
            while not changed.is_set():
                try:
                    await asyncio.wait_for(changed.wait(), BEAT)
                except TimeoutError:
                    yield b": still here\n\n"


def _event(name: str, data: dict[str, Any], mark: str | None = None) -> bytes:
    head = f"event: {name}\n" if mark is None else f"event: {name}\nid: {mark}\n"
    return f"{head}data: {json.dumps(data)}\n\n".encode()
