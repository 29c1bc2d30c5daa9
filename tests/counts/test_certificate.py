"""Certificates are checked by other means: ball arithmetic and rationals, from the formulas."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from counts.direct import NoiseBalls, ball, evaluate
from counts.moments import SETTINGS, flint, precisely, recursion
from counts.test_private import difference, mean_jumps, theorem
from hypothesis import given
from hypothesis import strategies as st

from ikos import security_level
from ikos.counts import private_proved
from ikos.counts.certificate import (
    Certificate,
    DirectCertificate,
    Dyadic,
    GivenSumCertificate,
    MomentCertificate,
    NecessaryCertificate,
    PrivateCertificate,
    certify,
    certify_necessary,
    certify_private,
)
from ikos.counts.tuple_moments import tuple_moments


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
@pytest.mark.parametrize(("n", "q", "m"), [(1, 5, 1), (3, 7, 9), (60, 2**40 + 1, 20)])
def test_levels_are_verified_independently(n, q, m, shuffler, clear):
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
def test_deltas_are_verified_independently(n, m, delta, shuffler, clear):
    given_ = (n, 2**14, m, 1, delta, 10)
    how = {"analysis": "second_moment", "shuffler": shuffler, "clear_share": clear}
    found = certify_private(*given_, **how)
    assert isinstance(found, PrivateCertificate)
    check_private(found)
    count = private_proved(*given_, analysis="second_moment", shuffler=shuffler, clear_share=clear)
    assert (count.delta, count.noise_epsilon) == (found.delta, found.noise_epsilon)


def check_given_sum(found: GivenSumCertificate) -> None:
    check(found)
    assert found.noise_epsilon <= found.epsilon
    assert not found.delta < flint.arb(2) ** -flint.arb(found.sigma)


@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
def test_deltas_given_the_sum_are_verified_independently(shuffler, clear):
    given_ = (30, 2**14, 12, 100, 1e-6, 10)
    how = {"shuffler": shuffler, "clear_share": clear}
    found = certify_private(*given_, **how)
    assert isinstance(found, GivenSumCertificate)
    check_given_sum(found)
    count = private_proved(*given_, **how)
    assert (count.delta, count.noise_epsilon) == (found.delta, found.noise_epsilon)


def smaller(number: Dyadic) -> Dyadic:
    """A number a millionth below."""
    assert number.mantissa is not None
    return Dyadic(number.mantissa * (10**6 - 1), number.exponent - 20)


def check_moments(found: MomentCertificate) -> None:
    """Assert what follows from the moments and remainders that are stated, as in the theorem."""
    at = found.parameters
    with precisely():
        n, d, k, c = found.n, at.d, found.blurred, value(found.relative)
        epsilon, eps0 = (
            flint.arb(flint.fmpq(x.numerator, x.denominator))
            for x in (found.epsilon, Fraction(found.noise_epsilon))
        )
        assert not eps0 + 2 * (1 + c).log() > epsilon
        h1, h2, part, share, pairs = (
            flint.arb(x) for x in (at.h1, at.h2, at.part, at.share, at.pairs)
        )
        x = h2.sqrt()
        curve = -(1 - x).log() - x
        main = (-h1).exp() - h1 ** (d + 1) / math.factorial(d + 1) - h1.exp() * curve.expm1()
        main -= flint.arb(d * k) / (n - 1) * (h1 + curve).expm1()
        assert not value(found.main) > main
        jumps = mean_jumps(Fraction(found.noise_epsilon) / found.precision)
        beta = flint.arb(0)
        for j in range(400):  # of Poisson jumps
            beta += (-jumps).exp() * jumps**j / math.factorial(j) * (2 * j + k) ** at.K
        assert not value(found.spread) < beta / (n - 1) ** at.K
        c1, room = part * c, c * (1 - part) * value(found.main)
        y, z, r = share * room, pairs * room, (1 - share - pairs) * room
        K, most = at.K, max(at.h1, math.sqrt(at.h2))
        first = (1 + c) ** K * value(found.spread) * value(found.first) / y ** (K - 1)
        first *= flint.arb((K - 1) ** (K - 1)) / K**K
        square = (1 + c) * value(found.difference).sqrt() + c * value(found.reference).sqrt()
        bad = value(found.tall) / h1**at.K1 + value(found.wide) / h2**at.l
        bad += value(found.own) * ((1 + c) / c1) ** at.K3
        front = (c1 + c) * sum(flint.arb(most) ** j for j in range(d + 1))
        if at.pairs:
            L, shift = at.K2, k + c * (n - 1) / (2 * (1 + c))
            widened = flint.arb(0)
            for j in range(400):
                poisson = (-jumps).exp() * jumps**j / math.factorial(j)
                widened += poisson * (2 * j + shift) ** L
            loss = (flint.arb(n) / (n - 1)) ** (found.m * L)
            pair = tuple_moments(n, found.q, found.m).total[2 * L]
            least = widened / (n - 1) ** L * (1 + c) ** L * loss * value(Dyadic.of(pair))
            assert not value(found.paired) < least * (1 - flint.arb(2) ** -50)
            first += flint.arb((L - 1) ** (L - 1)) / L**L * value(found.paired) / z ** (L - 1)
        eta = first + square**2 / (4 * r) + (front + c * value(found.main)) * bad
        assert not value(found.eta) < eta * (1 - flint.arb(2) ** -50)
        stated = value(found.eta) * (1 + (1 + c) * eps0.exp())
        assert found.delta == 1 or not found.delta < stated


def check_direct(found: DirectCertificate) -> None:
    """Assert every number, and the delta that follows from them, as in the theorem."""
    at, sizes = found.parameters, (found.n, found.q, found.m)
    moments = tuple_moments(*sizes)
    with precisely():
        c, eps0 = value(found.relative), ball(Fraction(found.noise_epsilon))
        assert not eps0 + (1 + c).log() > ball(found.epsilon)
        rate = Fraction(found.noise_epsilon) / found.precision
        noise = NoiseBalls.of(found.q, rate, found.precision)
        true = evaluate(*sizes, noise, c, at)
        assert not value(found.main) > true.main
        true = evaluate(*sizes, noise, c, at, value(found.main))
        for name in ("remainder", "user", "single", "paired", "proved"):
            assert not value(getattr(found, name)) < getattr(true, name), name
        assert not value(found.tall) < ball(moments.total[at.K1])
        assert not value(found.wide) < ball(moments.squares[at.l])
        assert not value(found.fourth) < ball(moments.single[at.K4]) * (found.n - 1) ** (at.K4 // 4)
        assert not value(found.own) < true.own
        assert found.delta == 1 or not found.delta < value(found.proved)


@pytest.mark.parametrize(
    ("n", "q", "m", "precision", "delta"),
    [(10**4, 2**21, 3, 100, 1e-5), (10**5, 2**26, 3, 317, 1e-10), (100, 2**14, 5, 32, 1e-3)],
)
def test_direct_comparisons_are_verified_independently(n, q, m, precision, delta):
    found = certify_private(n, q, m, 1, delta, precision, analysis="direct_comparison")
    assert isinstance(found, DirectCertificate)
    check_direct(found)
    count = private_proved(n, q, m, 1, delta, precision, analysis="direct_comparison")
    assert (count.delta, count.noise_epsilon) == (found.delta, found.noise_epsilon)


@pytest.mark.parametrize(("n", "q", "m"), [(1000, 2**16, 4), (10**6, 2**31, 3), (100, 2**14, 7)])
def test_moments_are_verified_independently(n: int, q: int, m: int) -> None:
    found = certify_private(n, q, m, 1, 1e-6, 32)
    assert isinstance(found, MomentCertificate)
    check_moments(found)
    count = private_proved(n, q, m, 1, 1e-6, 32)
    assert (count.delta, count.noise_epsilon) == (found.delta, found.noise_epsilon)


def larger(number: Dyadic) -> Dyadic:
    """A number a tenth above."""
    assert number.mantissa is not None
    return Dyadic(11 * number.mantissa << 60, number.exponent - 60 - 3)


def check_necessary(found: NecessaryCertificate) -> None:
    """Assert what follows from the rest that is stated, and that the rest is enough."""
    with precisely():
        users = sum(count for _, count in found.difference)
        assert sum(entry * count for entry, count in found.difference) % found.q == 0
        second = 2 * flint.arb(found.q) * users / flint.arb(found.n) ** found.m
        assert not value(found.second) > second
        mean = (value(found.second) ** 3 / value(found.fourth)).sqrt()
        if found.method == "hoelder":
            assert not value(found.mean) > mean
        else:
            assert not value(found.mean) > (2 / flint.arb.pi() * second).sqrt()
        total = (value(found.mean) - (2 * value(found.rest)).sqrt()) / 2
        assert not value(found.total_variation) > total
        assert not found.sigma < -value(found.total_variation).log() / flint.arb(2).log()
        true = recursion(found.n, found.q, found.m, found.shuffler, found.clear_share)
        if users == found.n:
            assert not value(found.rest) < (true.divergence[found.n] - second / 2)


@pytest.mark.parametrize(("n", "q", "m"), [(10, 2**64, 68), (100, 2**64, 34), (60, 3, 9)])
def test_necessary_counts_are_verified_independently(n: int, q: int, m: int) -> None:
    found = certify_necessary(n, q, m)
    check_necessary(found)
    assert security_level(n, q, m) <= found.sigma


FORGED: list[tuple[Any, Any, dict[str, Any]]] = [  # a check, a certificate, and what is put in it
    (check, lambda: certify(50, 2**40, 20), {
        "divergence": smaller, "sigma": lambda bits: bits + 1e-9, "m": lambda m: m - 1,
        "q": lambda q: 2 * q, "clear_share": lambda clear: not clear,
    }),
    (check_private, lambda: certify_private(100, 2**14, 6, 1, 1e-5, 10, analysis="second_moment"), {
        "difference": smaller, "excess": smaller, "delta": lambda delta: delta * (1 - 1e-6),
        "noise_epsilon": lambda e: e * (1 + 1e-9), "precision": lambda p: p + 1,
        "m": lambda m: m - 1,
    }),
    (check_given_sum, lambda: certify_private(30, 2**14, 12, 100, 1e-6, 10), {
        "divergence": smaller, "delta": lambda delta: delta * (1 - 1e-6),
        "noise_epsilon": lambda e: e + 1, "m": lambda m: m - 1,
    }),
    (check_moments, lambda: certify_private(10**6, 2**31, 3, 1, 1e-12, 1000), {
        "eta": smaller, "delta": lambda delta: delta * (1 - 1e-6), "wide": larger, "tall": larger,
        "own": larger, "paired": smaller, "main": larger, "noise_epsilon": lambda e: e * (1 + 1e-4),
    }),
    (check_direct, lambda: certify_private(10**5, 2**26, 3, 1, 1e-10, 317), {
        "proved": smaller, "delta": lambda delta: delta * (1 - 1e-6), "remainder": smaller,
        "user": smaller, "single": smaller, "paired": smaller, "tall": smaller, "wide": smaller,
        "fourth": smaller, "main": larger, "noise_epsilon": lambda e: e * (1 + 1e-4),
    }),
    (check_necessary, lambda: certify_necessary(60, 3, 9), {
        "total_variation": larger, "second": larger, "rest": larger,
        "sigma": lambda bits: bits * (1 - 1e-6),
    }),
]  # fmt: skip


@pytest.mark.points(len(FORGED))
@pytest.mark.parametrize(("checked", "made", "changes"), FORGED, ids=range(len(FORGED)))
def test_forged_certificates_fail(checked: Any, made: Any, changes: dict[str, Any]) -> None:
    found = made()
    for name, change in changes.items():
        with pytest.raises(AssertionError):
            checked(replace(found, **{name: change(getattr(found, name))}))


def test_what_no_theorem_speaks_of_has_no_certificate() -> None:
    with pytest.raises(ValueError, match=r"^m must "):
        certify_necessary(1000, 2**64, 3)
    with pytest.raises(ValueError, match=r"^m must "):
        certify_private(1000, 2**64, 2, 1, 1e-6, 32, analysis="higher_moments")


def test_printed_forms() -> None:
    assert str(Dyadic(3, -5)) == "2^-3.4150"  # of -3.41503...
    assert str(Dyadic(3, -6)) == "2^-4.4150"
    assert str(Dyadic(5, -5)) == "2^-2.6780"  # of -2.67807..., to the nearest 2^-2.6781
    assert str(Dyadic(1 << 200, -230)) == "2^-30.0000"
    assert str(Dyadic((1 << 200) + 1, -230)) == "2^-29.9999"
    assert str(Dyadic(None, 0)) == "2^inf"
    assert str(Dyadic(0, 0)) == "2^-inf"
