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
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from littlestone._store.files import (
    BadStore,
    OldCopy,
    Seal,
    create_file,
    database_file,
    read_file,
    serialized,
    transaction,
)
from littlestone._store.serialization import LEARNER, OLD_COPY, generation_of, step_generation


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
    path : Path
        The store.
    copy : Path
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
    if copy.exists():
        raise FileExistsError(17, "a file is there: choose another name", str(copy))
    mark, content = read_file(path, LEARNER, partial(_marked_copy, path))
    create_file(copy, LEARNER, content)
    return mark


def _marked_copy(path: Path, db: sqlite3.Connection, seal: Seal) -> tuple[CopyMark, bytes]:
    """Return the bytes of a copy of a sound file: one state of it, between two commits."""
    refuse_marked(path, marks_of(db))
    (public,) = db.execute("SELECT public FROM live").fetchone()
    rounds, digest = json.loads(public)["rounds"], seal.digest(leave_out="about")
    mark = CopyMark(str(path.absolute()), secrets.token_hex(8), rounds, digest)

    def fill(copy: sqlite3.Connection) -> None:
        db.backup(copy)
        copied = Seal.of(copy, LEARNER)
        copied.watch()
        _set_mark(copy, mark)
        copied.write()

    return mark, serialized(LEARNER, fill)


def take_over(copy: Path, original: Path | None = None, *, lost: bool = False) -> int:
    """Make a backup copy the file in which its learner goes on, and the original one that does not.

    Parameters
    ----------
    copy : Path
        The backup copy.
    original : Path, optional
        Where the original is; by default where it was when it was copied.
    lost : bool
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
    with _changing(copy) as (db, seal):
        mark = _mark_of(copy, db)
        place = database_file(original or Path(mark.original))
        if lost:
            _refuse_if_there(place)
            _set(db, "promised", str(mark.rounds))
            _unmark(db)
    if not lost:
        # First the original, then the copy: a process that dies between both leaves neither to be
        # continued, and the same call again ends what it began.
        name, opened = _retire(place, mark, copy, seal.key)
        with _changing(copy) as (db, _):
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
    with _changing(path) as (db, seal):
        marks = marks_of(db)
        if not hmac.compare_digest(seal.key, key):
            raise BadStore(f"{path} is another learner than {copy} is a copy of")
        if marks.handed_over == to:
            return mark.name, generation_of(db)  # a call before this one came as far as here
        refuse_marked(path, marks)
        if seal.digest(leave_out="about") != mark.digest:
            raise BadStore(
                f"{path} has gone on since {copy} was made, at round {mark.rounds:,}: to go on "
                "from there would publish again for the same rows. Make another backup, and take "
                "that one over"
            )
        # The copy gets a new name first: a copy of it that was made by hand has the old one, and is
        # not accepted later at the same place.
        name = secrets.token_hex(8)
        with _changing(copy) as (copy_db, _):
            _refuse_replaced(copy, copy_db, mark)
            _set_mark(copy_db, mark._replace(name=name))
        _set(db, "handed_over", json.dumps((to[0], name)))
        return name, generation_of(db)


@contextmanager
def _changing(path: Path) -> Iterator[tuple[sqlite3.Connection, Seal]]:
    """Yield a connection and the seal of a file, and commit what the block changes of `about`."""
    with transaction(path, LEARNER) as (db, seal):
        before = db.total_changes
        yield db, seal
        if db.total_changes > before:
            step_generation(db)  # whoever has the file open can commit no more


def _set_mark(db: sqlite3.Connection, mark: CopyMark) -> None:
    _set(db, "copy", json.dumps(mark._asdict()))


def _set(db: sqlite3.Connection, name: str, value: str) -> None:
    db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", [name, value])
