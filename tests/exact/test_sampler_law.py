"""The noise samplers' laws as fractions: every step of the proofs, played out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from exact.enumeration import Ideal, Law, exact_law
from numpy.typing import NDArray

from ikos.primitives import samplers as noise
from ikos.primitives.samplers import bernoulli_exp, one_bernoulli_exp


def rising(r: Fraction, k: int) -> Fraction:
    return math.prod((r + i for i in range(k)), start=Fraction(1))


def many_bernoulli_exp(x: Fraction, rng: Any) -> bool:
    return bool(bernoulli_exp(np.array([x.numerator]), x.denominator, rng)[0])


def single_bernoulli_exp(x: Fraction, rng: Any) -> bool:
    return one_bernoulli_exp(x.numerator, x.denominator, rng)


@pytest.mark.parametrize("sampler", [many_bernoulli_exp, single_bernoulli_exp])
@pytest.mark.parametrize("x", [Fraction(1), Fraction(1, 2), Fraction(2, 3), Fraction(0)])
def test_bernoulli_exp_stops_at_each_step_with_the_probability_of_the_series(
    x: Fraction, sampler: Callable[[Fraction, Any], bool]
) -> None:
    """P[stop at k] = x^(k-1)/(k-1)! - x^k/k!, and the odd ones are True: exp(-x) in all."""
    steps = 5

    def experiment(rng: Ideal) -> tuple[int, bool] | None:
        asked = 0

        def step() -> None:
            nonlocal asked
            asked += 1
            if asked > steps:
                raise StopIteration

        def uniform_into(out: NDArray[Any], group: Any) -> None:
            step()
            Ideal.uniform_into(rng, out, group)

        def integer(bound: int) -> int:
            if bound > 1:
                step()
            return Ideal.integer(rng, bound)

        rng.uniform_into = uniform_into  # type: ignore[method-assign]
        rng.integer = integer  # type: ignore[method-assign]
        try:
            kept = sampler(x, rng)
        except StopIteration:
            return None
        # With denominator 1 the first step needs no randomness.
        return asked + (x.denominator == 1), kept

    law, unfinished = exact_law(experiment)
    assert unfinished == 0
    last = steps + (x.denominator == 1)
    for k in range(1, last + 1):
        stop = x ** (k - 1) / math.factorial(k - 1) - x**k / math.factorial(k)
        assert law.get((k, k % 2 == 1), 0) == stop
        assert (k, k % 2 == 0) not in law
    assert law.pop(None, 0) == x**last / math.factorial(last)
    true = sum(p for (_, kept), p in law.items() if kept)
    assert abs(float(true) - math.exp(-x)) <= float(x**last / math.factorial(last))


@pytest.mark.parametrize("s", [Fraction(2, 3), Fraction(1, 2), Fraction(3), Fraction(3, 2)])
@pytest.mark.parametrize("t", [Fraction(1, 3), Fraction(1, 2)])
@pytest.mark.parametrize("together", [True, False])
def test_geometric_has_its_law_for_every_value_of_the_exponential(
    s: Fraction, t: Fraction, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a rational t in place of exp(-1/b): P[k] = (1 - t^a) t^(a k) for s = a/b."""

    def bernoulli(numerators: NDArray[Any], denominator: int, rng: Ideal) -> NDArray[np.bool_]:
        powers = [int(u) * s.denominator // denominator for u in numerators]
        return np.array([rng.flip(t**power) for power in powers], dtype=bool)

    def one_bernoulli(numerator: int, denominator: int, rng: Ideal) -> bool:
        return rng.flip(t ** (numerator * s.denominator // denominator))

    def draw(rng: Ideal) -> int:
        return int(noise.geometric_draws(s, 1, rng)[0]) if together else noise.one_geometric(s, rng)

    monkeypatch.setattr(noise, "bernoulli_exp", bernoulli)
    monkeypatch.setattr(noise, "one_bernoulli_exp", one_bernoulli)
    law, unfinished = exact_law(draw, least=Fraction(1, 3**8))
    assert 0 < unfinished < Fraction(1, 30)
    ratio = t**s.numerator
    for k in range(max(law) + 1):
        wanted = (1 - ratio) * ratio**k
        assert wanted - unfinished <= law.get(k, 0) <= wanted
    assert law[0] > 0


def test_geometric_pairs_of_draws_are_independent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lockstep of many draws ties none of them to another."""
    t = Fraction(1, 3)

    def bernoulli(numerators: NDArray[Any], denominator: int, rng: Ideal) -> NDArray[np.bool_]:
        return np.array([rng.flip(t ** (int(u) * 2 // denominator)) for u in numerators])

    monkeypatch.setattr(noise, "bernoulli_exp", bernoulli)
    law, unfinished = exact_law(
        lambda rng: tuple(int(k) for k in noise.geometric_draws(Fraction(1, 2), 2, rng)),
        least=Fraction(1, 3**7),
    )
    assert unfinished < Fraction(1, 20)
    for (i, j), p in law.items():
        wanted = (1 - t) ** 2 * t ** (i + j)
        assert wanted - unfinished <= p <= wanted


@pytest.mark.parametrize("keep", [Fraction(1, 2), Fraction(1, 3), Fraction(3, 4)])
@pytest.mark.parametrize("points", [1, 2, 3, 4, 5])
def test_thinning_keeps_exactly_the_polya_part_of_the_points(keep: Fraction, points: int) -> None:
    """Given K points, k are kept with probability C(K, k) r^(k) (1-r)^(K-k) / K!, rising."""
    law, unfinished = exact_law(lambda rng: int(noise._thin(np.array([points]), keep, rng)[0]))
    assert unfinished == 0
    assert law == {
        k: math.comb(points, k) * rising(keep, k) * rising(1 - keep, points - k)
        / math.factorial(points)
        for k in range(points + 1)
    }  # fmt: skip


def test_thinning_of_python_integers_follows_the_same_law() -> None:
    keep = Fraction(1, 3)
    laws = [
        exact_law(lambda rng, t=total: int(noise._thin(t, keep, rng)[0]))[0]
        for total in (np.array([4]), np.array([4], dtype=object))
    ]
    assert laws[0] == laws[1]


def test_thinning_several_at_once_keeps_them_independent() -> None:
    keep = Fraction(1, 3)
    joint, _ = exact_law(
        lambda rng: tuple(int(k) for k in noise._thin(np.array([2, 0, 1]), keep, rng))
    )
    one, _ = exact_law(lambda rng: int(noise._thin(np.array([2]), keep, rng)[0]))
    other, _ = exact_law(lambda rng: int(noise._thin(np.array([1]), keep, rng)[0]))
    assert joint == {(a, 0, b): p * r for a, p in one.items() for b, r in other.items()}


@pytest.fixture(params=["lockstep", "one after the other"])
def one_by_one(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw in each of the two ways: both are to have the same law."""
    monkeypatch.setattr(noise, "_MAX_SINGLE_DRAWS", 0 if request.param == "lockstep" else 100)


def population_law(
    n: int, parties: int, totals: list[int], monkeypatch: Any, variables: int = 1
) -> Law:
    """Return the joint law of one sign's noise, given the geometric totals of the groups."""
    rate = Fraction(7, 3)

    def together(given: Fraction, count: int, rng: Ideal) -> NDArray[np.int64]:
        assert (given, count) == (rate, len(totals))
        return np.array(totals)

    def experiment(rng: Ideal) -> tuple[int, ...]:
        left = iter(totals)

        def one(given: Fraction, rng: Ideal) -> int:
            assert given == rate
            return next(left)

        monkeypatch.setattr(noise, "geometric_draws", together)
        monkeypatch.setattr(noise, "one_geometric", one)
        users, amounts = noise.polya_jumps(n, rate, parties, rng, variables)
        assert users.max(initial=0) < n
        assert amounts.min(initial=1) > 0
        assert next(left, None) is None or noise._MAX_SINGLE_DRAWS == 0
        return tuple(int(v) for v in np.bincount(users, weights=amounts, minlength=n))

    law, unfinished = exact_law(experiment)
    assert unfinished == 0
    return law


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize(("n", "points"), [(1, 3), (2, 1), (2, 4), (3, 3)])
def test_population_splits_a_geometric_into_independent_polya_parts(
    n: int, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given K points, (k_1, ..., k_n) has probability prod (1/n)^(k_i) / k_i!, rising.

    That is the law of n independent Polya(1/n) variables given their sum K.
    """
    law = population_law(n, n, [points], monkeypatch)
    for parts, p in law.items():
        assert sum(parts) == points
        assert p == math.prod(rising(Fraction(1, n), k) / math.factorial(k) for k in parts)
    assert len(law) == math.comb(points + n - 1, n - 1)


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize(("n", "parties", "points"), [(1, 2, 3), (2, 3, 3), (1, 4, 2)])
def test_population_of_fewer_users_than_parties_drops_the_imaginary_ones(
    n: int, parties: int, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = population_law(n, parties, [points], monkeypatch)
    r, rest = Fraction(1, parties), Fraction(parties - n, parties)
    for parts, p in law.items():
        dropped = points - sum(parts)
        kept = math.prod(rising(r, k) / math.factorial(k) for k in parts)
        assert p == kept * rising(rest, dropped) / math.factorial(dropped)
    assert len(law) == math.comb(points + n, n)


@pytest.mark.usefixtures("one_by_one")
def test_population_of_more_users_than_parties_has_independent_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three users, two parties: the first group shares a total, the third user is in the next."""
    joint = population_law(3, 2, [2, 1], monkeypatch)
    first = population_law(2, 2, [2], monkeypatch)
    second = population_law(1, 2, [1], monkeypatch)
    assert joint == {(*a, *b): p * r for a, p in first.items() for b, r in second.items()}


@pytest.mark.usefixtures("one_by_one")
def test_population_of_several_variables_adds_up_those_of_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three users, two parties, two variables: the last user has a part of both of its group."""
    totals = [1, 2, 1, 2]
    joint = population_law(3, 2, totals, monkeypatch, variables=2)
    wanted: Law = {}
    both = [population_law(2, 2, [total], monkeypatch) for total in totals[:2]]
    alone = [population_law(1, 2, [total], monkeypatch) for total in totals[2:]]
    for found in itertools.product(*(law.items() for law in (*both, *alone))):
        (a, b, c, d), chance = zip(*found, strict=True)
        users = a[0] + b[0], a[1] + b[1], c[0] + d[0]
        wanted[users] = wanted.get(users, 0) + math.prod(chance)
    assert joint == wanted


def poisson_cdf(mean: Fraction, last: int) -> tuple[list[Fraction], Fraction]:
    """Return lower bounds of P[Poisson < k], k = 0..last, and by how much they may be too small."""
    count = 40 + 8 * math.ceil(mean) + last
    weights = [mean**k / math.factorial(k) for k in range(count)]
    # beyond, a geometric series of ratio mean / count < 1/2
    total, tail = sum(weights, Fraction(0)), 2 * mean**count / math.factorial(count)
    sums = [sum(weights[:k], Fraction(0)) / (total + tail) for k in range(last + 1)]
    return sums, tail / total


MEANS = [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)]


@pytest.mark.parametrize("mean", MEANS, ids=str)
@pytest.mark.parametrize("bits", [6, 64, 192])
def test_boundaries_of_poisson_draws_are_within_two_of_the_truth(mean: Fraction, bits: int) -> None:
    least, found = noise._boundaries(mean, bits)
    true, slack = poisson_cdf(mean, least + len(found) + 20)
    for k, value in enumerate(true):
        # below the first it stands for 0, above the last for 2^bits
        near = found[k - least] if 0 <= k - least < len(found) else [0, found[-1]][k > least]
        assert near <= (value + slack) * 2**bits
        assert value * 2**bits < near + 2
    assert found[-1] >= 2**bits - 2


class FewBits(Ideal):
    """Plays words with as few bits as the sampler is told there are."""

    def fill(self, out: NDArray[Any]) -> None:
        bits = noise._PREFIX if out.dtype == np.uint16 else noise._WORD
        out[:] = [self.choose(1 << bits) for _ in range(out.size)]


@pytest.mark.slow
@pytest.mark.parametrize("mean", MEANS[:3], ids=str)
def test_poisson_draws_have_their_law(mean: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sequence of a prefix, a word and further words, until a draw is decided."""
    monkeypatch.setattr(noise, "_PREFIX", 3)
    monkeypatch.setattr(noise, "_WORD", 6)
    table = noise._PoissonTable(mean)
    assert (table.likely >= 0).any()
    law, unfinished = exact_law(
        lambda rng: int(table.draws(1, rng)[0]) + table.least, FewBits, least=Fraction(1, 2**13)
    )
    assert 0 < unfinished < Fraction(1, 10)
    true, slack = poisson_cdf(mean, max(law) + 1)
    for k in range(max(law) + 1):
        assert law.get(k, 0) <= true[k + 1] - true[k] + slack
        assert law.get(k, 0) >= true[k + 1] - true[k] - slack - unfinished


@pytest.mark.slow
def test_skellam_draws_are_differences_of_independent_poisson_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(noise, "_PREFIX", 3)
    monkeypatch.setattr(noise, "_WORD", 6)
    noise._PoissonTable.of.cache_clear()
    law, unfinished = exact_law(
        lambda rng: int(noise.skellam_draws(Fraction(2, 3), 1, rng)[0]), FewBits,
        least=Fraction(1, 2**9),
    )  # fmt: skip
    noise._PoissonTable.of.cache_clear()
    true, _ = poisson_cdf(Fraction(1, 3), 40)
    each = [float(high - low) for low, high in pairwise(true)]
    for k in range(-4, 5):
        wanted = sum(each[i] * each[i + k] for i in range(max(0, -k), 35))
        assert wanted - float(unfinished) - 1e-12 <= float(law.get(k, 0)) <= wanted + 1e-12
    assert unfinished < Fraction(1, 3)
