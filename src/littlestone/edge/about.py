"""How a stored learner was begun: what was asked, what was chosen, the class, the coins' seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from littlestone.edge.specs import parse_spec
from littlestone.edge.tasks import TERMS, Chosen, Task, chosen_from_json
from littlestone.errors import LittlestoneError
from littlestone.theory.class_json import class_from_json, class_to_json, same_class
from littlestone.theory.classes import HypothesisClass

OLD_COPY = (
    "the file is an old copy: somebody has seen rules, or rounds, that it does not know. Learning "
    "on would release twice. Put the newest file back, or begin another with a new budget"
)


class BadStore(LittlestoneError, ValueError):
    """A file that is no store, or not the one that is meant."""


class OldCopy(BadStore):
    """A file that is behind what was published from it."""


@dataclass(frozen=True)
class About:
    """How the learner was begun. It never changes.

    `cls` is the class itself: what its specification names, such as a file with a table, may have
    changed since.
    """

    terms: Mapping[str, Any]
    chosen: Chosen
    seed: int
    cls: HypothesisClass

    @property
    def spec(self) -> str:
        """The class as it was asked for, to be shown."""
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
        return {
            "terms": self.terms,
            "chosen": self.chosen.to_json(),
            "seed": self.seed,
            "class": class_to_json(self.cls),
        }

    def refuse_other(self, task: Task, path: Path) -> None:
        """What a person says again must be what was said when the learner was begun."""
        if "spec" in task.given:
            self._refuse_other_class(task.spec, path)
        for name in sorted(task.given & {*TERMS, "seed"} - {"spec"}):
            said = getattr(task, name)
            begun = self.seed if name == "seed" else self.terms[name]
            if said != begun:
                raise BadStore(
                    f"{path} was begun with {name} {begun}, not {said}: leave it out to go on, or "
                    "begin another file"
                )

    def _refuse_other_class(self, spec: str, path: Path) -> None:
        if same_class(parse_spec(spec), self.cls):
            return
        if spec != self.spec:
            raise BadStore(
                f"{path} was begun with spec {self.spec}, not {spec}: leave it out to go on, or "
                "begin another file"
            )
        raise BadStore(
            f"{path} was begun with another class under the name {spec}: what it names has changed "
            "since. Leave --class out to go on with the class that the file keeps, or begin "
            "another file"
        )


def about_from_json(data: Mapping[str, Any]) -> About:
    """Read back what `About.to_json` wrote."""
    cls = class_from_json(data["class"])
    return About(data["terms"], chosen_from_json(data["chosen"]), data["seed"], cls)
