"""Backup copies of a store, and handing a learner over to one of them.

A copy that went on beside its original would decide twice on the same rows. So a copy carries a
mark, with which it can be read and not be opened for writing, and `take_over` moves the learner: it
first marks the original, in a transaction that checks that nothing was written to it since the
copy was made and gives the copy a new name, and only then removes the mark of the copy. Whenever a
process dies, at most one of both can be continued (docs/guarantee.md, Theorem 12).
"""

import hmac
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from littlestone._store.files import (
    checked_file,
    configure,
    database_file,
    drafted,
    for_reading,
    for_writing,
    generation_of,
    reading,
    step_generation,
    wal_file,
)
from littlestone._store.migration import migrate
from littlestone._store.serialization import OLD_COPY, BadStore, OldCopy, Seal, run_name


class CopyMark(NamedTuple):
    """Hold what a backup copy says of itself."""

    original: str
    name: str
    rounds: int
    digest: str


class StoreMarks(NamedTuple):
    """Hold what a file says of itself: whether, and why not, its learner can be continued."""

    old_copy: bool = False
    copy: CopyMark | None = None
    handed_over: tuple[str, str] | None = None
    promised: int | None = None

    def sentence(self) -> str | None:
        """Return why the learner cannot be continued in this file, or None if it can."""
        if self.old_copy:
            return OLD_COPY
        if self.copy is not None:
            return (
                f"the file is a backup copy, made at round {self.copy.rounds:,} of "
                f"{self.copy.original}: it can be read. To go on with it, and never again with the "
                "original, run `littlestone backup --take-over` on it"
            )
        if self.handed_over is not None:
            return (
                f"the learner was handed over to the copy {self.handed_over[0]}, which goes on in "
                "the place of this file: use that one"
            )
        return None


def marks_of(db: sqlite3.Connection) -> StoreMarks:
    """Return what a file says of itself."""
    about = dict(db.execute("SELECT name, value FROM about"))
    copy, gone, promised = (about.get(name) for name in ("copy", "handed_over", "promised"))
    return StoreMarks(
        "old_copy" in about,
        None if copy is None else CopyMark(**json.loads(copy)),
        None if gone is None else tuple(json.loads(gone)),
        None if promised is None else int(promised),
    )


def refuse_marked(path: Path, marks: StoreMarks) -> None:
    """Refuse to continue the learner of a file that says that it must not be."""
    if (sentence := marks.sentence()) is not None:
        raise OldCopy(f"{path}: {sentence}")


def back_up(path: Path, copy: Path) -> CopyMark:
    """Copy a store as it is after its last commit, also while another process writes it.

    The copy appears whole and marked, or not at all. Nothing is written to the original.

    Parameters
    ----------
    path
        The store.
    copy
        Where the copy is to be. A file there is never replaced.

    Returns
    -------
    CopyMark
        What the copy says of itself.

    Raises
    ------
    BadStore
        If the file is not a sound store, or one that may not go on: nor may its copy.
    FileExistsError
        If there is a file at `copy`.
    """
    path = database_file(path)
    # A writer may begin or end while the file is read: one more attempt settles it.
    alone = not wal_file(path).exists()
    try:
        return _backed_up(path, copy)
    except BadStore:
        if alone == (not wal_file(path).exists()):
            raise
        return _backed_up(path, copy)


def _backed_up(path: Path, copy: Path) -> CopyMark:
    if copy.exists():
        raise FileExistsError(17, "a file is there: choose another name", str(copy))
    with drafted(copy) as draft:
        with (
            reading(path),
            closing(_draft_connection(draft)) as db,
            closing(for_reading(path)) as original,
        ):
            # One step: what is copied is one state of the file, between two commits.
            original.backup(db)
        _set_journal(draft, b"\1\1")  # none beside the draft, which a kill would leave there
        with reading(path), closing(_draft_connection(draft)) as db:
            migrate(path, db)
            db.execute("BEGIN IMMEDIATE")
            key = checked_file(draft, db).key
            refuse_marked(path, marks_of(db))
            (public,) = db.execute("SELECT public FROM live").fetchone()
            mark = CopyMark(
                str(path.absolute()),
                secrets.token_hex(8),
                json.loads(public)["rounds"],
                Seal(db, key).digest(leave_out="about").hex(),
            )
            _set_mark(db, mark)
            Seal(db, key).renew()
            db.execute("COMMIT")
        _set_journal(draft, b"\2\2")
    return mark


def _draft_connection(draft: Path) -> sqlite3.Connection:
    db = sqlite3.connect(draft, isolation_level=None)
    db.execute("PRAGMA journal_mode = MEMORY")
    return db


def _set_journal(file: Path, versions: bytes) -> None:
    """Set the header bytes of a database: 2 with a write-ahead log, 1 without."""
    with open(file, "r+b") as opened:
        opened.seek(18)
        opened.write(versions)


def run_in(path: Path) -> str:
    """Return the public name of the learner in a file, which is the same in all of its copies."""
    path = database_file(path)
    with reading(path), closing(for_reading(path)) as db:
        db.execute("BEGIN")
        return run_name(checked_file(path, db).key)


def take_over(copy: Path, original: Path | None = None, *, lost: bool = False) -> int:
    """Make a backup copy the file in which its learner goes on, and the original one that does not.

    Parameters
    ----------
    copy
        The backup copy.
    original
        Where the original is; by default where it was when it was copied.
    lost
        The original cannot be reached. The operator promises what then cannot be checked: it never
        goes on, and it has published nothing since the copy was made.

    Returns
    -------
    int
        The rounds that the learner has.

    Raises
    ------
    BadStore
        If it is not a copy, or the original is another learner, has gone on since, was handed over
        to another copy, or is not there.
    """
    copy = database_file(copy)
    with _transaction(copy) as (db, key):
        mark = _mark_of(copy, db)
        place = database_file(original or Path(mark.original))
        if lost:
            _refuse_if_there(place)
            _set(db, "promised", str(mark.rounds))
            _unmark(db)
    if not lost:
        # First the original, then the copy: a process that dies between both leaves neither to be
        # continued, and the same call again ends what it began.
        name, opened = _retire(place, mark, copy, key)
        with _transaction(copy) as (db, _):
            _refuse_replaced(copy, db, mark._replace(name=name))
            _unmark(db)
            # Openings count on from those of the original, which a budget file may remember.
            _set(db, "generation", str(max(opened, generation_of(db))))
    return mark.rounds


def _mark_of(copy: Path, db: sqlite3.Connection) -> CopyMark:
    """Return the mark of a copy that may be taken over."""
    marks = marks_of(db)
    if marks.old_copy:
        raise OldCopy(f"{copy}: {OLD_COPY}")
    if marks.copy is None:
        raise BadStore(f"{copy} is not a backup copy, or was taken over before: go on with it")
    return marks.copy


def _refuse_replaced(copy: Path, db: sqlite3.Connection, mark: CopyMark) -> None:
    if _mark_of(copy, db) != mark:
        raise BadStore(f"{copy} was replaced while it was taken over: try again")


def _unmark(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM about WHERE name = 'copy'")


def _refuse_if_there(place: Path) -> None:
    if place.exists():
        raise BadStore(
            f"{place} is there, so it is not lost: leave --original-lost out, and it is checked "
            "and marked. If that is another file, move it away first"
        )


def _retire(path: Path, mark: CopyMark, copy: Path, key: bytes) -> tuple[str, int]:
    """Mark an original as handed over to a copy that holds the same, or refuse."""
    if not path.exists():
        raise BadStore(
            f"the original {path} is not there: say where it is (--original FILE), or, if it is "
            "gone for good and has published nothing since round "
            f"{mark.rounds:,}, that it is lost (--original-lost)"
        )
    if os.path.samefile(path, copy):
        raise BadStore(f"{path} is the copy itself: name the original")
    to = str(copy.absolute()), mark.name
    with _transaction(path) as (db, found):
        marks = marks_of(db)
        if not hmac.compare_digest(found, key):
            raise BadStore(f"{path} is another learner than {copy} is a copy of")
        if marks.handed_over == to:
            return mark.name, generation_of(db)  # a call before this one came as far as here
        refuse_marked(path, marks)
        if Seal(db, key).digest(leave_out="about").hex() != mark.digest:
            raise BadStore(
                f"{path} has gone on since {copy} was made, at round {mark.rounds:,}: to go on "
                "from there would publish again for the same rows. Make another backup, and take "
                "that one over"
            )
        # The copy gets a new name first: a copy of it that was made by hand has the old one, and is
        # not accepted later at the same place.
        name = secrets.token_hex(8)
        with _transaction(copy) as (copy_db, _):
            _refuse_replaced(copy, copy_db, mark)
            _set_mark(copy_db, mark._replace(name=name))
        _set(db, "handed_over", json.dumps((to[0], name)))
        return name, generation_of(db)


@contextmanager
def _transaction(path: Path) -> Iterator[tuple[sqlite3.Connection, bytes]]:
    """Yield a connection and the learner's key, and commit what the block changes of `about`."""
    with reading(path):
        db = for_writing(path)
    with closing(db), reading(path):
        configure(path, db)
        migrate(path, db)
        db.execute("BEGIN IMMEDIATE")
        header = checked_file(path, db)
        before = db.total_changes
        yield db, header.key
        if db.total_changes > before:
            # Whoever has the file open can commit no more.
            step_generation(db)
            Seal(db, header.key).renew()
        db.execute("COMMIT")


def _set_mark(db: sqlite3.Connection, mark: CopyMark) -> None:
    _set(db, "copy", json.dumps(mark._asdict()))


def _set(db: sqlite3.Connection, name: str, value: str) -> None:
    db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", [name, value])
