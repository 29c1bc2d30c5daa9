"""The comparison makes each protocol as its class does, and measures what runs are off by."""

from __future__ import annotations

import dataclasses
import inspect
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import ikos.baselines
from ikos import PrivateSum
from ikos.baselines import (
    PROTOCOLS,
    BaseProtocol,
    DesignatedNoise,
    LocalLaplace,
    Measurement,
    PrivacyBlanket,
    ProtocolSpec,
    Row,
    SparseNoise,
    SumProtocol,
    UnaryEncoding,
    comparison,
    measure,
    registry,
)
from ikos.bounds import Bounds
from ikos.errors import Bounded, SumError
from ikos.randomness import RandomSource
from ikos.results import Cost, Guarantee, SumResult
from ikos.shuffling import View
from ikos.testing import DeterministicRandom

QUICK = [
    contender.key
    for contender in PROTOCOLS
    if contender.key not in ("recursive-2", "recursive-3", "recursive-4", "correlated-noise")
]
"""Those whose parameters take no search."""

DELTA = Fraction(1, 10**6)


def by_key(rows: tuple[Row, ...]) -> dict[str, Row]:
    return {row.key: row for row in rows}


def test_keys_are_short_distinct_and_in_kebab_case() -> None:
    keys = [contender.key for contender in PROTOCOLS]
    assert len(set(keys)) == len(keys)
    assert all(len(key) <= 20 and key == key.lower() and " " not in key for key in keys)
    assert {contender.model for contender in PROTOCOLS} == {"central", "shuffle", "local"}


def test_every_protocol_of_the_package_is_compared() -> None:
    exported = {getattr(ikos.baselines, name) for name in ikos.baselines.__all__}
    concrete = {
        item
        for item in exported
        if isinstance(item, type)
        and issubclass(item, BaseProtocol)
        and not inspect.isabstract(item)
    }
    assert {contender.made_by for contender in PROTOCOLS} == concrete | {PrivateSum}


def test_rows_are_the_protocols_own_answers() -> None:
    rows = by_key(comparison(1000, 1, DELTA, lower=-1, upper=3, protocols=QUICK))
    expected: dict[str, SumProtocol] = {
        "private-sum": PrivateSum(1000, 1, DELTA, lower=-1, upper=3),
        "private-sum-bbgn20": PrivateSum(1000, 1, DELTA, lower=-1, upper=3, analysis="balle2020"),
        "designated-noise": DesignatedNoise(1000, 1, DELTA, lower=-1, upper=3),
        "sparse-noise-scrcs11": SparseNoise(
            1000, 1, DELTA, accountant="published", lower=-1, upper=3
        ),
        "privacy-blanket": PrivacyBlanket(1000, 1, DELTA, lower=-1, upper=3),
        "unary-encoding": UnaryEncoding(1000, 1, DELTA, lower=-1, upper=3),
        "local-laplace": LocalLaplace(1000, 1, lower=-1, upper=3),
    }
    for key, protocol in expected.items():
        row = rows[key]
        assert row.messages == protocol.cost().messages_per_user
        assert row.bits == protocol.cost().bits_per_user
        assert row.guarantee == protocol.guarantee
        assert row.mse == protocol.mse
        assert row.rmse == math.sqrt(protocol.mse)
        assert row.influence == protocol.influence
        assert row.reason is None


def test_all_keep_the_guarantee_and_are_ordered_by_model_and_error() -> None:
    rows = comparison(1000, 1, DELTA, protocols=QUICK)
    for row in rows:
        assert row.guarantee is not None
        assert row.guarantee.epsilon == 1
        assert Fraction(row.guarantee.delta) <= DELTA * (1 + Fraction(1, 2**50))
        assert (row.guarantee.delta == 0) == row.contender.pure
    models = [row.contender.model for row in rows]
    assert models == sorted(models, key=["central", "shuffle", "local"].index)
    for model in set(models):
        errors = [row.mse or 0 for row in rows if row.contender.model == model]
        assert errors == sorted(errors)


@pytest.mark.slow
def test_all_of_them() -> None:
    rows = comparison(1000, 1, DELTA)
    assert {row.key for row in rows} == {contender.key for contender in PROTOCOLS}
    assert all(row.protocol is not None for row in rows)
    found = by_key(rows)
    digits = [found[f"recursive-{m}"].mse or 0 for m in (2, 3, 4)]
    assert digits == sorted(digits, reverse=True)
    assert (found["recursive-2"].mse or 0) < (found["privacy-blanket"].mse or 0)
    assert (found["central-laplace"].mse or 0) < (found["private-sum"].mse or 0) < 2.1


def test_fewer_honest_users() -> None:
    rows = by_key(comparison(1000, 1, DELTA, min_honest=500, protocols=QUICK))
    assert rows["private-sum"].mse == PrivateSum(1000, 1, DELTA, min_honest=500).mse
    assert rows["local-laplace"].mse == LocalLaplace(1000, 1).mse
    for key in ("designated-noise", "sample-threshold"):
        assert rows[key].protocol is None
        assert rows[key].reason == "it needs all users to be honest and present"
        assert rows[key].messages is rows[key].bits is rows[key].guarantee is None
        assert rows[key].mse is rows[key].rmse is rows[key].influence is None
    everybody = by_key(comparison(1000, 1, DELTA, min_honest=1000, protocols=QUICK))
    assert everybody["designated-noise"].protocol is not None


def test_what_is_not_possible_says_why_and_stands_last() -> None:
    rows = comparison(5, 1, 0.01, protocols=["private-sum-bbgn20", "private-sum"])
    assert [row.key for row in rows] == ["private-sum", "private-sum-bbgn20"]
    assert rows[1].protocol is None
    assert "needs n >= 19" in (rows[1].reason or "")


def test_rows_are_rows_of_a_table() -> None:
    made, not_made = ikos.baselines.comparison(
        5, 1, 0.01, protocols=["central-discrete", "private-sum-bbgn20"]
    )
    told = made.as_dict()
    numbers = ("messages", "bits", "mse", "rmse", "influence")
    assert {name: told[name] for name in numbers} == {name: getattr(made, name) for name in numbers}
    assert (told["key"], told["model"], told["reason"]) == ("central-discrete", "central", None)
    assert (told["epsilon"], told["delta"]) == (1, made.guarantee.delta)
    none = not_made.as_dict()
    assert list(none) == list(told)
    assert none["reason"] == not_made.reason is not None
    assert all(none[name] is None for name in (*numbers, "epsilon", "delta"))


def test_progress() -> None:
    calls: list[tuple[int, int]] = []
    comparison(
        100,
        1,
        0.01,
        protocols=["private-sum", "local-laplace", "private-sum"],
        progress=lambda done, whole: calls.append((done, whole)),
    )
    assert calls == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((0, 1, 0.1), {}, "n must be at least 1"),
        ((10**9 + 1, 1, 0.1), {}, "n must be at most"),
        ((10, 0, 0.1), {}, "epsilon must be at least"),
        ((10, 1, 1), {}, "delta must be less than 1"),
        ((10, 1, 0.1), {"lower": 1, "upper": 1}, "upper must be greater"),
        ((10, 1, 0.1), {"min_honest": 11}, "min_honest must be at most 10"),
        ((10, 1, 0.1), {"protocols": ["nothing"]}, "protocols must be one of"),
    ],
)
def test_mistakes(arguments, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        comparison(*arguments, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocols": 3}, "protocols must be a sequence of keys, got int 3"),
        ({"protocols": "private-sum"}, "protocols must be a sequence of keys, got the string"),
        ({"protocols": [["private-sum"]]}, "protocols must be a string, got list"),
        ({"progress": 3}, "progress must be callable, got int 3"),
    ],
)
def test_what_is_no_sequence_of_keys_and_cannot_be_called(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        comparison(10, 1, 0.1, **options)


# Measuring


def row_of(key: str, n: int, **bounds: float) -> Row:
    (row,) = comparison(n, 1, Fraction(1, n**2), protocols=[key], **bounds)  # type: ignore[arg-type]
    return row


@pytest.mark.parametrize("key", ["private-sum", "unary-encoding", "local-laplace"])
def test_errors_are_those_of_runs(key: str) -> None:
    row, values = row_of(key, 200, upper=7), np.linspace(0, 7, 200)
    measured = measure(row, values, 3, DeterministicRandom(5))
    source = DeterministicRandom(5)
    assert row.protocol is not None
    expected = [row.protocol.run(values, source).estimate - math.fsum(values) for _ in range(3)]
    assert list(measured.errors) == expected
    assert measured.runs == 3
    assert measured.rmse == pytest.approx(math.sqrt(np.mean(np.square(expected))))
    assert measured.seconds > 0


@pytest.mark.parametrize("key", QUICK)
def test_bounds_hold_within_the_interval(key: str) -> None:
    """One seed; at 1 - 1e-9 the interval's lower end is far below the bound for honest code."""
    row, values = row_of(key, 300), np.linspace(0, 1, 300)
    low, high = measure(row, values, 60, DeterministicRandom(1)).interval(1 - 1e-9)
    assert low < (row.rmse or 0)
    assert high > (row.rmse or 0) / 20


UNIT = Bounds(0, 1)
NOTHING = Guarantee(1.0, 1.0, "nothing is proved", ())


@dataclass(frozen=True)
class Trusting:
    """A protocol of somebody's own, in which each user sends its value as it is, in the clear."""

    n: int
    bias: float = 0.0
    domain: Bounds = UNIT
    mse: float = 0.0
    influence: float = 1.0
    guarantee: Guarantee = NOTHING

    @property
    def min_honest(self) -> int:
        return self.n

    def cost(self, users: int | None = None) -> Cost:
        return Cost(self.n if users is None else users, 1, 64)

    def report(self, x: float, rng: RandomSource | None = None) -> NDArray[Any]:
        return np.array([x])

    def randomize(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        return np.array([x])

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        return View(tuple(np.sort(messages)), None)

    def analyze(self, view: View) -> SumResult:
        (values,) = view.columns
        total, law = math.fsum(values) + self.bias, Bounded(0.0, 0.0)
        error = SumError.number(law)
        return SumResult(total, self.n, self.domain, self.guarantee, self.cost(), error)

    def run(self, x: ArrayLike, rng: RandomSource | None = None) -> SumResult:
        return self.analyze(self.shuffle(self.randomize(x, rng), rng))


def test_protocols_are_measured_as_their_rows_are() -> None:
    row, values = row_of("private-sum", 200, upper=7), np.linspace(0, 7, 200)
    protocol = PrivateSum(200, 1, Fraction(1, 200**2), upper=7)
    assert row.protocol == protocol
    of_row = measure(row, values, 3, DeterministicRandom(5))
    assert measure(protocol, values, 3, DeterministicRandom(5)).errors == of_row.errors


def test_a_protocol_of_ones_own_is_measured() -> None:
    protocol = Trusting(4, bias=0.25)
    assert isinstance(protocol, SumProtocol)
    assert measure(protocol, [0.5, 1, 0, 0.75], 3).errors == (0.25, 0.25, 0.25)
    with pytest.raises(ValueError, match=r"x\[1\] must be in \[0, 1\]"):
        measure(protocol, [0.5, 2, 0, 0.75], 3)
    with pytest.raises(ValueError, match="a run has 200,000,000 messages, more than the"):
        measure(Trusting(2 * 10**8), [0.5], 1)


@pytest.mark.parametrize(
    ("row", "got"),
    [
        (None, "NoneType None"),
        ("private-sum", "str 'private-sum'"),
        (PrivateSum, "type <class 'ikos.*PrivateSum'>"),
        (PROTOCOLS[0], "ProtocolSpec ProtocolSpec"),
    ],
)
def test_what_is_no_protocol_is_not_measured(row: Any, got: str) -> None:
    with pytest.raises(TypeError, match=f"row must be a Row or a SumProtocol, got {got}"):
        measure(row, [0.5], 1)


def test_progress_of_runs() -> None:
    with pytest.raises(TypeError, match="progress must be callable, got int 3"):
        measure(Trusting(1), [0.5], 1, progress=3)  # type: ignore[arg-type]
    calls: list[tuple[int, int]] = []
    measure(
        row_of("local-laplace", 10),
        [0.5] * 10,
        2,
        progress=lambda done, whole: calls.append((done, whole)),
    )
    assert calls == [(1, 2), (2, 2)]


def test_interval_is_chi_square_with_two_fifths_of_a_degree_for_each_run() -> None:
    # 5 runs: two degrees, where the law is exponential with mean 2
    measured = Measurement((1.0, -2.0, 3.0, -4.0, 5.0), 0.1)
    low, high = measured.interval(0.9)
    scale = math.sqrt(2 * 55 / 5)
    assert low == pytest.approx(scale / math.sqrt(-2 * math.log(0.05)))
    assert high == pytest.approx(scale / math.sqrt(-2 * math.log(0.95)))


@pytest.mark.parametrize("law", ["laplace", "normal"])
@pytest.mark.parametrize("runs", [2, 5, 20, 100])
def test_interval_covers(law: str, runs: int) -> None:
    """Of 4000 intervals each; 0.932 would be five standard errors below 0.95."""
    rng = np.random.default_rng(2)
    draw = rng.laplace if law == "laplace" else rng.normal
    errors = draw(size=(4000, runs)) / (math.sqrt(2) if law == "laplace" else 1)
    inside = 0
    for sample in errors:
        low, high = Measurement(tuple(map(float, sample)), 0.0).interval()
        inside += low <= 1 <= high
    assert inside / 4000 > 0.932


def test_no_error_at_all() -> None:
    assert tuple(Measurement((0.0, 0.0), 0.1).interval()) == (0, 0)


def test_runs_that_are_too_large_are_refused() -> None:
    row = row_of("private-sum", 10**8)
    with pytest.raises(ValueError, match=r"a run has \d00,000,000 messages, more than the 100,000"):
        measure(row, [0.5], 1)
    with pytest.raises(ValueError, match="runs must be at least 1"):
        measure(row, [0.5], 0)
    absent = dataclasses.replace(row, protocol=None, reason="so it is")
    with pytest.raises(ValueError, match="got none: so it is"):
        measure(absent, [0.5], 1)


def test_runs_that_draw_counts_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MAX_RUN", 10)
    row = row_of("unary-encoding", 100)
    assert row.protocol is not None
    assert measure(row, [0.5] * 100, 1).runs == measure(row.protocol, [0.5] * 100, 1).runs == 1
    with pytest.raises(ValueError, match="a run has"):
        measure(row_of("privacy-blanket", 100), [0.5] * 100, 1)
    with pytest.raises(ValueError, match="a run has"):
        measure(PrivacyBlanket(100, 1, 1e-4), [0.5] * 100, 1)


def test_values_are_checked() -> None:
    row = row_of("local-laplace", 3)
    with pytest.raises(ValueError, match=r"x\[1\] must be in \[0, 1\]"):
        measure(row, [0.5, 1.5, 0.5], 1)
    with pytest.raises(ValueError, match="x must hold"):
        measure(row, [0.5] * 4, 1)


def test_a_contender_is_made_by_its_class() -> None:
    made = ProtocolSpec("k", "n", "s", "local", LocalLaplace, pure=True, honest="any")
    assert made.make(7, 1, 0.1, min_honest=2, upper=5) == LocalLaplace(7, 1, upper=5)
