"""Shares: exact sums in every group, the law of what is shuffled together, what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from exact.enumeration import Law, exact_law, total_variation, view_law
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from statistical import FALSE_ALARM, outcome_p_value

from ikos import (
    Box,
    PrivateSum,
    PrivateVectorSum,
    SecureSum,
    SecureVectorSum,
    View,
    security_level,
)
from ikos.counts import vector_layouts
from ikos.counts.vectors import level_of_sums
from ikos.data import reading
from ikos.primitives.modular import Zq
from ikos.testing import DeterministicRandom
from ikos.transports import Shuffled, shares
from ikos.transports.packing import pack, unpack

MODULI = [2, 3, 2**32, 3 * 2**61, 2**64 - 59, 2**64, 2**64 + 13, 2**127 - 1]
LAYOUTS: list[Any] = ["separate", "group", 2]
SETTINGS = list(itertools.product(LAYOUTS, ("parallel", "single"), (True, False)))


def elements(q: int, users: int, d: int, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [[int.from_bytes(rng.bytes(20), "big") % q for _ in range(d)] for _ in range(users)]


@given(
    q=st.one_of(
        st.sampled_from(MODULI), st.integers(2, 300), st.integers(2**60, 2**70),
        st.integers(2, 2**4096),
    ),
    messages=st.integers(1, 6),
    setting=st.sampled_from(SETTINGS),
    data=st.data(),
)  # fmt: skip
def test_the_sum_is_exact_for_any_group(
    q: int, messages: int, setting: tuple[Any, str, bool], data: st.DataObject
) -> None:
    """Of vectors, and of numbers that are their first coordinates."""
    d = data.draw(st.integers(2, 5))
    row = st.lists(st.integers(0, q - 1) | st.just(q - 1), min_size=d, max_size=d)
    x = data.draw(st.lists(row, min_size=1, max_size=5))
    layout, shuffler, clear = setting
    how: dict[str, Any] = {"messages": messages, "shuffler": shuffler, "clear_share": clear}
    vectors, numbers = (
        SecureVectorSum(len(x), d, q, layout=layout, **how),
        SecureSum(len(x), q, **how),
    )
    truth = [sum(column) % q for column in zip(*x, strict=True)]
    first = [values[0] for values in x]
    assert vectors.run(x).tolist() == truth
    assert vectors.analyze(vectors.shuffle(vectors.share(x))).tolist() == truth
    assert numbers.run(first) == truth[0]
    assert numbers.analyze(numbers.shuffle(numbers.share(first))) == truth[0]


# What is shuffled together


@pytest.mark.parametrize("q", [10, 2**40, 2**70])
def test_one_group_shuffles_whole_vectors(q: int) -> None:
    protocol = SecureVectorSum(6, 3, q, layout="group", messages=3)
    shares = protocol.share(elements(q, 6, 3), DeterministicRandom(2))
    for order in ("sorted", "permuted"):
        view = protocol.shuffle(shares, DeterministicRandom(3), order=order)
        assert len(view.columns) == 2
        for j, column in enumerate(view.columns):
            sent = sorted(map(tuple, shares[j].tolist()))
            assert sorted(map(tuple, unpack(column, protocol.transport.group, 3).tolist())) == sent
        assert view.clear is not None
        assert unpack(view.clear, protocol.transport.group, 3).tolist() == shares[2].tolist()


@pytest.mark.parametrize("shuffler", ["parallel", "single"])
@pytest.mark.parametrize(("length", "ends"), [(1, (1, 2, 3)), (2, (2, 3)), (3, (3,))])
def test_blocks_are_shuffled_by_permutations_of_their_own(
    length: int, ends: tuple[int, ...], shuffler: str
) -> None:
    protocol = SecureVectorSum(5, 3, 2**32, layout=length, messages=3, shuffler=shuffler)
    shares = protocol.share(elements(2**32, 5, 3), DeterministicRandom(2))
    view = protocol.shuffle(shares, DeterministicRandom(3), order="permuted")
    starts = (0, *ends[:-1])
    rows = [shares[0], shares[1]] if shuffler == "parallel" else [shares[:2].reshape(10, 3)]
    sent = [row[:, a:b].tolist() for a, b in zip(starts, ends, strict=True) for row in rows]
    widths = [b - a for a, b in zip(starts, ends, strict=True) for _ in rows]
    orders = []
    for column, vectors, width in zip(view.columns, sent, widths, strict=True):
        seen = unpack(column, protocol.transport.group, width).tolist()
        orders.append(tuple(vectors.index(one) for one in seen))
        assert sorted(orders[-1]) == list(range(len(vectors)))
    assert len(set(orders)) == len(orders)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shuffler", ["parallel", "single"])
def test_the_view_hides_the_order_of_the_users(layout: Any, shuffler: str) -> None:
    protocol = SecureVectorSum(
        8, 3, 2**20, layout=layout, messages=3, shuffler=shuffler, clear_share=False
    )
    shares = protocol.share(elements(2**20, 8, 3), DeterministicRandom(5))
    first = protocol.shuffle(shares)
    second = protocol.shuffle(shares[:, ::-1])
    for one, other in zip(first.columns, second.columns, strict=True):
        assert one.tolist() == other.tolist()
        assert not one.flags.writeable


def test_permuted_vectors_are_in_a_uniform_order() -> None:
    protocol = SecureVectorSum(3, 2, 10, layout="group", messages=1, clear_share=False)
    shares = np.array([[[1, 2], [3, 4], [5, 6]]], dtype=np.uint32)
    rng = DeterministicRandom(8)
    seen = [
        tuple(unpack(column, protocol.transport.group, 2)[:, 0].tolist())
        for _ in range(3000)
        for column in protocol.shuffle(shares, rng, order="permuted").columns
    ]
    law = dict.fromkeys(itertools.permutations((1, 3, 5)), 1 / 6)
    assert outcome_p_value(seen, law) > FALSE_ALARM


def played_law(protocol: SecureVectorSum, x: Any) -> Law:
    """Return the exact law of the view, every outcome of the shares' randomness played out."""

    def experiment(source: Any) -> Any:
        view = protocol.shuffle(protocol.share(x, source), source)
        return (
            tuple(tuple(column.tolist()) for column in view.columns),
            None if view.clear is None else tuple(view.clear.tolist()),
        )

    return exact_law(experiment)[0]


PAIRS = [((0, 1), (1, 1)), ((0, 0), (1, 0)), ((1, 0), (0, 0))]


@pytest.mark.parametrize("clear", [False, True])
def test_the_law_of_separate_sums_is_the_product_of_the_coordinates_laws(clear: bool) -> None:
    """Two users, vectors of two bits: against the definition, as fractions."""
    protocol = SecureVectorSum(2, 2, 2, messages=2 + clear, clear_share=clear)
    for x in PAIRS:
        law: Law = {}
        each = [view_law(tuple(row[c] for row in x), 2, 2, "parallel", clear) for c in (0, 1)]
        for (one, p), (other, r) in itertools.product(each[0].items(), each[1].items()):
            vectors = None
            if clear:
                rows = np.array([one[1], other[1]], dtype=np.uint32).T  # type: ignore[index]
                vectors = tuple(pack(rows, protocol.transport.group).tolist())
            key = (*one[0], *other[0]), vectors  # type: ignore[index]
            law[key] = law.get(key, Fraction(0)) + p * r
        assert played_law(protocol, x) == law


@pytest.mark.parametrize("clear", [False, True])
def test_the_law_of_blocks_is_the_product_of_the_laws_of_blocks(clear: bool) -> None:
    """Two users, vectors of three bits: a block of two, and a shorter one."""
    how: dict[str, Any] = {"messages": 2, "clear_share": clear}
    protocol = SecureVectorSum(2, 3, 2, layout=2, **how)
    for x in (((0, 1, 1), (1, 1, 0)), ((1, 0, 0), (1, 1, 1))):
        law: Law = {}
        first = played_law(SecureVectorSum(2, 2, 2, layout="group", **how), [row[:2] for row in x])
        second = played_law(SecureVectorSum(2, 1, 2, **how), [row[2:] for row in x])
        for (one, p), (other, r) in itertools.product(first.items(), second.items()):
            whole = None
            if clear:
                pairs = unpack(np.array(one[1], dtype=(np.void, 8)), protocol.transport.group, 2)
                rows = np.column_stack([pairs, other[1]]).astype(np.uint32)
                whole = tuple(pack(rows, protocol.transport.group).tolist())
            key = (*one[0], *other[0]), whole
            law[key] = law.get(key, Fraction(0)) + p * r
        assert played_law(protocol, x) == law


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "q", "messages", "first", "second"),
    [
        ("separate", 3, 3, ((0, 0), (2, 2)), ((1, 1), (1, 1))),
        ("group", 2, 4, ((0, 0), (1, 1)), ((0, 1), (1, 0))),
    ],
)
def test_levels_hold_for_the_exact_law(
    layout: str, q: int, messages: int, first: Any, second: Any
) -> None:
    """Views of equal sums are within 2^-sigma, and those of another sum are disjoint."""
    protocol = SecureVectorSum(2, 2, q, layout=layout, messages=messages, clear_share=False)
    one, other = played_law(protocol, first), played_law(protocol, second)
    assert 0 < total_variation(one, other) <= 2**-protocol.guarantee.sigma
    assert total_variation(one, played_law(protocol, ((0, 0), (0, 0)))) == 1


# Numbers of messages


@pytest.mark.parametrize("analysis", ["second_moment", "balle2020"])
def test_counts_are_those_of_the_layouts(analysis: str) -> None:
    ways = vector_layouts(1000, 2**32, 80, 16, analysis=analysis)
    for name, layout in zip(("group", "separate"), ways, strict=True):
        protocol = SecureVectorSum(1000, 16, 2**32, layout=name, analysis=analysis)
        assert protocol.layout == layout
        assert protocol.guarantee.sigma >= 80
        assert protocol.cost().messages_per_user == layout.messages_per_user
        assert protocol.cost().bits_per_user == layout.bits_per_user


def test_given_messages_state_what_is_proved() -> None:
    separate = SecureVectorSum(1000, 16, 2**32, messages=25)
    each = security_level(1000, 2**32, 24)
    assert separate.guarantee.sigma == level_of_sums(each, 16, analysis="second_moment") < each
    blocks = SecureVectorSum(1000, 16, 2**32, layout=5, messages=45)  # 5, 5, 5 and 1
    each = security_level(1000, 2**160, 44)
    assert blocks.guarantee.sigma == level_of_sums(each, 4, analysis="second_moment") < each
    assert (blocks.layout.name, blocks.cost().messages_per_user) == ("blocks of 5", 180)
    assert blocks.cost().bits_per_user == 45 * 16 * 32
    group = SecureVectorSum(1000, 16, 2**32, layout="group", messages=90)
    assert group.guarantee.sigma == security_level(1000, 2**512, 89)
    weaker = SecureVectorSum(1000, 16, 2**32, messages=25, corrupt_shufflers=2)
    assert weaker.guarantee.sigma == level_of_sums(
        security_level(1000, 2**32, 22), 16, analysis="second_moment"
    )
    nothing = SecureVectorSum(1000, 16, 2**32, messages=1)
    assert nothing.guarantee.sigma == 0
    assert "nothing is proved" in repr(nothing)


def test_given_the_number_that_is_chosen_proves_the_same() -> None:
    for layout in LAYOUTS:
        chosen = SecureVectorSum(300, 5, 2**20, layout=layout, min_honest=200, corrupt_shufflers=1)
        given = SecureVectorSum(
            300, 5, 2**20, layout=layout, min_honest=200, corrupt_shufflers=1,
            messages=chosen.layout.count.total,
        )  # fmt: skip
        assert given == chosen


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_guarantee_is_that_of_the_whole_vector(layout: Any) -> None:
    options: dict[str, Any] = {"layout": layout, "min_honest": 90, "corrupt_shufflers": 1}
    protocol = SecureVectorSum(100, 3, 2**32, **options)
    found = protocol.guarantee
    sums, half = len(protocol.transport.blocks), protocol.messages.analysis == "second_moment"
    lost = math.log2(sums) / (2 if half else 1)
    assert 80 <= found.sigma == pytest.approx(protocol.messages.sigma - lost)
    assert found.theorem == protocol.layout.count.theorem
    assert found.conditions[0].text.startswith(
        "while at least 90 of 100 users are honest and present"
    )
    assert found.conditions[1].text.startswith(
        "while at most 1 of the shufflers of each sum collude"
    )
    few = SecureVectorSum(100, 3, 2**32, messages=2, **options).guarantee
    assert (few.proved, few.conditions) == (False, ())


@pytest.mark.parametrize(
    ("layout", "d", "q", "said"),
    [
        ("separate", 2, 2**31 - 1, "while"),
        ("separate", 2, 2**31, "NOT for this group: not proved for a composite modulus"),
        ("group", 1, 2**31 - 1, "while"),
        ("group", 2, 2**31 - 1, "NOT for this group: not proved for vectors of several"),
        (2, 3, 2**31 - 1, "NOT for this group: not proved for vectors of several"),
    ],
)
def test_a_theorem_that_does_not_cover_the_group_is_said_to(
    layout: Any, d: int, q: int, said: str
) -> None:
    ways: dict[str, Any] = {"analysis": "ghazi2020", "shuffler": "single", "clear_share": False}
    assert (
        SecureVectorSum(50, d, q, layout=layout, **ways)
        .guarantee.conditions[0]
        .text.startswith(said)
    )
    private = PrivateVectorSum(50, Box(d), 1, 1e-4, layout=layout, modulus=q, **ways)
    assert private.guarantee.conditions[0].text.startswith(said)
    assert private.guarantee.proved == (said == "while")


def test_one_coordinate_is_the_scalar_sum() -> None:
    scalar, vector = SecureSum(100, 2**16), SecureVectorSum(100, 1, 2**16)
    assert vector.layout.count == scalar.messages
    x = np.arange(100)
    assert vector.run(x[:, np.newaxis], DeterministicRandom(1)).tolist() == [
        scalar.run(x, DeterministicRandom(1))
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_remains_is_that_of_the_whole_vector(layout: Any) -> None:
    protocol = SecureVectorSum(200, 4, 2**20, layout=layout, min_honest=150, corrupt_shufflers=1)
    assert protocol.remaining().sigma == protocol.guarantee.sigma
    fewer = SecureVectorSum(
        200, 4, 2**20, layout=layout, min_honest=100, corrupt_shufflers=2,
        messages=protocol.layout.count.total,
    )  # fmt: skip
    left = protocol.remaining(honest=100, corrupt_shufflers=2)
    assert 0 < left.sigma == fewer.guarantee.sigma < protocol.guarantee.sigma


@pytest.mark.points(1)
@pytest.mark.parametrize("adaptive", [False, True])
def test_colluding_shufflers_are_counted_beside_an_analyzer_that_chooses(adaptive: bool) -> None:
    recipe = Shuffled(corrupt_shufflers=1, adaptive=adaptive)
    secure = SecureSum(200, 2**20, min_honest=150, transport=recipe)
    levels = [secure.remaining(corrupt_shufflers=number).sigma for number in (0, 1, 2)]
    assert levels[0] > levels[1] == secure.guarantee.sigma >= 80 > levels[2]
    private = PrivateSum(200, 1, 1e-6, min_honest=150, transport=recipe)
    assert private.remaining(corrupt_shufflers=1) == private.remaining()
    worse = private.remaining(corrupt_shufflers=2, delta=1e-3)
    assert worse.epsilon > private.remaining(delta=1e-3).epsilon
    assert "corrupt_shufflers=1" in str(secure)


@pytest.fixture(params=[(14, 1 << 22), (1, 1)], ids=["bunches", "many"])
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encode about 20 entries together, of 5 coordinates, and share 14, or those of one."""
    sizes = {"COLUMNS_PER_PASS": 5, "ENTRIES_PER_PASS": 20, "ENTRIES_PER_SOURCE": 20}
    sizes["ENTRIES_PER_BUNCH"], users = request.param
    for name, size in sizes.items():
        monkeypatch.setattr(reading, name, size)
    monkeypatch.setattr(shares, "USERS_PER_COORDINATE", users)


@pytest.mark.usefixtures("cut")
@pytest.mark.points(2)
@pytest.mark.parametrize("q", [2**20, 2**64 - 59, 2**64 + 13])
@pytest.mark.parametrize(("shuffler", "clear_share"), [setting[1:] for setting in SETTINGS[:4]])
def test_the_columns_of_a_run_are_those_of_shares_that_are_shuffled(
    monkeypatch: pytest.MonkeyPatch, q: int, shuffler: str, clear_share: bool
) -> None:
    """Message for message, however many coordinates are shared together."""
    seen: list[list[int]] = []
    add_up = Zq.sum

    def look(group: Zq, column: NDArray[Any]) -> int:
        seen.append(column.tolist())
        return add_up(group, column)

    for users, d in ((6, 17), (1, 9)):
        protocol = SecureVectorSum(
            users, d, q, messages=3, shuffler=shuffler, clear_share=clear_share
        )
        x = elements(q, users, d)
        view = protocol.shuffle(protocol.share(x, DeterministicRandom(4)))
        expected = [column.tolist() for column in view.columns]
        if view.clear is not None:
            expected += unpack(view.clear, protocol.transport.group, d).T.tolist()
        seen.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Zq, "sum", look)
            patch.setattr(Zq, "sums", lambda group, a: [look(group, row) for row in a])
            protocol.run(x, DeterministicRandom(4), threads=1)
        assert sorted(seen) == sorted(expected)


@pytest.mark.usefixtures("cut")
def test_no_two_draws_come_from_one_place() -> None:
    """Neither shares, nor what rounds values."""
    secure = SecureVectorSum(8, 40, 2**64, messages=4)
    drawn = secure.share(np.zeros((8, 40), dtype=int), DeterministicRandom(5))
    assert np.unique(drawn).size == drawn.size
    private = PrivateVectorSum(8, Box(40), 1e4, 1e-2, precision=1, messages=3)
    drawn = private.randomize(np.full((8, 40), 0.5), DeterministicRandom(5))
    rounded = drawn.sum(axis=0) % private.modulus
    blocks = [rounded[i : i + 4, j : j + 5] for i in (0, 4) for j in range(0, 40, 5)]
    assert len({block.tobytes() for block in blocks}) == len(blocks)


# What is refused


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n": 0}, ValueError, "^n "),
        ({"dimension": 0}, ValueError, "^dimension "),
        ({"q": 1}, ValueError, "^q "),
        ({"layout": "both"}, ValueError, "^layout "),
        ({"layout": 3}, ValueError, "^layout "),
        ({"layout": 0}, ValueError, "^layout "),
        ({"layout": "blocks", "messages": 4}, ValueError, "^layout "),
        ({"layout": "blocks", "overhead": -1}, ValueError, "^overhead "),
        ({"sigma": 0}, ValueError, "^sigma "),
        ({"sigma": 0, "messages": 9}, ValueError, "^sigma "),
        ({"corrupt_shufflers": 10**9}, ValueError, "^corrupt_shufflers "),
        ({"corrupt_shufflers": 10**8}, ValueError, "^messages "),
        ({"messages": 0}, ValueError, "^messages "),
        ({"analysis": "greatest"}, ValueError, "^analysis "),
        ({"clear_share": 1}, TypeError, "^clear_share "),
    ],
    ids=str,
)
def test_bad_parameters(change: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {"n": 10, "dimension": 2, "q": 100} | change
    with pytest.raises(error, match=message):
        SecureVectorSum(**given)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([[1, 2]], ValueError, "each of the n = 2 users"),
        ([[1, 2]] * 3, ValueError, "each of the n = 2 users"),
        ([1, 2], ValueError, "shape"),
        ([[1, 2, 3]] * 2, ValueError, "shape"),
        ([[1, 100]] * 2, ValueError, "must be in"),
        ([[1, -1]] * 2, ValueError, "must be in"),
        ([[1.0, 2.0]] * 2, TypeError, "must be an integer"),
        (np.ones((2, 2)), TypeError, "must hold integers"),
        (np.ma.masked_array([[1, 2]] * 2, mask=True), ValueError, "masked"),
        ([np.ma.masked_array([1, 2], mask=[True, False]), [1, 2]], ValueError, "masked"),
    ],
    ids=str,
)
def test_bad_vectors(x: Any, error: type[Exception], message: str) -> None:
    protocol = SecureVectorSum(2, 2, 100, messages=2)
    for use in (protocol.run, protocol.share):
        with pytest.raises(error, match=message):
            use(x)


def test_bad_shares_and_views() -> None:
    protocol = SecureVectorSum(3, 2, 100, messages=3)
    x = [[1, 2]] * 3
    shares = protocol.share(x)
    for bad in (
        shares[:2],
        shares[:, :2],
        shares[:, :, :1],
        shares.astype(np.uint64),
        shares + 100,
    ):
        with pytest.raises(ValueError, match="shares must"):
            protocol.shuffle(bad)
    view = protocol.shuffle(shares)
    assert view.clear is not None
    for broken in (
        View(view.columns[1:], view.clear),
        View(view.columns, None),
        View(view.columns, view.clear[:2]),
        View((view.columns[0][:2], *view.columns[1:]), view.clear),
        View(tuple(column + np.uint32(100) for column in view.columns), view.clear),
        View(view.columns, view.columns[0]),
        View(view.columns, pack(shares[-1] + np.uint32(100), protocol.transport.group)),
    ):
        with pytest.raises(ValueError, match="view must hold"):
            protocol.analyze(broken)
    with pytest.raises(TypeError, match="view must be a View"):
        protocol.analyze(shares)  # type: ignore[arg-type]


def test_too_many_shares_at_a_time() -> None:
    protocol = SecureVectorSum(2**15, 2**9, 4, messages=40)
    with pytest.raises(ValueError, match="use run"):
        protocol.share(np.zeros((2**15, 2**9), dtype=np.uint8))
