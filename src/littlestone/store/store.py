"""The store: one SQLite file is one learner. As sensitive as the data, so mode 0600.

Promises (docs/guarantee.md, Theorem 12): a batch is one transaction, and on disk before anything of
it is published, so a process may die at any instruction and nothing is released twice with
different noise. Opening is a move: the previous writer fails at its next commit. A batch whose key
is known gets its first receipt again, and is learned once. A file that does not hold what was
written to it is refused. A file cannot tell by itself that it is an old copy; once something
outside it has proved that, the file is marked as an old copy.
"""

import hmac
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from littlestone.classes.base import HypothesisClass
from littlestone.classes.specs import parse_spec
from littlestone.data.blocks import Block, Checksums, Start
from littlestone.learners.base import Checkpoint, Release
from littlestone.learners.dpsoa import Engine
from littlestone.learners.tree import fresh_seed
from littlestone.privacy.accounting import Cost, Guarantee
from littlestone.privacy.mechanism import ForwardOnly, MechanismMoved
from littlestone.privacy.noise import Noise
from littlestone.store.files import (
    PATIENCE,
    checked_file,
    database_file,
    for_reading,
    for_writing,
    generation_of,
    identity,
    put_in_place,
    reading,
    refuse_leftovers,
    serialized,
    wal_file,
)
from littlestone.store.run_config import (
    AnyLearner,
    LearnerChoice,
    LearnRequest,
    RemoteBlock,
    learn_block,
)
from littlestone.store.serialization import (
    OLD_COPY,
    BadStore,
    OldCopy,
    RunConfig,
    Seal,
    load,
    run_config_from_json,
    write,
)

LONGEST_LOG = 16 << 20
"""Bytes to which the log of the file grows before it is folded in."""
MOST_KEYS = 100_000
"""How many idempotency keys are remembered."""


class StoreLost(MechanismMoved):
    """Report that another process has opened the file for writing since."""


class StoreMoved(StoreLost):
    """Report that the file was moved, removed, or replaced by another."""


class KeyConflict(BadStore):
    """Report an idempotency key that was used for other rows."""


class Receipt(NamedTuple):
    """Confirm a batch.

    Parameters
    ----------
    first, rounds, nulls
        The number of its first round, how many there are, and how many of them are null.
    again
        Whether the batch was known already.
    """

    first: int
    rounds: int
    nulls: int
    again: bool = False


class KeyedBatch(NamedTuple):
    """Hold rows to be learned.

    Parameters
    ----------
    block
        The rows.
    key, digest
        The idempotency key, and a hash of what was sent under it.
    """

    block: Block | RemoteBlock
    key: str | None = None
    digest: bytes = b""


class Source(NamedTuple):
    """Hold how far a file has been learned, and the checksums that recognise its rows.

    Rows that are learned again (`--again`) are a source of their own.

    Parameters
    ----------
    number, original, repeat
        The number of the source, that of the first with the same rows, and how often those rows
        have been learned, counted from 1.
    begun
        The round of the first row.
    name, identity
        The file, and what changes if another file gets its name.
    rows, sums
        How many rows were learned, and their checksums.
    start, tail
        Where the last rows begin, and their checksums.
    marks
        The checksums of the first 32, 64, 128, ... rows.
    """

    number: int
    original: int
    repeat: int
    begun: int
    name: str
    identity: str | None = None
    rows: int = 0
    sums: Checksums = Checksums()
    start: Start = Start(0)
    tail: Checksums = Checksums()
    marks: Mapping[int, Checksums] = MappingProxyType({})

    def to_json(self) -> dict[str, Any]:
        """Return the source as JSON data."""
        marks = {str(rows): str(sums) for rows, sums in self.marks.items()}
        return self._asdict() | {"sums": str(self.sums), "tail": str(self.tail), "marks": marks}


def source_from_json(data: Mapping[str, Any]) -> Source:
    """Return what `Source.to_json` wrote."""
    sums = {name: Checksums.from_text(data[name]) for name in ("sums", "tail")}
    marks = {int(rows): Checksums.from_text(one) for rows, one in data["marks"].items()}
    return Source(**{**data, **sums, "start": Start(*data["start"]), "marks": marks})


class Published(NamedTuple):
    """Hold what is public after the last commit.

    Parameters
    ----------
    rounds, releases
        How many rounds there were, and what was published.
    guarantee, spent
        The guarantee, and the total of the ledger, as text.
    final
        Why the rule will not change any more, if so.
    """

    rounds: int
    releases: tuple[Release, ...]
    guarantee: str
    spent: str
    final: str | None


class Store(ForwardOnly):
    """Keep a learner in a file. Make one with `create` or `open_store`.

    Parameters
    ----------
    path, db
        The file, and a connection to it.
    about, learner
        How the learner was begun, and the learner.
    key
        The learner's key.
    """

    def __init__(
        self,
        path: Path,
        db: sqlite3.Connection,
        about: RunConfig,
        learner: AnyLearner,
        key: bytes,
    ) -> None:
        self.path, self.about, self.cls, self.learner = path, about, about.cls, learner
        self.key = key
        """A secret of the learner, which signs the positions of event streams."""
        self._db, self._seal = db, Seal(db, key)
        self._files = {path: identity(path)}
        self.generation = 0
        self._repeated: list[tuple[int, int]] = []
        self.published = self._public()

    @property
    def run(self) -> str:
        """Return a public name of the learner, which is on the lines of its releases file."""
        return hmac.new(self.key, b"run", "sha256").hexdigest()[:16]

    def _public(self) -> Published:
        return _public_side(self.learner, self.guarantee, self.spent)

    @property
    def repeats(self) -> int:
        """Return how often the same row was learned, at most."""
        return max([1, *(repeat for _, repeat in self._repeated)])

    @property
    def guarantee(self) -> Guarantee:
        """Return the guarantee of all releases: the learner's, weaker if rows were repeated."""
        return self.learner.guarantee.for_repeats(self.repeats)

    @property
    def spent(self) -> Cost:
        """Return what the learner has spent, for the row that was learned most often."""
        per_user = self.learner.guarantee.unit == "user"
        return self.learner.spent.for_group(1 if per_user else self.repeats)

    def guarantee_up_to(self, release: Release) -> str:
        """Return the guarantee of a release and all before it.

        It never changes: rows that were learned again later do not matter for it.
        """
        before = (repeat for begun, repeat in self._repeated if begun < release.round)
        return str(self.learner.guarantee.for_repeats(max([1, *before])))

    def known(self, key: str, digest: bytes) -> Receipt | None:
        """Return the receipt of the batch with a key, or None.

        Parameters
        ----------
        key, digest
            The key, and the hash of what was sent under it.

        Raises
        ------
        KeyConflict
            If the key was used for other rows.
        """
        row = self._db.execute(
            "SELECT digest, first, rounds, nulls FROM batches WHERE key = ?", [key]
        ).fetchone()
        if row is None:
            return None
        if row[0] != digest:
            raise KeyConflict(f"the key {key!r} was used for other rows: choose a new one")
        return Receipt(row[1], row[2], row[3], again=True)

    def learn(
        self,
        block: Block | RemoteBlock,
        *,
        key: str | None = None,
        digest: bytes = b"",
        source: Source | None = None,
    ) -> Receipt:
        """Learn a block of rows in one transaction; what is published afterwards is on disk.

        Parameters
        ----------
        block
            The rows; null rounds stay null rounds.
        key, digest
            The idempotency key, and a hash of what was sent under it.
        source
            How far a file is learned then.

        Raises
        ------
        KeyConflict
            If the key was used for other rows.
        """
        (found,) = self.learn_all([KeyedBatch(block, key, digest)], source)
        if isinstance(found, KeyConflict):
            raise found
        return found

    def learn_all(
        self, batches: Iterable[KeyedBatch], source: Source | None = None
    ) -> list[Receipt | KeyConflict]:
        """Learn several batches in one transaction, as if one after the other.

        A batch whose key was used for other rows gets a `KeyConflict`, the others their receipts.
        If anything fails, nothing is kept, and this store learns no more (`_take`).

        Parameters
        ----------
        batches
            The batches.
        source
            How far a file is learned then.
        """
        found: list[Receipt | KeyConflict] = []
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
        self._fold_in()
        return found

    def _known_or_not(self, key: str, digest: bytes) -> Receipt | KeyConflict | None:
        try:
            return self.known(key, digest)
        except KeyConflict as error:
            return error

    def _take(self, block: Block | RemoteBlock, rounds: int) -> Receipt:
        """Learn a block after so many rounds, to be committed.

        A learner that has learned what was rolled back would count it twice: it is refused.
        """
        if self.learner.rounds != rounds:
            raise BadStore(f"{self.path}: a batch was cut short: open the file again")
        nulls = self.learner.null_rounds
        learn_block(self.learner, block)
        return Receipt(rounds + 1, len(block), self.learner.null_rounds - nulls)

    def _commit(self) -> None:
        """Write the learner and commit; only then is anything published."""

        def keep(saved: Checkpoint) -> None:
            public = self._public()
            _write(self._db, saved, self.learner, public)
            self._seal.write()
            self._db.execute("COMMIT")
            self._refuse_if_displaced()  # what was committed elsewhere is not acknowledged
            self.published = public

        self.learner.checkpoint(keep)

    def _fold_in(self) -> None:
        """Write the log into the file once it is long, and empty it.

        SQLite would do so too, but then write over the log from its start; in a log that only grows
        a frame that is whole and wrong is damage (`refuse_damaged_log`). While another process
        reads the file this has to wait: what was committed is safe in the log.
        """
        with suppress(sqlite3.Error, FileNotFoundError):
            if wal_file(self.path).stat().st_size < LONGEST_LOG:
                return
            self._db.execute("PRAGMA busy_timeout = 0")  # do not wait for readers
            try:
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self._db.execute(f"PRAGMA busy_timeout = {int(1000 * PATIENCE)}")

    def sources(self) -> list[Source]:
        """Return how far each file has been learned."""
        return sources_of(self._db)

    def keep_source(self, source: Source) -> None:
        """Write the checksums of a source. Nothing is learned."""
        with self._transaction():
            self._write_source(source)
            self._seal.write()
            self._db.execute("COMMIT")

    def _write_source(self, source: Source) -> None:
        values = source.number, json.dumps(source.to_json())
        self._db.execute("INSERT OR REPLACE INTO sources VALUES (?, ?)", values)
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
        """Begin a transaction, which is rolled back unless it is committed inside.

        It is refused if another process has opened the file, except for a move.
        """
        try:
            self._refuse_if_displaced()
            self._db.execute("BEGIN IMMEDIATE")
            if not moving:
                self.refuse_if_taken()
            self._seal.begin()
            yield
        except sqlite3.Error as error:
            raise BadStore(
                f"{self.path}: {error}. What was committed before is safe, and nothing of this "
                "batch is published: repair that, and open the file again"
            ) from error
        finally:
            if self._db.in_transaction:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")

    def refuse_if_taken(self) -> None:
        """Raise `StoreLost` if another process has opened the file for writing since."""
        if generation_of(self._db) != self.generation:
            raise StoreLost(
                f"{self.path} was opened for writing by another process: this one may not go "
                "on, as two would release twice"
            )

    def _refuse_if_displaced(self) -> None:
        """Raise `StoreMoved` if the path leads to other files than those that SQLite has open."""
        for file, opened in self._files.items():
            if identity(file) != opened:
                raise StoreMoved(
                    f"{file} was moved, removed or replaced while the learner was running: nothing "
                    f"of this batch is published. Put {self.path} back as it was, and start again"
                )

    def condemn(self) -> None:
        """Mark the file as an old copy: no process may go on from it, nor may this store.

        Only the current writer may do that: to a previous one, what its successor has published
        looks like a proof too.
        """
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO about VALUES ('old_copy', ?)", [OLD_COPY])
            self._step()
            self._seal.write()
            self._db.execute("COMMIT")

    def _step(self) -> None:
        self._db.execute("UPDATE about SET value = value + 1 WHERE name = 'generation'")

    def _move_in(self, after: int | None, sealed: bytes, begun: bool) -> None:
        """Take the file over from its previous writer, and load the learner.

        Parameters
        ----------
        after
            The generation from which to take over; None for any.
        sealed
            The seal of what was checked: if it differs now, another process has written since.
        begun
            Whether the learner is already in the state of the file.
        """
        self._seal.watch()
        if after is not None:
            self.generation = after
        with self._transaction(moving=after is None):
            with reading(self.path):
                if self._seal.written() != sealed:
                    checked_file(self.path, self._db)
                saved = load(self._db)
                condemned = is_condemned(self._db)
            if condemned:
                raise OldCopy(f"{self.path}: {OLD_COPY}")
            if not begun:
                self._repeated = _repeated(self.sources())
                self.learner.resume(saved)
                self.published = self._public()
            self._step()
            self._seal.write()
            generation = generation_of(self._db)
            self._db.execute("COMMIT")
        self.generation = generation
        self._files[wal_file(self.path)] = identity(wal_file(self.path))

    def close(self) -> None:
        """Close the file. What was committed is in it."""
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def create(
    path: Path,
    task: LearnRequest,
    chosen: LearnerChoice,
    *,
    cls: HypothesisClass | None = None,
    noise: Noise | None = None,
    engine: Engine | None = None,
) -> Store:
    """Create a store, with a learner that has not begun, where there is no file yet.

    The file appears with the learner in it, or not at all.

    Parameters
    ----------
    path : Path
        Where the file is to be.
    task : LearnRequest
        What was requested.
    chosen : LearnerChoice
        The plan for it.
    cls : HypothesisClass, optional
        The class, if it has been read already; else what the task's specification names.
    noise : Noise, optional
        Only for tests.
    engine : Engine, optional
        Where the trees are to grow.

    Raises
    ------
    BadStore
        If the log of another learner lies there.
    BadClass
        If the class cannot be written to a file.
    FileExistsError
        If there is a file.
    """
    path = database_file(path)
    refuse_leftovers(path)
    chosen.refuse_other_than_trees(engine)
    cls = parse_spec(task.spec) if cls is None else cls
    seed = fresh_seed() if task.seed is None else task.seed
    terms = task.terms | {"horizon": chosen.plan.horizon}
    about, key = RunConfig(terms, chosen, seed, cls), secrets.token_bytes(32)
    begun = json.dumps(about.to_json())
    learner = chosen.make(cls, seed, watched=True, noise=noise, engine=engine)

    def keep(saved: Checkpoint) -> None:
        def fill(db: sqlite3.Connection) -> None:
            seal = Seal(db, key)
            seal.watch()
            rows = {"generation": "0", "begun": begun, "key": key.hex()}
            db.executemany("INSERT INTO about VALUES (?, ?)", rows.items())
            _write(db, saved, learner, _public_side(learner))
            seal.write()

        put_in_place(path, serialized(fill))

    learner.checkpoint(keep)
    return _opened(path, 0, lambda about: learner, key)


def open_store(
    path: Path,
    *,
    noise: Noise | None = None,
    after: int | None = None,
    engine: Engine | None = None,
) -> Store:
    """Open a store for writing: a move, after which the previous writer cannot commit any more.

    Parameters
    ----------
    path
        The file.
    noise
        Only for tests.
    after
        The generation from which to take over: a process that lost its connection may go on, but
        not take the file back from another. None takes it from any.
    engine
        Where the trees are to grow.

    Raises
    ------
    BadStore
        If the file is not a store, is damaged, or is an old copy.
    """

    def made(about: RunConfig) -> AnyLearner:
        make = about.chosen.make
        return make(about.cls, about.seed, watched=True, noise=noise, engine=engine)

    return _opened(database_file(path), after, made)


def _opened(
    path: Path,
    after: int | None,
    made: Callable[[RunConfig], AnyLearner],
    begun_with: bytes | None = None,
) -> Store:
    """Open a file for writing; `begun_with` is the key of a learner that was just created there."""
    with reading(path):
        db = for_writing(path)
    try:
        with reading(path):
            os.chmod(path, 0o600)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA wal_autocheckpoint = 0")  # `_fold_in` does
            db.execute("PRAGMA cache_spill = OFF")  # the log is written in order, at the COMMIT
            db.execute("BEGIN")
            begun, key, seal = checked_file(path, db)
            about, sealed = run_config_from_json(json.loads(begun)), seal.written()
            db.execute("COMMIT")
        if begun_with not in (None, key):
            raise StoreLost(
                f"{path} holds another learner than the one that was begun there just now"
            )
        store = Store(path, db, about, made(about), key)
        store._move_in(after, sealed, begun_with is not None)
    except BaseException:
        db.close()
        raise
    return store


def is_condemned(db: sqlite3.Connection) -> bool:
    """Return whether a file is known to be an old copy."""
    return db.execute("SELECT 1 FROM about WHERE name = 'old_copy'").fetchone() is not None


def _public_side(
    learner: AnyLearner, guarantee: Guarantee | None = None, spent: Cost | None = None
) -> Published:
    guarantee, spent = guarantee or learner.guarantee, spent or learner.spent
    total = f"epsilon {float(spent.epsilon):.4g}, delta {float(spent.delta):.3g}"
    return Published(learner.rounds, learner.releases, str(guarantee), total, learner.final)


def _write(
    db: sqlite3.Connection, saved: Checkpoint, learner: AnyLearner, public: Published
) -> None:
    public_json = json.dumps(public._replace(releases=())._asdict())
    write(db, saved, learner.ledger, public_json)


class StoreView(NamedTuple):
    """Hold what can be read of a store while another process writes it.

    Parameters
    ----------
    about, published
        How the learner was begun, and what is public.
    saved
        The learner's state. Private.
    generation
        How many times the file was opened for writing.
    sources
        How far each file has been learned.
    old_copy
        Whether the file is known to be an old copy.
    """

    about: RunConfig
    published: Published
    saved: Checkpoint
    generation: int
    sources: tuple[Source, ...]
    old_copy: bool


def read_store(path: Path) -> StoreView:
    """Read a store without taking it over."""
    path = database_file(path)
    for _ in range(2):
        alone = not wal_file(path).exists()
        with suppress(BadStore):
            return _read(path)
        if alone == (not wal_file(path).exists()):
            break  # else a writer came while it was read
    return _read(path)


def _read(path: Path) -> StoreView:
    with reading(path), closing(for_reading(path)) as db:
        db.execute("BEGIN")
        about = run_config_from_json(json.loads(checked_file(path, db).begun))
        (public,) = db.execute("SELECT public FROM live").fetchone()
        saved = load(db)
        published = Published(**{**json.loads(public), "releases": saved.releases})
        sources = tuple(sources_of(db))
        return StoreView(about, published, saved, generation_of(db), sources, is_condemned(db))


def sources_of(db: sqlite3.Connection) -> list[Source]:
    """Return every source, in the order in which they were begun."""
    rows = db.execute("SELECT told FROM sources ORDER BY number")
    return [source_from_json(json.loads(told)) for (told,) in rows]


def _repeated(sources: Iterable[Source]) -> list[tuple[int, int]]:
    """Return the rounds at which rows began to be repeated, and how often they were learned."""
    return [(one.begun, one.repeat) for one in sources if one.repeat > 1]
