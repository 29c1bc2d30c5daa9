"""Shuffled reports by their own blankets: enumeration, check values, refusals."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import gmpy2
import mpmath
import numpy as np
import pytest
from accounting import shuffled_laws
from accounting.shuffled_laws import hockey_stick

from ikos.accounting import gaussian_delta, noise_report, report_delta, report_epsilon, sets_report
from ikos.accounting.blanket import blanket_divergence
from ikos.accounting.blanket_convolution import (
    ReportLaw,
    discrete_report,
    gaussian_report,
    laplace_report,
)
from ikos.accounting.blanket_lattice import _outside

ROWS = [
    [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]],
    [[0.625, 0.25, 0.125], [0.125, 0.25, 0.625]],
    [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]],
    [[0.75, 0.125, 0.0625, 0.0625], [0.25, 0.25, 0.25, 0.25]],
    [[0.9, 0.1], [0.5, 0.5]],
    [[0.625, 0.375, 0.0], [0.25, 0.25, 0.5]],
]

HALVES, FLAT = np.array([0.5, 0.5]), ([1.0, 1.0], [1.0, 1.0])


def shuffled(rows):
    return shuffled_laws.shuffled([[*map(Fraction, row)] for row in rows])


def blanket_excess(rows, x, y, n, odds):
    """Return E[(Z_1 + ... + Z_n)_+] / n exactly, and what is outside the blanket."""
    omega = [min(map(Fraction, column)) for column in zip(*rows, strict=True)]
    one = Counter({Fraction(0): 1 - sum(omega)})
    for w, p, q in zip(omega, rows[x], rows[y], strict=True):
        if w:
            one[(Fraction(p) - odds * Fraction(q)) / w] += w
    law = Counter({Fraction(0): Fraction(1)})
    for _ in range(n):
        following = Counter()
        for (a, p), (b, q) in itertools.product(law.items(), one.items()):
            following[a + b] += p * q
        law = following
    return sum(p * max(z, Fraction(0)) for z, p in law.items()) / n


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("n", [2, 3, pytest.param(5, marks=pytest.mark.slow)])
def test_bounds_hold_for_every_view(rows, n):
    """Exhaustively: every pair of values in both orders, whatever the others hold."""
    for epsilon in (0.1, 0.4, 1.0):
        odds = Fraction(math.exp(epsilon))
        for x, y in itertools.combinations(range(len(rows)), 2):
            report = discrete_report(rows, x, y)
            low, high = report_delta(report, epsilon, n)
            turned = report_delta(discrete_report(rows, y, x), epsilon, n)
            assert turned == pytest.approx((low, high), rel=1e-12)
            exact = [blanket_excess(rows, *pair, n, odds) for pair in ((x, y), (y, x))]
            whole = max(map(sum, zip(exact, map(Fraction, report.lost), strict=True)))
            assert Fraction(low) <= max(exact)
            assert whole - Fraction(1, 10**15) <= Fraction(high) <= float(whole) * 1.001 + 1e-9
            for others in itertools.combinations_with_replacement(range(len(rows)), n - 1):
                views = [shuffled([rows[at], *(rows[o] for o in others)]) for at in (x, y)]
                assert max(hockey_stick(*views, odds), hockey_stick(*views[::-1], odds)) <= high


def test_the_order_in_which_values_reveal_more_counts():
    """The divergence of one value from the other is 0 here, in the other order it is not."""
    report = discrete_report([[0.9, 0.1], [0.5, 0.5]], 0, 1)
    low, high = report_delta(report, 1, 2)
    assert 0.114 < low <= high < 0.1141
    assert report_epsilon(report, 0.114, 2) > 1 > report_epsilon(report, 0.1141, 2)
    mirrored = laplace_report(1, 50).either(sets_report(2, 0.25, 0.1), 0.3)
    assert [len(one.orders) for one in (report, mirrored, mirrored.together(mirrored))] == [2, 1, 1]


def distribution(kind, scale, reach):
    """Return the distribution function of noise in mpmath, truncated to [-reach, reach]."""

    def plain(y):
        if kind == "gaussian":
            return mpmath.ncdf(y / mpmath.mpf(scale))
        tail = mpmath.exp(-abs(y) * scale) / 2
        return tail if y < 0 else 1 - tail

    outside = plain(-reach)
    return lambda y: (plain(max(-reach, min(reach, y))) - outside) / (1 - 2 * outside)


@pytest.mark.parametrize("n", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("kind", "scale", "reach"),
    [
        ("laplace", 1.0, math.inf),
        ("laplace", 3.0, math.inf),
        ("laplace", 2.0, 1.75),
        ("laplace", 1.0, 0.75),
        ("gaussian", 1.0, math.inf),
        ("gaussian", 1.0, 2.5),
    ],
)
def test_noise_is_bounded_in_every_view_of_its_cells(kind, scale, reach, n):
    """Cells of outputs are a view of them; the others hold any of three values."""
    report = {
        "laplace": lambda: laplace_report(scale, 200, reach=reach),
        "gaussian": lambda: gaussian_report(scale, 1e-9, 200, reach=reach),
    }[kind]()
    below = distribution(kind, scale, reach)
    edges = [-mpmath.inf, -0.5, 0.25, 0.75, 1.5, mpmath.inf]
    rows = [
        [below(b - x) - below(a - x) for a, b in itertools.pairwise(edges)] for x in (0, 0.5, 1)
    ]
    rows = [[Fraction(float(cell)) for cell in row] for row in rows]
    for epsilon in (0.1, 0.5):
        odds = Fraction(math.exp(epsilon))
        high = report_delta(report, epsilon, n)[1]
        for others in itertools.combinations_with_replacement(rows, n - 1):
            one, other = (shuffled([row, *others]) for row in (rows[0], rows[2]))
            assert max(hockey_stick(one, other, odds), hockey_stick(other, one, odds)) <= high


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("reach", [math.inf, Fraction(7, 4), 6])
def test_coarse_and_fine_cells_enclose_one_value(n, reach):
    for made, scale in (
        (laplace_report, 2),
        (lambda *given, **how: gaussian_report(given[0], 1e-9, given[1], **how), 1),
    ):
        coarse, fine = (report_delta(made(scale, c, reach=reach), 0.3, n) for c in (150, 1500))
        lost = made(scale, 150, reach=reach).lost[0]
        assert coarse[0] <= fine[1]
        assert fine[0] <= coarse[1]
        assert fine[1] - lost <= fine[0] * 1.01 + 1e-8


def test_truncated_noise_loses_what_only_one_value_can_send():
    below = distribution("laplace", 2.0, 1.5)
    lost = (float(below(-0.5)),) * 2
    assert laplace_report(2, 50, reach=1.5).lost == pytest.approx(lost, rel=1e-12)
    assert laplace_report(2, 50, reach=1000).lost == pytest.approx((math.exp(-1998) / 2,) * 2)
    wide = report_delta(laplace_report(2, 500, reach=40), 0.3, 100)
    assert wide == pytest.approx(report_delta(laplace_report(2, 500), 0.3, 100), rel=1e-6)


@pytest.mark.points(0)
def test_noise_of_another_law():
    """Of Gaussian noise, given by its functions."""
    root = gmpy2.sqrt(gmpy2.mpfr(2))
    same = noise_report(
        lambda y: gmpy2.erfc(-y / root) / 2,
        lambda y: gmpy2.exp((1 - 2 * y) / 2),
        np.linspace(-6, 0.5, 800),
    )
    exact = report_delta(gaussian_report(1, 1e-9, 800), 0.4, 100)
    assert report_delta(same, 0.4, 100) == pytest.approx(exact, rel=1e-3)


def test_it_agrees_with_randomized_response():
    k, gamma = 10, Fraction(1, 4)
    rows = np.full((k, k), float(gamma / k)) + np.eye(k) * float(1 - gamma)
    for n, epsilon in ((50, 1.0), (10**4, 0.1)):
        exact = blanket_divergence(epsilon, n, k, gamma)
        low, high = report_delta(discrete_report(rows, 0, 1), epsilon, n)
        assert low <= exact <= high * (1 + 2e-7)
        assert low > 0.97 * exact
        assert high < 1.002 * exact


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "local", "delta", "epsilon"),
    [
        (10**4, 1, 1e-6, 0.0378431),
        pytest.param(10**5, 4, 1e-6, 0.0952164, marks=pytest.mark.slow),
        pytest.param(10**6, 6, 1e-8, 0.106526, marks=pytest.mark.slow),
    ],
)
def test_laplace_noise(n, local, delta, epsilon):
    """Against another computation, to its digits."""
    report = laplace_report(local)
    low, high = report_delta(report, epsilon, n)
    assert low <= delta * (1 + 1e-3)
    assert high == pytest.approx(delta, rel=3e-4)
    assert low > 0.99 * high
    # the other side of the same quantity, within a thousandth in epsilon
    assert report_delta(report, epsilon * (1 - 1e-3), n)[0] > delta


@pytest.mark.slow
def test_the_ends_are_the_worst_pair_under_laplace_noise():
    """By all stop-losses, on cells that 0, 1/2, 1 and the values are edges of."""
    generator = np.random.default_rng(5)

    def below(y, x, rate):
        return np.where(y < x, np.exp(-rate * abs(y - x)) / 2, 1 - np.exp(-rate * abs(y - x)) / 2)

    for _ in range(20):
        rate, (x, other) = generator.uniform(0.3, 5), generator.beta(0.3, 0.3, 2)
        odds = math.exp(generator.uniform(0, rate))
        ends = [0, 0.5, 1, x, other, 1 - x, 1 - other]
        y = np.unique(np.concatenate((np.linspace(-25 / rate, 1 + 25 / rate, 8000), ends)))
        omega = np.diff(
            np.where(y < 0.5, below(y, 1, rate), 2 * below(0.5, 1, rate) - below(1 - y, 1, rate))
        )
        p, q, first, last = (np.diff(below(y, at, rate)) for at in (x, other, 0, 1))
        levels = np.linspace(-odds * math.exp(rate), math.exp(rate), 50)[:, np.newaxis]
        for beyond in (
            lambda z: np.maximum(z, 0).sum(axis=1),
            lambda z: np.maximum(-z, 0).sum(axis=1),
        ):
            pair = beyond(p - odds * q - levels * omega)
            ends_of_all = beyond(first - odds * last - levels * omega)
            assert np.all(pair <= ends_of_all * (1 + 1e-5) + 1e-9)


@pytest.mark.slow
def test_gaussian_noise():
    low, high = report_delta(gaussian_report(1, 1.9e-8), 0.06018, 10**4)
    assert 0.95e-6 < low < high
    assert high == pytest.approx(1e-6, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "n"),
    [*(pytest.param(*one, marks=pytest.mark.slow) for one in ((0.3, 100), (0.5, 100))), (0.4, 3)],
)
def test_reports_that_hide_little_are_as_private_as_one_alone(sigma, n):
    found = report_epsilon(gaussian_report(sigma), 1e-8, n)
    assert gaussian_delta(found, 1 / sigma) <= 1e-8
    assert gaussian_delta(found * (1 - 1e-3), 1 / sigma) > 1e-8 - 2e-10


@pytest.mark.slow
def test_small_epsilons_are_found():
    few, many = (report_epsilon(laplace_report(0.1, 64), 1e-6, n) for n in (10**6, 10**8))
    assert few > 1e-4 > many > 1e-7


@pytest.mark.points(0)
def test_epsilon_is_enough_and_hardly_more():
    report = laplace_report(2, 64)
    epsilon = report_epsilon(report, 1e-6, 100)
    assert (
        report_delta(report, epsilon, 100)[1]
        <= 1e-6
        < report_delta(report, epsilon * 0.999, 100)[0]
    )


def composed(share=None):
    """Return the report of two answers, or of one of two, and its law for all pairs of values."""
    one, other = ROWS[0], ROWS[1]
    reports = discrete_report(one, 0, 1), discrete_report(other, 0, 1)
    pairs = [(np.array(a), np.array(b)) for a in one for b in other]
    if share is None:
        return reports[0].together(reports[1]), np.array([np.kron(a, b) for a, b in pairs])
    law = [np.append(share * a, (1 - share) * b) for a, b in pairs]
    return reports[0].either(reports[1], share), np.array(law)


FIRST, SECOND = 0, 3  # the pairs (0, 0) and (1, 1) of ROWS[0] and ROWS[1]


@pytest.mark.parametrize("n", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("share", [None, 0.25])
def test_compositions_bound_every_view(share, n):
    report, law = composed(share)
    odds = Fraction(math.exp(0.3))
    low, high = report_delta(report, 0.3, n)
    exact = [blanket_excess(law, *pair, n, odds) for pair in ((FIRST, SECOND), (SECOND, FIRST))]
    assert Fraction(low) <= max(exact) <= Fraction(high)
    for others in itertools.combinations_with_replacement(law, n - 1):
        views = [shuffled([law[x], *others]) for x in (FIRST, SECOND)]
        assert max(hockey_stick(*views, odds), hockey_stick(*views[::-1], odds)) <= high


@pytest.mark.parametrize("share", [None, 0.25])
def test_compositions_are_the_report_of_their_law(share):
    report, law = composed(share)
    same = discrete_report(law, FIRST, SECOND)
    for bounds in zip(report_delta(report, 0.5, 40), report_delta(same, 0.5, 40), strict=True):
        assert bounds[0] == pytest.approx(bounds[1], rel=1e-6)


@pytest.mark.slow
def test_reports_that_are_shuffled_separately():
    """Two answers of each of two users, each with a shuffler of its own: losses add up."""
    losses = pytest.importorskip("ikos.accounting.loss_distributions")
    rows = ROWS[1]
    report = discrete_report(rows, 0, 1)
    curve = losses.loss_of_curve(lambda e: report_delta(report, e, 2)[1], np.arange(1, 161) / 100)
    views = [shuffled([rows[x], rows[0]]) for x in (0, 1)]
    twice = [
        Counter({(a, b): p * q for a, p in view.items() for b, q in view.items()}) for view in views
    ]
    for epsilon in (0.2, 0.8):
        exact = hockey_stick(*twice, Fraction(math.exp(epsilon)))
        assert 0 < exact <= curve.self_compose(2).get_delta_for_epsilon(epsilon)


# Randomizers that prefer a set of messages


def bits(one, zero):
    """Return the laws of three bits, of which the value's is 1 with a probability of its own."""
    laws = []
    for x in range(3):
        chances = [one if j == x else zero for j in range(3)]
        laws.append(
            [
                math.prod(c if bit else 1 - c for c, bit in zip(chances, seen, strict=True))
                for seen in itertools.product((0, 1), repeat=3)
            ]
        )
    return laws


def subsets(k, s, odds):
    sets = list(itertools.combinations(range(k), s))
    total = math.comb(k, s) + (odds - 1) * math.comb(k - 1, s - 1)
    return [[Fraction(odds if x in chosen else 1) / total for chosen in sets] for x in range(k)]


def hashes(g, odds):
    """Return the laws of a hash function of three values, and a response on the hash value."""
    seeds = list(itertools.product(range(g), repeat=3))
    total = len(seeds) * (odds + g - 1)
    return [
        [Fraction(odds if seed[x] == y else 1) / total for seed in seeds for y in range(g)]
        for x in range(3)
    ]


SETS = {  # law, odds, share, common
    "response": (subsets(4, 1, 3), 3, Fraction(1, 4), 0),
    "subsets": (subsets(4, 2, 3), 3, Fraction(1, 2), Fraction(1, 6)),
    "most": (subsets(4, 3, 5), 5, Fraction(3, 4), Fraction(1, 2)),
    "unary": (bits(Fraction(2, 3), Fraction(1, 3)), 4, Fraction(1, 3), Fraction(1, 9)),
    "optimized unary": (bits(Fraction(1, 2), Fraction(1, 4)), 3, Fraction(1, 4), Fraction(1, 16)),
    "hashes": (hashes(2, 3), 3, Fraction(1, 2), Fraction(1, 4)),
}


@pytest.mark.points(6)
@pytest.mark.parametrize("n", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SETS)
def test_preferred_sets_are_bounded_in_every_view(name, n):
    laws, odds, share, common = SETS[name]
    report = sets_report(math.log(odds), share, common)
    for epsilon in (0.1, 0.6):
        order = Fraction(math.exp(epsilon))
        low, high = (Fraction(bound) for bound in report_delta(report, epsilon, n))
        exact = blanket_excess(laws, 0, 1, n, order)
        assert exact <= high
        # among few values, some messages of bits or hashes are preferred by each of them
        assert low <= exact or name in ("unary", "optimized unary", "hashes")
        for others in itertools.combinations_with_replacement(laws[:3], n - 1):
            views = [shuffled([laws[x], *others]) for x in (0, 1)]
            assert max(hockey_stick(*views, order), hockey_stick(*views[::-1], order)) <= high


# Inputs that exist: what all others hold is the blanket, so both bounds are the view's


@pytest.mark.slow
def test_laplace_noise_of_others_at_one_end():
    report = laplace_report(1)
    (least, most), ones = report.first_ratio, (np.ones(report.blanket.size),) * 2
    ratio = report.second_ratio[0] / most, report.second_ratio[1] / least
    real = ReportLaw(report.first, report.first, report.second, ones, ratio)
    low, high = report_delta(real, 0.031302, 10**4)
    assert 0.99e-6 < low < 1e-6 < high < 1.001e-6


def test_ten_values_of_others_at_a_third():
    """What the printed variation-ratio pair denies: see the errata."""
    p = math.e
    law = np.array([[p, 1, 1, 7], [1, p, 1, 7], [1, 1, p, 7]]) / (p + 9)
    ratios = (law[0] / law[2],) * 2, (law[1] / law[2],) * 2
    low, high = report_delta(ReportLaw(law[2], law[0], law[1], *ratios), 0.080095, 1000)
    assert 0.97e-6 < low < 1.00663e-6 < high < 1.0068e-6
    assert report_delta(ReportLaw(law[2], law[0], law[1], *ratios), 0.080131, 1000)[1] > 1e-6


@pytest.mark.parametrize("top", [5, 20, 28, 40])
def test_mass_outside_the_window_is_bounded(top):
    places, chances, n, points = np.array([-3.0, 0.0, top]), np.array([0.5, 0.25, 0.25]), 4, 64
    law = {0.0: 1.0}
    for _ in range(n):
        following = Counter()
        for (a, p), (b, q) in itertools.product(law.items(), zip(places, chances, strict=True)):
            following[a + b] += p * q
        law = following
    outside = sum(p for z, p in law.items() if abs(z) >= points // 2)
    assert outside <= _outside(places, np.log(chances), n, points) <= 1


@pytest.mark.points(0)
def test_below_the_local_guarantee_nothing_is_left():
    assert report_delta(laplace_report(1), 1.0001, 100) == (0.0, 0.0)
    for below in (1e-16, 1e-8, 1e-4):
        low, high = report_delta(laplace_report(1, 50), 1 - below, 2)
        assert low <= high <= math.e * below + 1e-13


@pytest.mark.parametrize("rare", [1e-20, 1e-50, 1e-99, 1e-150, 1e-300, 1e-320])
def test_ratios_that_nothing_hides(rare):
    """Half of the second value's reports are as good as revealed."""
    report = discrete_report([[1 - rare, rare], [0.5, 0.5]], 0, 1)
    least, most = report_delta(report, 1, 2)
    assert least <= 0.5 <= most <= 0.5 + 1e-9


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: discrete_report([[1.0]], 0, 0), "law must have at least two rows"),
        (lambda: discrete_report([[0.5, math.nan], [0.5, 0.5]], 0, 1), "law must"),
        (lambda: discrete_report([[0.5, 0.4], [0.5, 0.5]], 0, 1), "rows with a sum of 1"),
        (lambda: discrete_report([[1.0, 0.0], [0.0, 1.0]], 0, 1), "every value can send"),
        (lambda: report_epsilon(gaussian_report(1, 1e-6, 8), 1e-7, 10), "delta must be"),
        (lambda: gaussian_report(1, reach=math.nan), "reach must be"),
        (lambda: noise_report(float, float, [0.0, 0.4]), "edges must increase up to 1/2"),
        (lambda: noise_report(float, float, [math.nan, 0.5]), "edges must increase up to 1/2"),
        (lambda: sets_report(1, 0.75, 0.25), "common must be at least 0.5"),
        (lambda: laplace_report(1).either(laplace_report(1), 1), "share must be less than 1"),
        (lambda: ReportLaw(HALVES, np.array([0.5, math.nan]), HALVES, FLAT, FLAT), "first must be"),
        (lambda: ReportLaw(HALVES, HALVES / 2, HALVES, FLAT, FLAT), "first must have a total"),
        (lambda: ReportLaw(HALVES, HALVES, HALVES / 2, FLAT, FLAT), "second must have a total"),
        (lambda: ReportLaw(HALVES, HALVES, 2 * HALVES, FLAT, FLAT), "second must have a total"),
        (lambda: ReportLaw(2 * HALVES, HALVES, HALVES, FLAT, FLAT), "blanket must have a total"),
        (lambda: ReportLaw(HALVES, HALVES, HALVES, FLAT, (FLAT[0], [1, math.nan])), "second_ratio"),
        (
            lambda: ReportLaw(HALVES, HALVES, HALVES, ([1, 1.1], [2, 2]), FLAT),
            "first_ratio must have",
        ),
        (lambda: ReportLaw(HALVES, HALVES, HALVES, FLAT, FLAT, (0, math.nan)), "lost must be"),
        (lambda: ReportLaw(HALVES, HALVES, HALVES, FLAT, FLAT, 0.5), "lost must be a sequence"),
        (lambda: ReportLaw(*[[0.5]] * 3, *[([1.0], [1.0])] * 2, (0.5,)), "lost must have 2"),
        (
            lambda: ReportLaw(*[[0.5]] * 3, *[([1.0], [1e101])] * 2, (0.5, 0.5)),
            "first_ratio must be",
        ),
    ],
)
def test_nonsense_is_refused(call, said):
    with pytest.raises((ValueError, TypeError), match=said):
        call()
