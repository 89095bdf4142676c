"""Keep the privacy budget of a data set in a file that all runs on it draw from.

A budget file is a SQLite file. Each of its data sets has a total (epsilon, delta) and a log of what
was drawn; a draw is checked and written in one transaction, so that processes at work at the same
time cannot draw more than the total together (docs/guarantee.md, Theorem 18). Costs are exact and
add up, which is valid also where each run's epsilon was chosen after seeing what the earlier runs
published.

A run draws before it learns a row (`charge_run`), by its name, which stays with its store: one that
was killed is charged once. A budget file that does not know a draw is an old copy, or another file;
a store that was opened less often than its budget file remembers is an old copy, too. Both are
refused.

The log is only ever added to, under the seal of the file (`_store/files.py`): what a data set has
left is computed from the log, and nothing else. Times are for people; the order of entries is that
of their numbers.
"""

import json
import secrets
import sqlite3
import unicodedata
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from littlestone._privacy.accounting import NOTHING, Cost, Guarantee, Unit
from littlestone._privacy.parameters import (
    BadParameter,
    Real,
    context,
    decimal_of,
    float_above,
    positive,
    whole,
)
from littlestone._store.files import (
    BadStore,
    FileKind,
    OldCopy,
    Seal,
    create_file,
    read_file,
    serialized,
    transaction,
)
from littlestone._store.request import LearnRequest, RunConfig, choose_learner

if TYPE_CHECKING:
    from littlestone._store.store import Run, StoreView

T = TypeVar("T")
# A total is enforced with so much more: ten runs of 0.1, which as a 64-bit float is a little more
# than a tenth, fit into 1. What may be quoted has it too (`BudgetState.guarantee`).
FLOAT_ALLOWANCE = Fraction(1, 10**12)


class BadBudget(BadStore):
    """Report a file that is not a budget file, or is damaged, locked, or lacks the data set."""


BUDGETS = FileKind(
    name="a budget file",
    application=0x4C536267,
    version=3,
    schema="CREATE TABLE log (number INTEGER PRIMARY KEY, entry TEXT NOT NULL) STRICT;",
    damage="what was drawn from it is not known any more, so nothing can be drawn. Put a newer copy "
    "back if there is one; otherwise take its budgets for spent",
    older="use the littlestone that wrote it, or create another with what is left",
    error=BadBudget,
    is_held=False,
)


class BudgetExceeded(BadParameter):
    """Report a draw that a data set has too little left for. Nothing was drawn."""


class BudgetDraw(NamedTuple):
    """Record what was drawn from a data set, when, by which run and for what."""

    at: str
    run: str
    cost: Cost
    unit: Unit
    note: str
    is_repeat: bool = False


@dataclass(frozen=True)
class BudgetState:
    """Hold what is known of a data set's budget.

    Parameters
    ----------
    dataset : str
        Its name.
    total : Cost
        What all runs may cost together.
    unit : {"event", "user"}
        What is protected whole.
    created : str
        When the budget was created.
    draws : tuple of BudgetDraw
        What was drawn, in order.
    """

    dataset: str
    total: Cost
    unit: Unit
    created: str
    draws: tuple[BudgetDraw, ...] = ()

    @property
    def spent(self) -> Cost:
        """Return what was drawn in all: costs add (basic composition, a valid filter)."""
        return sum((draw.cost for draw in self.draws), NOTHING)

    @property
    def left(self) -> Cost:
        """Return what can still be drawn."""
        spent = self.spent
        return Cost(
            max(Fraction(0), self.total.epsilon - spent.epsilon),
            max(Fraction(0), self.total.delta - spent.delta),
        )

    @property
    def guarantee(self) -> Guarantee:
        """Return what may be quoted for all runs together, now and later, rounded up."""
        most = self._enforced
        return Guarantee(_quoted(most.epsilon), _quoted(most.delta), unit=self.unit)

    @property
    def _enforced(self) -> Cost:
        more = 1 + FLOAT_ALLOWANCE
        return Cost(self.total.epsilon * more, self.total.delta * more)

    def of_run(self, run: str) -> tuple[BudgetDraw, ...]:
        """Return what a run has drawn."""
        return tuple(draw for draw in self.draws if draw.run == run)

    def refuse_overdraft(self, cost: Cost, what: str) -> None:
        """Raise `BudgetExceeded` if less than `cost` is left."""
        after, most = self.spent + cost, self._enforced
        if after.epsilon <= most.epsilon and after.delta <= most.delta:
            return
        left = self.left
        raise BudgetExceeded(
            f"data set {self.dataset!r} has {cost_text(left)} left of {cost_text(self.total)}, and "
            f"{what} draws {cost_text(cost)}. {_advice(left)} `littlestone budget explain` shows "
            "who drew what"
        )

    def refuse_other_unit(self, unit: Unit) -> None:
        """Raise `BadParameter` for a run per event on a data set that is counted per user."""
        # The other way round is fine: a neighbour per event is one per user (Theorem 18).
        if self.unit == "user" and unit == "event":
            raise BadParameter(
                f"data set {self.dataset!r} is counted per user, and this run protects events: a "
                "user may have many, so the two do not add up. Say which column is the --user, or "
                "create a budget per event"
            )


class BudgetReceipt(NamedTuple):
    """Say what a draw came to; nothing is charged to a run that has drawn before."""

    run: str
    charged: Cost
    state: BudgetState

    def in_words(self) -> list[str]:
        """Return what to tell the person: nothing, if nothing was charged."""
        return [str(self)] if self.charged.epsilon else []

    def __str__(self) -> str:
        what = f"drew {cost_text(self.charged)}" if self.charged.epsilon else "has drawn before"
        rest = f"{cost_text(self.state.left)} is left"
        return f"run {self.run} {what} from data set {self.state.dataset!r}; {rest}"


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
    (3.0001, 1.0001e-06)-differential privacy, replace-one, per event
    (2.0, None)
    >>> budget.draw(epsilon=2.5)
    Traceback (most recent call last):
    littlestone._store.budgets.BudgetExceeded: data set 'visits' has (epsilon 2, ...
    >>> folder.cleanup()
    """

    path: str | Path
    dataset: str

    @classmethod
    def create(
        cls, path: str | Path, dataset: str, *, epsilon: Real, delta: Real = 0, unit: Unit = "event"
    ) -> "BudgetFile":
        """Create the budget of a data set, and the file if there is none.

        Parameters
        ----------
        path : str or Path
            The file.
        dataset : str
            The name of the data set. Give one data set one name: the file cannot tell. It warns of
            a name that differs from another in upper and lower case only.
        epsilon, delta : int, float or Fraction
            What all runs may cost together.
        unit : {"event", "user"}
            What is protected whole.

        Raises
        ------
        BadBudget
            If the file is something else, or has the data set already.
        BadParameter
            If a parameter is out of range, or the name begins or ends with a space.
        """
        total = _checked_cost(epsilon, delta)
        if not dataset.isprintable() or not dataset or dataset != dataset.strip():
            raise BadParameter(
                f"{dataset!r} is no name of a data set: it is printed as it is, so it cannot be "
                "empty, nor begin or end with a space"
            )
        if unit not in ("event", "user"):
            raise BadParameter(f"unit must be 'event' or 'user', not {unit!r}")
        path = Path(path)
        if not path.exists():
            empty = serialized(
                BUDGETS, lambda db: Seal(db, BUDGETS, secrets.token_bytes(32)).write()
            )
            with suppress(FileExistsError):  # another process was first
                create_file(path, BUDGETS, empty)
        with transaction(path, BUDGETS) as (db, _):
            states, _ = _read_log(db)
            if dataset in states:
                raise BadBudget(
                    f"{path} has a budget for {dataset!r} already, of "
                    f"{cost_text(states[dataset].total)}: a total is not changed afterwards"
                )
            entry = {"kind": "create", "dataset": dataset, "unit": unit, **_exact(total)}
            _append(db, entry)
        for alike in (name for name in states if _folded(name) == _folded(dataset)):
            warnings.warn(
                f"{path} has a data set {alike!r} too, with a budget of its own: if {dataset!r} is "
                f"the same data, draw from {alike!r} only",
                stacklevel=2,
            )
        return cls(path, dataset)

    def read(self) -> BudgetState:
        """Return what is known of the data set.

        Raises
        ------
        BadBudget
            If the file is not there, not a budget file, damaged, or does not know the data set.
        """
        return _read(self.path, lambda db, _: self._state(db))

    @property
    def identity(self) -> str:
        """Return what tells this file from all others, wherever it is moved."""
        return _read(self.path, lambda _, seal: seal.name)

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

        Nothing is ever given back: a run that drew and was killed before its first row has drawn.

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
        with transaction(_existing(self.path), BUDGETS) as (db, _):
            # Read inside the transaction that writes: two runs must not both see the same rest.
            state = self._state(db)
            state.refuse_other_unit(unit)
            name = run or secrets.token_hex(8)
            if drawn := state.of_run(name):
                if (drawn[0].cost, drawn[0].unit) != (cost, unit):
                    raise BadBudget(
                        f"{self.path}: run {name} has drawn {cost_text(drawn[0].cost)} per "
                        f"{drawn[0].unit}, and {cost_text(cost)} per {unit} is asked for"
                    )
                return BudgetReceipt(name, NOTHING, state)
            state.refuse_overdraft(cost, "the run")
            self._append_draw(db, BudgetDraw("", name, cost, unit, note))
            return BudgetReceipt(name, cost, self._state(db))

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
        with transaction(_existing(self.path), BUDGETS) as (db, _):
            state = self._state(db)
            drawn = state.of_run(run)
            if not drawn:
                raise BadBudget(
                    f"{self.path} knows no draw of run {run} from data set {self.dataset!r}: it is "
                    "an old copy that was put back, or another file. Put the newest one back; what "
                    "was drawn since is spent"
                )
            first = drawn[0]
            # The first draw is the run itself; per user, all rounds are protected together.
            missing = 0 if first.unit == "user" else max(0, repeats - len(drawn))
            if missing and first.cost.delta:
                raise BadParameter(
                    f"run {run} draws from data set {self.dataset!r} and has a delta: rows are "
                    "learned again under a budget only by runs without one, or per user "
                    "(docs/guarantee.md, Theorem 18). Begin another run on them, which draws "
                    f"{cost_text(first.cost)}"
                )
            charged = first.cost.times(missing)
            if missing:
                state.refuse_overdraft(charged, "learning rows once more")
            for _ in range(missing):
                self._append_draw(db, first._replace(is_repeat=True))
            return BudgetReceipt(run, charged, self._state(db))

    def _append_draw(self, db: sqlite3.Connection, draw: BudgetDraw) -> None:
        entry = draw._asdict() | {"kind": "draw", "dataset": self.dataset, **_exact(draw.cost)}
        _append(db, {name: value for name, value in entry.items() if name not in ("at", "cost")})

    def note_opening(self, run: str, generation: int) -> None:
        """Record how often a run's own file has been opened for writing.

        Parameters
        ----------
        run : str
            The run.
        generation : int
            How often; it only grows, so a file that knows of fewer openings is an old copy.
        """
        with transaction(_existing(self.path), BUDGETS) as (db, _):
            _append(db, {"kind": "opening", "run": run, "generation": generation})

    def last_opening(self, run: str) -> int:
        """Return the most openings of a run's own file that were recorded; 0 if none was."""
        return _read(self.path, lambda db, _: _read_log(db)[1].get(run, 0))

    def _state(self, db: sqlite3.Connection) -> BudgetState:
        states, _ = _read_log(db)
        if self.dataset not in states:
            names = ", ".join(map(repr, states)) or "none"
            raise BadBudget(
                f"{self.path} has no data set {self.dataset!r}, only {names}: `littlestone budget "
                f"create {self.path} {self.dataset} --epsilon E --delta D` creates one"
            )
        return states[self.dataset]


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
    return _read(path, lambda db, _: list(_read_log(db)[0].values()))


def cost_text(cost: Cost) -> str:
    """Return a cost for people, rounded down to five digits."""
    return f"(epsilon {float_below(cost.epsilon):g}, delta {float_below(cost.delta):g})"


def float_below(value: Fraction) -> float:
    """Return a float of at most five digits that is not above `value`: it can be typed."""
    # A little more than asked for first: 0.1 as a float is a fraction above a tenth.
    return float(decimal_of(value * (1 + FLOAT_ALLOWANCE), context(5, ROUND_FLOOR)))


def _quoted(value: Fraction) -> float:
    """Return a float of five digits that is not below `value`: people can read it."""
    rounded = float(decimal_of(value, context(5, ROUND_CEILING)))
    # The float of a decimal may be a little less than it.
    return max(rounded, float_above(value))


def _advice(left: Cost) -> str:
    """Say what would fit."""
    if float_below(left.epsilon) == 0:
        return "Nothing fits any more: learn from other data, with a budget of its own."
    pure = "" if left.delta else ", by a learner without a delta (finite classes)"
    delta = f" --delta {float_below(left.delta):g}" if left.delta else ""
    return f"What fits: --epsilon {float_below(left.epsilon):g}{delta} or less{pure}."


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _checked_cost(epsilon: Real, delta: Real) -> Cost:
    exact = Fraction(delta) if isinstance(delta, int | float | Fraction) else Fraction(-1)
    if not 0 <= exact < 1 or isinstance(delta, bool):
        raise BadParameter(f"delta must be at least 0 and below 1, not {delta}")
    return Cost(positive(epsilon, "epsilon"), exact)


def _exact(cost: Cost) -> dict[str, str]:
    return {"epsilon": str(cost.epsilon), "delta": str(cost.delta)}


def _cost(entry: dict[str, Any]) -> Cost:
    return Cost(Fraction(entry["epsilon"]), Fraction(entry["delta"]))


# The file.


def _existing(path: str | Path) -> Path:
    if not Path(path).exists():
        raise BadBudget(
            f"{path} is not there: `littlestone budget create {path} NAME --epsilon E --delta D` "
            "creates it"
        )
    return Path(path)


def _read(path: str | Path, read: Callable[[sqlite3.Connection, Seal], T]) -> T:
    return read_file(_existing(path), BUDGETS, read)


def _append(db: sqlite3.Connection, entry: dict[str, Any]) -> None:
    """Add an entry to the log."""
    text = json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), **entry})
    db.execute("INSERT INTO log (entry) VALUES (?)", [text])


def _read_log(db: sqlite3.Connection) -> tuple[dict[str, BudgetState], dict[str, int]]:
    """Return the budget of every data set and the openings of every run, from the log alone."""
    created: dict[str, dict[str, Any]] = {}
    draws: dict[str, list[BudgetDraw]] = {}
    openings: dict[str, int] = {}
    for (text,) in db.execute("SELECT entry FROM log ORDER BY number"):
        entry = json.loads(text)
        if entry["kind"] == "create":
            created[entry["dataset"]], draws[entry["dataset"]] = entry, []
        elif entry["kind"] == "draw":
            draws[entry["dataset"]].append(_draw(entry))
        else:
            run, generation = entry["run"], entry["generation"]
            openings[run] = max(generation, openings.get(run, 0))
    states = {
        name: BudgetState(name, _cost(entry), entry["unit"], entry["at"], tuple(draws[name]))
        for name, entry in created.items()
    }
    return states, openings


def _draw(entry: dict[str, Any]) -> BudgetDraw:
    """Return the draw that an entry of the log records."""
    at, run, unit, note, again = (entry[n] for n in ("at", "run", "unit", "note", "is_repeat"))
    return BudgetDraw(at, run, _cost(entry), unit, note, again)


# Runs that draw.


def budget_of(task: LearnRequest) -> BudgetFile | None:
    """Return the budget that a request names, or None."""
    if task.budget is None and task.dataset is None:
        return None
    if task.budget is None or task.dataset is None:
        raise BadParameter(
            "--budget FILE and --dataset NAME belong together: `littlestone budget show FILE` lists"
            " the data sets of a file"
        )
    return BudgetFile(task.budget, task.dataset)


def account_of(task: LearnRequest) -> dict[str, str] | None:
    """Return what a store keeps of the budget that its run draws from."""
    budget = budget_of(task)
    if budget is None:
        return None
    path = str(Path(budget.path).absolute())
    return {"file": path, "identity": budget.identity, "dataset": budget.dataset}


def budget_in(about: RunConfig) -> BudgetFile | None:
    """Return the budget that a stored run draws from, where it was when the run was begun."""
    account = about.account
    return None if account is None else BudgetFile(account["file"], account["dataset"])


def check_budget(task: LearnRequest) -> BudgetFile | None:
    """Return the budget of a run that is about to begin, if it has enough left for the run."""
    budget = budget_of(task)
    if budget is not None:
        # The cost follows from the class and the budget, whatever the horizon.
        cost = choose_learner(task, task.horizon or 1).plan.cost
        budget.check(cost.epsilon, cost.delta, unit=task.unit)
    return budget


def stored_budget(view: "StoreView", task: LearnRequest, path: Path) -> BudgetFile | None:
    """Return the budget that a stored run draws from, before the store is taken over."""
    account = view.about.account
    if account is None:
        if task.budget is not None or task.dataset is not None:
            raise BadStore(
                f"{path} was begun without a budget, and a run is not charged afterwards: leave "
                "--budget out, or enter what it costs with `littlestone budget draw`"
            )
        return None
    if task.dataset not in (None, account["dataset"]):
        raise BadStore(
            f"{path} draws from data set {account['dataset']!r}, not {task.dataset!r}: leave "
            "--dataset out to go on, or begin another file"
        )
    budget = BudgetFile(task.budget or Path(account["file"]), account["dataset"])
    if budget.identity != account["identity"]:
        raise BadBudget(
            f"{budget.path} is not the budget file that {path} was begun with, which was "
            f"{account['file']}: say with --budget where that one is now"
        )
    if view.generation < budget.last_opening(view.run):
        raise OldCopy(
            f"{path} is an old copy: {budget.path} remembers that its run was opened for writing "
            "later than this file knows. Learning on would release twice. Put the newest file "
            "back, or begin another, which draws again"
        )
    return budget


def charge_run(run: "Run", budget: BudgetFile | None, source: str = "") -> list[str]:
    """Draw what a run costs before its first row, once; return what to tell the person.

    A run draws by its name, which stays with its store: so it may be killed at any instruction. One
    that has learned something must have drawn, else the budget file is an old copy.
    """
    if budget is None:
        return []
    terms, drawn = run.about.terms, budget.read().of_run(run.run)
    # Per user all rounds are protected together, however often a row is among them.
    needed = 1 if terms.unit == "user" else run.repeats
    if run.learner.rounds and len(drawn) < needed:
        raise BadBudget(
            f"{budget.path} knows {len(drawn)} draws of run {run.run}, and {run.path} has learned "
            "more: the budget file is an old copy that was put back. Put the newest one back; what "
            "was drawn since is spent"
        )
    told = []
    if not run.learner.rounds:
        cost = run.about.chosen.plan.cost
        what = f"learn {terms.spec} of {source}"
        note = what if run.path is None else f"{terms.spec} in {run.path.name}"
        try:
            receipt = budget.draw(cost.epsilon, cost.delta, unit=terms.unit, run=run.run, note=note)
        except BudgetExceeded:
            run.discard()  # a refused call leaves nothing behind
            raise
        told = receipt.in_words()
    if run.path is not None:
        budget.note_opening(run.run, run.generation)
    run.charged = True
    return told
