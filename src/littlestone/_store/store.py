"""The store: one SQLite file is one learner. As sensitive as the data, so mode 0600.

Promises: a batch is one transaction, and on disk before anything of it is published, so that a
process may die at any instruction and nothing is released twice with different noise. Opening is a
move: whoever held the file before fails at its next commit. A batch whose key is known is answered
as it was, and learned once. A file that does not hold what was written to it is refused. What the
file alone cannot tell is that it is an old copy, put back: a witness outside it can, and then the
file says so itself from there on.
"""

import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from littlestone._classes.base import HypothesisClass
from littlestone._data.rounds import RowSpan
from littlestone._learners.base import Checkpoint, PrivateLearner, Release
from littlestone._learners.causes import PrivateCauses
from littlestone._learners.dpsoa import Engine
from littlestone._learners.evidence import (
    Window,
    costs_of,
    estimate_base,
    over_time,
    summarize_causes,
    window_from_json,
)
from littlestone._learners.registry import LearnerChoice
from littlestone._learners.tree import fresh_seed
from littlestone._privacy.accounting import Cost, Guarantee
from littlestone._privacy.mechanism import ForwardOnly, MechanismMoved
from littlestone._privacy.noise import Noise
from littlestone._store.budgets import account_of, budget_in, charge_run
from littlestone._store.copies import StoreMarks, marks_of, refuse_marked
from littlestone._store.files import (
    BadStore,
    Seal,
    begin_writing,
    create_file,
    create_mark,
    database_file,
    empty_log,
    fold_in,
    for_writing,
    identity,
    mark_file,
    read_file,
    refuse_leftovers,
    sentences,
    serialized,
    wal_file,
    write_mark,
)
from littlestone._store.request import LearnRequest, RunConfig, StreamTerms, run_config_from_json
from littlestone._store.serialization import (
    LEARNER,
    OLD_COPY,
    generation_of,
    load,
    step_generation,
    write,
)
from littlestone._store.sources import Source, source_from_json

# Bytes to which the log of the file grows before it is folded in, which takes time.
LONGEST_LOG = 16 << 20
# How many batches are remembered by their keys.
MOST_KEYS = 100_000
TAKEN = (
    "{path} was opened for writing by another process: this one may not go on, as two would "
    "release twice"
)


class StoreLost(MechanismMoved):
    """Report a file that another process has opened for writing since."""


class StoreMoved(StoreLost):
    """Report a file that is no longer where it was: moved, removed, or replaced by another."""


class KeyConflict(BadStore):
    """Report a key that names other rows already."""


class Receipt(NamedTuple):
    """Say what became of a batch: its rounds are `first` and so on; `again` if it was known."""

    first: int
    rounds: int
    nulls: int
    again: bool = False


class KeyedBatch(NamedTuple):
    """Hold rows to be learned, the key that names them, and a digest that identifies them."""

    block: RowSpan
    key: str | None = None
    digest: bytes = b""


class Published(NamedTuple):
    """Hold the public side after the last commit."""

    rounds: int
    releases: tuple[Release, ...]
    guarantee: Guarantee
    spent: str
    final: str | None
    # A value of JSON data, not the learner's own objects: those change before the next commit.
    evidence: dict[str, Any] | None = None
    windows: tuple[Window, ...] = ()


class Run(ForwardOnly):
    """Hold a learner, and what of it is public. Nothing is kept: a `Store` keeps it in a file."""

    path: Path | None = None
    # How often its file was opened for writing.
    generation = 0

    def __init__(self, about: RunConfig, learner: PrivateLearner, name: str) -> None:
        self.about, self.cls, self.learner = about, about.cls, learner
        # By which its releases, and what it draws, can be told from others'. Public.
        self.run = name
        # Whether it is known to have drawn what it costs, where it has a budget to draw from.
        self.charged = about.account is None
        # Where rows began to be learned again, and how often they have been learned then.
        self._repeated: list[tuple[int, int]] = []
        # By how often rows were learned: of a learner it never changes.
        self._guarantees: dict[int, Guarantee] = {}
        # The evidence as it was at so many windows and releases: it changes with these only.
        self._evidence: tuple[tuple[int, int], dict[str, Any] | None] = ((-1, -1), None)
        self.published = self._public()

    def _public(self) -> Published:
        learner, self._spent = self.learner, self.spent
        key = len(learner.windows), len(learner.releases)
        if isinstance(learner, PrivateCauses) and self._evidence[0] != key:
            self._evidence = key, _evidence_of(learner)
        return Published(
            learner.rounds,
            learner.releases,
            self.guarantee,
            f"epsilon {float(self._spent.epsilon):.4g}, delta {float(self._spent.delta):.3g}",
            learner.final,
            self._evidence[1],
            learner.windows,
        )

    @property
    def repeats(self) -> int:
        """Return how often the same row was learned, at most."""
        # Theorem 14: a row that was learned k times costs k times as much; most rows, once.
        return max([1, *(repeat for _, repeat in self._repeated)])

    @property
    def guarantee(self) -> Guarantee:
        """Return the guarantee of all that is published.

        It is that of the learner, and weaker if rows were learned again.
        """
        repeats = self.repeats
        if repeats not in self._guarantees:
            self._guarantees[repeats] = self._guarantee_for(repeats)
        return self._guarantees[repeats]

    @property
    def spent(self) -> Cost:
        """Return what the learner has spent, for a row that was learned as often as any."""
        # Theorem 14: a neighbour per user replaces all rounds of a user, however many they are.
        per_user = self.guarantee.unit == "user"
        return self.learner.spent.for_group(1 if per_user else self.repeats)

    @property
    def published_spent(self) -> Cost:
        """Return what the learner had spent at the last commit."""
        return self._spent

    def guarantee_up_to(self, release: Release) -> str:
        """Return the guarantee of a release and all before it, which never changes.

        Rows that were learned again after it do not matter.
        """
        # Only what was repeated before the release: a line that is published must not change later.
        before = (repeat for begun, repeat in self._repeated if begun < release.round)
        return str(self._guarantee_for(max([1, *before])))

    def _guarantee_for(self, repeats: int) -> Guarantee:
        """Return the guarantee of rows that were learned so often; a column of times is public."""
        guarantee = self.learner.guarantee.for_repeats(repeats)
        return replace(guarantee, public_times=self.about.terms.time)

    def sources(self) -> list[Source]:
        """Return how far each file has been learned."""
        return []

    def keep_source(self, source: Source) -> None:
        """Keep what a source is recognised by. Nothing is learned."""

    def learn(self, block: RowSpan, source: Source | None = None) -> Receipt:
        """Learn a block of rows, up to the place of a source that it says."""
        receipt = self._take(block)
        self.published = self._public()
        return receipt

    def _take(self, block: RowSpan) -> Receipt:
        rounds, nulls = self.learner.rounds, self.learner.null_rounds
        self.learner.learn(block)
        return Receipt(rounds + 1, len(block), self.learner.null_rounds - nulls)

    def end_window(self) -> None:
        """Release the counts of the learner's present window, if it has windows."""
        self.learner.end_window()
        self.published = self._public()

    def refuse_if_taken(self) -> None:
        """Raise `StoreLost` if the file was opened for writing elsewhere since."""

    def mark_old_copy(self) -> None:
        """Have the file say that it is an old copy: nobody may go on from it."""

    def discard(self) -> None:
        """Leave nothing behind of a run that may not begin."""

    def close(self) -> None:
        """Let go of the learner."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


class Store(Run):
    """Keep a learner in a file: what it has published is there. See `create` and `open_store`.

    Parameters
    ----------
    path : Path
        The file.
    db : sqlite3.Connection
        A connection that may write to it.
    about : RunConfig
        How the learner was begun.
    learner : PrivateLearner
        The learner.
    seal : Seal
        The checksum of the file, with the key of the learner.
    """

    path: Path

    def __init__(
        self,
        path: Path,
        db: sqlite3.Connection,
        about: RunConfig,
        learner: PrivateLearner,
        seal: Seal,
    ) -> None:
        super().__init__(about, learner, seal.name)
        self.path, self._db, self._seal = path, db, seal
        # Device and inode: a path can come to lead to another file while SQLite has this one open.
        self._files = {path: identity(path)}

    @property
    def key(self) -> bytes:
        """Return a secret that stays with the learner, wherever its file goes."""
        return self._seal.key

    def _known(self, key: str | None, digest: bytes) -> Receipt | KeyConflict | None:
        """Return the receipt of a batch with this key, if there was one, or its refusal."""
        row = self._db.execute(
            "SELECT digest, first, rounds, nulls FROM batches WHERE key = ?", [key]
        ).fetchone()
        if row is None:
            return None
        # Equal keys for different rows are an error of the client: an answer "known" would lose
        # rows.
        if row[0] != digest:
            return KeyConflict(f"the key {key!r} was used for other rows: choose a new one")
        return Receipt(row[1], row[2], row[3], again=True)

    def learn(
        self,
        block: RowSpan,
        source: Source | None = None,
        *,
        key: str | None = None,
        digest: bytes = b"",
    ) -> Receipt:
        """Learn a block of rows in one transaction; what is published afterwards is on disk.

        Parameters
        ----------
        block : RowSpan
            The rows. Those that are null rounds already stay null rounds.
        source : Source, optional
            How far a file is learned then.
        key : str, optional
            Names the rows: with a key that is known they are not learned again.
        digest : bytes
            Identifies the rows.

        Raises
        ------
        KeyConflict
            If the key names other rows.
        StoreLost
            If another process has opened the file since.
        BadStore
            If the batch could not be committed; then this store goes no further.
        """
        # One path for one batch and for many, so that both have the same guarantees.
        (receipt,) = self.learn_all([KeyedBatch(block, key, digest)], source)
        if isinstance(receipt, KeyConflict):
            raise receipt
        return receipt

    def learn_all(
        self, batches: Iterable[KeyedBatch], source: Source | None = None
    ) -> list[Receipt | KeyConflict]:
        """Learn several batches in one transaction, as if one after the other.

        A batch whose key was used for other rows gets its refusal, and the others their receipts.
        If anything fails, nothing is kept, and this store goes no further.
        """
        # Here, too, and not only where stores are opened: nothing is learned that was not drawn.
        if not self.published.rounds and not self.charged:
            charge_run(self, budget_in(self.about))
        receipts: list[Receipt | KeyConflict] = []
        with self._transaction():
            # Rounds are counted from what is committed, and compared with the learner.
            rounds = self.published.rounds
            for block, key, digest in batches:
                receipt = self._known(key, digest)
                if receipt is None:
                    self._refuse_cut_short(rounds)
                    receipt = self._take(block)
                    rounds += receipt.rounds
                    if key is not None:
                        self._remember(key, digest, receipt)
                receipts.append(receipt)
            if source is not None:
                self._write_source(source)
            # With known batches only, nothing has changed and there is nothing to commit.
            if rounds > self.published.rounds:
                self._commit()
        # Outside of the transaction: SQLite folds nothing in while one is open.
        self._fold_in()
        return receipts

    def _refuse_cut_short(self, rounds: int) -> None:
        """Refuse to go on with a learner that has learned more than was committed."""
        if self.learner.rounds != rounds:
            raise BadStore(f"{self.path}: a batch was cut short: open the file again")

    def _commit(self) -> None:
        """Write the learner and commit; only then is anything published."""
        # Theorem 12: if anything in this block fails, the learner in memory is unusable. Whether
        # the commit happened is then decided by the file alone.
        with self.learner.checkpoint() as saved:
            public = self._public()
            new = public.releases[len(self.published.releases) :]
            write(self._db, saved, _public_json(public), new)
            self._end_transaction()
        # Only now: nothing is shown to anybody before the transaction that holds its rows is on
        # disk.
        self.published = public

    def _end_transaction(self, *, is_open: bool = True) -> None:
        """Seal what was written, commit it, and count the commit in the mark."""
        self._seal.write(is_open=is_open)
        self._db.execute("COMMIT")
        self._refuse_if_displaced()  # what was committed elsewhere is not acknowledged
        # After the commit and before anything is published: a log without it is noticed.
        write_mark(self.path, self._seal)

    def end_window(self) -> None:
        """Release the counts of the learner's present window, if it has windows, and commit them.

        Nothing is committed if the window is empty. Counts whose commit failed were published
        nowhere: they are committed with the next batch, or forgotten with this process.
        """
        with self._transaction():
            self._refuse_cut_short(self.published.rounds)
            self.learner.end_window()
            if len(self.learner.windows) > len(self.published.windows):
                self._commit()
        self._fold_in()

    def _fold_in(self) -> None:
        """Write the log into the file once it is long, and empty it."""
        # Folding in is housekeeping: the commit is safe in the log, so a failure here is no
        # failure.
        with suppress(sqlite3.Error, FileNotFoundError):
            if os.stat(wal_file(self.path)).st_size >= LONGEST_LOG:
                empty_log(self._db)

    def sources(self) -> list[Source]:
        """Return how far each file has been learned."""
        return sources_of(self._db)

    def keep_source(self, source: Source) -> None:
        """Keep what a source is recognised by. Nothing is learned."""
        with self._transaction():
            self._write_source(source)
            self._end_transaction()

    def _write_source(self, source: Source) -> None:
        entry = source.number, json.dumps(source.to_json())
        self._db.execute("INSERT OR REPLACE INTO sources VALUES (?, ?)", entry)
        if source.repeat > 1 and (source.begun, source.repeat) not in self._repeated:
            self._repeated.append((source.begun, source.repeat))

    def _remember(self, key: str, digest: bytes, receipt: Receipt) -> None:
        values = key, digest, receipt.first, receipt.rounds, receipt.nulls
        # Keys are remembered in the transaction that learns their rows: a batch is known exactly if
        # it is learned.
        made = self._db.execute(
            "INSERT INTO batches (key, digest, first, rounds, nulls) VALUES (?, ?, ?, ?, ?)", values
        )
        if (oldest := (made.lastrowid or 0) - MOST_KEYS) > 0:
            self._db.execute("DELETE FROM batches WHERE id <= ?", [oldest])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Undo what is not committed in the block."""
        try:
            self._refuse_if_displaced()
            # IMMEDIATE takes the write lock now: the generation that is read next cannot change
            # before the COMMIT.
            self._db.execute("BEGIN IMMEDIATE")
            self.refuse_if_taken()
            self._seal.begin()
            yield
        except sqlite3.Error as error:
            raise BadStore(
                f"{self.path}: {error}. What was committed before is safe, and nothing of this "
                "batch is published: mend that, and open the file again"
            ) from error
        finally:
            # Also after an interrupt: what is not committed must not be seen by the next
            # transaction.
            if self._db.in_transaction:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")

    def refuse_if_taken(self) -> None:
        """Raise `StoreLost` if the file was opened for writing elsewhere since."""
        # Every opening for writing counts the generation up, so an unequal one means another
        # writer.
        if generation_of(self._db) != self.generation:
            raise StoreLost(TAKEN.format(path=self.path))

    def _refuse_if_displaced(self) -> None:
        """Raise `StoreMoved` if the path leads to other files than those that SQLite has open."""
        for file, opened in self._files.items():
            if identity(file) != opened:
                raise StoreMoved(
                    f"{file} was moved, removed or replaced while the learner was at work: nothing "
                    f"of this batch is published. Put {self.path} back as it was, and start again"
                )

    def mark_old_copy(self) -> None:
        """Have the file say that it is an old copy: nobody may go on from it, this store neither.

        Only the process that holds the file can tell: to one from which it was taken, what its
        successor has published looks the same.
        """
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO about VALUES ('old_copy', ?)", [OLD_COPY])
            step_generation(self._db)
            self._end_transaction(is_open=False)

    def _move_in(self, saved: Checkpoint | None) -> None:
        """Take the file over in the transaction that was begun, and go on from what was saved."""
        was_open = self._seal.is_open
        self._seal.watch()
        # A learner that was just begun has the state already; a mechanism resumes only before its
        # first step.
        if saved is not None:
            self._repeated = [(s.begun, s.repeat) for s in self.sources() if s.repeat > 1]
            self.learner.resume(saved)
            self.published = self._public()
        # The mark is there before the file says that there is one.
        create_mark(self.path, self._seal)
        step_generation(self._db)
        self.generation = generation_of(self._db)
        self._end_transaction()
        # In the file itself, not only in its log: without the log it must say so too.
        if not was_open:
            fold_in(self.path, self._db)
        # The log holds the last commits: a log that was replaced is as bad as a file that was.
        for file in (wal_file(self.path), mark_file(self.path)):
            self._files[file] = identity(file)

    def discard(self) -> None:
        """Remove the file, if this process has just made it."""
        # The first opening is that of whoever created it.
        if self.generation == 1:
            self.close()
            self.path.unlink()

    def close(self) -> None:
        """Let go of the file. What was committed is there, in one file if nobody else has it."""
        with suppress(BadStore, MechanismMoved, OSError, sqlite3.Error):
            with self._transaction():
                self._end_transaction(is_open=False)
            # With the write lock again: another process may have opened the file since.
            with self._transaction():
                mark_file(self.path).unlink()
            # Closing does this only where nobody reads.
            fold_in(self.path, self._db)
        self._db.close()


def begin(
    task: LearnRequest, chosen: LearnerChoice, cls: HypothesisClass | None = None
) -> RunConfig:
    """Return how a learner is begun: as asked, with what was left to us."""
    left_out = {"horizon": chosen.plan.horizon}
    if task.seed is None:
        left_out["seed"] = fresh_seed()
    terms = StreamTerms(**task.to_json() | left_out)
    return RunConfig(terms, chosen, task.cls if cls is None else cls, account_of(task))


def create(
    path: Path,
    task: LearnRequest,
    chosen: LearnerChoice,
    *,
    cls: HypothesisClass | None = None,
    noise: Noise | None = None,
    engine: Engine | None = None,
) -> Store:
    """Make a store, with a learner that has not begun. Refused where there is a file already."""
    path = database_file(path)
    # The log of a deleted file would be folded into a new one of the same name.
    refuse_leftovers(path)
    about, key = begin(task, chosen, cls), secrets.token_bytes(32)
    begun = json.dumps(about.to_json())
    learner = about.make(watched=True, noise=noise, engine=engine)
    public = _public_json(Run(about, learner, "").published)

    def fill(db: sqlite3.Connection) -> None:
        seal = Seal(db, LEARNER, key)
        seal.watch()
        rows = {"generation": "0", "begun": begun}
        db.executemany("INSERT INTO about VALUES (?, ?)", rows.items())
        write(db, saved, public, saved.releases)
        seal.write()

    # The file appears whole, by one link: a crash leaves no store, not half of one.
    with learner.checkpoint() as saved:
        create_file(path, LEARNER, serialized(LEARNER, fill))
    return _opened(path, 0, lambda about: learner, key)


def open_store(
    path: Path,
    *,
    noise: Noise | None = None,
    after: int | None = None,
    engine: Engine | None = None,
) -> Store:
    """Open a store for writing: a move. Whoever held it may not commit any more.

    Parameters
    ----------
    path : Path
        The file.
    noise : Noise, optional
        Only for tests.
    after : int, optional
        Take the file over only from the process of that generation: whoever lost a connection may
        go on, but not take the file back from another.
    engine : Engine, optional
        Where the trees are to grow.

    Raises
    ------
    BadStore
        If it is no store, or damaged, or an old copy.
    StoreLost
        If it is of another generation than `after`.
    """
    return _opened(
        database_file(path),
        after,
        lambda about: about.make(watched=True, noise=noise, engine=engine),
    )


def _opened(
    path: Path,
    after: int | None,
    made: Callable[[RunConfig], PrivateLearner],
    begun_with: bytes | None = None,
) -> Store:
    """Open a file for writing; if a learner has just been begun there, it is that of its key."""
    with sentences(path, LEARNER):
        db = for_writing(path, LEARNER)
    try:
        with sentences(path, LEARNER):
            seal = begin_writing(path, LEARNER, db)
            generation, saved = generation_of(db), load(db)
            about = _config_in(db)
            refuse_marked(path, marks_of(db))
        # Between making and opening the file, another process may have replaced it.
        if begun_with not in (None, seal.key):
            raise StoreLost(
                f"{path} holds another learner than the one that was begun there just now"
            )
        if after not in (None, generation):
            raise StoreLost(TAKEN.format(path=path))
        store = Store(path, db, about, made(about), seal)
        with sentences(path, LEARNER):
            store._move_in(None if begun_with is not None else saved)
    # Also at an interrupt: a connection that stays open may hold the lock of the file.
    except BaseException:
        db.close()
        raise
    return store


def _config_in(db: sqlite3.Connection) -> RunConfig:
    (begun,) = db.execute("SELECT value FROM about WHERE name = 'begun'").fetchone()
    return run_config_from_json(json.loads(begun))


# The most points of a curve of costs, beside the last one.
MOST_COSTS = 120


def _evidence_of(learner: PrivateCauses) -> dict[str, Any]:
    base, costs = estimate_base(learner.windows), costs_of(learner.windows)
    # A stream that drifts may have any number of windows; the last point is always there.
    shown = costs[:: -(-len(costs) // MOST_COSTS) or 1]
    return {
        "rate_to_beat": learner.rate_to_beat,
        "why_that_rate": learner.plan.rate_in_words(learner.rate_to_beat, base.rate),
        "remarks": learner.remarks,
        "counted": learner.plan.counted,
        "base_rate": base.rate,
        "base_low": base.low if base.rate is not None else None,
        "base_high": base.high if base.rate is not None else None,
        "counted_to": learner.windows[-1].stop if learner.windows else 0,
        "costs": [
            [row, round(ours, 1), round(nothing, 1)] for row, ours, nothing in [*shown, *costs[-1:]]
        ],
        "over_time": over_time(learner.windows, learner.evidence).to_page(),
        "causes": [each.to_json() for each in summarize_causes(learner.releases, learner.evidence)],
    }


def _public_json(public: Published) -> str:
    # Releases and windows are in the file already.
    held = public._replace(releases=(), windows=())._asdict()
    return json.dumps(held | {"guarantee": vars(public.guarantee)})


class StoreView(NamedTuple):
    """Hold what can be read of a store while another process writes it. `saved` is private."""

    run: str
    about: RunConfig
    published: Published
    saved: Checkpoint
    generation: int
    sources: tuple[Source, ...]
    marks: StoreMarks


def read_store(path: Path) -> StoreView:
    """Look into a store without taking it over.

    Parameters
    ----------
    path : Path
        The file.
    """
    return read_file(database_file(path), LEARNER, _view)


def _view(db: sqlite3.Connection, seal: Seal) -> StoreView:
    (public,) = db.execute("SELECT public FROM live").fetchone()
    saved = load(db)
    windows = tuple(map(window_from_json, saved.state["loop"].get("windows", ())))
    held = json.loads(public) | {"releases": saved.releases, "windows": windows}
    published = Published(**held | {"guarantee": Guarantee(**held["guarantee"])})
    sources = tuple(sources_of(db))
    return StoreView(
        seal.name, _config_in(db), published, saved, generation_of(db), sources, marks_of(db)
    )


def sources_of(db: sqlite3.Connection) -> list[Source]:
    """Return every source, in the order in which they were begun."""
    rows = db.execute("SELECT entry FROM sources ORDER BY number")
    return [source_from_json(json.loads(entry)) for (entry,) in rows]
