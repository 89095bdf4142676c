"""Symbolic draws: the law of a selector's own code, at sizes no one can walk value by value."""

from fractions import Fraction

import pytest

from littlestone._audit.enumeration import BranchingNoise, law
from littlestone._privacy.selection import UnknownDomainSelection

A, B, C = b"a", b"b", b"c"


@pytest.mark.parametrize("votes", [{}, {A: 1}, {A: 2, B: 2}, {A: 14, B: 9, C: 9}, {C: 25, B: 24}])
@pytest.mark.parametrize("leave_out", [None, B])
def test_unknown_domain_selection_draws_by_the_law_it_states(
    votes: dict[bytes, int], leave_out: bytes | None
) -> None:
    """`select` draws uniform integers of some hundred digits; `law` is the theorem's formula."""
    selector = UnknownDomainSelection(epsilon=Fraction(3, 4), delta=Fraction(1, 10**6))
    drawn = law(lambda noise: selector.select(votes, noise, 0, leave_out), BranchingNoise)
    stated = selector.law(votes, leave_out)
    assert set(drawn) == {key for key, p in stated.items() if p}
    for key, p in drawn.items():
        assert p == pytest.approx(float(stated[key]), rel=1e-12)


def test_what_cannot_be_asked_is_an_error_and_not_a_wrong_law() -> None:
    at = ("test", 0, 0)
    with pytest.raises(TypeError):
        law(lambda noise: {noise.laplace(Fraction(2), at): 1}.popitem(), BranchingNoise)
    with pytest.raises(TypeError):
        law(lambda noise: noise.uniform(5, at) * 2, BranchingNoise)
    with pytest.raises(TypeError):
        law(lambda noise: noise.laplace(Fraction(2), at) // 2, BranchingNoise)


def test_a_draw_is_narrowed_by_every_answer() -> None:
    """Asked again it answers the same, and its parts add up to one."""
    at = ("test", 0, 0)

    def run(noise: BranchingNoise) -> tuple[bool, bool, int]:
        drawn = noise.uniform(10**40, at)
        above = drawn >= 3 * 10**39
        return above, drawn - 10**39 >= 2 * 10**39, drawn // 10**39

    found = law(run, BranchingNoise)
    assert found == pytest.approx({(q >= 3, q >= 3, q): 0.1 for q in range(10)})
    tail = law(lambda noise: noise.laplace(Fraction(3), at) > 30, BranchingNoise)
    assert sum(tail.values()) == pytest.approx(1, rel=1e-15)
