"""What every protocol for sums must do: the same tests on each of `suite.CASES`."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from baselines.suite import (
    CASES,
    DATA,
    FALSE_ALARM,
    Case,
    attack,
    bias_allowed,
    canonical,
    careless,
    clipped_mean,
    data_sets,
    mean_square,
    sample,
)
from numpy.typing import NDArray
from scipy import stats

import ikos.baselines
from ikos import PrivateSum, View
from ikos.baselines import BaseProtocol, SumProtocol
from ikos.results import Guarantee, SumResult
from ikos.testing import DeterministicRandom

RUNS, MANY = 200, 2000

COSTLY = {
    "sparse-noise-published", "sparse-noise", "local-laplace", "correlated-noise",
    "designated-noise",
}  # fmt: skip
"""Of these the slow tests do what takes hundreds of runs."""


@pytest.fixture(name="case", params=CASES.values(), ids=CASES.keys())
def fixture_case(request: pytest.FixtureRequest) -> Case:
    case: Case = request.param
    return case


@pytest.fixture(name="name", params=CASES.keys())
def fixture_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def inner(n: int) -> NDArray[np.float64]:
    """Values in [0, 1] that most encodings must round, ends included."""
    return np.linspace(0, 1, n)


def test_every_protocol_is_registered() -> None:
    exported = [getattr(ikos.baselines, name) for name in ikos.baselines.__all__]
    concrete = {
        item
        for item in exported
        if isinstance(item, type)
        and issubclass(item, BaseProtocol)
        and not inspect.isabstract(item)
    }
    assert {type(case.small()) for case in CASES.values()} == concrete | {PrivateSum}


def test_has_the_members_of_the_interface(case: Case) -> None:
    protocol = case.small()
    assert isinstance(protocol, SumProtocol)
    assert protocol.n == case.few
    assert 1 <= protocol.min_honest <= protocol.n
    assert (protocol.domain.lower, protocol.domain.upper) == (0.0, 1.0)
    assert 0 < protocol.mse < math.inf
    assert protocol.influence >= protocol.domain.width
    assert not isinstance(protocol.__class__.__doc__, type(None))


# The parts and the whole


def test_parts_make_the_result_of_run(case: Case) -> None:
    """Same seed, same estimate, unless fewer passes take another order of draws."""
    protocol, x = case.small(), inner(case.few)
    rng = DeterministicRandom(1)
    result = protocol.analyze(protocol.shuffle(protocol.randomize(x, rng), rng))
    assert isinstance(result, SumResult)
    if not {"_play", "_view"} & set(type(protocol).__dict__):
        assert result.estimate == protocol.run(x, DeterministicRandom(1)).estimate


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in COSTLY)) for name in CASES],
)
def test_parts_and_run_have_the_same_law(name: str) -> None:
    """Kolmogorov and Smirnov's test of two samples with its exact law, which ties make cautious."""
    case, runs = CASES[name], 120
    protocol, x = case.small(), inner(case.few)
    rng = DeterministicRandom(2)
    whole = [protocol.run(x, rng).estimate for _ in range(runs)]
    parts = [
        protocol.analyze(protocol.shuffle(protocol.randomize(x, rng), rng, order="permuted"))
        for _ in range(runs)
    ]
    reports = [
        protocol.analyze(protocol.shuffle(together(protocol, x, rng), rng))
        for _ in range(runs // 2)
    ]
    for others in (parts, reports):
        test = stats.ks_2samp(whole, [result.estimate for result in others], method="exact")
        assert test.pvalue > FALSE_ALARM


def together(protocol: Any, x: NDArray[np.float64], rng: DeterministicRandom) -> NDArray[Any]:
    """Return everybody's messages, each user's made by itself."""
    takes = inspect.signature(protocol.report).parameters
    first = {"designated": True} if "designated" in takes else {}
    made = [protocol.report(x[0], rng, **first), *(protocol.report(v, rng) for v in x[1:])]
    padded = np.zeros((max(map(len, made)), len(made)), dtype=made[0].dtype)
    for i, messages in enumerate(made):
        padded[: messages.size, i] = messages
    return padded


def test_one_seed_one_result(case: Case) -> None:
    protocol, x = case.small(), inner(case.few)
    estimates = [protocol.run(x, DeterministicRandom(seed)).estimate for seed in (3, 3, *range(9))]
    assert estimates[0] == estimates[1]
    assert len(set(estimates)) > 2


def test_secure_randomness_is_the_default_and_nothing_predictable_is_taken(case: Case) -> None:
    protocol, x = case.small(), inner(case.few)
    assert len({protocol.run(x).estimate for _ in range(40)}) > 1
    for rng in (0, np.random.default_rng(0), np.random.RandomState(0)):
        with pytest.raises(TypeError, match="rng"):
            protocol.run(x, rng)
        with pytest.raises(TypeError, match="rng"):
            protocol.randomize(x, rng)
        with pytest.raises(TypeError, match="rng"):
            protocol.report(0.5, rng)


def test_result_says_what_was_run(case: Case) -> None:
    protocol, x = case.small(lower=-1.0, upper=3.0), 4 * inner(case.few) - 1
    result = protocol.run(x)
    assert isinstance(result, SumResult)
    assert (result.users, result.lower, result.upper) == (case.few, -1.0, 3.0)
    assert result.guarantee == protocol.guarantee
    assert result.cost == protocol.cost() == protocol.cost(case.few)
    assert result.standard_error == pytest.approx(math.sqrt(protocol.mse))
    assert result.mean() == result.estimate / case.few
    assert protocol.guarantee.theorem in str(result)
    low, high = result.interval(0.9)
    wider = result.interval(0.99)
    assert wider.low <= low < result.estimate < high <= wider.high


@pytest.mark.parametrize("confidence", [0, 1, 1.5, -0.1, math.nan])
def test_a_confidence_is_strictly_between_0_and_1(case: Case, confidence: float) -> None:
    result = case.small().run(inner(case.few))
    with pytest.raises(ValueError, match="confidence"):
        result.interval(confidence)


def test_guarantee_is_one(case: Case) -> None:
    guarantee = case.make(case.n).guarantee
    assert isinstance(guarantee, Guarantee)
    assert guarantee.proved
    assert 0 < guarantee.epsilon <= 4
    assert 0 <= guarantee.delta <= 0.01
    assert len(guarantee.theorem) > 10
    assert any("every further release" in condition for condition in guarantee.conditions)


def test_a_seeded_run_says_that_it_protects_nobody(case: Case) -> None:
    protocol, x = case.small(), inner(case.few)
    seeded = protocol.run(x, DeterministicRandom(0)).guarantee
    assert "NOT for this run" in seeded.conditions[0]
    assert seeded.conditions[1:] == protocol.guarantee.conditions
    assert protocol.run(x).guarantee == protocol.guarantee


def test_cost_is_what_randomize_returns(case: Case) -> None:
    protocol, x = case.small(), inner(case.few)
    cost = protocol.cost()
    assert cost.users == case.few
    assert cost.messages_per_user > 0
    assert cost.bits_per_message > 0
    assert protocol.cost(3).messages == pytest.approx(3 * cost.messages_per_user)
    messages = protocol.randomize(x, DeterministicRandom(4))
    assert messages.shape[1] == case.few
    assert protocol.report(0.5).dtype == messages.dtype
    # a row of each kind has bits of its own, of which the cost is the mean
    bits = sum(max(abs(int(value)) for value in row).bit_length() for row in messages)
    if case.ragged:
        assert max(abs(int(v)) for v in messages.flat).bit_length() <= cost.bits_per_message
        return
    assert messages.shape[0] == cost.messages_per_user
    assert bits <= cost.bits_per_user + 1e-9
    assert protocol.report(0.5).shape == (cost.messages_per_user,)


# Wrong inputs

BAD_VALUES = [
    (math.nan, ValueError),
    (math.inf, ValueError),
    (-math.inf, ValueError),
    (-1e-12, ValueError),
    (1 + 1e-12, ValueError),
]


@pytest.mark.parametrize(("value", "error"), BAD_VALUES)
def test_values_outside_the_bounds_are_refused_not_clipped(
    case: Case, value: float, error: type[Exception]
) -> None:
    protocol, x = case.small(), inner(case.few)
    x[1] = value
    for call in (protocol.run, protocol.randomize):
        with pytest.raises(error, match=r"x\[1\] must be in \[0, 1\]$"):
            call(x)
    with pytest.raises(error, match=r"x\[0\] must be in"):
        protocol.report(value)


@pytest.mark.parametrize(
    ("x", "error"),
    [
        (np.zeros((12, 1)), ValueError),
        (0.5, ValueError),
        (["0.5"] * 12, TypeError),
        ([0.5 + 0j] * 12, TypeError),
        ([None] * 12, TypeError),
        ([Fraction(1, 2)] * 12, TypeError),
        (np.ma.masked_array(np.zeros(12), [True, *[False] * 11]), ValueError),
        (np.array(["2020-01-01"] * 12, dtype="datetime64[D]"), TypeError),
    ],
    ids=str,
)
def test_what_is_not_a_vector_of_reals_is_refused(
    case: Case, x: Any, error: type[Exception]
) -> None:
    protocol = case.make(12) if case.few <= 12 else case.small()
    for call in (protocol.run, protocol.randomize):
        with pytest.raises(error, match=r"x(\[0\])? must"):
            call(x)


@pytest.mark.parametrize("x", ["0.5", None, [0.5], 0.5j])
def test_one_report_is_of_one_real(case: Case, x: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"x(\[0\])? must"):
        case.small().report(x)


def test_too_few_and_too_many_users_are_refused(case: Case) -> None:
    protocol = case.small()
    for users in {0, protocol.min_honest - 1, case.few + 1}:
        for call in (protocol.run, protocol.randomize):
            with pytest.raises(ValueError, match=f"x must hold .*, got {users}"):
                call(np.full(users, 0.5))


def test_min_honest_is_how_few_are_taken(case: Case) -> None:
    if "min_honest" not in inspect.signature(type(case.small())).parameters:
        assert case.small().min_honest in (1, case.few)
        return
    honest = case.few - 2
    protocol, alone = case.small(min_honest=honest), case.make(honest)
    assert protocol.min_honest == honest
    # each adds as much noise, and sends as much, as if there were no more than the honest ones
    assert protocol.mse > case.small().mse
    assert protocol.mse / protocol.n >= alone.mse / honest * (1 - 1e-9)
    assert protocol.cost().messages_per_user >= alone.cost().messages_per_user * (1 - 1e-9)
    result = protocol.run(np.full(honest, 0.5))
    assert result.users == honest
    assert result.cost.users == honest
    assert result.standard_error <= math.sqrt(protocol.mse)
    with pytest.raises(ValueError, match="min_honest"):
        protocol.run(np.full(honest - 1, 0.5))
    for wrong, error in ((0, ValueError), (case.few + 1, ValueError), (2.0, TypeError)):
        with pytest.raises(error, match="min_honest"):
            case.small(min_honest=wrong)


def test_shufflers_release_nothing_of_too_few_and_the_analyzer_takes_nothing(case: Case) -> None:
    """Each by itself: an analyzer that would refuse the view has seen it by then."""
    if "min_honest" not in inspect.signature(type(case.small())).parameters:
        return
    honest = case.few - 2
    protocol = case.small(min_honest=honest)
    messages = protocol.randomize(np.full(honest, 0.5))
    protocol.analyze(protocol.shuffle(messages))
    with pytest.raises(ValueError, match=r"(messages|shares) must hold .*min_honest"):
        protocol.shuffle(messages[:, 1:])
    view = careless(protocol, honest - 1).shuffle(messages[:, 1:])
    with pytest.raises(ValueError, match=r"view must hold .*min_honest"):
        protocol.analyze(view)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"lower": math.nan}, ValueError),
        ({"upper": math.inf}, ValueError),
        ({"lower": 1.0}, ValueError),
        ({"lower": 2.0}, ValueError),
        ({"upper": "1"}, TypeError),
        ({"lower": True}, TypeError),
    ],
)
def test_wrong_bounds_are_refused(
    case: Case, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"lower|upper"):
        case.small(**arguments)


@pytest.mark.parametrize(
    ("n", "error"), [(0, ValueError), (-1, ValueError), (12.0, TypeError), (True, TypeError)]
)
def test_a_wrong_number_of_users_is_refused(case: Case, n: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"\bn must"):
        case.make(n)


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


def test_wrong_budgets_are_refused(case: Case) -> None:
    kind = type(case.small())
    names = [name for name in ("epsilon", "delta") if name in inspect.signature(kind).parameters]
    right = {"epsilon": 1.0, "delta": 1e-3}
    for name in names:
        wrongs = [(math.nan, ValueError), (-1.0, ValueError), ("1", TypeError), (True, TypeError)]
        wrongs += [(0, ValueError), (math.inf, ValueError)]
        wrongs += [(1.0, ValueError)] if name == "delta" else []
        for wrong, error in wrongs:
            given = {key: right[key] for key in names} | {name: wrong}
            with pytest.raises(error, match=name):
                kind(case.n, **given)


def test_views_of_another_protocol_are_refused(case: Case) -> None:
    protocol = case.small()
    view = protocol.shuffle(protocol.randomize(inner(case.few)))
    longer = np.arange(case.few + 1, dtype=np.int64)
    wrong = [
        View((), None),
        View(tuple(longer for _ in range(97)), None),
        View((longer,), longer),
        View((*view.columns, longer), view.clear),
    ]
    if view.columns:
        wrong.append(View(view.columns[:-1], view.clear))
    if view.columns and not case.ragged:
        wrong.append(View((view.columns[0][1:], *view.columns[1:]), view.clear))
    if view.clear is not None:
        wrong.append(View(view.columns, None))
    for broken in wrong:
        with pytest.raises(ValueError, match="view"):
            protocol.analyze(broken)
    for other in (None, view.columns, protocol.randomize(inner(case.few))):
        with pytest.raises(TypeError, match="view"):
            protocol.analyze(other)


def test_what_are_not_messages_is_refused(case: Case) -> None:
    protocol = case.small()
    messages = protocol.randomize(inner(case.few))
    with pytest.raises(TypeError, match="must be a numpy array"):
        protocol.shuffle(messages.tolist())
    wrong = [messages[0], messages.astype(np.float64), np.repeat(messages, 2, axis=1)]
    if not case.ragged:
        wrong += [np.empty((0, case.few), messages.dtype), np.repeat(messages, 97, axis=0)]
    for broken in wrong:
        with pytest.raises(ValueError, match=r"messages|shares|view"):
            protocol.analyze(protocol.shuffle(broken))
    with pytest.raises(ValueError, match="order must be one of"):
        protocol.shuffle(messages, order="as they came")
    with pytest.raises(TypeError, match="order must"):
        protocol.shuffle(messages, order=None)


def test_messages_that_nobody_may_send_are_refused(case: Case) -> None:
    """By the shufflers or by the analyzer: what one user can do rests on that."""
    if case.forged is None:
        return
    protocol = case.attacked() if case.attacked else case.small()
    messages = protocol.randomize(np.full(protocol.n, 0.5))
    beyond = max(int(column.max()) for column in case.forged(protocol, messages[:, 0])) + 1
    messages[0, 0] = beyond
    with pytest.raises(ValueError, match=r"messages|shares|view"):
        protocol.analyze(protocol.shuffle(messages))


# What is estimated


def test_bounds_are_a_change_of_units(case: Case) -> None:
    """Quarters are mapped without rounding, from [-4, 12] as from [0, 1]."""
    x = np.arange(case.few) % 5 / 4
    unit, wide = case.small(), case.small(lower=-4, upper=12)
    assert wide.mse == pytest.approx(256 * unit.mse)
    assert wide.influence == 16 * unit.influence
    assert wide.cost() == unit.cost()
    assert wide.guarantee == unit.guarantee
    result = wide.run(16 * x - 4, DeterministicRandom(5))
    parts = unit.run(x, DeterministicRandom(5))
    assert result.estimate == pytest.approx(16 * parts.estimate - 4 * case.few)
    assert result.standard_error == pytest.approx(16 * parts.standard_error)
    reach = np.diff(result.interval())[0]
    assert reach == pytest.approx(16 * np.diff(parts.interval())[0])


def check_errors(name: str, runs: int) -> None:
    """On every data set: unbiased, covered, and of a mean square that is reached on some."""
    highest = 0.0
    for data in DATA:
        drawn = sample(name, data, runs)
        mse = drawn.protocol.mse
        mean = abs(clipped_mean(drawn.errors, mse))
        assert CASES[name].biased or mean <= bias_allowed(mse, runs), data
        low, high = mean_square(drawn.errors, mse)
        assert low <= 1, data
        highest = max(highest, high)
        for confidence in (0.5, 0.95):
            low, high = drawn.result.interval(confidence)
            missed = int((np.abs(drawn.errors) > (high - low) / 2).sum())
            assert stats.binom(runs, 1 - confidence).sf(missed - 1) > FALSE_ALARM, data
    assert highest >= CASES[name].tight


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in COSTLY])
def test_errors_are_as_stated(name: str) -> None:
    check_errors(name, RUNS)


@pytest.mark.slow
def test_errors_are_as_stated_in_many_runs(name: str) -> None:
    check_errors(name, MANY)


def test_the_checks_find_a_bias_and_a_mean_square_that_is_too_large(name: str) -> None:
    """A shift by a standard deviation, and errors that are three times as large as stated."""
    drawn = sample(name, "halves", RUNS)
    errors, mse = drawn.errors, drawn.protocol.mse
    assert abs(clipped_mean(errors + math.sqrt(mse), mse)) > bias_allowed(mse, RUNS)
    large = errors * 3 * math.sqrt(mse) / math.sqrt(np.mean(errors**2))
    assert mean_square(large, mse)[0] > 1


# What one user can do, and what order says


def test_influence_is_what_an_attack_reaches(case: Case) -> None:
    """Attempts from several views, the most successful of which reaches the bound; none exceeds."""
    if case.forged is None:
        assert case.small().influence == math.inf
        return
    protocol = case.attacked() if case.attacked else case.small()
    unit, bounds, reached = data_sets(protocol.n)["uniform"], protocol.domain, []
    for seed in range(2, 32, 2):  # from nearly all at the lower bound, to all over the range
        x = bounds.lower + bounds.width * unit * seed / 30
        reached.append(attack(case, protocol, x, seed))
    assert max(reached) == pytest.approx(protocol.influence)


def test_who_sent_what_leaves_no_trace(case: Case) -> None:
    """Permuted users, the same messages: the same multisets, and the same estimate."""
    protocol = case.small()
    messages = protocol.randomize(inner(case.few), DeterministicRandom(13))
    order = np.random.default_rng(0).permutation(case.few)
    first = protocol.shuffle(messages, DeterministicRandom(14))
    for how in ("sorted", "permuted"):
        second = protocol.shuffle(messages[:, order], DeterministicRandom(14), order=how)
        if first.columns and first.columns[0].size >= case.few:
            assert canonical(first) == canonical(second, order)
        assert protocol.analyze(first).estimate == protocol.analyze(second).estimate


def test_shuffle_leaves_messages_as_they_were_and_views_read_only(case: Case) -> None:
    protocol = case.small()
    messages = protocol.randomize(inner(case.few))
    kept = messages.copy()
    view = protocol.shuffle(messages)
    assert (messages == kept).all()
    arrays = [*view.columns, *(() if view.clear is None else (view.clear,))]
    assert not any(np.shares_memory(array, messages) for array in arrays)
    assert not any(array.flags.writeable for array in arrays)


# Objects


def test_objects_are_values(case: Case) -> None:
    protocol, same = case.small(), case.make(case.few)
    assert protocol is not same
    assert protocol == same
    assert hash(protocol) == hash(same)
    assert protocol != case.small(upper=2.0)
    assert protocol != case.make(case.few + 1)
    for field in dataclasses.fields(protocol):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(protocol, field.name, None)
    text = repr(protocol)
    assert text.startswith(f"<{type(protocol).__name__} n={case.few}")
    assert "Fraction(" not in text


def test_fields_are_held_by_the_object_and_have_no_defaults(case: Case) -> None:
    """A field named as a property or attribute of a base class would have that for a default."""
    protocol = case.small()
    for field in dataclasses.fields(protocol):
        assert field.default is dataclasses.MISSING
        assert field.name in vars(protocol)


def test_objects_travel(case: Case) -> None:
    protocol = case.small()
    for twin in (pickle.loads(pickle.dumps(protocol)), copy.deepcopy(protocol)):
        assert twin == protocol
        x = inner(case.few)
        first, second = (p.run(x, DeterministicRandom(15)) for p in (protocol, twin))
        assert first.estimate == second.estimate
    result = protocol.run(inner(case.few))
    assert pickle.loads(pickle.dumps(result)) == result
