"""Parameters chosen together: as by exhaustive search, and what PrivateSum makes of them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikos import PrivateSum
from ikos.counts import private_parameters, private_proved
from ikos.counts.planning import SETTINGS, _Accuracy
from ikos.numeric.distributions import NoiseLaw, standard_error


def exhaustive(
    n: int, epsilon: float, delta: float, error: float, *, most_bits: int, **how: Any
) -> tuple[int, int, int, int, int]:
    """Return bits, messages, setting, modulus and precision by trying all of them.

    All precisions for all powers of two, and all numbers of messages that cost no more than the
    best so far.
    """
    fixed = how.pop("settings", SETTINGS)
    honest = how.pop("min_honest", n)
    best: tuple[int, int, int, int, int] | None = None
    for bits in range(1, most_bits + 1):
        q = 1 << bits
        for place, (shuffler, clear) in enumerate(fixed):
            for p in range(1, (q - 1) // n + 1):
                if math.sqrt(n) / 2 / p > error:
                    continue
                for m in range(1, 40):
                    cost = (m + clear) * bits, m + clear, place, q, p
                    if best is not None and cost >= best:
                        break
                    count = private_proved(
                        honest, q, m, epsilon, delta, p, shuffler=shuffler, clear_share=clear, **how
                    )
                    assert count.delta is not None
                    assert count.noise_epsilon is not None
                    law = NoiseLaw(Fraction(count.noise_epsilon) / p, Fraction(n, honest))
                    reached = standard_error(law, users=n, precision=p, modulus=q)
                    if count.delta <= delta and reached <= error:
                        best = cost
                        break
    assert best is not None
    return best


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "epsilon", "delta", "error", "how"),
    [
        (10, 1.0, 1e-3, 1.5, {}),
        (20, 3.0, 1e-5, 0.8, {"reserve": 0.05}),
        (15, 0.5, 1e-3, 3.5, {"reserve": 0.0}),
        (40, 0.5, 1e-4, 3.2, {"reserve": 0.0}),
        (6, 2.0, 1e-2, 1.4, {"min_honest": 4}),
        (12, 2.0, 1e-3, 1.2, {"min_honest": 8}),
        (3, 4.0, 1e-2, 0.4, {}),
    ],
)
def test_equals_an_exhaustive_search(
    n: int, epsilon: float, delta: float, error: float, how: dict[str, Any]
) -> None:
    chosen = private_parameters(n, epsilon, delta, error=error, **how)
    found = exhaustive(n, epsilon, delta, error, most_bits=chosen.bits_per_message + 3, **how)
    place = SETTINGS.index((chosen.shuffler, chosen.clear_share))
    assert found == (
        chosen.bits_per_user,
        chosen.count.total,
        place,
        chosen.modulus,
        chosen.precision,
    )


@pytest.mark.slow
@settings(max_examples=12)
@given(
    n=st.one_of(st.integers(1, 60), st.integers(1025, 10**8)),
    epsilon=st.floats(0.01, 8),
    delta=st.floats(1e-15, 0.1),
    slack=st.none() | st.floats(1.0001, 3),
)
def test_private_sum_makes_the_same_of_them(
    n: int, epsilon: float, delta: float, slack: float | None
) -> None:
    error = None if slack is None else slack * math.sqrt(2) / epsilon
    chosen = private_parameters(n, epsilon, delta, error=error)
    protocol = PrivateSum(**chosen.keywords)
    assert protocol.mse == chosen.mse
    assert protocol.modulus == chosen.modulus
    assert protocol.precision == chosen.precision
    assert protocol.messages == chosen.count
    assert protocol.cost().bits_per_user == chosen.bits_per_user
    assert protocol.guarantee.delta <= delta
    limit = math.sqrt(1.01 * 2) / (0.99 * epsilon) if error is None else error
    assert math.sqrt(protocol.mse) <= limit * (1 + 1e-12)


@pytest.mark.points(1)
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"shuffler": "parallel", "clear_share": True},
        {"min_honest": 600},
        {"corrupt_shufflers": 2},
        {"analysis": "balle2020"},
        {"reserve": 0},
    ],
)
def test_never_more_bits_than_the_default_private_sum(how: dict[str, Any]) -> None:
    """The default of `PrivateSum` is as accurate as the default error asks for."""
    default = PrivateSum(1000, 1, 1e-8, **how)
    shape = 1000 / how.get("min_honest", 1000)
    spent = 1 - how.get("reserve", 0.01)
    assert default.mse <= 1.01 * 2 * shape / spent**2
    chosen = private_parameters(1000, 1, 1e-8, **how)
    assert chosen.bits_per_user <= default.cost().bits_per_user
    protocol = PrivateSum(**chosen.keywords)
    assert protocol.mse == chosen.mse
    assert protocol.messages == chosen.count


@pytest.mark.slow
def test_a_tighter_error_costs_bits() -> None:
    bits = [
        private_parameters(10_000, 1, 1e-8, error=e).bits_per_user for e in (4, 1.6, 1.43, 1.4145)
    ]
    assert bits == sorted(bits)
    assert bits[0] < bits[-1]


def test_one_message_is_printed_as_one() -> None:
    assert ", 1 message of 1 bit (1 bit per user); " in str(private_parameters(1, 1, 1e-6, error=9))
    two = str(private_parameters(1, 1, 1e-6, error=9, clear_share=True))
    assert ", 2 messages of 1 bit (2 bits per user); " in two


@pytest.mark.points(0)
def test_an_error_below_the_noise_is_refused_with_the_least() -> None:
    with pytest.raises(ValueError, match=r"error must be at least 1\.41422, .*, got 1\.414"):
        private_parameters(1000, 1, 1e-6, error=1.414)
    assert private_parameters(1000, 1, 1e-6, error=1.41422).error <= 1.41422
    with pytest.raises(ValueError, match=r"error must be at least 2, "):
        private_parameters(1000, 1, 1e-6, error=1.9, min_honest=500)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"n": 0}, ValueError, "n must be at least 1, got 0"),
        ({"error": 0}, ValueError, "error must be greater than 0, got 0"),
        ({"error": "1"}, TypeError, "error must be an int, a Fraction or a float, got str '1'"),
        ({"analysis": "exakt"}, ValueError, "analysis must be one of .*got 'exakt'"),
        ({"n": 10, "analysis": "balle2020"}, ValueError, "balle2020 needs n >= 19"),
        ({"corrupt_shufflers": 1, "shuffler": "single"}, ValueError, "corrupt_shufflers must be 0"),
    ],
)
def test_bad_arguments_are_named(
    arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    good: dict[str, Any] = {"n": 1000, "epsilon": 1, "delta": 1e-6}
    with pytest.raises(error, match=said):
        private_parameters(**{**good, **arguments})


# The error as a function of precision


@settings(max_examples=30)
@given(
    n=st.integers(1, 40),
    epsilon=st.floats(0.3, 6),
    more=st.floats(1.0, 1.3),
    bits=st.integers(3, 14),
)
def test_the_first_precision_is_the_first(n: int, epsilon: float, more: float, bits: int) -> None:
    target = more * math.sqrt(2) / epsilon
    accuracy, q = _Accuracy(n, n, target), 1 << bits
    found = accuracy.first(epsilon, 1, q)
    truth = (p for p in range(1, (q - 1) // n + 1) if accuracy.error(epsilon, p, q) <= target)
    assert found == next(truth, None)
