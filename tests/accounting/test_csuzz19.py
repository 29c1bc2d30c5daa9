"""The published analysis: consistent with itself, and sound by the exact law."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ikos.accounting.binary_response import (
    binary_response_delta,
    binary_response_gamma,
    composed_gamma,
    published_gamma,
    published_lambda,
)
from ikos.accounting.blanket import local_gamma
from ikos.accounting.composition import advanced_composition


def published_epsilon(noise: float, delta: float, n: int) -> float:
    """Return the epsilon that CSUZZ19 prove for ``noise`` random answers on average."""
    s = noise - math.sqrt(2 * noise * math.log(2 / delta))
    return math.sqrt(32 * math.log(4 / delta) / s) * (1 - s / n) * (1 + 1e-12)


def test_the_branches_meet_at_a_third() -> None:
    n, delta = 10**5, 1e-10
    border = math.sqrt(192 * math.log(4 / delta) / n)
    for epsilon in (border * (1 - 1e-9), border * (1 + 1e-9)):
        assert published_lambda(epsilon, delta, n) == pytest.approx(n / 3, rel=1e-6)


@given(st.floats(1e-3, 1), st.floats(1e-15, 0.5), st.integers(10, 10**9))
def test_lambda_follows_from_the_theorem_under_its_conditions(epsilon, delta, n):
    least = math.sqrt(3456) * math.log(4 / delta) / n
    if epsilon < least * 0.999:
        with pytest.raises(ValueError, match="epsilon must be at least") as refused:
            published_lambda(epsilon, delta, n)
        named = float(str(refused.value).split(" = ")[1].split()[0])
        if named <= 1:  # what is named is accepted
            assert published_lambda(named, delta, n) <= n
        return
    assume(epsilon > least * 1.001)
    noise = published_lambda(epsilon, delta, n)
    assert 14 * math.log(4 / delta) <= noise <= n
    assert published_epsilon(noise, delta, n) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(
    ("n", "epsilon", "delta", "ratio"),
    [
        (10**4, 1, 1e-8, 13.0),
        (10**4, 0.5, 1e-8, 17.7),
        (10**4, 0.16, 1e-10, 4.43),
        (10**5, 1, 1e-10, 12.0),
        (10**6, 0.1, 1e-12, 23.2),
    ],
)
def test_sound_and_how_much_too_large(n: int, epsilon: float, delta: float, ratio: float) -> None:
    published = published_gamma(epsilon, delta, n)
    assert binary_response_delta(epsilon, n, published) <= delta
    exact = binary_response_gamma(epsilon, delta, n)
    assert float(published / exact) == pytest.approx(ratio, rel=0.02)


@given(st.integers(100, 5000), st.floats(1e-10, 0.3), st.floats(0, 1))
def test_the_theorem_is_sound(n: int, delta: float, part: float) -> None:
    least = 14 * math.log(4 / delta) * 1.001
    assume(least < n)
    noise = least + part * (n - least)
    epsilon = published_epsilon(noise, delta, n)
    assert binary_response_delta(epsilon, n, min(Fraction(1), Fraction(noise) / n)) <= delta


@pytest.mark.points(2)
@pytest.mark.parametrize("bits", [1, 2, 7, 60])
def test_composition_stays_within_the_budget(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Fraction, Fraction]] = []

    def single(epsilon: Fraction, delta: Fraction, n: int) -> Fraction:
        asked.append((epsilon, delta))
        return binary_response_gamma(epsilon, delta, n)

    monkeypatch.setattr("ikos.accounting.binary_response.binary_response_gamma", single)
    gamma = composed_gamma(1, 1e-6, 2000, bits)
    [budget] = asked
    together = [budget] * bits
    basic = budget[0] * bits, budget[1] * bits
    advanced = advanced_composition(together, Fraction(1e-6) / 2)
    rounded = 1 + 1e-13
    assert any(e <= rounded and d <= 1e-6 * rounded for e, d in (basic, advanced))
    # one shuffler hides more than its bits one by one
    exact = binary_response_gamma(1, 1e-6, 2000, bits=bits)
    assert exact <= gamma <= local_gamma(Fraction(1, bits), 2)
    assert binary_response_delta(1, 2000, gamma, bits=bits) <= 1e-6


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: published_lambda(1.01, 1e-8, 10**4), "epsilon must be at most 1, got 1.01"),
        (lambda: published_lambda(0.5, 0, 10**4), "delta must be greater than 0"),
        (lambda: published_lambda(0.5, 1e-8, 100), "epsilon must be at least"),
        (lambda: composed_gamma(1, 1e-8, 10**4, 100, accountant="csuzz19"), "epsilon must be at"),
        (lambda: composed_gamma(1, 1e-8, 10**4, 0), "bits must be at least 1"),
    ],
)
def test_outside_the_conditions_is_refused(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
