"""The inequalities of Theorem 5, decided by z3: another prover than Coq, from another text.

Each is written as docs/guarantee.md writes it, with denominators multiplied out. It is proved if z3
finds no reals that satisfy its conditions and violate it. Without one of its conditions it must be
violated somewhere: z3 then gives numbers, and they are checked in exact rationals.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import pytest

z3: Any = pytest.importorskip("z3")

NAMES = ("q", "k", "after", "r", "other", "low", "top")
MILLISECONDS = 60_000


class Inequality(NamedTuple):
    """Conditions by name, and the claim, as functions of the variables."""

    conditions: dict[str, Callable[..., Any]]
    claim: Callable[..., Any]
    needed: tuple[str, ...]


def everywhere(**more: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """What all of them assume: q > 1, probabilities, and r >= 0."""
    return {
        "q > 1": lambda v: v.q > 1,
        "0 < k": lambda v: v.k > 0,
        "k <= 1": lambda v: v.k <= 1,
        "r >= 0": lambda v: v.r >= 0,
        "other >= 0": lambda v: v.other >= 0,
        **{name.replace("_", " "): condition for name, condition in more.items()},
    }


def named(k: Any, r: Any) -> tuple[Any, Any]:
    """P = 1/(1/k + r), as a numerator and a denominator."""
    return k, 1 + k * r


def taken(k: Any, r: Any) -> tuple[Any, Any]:
    """T = (1-k)/((1+r)(1+kr)), as a numerator and a denominator."""
    return 1 - k, (1 + r) * (1 + k * r)


def at_most(one: tuple[Any, Any], factor: Any, two: tuple[Any, Any], more: Any = 0) -> Any:
    """One <= factor * two + more, for positive denominators."""
    return one[0] * two[1] <= factor * two[0] * one[1] + more * one[1] * two[1]


def condition_1(v: Any) -> Any:
    return v.after <= v.q**2 * v.k + v.low


def condition_2(v: Any) -> Any:
    return 1 - v.k <= v.q**2 * (1 - v.after)


def condition_3(v: Any) -> Any:
    return v.q**2 * v.k * (1 - v.after) <= v.after * (1 - v.k)


def condition_4(v: Any) -> Any:
    return v.after * (1 - v.k) <= v.q**4 * v.k * (1 - v.after)


def rises(v: Any) -> Any:
    return v.k <= v.after


def certain(v: Any) -> Any:
    return v.after <= 1


INEQUALITIES = {
    "a bystander's name": Inequality(
        everywhere(rivals=lambda v: v.other <= v.q * v.r),
        lambda v: at_most(named(v.k, v.r), v.q**2, named(v.k, v.other)),
        ("rivals",),
    ),
    "the name that gains": Inequality(
        everywhere(rises=rises, rivals=lambda v: v.other <= v.r),
        lambda v: at_most(named(v.k, v.r), 1, named(v.after, v.other)),
        ("rises", "rivals"),
    ),
    "the name that falls": Inequality(
        everywhere(
            condition_1=condition_1, rises=rises, low=lambda v: v.low >= 0,
            rivals=lambda v: v.r <= v.q**2 * v.other,
        ),
        lambda v: at_most(named(v.after, v.other), v.q**2, named(v.k, v.r), v.low),
        ("condition 1", "rivals"),
    ),
    "the name that falls from certainty": Inequality(
        everywhere(jump=lambda v: v.k >= 1 - v.top, shares=lambda v: v.top <= v.low,
                   top=lambda v: v.top >= 0),
        lambda v: v.q**2 * v.k + v.low >= 1,
        ("jump", "shares"),
    ),
    "a bystander's part of None": Inequality(
        everywhere(rivals=lambda v: v.other <= v.q * v.r),
        lambda v: at_most(taken(v.k, v.r), v.q**2, taken(v.k, v.other)),
        ("rivals",),
    ),
    "None, a key fell": Inequality(
        everywhere(condition_3=condition_3, rises=rises, certain=certain,
                   rivals=lambda v: v.r == v.q**2 * v.other),
        lambda v: at_most(taken(v.after, v.other), v.q**2, taken(v.k, v.r)),
        ("condition 3",),
    ),
    "None, a key gained: the coefficient of r": Inequality(
        everywhere(condition_2=condition_2, condition_4=condition_4, rises=rises, certain=certain),
        lambda v: (1 - v.k) * (1 + v.after) <= v.q**3 * (1 - v.after) * (1 + v.k),
        ("condition 2",),
    ),
    "None, a key gained": Inequality(
        everywhere(
            condition_2=condition_2, condition_4=condition_4, rises=rises, certain=certain,
            middle=lambda v: (1 - v.k) * (1 + v.after) <= v.q**3 * (1 - v.after) * (1 + v.k),
            rivals=lambda v: v.r == v.q * v.other,
        ),
        lambda v: at_most(taken(v.k, v.r), v.q**2, taken(v.after, v.other)),
        ("condition 2", "condition 4"),
    ),
    "None at the jump": Inequality(
        everywhere(jump=lambda v: v.k >= 1 - v.top),
        lambda v: at_most(taken(v.k, v.r), 0, (1, 1), v.top),
        ("jump",),
    ),
    "None, a key vanished": Inequality(
        # r is Z before, other is Z after; the key weighed q - 1.
        everywhere(total=lambda v: v.r >= 1, totals=lambda v: v.other >= 1,
                   rivals=lambda v: v.other <= v.q * v.r),
        lambda v: at_most((v.q, v.r), v.q**2, (1, v.other)),
        ("rivals",),
    ),
}  # fmt: skip


class Variables:
    """One number, or one symbol, for each name."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


def solve(inequality: Inequality, left_out: tuple[str, ...]) -> Any:
    """Look for numbers that satisfy the conditions but those left out, and violate the claim."""
    symbols = Variables({name: z3.Real(name) for name in NAMES})
    solver = z3.SolverFor("QF_NRA")
    solver.set("timeout", MILLISECONDS)
    for name, condition in inequality.conditions.items():
        if name not in left_out:
            solver.add(condition(symbols))
    solver.add(z3.Not(inequality.claim(symbols)))
    return solver.check(), solver


@pytest.mark.parametrize("name", INEQUALITIES)
def test_the_inequality_holds(name: str) -> None:
    answer, _ = solve(INEQUALITIES[name], ())
    assert answer == z3.unsat


@pytest.mark.parametrize(
    ("name", "left_out"), [(n, without) for n, i in INEQUALITIES.items() for without in i.needed]
)
def test_without_a_condition_it_is_refuted(name: str, left_out: str) -> None:
    inequality = INEQUALITIES[name]
    dropped: tuple[str, ...] = (left_out,)
    if left_out == "condition 2" and "middle" in inequality.conditions:
        # The middle coefficient was proved from it.
        dropped = (left_out, "middle")
    answer, solver = solve(inequality, dropped)
    assert answer == z3.sat
    model = solver.model()
    values = Variables({n: rational(model.eval(z3.Real(n), model_completion=True)) for n in NAMES})
    kept = [c(values) for n, c in inequality.conditions.items() if n not in dropped]
    assert not inequality.claim(values)
    assert all(kept)


def rational(value: Any) -> Fraction:
    """A value of a model; an algebraic number is approximated, and then checked like any other."""
    if not z3.is_rational_value(value):
        value = value.approx(30)
    return Fraction(value.numerator_as_long(), value.denominator_as_long())
