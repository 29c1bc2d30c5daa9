"""Certificates are checked by other means: ball arithmetic and rationals, from the formulas."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from counts.moments import SETTINGS, flint, precisely, recursion
from counts.test_private import difference, mean_jumps, theorem
from hypothesis import given
from hypothesis import strategies as st

from ikos import security_level
from ikos.counts import private_proved
from ikos.counts.certificate import (
    Certificate,
    Dyadic,
    PrivateCertificate,
    certify,
    certify_private,
)


def value(number: Dyadic) -> Any:
    """The exact number, as a ball of radius zero."""
    assert number.mantissa is not None
    return flint.arb(number.mantissa) * flint.arb(2) ** number.exponent


def check(found: Certificate) -> None:
    """Assert that a certificate proves what it says, without the library."""
    if found.method == "one user":
        assert found.n == 1
        assert found.divergence.mantissa == 0
        assert found.sigma == math.inf
        return
    if found.divergence.mantissa is None:
        assert found.sigma == 0
        return
    with precisely():
        true = recursion(found.n, found.q, found.m, found.shuffler, found.clear_share)
        upper = value(found.divergence)
        assert not upper < true.divergence[found.n]
        assert found.sigma == 0 or not found.sigma > (1 - upper.log() / flint.arb(2).log()) / 2
        if found.sigma >= 10:
            assert upper < true.divergence[found.n] * (1 + flint.arb(10) ** -6)


def check_private(found: PrivateCertificate) -> None:
    with precisely():
        epsilon, eps0 = (
            flint.arb(flint.fmpq(x.numerator, x.denominator))
            for x in (found.epsilon, Fraction(found.noise_epsilon))
        )
        c = value(found.relative)
        assert not eps0 + 2 * (1 + c).log() > epsilon
        true = recursion(found.n, found.q, found.m, found.shuffler, found.clear_share)
        assert not value(found.excess) < true.excess[found.n]
        if found.clear_share:
            rate = Fraction(found.noise_epsilon) / found.precision
            of_a = difference(true, found.n, mean_jumps(rate))
            assert not value(found.difference) < of_a * (1 - flint.arb(2) ** -200)
        stated = theorem(value(found.difference), value(found.excess), found.noise_epsilon, c)
        assert found.delta == 1 or not found.delta < stated


@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
@pytest.mark.parametrize(
    ("n", "q", "m"),
    [(1, 5, 1), (3, 7, 9), (60, 2**40 + 1, 20)],
)
def test_levels_are_verified_independently(
    n: int, q: int, m: int, shuffler: str, clear: bool
) -> None:
    found = certify(n, q, m, shuffler=shuffler, clear_share=clear)
    check(found)
    assert found.sigma == security_level(n, q, m, shuffler=shuffler, clear_share=clear)


@given(
    n=st.integers(1, 40),
    q=st.integers(2, 2**80),
    m=st.integers(1, 30),
    setting=st.sampled_from(SETTINGS),
)
def test_any_certificate_is_verified(n: int, q: int, m: int, setting: tuple[str, bool]) -> None:
    if not setting[1] and m == 1:
        assert certify(n, q, m, shuffler=setting[0], clear_share=False).sigma in (0, math.inf)
        return
    check(certify(n, q, m, shuffler=setting[0], clear_share=setting[1]))


@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
@pytest.mark.parametrize(("n", "m", "delta"), [(20, 9, 1e-6), (100, 6, 1e-4), (150, 8, 1e-10)])
def test_deltas_are_verified_independently(
    n: int, m: int, delta: float, shuffler: str, clear: bool
) -> None:
    given_ = (n, 2**14, m, 1, delta, 10)
    found = certify_private(*given_, shuffler=shuffler, clear_share=clear)
    check_private(found)
    count = private_proved(*given_, shuffler=shuffler, clear_share=clear)
    assert (count.delta, count.noise_epsilon) == (found.delta, found.noise_epsilon)


def smaller(number: Dyadic) -> Dyadic:
    """A number a millionth below."""
    assert number.mantissa is not None
    return Dyadic(number.mantissa * (10**6 - 1), number.exponent - 20)


@pytest.mark.parametrize(
    "forge",
    [
        lambda c: replace(c, divergence=smaller(c.divergence)),
        lambda c: replace(c, sigma=c.sigma + 1e-9),
        lambda c: replace(c, m=c.m - 1),
        lambda c: replace(c, q=2 * c.q),
        lambda c: replace(c, clear_share=False),
    ],
)
def test_forged_certificates_fail(forge: Any) -> None:
    with pytest.raises(AssertionError):
        check(forge(certify(50, 2**40, 20)))


@pytest.mark.parametrize(
    "forge",
    [
        lambda c: replace(c, difference=smaller(c.difference)),
        lambda c: replace(c, excess=smaller(c.excess)),
        lambda c: replace(c, delta=c.delta * (1 - 1e-6)),
        lambda c: replace(c, noise_epsilon=c.noise_epsilon * (1 + 1e-9)),
        lambda c: replace(c, precision=c.precision + 1),
        lambda c: replace(c, m=c.m - 1),
    ],
)
def test_forged_private_certificates_fail(forge: Any) -> None:
    with pytest.raises(AssertionError):
        check_private(forge(certify_private(100, 2**14, 6, 1, 1e-5, 10)))


def test_printed_forms() -> None:
    assert str(Dyadic(3, -5)) == "2^-3.4150"  # of -3.41503...
    assert str(Dyadic(3, -6)) == "2^-4.4150"
    assert str(Dyadic(5, -5)) == "2^-2.6780"  # of -2.67807..., to the nearest 2^-2.6781
    assert str(Dyadic(1 << 200, -230)) == "2^-30.0000"
    assert str(Dyadic((1 << 200) + 1, -230)) == "2^-29.9999"
    assert str(Dyadic(None, 0)) == "2^inf"
    assert str(Dyadic(0, 0)) == "2^-inf"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((2, 2, 1.0), TypeError, "m must be .* 1.0"),
        ((2, 2, 10**9), ValueError, "m must be"),
    ],
)
def test_bad_arguments(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        certify(*arguments)
