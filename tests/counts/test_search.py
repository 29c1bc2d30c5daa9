"""The cheapest setting is the cheapest, and ties are resolved as documented."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos import message_count, private_message_count
from ikos.counts import (
    cheapest,
    cheapest_private,
    private_proved,
    private_vector_layouts,
    security_level,
    vector_layouts,
)
from ikos.counts.planning import SETTINGS


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


@pytest.mark.parametrize("n", [20, 1000, 10**6])
def test_no_private_setting_takes_fewer_messages(n: int) -> None:
    given_ = (n, 2**20, 1, 1e-9, 30)
    chosen = cheapest_private(*given_)
    totals = [private_message_count(*given_, shuffler=s, clear_share=c).total for s, c in SETTINGS]
    assert chosen.messages_per_user == min(totals)
    assert (chosen.shuffler, chosen.clear_share) == SETTINGS[totals.index(min(totals))]
    assert chosen.layout.delta is not None
    assert chosen.layout.delta <= 1e-9


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
    private = cheapest_private(n, q, 1, 1e-6, 1, minimize=minimize, dimension=d)
    options = [
        layout
        for s, c in SETTINGS
        for layout in private_vector_layouts(n, q, 1, 1e-6, 1, d, shuffler=s, clear_share=c)
    ]
    assert getattr(private, cost) == min(getattr(layout, cost) for layout in options)


def test_separate_budgets_are_no_choice_where_they_cost_noise() -> None:
    private = cheapest_private(
        10_000, 2**15, 1, 1e-8, 1, dimension=50, sensitivity=2, minimize="bits"
    )
    assert private.layout.name == "separate sums"
    assert private.layout.rate is not None
    assert private.layout.rate >= 0.99 / 2


def check_noise_of_choices() -> None:
    """Where separate budgets are cheapest, they are chosen only if they cost no more noise."""
    given_: tuple[Any, ...] = (1000, 2**15, 20, 1e-6, 1)
    for shuffler, clear in SETTINGS:
        how: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
        group, apart, composed = private_vector_layouts(*given_, 10, sensitivity=2, **how)
        assert composed.bits_per_user < min(group.bits_per_user, apart.bits_per_user)
        chosen = cheapest_private(
            *given_, dimension=10, sensitivity=2, minimize="bits", **how
        ).layout
        assert chosen.rate is not None
        assert chosen.rate >= 0.99 * 20 / 2
        assert chosen == min(group, apart, key=lambda layout: layout.bits_per_user)
        for moved in (None, 10):
            full = cheapest_private(
                *given_, dimension=10, sensitivity=moved, minimize="bits", **how
            )
            assert full.layout.name == "separate sums, composed"


@pytest.mark.slow
def test_cheap_budgets_that_cost_noise_are_no_choice() -> None:
    check_noise_of_choices()


@pytest.mark.parametrize("left_out", ["", "separate sums", "one group"])
def test_choices_among_other_layouts_are_caught(
    left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ikos.counts.planning.COMPOSED", left_out)
    with pytest.raises(AssertionError):
        check_noise_of_choices()


def test_colluding_shufflers_leave_parallel_ones_alone() -> None:
    chosen = cheapest(1000, 2**32, 60, corrupt_shufflers=3)
    assert chosen.shuffler == "parallel"
    assert (
        chosen.messages_per_user == 3 + cheapest(1000, 2**32, 60, shuffler="parallel").count.total
    )
    count = chosen.count
    assert security_level(1000, 2**32, count.shuffled - 3, clear_share=chosen.clear_share) >= 60
    private = cheapest_private(1000, 2**20, 1, 1e-6, 32, corrupt_shufflers=1, min_honest=400)
    m = private.count.shuffled - 1
    proved = private_proved(400, 2**20, m, 1, 1e-6, 32, clear_share=private.clear_share)
    assert proved.delta is not None
    assert proved.delta <= 1e-6


def test_an_analysis_is_asked_where_it_has_an_answer() -> None:
    old = cheapest(1000, 2**32, 40, analysis="ishai2006")
    assert (old.shuffler, old.clear_share) == ("single", False)
    parallel = cheapest(1000, 2**32, 40, analysis="balle2020")
    assert (parallel.shuffler, parallel.clear_share) == ("parallel", True)
    assert cheapest_private(1000, 2**20, 1, 1e-6, 32, analysis="ghazi2020").shuffler == "single"


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"corrupt_shufflers": 1, "shuffler": "single"}, ValueError, "corrupt_shufflers must be 0"),
        ({"corrupt_shufflers": 10**400}, ValueError, "corrupt_shufflers must be at most 10+, got"),
        ({"analysis": "ishai2006", "shuffler": "parallel"}, ValueError, "ishai2006 needs a single"),
    ],
)
def test_bad_arguments_are_named(
    arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    good: dict[str, Any] = {"n": 1000, "q": 2**32, "sigma": 40}
    with pytest.raises(error, match=said):
        cheapest(**{**good, **arguments})


def test_printed_form() -> None:
    assert str(cheapest(10**6, 2**64, 80, shuffler="parallel")) == (
        "parallel, a clear share, one group: 14 messages of 64 bits per user (896 bits)"
    )
