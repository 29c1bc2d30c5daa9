"""The shufflers: what comes out is the multiset, and nothing else is reachable from a view."""

from __future__ import annotations

import dataclasses
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from statistical import FALSE_ALARM, outcome_p_value, uniform_p_value

from ikos import SecureSum, View
from ikos.testing import DeterministicRandom

SETTINGS = [("parallel", True), ("parallel", False), ("single", True), ("single", False)]
each_setting = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
each_order = pytest.mark.parametrize("order", ["sorted", "permuted"])
GROUPS = {"2^16": 2**16, "2^127-1": 2**127 - 1}
each_group = pytest.mark.parametrize("q", GROUPS.values(), ids=GROUPS.keys())
N, MESSAGES = 50, 4


def protocol(q: int, shuffler: str, clear: bool, n: int = N) -> SecureSum:
    return SecureSum(n, q, messages=MESSAGES, shuffler=shuffler, clear_share=clear)


def shares_of(sums: SecureSum, seed: int = 100) -> NDArray[Any]:
    return sums.share([i % sums.q for i in range(sums.n)], DeterministicRandom(seed))


def arrays(view: View) -> list[NDArray[Any]]:
    return [*view.columns, *([] if view.clear is None else [view.clear])]


@each_group
@each_setting
@each_order
def test_each_shuffler_releases_exactly_the_multiset_that_it_was_given(
    q: int, shuffler: str, clear: bool, order: str
) -> None:
    sums = protocol(q, shuffler, clear)
    shares = shares_of(sums)
    view = sums.shuffle(shares, DeterministicRandom(101), order=order)
    rows = shares[:-1] if clear else shares
    inputs = [rows.reshape(-1)] if shuffler == "single" else list(rows)
    assert len(view.columns) == len(inputs)
    for column, given in zip(view.columns, inputs, strict=True):
        assert column.dtype == shares.dtype
        assert sorted(column.tolist()) == sorted(given.tolist())
        if order == "sorted":
            assert column.tolist() == sorted(given.tolist())
    if clear:
        assert view.clear is not None
        assert view.clear.tolist() == shares[-1].tolist()
    else:
        assert view.clear is None


@each_group
@each_setting
def test_sorted_columns_do_not_depend_on_which_user_sent_what(
    q: int, shuffler: str, clear: bool
) -> None:
    """Each row of messages rearranged among the users in its own way: the same columns."""
    sums = protocol(q, shuffler, clear)
    shares = shares_of(sums)
    rng = DeterministicRandom(102)
    rearranged = shares.copy()
    for row in rearranged[: sums.messages.shuffled]:
        row[:] = row[rng.permutation(N)]
    assert (rearranged != shares).any()
    for one, other in zip(
        arrays(sums.shuffle(shares)), arrays(sums.shuffle(rearranged)), strict=True
    ):
        assert one.tolist() == other.tolist()


@each_group
@each_setting
@each_order
def test_shuffle_leaves_its_input_as_it_was(q: int, shuffler: str, clear: bool, order: str) -> None:
    sums = protocol(q, shuffler, clear)
    shares = shares_of(sums)
    before = shares.copy()
    sums.shuffle(shares, DeterministicRandom(103), order=order)
    assert (shares == before).all()
    assert shares.flags.writeable


@each_group
@each_setting
@each_order
def test_nothing_but_the_messages_is_reachable_from_a_view(
    q: int, shuffler: str, clear: bool, order: str
) -> None:
    """Two fields; arrays that own their memory, share none, and cannot be changed."""
    sums = protocol(q, shuffler, clear)
    shares = shares_of(sums)
    view = sums.shuffle(shares, DeterministicRandom(104), order=order)
    assert [field.name for field in dataclasses.fields(view)] == ["columns", "clear"]
    assert set(vars(view)) == {"columns", "clear"}
    assert type(view.columns) is tuple
    for array in arrays(view):
        assert type(array) is np.ndarray
        assert array.base is None
        assert array.flags.owndata
        assert array.ndim == 1
        assert not array.flags.writeable
        assert not np.shares_memory(array, shares)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        view.clear = None  # type: ignore[misc]


@each_setting
def test_view_and_protocol_print_sizes_and_no_message(shuffler: str, clear: bool) -> None:
    """Messages of 17 to 20 digits would show, whole or in part."""
    sums = protocol(2**61 - 1, shuffler, clear)
    view = sums.shuffle(shares_of(sums))
    for text in (repr(view), str(view), f"{view}"):
        assert f"{view.columns[0].size}" in text
        assert max(len(run) for run in "".join(c if c.isdigit() else " " for c in text).split()) < 5


@pytest.mark.slow
@pytest.mark.parametrize("shuffler", ["parallel", "single"])
def test_permuted_columns_are_in_uniform_order(shuffler: str) -> None:
    """All 24 orders of four distinct messages; proved false-alarm rate 1e-9 each."""
    messages = 4 if shuffler == "parallel" else 1
    n = 4
    sums = SecureSum(n, 2**16, messages=messages, shuffler=shuffler, clear_share=False)
    shares = (np.arange(messages * n, dtype=np.uint32) * 7).reshape(messages, n)
    orders = {order: i for i, order in enumerate(permutations(range(n)))}
    rng = DeterministicRandom(105)
    drawn: list[list[int]] = [[] for _ in sums.shuffle(shares).columns]
    for _ in range(4000):
        view = sums.shuffle(shares, rng, order="permuted")
        for j, column in enumerate(view.columns):
            drawn[j].append(orders[tuple((column // 7 % n).tolist())])
    for outcomes in drawn:
        assert uniform_p_value(outcomes, 24) > FALSE_ALARM


@pytest.mark.slow
def test_permuted_columns_of_different_shufflers_are_independent() -> None:
    """All 36 pairs of orders of three messages, for each pair of three shufflers."""
    shares = np.arange(9, dtype=np.uint32).reshape(3, 3)
    sums = SecureSum(3, 2**16, messages=3, clear_share=False)
    rng = DeterministicRandom(106)
    views = [sums.shuffle(shares, rng, order="permuted") for _ in range(3000)]
    law = {(a, b): 1 / 36 for a in permutations(range(3)) for b in permutations(range(3))}
    for i, j in ((0, 1), (0, 2), (1, 2)):
        pairs = [
            (tuple((v.columns[i] % 3).tolist()), tuple((v.columns[j] % 3).tolist())) for v in views
        ]
        assert outcome_p_value(pairs, law) > FALSE_ALARM


def test_permuted_columns_do_not_add_up_to_the_inputs() -> None:
    """Sums across shufflers hit one of 1000 inputs by chance with probability 1e-13."""
    sums = SecureSum(1000, 2**64, messages=5, clear_share=False)
    x = DeterministicRandom(107).uniform(2**64, 1000)
    view = sums.shuffle(sums.share(x, DeterministicRandom(108)), order="permuted")
    across = np.sum(np.stack(view.columns), axis=0, dtype=np.uint64)
    assert not set(across.tolist()) & set(x.tolist())


def test_default_permutation_is_fresh() -> None:
    """Two orders of 1000 messages agree with probability 1/1000!."""
    sums = SecureSum(1000, 2**64, messages=1, clear_share=False)
    shares = sums.share(range(1000))
    orders = [sums.shuffle(shares, order="permuted").columns[0].tolist() for _ in range(2)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


@each_setting
def test_analysis_reads_the_messages_and_nothing_else(shuffler: str, clear: bool) -> None:
    """A view rebuilt from plain copies, its columns in another order, gives the same sum."""
    sums = protocol(2**61 - 1, shuffler, clear)
    view = sums.shuffle(shares_of(sums))
    rng = DeterministicRandom(110)
    rebuilt = View(
        tuple(column[rng.permutation(column.size)] for column in view.columns),
        None if view.clear is None else view.clear.copy(),
    )
    assert sums.analyze(rebuilt) == sums.analyze(view) == N * (N - 1) // 2


def test_order_of_another_name_is_refused() -> None:
    sums = protocol(2**16, "parallel", True)
    with pytest.raises(ValueError, match="order must be one of 'sorted', 'permuted', got 'none'"):
        sums.shuffle(shares_of(sums), order="none")
