"""What every protocol for sums of vectors must do: the same tests on each of `suite.CASES`."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
from baselines.suite import careless
from numpy.typing import NDArray
from scipy import stats
from vectors.suite import CASES, FALSE_ALARM, Case, vectors

import ikos.vectors
from ikos import View
from ikos.baselines import BaseProtocol, SumProtocol
from ikos.results import Guarantee, SumResult
from ikos.testing import DeterministicRandom


@pytest.fixture(name="case", params=CASES.values(), ids=CASES.keys())
def fixture_case(request: pytest.FixtureRequest) -> Case:
    case: Case = request.param
    return case


def data(case: Case, protocol: Any, users: int | None = None) -> NDArray[np.float64]:
    return vectors(protocol.domain, case.few if users is None else users)


GROUPS, EACH = 50, 9


@cache
def sample(case: Case) -> tuple[NDArray[np.float64], list[SumResult]]:
    """Return the errors of independent runs, and the first and the last results."""
    protocol = case.small()
    x, rng = data(case, protocol), DeterministicRandom(5)
    results = [protocol.run(x, rng) for _ in range(GROUPS * EACH)]
    errors = np.array([result.estimate for result in results]) - x.sum(axis=0)
    return errors, [results[0], results[-1]]


def test_every_protocol_is_registered() -> None:
    exported = [getattr(ikos.vectors, name) for name in ikos.vectors.__all__]
    concrete = {
        item
        for item in exported
        if isinstance(item, type)
        and issubclass(item, (BaseProtocol, ikos.vectors.PrivateVectorSum))
        and not inspect.isabstract(item)
    }
    assert {type(case.small()) for case in CASES.values()} == concrete


def test_has_the_members_of_the_interface(case: Case) -> None:
    protocol = case.small()
    assert isinstance(protocol, SumProtocol)
    assert protocol.n == case.few
    assert 1 <= protocol.min_honest <= protocol.n
    assert 0 < protocol.mse < math.inf
    error = protocol.error(protocol.n)
    assert 0 <= error.sampling <= error.mean_square == protocol.mse
    assert error.coordinate.mean_square <= error.mean_square * (1 + 1e-12)
    assert error.mean_square <= protocol.domain.dimension * error.coordinate.mean_square * 1.0001
    assert protocol.influence >= protocol.domain.diameter * 0.999 / 2
    assert protocol.__class__.__doc__


def test_parts_make_the_result_of_run(case: Case) -> None:
    """Same seed, same estimate, unless fewer passes take another order of draws."""
    protocol = case.small()
    x, rng = data(case, protocol), DeterministicRandom(1)
    result = protocol.analyze(protocol.shuffle(protocol.randomize(x, rng), rng))
    assert isinstance(result, SumResult)
    assert result.estimate.shape == (protocol.domain.dimension,)
    assert not result.estimate.flags.writeable
    if "_play" not in {name for base in type(protocol).__mro__[:-3] for name in base.__dict__}:
        assert (result.estimate == protocol.run(x, DeterministicRandom(1)).estimate).all()


def test_parts_and_run_have_the_same_law(case: Case) -> None:
    """Two samples of n have empirical laws d or more apart with probability at most e exp(-n d^2).

    Wei and Dudley, *Two-sample Dvoretzky-Kiefer-Wolfowitz inequalities*, 2012, for n >= 4.
    """
    protocol, runs = case.small(), 60
    x, rng = data(case, protocol), DeterministicRandom(2)
    whole = np.array([protocol.run(x, rng).estimate for _ in range(runs)])
    parts = np.array(
        [
            protocol.analyze(
                protocol.shuffle(protocol.randomize(x, rng), rng, order="permuted")
            ).estimate
            for _ in range(runs)
        ]
    )
    weights = np.arange(1, x.shape[1] + 1)
    for summary in (lambda e: e[:, 0], lambda e: e @ weights):
        apart = stats.ks_2samp(summary(whole), summary(parts), method="asymp").statistic
        assert math.exp(1 - runs * apart**2) > FALSE_ALARM


def test_one_seed_one_result(case: Case) -> None:
    protocol = case.small()
    x = data(case, protocol)
    estimates = [protocol.run(x, DeterministicRandom(s)).estimate for s in (3, 3, *range(9))]
    assert (estimates[0] == estimates[1]).all()
    assert len({estimate.tobytes() for estimate in estimates}) > 2


def test_secure_randomness_is_the_default_and_nothing_predictable_is_taken(case: Case) -> None:
    protocol = case.small()
    x = data(case, protocol)
    assert len({protocol.run(x).estimate.tobytes() for _ in range(40)}) > 1
    for rng in (0, np.random.default_rng(0)):
        for call, given in (
            (protocol.run, x),
            (protocol.randomize, x),
            (protocol.report, x[0]),
        ):
            with pytest.raises(TypeError, match="rng"):
                call(given, rng)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_unbiased_and_as_accurate_as_it_says(case: Case) -> None:
    """By Chebyshev's inequality and a binomial tail, at every number of runs.

    The mean of 9 runs is off by more than the root of the claimed mean square with probability at
    most 1/9, for each coordinate; of 50 such means no more than a binomial quantile. A bias of
    twice that root, or an error whose root is four times as large, fails.
    """
    protocol = case.small()
    errors, _ = sample(case)
    scale = math.sqrt(protocol.error(case.few).coordinate.mean_square)
    means = errors.reshape(GROUPS, EACH, -1).mean(axis=1)
    outside = (np.abs(means) > scale).sum(axis=0)
    allowed = stats.binom.isf(FALSE_ALARM / errors.shape[1], GROUPS, 1 / EACH)
    assert outside.max() <= allowed
    # the same of the mean square, by Markov's inequality
    squares = (errors**2).sum(axis=1).reshape(GROUPS, EACH).mean(axis=1)
    above = int((squares > 4 * protocol.error(case.few).mean_square).sum())
    assert above <= stats.binom.isf(FALSE_ALARM, GROUPS, 1 / 4)
    # and not absurdly small beside the claim: on some data the error is as large as said, but
    # here it is only checked not to be a ten-thousandth
    assert np.median(squares) > 1e-4 * protocol.error(case.few).mean_square


def test_intervals_cover(case: Case) -> None:
    """Those of every run are as wide, about its estimate."""
    errors, results = sample(case)
    reach = np.array(
        [
            (result.estimate - low, high - result.estimate)
            for result in results
            for low, high in (result.interval(0.9, simultaneous=True),)
        ]
    )
    assert reach == pytest.approx(np.broadcast_to(reach[0, 0], reach.shape))
    missed = int((np.abs(errors) > reach[0, 0]).any(axis=1).sum())
    assert missed <= stats.binom.isf(FALSE_ALARM, GROUPS * EACH, 0.1)


def test_result_says_what_was_run(case: Case) -> None:
    protocol = case.small()
    result = protocol.run(data(case, protocol))
    assert result.users == case.few
    assert result.domain == protocol.domain
    assert result.guarantee == protocol.guarantee
    assert result.cost == protocol.cost() == protocol.cost(case.few)
    assert result.standard_error == pytest.approx(math.sqrt(protocol.mse))
    assert (result.mean() == result.estimate / case.few).all()
    assert protocol.guarantee.theorem in str(result)
    assert "array" not in str(result)
    band, wider = result.interval(0.9), result.interval(0.99)
    assert (wider.low <= band.low).all()
    assert (band.low < result.estimate).all()
    assert (band.high <= wider.high).all()
    together = result.interval(0.9, simultaneous=True)
    assert (together.low <= band.low).all()


@pytest.mark.parametrize("confidence", [0, 1, 1.5, -0.1, math.nan])
def test_a_confidence_is_strictly_between_0_and_1(case: Case, confidence: float) -> None:
    protocol = case.small()
    result = protocol.run(data(case, protocol))
    with pytest.raises(ValueError, match="confidence"):
        result.interval(confidence)


def test_guarantee_is_one(case: Case) -> None:
    guarantee = case.small().guarantee
    assert isinstance(guarantee, Guarantee)
    assert guarantee.proved
    assert guarantee.epsilon > 0
    assert 0 <= guarantee.delta < 1
    assert len(guarantee.theorem) > 10
    assert any("every further release" in condition for condition in guarantee.conditions)


def test_a_seeded_run_says_that_it_protects_nobody(case: Case) -> None:
    protocol = case.small()
    x = data(case, protocol)
    seeded = protocol.run(x, DeterministicRandom(0)).guarantee
    assert "NOT for this run" in seeded.conditions[0]
    assert seeded.conditions[1:] == protocol.guarantee.conditions
    assert protocol.run(x).guarantee == protocol.guarantee


def test_cost_is_what_randomize_returns(case: Case) -> None:
    protocol = case.small()
    x = data(case, protocol)
    cost = protocol.cost()
    assert cost.users == case.few
    assert cost.messages_per_user > 0
    assert cost.bits_per_message > 0
    assert protocol.cost(3).messages == pytest.approx(3 * cost.messages_per_user)
    if case.ragged:
        return
    messages = protocol.randomize(x, DeterministicRandom(4))
    # the third axis, where there is one, is that of the coordinates: each a message, or one for all
    assert messages.shape[1] == case.few
    assert messages.shape[2:] in ((), (x.shape[1],))
    sent = messages.size // case.few
    assert sent in (cost.messages_per_user, cost.messages_per_user * x.shape[1])
    assert protocol.report(x[0]).shape == (messages.shape[0], *messages.shape[2:])


@pytest.mark.parametrize(
    ("users", "error"),
    [(0, ValueError), (-5, ValueError), (2.5, TypeError), (math.nan, TypeError), ("a", TypeError)],
)
def test_costs_and_errors_are_of_users_that_there_are(
    case: Case, users: Any, error: type[Exception]
) -> None:
    protocol: Any = case.small()
    asked = [protocol.cost, getattr(protocol, "error", protocol.cost)]
    for ask in asked:
        with pytest.raises(error, match=f"^users must .*{users}"):
            ask(users)
        with pytest.raises(ValueError, match=f"^users must be at most {case.few}, got"):
            ask(case.few + 1)


def test_the_view_does_not_tell_the_order_of_the_users(case: Case) -> None:
    protocol = case.small()
    messages = protocol.randomize(data(case, protocol), DeterministicRandom(7))
    order = np.random.default_rng(0).permutation(case.few)
    views = [protocol.shuffle(m, DeterministicRandom(8)) for m in (messages, messages[:, order])]
    assert len(views[0].columns) == len(views[1].columns)
    for first, second in zip(views[0].columns, views[1].columns, strict=True):
        assert (first == second).all()
    estimates = [protocol.analyze(view).estimate for view in views]
    if views[0].clear is None:
        assert (estimates[0] == estimates[1]).all()


# Wrong inputs


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e9])
def test_vectors_outside_the_domain_are_refused_not_clipped(case: Case, value: float) -> None:
    protocol = case.small()
    x = data(case, protocol)
    x[1, 0] = value
    for call in (protocol.run, protocol.randomize):
        with pytest.raises(ValueError, match=r"x\[1.* must"):
            call(x)
    with pytest.raises(ValueError, match=r"x\[0.* must"):
        protocol.report(x[1])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda x: x[0], ValueError),
        (lambda x: x[:, :-1], ValueError),
        (lambda x: x[:, :, np.newaxis], ValueError),
        (lambda x: x.astype(str), TypeError),
        (lambda x: x.astype(complex), TypeError),
        (lambda x: np.where(x == x[0, 0], None, x), TypeError),
        (lambda x: np.ma.masked_array(x, x == x[0, 0]), ValueError),
    ],
)
def test_what_are_not_vectors_is_refused(case: Case, change: Any, error: type[Exception]) -> None:
    protocol = case.small()
    x = data(case, protocol)
    for call in (protocol.run, protocol.randomize):
        with pytest.raises(error, match="x"):
            call(change(x))


def test_one_report_is_of_one_vector(case: Case) -> None:
    protocol = case.small()
    x = data(case, protocol)
    for wrong in (0.5, x[:2], x[0, :-1], [None] * x.shape[1], "x"):
        with pytest.raises((TypeError, ValueError), match="x"):
            protocol.report(wrong)


def test_too_few_and_too_many_users_are_refused(case: Case) -> None:
    protocol = case.small()
    for users in {0, protocol.min_honest - 1, case.few + 1}:
        for call in (protocol.run, protocol.randomize):
            with pytest.raises(ValueError, match=f"x must hold .*, got {users}"):
                call(data(case, protocol, users + 2)[:users])


def test_min_honest_is_how_few_are_taken(case: Case) -> None:
    if "min_honest" not in inspect.signature(type(case.small())).parameters:
        assert case.small().min_honest == 1
        return
    honest = case.few - 2
    protocol, alone = case.small(min_honest=honest), case.make(honest)
    assert protocol.min_honest == honest
    # each adds as much noise, and sends as much, as if there were no more than the honest ones
    assert protocol.mse / protocol.n >= alone.mse / honest * (1 - 1e-9)
    assert protocol.cost().messages_per_user >= alone.cost().messages_per_user * (1 - 1e-9)
    result = protocol.run(data(case, protocol, honest))
    assert result.users == honest
    assert result.cost.users == honest
    with pytest.raises(ValueError, match="min_honest"):
        protocol.run(data(case, protocol, honest - 1))
    for wrong, error in ((0, ValueError), (case.few + 1, ValueError), (2.0, TypeError)):
        with pytest.raises(error, match="min_honest"):
            case.small(min_honest=wrong)


def test_shufflers_release_nothing_of_too_few_and_the_analyzer_takes_nothing(case: Case) -> None:
    """Each by itself: an analyzer that would refuse the view has seen it by then."""
    if "min_honest" not in inspect.signature(type(case.small())).parameters:
        return
    honest = case.few - 2
    protocol = case.small(min_honest=honest)
    messages = protocol.randomize(data(case, protocol, honest))
    protocol.analyze(protocol.shuffle(messages))
    with pytest.raises(ValueError, match=r"(messages|shares) must hold .*min_honest"):
        protocol.shuffle(messages[:, 1:])
    view = careless(protocol, honest - 1).shuffle(messages[:, 1:])
    with pytest.raises(ValueError, match=r"view must hold .*min_honest"):
        protocol.analyze(view)


def test_what_is_not_a_view_of_this_protocol_is_refused(case: Case) -> None:
    protocol = case.small()
    with pytest.raises(TypeError, match="view must be a View"):
        protocol.analyze([1, 2, 3])
    empty = np.zeros(0, dtype=np.int64)
    odd = np.array([(1 << 63) - 1] * case.few, dtype=np.int64)
    for columns in ((), (empty,), (odd,) * 7, (np.array([-1] * case.few),)):
        with pytest.raises(ValueError, match="view"):
            protocol.analyze(View(columns, None))


def test_protocols_are_public_parameters_alone(case: Case) -> None:
    protocol = case.small()
    with pytest.raises(AttributeError):
        protocol.n = 1
    for other in (copy.copy(protocol), pickle.loads(pickle.dumps(protocol))):
        assert other.guarantee == protocol.guarantee
        assert other.mse == protocol.mse
    text = repr(protocol)
    assert text.startswith(f"<{type(protocol).__name__} n={case.few}")
    assert "; mean squared error at most " in text
    assert "Fraction(" not in text
