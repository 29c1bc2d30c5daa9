"""The bound behind differential privacy: what exceeds a factor 1 + c between two views.

Hockey-stick divergences of order 1 + c are counted exactly; eta = (sqrt(a) + sqrt(b))^2 with
rational a and b is compared with them without rounding. The last tests put the whole mechanism
together, with noise of many jumps, in doubles.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from exact.share_graph import SETTINGS, SizesLaw, Views, sizes_law, support, unmatched, views
from exact.test_private_view import noise_modulo, single_view_delta

from ikos.counts.recursion import rational, rational_split
from ikos.counts.share_graph import ShareGraph

Size = tuple[tuple[int, ...], int, int]  # the moduli of the group, n and m

ROUNDING = 1e-11
ORDERS = [Fraction(1, 8), Fraction(1, 2), Fraction(1), Fraction(3)]
SMALL: list[Size] = [
    ((3,), 2, 2),
    ((3,), 2, 4),
    ((2,), 3, 2),
    ((2, 2), 3, 2),
    ((3,), 3, 3),
    ((3,), 4, 2),
    ((2,), 4, 4),
    ((2,), 5, 3),
    ((4,), 3, 3),
]
LARGER: list[Size] = [((3,), 4, 3), ((5,), 4, 2), ((2,), 6, 3)]
SIZES = [*SMALL, *(pytest.param(*size, marks=pytest.mark.slow) for size in LARGER)]
each_size = pytest.mark.parametrize(("moduli", "n", "m"), SIZES)
each_setting = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)

Terms = tuple[Any, Any]  # a and b of eta = (sqrt(a) + sqrt(b))^2
Eta = Callable[[Fraction, int, int, int, str, bool, int], Terms]


def within(divergence: Fraction, terms: Terms) -> bool:
    """Return whether the divergence is at most (sqrt(a) + sqrt(b))^2 = a + b + 2 sqrt(a b)."""
    a, b = (Fraction(term) for term in terms)
    return divergence <= a + b or (divergence - a - b) ** 2 <= 4 * a * b


def value(terms: Terms) -> float:
    return (math.sqrt(terms[0]) + math.sqrt(terms[1])) ** 2


def proved(c: Fraction, n: int, q: int, m: int, shuffler: str, clear: bool, k: int) -> Terms:
    """Return Delta_A / (2c) and c delta / 4, for |A| = k."""
    graph = ShareGraph(m, shuffler, clear)
    return rational_split(n, q, graph, k) / (2 * c), c * rational(n, q, graph).excess[n] / 4


def counted(c: Fraction, n: int, q: int, m: int, shuffler: str, clear: bool, k: int) -> Terms:
    law = sizes_law(n, m, shuffler, clear)
    return law.split(q, k) / (2 * c), c * law.excess(q) / 4


def one_clear_of_shuffled(
    c: Fraction, n: int, q: int, m: int, shuffler: str, clear: bool, k: int
) -> Terms:
    """Without a clear share: as if one of the m shuffled messages were clear."""
    return proved(c, n, q, m if clear else m - 1, shuffler, True, k)


def divergences(shuffled: Views, clear: bool, c: Fraction) -> Iterator[tuple[int, Fraction]]:
    """Yield the divergence for all inputs that differ on k users, up to symmetry, and k."""
    group, n = shuffled.group, shuffled.n
    if clear:
        for d in group.zero_sums(n):
            yield support(d), shuffled.averaged(d, lambda x, y: shuffled.hockey_stick(x, y, c))
        return
    for x, y in product(group.multisets(n), repeat=2):
        if x != y and group.sum(x) == group.sum(y):
            yield unmatched(x, y), shuffled.hockey_stick(x, y, c)


def check_divergence_is_bounded(
    eta: Eta, settings: list[tuple[str, bool]] = SETTINGS, sizes: list[Size] = SMALL
) -> None:
    for moduli, n, m in sizes:
        for shuffler, clear in settings:
            shuffled = views(moduli, n, m, shuffler)
            for c in ORDERS:
                bounds = {k: eta(c, n, shuffled.q, m, shuffler, clear, k) for k in range(2, n + 1)}
                for k, divergence in divergences(shuffled, clear, c):
                    assert within(divergence, bounds[k])


@each_size
@pytest.mark.parametrize("eta", [proved, counted, one_clear_of_shuffled])
def test_divergence_is_bounded(eta: Eta, moduli: tuple[int, ...], n: int, m: int) -> None:
    check_divergence_is_bounded(eta, sizes=[(moduli, n, m)])


@pytest.mark.parametrize(
    ("n", "m", "q", "shuffler", "c", "exact", "bound"),
    [
        (3, 3, 2, "single", Fraction(1, 2), 0.015625, 0.08124),
        (4, 3, 2, "parallel", Fraction(1, 2), 0.041016, 0.14619),
        (3, 3, 2, "single", Fraction(0), 0.070313, 0.15430),
    ],
)
def test_divergences_have_their_stated_values(
    n: int, m: int, q: int, shuffler: str, c: Fraction, exact: float, bound: float
) -> None:
    """The worst difference on two users; order 1 is total variation, sqrt(Delta_A / 2)."""
    shuffled = views((q,), n, m, shuffler)
    worst = max(found for k, found in divergences(shuffled, True, c) if k == 2)
    assert float(worst) == pytest.approx(exact, abs=6e-7)
    if c:
        terms = proved(c, n, q, m, shuffler, True, 2)
        assert within(worst, terms)
        assert value(terms) == pytest.approx(bound, abs=5e-6)
    else:
        split = Fraction(rational_split(n, q, ShareGraph(m, shuffler, True), 2))
        assert 2 * worst**2 <= split
        assert math.sqrt(split / 2) == pytest.approx(bound, abs=5e-6)


WRONG: list[Callable[[Any, Any, int], Terms]] = [
    lambda a, b, q: (a / q, b / q),  # q^(C-2)
    lambda a, b, q: (a**2, b**2),  # as if both terms were a total variation
    lambda a, b, q: (Fraction(0), b),
    lambda a, b, q: (a, Fraction(0)),
]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("wrong", WRONG)
def test_smaller_bounds_on_the_divergence_are_false(
    wrong: Callable[[Any, Any, int], Terms], setting: tuple[str, bool]
) -> None:
    def eta(c: Fraction, n: int, q: int, *rest: Any) -> Terms:
        return wrong(*counted(c, n, q, *rest), q)

    with pytest.raises(AssertionError):
        check_divergence_is_bounded(eta, [setting])


# The mechanism: noise of n users, and its guarantee


def hit_users(n: int, rate: float) -> list[float]:
    """Return the law of |A|: one user, and those of the others hit by Poisson(rate) jumps."""
    missed = math.exp(-rate / n)
    law = [math.comb(n - 1, k) * (1 - missed) ** k * missed ** (n - 1 - k) for k in range(n)]
    return [0.0, *law]


def noisy(x: tuple[int, ...], noise: Any, q: int) -> dict[tuple[int, ...], float]:
    law: dict[tuple[int, ...], float] = defaultdict(float)
    for shifts in product(range(q), repeat=len(x)):
        y = tuple((v + k) % q for v, k in zip(x, shifts, strict=True))
        law[y] += math.prod(float(noise[k]) for k in shifts)
    return law


def mixed_view(
    shuffled: Views, inputs: dict[tuple[int, ...], float], clear: tuple[int, ...]
) -> dict[int, float]:
    view: dict[int, float] = defaultdict(float)
    for y, chance in inputs.items():
        shares = tuple((v - r) % shuffled.q for v, r in zip(y, clear, strict=True))
        for code, count in shuffled.law(shares).items():
            view[code] += chance * count / shuffled.choices
    return view


def mechanism_delta(n: int, q: int, m: int, shuffler: str, clear: bool, s: float) -> Any:
    """Return the function epsilon -> delta of 0/1 inputs, over neighbours up to symmetry."""
    shuffled, noise = views((q,), n, m, shuffler), noise_modulo(q, 1 / n, s)
    pairs = []
    for ones in range(n):
        others = (1,) * ones + (0,) * (n - 1 - ones)
        low, high = (noisy((x, *others), noise, q) for x in (0, 1))
        rows = list(product(range(q), repeat=n)) if clear else [(0,) * n]
        laws = [tuple(mixed_view(shuffled, y, row) for y in (low, high)) for row in rows]
        pairs += [laws, [(b, a) for a, b in laws]]

    def delta(epsilon: float) -> float:
        factor = math.exp(epsilon)
        return max(
            sum(
                max(p - factor * second.get(view, 0.0), 0.0)
                for first, second in laws
                for view, p in first.items()
            )
            / len(laws)
            for laws in pairs
        )

    return delta


def average_split(law: SizesLaw, q: int, rate: float) -> float:
    """Return Delta_A, averaged over the users that the jumps hit."""
    return sum(p * float(law.split(q, k)) for k, p in enumerate(hit_users(law.n, rate)) if k > 1)


@pytest.mark.points(2)
@pytest.mark.parametrize(
    ("n", "q", "m"),
    [
        (2, 3, 4),
        (3, 3, 3),
        pytest.param(2, 4, 4, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@each_setting
def test_the_mechanism_is_as_private_as_proved(
    n: int, q: int, m: int, epsilon: float, shuffler: str, clear: bool
) -> None:
    """(epsilon + 2 ln(1 + c), eta (1 + (1 + c) e^epsilon)) for noise of rate epsilon, p = 1."""
    law = sizes_law(n, m, shuffler, clear)
    rate = -2 * math.log1p(-math.exp(-epsilon))
    average = average_split(law, q, rate)
    assert average <= float(law.divergence(q))
    true = mechanism_delta(n, q, m, shuffler, clear, epsilon)
    spent = (1 + math.exp(epsilon)) * math.sqrt(average / 2)
    assert ROUNDING < true(epsilon) <= spent + ROUNDING
    # lemma 5.2: of any total variation, and so of the true one
    shuffled = views((q,), n, m, shuffler)
    worst = max(distance for _, distance in divergences(shuffled, clear, Fraction(0)))
    assert true(epsilon) <= (1 + math.exp(epsilon)) * float(worst) + ROUNDING
    for c in (0.125, 0.5, 2.0):
        eta = value((average / (2 * c), c * float(law.excess(q)) / 4))
        stated = eta * (1 + (1 + c) * math.exp(epsilon))
        assert true(epsilon + 2 * math.log1p(c)) <= stated + ROUNDING


@pytest.mark.parametrize(("epsilon", "q", "m"), [(0.5, 3, 2), (1.0, 3, 3), (1.0, 4, 2)])
def test_both_computations_of_the_divergence_agree(epsilon: float, q: int, m: int) -> None:
    direct = single_view_delta(2, noise_modulo(q, 1 / 2, epsilon), q, m, 1, epsilon)
    counted = mechanism_delta(2, q, m, "single", False, epsilon)(epsilon)
    assert direct == pytest.approx(counted, abs=ROUNDING)


@pytest.mark.parametrize(("n", "rate"), [(3, 0.5), (10, 2.0), (40, 7.0)])
def test_the_split_averaged_over_jumps_has_its_closed_form(n: int, rate: float) -> None:
    """A set of s users holds A, or the others do: (s/n) exp(-rate (n-s) / n), and vice versa."""
    chance = hit_users(n, rate)
    assert math.fsum(chance) == pytest.approx(1, abs=1e-12)
    for s in range(1, n):
        together = math.fsum(
            p * (math.comb(s, k) + math.comb(n - s, k)) / math.comb(n, k)
            for k, p in enumerate(chance)
            if k
        )
        closed = s / n * math.exp(-rate * (n - s) / n) + (n - s) / n * math.exp(-rate * s / n)
        assert together == pytest.approx(closed, rel=1e-12)
