"""The counting floor: against rationals, against whole laws of views, against ball arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from exact.enumeration import Law, total_variation, view_law
from gmpy2 import mpfr
from hypothesis import given
from hypothesis import strategies as st

from ikos import message_count
from ikos.counts.floor import _consistent, counting_floor

flint = pytest.importorskip("flint", reason="python-flint is the independent evaluator")

SHUFFLERS = ("parallel", "single")
each_shuffler = pytest.mark.parametrize("shuffler", SHUFFLERS)


@pytest.fixture(autouse=True)
def _precise() -> Any:
    before, flint.ctx.prec = flint.ctx.prec, 600
    yield
    flint.ctx.prec = before


def ways(n: int, m: int, shuffler: str) -> int:
    """Return how many ways there are to hand the messages back to the users."""
    if shuffler == "parallel":
        return math.factorial(n) ** m
    return math.factorial(m * n) // math.factorial(m) ** n


def smallest(n: int, shuffler: str, enough: Callable[[int], bool]) -> int:
    return next(m for m in range(1, 10**6) if enough(ways(n, m, shuffler)))


# Against the definition, at small sizes


@each_shuffler
@pytest.mark.parametrize("n", [2, 3, 7])
def test_floor_is_exact_at_integer_levels(n: int, shuffler: str) -> None:
    """Exact ties are among these: (2!)^m = 2^m for q and 1 - 2^-1 powers of two."""
    for q in (2, 3, 4, 5, 7, 8, 16, 60, 64, 997, 2**20, 2**61 - 1):
        for sigma in (1, 2, 3, 10, 200):
            needed = (1 - Fraction(1, 2**sigma)) * q ** (n - 1)
            floor = counting_floor(n, q, sigma, shuffler=shuffler)
            assert floor == smallest(n, shuffler, lambda count, r=needed: count >= r)


def test_a_tie_is_not_excluded() -> None:
    # 2^m >= (1 - 1/2) 2^64 holds with equality at 63; a hair more security needs one more.
    assert counting_floor(2, 2**64, 1) == 63
    assert counting_floor(2, 2**64, Fraction(1) + Fraction(1, 10**30)) == 64


def ball(value: mpfr) -> Any:
    return flint.arb(flint.fmpq(*map(int, value.as_integer_ratio())))


def test_counts_are_upper_bounds_to_the_last_digit() -> None:
    """At least log2 N to the last of the digits that are computed with, and next to it."""
    ln2 = flint.arb(2).log()
    for (n, m), shuffler in product(product(range(2, 40), range(1, 12)), SHUFFLERS):
        found, true = ball(_consistent(n, m, shuffler)), flint.arb(ways(n, m, shuffler)).log() / ln2
        assert not found < true
        assert found < true + flint.arb(2) ** -235


@pytest.mark.slow
def test_exact_ties_are_not_excluded() -> None:
    """N = (1 - 2^-1) q for two users is enough, and no fewer messages are."""
    for m in range(1, 150):
        for shuffler in SHUFFLERS:
            assert counting_floor(2, 2 * ways(2, m, shuffler), 1, shuffler=shuffler) <= m
            # one input more than a view is consistent with
            assert counting_floor(2, 2 * ways(2, m, shuffler) + 2, 1, shuffler=shuffler) <= m + 1


# Against whole laws of views


SETTINGS = [("parallel", False), ("single", False), ("parallel", True), ("single", True)]
SIZES = [(2, 2, 1), (2, 2, 2), (2, 3, 1), (2, 3, 2), (2, 5, 1), (3, 2, 1), (3, 2, 2), (3, 3, 1)]


def laws(n: int, q: int, m: int, shuffler: str, clear: bool) -> dict[tuple[int, ...], Law]:
    return {x: view_law(x, q, m, shuffler, clear) for x in product(range(q), repeat=n)}


def average_variation(by_input: dict[tuple[int, ...], Law], q: int) -> Fraction:
    """Return the mean total variation over independent uniform inputs with the same sum."""
    pairs = [(x, y) for x in by_input for y in by_input if (sum(x) - sum(y)) % q == 0]
    total = sum((total_variation(by_input[x], by_input[y]) for x, y in pairs), Fraction(0))
    return total / len(pairs)


@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
@pytest.mark.parametrize("size", SIZES)
def test_the_inequality_of_the_proof(size, shuffler, clear):
    """TV on average is at least 1 - N / q^(n-1), and no view is consistent with more than N."""
    n, q, m = size
    by_input = laws(n, q, m, shuffler, clear)
    count = ways(n, m, shuffler)
    assert average_variation(by_input, q) >= 1 - Fraction(count, q ** (n - 1))
    views = {view for law in by_input.values() for view in law}
    assert max(sum(view in law for law in by_input.values()) for view in views) <= count


# At any size


def missing(n: int, q: int, sigma: Any, m: int, shuffler: str) -> Any:
    """Return log2 of the right-hand side over the left, as a ball."""
    ln2 = flint.arb(2).log()
    level = flint.arb(flint.fmpq(*Fraction(sigma).as_integer_ratio()))
    needed = (-(-level * ln2).expm1()).log() + (n - 1) * flint.arb(q).log()
    if shuffler == "parallel":
        return needed - m * flint.arb(n + 1).lgamma()
    return needed - flint.arb(m * n + 1).lgamma() + n * flint.arb(m + 1).lgamma()


def check_floor_by_balls(n: int, q: int, sigma: Any, shuffler: str) -> None:
    m = counting_floor(n, q, sigma, shuffler=shuffler)
    assert not missing(n, q, sigma, m, shuffler) > 0
    assert m == 1 or missing(n, q, sigma, m - 1, shuffler) > 0


users = st.one_of(st.integers(2, 40), st.integers(2, 10**13), st.integers(2, 10**40))
moduli = st.one_of(
    st.integers(2, 2**70),
    st.builds(lambda k, a: 2**k + a, st.integers(70, 4000), st.integers(-5, 5)),
)
levels = st.one_of(
    st.integers(1, 1200), st.floats(1e-300, 1e12), st.fractions(Fraction(1, 10**9), 3)
)


@given(n=users, q=moduli, sigma=levels, shuffler=st.sampled_from(SHUFFLERS))
def test_floor_is_the_fewest_that_are_not_excluded(n, q, sigma, shuffler):
    check_floor_by_balls(n, q, sigma, shuffler)


@each_shuffler
@pytest.mark.parametrize(
    ("n", "q", "sigma"),
    [
        (10**12, 2**1_000_000, 1e12),
        (2, 2**1_000_000, 0.5),
        (2, 2**1_000_000 - 1, 80),
        (3, 2**1_000_000 + 1, 5e-324),
        (10**400, 2, 5000),
        (10**400, 2**1_000_000, 1),
        (2, 2, 1e-300),
        (2, 3, Fraction(1, 10**2000)),
    ],
    ids=range(8),
)
def test_extreme_arguments_are_answered(n: int, q: int, sigma: Any, shuffler: str) -> None:
    flint.ctx.prec = 8000
    check_floor_by_balls(n, q, sigma, shuffler)


@given(n=users, q=moduli, sigma=levels, shuffler=st.sampled_from(SHUFFLERS))
def test_floors_move_the_right_way(n: int, q: int, sigma: Any, shuffler: str) -> None:
    floor = counting_floor(n, q, sigma, shuffler=shuffler)
    assert counting_floor(n, q + 1, sigma, shuffler=shuffler) >= floor
    assert counting_floor(n, q * q, sigma, shuffler=shuffler) >= floor
    assert counting_floor(n, q, min(Fraction(sigma) * 2, 10**12), shuffler=shuffler) >= floor
    assert counting_floor(n, q, sigma, shuffler=shuffler, clear_share=False) == floor
    assert counting_floor(n, q, sigma, shuffler="single") <= counting_floor(n, q, sigma)
    assert floor >= 1


@pytest.mark.points(1)
@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
@given(n=st.integers(1, 60), q=st.integers(2, 2**70), sigma=st.integers(1, 200))
def test_floors_are_below_exact_counts(shuffler, clear, n, q, sigma):
    proved = message_count(
        n, q, sigma, analysis="second_moment", shuffler=shuffler, clear_share=clear
    )
    assert counting_floor(n, q, sigma, shuffler=shuffler, clear_share=clear) <= proved.shuffled


def test_a_single_user_needs_one_message() -> None:
    assert counting_floor(1, 2**64, 80) == counting_floor(1, 2, 0.1, shuffler="single") == 1
