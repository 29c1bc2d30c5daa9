"""The least delta of private sums: values of another implementation, below what is proved."""

from __future__ import annotations

from fractions import Fraction

import pytest
from gmpy2 import mpfr

from ikos import private_message_count
from ikos.counts import (
    necessary_private,
    necessary_private_messages,
    private_delta,
    private_delta_interval,
)
from ikos.counts.necessary_private import delta


@pytest.mark.parametrize(
    ("n", "precision", "bits", "m", "reserve", "moments", "normal"),
    [
        (10**2, 10, 11, 2, "1/100", 0.0339078, 0),
        (10**2, 10, 11, 3, "0", 0.00420881, 0),
        (10**3, 32, 16, 2, "1/100", 0.0423361, 0.0260367),
        (10**3, 32, 16, 3, "1/100", 0, 1.93029e-5),
        (10**3, 32, 16, 3, "0", 0.00153048, 0.00168498),
        (10**4, 100, 21, 2, "1/100", 0.0238876, 0.0259998),
        (10**4, 100, 21, 3, "1/100", 0, 0),
        (10**6, 1000, 31, 2, "1/100", 0.00431655, 0.00938631),
        (10**8, 10**4, 41, 2, "1/100", 0, 0.00195573),
        (10**8, 10**4, 41, 3, "0", 3.02712e-7, 4.17949e-7),
    ],
)
def test_values_of_another_implementation(
    n: int, precision: int, bits: int, m: int, reserve: str, moments: float, normal: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    left = 1 - Fraction(reserve)

    def found() -> float:
        return float(f"{float(delta(n, 2**bits, m, precision, Fraction(1), left)):.6g}")

    assert found() == max(moments, normal)
    with monkeypatch.context() as only:
        only.setattr(necessary_private, "_normal", lambda *_: mpfr(-1))
        assert found() == moments
    monkeypatch.setattr(necessary_private, "_by_moments", lambda *_: mpfr(-1))
    assert found() == normal


@pytest.mark.points(1)
@pytest.mark.parametrize(("n", "precision", "bits"), [(100, 10, 11), (1000, 32, 16), (30, 6, 9)])
@pytest.mark.parametrize("reserve", [Fraction(1, 100), Fraction(1, 10)])
def test_below_what_is_proved_to_be_enough(n, precision, bits, reserve):
    for m in (2, 3, 4):
        least = delta(n, 2**bits, m, precision, Fraction(1), 1 - reserve)
        assert least <= private_delta(n, 2**bits, m, 1, precision, reserve=reserve)


def test_nothing_is_claimed_outside_of_the_theorem() -> None:
    one = Fraction(1)
    for n, q, m, precision in ((2, 64, 3, 4), (10, 64, 1, 4), (10, 64, 3, 17), (10, 8, 3, 4)):
        assert delta(n, q, m, precision, one, one) == 0
    assert delta(1000, 2**16, 3, 32, one, Fraction(11, 10)) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "precision", "bits", "least", "counts"),
    [
        (10**2, 10, 11, 1e-8, 3), (10**3, 32, 16, 1.9e-5, 4), (10**3, 32, 16, 1.94e-5, 3),
        (10**4, 100, 21, 1e-8, 3), (10**6, 1000, 31, 1e-12, 3), (10**6, 1000, 31, 0.01, 1),
    ],
)  # fmt: skip
def test_necessary_counts(n: int, precision: int, bits: int, least: float, counts: int) -> None:
    asked = (n, 2**bits, 1, least, precision)
    assert necessary_private_messages(*asked) == counts
    assert private_message_count(*asked).shuffled >= counts
    assert necessary_private_messages(*asked, corrupt_shufflers=2) == counts + 2
    # a larger reserve may buy fewer messages, and so fewer are necessary
    assert necessary_private_messages(*asked, reserve=0.5) <= counts


def test_fewer_honest_users_need_no_fewer() -> None:
    asked = (10**4, 2**16, 1, 1e-6, 32)
    found = necessary_private_messages(*asked, min_honest=1000)
    assert found == necessary_private_messages(1000, *asked[1:]) == 4


@pytest.mark.points(0)
def test_intervals_of_delta() -> None:
    low, high = private_delta_interval(1000, 2**16, 3, 1, 32)
    assert low == pytest.approx(1.93029e-5, rel=1e-5)
    assert high == private_delta(1000, 2**16, 3, 1, 32)
    # what holds of more messages holds of fewer
    assert private_delta_interval(1000, 2**16, 1, 1, 32)[0] == pytest.approx(0.0423361, rel=1e-5)
    assert private_delta_interval(1000, 2**16, 5, 1, 32)[0] == 0
