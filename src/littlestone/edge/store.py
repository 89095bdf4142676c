"""The store: one SQLite file is one learner. As sensitive as the data, so mode 0600.

Promises: a batch is one transaction, and on disk before anything of it is published, so that a
process may die at any instruction and nothing is released twice with different noise. Opening is a
move: whoever held the file before fails at its next commit. A batch whose key is known is answered
as it was, and learned once. What the file alone cannot tell is that it is an old copy, put back: a
witness outside it can.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from littlestone.edge.about import About, BadStore
from littlestone.edge.blocks import Block, Start
from littlestone.edge.checksums import Sums
from littlestone.edge.shelf import load, write
from littlestone.edge.specs import parse_spec
from littlestone.edge.storefile import checked, connected, generation_of, lay_out
from littlestone.edge.tasks import AnyLearner, Chosen, RowsAway, Task, learn_block
from littlestone.learning.coins import fresh_seed
from littlestone.learning.engines import Engine
from littlestone.learning.releases import Release
from littlestone.learning.saving import Saved
from littlestone.privacy.accounting import Cost, Guarantee
from littlestone.privacy.noise import Noise
from littlestone.privacy.spender import ForwardOnly, Moved

LOG_PAGES = 4000
"""How long the log of the file grows before it is folded in, which takes time."""
MOST_KEYS = 100_000
"""How many batches are remembered by their keys."""


class Taken(Moved):
    """Somebody else has opened the file for writing since."""


class OtherRows(BadStore):
    """A key that names other rows already."""


class Receipt(NamedTuple):
    """What became of a batch: its rounds are `first` and so on; `again` if it was known already."""

    first: int
    rounds: int
    nulls: int
    again: bool = False


class Batch(NamedTuple):
    """Rows to be learned, the key that names them, and a digest that tells them from others."""

    block: Block | RowsAway
    key: str | None = None
    digest: bytes = b""


class Source(NamedTuple):
    """How far a file has been learned, and what its rows are recognised by.

    Rows that are learned again (`--again`) are a source of their own: `original` is the number of
    the first, and `repeat` counts from 1. `begun` is the round of the first row. `sums` are the
    checksums of all rows that were learned, `tail` those of the rows from `start` on, and `marks`
    those of the first 32, 64, 128, ... rows. `identity` tells whether another file has the name.
    """

    number: int
    original: int
    repeat: int
    begun: int
    name: str
    identity: str | None = None
    rows: int = 0
    sums: Sums = Sums()
    start: Start = Start(0)
    tail: Sums = Sums()
    marks: Mapping[int, Sums] = MappingProxyType({})

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        marks = {str(rows): str(sums) for rows, sums in self.marks.items()}
        return self._asdict() | {"sums": str(self.sums), "tail": str(self.tail), "marks": marks}


def source_from_json(data: Mapping[str, Any]) -> Source:
    """Read back what `Source.to_json` wrote."""
    sums = {name: Sums.from_text(data[name]) for name in ("sums", "tail")}
    marks = {int(rows): Sums.from_text(one) for rows, one in data["marks"].items()}
    return Source(**{**data, **sums, "start": Start(*data["start"]), "marks": marks})


class Published(NamedTuple):
    """The public side after the last commit."""

    rounds: int
    releases: tuple[Release, ...]
    guarantee: str
    spent: str
    final: str | None


class Store(ForwardOnly):
    """A learner that survives. Make one with `create` or `open_store`."""

    def __init__(
        self,
        path: Path,
        db: sqlite3.Connection,
        about: About,
        noise: Noise | None,
        engine: Engine | None,
    ) -> None:
        self.path, self.about, self._db = path, about, db
        self.cls = parse_spec(about.spec)
        self.learner: AnyLearner = about.chosen.make(
            self.cls, about.seed, watched=True, noise=noise, engine=engine
        )
        self.generation = 0
        self._repeated: list[tuple[int, int]] = []
        self.published = self._public()

    def _public(self) -> Published:
        learner, spent = self.learner, self.spent
        said = f"epsilon {float(spent.epsilon):.4g}, delta {float(spent.delta):.3g}"
        return Published(learner.rounds, learner.releases, str(self.guarantee), said, learner.final)

    @property
    def repeats(self) -> int:
        """How often the same row was learned, at most."""
        return max([1, *(repeat for _, repeat in self._repeated)])

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for all that is published: that of the learner, and less if rows were
        learned again."""
        return self.learner.guarantee.for_repeats(self.repeats)

    @property
    def spent(self) -> Cost:
        """What the learner has spent, for a row that was learned as often as any."""
        per_user = self.learner.guarantee.unit == "user"
        return self.learner.spent.for_group(1 if per_user else self.repeats)

    def guarantee_up_to(self, release: Release) -> str:
        """Return what is promised for a release and all before it, which never changes: rows that
        were learned again after it do not matter."""
        before = (repeat for begun, repeat in self._repeated if begun < release.round)
        return str(self.learner.guarantee.for_repeats(max([1, *before])))

    def known(self, key: str, digest: bytes) -> Receipt | None:
        """The receipt of a batch with this key, if there was one; refused if it held other rows."""
        row = self._db.execute(
            "SELECT digest, first, rounds, nulls FROM batches WHERE key = ?", [key]
        ).fetchone()
        if row is None:
            return None
        if row[0] != digest:
            raise OtherRows(f"the key {key!r} was used for other rows: choose a new one")
        return Receipt(row[1], row[2], row[3], again=True)

    def learn(
        self,
        block: Block | RowsAway,
        *,
        key: str | None = None,
        digest: bytes = b"",
        source: Source | None = None,
    ) -> Receipt:
        """Learn a block of rows in one transaction; what is published afterwards is on disk.

        Rows that are null rounds already stay null rounds. `source` is how far a file is learned
        then.
        """
        (found,) = self.learn_all([Batch(block, key, digest)], source)
        if isinstance(found, OtherRows):
            raise found
        return found

    def learn_all(
        self, batches: Iterable[Batch], source: Source | None = None
    ) -> list[Receipt | OtherRows]:
        """Learn several batches in one transaction, as if one after the other.

        A batch whose key was used for other rows gets its refusal, and the others their receipts.
        If anything fails, nothing is kept, and this store goes no further (`_take`).
        """
        found: list[Receipt | OtherRows] = []
        with self._transaction():
            rounds = self.published.rounds
            for block, key, digest in batches:
                one = None if key is None else self._known_or_not(key, digest)
                if one is None:
                    one = self._take(block, rounds)
                    rounds += one.rounds
                    if key is not None:
                        self._remember(key, digest, one)
                found.append(one)
            if source is not None:
                self._write_source(source)
            if rounds > self.published.rounds:
                self._commit()
        return found

    def _known_or_not(self, key: str, digest: bytes) -> Receipt | OtherRows | None:
        try:
            return self.known(key, digest)
        except OtherRows as error:
            return error

    def _take(self, block: Block | RowsAway, rounds: int) -> Receipt:
        """Learn a block after so many rounds, to be committed. A learner that has learned what was
        not kept would count it twice: it is refused."""
        if self.learner.rounds != rounds:
            raise BadStore(f"{self.path}: a batch was cut short: open the file again")
        nulls = self.learner.null_rounds
        learn_block(self.learner, block)
        return Receipt(rounds + 1, len(block), self.learner.null_rounds - nulls)

    def _commit(self) -> None:
        """Write the learner and commit; only then is anything published."""

        def keep(saved: Saved) -> None:
            public = self._public()
            told = json.dumps(public._replace(releases=())._asdict())
            write(self._db, saved, self.learner.ledger, told)
            self._db.execute("COMMIT")
            self.published = public

        self.learner.checkpoint(keep)

    def sources(self) -> list[Source]:
        """How far each file has been learned."""
        return sources_of(self._db)

    def keep_source(self, source: Source) -> None:
        """Keep what a source is recognised by. Nothing is learned."""
        with self._transaction():
            self._write_source(source)
            self._db.execute("COMMIT")

    def _write_source(self, source: Source) -> None:
        told = source.number, json.dumps(source.to_json())
        self._db.execute("INSERT OR REPLACE INTO sources VALUES (?, ?)", told)
        if source.repeat > 1 and (source.begun, source.repeat) not in self._repeated:
            self._repeated.append((source.begun, source.repeat))

    def _remember(self, key: str, digest: bytes, receipt: Receipt) -> None:
        values = key, digest, receipt.first, receipt.rounds, receipt.nulls
        made = self._db.execute(
            "INSERT INTO batches (key, digest, first, rounds, nulls) VALUES (?, ?, ?, ?, ?)", values
        )
        self._db.execute("DELETE FROM batches WHERE id <= ?", [(made.lastrowid or 0) - MOST_KEYS])

    @contextmanager
    def _transaction(self, moving: bool = False) -> Iterator[None]:
        """What is not committed inside is undone. Refused when the file was opened elsewhere, but
        for a move."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            if not moving and generation_of(self._db) != self.generation:
                raise Taken(
                    f"{self.path} was opened for writing by another process: this one may not go "
                    "on, as two would release twice"
                )
            yield
        except sqlite3.Error as error:
            raise BadStore(
                f"{self.path}: {error}. What was committed before is safe, and nothing of this "
                "batch is published: mend that, and open the file again"
            ) from error
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    @property
    def key(self) -> bytes:
        """A secret that stays with the learner, wherever its file goes: marks that are made with it
        can be told from forged ones."""
        (value,) = self._db.execute("SELECT value FROM about WHERE name = 'key'").fetchone()
        return bytes.fromhex(value)

    def _move_in(self, after: int | None) -> None:
        """Take the file over from whoever held it, and go on from where it is."""
        if after is not None:
            self.generation = after
        with self._transaction(moving=after is None):
            self._db.execute("UPDATE about SET value = value + 1 WHERE name = 'generation'")
            self._db.execute("COMMIT")
        self.generation = generation_of(self._db)
        with self._transaction():
            self._repeated = [(one.begun, one.repeat) for one in self.sources() if one.repeat > 1]
            if self._db.execute("SELECT count(*) FROM live").fetchone()[0]:
                self.learner.resume(load(self._db))
                self.published = self._public()
            else:
                self._commit()

    def close(self) -> None:
        """Let go of the file. What was committed is there."""
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def create(
    path: Path,
    task: Task,
    chosen: Chosen,
    *,
    noise: Noise | None = None,
    engine: Engine | None = None,
) -> Store:
    """A new store, with a learner that has not begun. Refused where there is a file already."""
    chosen.refuse_other_than_trees(engine)
    seed = fresh_seed() if task.seed is None else task.seed
    terms = task.terms | {"horizon": chosen.plan.horizon}
    about = About(terms, chosen, seed)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        lay_out(draft, about)
        os.link(draft, path)  # whole or not at all, and never over another file
    finally:
        draft.unlink()
    return open_store(path, noise=noise, engine=engine)


def open_store(
    path: Path,
    *,
    noise: Noise | None = None,
    after: int | None = None,
    engine: Engine | None = None,
) -> Store:
    """Open a store for writing: a move. Whoever held it may not commit any more.

    With `after`, only from the holder of that generation: whoever lost a connection may go on, but
    not take the file back from another.
    """
    db = connected(path, "rw")
    try:
        about = checked(path, db)
        os.chmod(path, 0o600)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        store = Store(path, db, about, noise, engine)
        store._move_in(after)
    except BaseException:
        db.close()
        raise
    return store


class Shown(NamedTuple):
    """What can be read of a store while another process writes it. `saved` is private."""

    about: About
    published: Published
    saved: Saved
    generation: int
    sources: tuple[Source, ...]


def read_store(path: Path) -> Shown:
    """Look into a store without taking it over."""
    with closing(connected(path, "ro")) as db:
        about = checked(path, db)
        db.execute("BEGIN")
        row = db.execute("SELECT public FROM live").fetchone()
        if row is None:
            raise BadStore(f"{path} has never been opened for writing: there is nothing in it")
        saved = load(db)
        published = Published(**{**json.loads(row[0]), "releases": saved.releases})
        return Shown(about, published, saved, generation_of(db), tuple(sources_of(db)))


def sources_of(db: sqlite3.Connection) -> list[Source]:
    """Every source, in the order in which they were begun."""
    rows = db.execute("SELECT told FROM sources ORDER BY number")
    return [source_from_json(json.loads(told)) for (told,) in rows]
