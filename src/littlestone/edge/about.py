"""How a stored learner was begun: what was asked, what was chosen, the seed of its coins."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from littlestone.edge.tasks import TERMS, Chosen, Task, chosen_from_json


class BadStore(ValueError):
    """A file that is no store, or not the one that is meant."""


@dataclass(frozen=True)
class About:
    """How the learner was begun. It never changes."""

    terms: Mapping[str, Any]
    chosen: Chosen
    seed: int

    @property
    def spec(self) -> str:
        """The class."""
        return str(self.terms["spec"])

    @property
    def label(self) -> str:
        """The column of labels."""
        return str(self.terms["label"])

    @property
    def user(self) -> str | None:
        """The column of users, if they are protected whole."""
        user = self.terms["user"]
        return None if user is None else str(user)

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {"terms": self.terms, "chosen": self.chosen.to_json(), "seed": self.seed}

    def refuse_other(self, task: Task, path: Path) -> None:
        """What a person says again must be what was said when the learner was begun."""
        for name in sorted(task.given & {*TERMS, "seed"}):
            said = getattr(task, name)
            begun = self.seed if name == "seed" else self.terms[name]
            if said != begun:
                raise BadStore(
                    f"{path} was begun with {name} {begun}, not {said}: leave it out to go on, or "
                    "begin another file"
                )


def about_from_json(data: Mapping[str, Any]) -> About:
    """Read back what `About.to_json` wrote."""
    return About(data["terms"], chosen_from_json(data["chosen"]), data["seed"])
