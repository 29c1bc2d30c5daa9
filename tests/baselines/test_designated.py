"""Noise of one designated user: privacy of the view, computed exactly, and whose trust it takes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from baselines.views import no_noise, noise_modulo, view_delta
from statistical import FALSE_ALARM, discrete_laplace_law

from ikos.baselines import DesignatedNoise
from ikos.testing import DeterministicRandom


def tiny(q: int, p: int, epsilon: Any, **options: Any) -> DesignatedNoise:
    return DesignatedNoise(
        options.pop("n", 2),
        epsilon,
        options.pop("delta", 0.3),
        precision=p,
        modulus=q,
        shuffler="single",
        clear_share=False,
        **options,
    )


@pytest.mark.points(1)
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), 1, 2])
@pytest.mark.parametrize(
    ("n", "q", "p", "m"), [(2, 3, 1, 14), (2, 4, 1, 12), (2, 5, 2, 9), (3, 4, 1, 8)]
)
def test_view_is_as_private_as_stated(epsilon, n, q, p, m):
    guarantee = tiny(q, p, epsilon, n=n, messages=m).guarantee
    assert guarantee.proved
    silent = (no_noise(q),) * (n - 1)
    noises = (noise_modulo(q, 1.0, float(Fraction(epsilon) / p)), *silent)
    true = view_delta(noises, q, m, p, guarantee.epsilon)
    assert true <= guarantee.delta
    # Without the designated user's noise, or for whoever knows it, the sum is in the open.
    assert view_delta((no_noise(q), *silent), q, m, p, guarantee.epsilon) > 0.9
    # Noise for a sensitivity of 1 breaks the guarantee where it is 2.
    if p == 2:
        thin = (noise_modulo(q, 1.0, float(epsilon)), *silent)
        assert view_delta(thin, q, m, p, guarantee.epsilon) > true + 0.01


@pytest.mark.slow
def test_one_user_adds_discrete_laplace_noise_and_the_others_none() -> None:
    """With every value at an end nothing is rounded; shares of a user add up to what it shared."""
    protocol = DesignatedNoise(3, 1, 1e-3, precision=20)
    q, rng, noise = protocol.modulus, DeterministicRandom(1), []
    for run in range(4000):
        value = run % 2
        shared = protocol.randomize([value] * 3, rng).sum(axis=0) % q
        assert (shared[1:] == 20 * value).all()
        noise.append((int(shared[0]) - 20 * value + q // 2) % q - q // 2)
    drawn = np.array(noise)
    assert discrete_laplace_law(1 / 20).p_value(drawn) > FALSE_ALARM
    assert discrete_laplace_law(1 / 16).p_value(drawn) < FALSE_ALARM
    assert discrete_laplace_law(1 / 25).p_value(drawn) < FALSE_ALARM


def test_reports_carry_noise_for_the_designated_user_alone() -> None:
    protocol = DesignatedNoise(3, 1, 1e-3, precision=50)
    q, rng = protocol.modulus, DeterministicRandom(2)
    for _ in range(30):
        assert int(protocol.report(1.0, rng).sum()) % q == 50
    noisy = {int(protocol.report(1.0, rng, designated=True).sum()) % q for _ in range(30)}
    assert len(noisy) > 10
    with pytest.raises(TypeError, match="designated must be True or False"):
        protocol.report(1.0, designated=1)  # type: ignore[arg-type]


def test_the_trust_it_takes_is_said_first() -> None:
    conditions = DesignatedNoise(100, 1, 1e-6).guarantee.conditions
    assert "ONLY while the designated user" in conditions[0].text
    assert "does not collude" in conditions[0].text
    assert "NOT from the designated user" in conditions[1].text
    assert "no shuffler colludes" in str(conditions)
    single = DesignatedNoise(100, 1, 1e-6, shuffler="single")
    assert "the shuffler does not collude" in str(single.guarantee.conditions)


def test_messages_prove_delta_and_one_fewer_does_not() -> None:
    protocol = DesignatedNoise(1000, 1, 1e-6)
    count = protocol.messages
    assert protocol.guarantee.delta <= 1e-6
    assert protocol.guarantee.delta == count.delta
    assert "Lemma 5.2" in protocol.guarantee.theorem
    assert protocol.cost().messages_per_user == count.total
    # (1 + e) 2^-sigma, and no less
    assert count.delta == pytest.approx((1 + np.e) * 2**-count.sigma, rel=1e-9)
    fewer = DesignatedNoise(1000, 1, 1e-6, messages=count.total - 1)
    assert fewer.guarantee.delta > 1e-6


def test_one_user_alone_is_protected_by_its_own_noise() -> None:
    protocol = DesignatedNoise(1, 1, 1e-6)
    assert protocol.guarantee.delta == 0
    assert protocol.run([0.5]).users == 1
