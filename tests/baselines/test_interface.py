"""What every protocol for sums must do: the same tests on each of `suite.CASES`."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
from baselines.suite import (
    CASES,
    DATA,
    FALSE_ALARM,
    NUMBERS,
    VECTORS,
    Case,
    attack,
    bias_allowed,
    canonical,
    careless,
    clipped_mean,
    data_sets,
    inputs,
    mean_square,
    reported,
    sample,
)
from numpy.typing import NDArray
from scipy import stats

import ikos
import ikos.baselines
from ikos import PrivateSum, View
from ikos.baselines import Baseline, SumProtocol
from ikos.results.guarantees import Guarantee
from ikos.results.sums import SumResult
from ikos.testing import DeterministicRandom

RUNS = 600

of_each = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
of_numbers = pytest.mark.parametrize("case", NUMBERS.values(), ids=NUMBERS.keys())


def flat(result: Any) -> NDArray[np.float64]:
    return np.atleast_1d(result.estimate)


def takes(case: Case, name: str) -> bool:
    return name in inspect.signature(type(case.small())).parameters


@pytest.mark.slow
def test_every_protocol_is_registered() -> None:
    concrete = {
        item
        for item in map(ikos.baselines.__dict__.get, ikos.baselines.__all__)
        if isinstance(item, type) and issubclass(item, Baseline) and not inspect.isabstract(item)
    }
    concrete |= {PrivateSum, ikos.PrivateVectorSum}
    assert {type(case.small()) for case in CASES.values()} == concrete


@pytest.mark.slow
@of_each
def test_has_the_members_of_the_interface(case: Case) -> None:
    protocol, n = case.small(), case.few
    assert isinstance(protocol, SumProtocol)
    assert protocol.n == n
    assert 1 <= protocol.min_honest <= n
    assert 0 < protocol.mse < math.inf
    domain = protocol.domain
    assert protocol.influence >= (domain.upper - domain.lower) * 0.999 / 2
    error, cost = protocol.error(n), protocol.cost()
    assert 0 <= error.sampling <= error.mean_square == protocol.mse
    each = error.coordinate.mean_square
    assert each <= error.mean_square * (1 + 1e-12)
    assert error.mean_square <= protocol.domain.dimension * each * 1.0001
    assert cost == protocol.cost(n)
    assert cost.users == n
    assert min(cost.messages_per_user, cost.bits_per_message) > 0
    assert protocol.cost(3).messages == pytest.approx(3 * cost.messages_per_user)
    guarantee = protocol.guarantee
    assert isinstance(guarantee, Guarantee)
    assert guarantee.proved
    assert 0 < guarantee.epsilon <= 6
    assert 0 <= guarantee.delta <= 0.01
    assert len(guarantee.theorem) > 10
    assert any("every further release" in condition.text for condition in guarantee.conditions)


@pytest.mark.slow
@of_each
def test_objects_are_values_and_travel(case: Case) -> None:
    protocol, same = case.small(), case.make(case.few)
    assert protocol == same
    assert hash(protocol) == hash(same)
    assert protocol != case.make(case.few + 1)
    for field in dataclasses.fields(protocol):
        # a field named as an attribute of a base class would have that for a default
        assert field.default is dataclasses.MISSING
        assert field.name in vars(protocol)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(protocol, field.name, None)
    for twin in (pickle.loads(pickle.dumps(protocol)), copy.deepcopy(protocol)):
        assert twin == protocol
    text = repr(protocol)
    assert text.startswith(f"<{type(protocol).__name__} n={case.few}")
    assert "Fraction(" not in text
    result = protocol.run(inputs(protocol, case.few))
    assert pickle.loads(pickle.dumps(result)) == result


@of_each
def test_result_says_what_was_run(case: Case) -> None:
    protocol = case.small()
    x = inputs(protocol, case.few)
    result = protocol.run(x)
    low, high = result.interval(1 - FALSE_ALARM, simultaneous=True)
    assert np.all((low <= x.sum(axis=0)) & (x.sum(axis=0) <= high))
    assert isinstance(result, SumResult)
    assert (result.users, result.domain, result.cost) == (
        case.few,
        protocol.domain,
        protocol.cost(),
    )
    assert result.guarantee == protocol.guarantee
    assert result.standard_error == pytest.approx(math.sqrt(protocol.mse))
    assert np.all(result.mean() == result.estimate / case.few)
    assert np.shape(result.estimate) == (
        (protocol.domain.dimension,) if case in VECTORS.values() else ()
    )
    assert protocol.guarantee.theorem in str(result)
    assert "array" not in str(result)
    (low, high), wider = result.interval(0.9), result.interval(0.99)
    assert np.all((wider.low <= low) & (low < result.estimate))
    assert np.all((result.estimate < high) & (high <= wider.high))
    assert np.all(result.interval(0.9, simultaneous=True).low <= low)
    assert np.allclose(result.mean_interval(0.9).low, low / case.few)


@pytest.mark.points(1)
@of_each
def test_randomness_is_secure_by_default_and_seeds_decide_all(case: Case) -> None:
    protocol = case.small()
    x = inputs(protocol, case.few)
    assert len({repr(protocol.run(x).estimate) for _ in range(40)}) > 1
    runs = [protocol.run(x, DeterministicRandom(seed)) for seed in (3, 3, *range(9))]
    assert (flat(runs[0]) == flat(runs[1])).all()
    assert len({flat(run).tobytes() for run in runs}) > 2
    assert "NOT for this run" in runs[0].guarantee.conditions[0].text
    assert runs[0].guarantee.conditions[1:] == protocol.guarantee.conditions
    for call, given in ((protocol.run, x), (protocol.randomize, x), (protocol.report, x[0])):
        with pytest.raises(TypeError, match="rng"):
            call(given, np.random.default_rng(0))


@pytest.mark.points(1)
@of_each
def test_parts_make_the_result_of_run(case: Case) -> None:
    """Same seed, same estimate, unless fewer passes take another order of draws."""
    protocol = case.small()
    x, rng = inputs(protocol, case.few), DeterministicRandom(1)
    messages = protocol.randomize(x, rng)
    kept = messages.copy()
    view = protocol.shuffle(messages, rng)
    assert (messages == kept).all()
    arrays = [*view.columns, *(() if view.clear is None else (view.clear,))]
    assert not any(np.shares_memory(array, messages) for array in arrays)
    assert not any(array.flags.writeable for array in arrays)
    own = {name for base in type(protocol).__mro__ if base is not Baseline for name in vars(base)}
    if not {"_play", "_view"} & own:
        run = protocol.run(x, DeterministicRandom(1))
        assert (flat(protocol.analyze(view)) == flat(run)).all()


@of_each
def test_cost_is_what_randomize_returns(case: Case) -> None:
    protocol = case.small()
    x, cost = inputs(protocol, case.few), protocol.cost()
    messages = protocol.randomize(x, DeterministicRandom(4))
    report = reported(protocol, x[0])
    assert messages.shape[1] == case.few
    assert report.dtype == messages.dtype
    assert isinstance(cost.messages_per_user, float if case.ragged else int)
    if cost.fixed and x.ndim == 1:
        assert report.size == cost.messages_per_user
        assert max(abs(int(message)) for message in messages.flat).bit_length() <= (
            cost.bits_per_message
        )
    if case.ragged:
        largest = max(abs(int(v)) for v in messages.flat)
        assert (largest - (x.ndim > 1)).bit_length() <= cost.bits_per_message
        return
    assert report.shape == (messages.shape[0], *messages.shape[2:])
    # the third axis, where there is one, is that of the coordinates: each a message, or one for all
    sent = messages.size // case.few
    assert sent in (cost.messages_per_user, cost.messages_per_user * protocol.domain.dimension)
    if x.ndim == 1:
        # a row of each kind has bits of its own, of which the cost is the mean
        bits = sum(max(abs(int(value)) for value in row).bit_length() for row in messages)
        assert bits <= cost.bits_per_user + 1e-9


@of_each
def test_who_sent_what_leaves_no_trace(case: Case) -> None:
    """Permuted users, the same messages: the same multisets, and the same estimate."""
    protocol = case.small()
    messages = protocol.randomize(inputs(protocol, case.few), DeterministicRandom(13))
    order = np.random.default_rng(0).permutation(case.few)
    first = protocol.shuffle(messages, DeterministicRandom(14))
    for how in ("sorted", "permuted"):
        second = protocol.shuffle(messages[:, order], DeterministicRandom(14), order=how)
        if first.columns and first.columns[0].size >= case.few:
            assert canonical(first) == canonical(second, order)
        assert flat(protocol.analyze(first)) == pytest.approx(flat(protocol.analyze(second)))


# Wrong inputs: each kind is refused where it is decided, and here that the protocol asks there


@of_each
def test_wrong_values_are_refused_not_clipped(case: Case) -> None:
    protocol = case.small()
    x = inputs(protocol, case.few)
    for value in (math.nan, math.inf, 1e9):
        wrong = x.copy()
        wrong[(1, 0)[: x.ndim]] = value
        for call in (protocol.run, protocol.randomize):
            with pytest.raises(ValueError, match=r"x\[1.* must"):
                call(wrong)
        with pytest.raises(ValueError, match=r"x\[0.* must"):
            protocol.report(wrong[1])
    masked = np.ma.masked_array(x, x == x.flat[0])
    for given in (x[..., np.newaxis], x.astype(str), x.astype(complex), masked):
        with pytest.raises((TypeError, ValueError), match=r"x(\[.*\])? must"):
            protocol.run(given)
    for one in ("0.5", x[:2], [None] * protocol.domain.dimension):
        with pytest.raises((TypeError, ValueError), match="x"):
            protocol.report(one)


@of_each
def test_too_few_and_too_many_users_are_refused(case: Case) -> None:
    protocol = case.small()
    for users in {0, protocol.min_honest - 1, case.few + 1}:
        for call in (protocol.run, protocol.randomize):
            with pytest.raises(ValueError, match=f"x must hold .*, got {users}"):
                call(inputs(protocol, users + 2)[:users])
    for ask in (protocol.cost, protocol.error):
        for wrong, error in ((0, ValueError), (case.few + 1, ValueError), (2.5, TypeError)):
            with pytest.raises(error, match=f"^users must .*{wrong}"):
                ask(wrong)


@pytest.mark.points(1)
@of_each
def test_min_honest_is_how_few_are_taken(case: Case) -> None:
    """By shufflers and analyzer each: one that would refuse the view has seen it by then."""
    if not takes(case, "min_honest"):
        assert case.small().min_honest in (1, case.few)
        return
    honest = case.few - 2
    protocol, alone = case.small(min_honest=honest), case.make(honest)
    assert protocol.min_honest == honest
    # each adds as much noise, and sends as much, as if there were no more than the honest ones
    assert protocol.mse / protocol.n >= alone.mse / honest * (1 - 1e-9)
    assert protocol.cost().messages_per_user >= alone.cost().messages_per_user * (1 - 1e-9)
    x = inputs(protocol, honest)
    result = protocol.run(x)
    assert result.users == result.cost.users == honest
    with pytest.raises(ValueError, match="min_honest"):
        protocol.run(x[1:])
    messages = protocol.randomize(x)
    with pytest.raises(ValueError, match=r"(messages|shares) must hold .*min_honest"):
        protocol.shuffle(messages[:, 1:])
    view = careless(protocol, honest - 1).shuffle(messages[:, 1:])
    with pytest.raises(ValueError, match=r"view must hold .*min_honest"):
        protocol.analyze(view)
    for wrong in (0, case.few + 1):
        with pytest.raises(ValueError, match="min_honest"):
            case.small(min_honest=wrong)


@of_each
def test_what_is_no_message_or_view_is_refused(case: Case) -> None:
    protocol = case.small()
    messages = protocol.randomize(inputs(protocol, case.few))
    with pytest.raises(TypeError, match="must be a numpy array"):
        protocol.shuffle(messages.tolist())
    with pytest.raises(ValueError, match="order must be one of"):
        protocol.shuffle(messages, order="as they came")
    wrong = [messages[0], np.repeat(messages, 2, axis=1)]
    if not case.ragged:
        wrong += [np.empty((0, case.few), messages.dtype), np.repeat(messages, 97, axis=0)]
    if case.forged is not None and messages.dtype.kind != "V":  # `influence` rests on that
        made = case.attacked() if case.attacked else protocol
        honest = made.randomize(inputs(made, made.n))
        forged = case.forged(made, honest[:, 0])
        honest[0, 0] = max(int(column.max()) for column in forged) + 1
        with pytest.raises(ValueError, match=r"messages|shares|view"):
            made.analyze(made.shuffle(honest))
    for broken in wrong:
        with pytest.raises(ValueError, match=r"messages|shares|view"):
            protocol.analyze(protocol.shuffle(broken))
    view, longer = protocol.shuffle(messages), np.arange(case.few + 1, dtype=np.int64)
    odd = np.array([(1 << 63) - 1] * case.few, dtype=np.int64)
    for columns, clear in (
        ((), None),
        ((longer,) * 97, None),
        ((longer,), longer),
        ((odd,) * 7, None),
        ((*view.columns, longer), view.clear),
        *([(view.columns[:-1], view.clear)] if view.columns else []),
        *([(view.columns, None)] if view.clear is not None else []),
    ):
        with pytest.raises(ValueError, match="view"):
            protocol.analyze(View(columns, clear))
    for other in (None, view.columns):
        with pytest.raises(TypeError, match="view must be a View"):
            protocol.analyze(other)


# What is estimated


@of_numbers
def test_bounds_are_a_change_of_units(case: Case) -> None:
    """Quarters are mapped without rounding, from [-4, 12] as from [0, 1]."""
    x = np.arange(case.few) % 5 / 4
    unit, wide = case.small(), case.small(lower=-4, upper=12)
    assert unit != wide
    assert wide.mse == pytest.approx(256 * unit.mse)
    assert wide.influence == 16 * unit.influence
    assert wide.cost() == unit.cost()
    assert wide.guarantee == unit.guarantee
    result = wide.run(16 * x - 4, DeterministicRandom(5))
    parts = unit.run(x, DeterministicRandom(5))
    assert result.estimate == pytest.approx(16 * parts.estimate - 4 * case.few)
    assert (result.lower, result.upper) == (-4, 12)
    assert result.standard_error == pytest.approx(16 * parts.standard_error)
    reach = np.diff(result.interval())[0]
    assert reach == pytest.approx(16 * np.diff(parts.interval())[0])


def together(protocol: Any, x: NDArray[np.float64], rng: DeterministicRandom) -> NDArray[Any]:
    """Return all users' messages, each user's made by itself."""
    designated = "designated" in inspect.signature(protocol.report).parameters
    first = {"designated": True} if designated else {}
    made = [reported(protocol, x[0], rng, **first), *(reported(protocol, v, rng) for v in x[1:])]
    padded = np.zeros((max(map(len, made)), len(made), *made[0].shape[1:]), dtype=made[0].dtype)
    for i, messages in enumerate(made):
        padded[: len(messages), i] = messages
    return padded


@pytest.mark.slow
@of_each
def test_parts_and_run_have_the_same_distribution(case: Case) -> None:
    """Two samples of n have empirical laws d or more apart with probability at most e exp(-n d^2).

    Wei and Dudley, *Two-sample Dvoretzky-Kiefer-Wolfowitz inequalities*, 2012, for n >= 4.
    """
    protocol, runs = case.small(), 80
    x, rng = inputs(protocol, case.few), DeterministicRandom(2)
    whole = np.array([flat(protocol.run(x, rng)) for _ in range(runs)])
    weights = np.arange(1, whole.shape[1] + 1)
    for make in (protocol.randomize, lambda x, rng: together(protocol, x, rng)):
        found = (protocol.shuffle(make(x, rng), rng, order="permuted") for _ in range(runs))
        parts = np.array([flat(protocol.analyze(view)) for view in found])
        for summary in (lambda e: e[:, 0], lambda e: e @ weights):
            apart = stats.ks_2samp(summary(whole), summary(parts), method="asymp").statistic
            assert math.exp(1 - runs * apart**2) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("name", NUMBERS)
def test_errors_are_as_stated(name: str) -> None:
    """On every data set: unbiased, covered, and of a mean square that is reached on some."""
    highest = 0.0
    for data in DATA:
        drawn = sample(name, data, RUNS)
        mse = drawn.protocol.mse
        mean = abs(clipped_mean(drawn.errors, mse))
        assert CASES[name].biased or mean <= bias_allowed(mse, RUNS), data
        low, high = mean_square(drawn.errors, mse)
        assert low <= 1, data
        highest = max(highest, high)
        for confidence in (0.5, 0.95):
            low, high = drawn.result.interval(confidence)
            missed = int((np.abs(drawn.errors) > (high - low) / 2).sum())
            assert stats.binom(RUNS, 1 - confidence).sf(missed - 1) > FALSE_ALARM, data
    assert highest >= CASES[name].tight


def test_the_checks_find_a_bias_and_a_mean_square_that_is_too_large() -> None:
    """A shift by a standard deviation, and errors that are three times as large as stated."""
    errors = np.random.default_rng(0).laplace(size=400)
    errors /= math.sqrt(np.mean(errors**2))
    assert abs(clipped_mean(errors, 1)) <= bias_allowed(1, 400)
    assert abs(clipped_mean(errors + 1, 1)) > bias_allowed(1, 400)
    assert mean_square(errors, 1)[0] <= 1 < mean_square(3 * errors, 1)[0]


GROUPS, EACH = 50, 9


@cache
def errors_of(name: str) -> tuple[NDArray[np.float64], list[SumResult]]:
    """Return the errors of independent runs, and the first and the last results."""
    protocol = CASES[name].small()
    x, rng = inputs(protocol, protocol.n), DeterministicRandom(5)
    results = [protocol.run(x, rng) for _ in range(GROUPS * EACH)]
    errors = np.array([result.estimate for result in results]) - x.sum(axis=0)
    return errors, [results[0], results[-1]]


@pytest.mark.slow
@pytest.mark.parametrize("name", VECTORS)
def test_vectors_are_unbiased_and_as_accurate_as_stated(name: str) -> None:
    """By Chebyshev's inequality and a binomial tail, at every number of runs.

    The mean of 9 runs is off by more than the root of the claimed mean square with probability at
    most 1/9, for each coordinate; of 50 such means no more than a binomial quantile. A bias of
    twice that root, or an error whose root is four times as large, fails.
    """
    protocol = CASES[name].small()
    errors, results = errors_of(name)
    scale = math.sqrt(protocol.error(protocol.n).coordinate.mean_square)
    means = errors.reshape(GROUPS, EACH, -1).mean(axis=1)
    outside = (np.abs(means) > scale).sum(axis=0)
    allowed = stats.binom.isf(FALSE_ALARM / errors.shape[1], GROUPS, 1 / EACH)
    assert outside.max() <= allowed
    # the same of the mean square, by Markov's inequality
    squares = (errors**2).sum(axis=1).reshape(GROUPS, EACH).mean(axis=1)
    above = int((squares > 4 * protocol.mse).sum())
    assert above <= stats.binom.isf(FALSE_ALARM, GROUPS, 1 / 4)
    assert np.median(squares) > 1e-4 * protocol.mse  # and not absurdly small
    # intervals of every run are as wide, about its estimate
    bands = [(result, result.interval(0.9, simultaneous=True)) for result in results]
    reach = np.array([(one.estimate - low, high - one.estimate) for one, (low, high) in bands])
    assert reach == pytest.approx(np.broadcast_to(reach[0, 0], reach.shape))
    missed = int((np.abs(errors) > reach[0, 0]).any(axis=1).sum())
    assert missed <= stats.binom.isf(FALSE_ALARM, GROUPS * EACH, 0.1)


# What one user can do


@pytest.mark.points(2)
@of_each
def test_influence_is_what_an_attack_reaches(case: Case) -> None:
    """Attempts from several views, the most successful of which reaches the bound; none exceeds."""
    protocol = case.attacked() if case.attacked else case.small()
    if case.forged is None:
        assert case in VECTORS.values() or protocol.influence == math.inf
        return
    if case in VECTORS.values():  # whose estimates are linear in the messages
        assert attack(case, protocol, inputs(protocol, protocol.n), 2) == pytest.approx(
            protocol.influence
        )
        return
    unit, bounds, reached = data_sets(protocol.n)["uniform"], protocol.domain, []
    for seed in range(2, 32, 2):  # from nearly all at the lower bound, to all over the range
        x = bounds.lower + bounds.width * unit * seed / 30
        reached.append(attack(case, protocol, x, seed))
    assert max(reached) == pytest.approx(protocol.influence)
