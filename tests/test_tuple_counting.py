"""The tuple-counting attack: its counts, its exact laws at tiny sizes, and its experiments."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
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
from ikos.attacks import measure_advantage, tuple_counting
from ikos.attacks.tuple_counting import Advantage, _counts, _statistic, _views
from ikos.modular import Zq
from ikos.randomness import RandomSource, secure
from ikos.sharing import split
from ikos.testing import DeterministicRandom

Columns = NDArray[Any]


def statistic(columns: Columns, residues: NDArray[Any], q: int) -> NDArray[Any]:
    """Return S for each view, of arrays of any integers."""
    return _statistic(columns.astype(np.uint32), residues.astype(np.int64), q)


def tuple_counts(columns: Columns, q: int) -> NDArray[np.int64]:
    """Return N(r) for every residue, (trials, q)."""
    every = np.tile(np.arange(q), (len(columns), 1))
    return _counts(columns.astype(np.uint32), q, every)


def statistic_moments(n: int, q: int, m: int) -> tuple[Fraction, Fraction]:
    """Return the mean and the variance of S under x, as proved."""
    return Fraction(2), Fraction(4 * (n**m + 2**m - 2), q)


def sample_views(
    hidden: NDArray[Any], n: int, q: int, m: int, rng: RandomSource | None = None
) -> tuple[Columns, NDArray[np.uint32]]:
    """Draw what the analyzer sees."""
    return _views(hidden.astype(np.uint32), n, Zq(q), m, secure(rng))


# Counts


def by_enumeration(columns: Any, q: int) -> list[int]:
    tally = Counter(int(sum(int(v) for v in t)) % q for t in product(*columns))
    return [tally[r] for r in range(q)]


def check_counts_are_those_of_all_tuples(count: Callable[[Columns, int], Any]) -> None:
    """Few residues and many, so that every way of counting is taken."""
    rng = np.random.default_rng(1)
    for n, m, q in product((1, 2, 3, 7), (1, 2, 3, 4), (2, 3, 4, 8, 60)):
        columns = rng.integers(0, q, size=(3, m, n))
        columns[0] = q - 1
        counted = np.asarray(count(columns, q))
        assert counted.shape == (3, q)
        assert counted.tolist() == [by_enumeration(c, q) for c in columns.tolist()]


def plain(columns: Columns, q: int) -> Columns:
    """Multiply the columns' histograms as polynomials, and fold: what a mutant changes."""
    out = []
    for view in columns:
        counts = np.eye(1, q, dtype=np.int64)[0]
        for column in view:
            h = np.bincount(column, minlength=q)
            full = np.convolve(counts, h)
            counts = full[:q] + np.concatenate([full[q:], np.zeros(1, dtype=np.int64)])
        out.append(counts)
    return np.array(out)


def without_wrapping(columns: Columns, q: int) -> Columns:
    """Sums that are not reduced, and lost beyond q."""
    out = []
    for view in columns:
        counts = np.eye(1, q, dtype=np.int64)[0]
        for column in view:
            counts = np.convolve(counts, np.bincount(column, minlength=q))[:q]
        out.append(counts)
    return np.array(out)


def reflected(columns: Columns, q: int) -> Columns:
    """Counts of differences in place of sums."""
    return np.asarray(plain(columns, q)[:, (-np.arange(q)) % q])


def by_value(columns: Columns, q: int) -> Columns:
    """Equal messages counted once."""
    hidden = [[sorted(set(column.tolist())) for column in view] for view in columns]
    return np.array([by_enumeration(view, q) for view in hidden])


@pytest.mark.parametrize("count", [tuple_counts, plain])
def test_counts_are_those_of_all_tuples(count: Callable[[Columns, int], Any]) -> None:
    check_counts_are_those_of_all_tuples(count)


@pytest.mark.parametrize("mutant", [without_wrapping, reflected, by_value])
def test_wrong_counts_are_caught(mutant: Callable[[Columns, int], Any]) -> None:
    with pytest.raises(AssertionError):
        check_counts_are_those_of_all_tuples(mutant)


@given(
    n=st.integers(2, 20),
    m=st.integers(1, 8),
    q=st.integers(2, 300),
    seed=st.integers(0, 2**32 - 1),
)
def test_counts_of_any_size_are_exact(n: int, m: int, q: int, seed: int) -> None:
    """The reference multiplies polynomials packed into integers."""
    m = min(m, 4 if n > 8 else 8)
    columns = np.random.default_rng(seed).integers(0, q, size=(m, n))
    counts = tuple_counts(columns[None], q)[0]
    digits = (n**m).bit_length() + 1
    product_of_all = 1
    for column in columns.tolist():
        product_of_all *= sum(1 << (digits * v) for v in column)
    expected = [0] * q
    for r in range(m * (q - 1) + 1):
        expected[r % q] += product_of_all >> (digits * r) & ((1 << digits) - 1)
    assert counts.tolist() == expected
    assert sum(counts.tolist()) == n**m


def test_largest_modulus_does_not_wrap() -> None:
    q = tuple_counting.MAX_MODULUS
    values = np.array([[q - 1, q - 2], [q - 1, 3], [q - 1, 0]])
    residues = np.array([[q - 3, 0, 1]])
    expected = [
        sum((sum(map(int, t)) - r) % q == 0 for t in product(*values.tolist()))
        for r in residues[0].tolist()
    ]
    assert _counts(values[None].astype(np.uint32), q, residues).tolist() == [expected]
    assert expected[0] >= 1


# Exact laws


def messages(n: int, q: int, m: int) -> NDArray[np.int64]:
    """Return all q^(mn) choices of the shuffled messages, (q^(mn), m, n)."""
    cells = np.arange(q ** (m * n))[:, None] // q ** np.arange(m * n)
    return (cells % q).reshape(-1, m, n)


TINY = [(2, 3, 1), (2, 2, 2), (2, 3, 2), (2, 4, 2), (3, 2, 2), (3, 3, 2), (2, 3, 3), (3, 2, 3)]
each_tiny = pytest.mark.parametrize(("n", "q", "m"), [*TINY, (4, 5, 1), (4, 2, 3), (2, 6, 2)])


def exact_statistic(n: int, q: int, m: int) -> NDArray[np.int64]:
    """Return S under x for every choice of the messages: uniform residues, all of them known."""
    columns = messages(n, q, m)
    return statistic(columns, columns.sum(axis=1)[:, :2] % q, q)


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
    mean = 1 + Fraction(n**m - 1, q)
    variance = Fraction((n**m - 1) * (q - 1), q * q)
    assert moments(counts[rows, own]) == (mean, variance)
    for other in range(1, q):
        assert moments(counts[rows, (own + other) % q]) == (mean - 1, variance)


@each_tiny
def test_moments_of_the_statistic_are_exact(n: int, q: int, m: int) -> None:
    assert moments(exact_statistic(n, q, m)) == statistic_moments(n, q, m)


@each_tiny
def test_statistic_is_reflected_under_the_other_input(n: int, q: int, m: int) -> None:
    """Under x' the residues of x are those of the messages less (1, -1)."""
    columns = messages(n, q, m)
    residues = (columns.sum(axis=1)[:, :2] - np.array([1, -1])) % q
    reflected = -statistic(columns, residues, q)
    assert Counter(reflected.tolist()) == Counter(exact_statistic(n, q, m).tolist())


def test_statistic_is_what_its_definition_says_and_blind_to_order() -> None:
    rng = np.random.default_rng(3)
    for n, q, m in [(4, 7, 3), (5, 3, 2), (9, 50, 3), (3, 2, 5), (40, 5, 4)]:
        columns, residues = rng.integers(0, q, (20, m, n)), rng.integers(0, q, (20, 2))
        counts = tuple_counts(columns, q)
        expected = [
            c[a] - c[(a + 1) % q] + c[b] - c[(b - 1) % q]
            for c, (a, b) in zip(counts.tolist(), residues.tolist(), strict=True)
        ]
        assert statistic(columns, residues, q).tolist() == expected
        mixed = rng.permuted(columns, axis=2)
        assert statistic(mixed, residues, q).tolist() == expected


def exact_advantage(n: int, q: int, m: int) -> Fraction:
    """Return Pr[S > 0] - Pr[S < 0] under x, by the reflection the attack's advantage."""
    s = exact_statistic(n, q, m)
    return Fraction(int((s > 0).sum()) - int((s < 0).sum()), len(s))


def guess_probability(view: Any, x: tuple[int, ...], q: int) -> Fraction:
    """Return the chance that the attack guesses x, for one view of `exact.enumeration`."""
    columns, clear = view
    residues = np.array([[(x[i] - clear[i]) % q for i in range(2)]])
    s = int(statistic(np.array([columns]), residues, q)[0])
    return Fraction(1, 2) if s == 0 else Fraction(int(s > 0))


def other_input(x: tuple[int, ...], q: int) -> tuple[int, ...]:
    return ((x[0] + 1) % q, (x[1] - 1) % q, *x[2:])


@pytest.mark.points(2)
@pytest.mark.parametrize(("n", "q", "m"), TINY)
def test_advantage_is_below_the_total_variation(n: int, q: int, m: int) -> None:
    """Exactly, from the laws of the whole views; and it does not depend on x."""
    if q ** (n * (m + 1)) > 10**5:
        m -= 1
    for x in [(0,) * n, (1,) + (0,) * (n - 2) + (q - 1,)]:
        first, second = (view_law(y, q, m, "parallel", True) for y in (x, other_input(x, q)))
        gained = Fraction(0)
        for view in first.keys() | second.keys():
            change = first.get(view, Fraction(0)) - second.get(view, Fraction(0))
            gained += change * guess_probability(view, x, q)
        assert gained == exact_advantage(n, q, m)
        assert 0 < gained <= total_variation(first, second)


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
        counts = tuple_counts(np.array([columns]), q)[0].tolist()
        for value in range(q):
            likelihood = weights[value, (columns, None)] / Fraction(count, q ** (m * n))
            assert likelihood == counts[value] * Fraction(q, n**m)


# Views drawn


def ordered_law(x: tuple[int, ...], q: int, m: int) -> Law:
    """Return the law of the shufflers' outputs in order, and of the clear shares."""
    law: dict[Any, Fraction] = defaultdict(Fraction)
    choices = list(product(*(list(share_tuples(v, q, m + 1)) for v in x)))
    orders = math.factorial(len(x)) ** m
    for users in choices:
        rows = list(zip(*users, strict=True))
        for mixed in product(*(permutations(row) for row in rows[:m])):
            law[mixed, rows[m]] += Fraction(1, len(choices) * orders)
    return dict(law)


Sampler = Callable[..., tuple[Columns, Columns]]
DRAWN = [(0, 2, 2, 2), (1, 2, 3, 1), (1, 2, 3, 2), (1, 3, 2, 2)]


def check_views_follow_their_law(sample: Sampler) -> None:
    for seed, (hidden, n, q, m) in enumerate(DRAWN):
        rng = DeterministicRandom(910 + seed)
        columns, shares = sample(np.full(20_000, hidden), n, q, m, rng)
        outcomes = zip(
            (tuple(map(tuple, view)) for view in columns.tolist()),
            map(tuple, shares.tolist()),
            strict=True,
        )
        x = (hidden, hidden * (q - 1), *(0,) * (n - 2))
        assert outcome_p_value(outcomes, ordered_law(x, q, m)) > FALSE_ALARM


def unshuffled(hidden: Columns, n: int, q: int, m: int, rng: RandomSource) -> Any:
    """Messages in the users' order."""
    x = np.zeros((hidden.size, n), dtype=np.uint32)
    x[:, 0], x[:, 1] = hidden, hidden * (q - 1)
    rows = np.swapaxes(split(x.reshape(-1), Zq(q), m + 1, rng).reshape(m + 1, *x.shape), 0, 1)
    return rows[:, :m], rows[:, m]


def in_order(hidden: Columns, n: int, q: int, m: int, rng: RandomSource) -> Any:
    """Messages sorted: the same multisets, in no random order."""
    columns, clear = sample_views(hidden, n, q, m, rng)
    return np.sort(columns, axis=2), clear


def small_shares(hidden: Columns, n: int, q: int, m: int, rng: RandomSource) -> Any:
    """A clear share that is never the largest element."""
    columns, clear = sample_views(hidden, n, q, m, rng)
    return columns, np.minimum(clear, q - 2)


def repeated(hidden: Columns, n: int, q: int, m: int, rng: RandomSource) -> Any:
    """Sixteen trials of the same view, again and again."""
    columns, clear = sample_views(hidden[::16], n, q, m, rng)
    return np.repeat(columns, 16, 0), np.repeat(clear, 16, 0)


def test_views_follow_their_law() -> None:
    check_views_follow_their_law(sample_views)


@pytest.mark.points(1)
@pytest.mark.parametrize("mutant", [unshuffled, in_order, small_shares, repeated])
def test_views_of_another_law_are_caught(mutant: Sampler) -> None:
    with pytest.raises(AssertionError):
        check_views_follow_their_law(mutant)


def test_views_add_up_at_any_size() -> None:
    for n, q, m in [(2, 2, 1), (5, tuple_counting.MAX_MODULUS, 3), (300, 1009, 2)]:
        columns, shares = sample_views(np.arange(7) % 2, n, q, m)
        assert columns.shape == (7, m, n)
        total = columns.astype(np.int64).sum(axis=(1, 2)) + shares.astype(np.int64).sum(axis=1)
        assert (total % q == 0).all()


# Experiments

Experiment = Callable[..., Advantage]


def check_advantage_is_the_exact_one(measure: Experiment) -> None:
    """The number of right guesses is binomial with the probability (1 + A)/2."""
    for seed, (n, q, m) in enumerate(TINY):
        exact = float((1 + exact_advantage(n, q, m)) / 2)
        found = measure(n, q, m, 20_000, rng=DeterministicRandom(930 + seed))
        assert found.trials == 20_000
        right = [found.correct, found.trials - found.correct]
        assert p_value_bound(right, [exact, 1 - exact]) > FALSE_ALARM


def test_measured_advantage_is_the_exact_one() -> None:
    check_advantage_is_the_exact_one(measure_advantage)


def _patched(name: str, replacement: Any) -> Experiment:
    def measure(*args: Any, **options: Any) -> Advantage:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tuple_counting, name, replacement)
            return measure_advantage(*args, **options)

    return measure


def always_x(columns: Any, clear: Any, q: int, rng: RandomSource) -> Any:
    return np.zeros(len(columns), dtype=np.uint32)


def user_1_twice(hidden: Any, n: int, group: Zq, m: int, rng: RandomSource) -> Any:
    """The last message of each shuffler is the first again: user 1 is easier to find."""
    columns, clear = unshuffled(hidden, n, group.q, m, rng)
    columns[:, :, -1] = columns[:, :, 0]
    return columns, clear


def clear_shares_negated(hidden: Any, n: int, group: Zq, m: int, rng: RandomSource) -> Any:
    """The clear shares added in place of taken off."""
    columns, clear = _views(hidden, n, group, m, rng)
    return columns, (np.uint32(group.q) - clear) % np.uint32(group.q)


def clear_shares_left_out(hidden: Any, n: int, group: Zq, m: int, rng: RandomSource) -> Any:
    columns, clear = _views(hidden, n, group, m, rng)
    return columns, np.zeros_like(clear)


MUTANTS = {
    "user 1 twice": _patched("_views", user_1_twice),
    "always x": _patched("_guess", always_x),
    "clear shares added": _patched("_views", clear_shares_negated),
    "clear shares left out": _patched("_views", clear_shares_left_out),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_experiments_that_are_wrong_are_caught(mutant: Experiment) -> None:
    with pytest.raises(AssertionError):
        check_advantage_is_the_exact_one(mutant)


@pytest.mark.parametrize("work", [1, 100, 10**7])
def test_blocks_of_any_size_cover_the_trials(work: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuple_counting, "_WORK", work)
    found = measure_advantage(3, 4, 2, 777, rng=DeterministicRandom(940))
    assert found.trials == 777
    assert 0 <= found.correct <= 777
    assert found.estimate == 2 * found.correct / 777 - 1
    assert (found.n, found.q, found.m, found.confidence) == (3, 4, 2, 0.99)


def proved_bound(n: int, q: int, m: int) -> float:
    """Return sqrt(Delta_A / 2), Delta_A = E[q^(C-1); two users in different components].

    By the component of one user, exactly: C counts the components of the graph with an edge from
    each user to the sender of the message in its place, in the output of each of m shufflers.
    """
    connected, excess = [Fraction(0)], [Fraction(0)]
    apart = Fraction(0)
    for k in range(1, n + 1):
        # The component of the first of k users has s < k of them, and it is a component.
        own = {s: Fraction(s, k * math.comb(k, s) ** (m - 1)) * connected[s] for s in range(1, k)}
        powers = {s: p * q * (1 + excess[k - s]) for s, p in own.items()}
        apart = sum((p * Fraction(k - s, k - 1) for s, p in powers.items()), Fraction(0))
        connected.append(1 - sum(own.values()))
        excess.append(sum(powers.values()) - sum(own.values()))
    return math.sqrt(apart / 2)


def test_proved_bound_is_above_the_total_variation_and_the_attack_below() -> None:
    """At tiny sizes, exactly: the attack, the total variation, the second-moment bound."""
    for n, q, m in [(2, 3, 1), (2, 2, 2), (2, 3, 2), (3, 2, 2), (3, 3, 1)]:
        x = (0,) * n
        laws = [view_law(y, q, m, "parallel", True) for y in (x, other_input(x, q))]
        variation = total_variation(*laws)
        assert float(exact_advantage(n, q, m)) <= variation <= proved_bound(n, q, m) + 1e-12


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


# Arguments


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"n": 1}, ValueError, "n must be"),
        ({"q": 2**27}, ValueError, "q must be"),
        ({"m": 30}, ValueError, "m must be smaller for 3 users"),
        ({"trials": 0}, ValueError, "trials must be"),
        ({"confidence": 1}, ValueError, "confidence must be"),
        ({"q": 2.0}, TypeError, "q must be"),
    ],
)
def test_bad_arguments_are_named_and_quoted(
    arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    good: dict[str, Any] = {"n": 3, "q": 5, "m": 2, "trials": 10}
    with pytest.raises(error, match=said):
        measure_advantage(**{**good, **arguments})


def test_nothing_that_protects_data_imports_attacks() -> None:
    root = Path(ikos.__file__).parent
    for folder in ("counts", "aggregation"):
        for path in (root / folder).glob("*.py"):
            assert "ikos.attacks" not in path.read_text(), path
