"""The privacy blanket's divergence against enumeration, high precision, and other bounds."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from accounting.shuffled_laws import hockey_stick, shuffled
from gmpy2 import mpfr
from hypothesis import given
from hypothesis import strategies as st

from ikos import Box, SparseTernary
from ikos.accounting import (
    digits_bbgn20,
    response_accountant,
    response_attained,
    response_delta,
    response_epsilon,
    response_gamma,
    shuffled_response,
)
from ikos.accounting.blanket import (
    SLACK,
    ResponseBlanket,
    TooManyTermsError,
    blanket_divergence,
    local_gamma,
)
from ikos.accounting.blanket_masses import masses_above
from ikos.accounting.scm22 import sampled_answers
from ikos.accounting.shuffled_response import ACCOUNTANTS, closed_bound
from ikos.baselines import (
    PCKVGRR,
    Collision,
    PrivacyBlanket,
    PrivKV,
    RecursiveSum,
    SampledCoordinates,
    SingleMessageGrid,
)
from ikos.primitives.randomized_response import GRID

CACHES = (shuffled_response._gamma, digits_bbgn20._optimized, sampled_answers)


def answers(x, k, gamma):
    return {y: gamma / k + (1 - gamma) * (y == x) for y in range(k)}


def view_law(inputs, k, gamma):
    return shuffled([answers(x, k, gamma) for x in inputs])


def knowing_law(x, others, k, gamma):
    """Return the law of what an adversary sees who knows which of the others answered at random."""
    law = Counter()
    for random in itertools.product((False, True), repeat=others):
        chance = math.prod((gamma if r else 1 - gamma) for r in random)
        hidden = sum(random)
        for drawn in itertools.product(range(k), repeat=hidden):
            for y, here in answers(x, k, gamma).items():
                seen = (random, tuple(sorted((*drawn, y))))
                law[seen] += chance * here / Fraction(k) ** hidden
    return law


SMALL = [
    (n, k, gamma, epsilon)
    for n, k in ((1, 2), (1, 4), (2, 3), (3, 3), (4, 2))
    for gamma in (Fraction(1, 8), Fraction(7, 8))
    for epsilon in (0.0, 0.25, 1.0, 2.0)
]


def test_it_is_the_divergence_for_who_knows_the_random_ones():
    for n, k, gamma, epsilon in SMALL:
        odds = Fraction(math.exp(epsilon))
        exact = hockey_stick(knowing_law(0, n - 1, k, gamma), knowing_law(1, n - 1, k, gamma), odds)
        found = blanket_divergence(epsilon, n, k, gamma)
        assert exact <= found * (1 + Fraction(1, 10**15))
        assert found <= float(exact) * (1 + 2 * SLACK) + 1e-15


@pytest.mark.parametrize(("n", "k"), [(2, 2), (2, 3), (3, 3), (4, 2)])
@pytest.mark.parametrize("gamma", [Fraction(1, 8), Fraction(1, 2)])
def test_it_covers_the_analyzers_view_whatever_the_others_hold(n, k, gamma):
    for epsilon in (0.25, 1.0):
        odds = Fraction(math.exp(epsilon))
        worst = max(
            hockey_stick(
                view_law((x, *others), k, gamma), view_law((other, *others), k, gamma), odds
            )
            for others in itertools.combinations_with_replacement(range(k), n - 1)
            for x, other in itertools.permutations(range(k), 2)
        )
        found = blanket_divergence(epsilon, n, k, gamma)
        assert 0 < worst <= found
        # a k that is one too small, as in BBGN20's Theorem 4.1, promises too much here
        if k == 3:
            assert blanket_divergence(epsilon, n, 2, gamma) < found


@pytest.mark.parametrize(
    ("epsilon", "n", "k", "gamma"),
    [
        (0.5, 60, 2, Fraction(1, 2)),
        (1.0, 25, 3, Fraction(1, 3)),
        (2.0, 25, 5, Fraction(1, 5)),
        (0.1, 20, 3, Fraction(9, 10)),
        (2.5, 80, 2, Fraction(1, 10)),
    ],
)
def test_it_agrees_with_rationals(epsilon, n, k, gamma):
    exact = exact_divergence(Fraction(math.exp(epsilon)), n, k, gamma)
    found = ResponseBlanket(n, k, gamma).divergence(epsilon) / (1 + SLACK)
    assert abs(found / float(exact) - 1) < 2e-9


def asymptotic(epsilon, n, k, gamma):
    """Return the divergence by a sum over S in 200 bits of python-flint's ball arithmetic."""
    flint = pytest.importorskip("flint")
    flint.ctx.prec = 200
    arb = flint.arb
    odds, g = arb(epsilon).exp(), arb(flint.fmpq(gamma.numerator, gamma.denominator))
    assert k == 2  # no C
    truth = (1 - g) * k
    slope = g * (odds - 1) / truth / (1 + odds)
    mean = float(gamma) * n
    spread = 14 * math.sqrt(mean) + 40

    def log_binomial(n, r, p):
        return (
            arb(n + 1).lgamma()
            - arb(r + 1).lgamma()
            - arb(n - r + 1).lgamma()
            + r * p.log()
            + (n - r) * (1 - p).log()
        )

    total = arb(0)
    for s in range(max(1, int(mean - spread)), min(n, int(mean + spread)) + 1):
        t = s * (odds / (1 + odds) + slope)
        first = int(float(t)) + 1
        tail = arb(0)
        term = log_binomial(s, first, arb("0.5")).exp()
        for a in range(first, s + 1):
            tail += term * (a - t)
            term = term * (s - a) / (a + 1)
            if a > first + 40 + 12 * math.sqrt(s):
                break
        total += log_binomial(n, s, g).exp() * tail
    return float((truth * (1 + odds) * total / (g * n)).mid())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "n", "gamma"),
    [
        (1.0, 10**6, Fraction(1, 6000)),
        (0.25, 10**9, Fraction(1, 10**6)),
        (0.1, 10**5, Fraction(1, 12)),
    ],
)
def test_it_agrees_with_ball_arithmetic_for_many_users(epsilon, n, gamma):
    exact = asymptotic(epsilon, n, 2, gamma)
    found = ResponseBlanket(n, 2, gamma).divergence(epsilon) / (1 + SLACK)
    assert abs(found / exact - 1) < 2e-9


@pytest.mark.slow
@given(
    st.integers(2, 10**7),
    st.integers(2, 1000),
    st.floats(1e-6, 1.0, exclude_max=True),
    st.floats(0.01, 5.0),
)
def test_bounds_are_ordered_anywhere(n, k, gamma, epsilon):
    exact, bennett, hoeffding = (
        response_delta(epsilon, n, k, gamma, accountant=name) for name in ACCOUNTANTS[:3]
    )
    assert 0 <= exact <= bennett <= hoeffding <= 1
    if epsilon <= 1:
        assert exact <= response_delta(epsilon, n, k, gamma, accountant="closed-form")


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize(("n", "k"), [(1000, 7), (10**9, 2)])
def test_gamma_is_enough_and_hardly_more(accountant, n, k):
    delta = 1 / n**2
    gamma = response_gamma(1.0, delta, n, k, accountant=accountant)
    assert (gamma * GRID).denominator == 1
    assert response_delta(1.0, n, k, gamma, accountant=accountant) <= delta
    less = gamma * (1 - Fraction(3, 10**6))
    assert response_delta(1.0, n, k, less, accountant=accountant) > delta
    if accountant != "closed-form":
        epsilon = response_epsilon(delta, n, k, gamma, accountant=accountant)
        assert 0.999 < epsilon <= 1.0 + 2e-6


def test_beyond_the_local_guarantee_nothing_is_left():
    one = ResponseBlanket(10, 3, Fraction(1, 2))
    local = math.log(1 + 3 * 0.5 / 0.5)
    assert one.divergence(local + 1e-9) == 0.0
    assert one.divergence(local - 1e-3) > 0
    assert ResponseBlanket(10, 3, Fraction(1)).divergence(0.0) == 0.0


def test_a_negligible_delta_is_not_none():
    """Below 1e-100 it is Bennett's, and only where nothing is learned is it 0."""
    for n, gamma in ((10**6, Fraction(1, 2)), (10**9, Fraction(1, 100))):
        bennett = closed_bound("bennett", 1, n, 7, gamma)
        assert 0 < response_delta(1, n, 7, gamma) == bennett < 1e-100


def test_mass_outside_the_windows_counts():
    """Also where the divergence is below the range of doubles."""
    assert ResponseBlanket(10**5, 2, Fraction(1, 2)).divergence(1.0) > 0


def test_the_closed_form_of_the_paper():
    # 14 k ln(2/delta) / ((n-1) eps^2) with the k = p + 1 values of {0..p}
    value = 14 * 7 * math.log(2e8) / 9999
    assert closed_bound("closed-form", 1, 10**4, 7, Fraction(value)) == pytest.approx(1e-8)
    with pytest.raises(ValueError, match="epsilon must be at most 1"):
        closed_bound("closed-form", 1.01, 10**4, 7, Fraction(1, 2))


def test_the_published_bound_is_for_no_less_than_it_asks_for():
    """The second of its two conditions: 27 k / ((n - 1) eps)."""
    n, k, eps = 1001, 4, Fraction(1)
    least = Fraction(27 * k, 1000)
    assert closed_bound("closed-form", eps, n, k, least) < 1
    assert closed_bound("closed-form", eps, n, k, least * Fraction(999, 1000)) == 1


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("delta", [5e-324, 1e-310])
def test_gamma_is_enough_for_the_smallest_deltas(accountant, delta):
    n = 10**6
    gamma = response_gamma(1, delta, n, 4, accountant=accountant)
    assert response_delta(1, n, 4, gamma, accountant=accountant) <= delta
    less = gamma * (1 - Fraction(3, 10**6))
    assert response_delta(1, n, 4, less, accountant=accountant) > delta


def test_gamma_of_few_users_and_a_denormal_delta():
    assert 0.5 < response_gamma(1, 1e-320, 100, 4) < 1


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-200, 1e-300, 5e-324, Fraction(1, 10**400)])
def test_no_delta_takes_more_than_the_guarantee_of_one_answer(delta):
    """From that one's epsilon on delta is 0, and the search must not pass over it."""
    for n, k, gamma in ((1000, 2, 0.5), (1000, 10, 0.9), (10**6, 2, Fraction(1, 2))):
        local = math.log1p(k * (1 - float(gamma)) / float(gamma))
        assert response_delta(local * (1 + 1e-9), n, k, gamma) == 0
        assert response_delta(local * (1 - 1e-3), n, k, gamma) > 0
        epsilon = response_epsilon(delta, n, k, gamma)
        assert epsilon <= local * (1 + 1e-6)
        assert response_delta(epsilon, n, k, gamma) <= delta
    assert float(response_gamma(1, delta, 100, 2)) <= local_gamma(Fraction(1), 2) * (1 + 1e-6)


@pytest.mark.slow
def test_whose_bound_it_is_is_said():
    """Exact at any number of users, unless Bennett's says that there is nothing to tell."""
    n, k, epsilon = 10**6, 3, Fraction(1, 60)
    gamma = response_gamma(epsilon, 1e-8, n, k)
    assert response_accountant(epsilon, n, k, gamma) == "exact"
    assert gamma < Fraction(9, 10) * response_gamma(epsilon, 1e-8, n, k, accountant="bennett")
    assert response_accountant(1, 10**6, 7, 0.5) == "bennett"
    for name in ACCOUNTANTS:
        assert response_accountant(1, 10**4, 7, 0.04, accountant=name) == name


@pytest.mark.parametrize(
    ("n", "local", "delta", "least", "most"),
    [
        (1000, 1, 1e-6, 0.080131, 0.080161 + 1e-7),
        pytest.param(10**7, 3, 1e-8, 0.0063754, 0.0063755, marks=pytest.mark.slow),
        pytest.param(10**8, 3, 1e-8, 0.0018829, 0.0018830, marks=pytest.mark.slow),
        pytest.param(10**9, 3, 1e-8, 0.00055084, 0.00055085, marks=pytest.mark.slow),
    ],
)
def test_ten_values_at_any_number_of_users(n, local, delta, least, most):
    """Epsilon from both sides: the lower one is that of inputs that exist."""
    gamma = Fraction(10 / (math.exp(local) + 9))
    epsilon = response_epsilon(delta, n, 10, gamma)
    assert epsilon < most
    assert response_delta(epsilon, n, 10, gamma) <= delta < response_attained(least, n, 10, gamma)


@pytest.mark.parametrize(("n", "k"), [(2, 3), (3, 3), (1, 4), (3, 4), (2, 6), (5, 3)])
def test_what_is_attained_is_the_view_of_a_third_value(n, k):
    for gamma, epsilon in itertools.product((Fraction(1, 8), Fraction(1, 2)), (0.1, 0.5, 1.0)):
        views = [view_law((x, *(2,) * (n - 1)), k, gamma) for x in (0, 1)]
        exact = hockey_stick(*views, Fraction(math.exp(epsilon)))
        found = Fraction(response_attained(epsilon, n, k, gamma))
        assert exact * (1 - Fraction(3, 10**7)) <= found <= exact
        counted = Fraction(ResponseBlanket(n, k, gamma).attained(epsilon))
        assert counted <= exact
        if k == 3:  # with more values, the other ones are not told apart
            assert exact * (1 - Fraction(3, 10**7)) <= counted


@pytest.mark.slow
@given(
    st.integers(1, 10**6),
    st.sampled_from([2, Fraction(5, 2), 3, 10, 1000, 1 << 30]),
    st.floats(1e-9, 1.0, exclude_max=True),
    st.floats(-12, 3.5),
)
def test_it_agrees_with_the_losses_anywhere(n, k, gamma, log_epsilon):
    """The losses of a composition are computed in another way, of slightly fewer messages."""
    epsilon, blanket = math.exp(log_epsilon), ResponseBlanket(n, k, Fraction(gamma))
    if closed_bound("bennett", epsilon, n, k, blanket.gamma) < 1e-100:
        return
    try:
        (above,), (below,), lost = masses_above(blanket, np.array([epsilon]), 1e-40, 10**6)
    except TooManyTermsError:
        return
    other, found = above - math.exp(epsilon) * below, blanket.divergence(epsilon)
    if epsilon < blanket.local_epsilon * (1 - 1e-9):
        assert found <= (other + lost) * (1 + 5e-5) + 1e-9 * above
        assert other <= found * 1.01 + 1e-9 * above


@pytest.fixture
def sparing(monkeypatch):
    """Return what replaces the exact accountant by Bennett's for some numbers of values, or all."""
    proved = shuffled_response._proved

    def gives_up(values=None):
        def divergence(name, epsilon, n, k, gamma):
            if name == "exact" and (values is None or k in values):
                return closed_bound("bennett", epsilon, n, k, gamma), "bennett"
            return proved(name, epsilon, n, k, gamma)

        for cached in CACHES:
            cached.cache_clear()
        monkeypatch.setattr(shuffled_response, "_proved", divergence)

    yield gives_up
    for cached in CACHES:
        cached.cache_clear()


@pytest.mark.points(1)
@pytest.mark.parametrize(
    "made",
    [
        lambda: PrivacyBlanket(10**4, 1, 1e-8, precision=6),
        lambda: RecursiveSum(10**4, 1, 1e-8, messages=1),
        lambda: RecursiveSum(10**5, 1, 1e-8, parameters="paper", composition="advanced"),
        lambda: SampledCoordinates(10**4, Box(5), 1, 1e-6, precision=3),
        lambda: SingleMessageGrid(10**4, Box(2), 1, 1e-6),
        lambda: Collision(10**4, SparseTernary(9, 3), 1, 1e-6),
        lambda: PCKVGRR(10**4, SparseTernary(9, 3), 1, 1e-6),
        lambda: PrivKV(10**4, SparseTernary(9, 3), 1, 1e-6),
    ],
)
def test_guarantees_name_the_bound_that_proves_them(sparing, made):
    exact = made().guarantee.theorem
    assert "exact divergence" in exact
    assert "Bennett" not in exact
    sparing()
    bennett = made().guarantee.theorem
    assert "exact" not in bennett
    assert "by Bennett's inequality" in bennett


def test_digits_that_are_proved_differently_name_both_bounds(sparing):
    sparing({5})
    protocol = RecursiveSum(10**5, 1, 1e-8, parameters="paper")
    assert protocol.digits.domains == (5, 48)
    assert protocol.digits.accountants == ("bennett", "exact")
    named = protocol.guarantee.theorem
    assert named.startswith("basic composition; exact divergence")
    assert named.endswith("by Bennett's inequality (BBGN19)")


def exact_divergence(odds, n, k, gamma):
    """Return E[(L_1 + ... + L_M)_+] / (gamma n) in rationals, for a rational e^epsilon."""
    total = Fraction(0)
    for a in range(1, n + 1):
        for b in range(n - a + 1):
            for c in range(n - a - b + 1) if k > 2 else [0]:
                value = (1 - gamma) * k * (a - odds * b) - (odds - 1) * gamma * (a + b + c)
                if value <= 0:
                    break
                rest = n - a - b - c
                ways = math.factorial(n) // (
                    math.factorial(a) * math.factorial(b) * math.factorial(c) * math.factorial(rest)
                )
                chance = (gamma / k) ** (a + b) * (gamma * (1 - Fraction(2, k))) ** c
                total += ways * chance * (1 - gamma) ** rest * value
    return total / (gamma * n)


@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 3.9, 4.1, 12.0, 36.0])
@pytest.mark.parametrize("k", [2, 7, 1 << 20])
def test_it_is_never_understated_near_the_local_guarantee(epsilon, k):
    """Where few values of B count, or e^epsilon is large, nothing cancels."""
    local = k / (math.exp(epsilon) + k - 1)  # the gamma at which epsilon is the local guarantee
    odds = Fraction(math.exp(epsilon))
    for n, nearness in itertools.product((1, 5), (1e-12, 1e-6, 1e-2, 0.5)):
        gamma = Fraction(math.floor(local * (1 - nearness) * GRID), GRID)
        if gamma <= 0:
            continue
        # e^epsilon is a double within 1e-15 of the truth; 2e-15 of it in either direction
        above = exact_divergence(odds * (1 + Fraction(2, 10**15)), n, k, gamma)
        below = exact_divergence(odds * (1 - Fraction(2, 10**15)), n, k, gamma)
        found = Fraction(response_delta(epsilon, n, k, gamma))
        assert above <= found
        if nearness > 1e-8 and epsilon > 1e-5:
            assert found <= below * (1 + Fraction(3, 10**7)) + Fraction(1, 10**90)


def test_a_large_budget_is_kept():
    """What a few users need for a large epsilon is what they need alone."""
    for epsilon, delta in ((18.32, 3.2e-16), (25.0, 1e-6), (36.0, 0.1)):
        gamma = response_gamma(epsilon, delta, 2, 7)
        exact = exact_divergence(
            Fraction(math.exp(epsilon)) * (1 - Fraction(1, 10**14)), 2, 7, gamma
        )
        assert exact <= Fraction(delta) * (1 + Fraction(1, 10**6))


# Answers of which a user has several, and answers about a coordinate drawn at random


def set_answers(own, messages, gamma):
    """Return the law of one message: uniform on all, or else on one's own."""
    return {w: gamma / messages + (1 - gamma) * (w in own) / len(own) for w in range(messages)}


@pytest.mark.points(1)
@pytest.mark.parametrize("gamma", [Fraction(1, 4), Fraction(2, 3)])
@pytest.mark.parametrize(
    ("messages", "size"), [(4, 2), (5, 2), (6, 1), pytest.param(6, 3, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("shared", [0, 1])
def test_sets_of_answers_are_bounded_by_a_rational_k(messages, size, shared, gamma):
    """Exhaustively: all views of three users, for all sets of the two others."""
    first, second = set(range(size)), set(range(size - shared, 2 * size - shared))
    own = [set(chosen) for chosen in itertools.combinations(range(messages), size)]
    found = {odds: Fraction(0) for odds in (Fraction(11, 10), Fraction(3, 2), Fraction(5, 2))}
    for pair in itertools.combinations_with_replacement(own, 2):
        rest = [set_answers(other, messages, gamma) for other in pair]
        p, q = (shuffled([set_answers(x, messages, gamma), *rest]) for x in (first, second))
        for odds in found:
            found[odds] = max(found[odds], hockey_stick(p, q, odds), hockey_stick(q, p, odds))
    blanket = ResponseBlanket(3, Fraction(messages, size), gamma)
    for odds, worst in found.items():
        assert worst <= Fraction(blanket.divergence(math.log(odds)))


@pytest.mark.parametrize("gamma", [Fraction(1, 4), Fraction(2, 3)])
@pytest.mark.parametrize(
    ("d", "k"), [(2, 2), *(pytest.param(*p, marks=pytest.mark.slow) for p in ((3, 2), (2, 3)))]
)
def test_a_coordinate_drawn_at_random_does_not_enlarge_the_domain(d, k, gamma):
    """Exhaustively: a coordinate of each of three users, whatever the vectors."""
    odds = Fraction(3, 2)
    vectors = list(itertools.product(range(k), repeat=d))

    def law(x):
        return set_answers({j * k + x[j] for j in range(d)}, d * k, gamma)

    worst = Fraction(0)
    for pair in itertools.combinations_with_replacement(vectors, 2):
        rest = [law(x) for x in pair]
        p = shuffled([law(vectors[0]), *rest])
        for other in vectors[1:]:
            worst = max(worst, hockey_stick(p, shuffled([law(other), *rest]), odds))
    bound = Fraction(ResponseBlanket(3, k, gamma).divergence(math.log(odds)))
    assert bound / 4 <= worst <= bound  # the bound's adversary knows who answered at random


@pytest.mark.parametrize(
    ("n", "k", "gamma"),
    [(5, 100, Fraction(1, 3)), (5, 3, Fraction(1, 100)), (4, 6, Fraction(1, 2))],
)
def test_near_the_local_guarantee_it_is_still_an_upper_bound(n, k, gamma):
    """Against rationals, where the edge of the event is within rounding of an integer."""
    blanket = ResponseBlanket(n, k, gamma)
    top = math.log1p(float(k * (1 - gamma) / gamma))
    for part in (0, 1e-16, 3e-16, 1e-15, 1e-14, 5e-13, 1e-12, 1e-9, 1e-3):
        epsilon = top * (1 - part)
        if epsilon >= blanket.local_epsilon:
            continue
        with gmpy2.context(precision=400, round=gmpy2.RoundDown):
            odds = Fraction(*gmpy2.exp(mpfr(epsilon)).as_integer_ratio())
        assert exact_divergence(odds, n, k, gamma) <= Fraction(blanket.divergence(epsilon))


def test_rational_k_lies_between_integers():
    gammas = [response_gamma(1, 1e-6, 10**5, k) for k in (3, Fraction(13, 4), 4)]
    assert gammas == sorted(gammas)
    with pytest.raises(TypeError, match="k must be an integer"):
        response_delta(1, 10**5, Fraction(13, 4), 0.1, accountant="closed-form")
    with pytest.raises(ValueError, match=r"k must be at least 2, got 1\.5"):
        response_delta(1, 10**5, Fraction(3, 2), 0.1)


def test_divergences_of_lower_orders_are_refused() -> None:
    with pytest.raises(ValueError, match="epsilon must be at least 0"):
        ResponseBlanket(10, 3, Fraction(1, 2)).divergence(-1.0)
