"""Record what a game was, who played it, and how it came out. Transcripts go to JSON and back."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from littlestone.learning.releases import Release, Releases
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.notebook import facts, side_by_side
from littlestone.theory.reading import rule_from_json

Point = tuple[int, int]
"""A number of rounds, and the mistakes made in them."""


@dataclass(frozen=True, repr=False)
class Transcript:
    """Hold a game and its provenance. Private, as it counts mistakes: it does not print.

    `best` is the mistakes of the best fixed rule of the class, `unavoidable` those of the targets
    themselves (the label noise); None where they are not known. `coins` is the learner's seed,
    which is not secret.
    """

    version: str
    learner: str
    cls: str
    plan: Mapping[str, Any] | None
    coins: int | None
    adversary: str
    seed: int | None
    rounds: int
    curve: tuple[Point, ...]
    releases: tuple[Release, ...]
    truth: Hypothesis | None
    best: int | None
    unavoidable: int | None
    guarantee: str
    seconds: float

    def __repr__(self) -> str:
        return f"Transcript({self.learner} against {self.adversary}, private)"

    def _repr_html_(self) -> str:
        told = {
            "learner": self.learner,
            "against": self.adversary,
            "class": self.cls,
            "rounds": f"{self.rounds:,}",
            "guarantee": self.guarantee,
        }
        note = "what is public; mistakes are private, and do not show"
        releases = Releases(self.releases)._repr_html_()
        return side_by_side([facts("Transcript", told, note), releases])

    @property
    def mistakes(self) -> int:
        """Return how many there were in all."""
        return self.curve[-1][1] if self.curve else 0

    @property
    def rule(self) -> Hypothesis:
        """Return the rule that is published at the end."""
        return self.releases[-1].rule

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data; `transcript_from_json` reads it back exactly."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        data["curve"] = [list(point) for point in self.curve]
        data["releases"] = [[number, rule.to_json()] for number, rule in self.releases]
        data["truth"] = None if self.truth is None else self.truth.to_json()
        return data


def transcript_from_json(data: Mapping[str, Any]) -> Transcript:
    """Read back what `Transcript.to_json` wrote."""
    truth = data["truth"]
    return Transcript(
        **{
            **data,
            "curve": tuple((rounds, mistakes) for rounds, mistakes in data["curve"]),
            "releases": tuple(Release(n, rule_from_json(rule)) for n, rule in data["releases"]),
            "truth": None if truth is None else rule_from_json(truth),
        }
    )
