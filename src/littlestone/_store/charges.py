"""Charge runs to the budget of their data set, before they learn a row (Theorem 18).

A run without a store draws once. A stored run draws by its name, which stays with the store, so it
may be killed at any instruction and is charged once: a store that has learned nothing draws when it
is opened, one that has learned something must have drawn. A budget file that does not know the draw
is an old copy, or another file; a store that was opened less often than its budget file remembers
is an old copy, too. Both are refused.
"""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from littlestone._learners.registry import LearnerChoice
from littlestone._privacy.parameters import BadParameter
from littlestone._store.budgets import BadBudget, BudgetExceeded, BudgetFile
from littlestone._store.files import BadStore, OldCopy
from littlestone._store.request import LearnRequest, choose_learner
from littlestone._store.serialization import RunConfig

if TYPE_CHECKING:
    from littlestone._store.store import Store, StoreView


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


def check_budget(task: LearnRequest) -> BudgetFile | None:
    """Return the budget of a run that is about to begin, if it has enough left for the run."""
    budget = budget_of(task)
    if budget is not None:
        # The cost follows from the class and the budget, whatever the horizon.
        cost = choose_learner(task, task.horizon or 1).plan.cost
        budget.check(cost.epsilon, cost.delta, unit=task.unit)
    return budget


def charge_run(budget: BudgetFile | None, chosen: LearnerChoice, task: LearnRequest) -> list[str]:
    """Draw for a run that is not stored; return what to tell the person."""
    if budget is None:
        return []
    cost, note = chosen.plan.cost, f"learn {task.spec} of {task.source}"
    return [str(budget.draw(cost.epsilon, cost.delta, unit=task.unit, note=note))]


def stored_budget(view: "StoreView", task: LearnRequest, path: Path) -> BudgetFile | None:
    """Return the budget that a stored run draws from, before the store is taken over."""
    account = view.about.account
    named = task.budget or task.dataset
    if account is None:
        if named is not None:
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


def charge_store(budget: BudgetFile | None, store: "Store") -> list[str]:
    """Draw for a stored run, unless it has drawn; return what to tell the person."""
    account = store.about.account
    if budget is None or account is None:
        return []
    told = []
    if store.learner.rounds == 0:
        cost, note = (
            store.about.chosen.plan.cost,
            f"{store.about.terms.spec} in {store.path.name}",
        )
        unit = store.about.terms.unit
        try:
            receipt = budget.draw(cost.epsilon, cost.delta, unit=unit, run=store.run, note=note)
        except BudgetExceeded:
            # A refused call leaves nothing behind. The first opening is that of whoever created it.
            if store.generation == 1:
                store.close()
                store.path.unlink()
            raise
        told = [str(receipt)] if receipt.charged.epsilon else []
    # Of a run that has learned something this only looks whether all of it was drawn.
    elif len(drawn := budget.read().of_run(store.run)) < _draws_needed(store.about, store.repeats):
        raise BadBudget(
            f"{budget.path} knows {len(drawn)} draws of run {store.run}, and {store.path} has "
            "learned more: the budget file is an old copy that was put back. Put the newest one "
            "back; what was drawn since is spent"
        )
    budget.note_opening(store.run, store.generation)
    store.charged = True
    return told


def refuse_uncharged(store: "Store") -> None:
    """Refuse to learn the first row of a run that has not drawn."""
    account = store.about.account
    if account is None or store.charged:
        return
    drawn: object = None
    with suppress(BadBudget):
        drawn = BudgetFile(account["file"], account["dataset"]).read().of_run(store.run)
    if not drawn:
        raise BadStore(
            f"{store.path} has not drawn from data set {account['dataset']!r} of "
            f"{account['file']}, and learns nothing before that: open it with `learn --db` or "
            "`serve`, which draw"
        )
    store.charged = True


def charge_repeat(budget: BudgetFile | None, store: "Store", repeat: int) -> list[str]:
    """Draw for rows that a stored run is about to learn once more (`--again`)."""
    if budget is None or repeat == 1:
        return []
    receipt = budget.draw_again(store.run, repeat)
    return [str(receipt)] if receipt.charged.epsilon else []


def _draws_needed(about: RunConfig, repeats: int) -> int:
    # Per user all rounds are protected together, however often a row is among them.
    return 1 if about.terms.unit == "user" else repeats
