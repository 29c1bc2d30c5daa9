"""AFNNTZ24's Propositions A.1, A.3 and Lemmas B.1, B.2, B.3, B.5 by enumeration at tiny sizes."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from analysis.afnntz24_bounds import least_messages
from analysis.afnntz24_lemmas import (
    cell_distance_square,
    decoded_error,
    lemma_b5,
    posterior_means,
    reduced_dimension,
    reduced_error,
    sign_error,
)

# Propositions A.1 and A.3


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_signs_of_every_pattern(d):
    rng = np.random.default_rng(d)
    for _ in range(20):
        frame = np.linalg.qr(rng.normal(size=(2 * d, d)))[0]
        x = rng.normal(size=d)
        x /= np.linalg.norm(x)
        w, size = frame @ x, 2 / math.sqrt(d)
        if np.abs(w).max() > size:
            with pytest.raises(ValueError, match="x must have coefficients up to"):
                sign_error(frame, x)
            continue
        patterns = np.array(list(product((-1, 1), repeat=2 * d)))
        chances = ((1 + patterns * w / size) / 2).prod(axis=1)
        signs = size * patterns
        np.testing.assert_allclose(chances @ signs, w, atol=1e-12)
        exact = chances @ ((signs @ frame - x) ** 2).sum(axis=1)
        assert sign_error(frame, x) == pytest.approx(exact, rel=1e-12)
        assert 3 <= exact <= 4
        assert chances @ ((signs - w) ** 2).sum(axis=1) == pytest.approx(7)  # without the inverse
        assert 2 * exact <= reduced_error(1, 2 * d + 1, d, 0)


def test_the_reduction_leaves_the_range_of_the_bound_for_few_coordinates():
    """Theorem 2.1 needs an error below n / 100 there; the signs alone have 3 n at least."""
    n, d = 10**6, 10**5
    few = round(reduced_dimension(n, 1))
    assert few == n / 200
    assert reduced_error(n, d, few, 0) == 8 * n
    assert reduced_error(n, d, few, d) - 8 * n == 4 * few
    assert least_messages(n, few, 1, 1e-13, n / 100, protocol="summation") > 1
    assert least_messages(n, few, 1, 1e-13, 3 * n, protocol="summation") == 1
    assert least_messages(n, few, 1, 1e-13, 3 * n) > 1  # unbiased estimates: nothing is reduced


# Lemmas B.1 and B.2

PRIOR = np.array([0.5, 0.3, 0.2])
VALUES = np.array([[0.0, 0.4], [0.5, -0.3], [-0.6, 0.1]])
CHANNEL = np.array([[0.6, 0.3, 0.1, 0.0], [0.1, 0.7, 0.2, 0.0], [0.2, 0.2, 0.6, 0.0]])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_analyzer_of_shuffled_messages_beats_posterior_means(n):
    """The best analyzer of a multiset is the mean of the sum given it, and has the same error."""
    f = posterior_means(PRIOR, VALUES, CHANNEL)
    assert (f[:3].min(axis=0) >= VALUES.min(axis=0)).all()
    assert (f[:3].max(axis=0) <= VALUES.max(axis=0)).all()
    assert f[3].tolist() == [0.0, 0.0]
    chances, sums = Counter(), defaultdict(lambda: np.zeros(2))
    squares, added = 0.0, 0.0
    for inputs, messages in product(product(range(3), repeat=n), product(range(3), repeat=n)):
        seen = tuple(sorted(messages))
        chance = math.prod(PRIOR[v] * CHANNEL[v, u] for v, u in zip(inputs, messages, strict=True))
        total = VALUES[list(inputs)].sum(axis=0)
        chances[seen] += chance
        sums[seen] += chance * total
        squares += chance * total @ total
        added += chance * ((f[list(messages)].sum(axis=0) - total) ** 2).sum()
    for seen, chance in chances.items():
        np.testing.assert_allclose(sums[seen] / chance, f[list(seen)].sum(axis=0))
    best = squares - sum(sums[seen] @ sums[seen] / chance for seen, chance in chances.items())
    assert decoded_error(n, PRIOR, VALUES, CHANNEL, f) == pytest.approx(best, rel=1e-12)
    assert added == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_error_of_a_sum_of_decoded_messages(n):
    """Lemma B.2 by enumeration, also with bias, where it is a strict inequality."""
    decoded = np.array([[0.1, 0.9], [0.4, 0.0], [-0.9, 0.3], [9.0, 9.0]])
    found = 0.0
    for pairs in product(product(range(3), range(3)), repeat=n):
        chance = math.prod(PRIOR[v] * CHANNEL[v, u] for v, u in pairs)
        found += chance * (sum(decoded[u] - VALUES[v] for v, u in pairs) ** 2).sum()
    error = decoded_error(n, PRIOR, VALUES, CHANNEL, decoded)
    assert error == pytest.approx(found, rel=1e-12)
    bound = n * decoded_error(1, PRIOR, VALUES, CHANNEL, decoded)
    assert error > bound if n > 1 else error == bound


# Lemma B.3


@pytest.mark.parametrize(("r", "d"), [(2, 1), (3, 1), (3, 2), (4, 3), (5, 2)])
def test_the_mean_over_cells_by_listing_them(r, d):
    grid = np.array(list(product(range(1, r + 1), repeat=d)))
    found = {}
    for b in grid:
        lengths = np.linalg.norm(grid - b, axis=1) / r - math.sqrt(d) / (2 * r)
        found[tuple(b.tolist())] = (np.maximum(lengths, 0) ** 2).mean()
        mean = cell_distance_square(r, b.tolist())
        assert mean == pytest.approx(found[tuple(b.tolist())], rel=1e-12)
    middle = ((r + 1) // 2,) * d
    assert found[middle] == pytest.approx(min(found.values()))


@pytest.mark.parametrize("d", [1, 2, 4, 8, 16])
def test_lemma_b3_with_the_maximum_holds_and_from_three_cells_on(d):
    for r in (3, 4, 5, 8, 33, 34):
        least = cell_distance_square(r, [(r + 1) // 2] * d)
        proved = d / 16 * (1 - 2 / r - 1 / r**2) ** 2
        assert least >= proved >= d / 2048
        assert r < 33 or proved > d / 19


# Lemma B.5


@pytest.mark.parametrize("n", [2, 3, 4])
def test_lemma_b5_for_every_randomized_response(n):
    """The exact delta of shuffled answers on three values: b among copies of a, and all a."""
    k, seen = 3, 0
    for gamma in (Fraction(0), Fraction(1, 20), Fraction(1, 5), Fraction(1, 2), Fraction(1)):
        laws = {x: [gamma / k + (1 - gamma) * (x == y) for y in range(k)] for x in (0, 1)}

        def views(*inputs, laws=laws):
            found = Counter()
            for ys in product(range(k), repeat=n):
                chance = math.prod(laws[x][y] for x, y in zip(inputs, ys, strict=True))
                found[tuple(sorted(ys))] += chance
            return found

        one, other = views(1, *[0] * (n - 1)), views(*[0] * n)
        stay, move = float(laws[1][1]), float(laws[0][1])
        for eps in (0.0, 0.5, 1.0, 2.0):
            pairs = [(float(one[v]), float(other[v])) for v in one | other]
            delta = max(
                sum(max(0.0, p - math.exp(eps) * q) for p, q in pairs),
                sum(max(0.0, q - math.exp(eps) * p) for p, q in pairs),
            )
            assert move >= (1 - delta - math.exp(eps) * (1 - stay)) / n - 1e-12
            if delta < 0.5:
                threshold, least = lemma_b5(n, eps, delta)
                assert stay < threshold or move >= least
                seen += stay >= threshold
    assert seen


def test_the_numbers_of_lemma_b5_are_a_point_of_its_general_form():
    for n, eps, delta in ((10, 0.0, 0.0), (1000, 1.0, 0.1), (10**6, 3.0, 0.49)):
        p, least = lemma_b5(n, eps, delta)
        assert least == pytest.approx((1 - delta - math.exp(eps) * (1 - p)) / n)
        assert p == 1 - math.exp(-eps) / 2
    with pytest.raises(ValueError, match="delta must be"):
        lemma_b5(10, 1, 0.5)
