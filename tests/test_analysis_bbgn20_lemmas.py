"""BBGN20's Lemmas C.1, C.3 and E.1 to E.4 against exact laws of views and of hash values."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import combinations, product

import pytest
from exact.enumeration import total_variation, view_law, worst_case_variation

import ikos
from analysis.bbgn20_lemmas import (
    equation_3,
    lemma_c1_bound,
    lemma_c3_bound,
    lemma_e1_level,
    lemma_e2_level,
    lemma_e3_level,
    lemma_e4_messages,
)
from ikos.graphs.component_distribution import exact_component_law

TIGHT = 1 + 1e-12


# Appendix C


@pytest.mark.parametrize(
    ("n", "m", "q", "shuffler"),
    [(2, 2, 2, "parallel"), (2, 2, 3, "parallel"), (2, 3, 2, "parallel"), (3, 2, 2, "parallel"),
     (2, 2, 2, "single"), (3, 2, 2, "single")],
)  # fmt: skip
def test_the_second_moment_bounds_every_average(n, m, q, shuffler):
    """Over independent inputs with the same sum, and over X and X + y for every fixed offset y."""
    bound = lemma_c1_bound(n, m, q, shuffler=shuffler)
    assert lemma_c3_bound(n, m, q, shuffler=shuffler) == bound
    inputs = list(product(range(q), repeat=n))
    laws = {x: view_law(x, q, m, shuffler, clear=False) for x in inputs}
    averages, same = defaultdict(Fraction), q ** (n - 1)
    for x, y in product(inputs, repeat=2):
        if (sum(x) - sum(y)) % q == 0:
            offset = tuple((b - a) % q for a, b in zip(x, y, strict=True))
            averages[offset] += total_variation(laws[x], laws[y]) / q**n
    assert len(averages) == same
    assert 0 < sum(averages.values()) / same < max(averages.values()) <= bound
    # both from the law of the components: the library's bound is smaller, by at most sqrt(2)
    law = exact_component_law(n, m, shuffler=shuffler)
    powers = sum(chance * q**c for c, chance in enumerate(law))  # E[q^(C-1)]
    assert bound == pytest.approx(math.sqrt(powers - 1), rel=1e-12)
    ours = math.sqrt((powers - law[0]) / 2)
    assert max(averages.values()) <= ours * TIGHT <= bound * TIGHT**2 < math.sqrt(2) * ours


# Appendix E


def test_the_leftover_hash_lemma_on_linear_maps():
    """All matrices from 3 bits to 1 or 2, and all sets of more than half of the elements."""
    vectors = list(product((0, 1), repeat=3))
    for bits in (1, 2):
        assert lemma_e1_level(2 ** (bits + 6), bits) == 3
        maps = list(product(product((0, 1), repeat=3), repeat=bits))
        hashed = [
            {d: tuple(sum(map(int.__mul__, row, d)) % 2 for row in h) for d in vectors}
            for h in maps
        ]
        for size in range(5, 9):
            for some in combinations(vectors, size):
                away = Fraction(0)
                for h in hashed:
                    counts = Counter(h[d] for d in some)
                    each = Fraction(size, 2**bits)
                    away += sum(abs(counts[u] - each) for u in product((0, 1), repeat=bits)) / 2
                away /= size * len(maps)
                assert 0 < away <= 2 ** -lemma_e1_level(size, bits)


def input_given_view(m, q):
    """Return TV((V, X), (V, U)): over V, of the sum of m of its 2m shares and a uniform one."""
    away = Fraction(0)
    for shares in product(range(q), repeat=2 * m):
        sums = Counter(sum(some) % q for some in combinations(shares, m))
        even = Fraction(sums.total(), q)
        away += sum(abs(sums[u] - even) for u in range(q)) / (2 * sums.total())
    return away / q ** (2 * m)


@pytest.mark.parametrize(("m", "q"), [(1, 2), (2, 2), (4, 2), (2, 3), (3, 3), (2, 4), (2, 5)])
def test_lemmas_e2_and_e3_between_two_users(m, q):
    hidden = input_given_view(m, q)
    assert 0 < hidden <= 2 ** -lemma_e2_level(m, q)
    worst = worst_case_variation(2, q, m, "single", clear=False)
    level = lemma_e3_level(Fraction(-math.log2(hidden)), q)
    assert 2**-level == pytest.approx(2 * q * q * float(hidden), rel=1e-12)
    assert hidden < worst <= q * q * hidden  # the 2 is not needed
    # Inequality (8), both of its lines
    first = lemma_e3_level(lemma_e2_level(m, q), q)
    assert first >= m / 2 - 1 - 2.5 * (q - 1).bit_length()


def bits_variation(m):
    """Return the worst TV of two users' 2m shuffled bits, from the law of the number of ones."""
    ones = [
        [Fraction(math.comb(m, k), 2 ** (m - 1)) * (k % 2 == x) for k in range(m + 1)]
        for x in (0, 1)
    ]

    def total(x, y):
        law = Counter()
        for (j, p), (k, r) in product(enumerate(ones[x]), enumerate(ones[y])):
            law[j + k] += p * r
        return law

    return total_variation(total(0, 0), total(1, 1))


@pytest.mark.parametrize("sigma", [0, 1, 2.5, 8])
def test_lemma_e4_is_enough_between_two_users(sigma):
    m = lemma_e4_messages(2, 2, sigma)
    assert m == 2 + 5 + 2 * sigma
    assert bits_variation(2) == worst_case_variation(2, 2, 2, "single", clear=False)
    assert 0 < bits_variation(m) <= 2.0**-sigma


@pytest.mark.parametrize(
    ("n", "q", "sigma"),
    [(2, 2, 1), (3, 3, 40), (1000, 5, 0.3), (10, 2**59, 50), (10**6, 2**64, 80),
     (10**9, 2**128 - 1, 128)],
)  # fmt: skip
def test_the_printed_counts_are_enough_by_the_proof_and_no_fewer_than_appendix_e1s(n, q, sigma):
    """The proof: E.2 and E.3 at sigma + log(n - 1), one step of the inputs after the other."""
    many = lemma_e4_messages(n, q, sigma)
    bits = (q - 1).bit_length()
    assert many == 2 + 5 * bits + math.ceil(2 * sigma + 2 * math.log2(n - 1))
    model = {"shuffler": "single", "clear_share": False}
    fewer = ikos.message_count(n, q, sigma, analysis="ishai2006", **model).total
    assert fewer <= many
    for m in (many, fewer):
        two_users = lemma_e3_level(lemma_e2_level(m, q), q)
        assert two_users - math.log2(n - 1) >= sigma - 1e-9
        assert ikos.security_level(n, q, m, analysis="ishai2006", **model) >= sigma
    # Equation (3)'s O(1): 1 + (5/2)(ceil(log q) - log q) + (1/4) log(pi m / ...) and the ceiling
    rest = fewer - equation_3(n, q, sigma) - 2.5 * (bits - math.log2(q))
    assert 1 <= rest <= 3.2
