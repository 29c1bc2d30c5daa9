"""The cheapest setting is the cheapest, and ties are resolved as documented."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos import message_count
from ikos.counts import cheapest, security_level, vector_layouts
from ikos.counts.planning import SETTINGS


@pytest.mark.slow
@given(
    n=st.one_of(st.integers(1, 60), st.integers(1025, 10**9)),
    q=st.integers(2, 2**70),
    sigma=st.integers(1, 150),
)
def test_no_setting_takes_fewer_messages(n: int, q: int, sigma: int) -> None:
    chosen = cheapest(n, q, sigma)
    totals = [message_count(n, q, sigma, shuffler=s, clear_share=c).total for s, c in SETTINGS]
    assert chosen.messages_per_user == min(totals)
    first = SETTINGS[totals.index(min(totals))]
    assert (chosen.shuffler, chosen.clear_share) == first
    assert chosen.bits_per_user == min(totals) * (q - 1).bit_length()
    assert chosen.count.clear == int(chosen.clear_share)
    assert cheapest(n, q, sigma, minimize="bits") == chosen


@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
def test_what_is_fixed_stays(shuffler: str, clear: bool) -> None:
    chosen = cheapest(500, 2**32, 40, shuffler=shuffler, clear_share=clear)
    assert (chosen.shuffler, chosen.clear_share) == (shuffler, clear)
    assert chosen.count == message_count(500, 2**32, 40, shuffler=shuffler, clear_share=clear)
    half = cheapest(500, 2**32, 40, shuffler=shuffler)
    assert half.shuffler == shuffler
    assert half.messages_per_user <= chosen.messages_per_user


def test_ties_go_to_parallel_shufflers_and_a_clear_share() -> None:
    one_user = cheapest(1, 2**8, 40, clear_share=True)
    assert (one_user.shuffler, one_user.messages_per_user) == ("parallel", 2)
    fixed = cheapest(10**6, 2**64, 80, shuffler="parallel")
    with_, without = (
        message_count(10**6, 2**64, 80, clear_share=clear).total for clear in (True, False)
    )
    assert with_ == without
    assert fixed.clear_share


@pytest.mark.points(0)
@pytest.mark.parametrize("minimize", ["messages", "bits"])
@pytest.mark.parametrize(("n", "q", "d"), [(5000, 2, 3), (10**6, 2**10, 2), (50, 2**20, 40)])
def test_layouts_are_compared_too(minimize: str, n: int, q: int, d: int) -> None:
    chosen = cheapest(n, q, 30, minimize=minimize, dimension=d)
    layouts = [
        layout
        for s, c in SETTINGS
        for layout in vector_layouts(n, q, 30, d, shuffler=s, clear_share=c)
    ]
    cost = f"{minimize}_per_user"
    assert getattr(chosen, cost) == min(getattr(layout, cost) for layout in layouts)


def test_colluding_shufflers_leave_parallel_ones_alone() -> None:
    chosen = cheapest(1000, 2**32, 60, corrupt_shufflers=3)
    assert chosen.shuffler == "parallel"
    assert (
        chosen.messages_per_user == 3 + cheapest(1000, 2**32, 60, shuffler="parallel").count.total
    )
    count = chosen.count
    assert security_level(1000, 2**32, count.shuffled - 3, clear_share=chosen.clear_share) >= 60


def test_an_analysis_is_asked_where_it_has_an_answer() -> None:
    old = cheapest(1000, 2**32, 40, analysis="ishai2006")
    assert (old.shuffler, old.clear_share) == ("single", False)
    parallel = cheapest(1000, 2**32, 40, analysis="balle2020")
    assert (parallel.shuffler, parallel.clear_share) == ("parallel", True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"corrupt_shufflers": 1, "shuffler": "single"}, "corrupt_shufflers must be 0"),
        ({"corrupt_shufflers": 10**400}, "corrupt_shufflers must be at most 10+, got"),
        ({"analysis": "ishai2006", "shuffler": "parallel"}, "ishai2006 needs a single"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {"n": 1000, "q": 2**32, "sigma": 40}
    with pytest.raises(ValueError, match=said):
        cheapest(**{**good, **arguments})
