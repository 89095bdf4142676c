"""Keep the privacy budget of a data set in a file that all runs on it draw from.

A budget file is a SQLite file. Each of its data sets has a total (epsilon, delta) and a log of what
was drawn; a draw is checked and written in one transaction, so that processes at work at the same
time cannot draw more than the total together (docs/guarantee.md, Theorem 18).

The log is only ever added to, and each entry carries a checksum of itself and all before it: what a
data set has left is computed from the log, and nothing else. Times are for people; the order of
entries is that of their numbers.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from littlestone._privacy.accounting import NOTHING, Cost, Unit, composed_cost
from littlestone._privacy.budget_state import BudgetDraw, BudgetState, RunsOfCost, cost_text
from littlestone._privacy.parameters import BadParameter, Real, positive, whole
from littlestone.errors import LittlestoneError

APPLICATION_ID, SCHEMA_VERSION = 0x4C536267, 1
SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE log (number INTEGER PRIMARY KEY, entry TEXT NOT NULL, seal TEXT NOT NULL) STRICT;
CREATE TABLE openings (run TEXT PRIMARY KEY, generation INTEGER NOT NULL) STRICT;
"""
# Seconds to wait for another process that is writing.
BUSY_SECONDS = 10.0


class BadBudget(LittlestoneError, ValueError):
    """Report a file that is not a budget file, or is damaged, locked, or lacks the data set."""


class BudgetReceipt(NamedTuple):
    """Say what a draw came to."""

    run: str
    charged: Cost
    state: BudgetState
    how: Literal["sum", "series", "known"]

    def __str__(self) -> str:
        what = {
            "sum": f"drew {cost_text(self.charged)}",
            "series": f"is part of {self.state.draws[-1].series}, which was drawn before,",
            "known": "has drawn before",
        }[self.how]
        left = f"{cost_text(self.state.left)} is left"
        return f"run {self.run} {what} from data set {self.state.dataset!r}; {left}"


@dataclass(frozen=True)
class BudgetFile:
    """Name the budget of a data set in a file; what is drawn from it is drawn once, by anybody.

    An object is only the two names. Copies, pickles and other processes draw from the same file.

    Parameters
    ----------
    path : str or Path
        The file, which `BudgetFile.create` or `littlestone budget create` made.
    dataset : str
        The name of the data set in it.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> budget = BudgetFile.create(f"{folder.name}/budgets.db", "visits", epsilon=3, delta=1e-6)
    >>> _ = budget.draw(epsilon=1, delta=1e-7, note="a first look")
    >>> state = budget.read()
    >>> float(state.left.epsilon), print(state.guarantee)
    (3.0000000000030003, 1.000000000001e-06)-differential privacy, replace-one, per event
    (2.0, None)
    >>> budget.draw(epsilon=2.5)
    Traceback (most recent call last):
    littlestone._privacy.budget_state.BudgetExceeded: data set 'visits' has (epsilon 2, ...
    >>> folder.cleanup()
    """

    path: str | Path
    dataset: str

    @classmethod
    def create(
        cls,
        path: str | Path,
        dataset: str,
        *,
        epsilon: Real,
        delta: Real = 0,
        unit: Unit = "event",
    ) -> "BudgetFile":
        """Create the budget of a data set, and the file if there is none.

        Parameters
        ----------
        path : str or Path
            The file.
        dataset : str
            The name of the data set. Give one data set one name: the file cannot tell.
        epsilon, delta : int, float or Fraction
            What all runs may cost together.
        unit : {"event", "user"}
            What is protected whole.

        Raises
        ------
        BadBudget
            If the file is something else, or has the data set already.
        BadParameter
            If a parameter is out of range.
        """
        total = _checked_cost(epsilon, delta)
        if not dataset.strip() or not dataset.isprintable():
            raise BadParameter("a data set has a name that can be printed")
        if unit not in ("event", "user"):
            raise BadParameter(f"unit must be 'event' or 'user', not {unit!r}")
        with _transaction(Path(path), create=True) as db:
            if dataset in (known := _states(Path(path), db)):
                raise BadBudget(
                    f"{path} has a budget for {dataset!r} already, of "
                    f"{cost_text(known[dataset].total)}: a total is not changed afterwards"
                )
            _append(db, {"kind": "create", "dataset": dataset, "unit": unit, **_exact(total)})
        return cls(path, dataset)

    def read(self) -> BudgetState:
        """Return what is known of the data set.

        Raises
        ------
        BadBudget
            If the file is not there, not a budget file, damaged, or does not know the data set.
        """
        with _reading(Path(self.path)) as db:
            return self._state(db)

    @property
    def identity(self) -> str:
        """Return what tells this file from all others, wherever it is moved."""
        with _reading(Path(self.path)) as db:
            return _identity(db)

    def check(self, epsilon: Real, delta: Real = 0, *, unit: Unit = "event") -> None:
        """Raise what `draw` would raise now, and draw nothing.

        Parameters
        ----------
        epsilon, delta : int, float or Fraction
            What the run costs.
        unit : {"event", "user"}
            What the run protects.
        """
        state, cost = self.read(), _checked_cost(epsilon, delta)
        state.refuse_other_unit(unit)
        if state.slot_for(cost) is None:
            state.refuse_overdraft(cost, "the run")

    def draw(
        self,
        epsilon: Real,
        delta: Real = 0,
        *,
        unit: Unit = "event",
        run: str | None = None,
        note: str = "",
    ) -> BudgetReceipt:
        """Draw what a run costs, before it reads a row; or raise, and draw nothing.

        A run that fits into a declared series is part of it. Nothing is ever given back: a run that
        drew and was killed before its first row has drawn.

        Parameters
        ----------
        epsilon, delta : int, float or Fraction
            What the run costs.
        unit : {"event", "user"}
            What the run protects. A run per user may draw from a data set that is counted per
            event, at the same cost; the other way round is refused.
        run : str, optional
            The name of the run; a new one if not given. A run that has drawn is not charged again.
        note : str
            What draws, in words.

        Returns
        -------
        BudgetReceipt
            The name of the run, and what was charged.

        Raises
        ------
        BudgetExceeded
            If too little is left.
        BadBudget
            If the file is not there, not a budget file, damaged or locked.
        """
        cost = _checked_cost(epsilon, delta)
        with _transaction(Path(self.path)) as db:
            # Read inside the transaction that writes: two runs must not both see the same rest.
            state = self._state(db)
            state.refuse_other_unit(unit)
            name = run or uuid4().hex[:16]
            if known := state.of_run(name):
                if known[0].planned != cost or known[0].unit != unit:
                    raise BadBudget(
                        f"{self.path}: run {name} has drawn {cost_text(known[0].planned)} per "
                        f"{known[0].unit}, and {cost_text(cost)} per {unit} is asked for"
                    )
                return BudgetReceipt(name, NOTHING, state, "known")
            found = state.slot_for(cost)
            if found is None:
                state.refuse_overdraft(cost, "the run")
                how: dict[str, Any] = {"charged": "sum", **_exact(cost)}
            else:
                series, slot = found
                how = {"charged": "series", "series": series, "slot": _exact(slot)}
                how |= _exact(NOTHING)
            how |= {"unit": unit, "note": note, "planned": _exact(cost)}
            _append(db, {"kind": "draw", "dataset": self.dataset, "run": name, **how})
            after = self._state(db)
            return BudgetReceipt(
                name, after.draws[-1].cost, after, "sum" if not found else "series"
            )

    def draw_again(self, run: str, repeats: int) -> BudgetReceipt:
        """Draw for rows that a run learns once more, before it learns them.

        Parameters
        ----------
        run : str
            A run that has drawn. One per event that has a delta is refused.
        repeats : int
            How often the same row will have been learned, at most. What was drawn for as many
            repetitions before is not drawn again.

        Raises
        ------
        BudgetExceeded
            If too little is left.
        BadParameter
            If the run has a delta: nothing that is drawn now bounds what a repetition adds to it.
        BadBudget
            If the run has not drawn here, or the file cannot be used.
        """
        whole(repeats, "repeats", least=1)
        with _transaction(Path(self.path)) as db:
            state = self._state(db)
            known = state.of_run(run)
            if not known:
                raise BadBudget(_unknown_run(self, run))
            # The first draw is the run itself; per user, all rounds are protected together.
            missing = 0 if known[0].unit == "user" else repeats - len(known)
            each = known[0].planned
            charged = each.times(max(0, missing))
            if missing > 0:
                if each.delta:
                    raise BadParameter(
                        f"run {run} draws from data set {self.dataset!r} and has a delta: rows are "
                        "learned again under a budget only by runs without one, or per user "
                        "(docs/guarantee.md, Theorem 18). Begin another run on them, which draws "
                        f"{cost_text(each)}"
                    )
                state.refuse_overdraft(charged, "learning rows once more")
            entry = {"kind": "draw", "dataset": self.dataset, "run": run, "charged": "repeat"}
            about = {"unit": known[0].unit, "note": known[0].note}
            for _ in range(missing):
                _append(db, {**entry, **about, **_exact(each), "planned": _exact(each)})
            return BudgetReceipt(run, charged, self._state(db), "sum" if missing > 0 else "known")

    def declare(
        self, runs: Sequence[tuple[int, Real, Real]], delta: Real, *, note: str = ""
    ) -> BudgetReceipt:
        """Declare a series of runs before the first of them, and draw what it costs together.

        Because the epsilon and delta of each run are fixed now, whatever is published later, the
        series is charged by optimal composition, which for many runs is less than the sum. A run
        that draws afterwards, and costs no more than one of them, is part of the series.

        Parameters
        ----------
        runs : sequence of (count, epsilon, delta)
            So many runs of each cost.
        delta : int, float or Fraction
            The delta of all of them together: more than the sum of theirs lowers epsilon.
        note : str
            What they are for, in words.

        Returns
        -------
        BudgetReceipt
            The name of the series, and what was charged.

        Raises
        ------
        BudgetExceeded
            If too little is left.
        BadParameter
            If the runs have a larger delta than `delta`, or too many have different epsilons.
        """
        declared = [
            RunsOfCost(whole(count, "count", least=1), _checked_cost(epsilon, each))
            for count, epsilon, each in runs
        ]
        if sum(count for count, _ in declared) > MOST_DECLARED:
            raise BadParameter(f"a series has at most {MOST_DECLARED:,} runs")
        planned = [cost for count, cost in declared for _ in range(count)]
        total = composed_cost(planned, Fraction(delta))
        name = f"series-{uuid4().hex[:8]}"
        listed = [{"count": count, **_exact(cost)} for count, cost in declared]
        with _transaction(Path(self.path)) as db:
            state = self._state(db)
            state.refuse_overdraft(total, "the series")
            head = {"kind": "declare", "dataset": self.dataset, "run": name, "note": note}
            _append(db, {**head, "runs": listed, **_exact(total)})
            return BudgetReceipt(name, total, self._state(db), "sum")

    def note_opening(self, run: str, generation: int) -> None:
        """Record how often a run's own file has been opened for writing.

        Parameters
        ----------
        run : str
            The run.
        generation : int
            How often; it only grows, so a file that knows of fewer openings is an old copy.
        """
        with _transaction(Path(self.path)) as db:
            db.execute(
                "INSERT INTO openings VALUES (?, ?) ON CONFLICT (run) DO UPDATE SET "
                "generation = max(generation, excluded.generation)",
                [run, generation],
            )

    def last_opening(self, run: str) -> int:
        """Return the most openings of a run's own file that were recorded; 0 if none was."""
        with _reading(Path(self.path)) as db:
            found = db.execute("SELECT generation FROM openings WHERE run = ?", [run]).fetchone()
        return 0 if found is None else int(found[0])

    def _state(self, db: sqlite3.Connection) -> BudgetState:
        states = _states(Path(self.path), db)
        if self.dataset not in states:
            known = ", ".join(map(repr, states)) or "none"
            raise BadBudget(
                f"{self.path} has no data set {self.dataset!r}, only {known}: `littlestone budget "
                f"create {self.path} {self.dataset} --epsilon E --delta D` creates one"
            )
        return states[self.dataset]


# Optimal composition of so many takes a second.
MOST_DECLARED = 10_000


def read_budgets(path: str | Path) -> list[BudgetState]:
    """Return the budget of every data set in a file.

    Parameters
    ----------
    path : str or Path
        The file.

    Raises
    ------
    BadBudget
        If it is not there, not a budget file, damaged or locked.
    """
    with _reading(Path(path)) as db:
        return list(_states(Path(path), db).values())


def _checked_cost(epsilon: Real, delta: Real) -> Cost:
    exact = Fraction(delta) if isinstance(delta, int | float | Fraction) else Fraction(-1)
    if not 0 <= exact < 1 or isinstance(delta, bool):
        raise BadParameter(f"delta must be at least 0 and below 1, not {delta}")
    return Cost(positive(epsilon, "epsilon"), exact)


def _exact(cost: Cost) -> dict[str, str]:
    return {"epsilon": str(cost.epsilon), "delta": str(cost.delta)}


def _cost(entry: dict[str, Any]) -> Cost:
    return Cost(Fraction(entry["epsilon"]), Fraction(entry["delta"]))


def _unknown_run(budget: BudgetFile, run: str) -> str:
    return (
        f"{budget.path} knows no draw of run {run} from data set {budget.dataset!r}: it is an old "
        "copy that was put back, or another file. Put the newest one back; what was drawn since "
        "is spent"
    )


# The file.


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Connect to a budget file whose log is sound, in a transaction."""
    if not path.exists():
        raise BadBudget(
            f"{path} is not there: `littlestone budget create {path} NAME --epsilon E --delta D` "
            "creates it"
        )
    with _sentences(path), closing(_connected(path)) as db:
        db.execute("BEGIN")
        _refuse_foreign(path, db)
        yield db


@contextmanager
def _transaction(path: Path, create: bool = False) -> Iterator[sqlite3.Connection]:
    """Connect for writing; all that is written is committed together, or nothing of it."""
    if not create and not path.exists():
        with _reading(path):
            pass
    with _sentences(path), closing(_connected(path, create)) as db:
        # A power cut must not undo a draw: EXTRA also syncs the folder after the commit.
        db.execute("PRAGMA synchronous = EXTRA")
        # IMMEDIATE takes the write lock before anything is read.
        db.execute("BEGIN IMMEDIATE")
        # Until it is committed the file is empty: a process that is killed leaves no half of it.
        if create and not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            _lay_out(path, db)
        _refuse_foreign(path, db)
        try:
            yield db
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")


def _connected(path: Path, create: bool = False) -> sqlite3.Connection:
    if path.exists() and path.stat().st_nlink > 1:
        raise BadBudget(
            f"{path} has a second name (a hard link), under which SQLite would not find what an "
            "interrupted draw left: keep one of them"
        )
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}",
        uri=True,
        isolation_level=None,
        timeout=BUSY_SECONDS,
    )


def _lay_out(path: Path, db: sqlite3.Connection) -> None:
    if path.stat().st_size:
        raise BadBudget(f"{path} is a SQLite file, but not a budget file of littlestone")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    for statement in SCHEMA.split(";")[:-1]:
        db.execute(statement)
    db.execute("INSERT INTO about VALUES ('identity', ?)", [uuid4().hex])


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into a sentence that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        kind = getattr(error, "sqlite_errorname", "")
        if kind.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise BadBudget(
                f"{path} is locked: another process has been writing it for {BUSY_SECONDS:g} "
                "seconds. Nothing was drawn; try again, or end that process"
            ) from None
        if kind.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_FULL")):
            raise BadBudget(
                f"{path}: {error}. Nothing was drawn: the file and its folder must be writable"
            ) from None
        if kind == "SQLITE_NOTADB":
            raise BadBudget(f"{path} is not a budget file of littlestone: {error}") from None
        raise BadBudget(_damaged(path, str(error))) from None


def _damaged(path: Path, what: str) -> str:
    return (
        f"{path} is damaged ({what}): what was drawn from it is not known any more, so nothing can "
        "be drawn. Put a newer copy back if there is one; otherwise take its budgets for spent"
    )


def _refuse_foreign(path: Path, db: sqlite3.Connection) -> None:
    application, version = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION_ID:
        raise BadBudget(f"{path} is a SQLite file, but not a budget file of littlestone")
    if version != SCHEMA_VERSION:
        raise BadBudget(
            f"{path} has schema {version}, and this littlestone reads {SCHEMA_VERSION}: use the "
            "littlestone that wrote it"
        )
    (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise BadBudget(_damaged(path, found.splitlines()[-1]))


def _identity(db: sqlite3.Connection) -> str:
    (found,) = db.execute("SELECT value FROM about WHERE name = 'identity'").fetchone()
    return str(found)


def _append(db: sqlite3.Connection, entry: dict[str, Any]) -> None:
    """Add an entry to the log, sealed with all before it."""
    last = db.execute("SELECT number, seal FROM log ORDER BY number DESC LIMIT 1").fetchone()
    number, seal = last or (0, _identity(db))
    text = json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), **entry})
    db.execute("INSERT INTO log VALUES (?, ?, ?)", [number + 1, text, _sealed(seal, text)])


def _sealed(before: str, entry: str) -> str:
    return blake2b(f"{before}\n{entry}".encode(), digest_size=16).hexdigest()


def _states(path: Path, db: sqlite3.Connection) -> dict[str, BudgetState]:
    """Return the budget of every data set, from the log and nothing else."""
    about: dict[str, dict[str, Any]] = {}
    draws: dict[str, list[BudgetDraw]] = {}
    try:
        seal, expected = _identity(db), 0
        for number, text, written in db.execute("SELECT * FROM log ORDER BY number"):
            seal, expected = _sealed(seal, text), expected + 1
            if (number, written) != (expected, seal):
                raise BadBudget(_damaged(path, f"the checksum of entry {expected} does not match"))
            entry = json.loads(text)
            if entry["kind"] == "create":
                about[entry["dataset"]], draws[entry["dataset"]] = entry, []
            else:
                draws[entry["dataset"]].append(_draw(entry, about[entry["dataset"]]["unit"]))
        return {
            name: BudgetState(name, _cost(entry), entry["unit"], entry["at"], tuple(draws[name]))
            for name, entry in about.items()
        }
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, BadBudget):
            raise
        raise BadBudget(_damaged(path, type(error).__name__)) from None


def _draw(entry: dict[str, Any], unit: Unit) -> BudgetDraw:
    """Return the draw that an entry of the log records."""
    if entry["kind"] == "declare":
        runs = tuple(RunsOfCost(run["count"], _cost(run)) for run in entry["runs"])
        added = sum((cost.times(count) for count, cost in runs), NOTHING)
        head = entry["at"], entry["run"], _cost(entry), added
        return BudgetDraw(*head, "sum", unit, entry["note"], runs=runs)
    return BudgetDraw(
        entry["at"],
        entry["run"],
        _cost(entry),
        _cost(entry["planned"]),
        entry["charged"],
        entry["unit"],
        entry["note"],
        series=entry.get("series"),
        slot=_cost(entry["slot"]) if "slot" in entry else None,
    )
