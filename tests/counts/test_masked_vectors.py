"""Parameters of masked vectors: check values, failures by convolution, the reduction."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache, reduce
from itertools import product
from typing import Any

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos.counts import MaskParameters, mask_parameters
from ikos.counts.analyses import checked_scheme
from ikos.counts.masks import (
    ASSUMED_VARIANCE,
    DEVIATION,
    _dropped_variance,
    _tail,
    least_key_modulus,
    least_shift,
    smoothing,
)
from ikos.counts.vectors import least_layout

# Check values: a prototype's, which searched blocks of the keys in steps of four only

KEYS = {
    (10**2, 2048): (11, 24, 5762, 467),
    (10**3, 2048): (12, 20, 4429, 345),
    (10**4, 2048): (14, 20, 3708, 308),
    (10**6, 2048): (17, 16, 3072, 252),
    (10**2, 4096): (11, 24, 11457, 928),
    (10**3, 4096): (12, 20, 8815, 688),
    (10**4, 4096): (14, 20, 7380, 613),
    (10**6, 4096): (17, 20, 5740, 520),
}

MASKED = """\
2 16|2048: 27, 16, 5; 0.03|2048: 43, 32, 5; 0.24|2048: 44, 32, 6; 2.38|4096: 92, 80, 6; 21.53
2 21|2048: 32, 21, 5; 0.03|2048: 53, 42, 5; 0.31|2048: 53, 42, 4; 3.07|4096: 96, 84, 6; 28.15
2 32|2048: 43, 32, 5; 0.05|2048: 43, 32, 5; 0.48|2048: 44, 32, 6; 4.76|4096: 76, 64, 6; 43.76
3 16|2048: 29, 16, 5; 0.03|2048: 45, 32, 5; 0.26|2048: 45, 32, 5; 2.51|4096: 93, 80, 5; 22.03
3 21|2048: 34, 21, 5; 0.04|2048: 34, 21, 5; 0.36|4096: 97, 84, 5; 2.92|4096: 97, 84, 5; 28.78
3 32|2048: 45, 32, 5; 0.05|2048: 45, 32, 5; 0.50|4096: 77, 64, 5; 4.53|4096: 77, 64, 5; 45.01
4 16|2048: 48, 32, 7; 0.03|2048: 46, 32, 4; 0.27|4096: 94, 80, 4; 2.26|4096: 94, 80, 4; 22.53
4 21|2048: 38, 21, 8; 0.04|2048: 35, 21, 4; 0.39|4096: 98, 84, 4; 2.98|4096: 98, 84, 4; 29.41
4 32|2048: 49, 32, 8; 0.05|2048: 46, 32, 4; 0.53|4096: 78, 64, 4; 4.66|4096: 78, 64, 4; 46.26
6 16|2048: 50, 32, 5; 0.03|2048: 50, 32, 5; 0.29|4096: 98, 80, 5; 2.33|4096: 98, 80, 5; 23.28
6 21|2048: 39, 21, 5; 0.04|2048: 39, 21, 5; 0.43|4096: 102, 84, 5; 3.08|4096: 102, 84, 5; 30.34
6 32|2048: 50, 32, 5; 0.06|2048: 50, 32, 5; 0.56|4096: 82, 64, 5; 4.85|4096: 82, 64, 5; 48.14
"""
"""log n and bits of sums; then, for 10^4, 10^5, 10^6 and 10^7 coordinates, N: K, log T, r; MB."""


@pytest.mark.points(0)
@pytest.mark.parametrize("row", MASKED.splitlines())
def test_the_fewest_bytes_are_those_of_the_table(row: str) -> None:
    users, *cells = row.split("|")
    digits, bits = map(int, users.split())
    for exponent, cell in zip((4, 5, 6, 7), cells, strict=True):
        found = mask_parameters(10**digits, 10**exponent, 2 ** (bits - 1) - 1)
        said = (
            f"{found.degree}: {found.modulus_bits}, {found.plaintext_bits}, {found.dropped_bits}; "
            f"{found.masked_bytes / 1e6:.2f}"
        )
        assert said == cell
        assert found.failure <= 2**-40
        assert found.security >= 82


@pytest.mark.points(1)
@pytest.mark.parametrize(("n", "degree"), KEYS)
def test_keys_take_the_blocks_of_the_table_or_better_ones(n: int, degree: int) -> None:
    bits, length, messages, kilobytes = KEYS[n, degree]
    found = mask_parameters(n, 10**4, 2**15 - 1, degree=degree)
    assert found.key_modulus == 2**bits
    scheme = checked_scheme(n, found.key_modulus)
    assert least_layout(scheme, Fraction(80), degree, length).messages_per_user == messages
    layout = found.key_layout()
    assert layout.sigma >= 80
    assert 0.97 * kilobytes < layout.bytes_per_user(48) / 1000 <= kilobytes


# How often a sum is wrong


def gaussian(variance: float, centre: float = 0, reach: int = 60) -> NDArray[np.float64]:
    """Return the law of a discrete Gaussian on -reach..reach."""
    weights = np.exp(-((np.arange(-reach, reach + 1.0) - centre) ** 2) / (2 * variance))
    return np.asarray(weights / weights.sum())


def beyond(laws: list[NDArray[np.float64]], bound: float) -> float:
    """Return P[abs(X) >= bound] for a sum of independent centred variables on integers or halves.

    All terms are positive, so that rounding changes it by a part in 10^12 at most.
    """
    law = reduce(np.convolve, laws)
    return float(law[abs(np.arange(law.size) - (law.size - 1) / 2) >= bound].sum())


@pytest.mark.parametrize("dropped", [0, 3, 6])
def test_wrong_sums_are_as_rare_as_the_bound_says(dropped: int) -> None:
    """All clients' errors, all but one client's dropped bits, and the last one's at their worst."""
    users, dimension = 4, 2048
    modulus = 20 + least_shift(users, dropped, dimension)
    found = MaskParameters(
        users, dimension, 2, 2048, modulus, 20, dropped, 20, 1, least_key_modulus(users, 2048), 1
    )
    errors, bits = gaussian(DEVIATION**2, reach=150), np.full(1 << dropped, 0.5**dropped)
    rooms = 2 ** (found.shift - 1) - (1 << dropped) // 2, found.key_modulus // 2
    wrong = (
        dimension * beyond([errors] * users + [bits] * (users - 1), rooms[0]),
        2048 * beyond([errors] * users, rooms[1]),
    )
    assert sum(wrong) <= found.failure <= 2**-40
    smaller = 2 ** (found.shift - 3) - (1 << dropped) // 2
    if not dropped:  # with two bits less it would be seen
        assert dimension * beyond([errors] * users, smaller) > 1e-3


@pytest.mark.parametrize("dropped", [0, 1, 4])
@pytest.mark.parametrize("bound", [20, 40, 80])
def test_tails_are_bounded_where_they_can_be_seen(dropped: int, bound: int) -> None:
    users = 3
    errors, bits = gaussian(DEVIATION**2, reach=150), np.full(1 << dropped, 0.5**dropped)
    exact = beyond([errors] * users + [bits] * users, bound)
    said = float(_tail(users * (DEVIATION**2 + _dropped_variance(dropped)), 1, bound))
    assert exact <= said
    assert said < 200 * exact


@pytest.mark.parametrize("variance", [0.2, 1, 36])
def test_a_discrete_gaussian_is_sub_gaussian_with_its_parameter(variance: float) -> None:
    k, law = np.arange(-200, 201), gaussian(variance, reach=200)
    for t in (0.01, 0.1, 0.5, 1):
        assert (law * np.exp(t * k)).sum() <= math.exp(t * t * variance / 2) * (1 + 1e-12)


# The splitting


@pytest.mark.parametrize("t", [0, 1, 2, 7])
def test_a_key_given_the_sum_of_two_is_split_as_closely_as_claimed(t: int) -> None:
    """The laws of both sides, multiplied out with 256 bits; what is beyond 110 is below 2^-480."""
    rest = Fraction(DEVIATION**2, 2) - ASSUMED_VARIANCE
    support = range(-110, 111)
    with gmpy2.context(precision=256):

        def law(weight: Any, over: range = support) -> dict[int, mpfr]:
            weights = {k: gmpy2.exp(-mpfr(gmpy2.mpq(weight(k)))) for k in over}
            total = gmpy2.fsum(list(weights.values()))
            return {k: w / total for k, w in weights.items()}

        wanted = law(lambda s: Fraction(s * s + (t - s) ** 2, 2 * DEVIATION**2))
        key = law(lambda z: Fraction(z * z) / (2 * ASSUMED_VARIANCE))
        other = law(lambda v: (v - Fraction(t, 2)) ** 2 / (2 * rest), range(-220, 221))
        distance = gmpy2.fsum(
            [abs(wanted[y] - gmpy2.fsum([key[z] * other[y - z] for z in support])) for y in support]
        )
        bits = float(gmpy2.log2(distance / 2))
    assert bits <= float(gmpy2.log2(smoothing())) < -124.7
    assert bits == pytest.approx(-126.4, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("users", "dimension"), [(2, 5000), (1000, 10**5)])
def test_every_sample_of_a_key_is_split(users: int, dimension: int) -> None:
    """Of all users but one: the key's N coefficients, and those of the errors of L polynomials."""
    found = mask_parameters(users, dimension, 2**20 - 1)
    splits = (users - 1) * (found.degree + found.samples * found.degree)
    bits = -float(gmpy2.log2(splits * smoothing()))
    assert found.security <= bits == pytest.approx(found.security, abs=1e-9)
    assert f"samples per key {found.samples};" in found.row


def test_the_reduction_plays_the_real_game_by_enumeration() -> None:
    """Two users, one sample in Z_4: the whole view (a, c_1, c_2, S, E), from its definition.

    Given Ring-LWE's sample (a, a z + f), the reduction is off by what two splits cost.
    """
    q, reach, s1, s2 = 4, 8, 0.6, 0.6
    variance, s3 = 2 * (s1**2 + s2**2), s1 * s2 / math.hypot(s1, s2)
    eps = 2 * sum(math.exp(-2 * (math.pi * s3 * k) ** 2) for k in range(1, 9))
    d = gaussian(variance, reach=reach)
    shape = q, q, q, 4 * reach + 1, 4 * reach + 1
    real, reduced = np.zeros(shape), np.zeros(shape)

    def place(game: NDArray[Any], a: int, c: list[Any], total: Any, error: Any, p: Any) -> None:
        np.add.at(game, (a, c[0] % q, c[1] % q, total + 2 * reach, error + 2 * reach), p / q)

    k = np.arange(-reach, reach + 1)
    s, s_, e, e_ = np.meshgrid(k, k, k, k, indexing="ij")
    chance = np.einsum("i,j,k,l->ijkl", d, d, d, d)
    t = np.arange(-2 * reach, 2 * reach + 1)
    both = np.convolve(d, d)

    split = np.zeros((t.size, q))
    z_law = gaussian(s1**2, reach=reach)
    for row, centre in zip(split, t / 2, strict=True):
        v_law = gaussian(s2**2, centre, 2 * reach)
        for z, v in product(k, t):
            row[(z + v) % q] += z_law[z + reach] * v_law[v + 2 * reach]
    total, error = np.meshgrid(t, t, indexing="ij")
    for a in range(q):
        place(real, a, [a * s + e, a * s_ + e_], s + s_, e + e_, chance)
        for y, f in product(range(q), repeat=2):
            c, p = a * y + f, np.outer(both * split[:, y], both * split[:, f])
            place(reduced, a, [np.full_like(total, c), a * total + error - c], total, error, p)
    assert real.sum() == pytest.approx(1)
    assert reduced.sum() == pytest.approx(1)
    off = abs(real - reduced).sum() / 2
    assert 1e-3 < off <= 2 * eps / (1 - eps)


# Refusals


@cache
def parameters() -> Any:
    return mask_parameters(100, 5000, 1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min_honest", 1),
        ("min_honest", 101),
        ("degree", 1024),
        ("degree", 8192),
        ("modulus_bits", 54),
        ("modulus_bits", lambda value: value - 1),
        ("dropped_bits", lambda value: value + 1),
        ("deviation", 5),
        ("plaintext_bits", lambda value: value - 1),
        ("samples", lambda value: value + 1),
        ("key_modulus", lambda value: value // 2),
        ("key_modulus", lambda value: value + 1),
    ],
)
def test_what_the_theorem_does_not_cover_is_refused(name: str, value: Any) -> None:
    changed = value(getattr(parameters(), name)) if callable(value) else value
    with pytest.raises(ValueError, match="modulus_bits|" + name):
        replace(parameters(), **{name: changed})


@pytest.mark.parametrize(
    ("largest", "degree", "message"),
    [
        (2**42, 2048, "below 2\\^53, got sums of 44 bits: N = 4096 would fit"),
        (2**100, None, "below 2\\^106, got sums of 102 bits: N = 8192 would fit"),
        (2**300, None, "N = None would fit"),
    ],
)
def test_sums_that_do_not_fit_are_refused(largest: int, degree: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mask_parameters(100, 1000, largest, degree=degree)


@pytest.mark.slow
def test_digits_hold_every_sum_up_to_the_largest() -> None:
    assert mask_parameters(100, 10, 2**15 - 1).digit_bits == 16
    assert mask_parameters(100, 10, 2**15).digit_bits == 17
