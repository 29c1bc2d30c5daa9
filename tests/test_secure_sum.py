"""SecureSum: exact sums, parameters, and what the analyzer refuses."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos import SecureSum, View, message_count, security_level
from ikos.counts import remaining
from ikos.results.guarantees import SecureGuarantee
from ikos.testing import DeterministicRandom

SETTINGS = list(itertools.product(("parallel", "single"), (True, False)))


@given(n=st.integers(1, 40), upper=st.integers(1, 2**80), data=st.data())
def test_sums_of_values_up_to_upper_never_wrap(n: int, upper: int, data: st.DataObject) -> None:
    protocol = SecureSum(n, upper=upper, messages=2)
    assert protocol.q // 2 <= n * upper < protocol.q
    assert protocol.q & (protocol.q - 1) == 0
    assert protocol.run([upper] * n) == n * upper
    x = data.draw(st.lists(st.integers(0, upper), min_size=n, max_size=n))
    assert protocol.run(x) == sum(x)
    assert SecureSum(n, n * upper + 1, upper=upper, messages=2).run([upper] * n) == n * upper
    if n * upper > 1:
        with pytest.raises(ValueError, match=r"^q must be above n \* upper"):
            SecureSum(n, n * upper, upper=upper)


def test_values_above_upper_are_refused() -> None:
    protocol = SecureSum(3, upper=2**15, messages=2)
    for run in (protocol.run, protocol.share):
        for x in ([1, 2**15 + 1, 2], (1, 2**15 + 1, 2), [1, Fraction(2**15 + 1), 2]):
            for values in (x, np.array(x), np.array(x, dtype=object)):
                with pytest.raises(ValueError, match=r"^x\[1\] .*upper = 32768"):
                    run(values)
        with pytest.raises(ValueError, match=r"^x\[2\] "):
            run([0, 1, -1])
    with pytest.raises(ValueError, match=r"^x\[0\] "):
        protocol.report(2**15 + 1)
    with pytest.raises(ValueError, match=r"^x\[2\] "):
        protocol.run(iter([np.array([0, 1]), np.array([2**16])]))
    assert protocol.run([2**15, 2**15, 1]) == 2**16 + 1
    assert SecureSum(2, upper=2**64 - 1, messages=2).run([2**64 - 1, 1]) == 2**64
    with pytest.raises(ValueError, match=r"^upper must be at least 1"):
        SecureSum(3, upper=0)
    with pytest.raises(TypeError, match=r"^upper "):
        SecureSum(3)


def test_the_group_is_one_that_the_analysis_covers() -> None:
    how: dict[str, Any] = {"shuffler": "single", "clear_share": False}
    protocol = SecureSum(1000, upper=100, analysis="ghazi2020", **how)
    assert protocol.q == 100_003
    assert protocol.guarantee.proved


def test_sums_modulo_q_say_so_and_others_are_other_protocols() -> None:
    modulo, plain = SecureSum(3, 2**10), SecureSum(3, 2**10, upper=300)
    assert "sum modulo q, q=1024" in str(modulo)
    assert "upper=300" in str(plain)
    assert "upper=300" in repr(plain)
    assert len({p.parameter_hash for p in (modulo, plain, SecureSum(3, 2**10, upper=301))}) == 3


def test_counts_are_the_smallest_proved() -> None:
    protocol = SecureSum(1000, 2**64, sigma=80)
    assert protocol.messages == message_count(1000, 2**64, 80)
    assert protocol.messages.total == 25
    published = SecureSum(1000, 2**64, sigma=80, analysis="balle2020")
    assert published.messages == message_count(1000, 2**64, 80, analysis="balle2020")
    assert published.messages.total == 29


def test_min_honest_counts_for_fewer() -> None:
    protocol = SecureSum(10**6, 2**64, min_honest=1000)
    assert protocol.messages == message_count(1000, 2**64, 80)
    assert "min_honest=1000" in repr(protocol)


def test_levels_hold_for_every_number_of_honest_users() -> None:
    # ishai2006 proves less for more users: the level for min_honest alone would be overstated.
    single: dict[str, Any] = {"shuffler": "single", "clear_share": False}
    for analysis in ("ishai2006", "second_moment"):
        protocol = SecureSum(10**6, 2**16, min_honest=2, analysis=analysis, **single)
        m = protocol.messages.shuffled
        for n in (2, 3, 1000, 10**6):
            level = security_level(n, 2**16, m, analysis=analysis, **single)
            assert level >= protocol.messages.sigma >= 80
        given = SecureSum(10**6, 2**16, min_honest=2, messages=m, analysis=analysis, **single)
        assert given.messages == protocol.messages


def test_each_corrupt_shuffler_costs_one_message() -> None:
    honest = SecureSum(1000, 2**64)
    protocol = SecureSum(1000, 2**64, corrupt_shufflers=3)
    assert protocol.messages.total == honest.messages.total + 3
    assert protocol.messages.sigma == honest.messages.sigma
    with pytest.raises(ValueError, match="corrupt_shufflers must be 0 with a single shuffler"):
        SecureSum(1000, 2**64, shuffler="single", corrupt_shufflers=1)


def test_given_messages_state_what_is_proved() -> None:
    assert SecureSum(1000, 2**64, messages=29).messages.sigma == security_level(1000, 2**64, 28)
    weaker = SecureSum(1000, 2**64, messages=29, corrupt_shufflers=2)
    assert weaker.messages.total == 29
    assert weaker.messages.sigma == security_level(1000, 2**64, 26)
    for analysis in ("second_moment", "balle2020"):
        for few in (1, 2, 3):
            protocol = SecureSum(1000, 2**64, messages=few, analysis=analysis)
            assert protocol.messages.total == few
            assert protocol.messages.sigma == 0.0
            assert "nothing is proved" in repr(protocol)


def test_a_setting_without_theorem_needs_messages() -> None:
    with pytest.raises(ValueError, match="n >= 19"):
        SecureSum(10, 2**16, analysis="balle2020")
    without = SecureSum(10, 2**16, messages=5, analysis="balle2020")
    assert without.run(range(10)) == 45
    assert without.messages.analysis is None


@pytest.mark.parametrize(("shuffler", "clear_share"), SETTINGS)
def test_the_default_covers_every_setting_and_number_of_users(shuffler, clear_share):
    for n in (1, 2, 10):
        protocol = SecureSum(n, 2**16, shuffler=shuffler, clear_share=clear_share)
        assert protocol.messages.sigma >= 80
        assert protocol.messages.analysis == "second_moment"
        assert protocol.run(range(n)) == n * (n - 1) // 2


@pytest.mark.parametrize(
    ("x", "error", "said"),
    [
        ([1, 2], ValueError, "x must hold one value for each of the n = 3 users, got 2"),
        ([1, 2, 3, 4], ValueError, "x must hold one value for each of the n = 3 users, got 4"),
        ([], ValueError, "got 0"),
        ([1, 2, 10], ValueError, r"x\[2\] must be in \[0, q\) for q = 10$"),
        ([1, -1, 2], ValueError, r"x\[1\] must be in"),
        ([1, 2.0, 2], TypeError, r"x\[1\] must be an integer, got float$"),
        (np.array([1.0, 2, 3]), TypeError, "x must hold integers, got an array of float64"),
        ([[1], [2], [3]], ValueError, "one-dimensional"),
        (iter([1, 2, 3]), ValueError, r"shape \(\): .* \(an iterator yields arrays of them\)$"),
        (np.ma.array([1, 2, 3], mask=[0, 1, 0]), ValueError, "x must not hold masked values"),
        (None, TypeError, "x must hold integers|must be an integer"),
        ("123", TypeError, "x must hold integers"),
    ],
)
def test_bad_values_are_refused(x: Any, error: type[Exception], said: str) -> None:
    protocol = SecureSum(3, 10, messages=3)
    for call in (protocol.run, protocol.share):
        with pytest.raises(error, match=said):
            call(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_who_gives_doubles_is_told_what_to_give(dtype: Any) -> None:
    """What a table's column yields are doubles; whether they are whole, its reader must say."""
    x, protocol = np.array([1, 2, 3], dtype=dtype), SecureSum(3, 10, messages=3)
    advice = r"float\d\d; if all are whole, give x\.astype\(np\.int64\) or read with integers=True$"
    for call in (protocol.run, protocol.share, lambda x: protocol.run(iter([x]))):
        with pytest.raises(TypeError, match=advice):
            call(x)
    assert protocol.run(x.astype(np.int64)) == 6
    assert protocol.run(x > 1) == 2


def view_of(protocol: SecureSum) -> View:
    return protocol.shuffle(protocol.share(range(protocol.n), DeterministicRandom(1)))


@pytest.mark.parametrize(("shuffler", "clear_share"), SETTINGS)
def test_the_analyzer_refuses_incomplete_reports(shuffler: str, clear_share: bool) -> None:
    protocol = SecureSum(5, 2**30 - 35, messages=4, shuffler=shuffler, clear_share=clear_share)
    view = view_of(protocol)
    columns, clear = view.columns, view.clear
    broken = [
        View((columns[0][:-1], *columns[1:]), clear),  # a share missing
        View((np.append(columns[0], columns[0][:1]), *columns[1:]), clear),  # one in excess
        View(columns[1:], clear),  # a shuffler missing
        View((*columns, columns[0]), clear),  # a shuffler twice
        View(columns, None if clear_share else columns[0]),
        View(tuple(c[:-4] if shuffler == "single" else c[:-1] for c in columns), clear),
        View((columns[0].astype(np.int64), *columns[1:]), clear),
        View((columns[0] + np.uint32(2**30 - 35), *columns[1:]), clear),
    ]
    assert protocol.analyze(view) == 10
    for bad in broken:
        with pytest.raises(ValueError, match="view must hold") as caught:
            protocol.analyze(bad)
        assert not any(str(int(value)) in str(caught.value).split() for value in columns[0][:2])
    with pytest.raises(TypeError, match="view must be a View, got list"):
        protocol.analyze([1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize("column", [np.array([5], np.uint32), np.array([200], np.uint32)], ids=str)
def test_a_shuffler_that_gets_no_messages_has_none(column: Any) -> None:
    protocol = SecureSum(3, 97, messages=1, shuffler="single")
    view = view_of(protocol)
    assert protocol.analyze(view) == 3
    with pytest.raises(ValueError, match="view must hold"):
        protocol.analyze(View((column,), view.clear))


@pytest.mark.parametrize(
    ("shares", "error", "said"),
    [
        ([[1]], TypeError, "shares must be a numpy array, got list"),
        (np.zeros((3, 5), np.uint32), ValueError, r"must have shape \(4, users\), got \(3, 5\)"),
        (np.zeros(20, np.uint32), ValueError, "must have shape"),
        (np.zeros((4, 4), np.uint32), ValueError, "5 users, got 4"),
        (np.zeros((4, 5), np.int64), ValueError, "dtype uint32"),
        (np.full((4, 5), 98765, np.uint32), ValueError, "not shown"),
    ],
)
def test_shufflers_refuse_what_is_not_shares(shares, error, said):
    with pytest.raises(error, match=said) as caught:
        SecureSum(5, 97, messages=4).shuffle(shares)
    assert "98765" not in str(caught.value)


def test_addresses_of_large_integers_tell_nothing_of_the_users() -> None:
    """Objects made in the users' order would give that order away by their addresses."""
    protocol = SecureSum(2000, 2**127 - 1, messages=4, clear_share=False)
    shares = protocol.share(range(2000))
    for order in ("sorted", "permuted"):
        view = protocol.shuffle(shares, order=order)
        mine = {id(value) for value in shares.flat}
        for row, column in zip(shares, view.columns, strict=True):
            assert not mine & {id(value) for value in column}
            user = {value: i for i, value in enumerate(row)}
            by_address = [user[value] for value in sorted(column, key=id)]
            # neighbours in memory are neighbours among the users about twice in 2,000
            steps = np.abs(np.diff(by_address))
            assert (steps == 1).sum() < 40


def test_masked_messages_are_refused() -> None:
    protocol = SecureSum(3, 97, messages=2)
    shares = protocol.share([1, 2, 3])
    masked = np.ma.array(shares, mask=[[1, 0, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match="shares must not hold masked values"):
        protocol.shuffle(masked)
    view = protocol.shuffle(shares)
    with pytest.raises(ValueError, match="view must not hold masked values"):
        View((np.ma.array(view.columns[0], mask=[1, 0, 0]),), view.clear)
    with pytest.raises(ValueError, match="x must not hold masked values"):
        protocol.run([np.ma.array(5, mask=True)] * 3)


@pytest.mark.parametrize("columns", [([1, 2],), [np.zeros(2)], (np.zeros((2, 2)),)])
def test_a_view_is_made_of_arrays(columns: Any) -> None:
    with pytest.raises(TypeError, match="one-dimensional arrays"):
        View(columns, None)


def test_what_remains_is_that_of_the_messages() -> None:
    protocol = SecureSum(200, upper=50, sigma=40, min_honest=150, corrupt_shufflers=1)
    assert protocol.remaining() == protocol.messages
    for honest, corrupt in ((100, 1), (150, 3), (200, 0)):
        left = protocol.remaining(honest=honest, corrupt_shufflers=corrupt)
        told = remaining(
            200, protocol.q, protocol.messages.total, honest=honest, corrupt_shufflers=corrupt
        )
        assert left == told
    assert SecureSum(200, 2**20, messages=1).remaining().sigma == 0


class TestGuarantee:
    def test_is_that_of_the_messages(self) -> None:
        for options in ({}, {"analysis": "balle2020"}, {"corrupt_shufflers": 2}):
            protocol = SecureSum(1000, 2**32, **options)  # type: ignore[arg-type]
            guarantee = protocol.guarantee
            assert guarantee.proved
            assert guarantee.sigma == protocol.messages.sigma >= 80
            assert guarantee.theorem == protocol.messages.theorem
            assert guarantee.theorem in str(guarantee)

    @pytest.mark.parametrize(
        ("sigma", "distance"),
        [
            (80.0, "2^-80.00"), (80.009, "2^-80.00"), (80.999, "2^-80.99"), (0.001, "2^-0.00"),
            (math.inf, "0"),
        ],
    )  # fmt: skip
    def test_the_distance_is_rounded_up(self, sigma: float, distance: str) -> None:
        assert SecureGuarantee(sigma, "", ()).statement.endswith(f"variation {distance}")

    def test_who_must_be_honest(self) -> None:
        def first(**options: Any) -> tuple[str, ...]:
            found = SecureSum(1000, 2**16, **options).guarantee.conditions
            return tuple(map(str, found[:2]))

        everybody = "while all 1,000 users are honest and present"
        some = (
            "while at least 900 of 1,000 users are honest and present, and which users drop out is "
            "independent of their shares and noise"
        )
        assert first() == (everybody, "while no shuffler colludes with the analyzer")
        assert first(min_honest=900, corrupt_shufflers=2) == (
            some, "while at most 2 of the shufflers collude with the analyzer"
        )  # fmt: skip
        apart = "while the shuffler does not collude with the analyzer"
        assert first(shuffler="single") == (everybody, apart)
        everything = f"{apart} and does not itself add up a user's shares, all of which it receives"
        assert first(shuffler="single", clear_share=False) == (everybody, everything)

    def test_of_too_few_messages_is_none(self) -> None:
        guarantee = SecureSum(1000, 2**32, messages=3).guarantee
        assert (guarantee.proved, guarantee.sigma, guarantee.conditions) == (False, 0, ())
        assert str(guarantee) == "nothing is proved: too few messages"

    def test_of_one_user(self) -> None:
        guarantee = SecureSum(1, 2**32).guarantee
        assert guarantee.proved
        assert "within total variation 0 " in str(guarantee)
