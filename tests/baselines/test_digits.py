"""The privacy blanket and the recursive protocol: their views' exact laws, and broken ones."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from accounting.shuffled_laws import hockey_stick, shuffled
from statistical import FALSE_ALARM, outcome_p_value

from ikos.accounting import digits_delta, recursive_digits, response_delta
from ikos.accounting.blanket import TooManyTermsError
from ikos.accounting.digits_bbgn20 import DigitParameters
from ikos.baselines import PrivacyBlanket, RecursiveSum
from ikos.primitives.randomized_response import GRID, grid_up
from ikos.testing import DeterministicRandom


def digits_of(encoded, places):
    result = []
    for place in places:
        digit, encoded = divmod(encoded, place)
        result.append(digit)
    return tuple(result)


def view_law(encoded, digits):
    """Return the law of a view: every digit's sorted answers."""
    columns = zip(*(digits_of(value, digits.places) for value in encoded), strict=True)
    laws = [
        shuffled([{y: gamma / k + (1 - gamma) * (y == x) for y in range(k)} for x in values])
        for values, k, gamma in zip(columns, digits.domains, digits.gammas, strict=True)
    ]
    law = Counter()
    for parts in itertools.product(*(part.items() for part in laws)):
        law[tuple(seen for seen, _ in parts)] += math.prod(chance for _, chance in parts)
    return law


def true_divergence(digits, n, epsilon):
    """Return the divergence of the view, worst over neighbouring encoded inputs."""
    odds = Fraction(math.exp(epsilon))
    values = range(digits.precision + 1)
    worst = Fraction(0)
    for others in itertools.combinations_with_replacement(values, n - 1):
        laws = {x: view_law((x, *others), digits) for x in values}
        for x, other in itertools.permutations(values, 2):
            worst = max(worst, hockey_stick(laws[x], laws[other], odds))
    return worst


TINY = [
    (lambda: PrivacyBlanket(2, 1.0, 0.05, precision=1), 2),
    (lambda: PrivacyBlanket(3, 0.5, 0.1, precision=2), 3),
    (lambda: RecursiveSum(2, 1.0, 0.05), 2),
    (lambda: RecursiveSum(2, 1.0, 0.05, composition="basic"), 2),
    (lambda: RecursiveSum(3, 1.0, 0.1, messages=2), 3),
]


@pytest.mark.points(1)
@pytest.mark.parametrize(("make", "n"), TINY)
def test_no_view_tells_more_than_delta(make, n):
    protocol = make()
    worst = true_divergence(protocol.digits, n, float(protocol.epsilon))
    assert 0 < worst <= protocol.delta
    # Half of the noise would be too little: the check can fail.
    halved = DigitParameters(
        protocol.digits.precision,
        protocol.digits.domains,
        protocol.digits.places,
        tuple(grid_up(gamma / 2) for gamma in protocol.digits.gammas),
    )
    assert true_divergence(halved, n, float(protocol.epsilon)) > protocol.delta


GIVEN = {
    "two digits": (recursive_digits((2, 1), (0.5, 0.75)), 2),
    "uneven ones": (recursive_digits((1, 2), (0.75, 0.375)), 2),
    "of any layout": (DigitParameters(5, (3, 2), (2, 1), (0.5, 0.25)), 2),
    "each without a delta": (DigitParameters(3, (2, 2), (2, 1), (0.625, 0.625)), 2),
    "one digit": (DigitParameters(2, (3,), (1,), (0.25,)), 3),
}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("composition", ["numerical", "basic"])
def test_given_digits_have_the_delta_that_is_proved(name, composition):
    """By enumeration, for both orders of all values; and no smaller delta is granted."""
    digits, n = GIVEN[name]
    proved = digits_delta(1.0, n, digits, composition=composition)
    assert 0.2 * proved < true_divergence(digits, n, 1.0) <= proved < 1

    def made(delta, users=n):
        return RecursiveSum(
            users, 1.0, delta, parameters=digits, composition=composition, min_honest=n
        )

    for protocol in (made(proved), made(0.99), made(0.99, users=1000)):
        assert protocol.guarantee.delta == protocol.proved_delta == proved
        assert (protocol.digits.gammas, protocol.digits.domains) == (digits.gammas, digits.domains)
    with pytest.raises(ValueError, match=r"^parameters must ask for more random answers"):
        made(math.nextafter(proved, 0))


def test_a_given_gamma_of_one_message_has_the_delta_that_is_proved():
    digits, n = GIVEN["one digit"]
    proved = digits_delta(1.0, n, digits)
    protocol = PrivacyBlanket(9, 1.0, proved, precision=2, gamma=0.25, min_honest=n)
    assert protocol.guarantee.delta == proved
    assert protocol.digits.gammas == digits.gammas
    with pytest.raises(ValueError, match=r"^gamma must ask for more random answers"):
        PrivacyBlanket(9, 1.0, math.nextafter(proved, 0), precision=2, gamma=0.25, min_honest=n)


def test_given_digits_are_algorithm_3s():
    """For every value that is not rounded, and in its estimate."""
    precisions = (3, 4, 5)
    digits = recursive_digits(precisions, (0.25, 0.5, 0.5))
    for encoded in range(61):
        x, before, expected = Fraction(encoded, 60), 0, []
        for j, p in enumerate(precisions, 1):
            q = math.prod(precisions[:j])
            expected.append(math.floor(q * x - p * before))
            before = math.floor(q * x)
        assert digits.split(encoded) == tuple(expected)
    protocol = RecursiveSum(4, 9, 0.9, parameters=digits)
    messages = np.array([[0, 1, 3, 2], [1, 4, 0, 2], [6, 0, 5, 1]])
    algorithm_4 = sum(
        (Fraction(int(row.sum())) - 4 * gamma * Fraction(k - 1, 2)) / (1 - gamma) / q
        for row, k, gamma, q in zip(
            messages, digits.domains, digits.gammas, (3, 12, 60), strict=True
        )
    )
    assert protocol.analyze(protocol.shuffle(messages)).estimate == pytest.approx(
        float(algorithm_4)
    )


def test_given_digits_without_exact_losses_are_added_up():
    digits = recursive_digits((1, 2), (0.5, 0.5))
    with pytest.raises(TooManyTermsError):
        RecursiveSum(100, 0.01, 0.2, parameters=digits, composition="numerical")
    protocol = RecursiveSum(100, 0.01, 0.2, parameters=digits)
    assert protocol.composition == "basic"
    assert protocol.proved_delta == digits_delta(0.01, 100, digits, composition="basic")


@pytest.mark.parametrize("composition", ["numerical", "basic"])
def test_digits_that_are_all_random_cost_nothing(composition):
    for gammas, k in (((0.25, 1), 3), ((1, 0.25), 4)):
        digits = recursive_digits((2, 2), gammas)
        proved = digits_delta(1.0, 2, digits, composition=composition)
        assert proved == response_delta(1.0, 2, k, 0.25)
        assert 0.2 * proved < true_divergence(digits, 2, 1.0) <= proved
    assert digits_delta(1.0, 2, recursive_digits((2, 2), (1, 1)), composition=composition) == 0


def test_each_digit_has_a_part_of_epsilon_that_is_accounted_for():
    """However little a digit tells, and unless the caller's epsilon is too small for that."""
    digits = recursive_digits((2, 2), (0.25, 1 - 2**-53))
    assert 0 < digits_delta(1.0, 2, digits, composition="basic") < 1
    assert digits_delta(2e-6, 2, digits, composition="basic") < 1
    with pytest.raises(ValueError, match=r"^epsilon must be at least 2e-6, .* got 1\.9e-06"):
        digits_delta(1.9e-6, 2, digits, composition="basic")


@pytest.mark.slow
@pytest.mark.parametrize("shuffler", ["parallel", "single"])
def test_views_follow_their_law(shuffler):
    protocol = RecursiveSum(2, 1.0, 0.2, shuffler=shuffler)
    digits = protocol.digits
    rng = DeterministicRandom(3)
    encoded = [0, digits.precision]
    law = view_law(encoded, digits)
    x = [value / digits.precision for value in encoded]

    def seen():
        view = protocol.shuffle(protocol.randomize(x, rng))
        return tuple(tuple(map(int, column)) for column in protocol._by_digit(view))

    assert outcome_p_value((seen() for _ in range(8_000)), law) > FALSE_ALARM
    other = view_law([0, 0], digits)
    assert outcome_p_value((seen() for _ in range(8_000)), other) < FALSE_ALARM


def test_the_papers_debias_is_biased():
    """Algorithm 2 of BBGN20 subtracts n gamma (p + 1)/2: off by n gamma / 2 / (1 - gamma)."""
    n, p = 1000, 4
    protocol = PrivacyBlanket(n, 1.0, 1e-6, precision=p)
    gamma = protocol.digits.gammas[0]
    view = protocol.shuffle(np.full((1, n), 2))
    ours = protocol.analyze(view).estimate
    theirs = float((2 * n - n * gamma * Fraction(p + 1, 2)) / (1 - gamma)) / p
    assert math.isclose(ours, n / 2)
    assert math.isclose(ours - theirs, float(n * gamma / 2 / (1 - gamma)) / p)


@pytest.mark.parametrize("messages", [1, 2])
@pytest.mark.slow
def test_digits_are_those_of_the_encoded_value(messages):
    protocol = RecursiveSum(10**4, 1.0, 1e-8, messages=messages)
    digits = protocol.digits
    values = np.arange(digits.precision + 1)
    got = np.array(list(digits.split(values)))
    assert (np.array(digits.places) @ got == values).all()
    for row, k in zip(got, digits.domains, strict=True):
        assert row.min() == 0
        assert row.max() == k - 1


@pytest.mark.slow
def test_the_papers_layout_keeps_digits_in_their_domains():
    protocol = RecursiveSum(10**5, 1.0, 1e-10, messages=3, parameters="paper")
    digits = protocol.digits
    ends = np.array([0, 1, digits.precision - 1, digits.precision])
    for row, k in zip(digits.split(ends), digits.domains, strict=True):
        assert row.max() < k
    x = np.random.default_rng(5).random(10**5)
    result = protocol.run(x, DeterministicRandom(5))
    assert abs(result.estimate - x.sum()) < 7 * math.sqrt(protocol.mse)


@pytest.mark.points(0)
def test_probabilities_are_those_that_were_accounted_for():
    protocol = RecursiveSum(10**4, 1.0, 1e-8, parameters="paper")
    assert all((gamma * GRID).denominator == 1 for gamma in protocol.digits.gammas)


@pytest.mark.points(1)
@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        (PrivacyBlanket, {}),
        (PrivacyBlanket, {"precision": 6}),
        (RecursiveSum, {"messages": 1}),
        (RecursiveSum, {"parameters": "paper"}),
        pytest.param(RecursiveSum, {}, marks=pytest.mark.slow),
        pytest.param(RecursiveSum, {"composition": "basic", "messages": 3}, marks=pytest.mark.slow),
    ],
)
def test_answers_are_as_random_as_the_honest_users_need(protocol, options):
    """Those of no more users count, however many there are."""
    few, many = protocol(2000, 1, 1e-6, **options), protocol(10**5, 1, 1e-6, **options)
    trusting = protocol(10**5, 1, 1e-6, min_honest=2000, **options)
    assert trusting.digits == few.digits
    assert max(trusting.digits.gammas) > max(many.digits.gammas)


@pytest.mark.slow
def test_so_they_are_where_exact_losses_would_take_too_long():
    with pytest.raises(TooManyTermsError):
        RecursiveSum(100, 0.01, 0.1, composition="numerical")
    trusting = RecursiveSum(10**4, 0.01, 0.1, min_honest=100)
    assert trusting.composition == "basic"
    assert trusting.digits == RecursiveSum(100, 0.01, 0.1).digits
