"""Messages for differential privacy: the theorem once more in ball arithmetic, budgets, edges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import gmpy2
import pytest
from counts.moments import SETTINGS, Recursion, flint, precisely, recursion
from gmpy2 import mpfr, mpq
from hypothesis import given
from hypothesis import strategies as st

from ikos import MessageCount, private_message_count
from ikos.counts import hockey_stick, private_delta, private_proved, private_remaining, types
from ikos.counts.hockey_stick import NoiseJumps
from ikos.counts.recursion import rational_split
from ikos.counts.share_graph import ShareGraph
from ikos.numeric.rounding import DOWN, UP

BITS = 500


@pytest.fixture(autouse=True)
def _precise() -> Any:
    with precisely(BITS):
        yield


def ball(value: Any) -> Any:
    value = Fraction(value)
    return flint.arb(flint.fmpq(value.numerator, value.denominator))


def budget_of(count: MessageCount) -> tuple[float, float]:
    assert count.delta is not None
    assert count.noise_epsilon is not None
    return count.delta, count.noise_epsilon


# The theorem


@lru_cache(maxsize=256)
def moments(n: int, q: int, m: int, shuffler: str, clear: bool) -> Recursion:
    return recursion(n, q, m, shuffler, clear)


def mean_jumps(rate: Fraction) -> Any:
    """2 lambda = -2 ln(1 - e^-rate)."""
    return -2 * (1 - (-ball(rate)).exp()).log()


def difference(of: Recursion, n: int, mean: Any) -> Any:
    """E Delta_A = sum_s (s/n) B(n, s) c_s e_(n-s) (1 - exp(-2 lambda (n-s)/n))."""
    return sum(
        (
            s * of.separated(n, s) * of.connected[s] * of.colourings(n - s)
            * (1 - (-mean * (n - s) / n).exp())
            for s in range(1, n)
        ),
        flint.arb(0),
    ) / n  # fmt: skip


def theorem(of_a: Any, excess: Any, eps0: float, c: Any) -> Any:
    """eta (1 + (1+c) e^eps0), and (1 + e^eps0) sqrt(Delta_A / 2) for c = 0."""
    grown = ball(eps0).exp()
    if c == 0:
        return (1 + grown) * (of_a / 2).sqrt()
    eta = ((of_a / (2 * c)).sqrt() + (c * excess / 4).sqrt()) ** 2
    return eta * (1 + (1 + c) * grown)


def given_sum(of: Recursion, n: int) -> Any:
    """sqrt(Delta / 2): the distance of views of the same sum."""
    return (of.divergence[n] / 2).sqrt()


def relative(epsilon: Fraction, eps0: float) -> Any:
    """The c with eps0 + 2 ln(1+c) = epsilon, or 0 where nothing was spent on it."""
    return flint.arb(0) if eps0 == down(epsilon) else (ball(epsilon - Fraction(eps0)) / 2).expm1()


def down(value: Fraction) -> float:
    result = float(value)
    return math.nextafter(result, 0) if Fraction(result) > value else result


def truth(n: int, q: int, m: int, p: int, epsilon: Fraction, eps0: float, shuffler: str) -> Any:
    """The theorem's delta with a clear share and m shuffled messages, at most 1."""
    of = moments(n, q, m, shuffler, True)
    of_a = difference(of, n, mean_jumps(Fraction(eps0) / p))
    return theorem(of_a, of.excess[n], eps0, relative(epsilon, eps0))


# Soundness and tightness


def check_delta(
    n: int, q: int, epsilon: Fraction, delta: Fraction, p: int, reserve: Fraction, shuffler: str,
    *, m: int | None = None, prove: Callable[..., MessageCount] = private_proved,
) -> None:  # fmt: skip
    """delta is at least that of one of the theorems, and within 1 % of it."""
    options: dict[str, Any] = {
        "analysis": "second_moment", "shuffler": shuffler, "reserve": reserve,
    }  # fmt: skip
    if m is None:
        m = private_message_count(n, q, epsilon, delta, p, **options).shuffled
    found, eps0 = budget_of(prove(n, q, m, epsilon, delta, p, **options))
    assert eps0 <= epsilon
    assert Fraction(eps0) >= epsilon * (1 - reserve) * (1 - Fraction(1, 2**52))
    if found == 1:
        return
    true = truth(n, q, m, p, epsilon, eps0, shuffler)
    assert true.rad() < 1e-60
    ways = [true]
    if eps0 == down(epsilon):
        ways.append(given_sum(moments(n, q, m, shuffler, True), n))
    least, most = 1 - flint.arb(2) ** -200, ball("1.01")
    assert any(way * least <= found and (found <= 1e-290 or found <= way * most) for way in ways)


@pytest.mark.slow
@given(
    n=st.integers(2, 60),
    q=st.one_of(st.integers(2, 2**40), st.integers(1, 200).map(lambda b: 2**b)),
    epsilon=st.floats(0.01, 20),
    delta=st.floats(1e-40, 0.4),
    p=st.integers(1, 100),
    reserve=st.sampled_from([Fraction(0), Fraction("0.01"), Fraction("0.1"), Fraction("0.5")]),
    shuffler=st.sampled_from(["parallel", "single"]),
    fewer=st.integers(0, 2),
)
def test_any_delta_is_the_theorem_rounded_up(n, q, epsilon, delta, p, reserve, shuffler, fewer):
    """Also with fewer messages than needed, where delta is the best that is proved."""
    options: dict[str, Any] = {
        "analysis": "second_moment", "shuffler": shuffler, "reserve": reserve,
    }  # fmt: skip
    m = private_message_count(n, q, epsilon, delta, p, **options).shuffled - fewer
    budget, allowed = Fraction(epsilon), Fraction(delta)
    check_delta(n, q, budget, allowed, p, reserve, shuffler, m=max(1, m))


def hits(n: int, mean: Any) -> list[Any]:
    """P[K = k] for the number K of users in A: 1 and the others hit, each by Poisson(mean/n)."""
    hit = 1 - (-mean / n).exp()
    return [
        flint.arb(0),
        *(
            math.comb(n - 1, k) * hit**k * (1 - hit) ** (n - 1 - k)
            for k in range(n)
        ),
    ]  # fmt: skip


def averaged(n: int, q: int, graph: ShareGraph, mean: Any) -> Any:
    """E Delta_A over the noise, from the rational second moments of fixed sets."""
    law = hits(n, mean)
    splits = [rational_split(n, q, graph, k) for k in range(1, n + 1)]
    return sum(
        (
            chance * flint.arb(flint.fmpq(int(split.numerator), int(split.denominator)))
            for chance, split in zip(law[1:], splits, strict=True)
        ),
        flint.arb(0),
    )


@pytest.mark.parametrize("shuffler", ["parallel", "single"])
def test_the_average_over_the_noise_is_the_one_over_fixed_sets(shuffler: str) -> None:
    for n in (2, 3, 5, 8):
        for m, q in [(1, 2), (2, 5), (3, 2**12)]:
            mean = mean_jumps(Fraction(1, 7))
            one = difference(moments(n, q, m, shuffler, True), n, mean)
            other = averaged(n, q, ShareGraph(m, shuffler, True), mean)
            assert one.overlaps(other)
            assert one.rad() < 1e-100


@pytest.mark.points(1)
@pytest.mark.parametrize("shuffler", ["parallel", "single"])
@pytest.mark.parametrize("n", [2, 4, 7])
def test_without_a_clear_share_delta_is_sound(n: int, shuffler: str) -> None:
    """At least the smaller one of the theorem's two ways, or that given the sum."""
    for q, epsilon, p, reserve in [
        (7, Fraction(1), 3, Fraction(0)),
        (2**10, Fraction("0.3"), 5, Fraction("0.01")),
        (2**10, Fraction(2), 1, Fraction("0.3")),
    ]:
        for delta in ("0.1", "1e-5", "1e-12"):
            options: dict[str, Any] = {
                "shuffler": shuffler, "clear_share": False, "reserve": reserve,
            }  # fmt: skip
            count = private_message_count(n, q, epsilon, Fraction(delta), p, **options)
            m = count.shuffled
            found, eps0 = budget_of(count)
            mean, c = mean_jumps(Fraction(eps0) / p), relative(epsilon, eps0)
            direct = averaged(n, q, ShareGraph(m, shuffler, False), mean)
            of = moments(n, q, m, shuffler, False)
            ways = [theorem(direct, of.excess[n], eps0, c)]
            if eps0 == down(epsilon):
                ways.append(given_sum(of, n))
            if m >= 2:
                ways.append(truth(n, q, m - 1, p, epsilon, eps0, shuffler))
            slack = 1 - flint.arb(2) ** -200
            assert any(found >= way * slack for way in ways)
            assert found <= Fraction(delta)


@pytest.mark.points(1)
@pytest.mark.parametrize("shuffler", ["parallel", "single"])
def test_the_divergences_are_upper_bounds_and_near(shuffler: str) -> None:
    """Both second moments by themselves, in both settings, wherever a theorem is chosen."""
    for clear in (True, False):
        for n in (2, 4, 6, 9):
            for hiding in (1, 2, 3, 5, 9):
                for q in (2, 2**9):
                    graph = ShareGraph(hiding if clear else hiding + 1, shuffler, clear)
                    noise = NoiseJumps.discrete_laplace(n, Fraction(1, 5))
                    found = hockey_stick.divergences(q, graph, noise)
                    mean = mean_jumps(Fraction(1, 5))
                    of_a = averaged(n, q, graph, mean)
                    excess = moments(n, q, graph.m, shuffler, clear).excess[n]
                    if not found.difference < gmpy2.inf():
                        # given up: nothing can be proved, with c = 0 or any other c
                        assert of_a > ball("0.5")
                        assert excess > ball("0.25")
                        continue
                    assert not exactly(found.difference) < of_a
                    assert not exactly(found.excess) < excess
                    if hiding >= 2:
                        assert exactly(found.excess) < excess * ball("1.01")
                    if hiding >= 2 and clear:
                        assert exactly(found.difference) < of_a * ball("1.01")


def exactly(value: mpfr) -> Any:
    fraction = mpq(value)
    return flint.arb(flint.fmpq(int(fraction.numerator), int(fraction.denominator)))


# Budgets


@pytest.mark.slow
@pytest.mark.parametrize("shuffler", ["parallel", "single"])
def test_as_little_is_spent_on_hiding_as_reaches_delta(shuffler: str) -> None:
    """A hundredth less of it, and the theorem no longer gives delta."""
    spent = 0
    for n, p in [(20, 5), (40, 3), (60, 8)]:
        for delta in ("1e-4", "1e-6", "1e-8", "1e-10", "1e-12"):
            epsilon, q = Fraction(1), 1 << (2 * n * p - 1).bit_length()
            options: dict[str, Any] = {"shuffler": shuffler, "reserve": Fraction("0.01")}
            count = private_message_count(n, q, epsilon, Fraction(delta), p, **options)
            found, eps0 = budget_of(count)
            assert found <= Fraction(delta)
            if eps0 == 1:
                continue
            less = 1 - (1 - Fraction(eps0)) * Fraction(99, 100)
            of = moments(n, q, count.shuffled, shuffler, True)
            c = (ball(epsilon - less) / 2).expm1()
            of_a = difference(of, n, mean_jumps(less / p))
            grown = ball(less).exp()
            eta = ((of_a / (2 * c)).sqrt() + (c * of.excess[n] / 4).sqrt()) ** 2
            assert eta * (1 + (1 + c) * grown) > ball(delta)
            spent += 1
    assert spent >= 5


def test_nothing_is_spent_where_delta_is_reached_without() -> None:
    count = private_proved(100, 2**10, 30, 1, 1e-6, 5)
    assert count.noise_epsilon == 1.0
    assert count.delta is not None
    assert count.delta < 1e-20


# The noise's jumps


def occupancy(n: int, j: int, mean: Any) -> tuple[Any, Any, Any]:
    """P[A split by a random j-set], P[A inside one], P[A meets both of two]; not i alone.

    By summing over the numbers of users hit and where they fall.
    """
    split = inside = met = flint.arb(0)
    for k, chance in enumerate(hits(n, mean)):
        if k == 0:
            continue
        within = Fraction(math.comb(n - k, j - k), math.comb(n, j)) if j >= k else Fraction(0)
        without = Fraction(math.comb(n - k, j), math.comb(n, j))
        split += chance * ball(1 - within - without)
        if k > 1:
            inside += chance * ball(within)
            met += chance * ball(1 - without) ** 2
    return split, inside, met


@pytest.mark.parametrize("n", [2, 5, 30])
def test_jumps_fall_as_enumerated(n: int) -> None:
    for rate in (Fraction(1, 1000), Fraction(1, 20), Fraction(1), Fraction(9)):
        noise, mean = NoiseJumps.discrete_laplace(n, rate), mean_jumps(rate)
        assert not exactly(noise.mean) < mean
        assert exactly(noise.mean) < mean * (1 + flint.arb(2) ** -200)
        for j in range(1, n):
            split, inside, met = occupancy(n, j, mean)
            tiny = 1 + flint.arb(2) ** -150
            assert not exactly(noise.split(j)) < split
            assert exactly(noise.split(j)) < split * tiny
            assert exactly(noise.within(j)) > inside - flint.arb(2) ** -240
            assert exactly(noise.within(j)) - inside < flint.arb(2) ** -150
            assert not exactly(noise.met_twice(j)) < met
            # E[(K j / n)^2; K >= 2], with K^2 rounded up a little
            square = sum(
                (k * k * chance for k, chance in enumerate(hits(n, mean)) if k > 1), flint.arb(0)
            )
            least = square * j * j / (n * n)
            most = exactly(noise.met_twice(j))
            assert not most < least
            assert most < 2 * least * tiny


@pytest.mark.parametrize("shuffler", ["parallel", "single"])
def test_the_largest_component_bounds_what_is_split_on_both_sides(shuffler: str) -> None:
    """Term by term: A meets both sets of j copies, or lies in one that has two components."""
    q = 50
    graph = ShareGraph(4, shuffler, False)
    for n, rate in itertools.product((9, 16, 30), (Fraction(1, 50), Fraction(1), Fraction(5))):
        noise, mean = NoiseJumps.discrete_laplace(n, rate), mean_jumps(rate)
        part = replace(hockey_stick.largest_component(n, q, graph), remainder=mpfr(0))
        true = flint.arb(0)
        for j in range(1, part.cutoff):
            whole = exactly(part.moments.colourings[j] / part.ratio[j])
            divergence = part.moments.divergence[j] * part.moments.weight[j]
            several = exactly(q * divergence / part.ratio[j])
            for k, chance in enumerate(hits(n, mean)):
                if k < 2:
                    continue
                a = Fraction(math.comb(n - k, j - k), math.comb(n, j)) if j >= k else Fraction(0)
                b = 1 - a - Fraction(math.comb(n - k, j), math.comb(n, j))
                true += chance * (whole * ball(b * b) + several * ball(a * a + 2 * a * b))
        found = exactly(hockey_stick._difference(part, q, graph, noise))
        assert not found < true * (1 - flint.arb(2) ** -150)


def test_what_is_split_inside_is_not_counted_on_both_sides() -> None:
    """That would be 1.14e-6."""
    noise = NoiseJumps.discrete_laplace(1000, Fraction(4))
    found = hockey_stick.divergences(2**20, ShareGraph(4, "parallel", False), noise)
    assert 9e-7 < float(found.difference) < 9.2e-7


def test_the_chance_to_be_inside_is_rounded_up() -> None:
    """For jumps of the mean that is stated; the sum of all chances grows with the mean."""
    for n in (5, 9, 30):
        for rate in (Fraction(1, 20), Fraction(1)):
            noise = NoiseJumps.discrete_laplace(n, rate)
            for j in range(2, n):
                inside = occupancy(n, j, exactly(noise.mean))[1]
                assert not exactly(noise.within(j)) < inside


def test_several_variables_jump_as_many_times() -> None:
    for count in (1, 2, 7):
        noise = NoiseJumps.discrete_laplace(10, Fraction(1, 3), count)
        mean = count * mean_jumps(Fraction(1, 3))
        assert not exactly(noise.mean) < mean
        assert exactly(noise.mean) < mean * (1 + flint.arb(2) ** -200)


def test_probabilities_of_jumps_are_rounded_the_right_way() -> None:
    noise = NoiseJumps.discrete_laplace(7, Fraction(1, 3))
    for users in range(8):
        true = (-exactly(noise.mean) * users / 7).exp()
        assert not exactly(noise.spared(users, UP)) < true
        assert not exactly(noise.spared(users, DOWN)) > true
        assert not exactly(noise.hit(users)) < 1 - true
        assert exactly(noise.hit(users)) - (1 - true) < flint.arb(2) ** -200


# Edges


@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
@pytest.mark.parametrize(
    ("n", "q", "epsilon", "delta", "tries"),
    [(1000, 2**40, 1e6, 1e-9, 8), (1023, 2**11, 700, 1 - 2**-53, 6),
     (10**6, 2**31, 1, 1e-12, 6), (10**6, 2**306, 1e-90, 1e-299, 12)],
)  # fmt: skip
def test_the_search_begins_near_its_end(monkeypatch, n, q, epsilon, delta, tries, shuffler, clear):
    """However large epsilon is: each try below what is enough may run a recursion."""
    tried: list[int] = []
    search = types.smallest

    def watched(enough: Callable[[int], bool], guess: int, *, most: int) -> int:
        return search(lambda m: (tried.append(m), enough(m))[1], guess, most=most)

    monkeypatch.setattr(types, "smallest", watched)
    options: dict[str, Any] = {
        "analysis": "second_moment", "shuffler": shuffler, "clear_share": clear,
    }  # fmt: skip
    found = private_message_count(n, q, epsilon, delta, 100, **options)
    assert 1 <= len(tried) <= tries
    assert found.shuffled in tried


def test_a_vector_as_one_group_has_noise_in_every_coordinate() -> None:
    """dimension d: d times as many jumps, at a rate d times smaller."""
    budget = types.Budget(Fraction(1), Fraction(1, 10**9), Fraction(0), 40, dimension=4)
    found = hockey_stick.privacy(50, 2**20, ShareGraph(9, "parallel", True), budget)
    assert found.noise_epsilon == 1
    of = moments(50, 2**20, 9, "parallel", True)
    of_a = difference(of, 50, 4 * mean_jumps(Fraction(1, 40)))
    true = theorem(of_a, of.excess[50], 1.0, 0)
    assert true <= found.delta <= true * ball("1.01")


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"analysis": "ghazi2020"}, ValueError, "analysis='best' covers this setting"),
        ({"epsilon": 1e6, "analysis": "balle2020"}, ValueError, "epsilon must not ask .* 1000000"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named_and_quoted(arguments, error, said):
    good: dict[str, Any] = {
        "n": 1000, "q": 2**20, "epsilon": 1, "delta": 1e-6, "precision": 32,
    }  # fmt: skip
    with pytest.raises(error, match=said):
        private_message_count(**{**good, **arguments})


@pytest.mark.points(2)
@pytest.mark.parametrize("epsilon", [100, 1000, 10**6])
def test_a_large_epsilon_needs_no_more_messages(epsilon: int) -> None:
    n, q, steps = 1000, 2**40, 2**20
    by: Any = {"analysis": "second_moment"}
    count = private_message_count(n, q, epsilon, 1e-6, steps, **by)
    assert (count.total, count.noise_epsilon) == (10, epsilon)
    assert private_delta(n, q, count.shuffled, epsilon, steps, **by) == count.delta
    assert private_delta(n, q, count.shuffled - 1, epsilon, steps, **by) > 1e-6
    left = private_remaining(n, q, count.total, epsilon, 1e-6, steps, **by)
    assert (left.epsilon, left.delta) == (epsilon, count.delta)


@pytest.mark.parametrize(
    ("n", "q", "m", "epsilon", "delta", "p", "reserve"),
    [(5, 21107850427542, 21, 8.568, 2.945e-4, 100, 0.1), (40, 1331339953432, 13, 8.08, 2e-4, 1, 0)],
)
def test_the_smallest_delta_falls_with_messages_and_is_reached(
    n: int, q: int, m: int, epsilon: float, delta: float, p: int, reserve: float
) -> None:
    """Near e^epsilon = 1/delta, where one theorem takes over from the other."""
    by: Any = {"shuffler": "single", "clear_share": False, "reserve": reserve}
    if not reserve:
        by = {"reserve": 0}
    found = [private_delta(n, q, more, epsilon, p, **by) for more in range(m - 2, m + 3)]
    assert found == sorted(found, reverse=True)
    count = private_message_count(n, q, epsilon, delta, p, **by)
    assert count.shuffled == m
    assert found[2] <= count.delta <= delta


@pytest.mark.parametrize(
    ("n", "bits", "delta", "precision", "reserve"),
    [(1000, 16, 1e-6, 32, 1), (1000, 16, 1e-8, 32, 1), (10**5, 26, 1e-10, 317, 4)],
)
def test_the_fewest_messages_take_the_least_reserve_that_proves_them(
    n: int, bits: int, delta: float, precision: int, reserve: int
) -> None:
    def count(reserve: Fraction | str) -> MessageCount:
        asked = (n, 2**bits, 1, delta, precision)
        return private_message_count(*asked, analysis="higher_moments", reserve=reserve)

    counts = {percent: count(Fraction(percent, 100)) for percent in (1, 2, 4)}
    assert count("fewest") == counts[reserve]
    assert {part: one.total - counts[4].total for part, one in counts.items()} == {
        part: int(part < reserve) for part in counts
    }


def test_no_other_word_is_a_reserve() -> None:
    for wrong in ("most", "0.04"):
        with pytest.raises(ValueError, match=rf"^reserve must be one of 'fewest', got '{wrong}'"):
            private_message_count(1000, 2**16, 1, 1e-6, 32, reserve=wrong)
