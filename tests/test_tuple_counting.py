"""The tuple-counting attack: its counts, its exact laws at tiny sizes, and its experiments."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exact.enumeration import Law, share_tuples, total_variation, view_law
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from statistical import FALSE_ALARM, outcome_p_value, p_value_bound

import ikos
from analysis.tuple_fluctuation import consistent_tuples, count_moments, fluctuation
from ikos import SecureSum, View
from ikos.attacks import measure_advantage, tuple_counting, tuple_counts
from ikos.attacks.tuple_counting import _compared, _drawn_views
from ikos.counts.recursion import rational_split
from ikos.counts.share_graph import ShareGraph
from ikos.primitives.modular import Zq
from ikos.primitives.randomness import RandomSource, secure
from ikos.testing import DeterministicRandom

Columns = NDArray[Any]


def statistic(columns: Columns, residues: NDArray[Any], q: int, d: int) -> NDArray[Any]:
    """Return S for each view, of arrays of any integers."""
    return _compared(columns.astype(np.uint32), residues.astype(np.uint32), q, d % q)


def statistic_moments(n: int, q: int, m: int) -> tuple[Fraction, Fraction]:
    """Return the mean and the variance of S under x, as proved."""
    return Fraction(2), Fraction(4 * (n**m + 2**m - 2), q)


def sample_views(
    x: NDArray[Any], q: int, m: int, *, clear_share: bool = True, rng: RandomSource | None = None
) -> tuple[Columns, NDArray[np.uint32] | None]:
    """Draw what the analyzer sees of inputs of any integers."""
    return _drawn_views(x.astype(np.uint32), Zq(q), m, clear_share, secure(rng))


# Counts


def by_enumeration(columns: Any, q: int) -> list[int]:
    tally = Counter(int(sum(int(v) for v in t)) % q for t in product(*columns))
    return [tally[r] for r in range(q)]


def at_each_residue(columns: Columns, q: int) -> NDArray[np.int64]:
    """Count through views, one residue at a time."""
    n = columns.shape[2]
    counts = [
        consistent_tuples(View(tuple(c), np.full(n, q - 1)), q, n - 1, (r + q - 1) % q)
        for c in columns
        for r in range(q)
    ]
    return np.array(counts).reshape(len(columns), q)


@pytest.mark.points(1)
@pytest.mark.parametrize("count", [tuple_counts, at_each_residue])
def test_counts_are_those_of_all_tuples(count: Callable[[Columns, int], Any]) -> None:
    """Few residues and many, so that every way of counting is taken."""
    rng = np.random.default_rng(1)
    for n, m, q in product((1, 2, 3, 7), (1, 2, 3, 4), (2, 3, 4, 8, 60)):
        columns = rng.integers(0, q, size=(3, m, n))
        columns[0] = q - 1
        counted = np.asarray(count(columns, q))
        assert counted.shape == (3, q)
        assert counted.tolist() == [by_enumeration(c, q) for c in columns.tolist()]


@given(
    n=st.integers(1, 60),
    m=st.integers(1, 20),
    q=st.integers(2, 60),
    seed=st.integers(0, 2**32 - 1),
)
def test_counts_of_any_size_are_exact(n: int, m: int, q: int, seed: int) -> None:
    """60^20 tuples take 119 bits; the reference multiplies polynomials packed into integers."""
    columns = np.random.default_rng(seed).integers(0, q, size=(m, n))
    counts = tuple_counts(columns, q)
    digits = (n**m).bit_length() + 1
    product_of_all = 1
    for column in columns.tolist():
        product_of_all *= sum(1 << (digits * v) for v in column)
    expected = [0] * q
    for r in range(m * (q - 1) + 1):
        expected[r % q] += product_of_all >> (digits * r) & ((1 << digits) - 1)
    assert counts.tolist() == expected
    assert sum(counts.tolist()) == n**m
    assert counts.dtype == (np.int64 if n**m < 2**63 else object)
    view = View(tuple(columns), None)
    residue = int(columns[:, 0].sum()) % q
    assert consistent_tuples(view, q, 0, residue) == expected[residue] >= 1


def test_views_of_any_leading_shape_and_integer_type_are_counted() -> None:
    columns = np.random.default_rng(2).integers(0, 11, size=(2, 3, 2, 5))
    counts = tuple_counts(columns, 11)
    assert counts.shape == (2, 3, 11)
    for kind in (np.uint8, np.int16, np.uint64, object):
        assert (tuple_counts(columns.astype(kind), 11) == counts).all()
    for i, j in product(range(2), range(3)):
        assert tuple_counts(columns[i, j].tolist(), 11).tolist() == counts[i, j].tolist()
    assert tuple_counts(columns[:0, 0], 11).shape == (0, 11)


def test_largest_modulus_does_not_wrap() -> None:
    q = tuple_counting.MAX_MODULUS
    values = np.array([[q - 1, q - 2], [q - 1, 3], [q - 1, 0]])
    view = View(tuple(values), np.array([q - 1, 0]))
    for value in (q - 4, 0, 1):
        expected = sum(
            (sum(map(int, t)) + q - 1 - value) % q == 0 for t in product(*values.tolist())
        )
        assert consistent_tuples(view, q, 0, value) == expected
    assert consistent_tuples(view, q, 0, q - 4) >= 1


@pytest.mark.points(1)
@pytest.mark.parametrize("clear", [True, False])
def test_true_inputs_are_consistent_with_views_of_the_library(clear: bool) -> None:
    n, q, m = 12, 101, 3
    x = [(i * i) % q for i in range(n)]
    protocol = SecureSum(n, q, messages=m + clear, clear_share=clear)
    rng = DeterministicRandom(901)
    view = protocol.shuffle(protocol.share(x, rng), rng)
    for user in range(n):
        counts = [consistent_tuples(view, q, user, value) for value in range(q)]
        shift = 0 if view.clear is None else int(view.clear[user])
        rolled = np.roll(tuple_counts(np.stack(view.columns), q), shift)
        assert counts == rolled.tolist()
        assert counts[x[user]] >= 1
        assert sum(counts) == n**m


# Exact laws


def messages(n: int, q: int, m: int) -> NDArray[np.int64]:
    """Return all q^(mn) choices of the shuffled messages, (q^(mn), m, n)."""
    cells = np.arange(q ** (m * n))[:, None] // q ** np.arange(m * n)
    return (cells % q).reshape(-1, m, n)


TINY = [(2, 3, 1), (2, 2, 2), (2, 3, 2), (2, 4, 2), (3, 2, 2), (3, 3, 2), (2, 3, 3), (3, 2, 3)]
each_tiny = pytest.mark.parametrize(("n", "q", "m"), [*TINY, (4, 5, 1), (4, 2, 3), (2, 6, 2)])


def exact_statistic(n: int, q: int, m: int, d: int) -> NDArray[np.int64]:
    """Return S under x for every choice of the messages: uniform residues, all of them known."""
    columns = messages(n, q, m)
    return statistic(columns, columns.sum(axis=1)[:, :2] % q, q, d)


def moments(values: NDArray[np.int64]) -> tuple[Fraction, Fraction]:
    size = len(values)
    mean = Fraction(int(values.sum()), size)
    return mean, Fraction(int((values**2).sum()), size) - mean**2


@each_tiny
def test_moments_of_the_count_are_exact(n: int, q: int, m: int) -> None:
    columns = messages(n, q, m)
    counts = tuple_counts(columns, q)
    own = columns.sum(axis=1)[:, 0] % q
    rows = np.arange(len(columns))
    mean, variance = count_moments(n, q, m)
    assert moments(counts[rows, own]) == (mean, variance)
    for other in range(1, q):
        assert moments(counts[rows, (own + other) % q]) == (mean - 1, variance)


@each_tiny
def test_moments_of_the_statistic_are_exact(n: int, q: int, m: int) -> None:
    for d in range(1, q):
        assert moments(exact_statistic(n, q, m, d)) == statistic_moments(n, q, m)


@each_tiny
def test_statistic_is_reflected_under_the_other_input(n: int, q: int, m: int) -> None:
    """Under x' the residues of x are those of the messages less (d, -d)."""
    columns = messages(n, q, m)
    for d in range(1, q):
        residues = (columns.sum(axis=1)[:, :2] - np.array([d, -d])) % q
        reflected = -statistic(columns, residues, q, d)
        assert Counter(reflected.tolist()) == Counter(exact_statistic(n, q, m, d).tolist())


def test_statistic_is_what_its_definition_says_and_blind_to_order() -> None:
    rng = np.random.default_rng(3)
    for n, q, m, d in [(4, 7, 3, 2), (5, 3, 2, 1), (9, 50, 3, -4), (3, 2, 5, 7), (40, 5, 12, 1)]:
        columns, residues = rng.integers(0, q, (20, m, n)), rng.integers(0, q, (20, 2))
        counts = tuple_counts(columns, q)
        expected = [
            c[a] - c[(a + d) % q] + c[b] - c[(b - d) % q]
            for c, (a, b) in zip(counts.tolist(), residues.tolist(), strict=True)
        ]
        assert statistic(columns, residues, q, d).tolist() == expected
        mixed = rng.permuted(columns, axis=2)
        assert statistic(mixed, residues, q, d).tolist() == expected


def exact_advantage(n: int, q: int, m: int, d: int) -> Fraction:
    """Return Pr[S > 0] - Pr[S < 0] under x, by the reflection the attack's advantage."""
    s = exact_statistic(n, q, m, d)
    return Fraction(int((s > 0).sum()) - int((s < 0).sum()), len(s))


def guess_probability(view: Any, x: tuple[int, ...], q: int, m: int, d: int) -> Fraction:
    """Return the chance that the attack guesses x, for one view of `exact.enumeration`."""
    columns, clear = view
    shift = (0, 0) if clear is None else clear[:2]
    residues = np.array([[(x[i] - shift[i]) % q for i in range(2)]])
    s = int(statistic(np.array([columns]), residues, q, d)[0])
    return Fraction(1, 2) if s == 0 else Fraction(int(s > 0))


def advantage_on(first: Law, second: Law, x: tuple[int, ...], q: int, m: int, d: int) -> Fraction:
    return sum(
        (
            (first.get(view, Fraction(0)) - second.get(view, Fraction(0)))
            * guess_probability(view, x, q, m, d)
            for view in first.keys() | second.keys()
        ),
        Fraction(0),
    )


def other_input(x: tuple[int, ...], q: int, d: int) -> tuple[int, ...]:
    return ((x[0] + d) % q, (x[1] - d) % q, *x[2:])


@pytest.mark.points(2)
@pytest.mark.parametrize(("n", "q", "m"), TINY)
def test_advantage_with_a_clear_share_is_below_the_total_variation(n: int, q: int, m: int) -> None:
    """Exactly, from the laws of the whole views; and it does not depend on x."""
    if q ** (n * (m + 1)) > 10**5:
        m -= 1
    for d in range(1, q):
        for x in [(0,) * n, (1,) + (0,) * (n - 2) + (q - 1,)]:
            laws = [view_law(y, q, m, "parallel", True) for y in (x, other_input(x, q, d))]
            gained = advantage_on(*laws, x, q, m, d)
            assert gained == exact_advantage(n, q, m, d)
            assert 0 < gained <= total_variation(*laws)


@pytest.mark.parametrize(("n", "q", "m"), TINY)
def test_advantage_without_a_clear_share_is_below_the_total_variation(
    n: int, q: int, m: int
) -> None:
    """For every x; and its average is that with a clear share."""
    laws = {x: view_law(x, q, m, "parallel", False) for x in product(range(q), repeat=n)}
    gained = []
    for x in laws:
        pair = laws[x], laws[other_input(x, q, 1)]
        gained.append(advantage_on(*pair, x, q, m, 1))
        assert gained[-1] <= total_variation(*pair)
    assert sum(gained) / len(gained) == exact_advantage(n, q, m, 1)


@pytest.mark.parametrize(("n", "q", "m"), TINY)
def test_counts_are_likelihoods_where_the_others_are_uniform(n: int, q: int, m: int) -> None:
    """As fractions: Pr[view | target's value] / Pr[view | uniform messages] = N q / n^m."""
    weights: dict[Any, Fraction] = defaultdict(Fraction)
    for x in product(range(q), repeat=n):
        for view, p in view_law(x, q, m, "parallel", False).items():
            weights[x[0], view] += p / q ** (n - 1)
    uniform = Counter(
        tuple(tuple(sorted(column)) for column in view) for view in messages(n, q, m).tolist()
    )
    for columns, count in uniform.items():
        counts = tuple_counts(np.array(columns), q).tolist()
        for value in range(q):
            likelihood = weights[value, (columns, None)] / Fraction(count, q ** (m * n))
            assert likelihood == counts[value] * Fraction(q, n**m)


# Views drawn


def ordered_law(x: tuple[int, ...], q: int, m: int, clear: bool) -> Law:
    """Return the law of the shufflers' outputs in order, and of the clear shares."""
    law: dict[Any, Fraction] = defaultdict(Fraction)
    choices = list(product(*(list(share_tuples(v, q, m + clear)) for v in x)))
    orders = math.factorial(len(x)) ** m
    for users in choices:
        rows = list(zip(*users, strict=True))
        for mixed in product(*(permutations(row) for row in rows[:m])):
            law[mixed, rows[m] if clear else None] += Fraction(1, len(choices) * orders)
    return dict(law)


Sampler = Callable[..., tuple[Columns, Columns | None]]
DRAWN = [((1, 0), 2, 2, True), ((1, 2), 3, 1, True), ((2, 2), 3, 2, False), ((0, 1, 1), 2, 2, True)]


def check_views_follow_their_law(sample: Sampler) -> None:
    for seed, (x, q, m, clear) in enumerate(DRAWN):
        rng = DeterministicRandom(910 + seed)
        trials = np.tile(np.array(x), (20_000, 1))
        columns, shares = sample(trials, q, m, clear_share=clear, rng=rng)
        outcomes = zip(
            (tuple(map(tuple, view)) for view in columns.tolist()),
            [None] * len(trials) if shares is None else map(tuple, shares.tolist()),
            strict=True,
        )
        assert outcome_p_value(outcomes, ordered_law(x, q, m, clear)) > FALSE_ALARM


@pytest.mark.slow
def test_views_follow_their_law() -> None:
    check_views_follow_their_law(sample_views)


class FewKeys(DeterministicRandom):
    """Fills words with two random bits at the top, so that sort keys tie all the time."""

    def fill(self, out: NDArray[Any]) -> None:
        super().fill(out)
        if out.dtype == np.uint64:
            out >>= np.uint64(62)
            out <<= np.uint64(62)


@pytest.mark.slow
def test_orders_are_uniform_where_keys_tie() -> None:
    """Two bits of key for three messages: most rows tie and are drawn again."""

    def sample(x: Columns, q: int, m: int, *, clear_share: bool, rng: RandomSource) -> Any:
        return sample_views(x, q, m, clear_share=clear_share, rng=FewKeys(920))

    check_views_follow_their_law(sample)


def test_views_add_up_at_any_size() -> None:
    for n, q, m in [(1, 2, 1), (5, tuple_counting.MAX_MODULUS, 3), (300, 1009, 2)]:
        for clear in (True, False):
            x = np.random.default_rng(4).integers(0, q, size=(7, n))
            columns, shares = sample_views(x, q, m, clear_share=clear)
            assert columns.shape == (7, m, n)
            total = columns.astype(np.int64).sum(axis=(1, 2))
            total += 0 if shares is None else shares.astype(np.int64).sum(axis=1)
            assert (total % q == x.sum(axis=1) % q).all()


# Experiments


@pytest.mark.slow
def test_measured_advantage_is_the_exact_one() -> None:
    """The number of right guesses is binomial with the probability (1 + A)/2."""
    for seed, (n, q, m) in enumerate(TINY):
        for d, clear in ((1, True), (q - 1, False)):
            exact = float((1 + exact_advantage(n, q, m, d)) / 2)
            rng = DeterministicRandom(930 + seed)
            found = measure_advantage(n, q, m, 20_000, clear_share=clear, difference=d, rng=rng)
            assert found.trials == 20_000
            right = [found.correct, found.trials - found.correct]
            assert p_value_bound(right, [exact, 1 - exact]) > FALSE_ALARM


@pytest.mark.points(1)
@pytest.mark.parametrize("work", [1, 100, 10**7])
def test_blocks_of_any_size_cover_the_trials(work: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuple_counting, "_ENTRIES_PER_BLOCK", work)
    found = measure_advantage(3, 4, 2, 777, rng=DeterministicRandom(940))
    assert found.trials == 777
    assert 0 <= found.correct <= 777
    assert found.estimate == 2 * found.correct / 777 - 1
    assert (found.n, found.q, found.m, found.confidence) == (3, 4, 2, 0.99)
    sizes = list(tuple_counting._trial_blocks(777, 3, 4, 2))
    assert sum(sizes) == 777
    assert min(sizes) > 0


def proved_bound(n: int, q: int, m: int) -> float:
    """Return sqrt(Delta_A / 2), Delta_A = E[q^(C-1); two users in different components]."""
    return math.sqrt(rational_split(n, q, ShareGraph(m, "parallel", True), 2) / 2)


def test_proved_bound_is_above_the_total_variation_and_the_attack_below() -> None:
    """At tiny sizes, exactly: the attack, the total variation, the second-moment bound."""
    for n, q, m in [(2, 3, 1), (2, 2, 2), (2, 3, 2), (3, 2, 2), (3, 3, 1)]:
        x = (0,) * n
        laws = [view_law(y, q, m, "parallel", True) for y in (x, other_input(x, q, 1))]
        variation = total_variation(*laws)
        assert float(exact_advantage(n, q, m, 1)) <= variation <= proved_bound(n, q, m) + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "q", "m"),
    [(20, 64, 3), pytest.param(10, 64, 4, marks=pytest.mark.slow), (10, 256, 4)],
)
def test_measured_advantage_is_within_a_factor_of_two_of_the_proved_bound(
    n: int, q: int, m: int
) -> None:
    """Where q n^(1-m) is below 1/4, with a confidence of all but `FALSE_ALARM`."""
    found = measure_advantage(
        n, q, m, 200_000, confidence=1 - 2 * FALSE_ALARM, rng=DeterministicRandom(950)
    )
    bound = proved_bound(n, q, m)
    assert bound / 2 < found.lower < found.estimate < found.upper
    assert found.lower < bound
    assert found.scale == pytest.approx(math.sqrt(q / n**m))


def test_experiments_are_reproducible_and_secure_by_default() -> None:
    first, second = (measure_advantage(4, 9, 2, 500, rng=DeterministicRandom(8)) for _ in range(2))
    assert first == second
    assert len({measure_advantage(4, 9, 2, 5000).correct for _ in range(8)}) > 1
    with pytest.raises(TypeError, match="rng must be None"):
        measure_advantage(4, 9, 2, 10, rng=np.random.default_rng())  # type: ignore[arg-type]


@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize(("n", "q", "m"), [(2, 3, 2), (3, 2, 2), (3, 4, 1), (2, 5, 2)])
def test_measured_fluctuation_is_the_exact_one(n: int, q: int, m: int, clear: bool) -> None:
    """By Hoeffding's inequality: the squares lie between 0 and b^2."""
    trials = 100_000
    mean, variance = count_moments(n, q, m)
    by_chance = Fraction(n**m, q)
    largest = float((max(n**m - mean, mean) / by_chance) ** 2)
    found = fluctuation(n, q, m, trials, clear_share=clear, rng=DeterministicRandom(960))
    allowed = largest * math.sqrt(math.log(2 / FALSE_ALARM) / (2 * trials))
    assert abs(found.estimate**2 - float(variance / by_chance**2)) < allowed
    assert found.exact == pytest.approx(math.sqrt((n**m - 1) * (q - 1)) / n**m)
    assert 0 < found.standard_error < allowed
    assert abs(found.estimate - found.exact) < 8 * found.standard_error


def test_fluctuation_of_counts_beyond_words() -> None:
    """n^m above 2^63: Python integers inside, and the same relative law."""
    found = fluctuation(2, 2, 50, 20, rng=DeterministicRandom(961))
    assert found.exact == pytest.approx(2**-25.0)
    huge = fluctuation(10, 2, 25, 20, rng=DeterministicRandom(962))
    assert huge.exact == pytest.approx(10**-12.5)
    assert 0 <= huge.estimate < 1


# Arguments

COLUMNS = (np.array([1, 2]),)
CLEAR = np.array([0, 1])


@pytest.mark.points(16)
@pytest.mark.parametrize(
    ("call", "arguments", "named"),
    [
        (measure_advantage, (1, 5, 2, 10), "n"),
        (measure_advantage, (3, 2**27, 2, 10), "q"),
        (measure_advantage, (3, 5, 2, 0), "trials"),
        (partial(measure_advantage, confidence=1), (3, 5, 2, 10), "confidence"),
        (partial(measure_advantage, clear_share=None), (3, 5, 2, 10), "clear_share"),
        (measure_advantage, (3, 5, 51, 10), "m"),
        (partial(measure_advantage, difference=10), (3, 5, 2, 10), "difference"),
        (tuple_counts, ([1, 2], 3), "columns"),
        (tuple_counts, (np.zeros((2, 0), dtype=int), 3), "columns"),
        (tuple_counts, ([[0, 1], [2, 3]], 3), r"columns\[3\]"),
        (tuple_counts, (np.zeros((2, 2)), 3), "columns"),
        (consistent_tuples, (View((np.array([1, 2, 0, 1]),), CLEAR), 3, 0, 1), "view"),
        (consistent_tuples, (View((), CLEAR), 3, 0, 1), "view"),
        (consistent_tuples, (View(COLUMNS, CLEAR), 3, 2, 1), "user"),
        (consistent_tuples, (View(COLUMNS, CLEAR), 3, 0, 3), "value"),
        (consistent_tuples, ([[1, 2]], 3, 0, 1), "view"),
    ],
)
def test_refusals(call: Callable[..., Any], arguments: tuple[Any, ...], named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{named} must"):
        call(*arguments)


def test_nothing_that_protects_data_imports_attacks() -> None:
    root = Path(ikos.__file__).parent
    for folder in ("counts", "aggregation"):
        for path in (root / folder).glob("*.py"):
            assert "ikos.attacks" not in path.read_text(), path
