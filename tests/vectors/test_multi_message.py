"""Sums of coefficients: the law of one coefficient's view, runs, errors, and what is refused."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from baselines.suite import bias_allowed, clipped_mean, mean_square
from numpy.typing import NDArray
from scipy import stats
from statistical import FALSE_ALARM, IntegerLaw, discrete_laplace_law, polya_law
from vectors.test_kashin import structured

from ikos import Ball
from ikos.accounting import optimal_delta
from ikos.accounting.flooding_gkmps21 import Flooding
from ikos.baselines import (
    KashinCorrelatedNoise,
    KashinFrame,
    KashinPrivateSum,
    base,
    correlated_noise_gkmps21,
    kashin_sums_afnntz24,
)
from ikos.baselines.correlated_noise_gkmps21 import noise_sums
from ikos.baselines.kashin_sums_afnntz24 import user_variance
from ikos.counts.analyses import checked_scheme
from ikos.counts.vectors import level_of_sums
from ikos.primitives.randomness import RandomSource
from ikos.primitives.shuffling import View
from ikos.testing import DeterministicRandom

Law = NDArray[np.float64]


# The view of one coefficient, from the laws of what is sent


def flood_law(flood: Any, length: int) -> Law:
    return np.asarray(
        stats.nbinom.pmf(np.arange(length), float(flood.shape), -math.expm1(-float(flood.rate)))
    )


def views(noise: Flooding, length: int) -> tuple[list[Law], float]:
    """Return the laws of the copies of each message, for values from 0 on, and what is cut off.

    Copies of (+1, -1) for precision 1, of (2, 1, -1) for precision 2: no other is sent.
    """
    central = stats.geom.pmf(np.arange(1, length + 1), -math.expm1(-float(noise.central)))
    pairs = next(f for f in noise.floods if 1 in f.atoms)
    together = flood_law(pairs, length)
    base = np.zeros((length, length))  # of (+1, -1) without the value
    for z, chance in enumerate(together):
        base[z:, z:] += chance * np.outer(central[: length - z], central[: length - z])
    if noise.steps == 1:
        moved = np.zeros_like(base)
        moved[1:] = base[:-1]
        laws = [base, moved]
    else:
        assert noise.steps == 2
        twos = flood_law(next(f for f in noise.floods if 2 in f.atoms), length // 2)
        cube = np.zeros((length // 2 + 1, length, length))
        for z, chance in enumerate(twos):  # each with two copies of -1
            cube[z, :, 2 * z :] += chance * base[:, : length - 2 * z]
        one, two = np.zeros_like(cube), np.zeros_like(cube)
        one[:, 1:] = cube[:, :-1]
        two[1:] = cube[:-1]
        laws = [cube, one, two]
    return laws, max(1 - float(law.sum()) for law in laws)


def divergence(p: Law, q: Law, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def tiny(precision: int, sampling: Fraction) -> KashinCorrelatedNoise:
    return KashinCorrelatedNoise(
        5, Ball(1), 5, 0.2, precision=precision, sampling=sampling, central_share=0.6
    )


@pytest.mark.points(0)
@pytest.mark.parametrize("precision", [1, 2])
@pytest.mark.parametrize("sampling", [Fraction(1), Fraction(1, 2), Fraction(1, 8)])
def test_one_coefficients_view_is_as_private_as_it_is_counted(precision, sampling):
    protocol = tiny(precision, sampling)
    laws, cut = views(protocol.noise, 140 if precision == 1 else 150)
    assert cut < 1e-3
    g = float(sampling)
    local = protocol.local_epsilon
    amplified = math.log1p(g * math.expm1(local))
    pairs = list(itertools.permutations(laws, 2))
    worst = max(divergence(one, other, local) for one, other in pairs)
    assert worst <= protocol.noise.delta
    for one, other in pairs:
        p, q = (g * law + (1 - g) * laws[0] for law in (one, other))
        assert divergence(p, q, amplified) <= g * worst * (1 + 1e-9) + 1e-12
    # with hardly a message that cancels the bound is exceeded
    floods = tuple(replace(flood, rate=Fraction(9)) for flood in protocol.noise.floods)
    bare, _ = views(replace(protocol.noise, floods=floods), 90)
    assert max(divergence(*pair, local) for pair in itertools.permutations(bare, 2)) > (
        protocol.noise.delta
    )


@pytest.mark.slow
def test_both_coefficients_views_together_are_private() -> None:
    """One coordinate has two coefficients: every pair of their values, sampled or not."""
    for sampling in (Fraction(1), Fraction(1, 2)):
        protocol = tiny(1, sampling)
        assert protocol.coefficients == 2
        laws, cut = views(protocol.noise, 45)
        g = float(sampling)
        sampled = [(g * law + (1 - g) * laws[0]).ravel() for law in laws]
        allowed = float(protocol.delta)
        worst = 0.0
        for x, y in itertools.permutations(itertools.product((0, 1), repeat=2), 2):
            p = np.outer(sampled[x[0]], sampled[x[1]])
            q = np.outer(sampled[y[0]], sampled[y[1]])
            worst = max(worst, divergence(p, q, float(protocol.epsilon)))
        assert worst <= allowed
        assert worst > 0 or sampling < 1
        assert cut < 0.02


@pytest.mark.slow
def test_the_guarantee_is_composed_from_what_is_certified() -> None:
    for protocol in (
        KashinCorrelatedNoise(1000, Ball(20), 1, 1e-6),
        KashinCorrelatedNoise(1000, Ball(20), 1, 1e-6, sampling=Fraction(1, 8)),
        KashinCorrelatedNoise(1000, Ball(20), 0.3, 1e-9, sampling="auto", min_honest=500),
        KashinCorrelatedNoise(1000, Ball(3), 1, 1e-6, flooding="paper"),
    ):
        g = float(protocol.sampling)
        amplified = math.log1p(g * math.expm1(protocol.local_epsilon))
        again = optimal_delta(
            protocol.epsilon, protocol.coefficients, amplified, g * protocol.noise.delta
        )
        assert again <= protocol.proved_delta * (1 + 1e-9) <= protocol.guarantee.delta * 1.000001
        assert protocol.proved_delta <= protocol.delta
        assert protocol.noise.steps == protocol.precision
        assert float(protocol.noise.central) * protocol.precision < protocol.local_epsilon


# Runs


def unit_vectors(users: int, dimension: int, seed: int = 0) -> NDArray[np.float64]:
    x = np.random.default_rng(seed).normal(size=(users, dimension))
    x[: users // 2, 0] += 3
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[::3] *= 0.5
    return x


def correlated(users: int = 40, **options: Any) -> KashinCorrelatedNoise:
    return KashinCorrelatedNoise(users, Ball(3), 4, 0.05, **{"precision": 2, **options})


MAKERS = {
    "all": lambda: correlated(),
    "sampled": lambda: correlated(sampling=0.5, precision=1),
    "fewer honest": lambda: correlated(min_honest=25),
    "secure": lambda: KashinPrivateSum(40, Ball(3), 4, 0.01),
    "secure, fewer honest": lambda: KashinPrivateSum(40, Ball(3, 2), 4, 0.01, min_honest=25),
}


@pytest.fixture(name="protocol", params=MAKERS.values(), ids=MAKERS.keys())
def fixture_protocol(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.mark.slow
def test_simulated_sums_are_unbiased_and_as_far_off_as_predicted(protocol, monkeypatch):
    """With sums of all noise in place of the messages."""
    monkeypatch.setattr(kashin_sums_afnntz24, "MAX_MADE", 0)
    runs, rng, x = 450, DeterministicRandom(1), unit_vectors(40, 3)
    truth = x.sum(axis=0)
    errors = np.array([protocol.run(x, rng).estimate - truth for _ in range(runs)])
    each = protocol.error(40).coordinate.mean_square
    for column in errors.T:
        assert abs(clipped_mean(column, each)) <= bias_allowed(each, runs)
    low, high = mean_square(np.linalg.norm(errors, axis=1), protocol.mse)
    assert low <= 1
    assert high >= 0.85


@pytest.mark.slow
def test_the_variance_of_the_worst_vectors_is_reached() -> None:
    """A value that is sampled with probability g: by enumeration of what is sent."""
    for p in (1, 2, 5):
        for g in (Fraction(1, 16), Fraction(1, 2), Fraction(9, 10), Fraction(1)):
            worst = Fraction(0)
            for tick in range(240 * p + 1):
                u = Fraction(tick, 240 * p)
                k = min(p - 1, int(u * p))
                f = u * p - k
                square = ((1 - f) * Fraction(k, p) ** 2 + f * Fraction(k + 1, p) ** 2) / g
                worst = max(worst, square - u**2)
            found = user_variance(p, float(g))
            assert float(worst) <= found * (1 + 1e-12)
            assert found <= float(worst) * 1.001 + 1e-5


@pytest.mark.slow
def test_sums_have_discrete_laplace_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = correlated(6, precision=1)
    law = discrete_laplace_law(float(protocol.noise.central))
    x, rng = np.zeros((6, 3)), DeterministicRandom(5)
    x[:] = protocol.frame.vectors(np.full((1, protocol.coefficients), 0.0))

    def sums(view: View) -> NDArray[np.int64]:
        label = view.columns[0].astype(np.int64) - 1
        value = np.where(label % 2, 1, -1)
        return np.bincount(label // 2, weights=value, minlength=protocol.coefficients).astype(int)

    monkeypatch.setattr(  # nothing is sent for anybody's value
        type(protocol), "_encoded", lambda self, units, rng: np.zeros(units.shape, dtype=np.int64)
    )
    seen = [sums(protocol.shuffle(protocol.randomize(x, rng))) for _ in range(200)]
    assert law.p_value(np.concatenate(seen)) > FALSE_ALARM
    simulated = noise_sums(protocol.noise.central, 6, 6, 2000, rng)
    assert law.p_value(simulated) > FALSE_ALARM
    monkeypatch.setattr(correlated_noise_gkmps21, "_DRAWS_PER_PASS", 10_000)
    law_of_two, thrice = law.minus(law), noise_sums(protocol.noise.central, 18, 6, 4000, rng)
    assert law_of_two.minus(law).p_value(thrice) > FALSE_ALARM
    assert law_of_two.p_value(thrice) < FALSE_ALARM
    twice = noise_sums(protocol.noise.central, 15, 6, 2000, rng)
    assert law.p_value(twice) < FALSE_ALARM


def test_noise_of_many_more_than_are_honest_takes_little_memory(monkeypatch):
    """It is drawn in parts of bounded size, and is as much as it was."""
    drawn = []

    def counted(rate: Fraction, size: int, rng: RandomSource) -> NDArray[np.int64]:
        drawn.append(size)
        return np.ones(size, dtype=np.int64) * (1 if sum(drawn) <= 32 * 10**5 else 2)

    monkeypatch.setattr(correlated_noise_gkmps21, "geometric", counted)
    found = noise_sums(Fraction(1), 10**5, 1, 32, DeterministicRandom(13))
    assert sum(drawn) == 2 * 32 * 10**5
    assert max(drawn) <= 1 << 20
    assert (found == -(10**5)).all()


def of_no_values(protocol: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a protocol all of whose values are encoded as 0: noise and floods are left."""
    monkeypatch.setattr(
        type(protocol), "_encoded", lambda self, units, rng: np.zeros(units.shape, dtype=np.int64)
    )
    return protocol


@pytest.mark.points(1)
@pytest.mark.parametrize("present", [10, 20])
def test_the_noise_of_secure_sums_is_that_of_the_honest(present, monkeypatch):
    """So many of 20 users as are counted on add discrete Laplace noise; all of them, twice it."""
    protocol = of_no_values(KashinPrivateSum(20, Ball(64), 40, 1e-3, min_honest=10), monkeypatch)
    x, rng, q = np.zeros((present, 64)), DeterministicRandom(10), protocol.modulus
    seen = []
    for _ in range(12):
        shares = protocol.randomize(x, rng).reshape(-1, protocol.coefficients, present)
        total = shares.sum(axis=(0, 2), dtype=np.int64) % q
        seen.append(np.where(total < q // 2, total, total - q))
    law = discrete_laplace_law(float(protocol.rate))
    if present == 20:
        assert law.p_value(np.concatenate(seen)) < FALSE_ALARM
        law = law.minus(law)  # symmetric: the law of the sum
    assert law.p_value(np.concatenate(seen)) > FALSE_ALARM


def copies(protocol: KashinCorrelatedNoise, present: int, rng: RandomSource) -> NDArray[np.int64]:
    """Return how often each message is sent for each coefficient: -p, ..., -1, 1, ..., p."""
    labels = protocol._listed(np.zeros((present, protocol.dimension)), rng)[1].astype(np.int64) - 1
    kinds = 2 * protocol.precision
    size = kinds * protocol.coefficients
    return np.bincount(labels, minlength=size).reshape(protocol.coefficients, kinds)


def plus(one: IntegerLaw, other: IntegerLaw) -> IntegerLaw:
    """Return the law of a sum of independent variables from 0 on."""
    return one.minus(IntegerLaw(1 - other.pmf.size, other.pmf[::-1]))


@pytest.mark.parametrize("present", [10, 20])
@pytest.mark.slow
def test_correlated_noise_and_floods_are_those_of_the_honest(present, monkeypatch):
    """So many of 20 users as are counted on add all that is proved to suffice; 20, twice it."""
    protocol = KashinCorrelatedNoise(20, Ball(33), 40, 0.05, min_honest=10, precision=1)
    of_no_values(protocol, monkeypatch)
    (pairs,) = protocol.noise.floods
    assert pairs.shape.denominator == 1  # so that no user is given more than a tenth of it
    rng = DeterministicRandom(11)
    seen = np.concatenate([copies(protocol, present, rng) for _ in range(12)])
    central = discrete_laplace_law(float(protocol.noise.central))
    if present == 20:
        central = central.minus(central)
    assert central.p_value(seen[:, 1] - seen[:, 0]) > FALSE_ALARM

    def of_ones(share: int) -> IntegerLaw:
        """Return the law of the messages 1 of so many tenths of the noise and of the pairs."""
        alone = polya_law(share / 10, float(protocol.noise.central))
        return plus(alone, polya_law(float(pairs.shape) * share / 10, float(pairs.rate)))

    for column in seen.T:
        assert of_ones(present).p_value(column) > FALSE_ALARM
        assert of_ones(present // 2).p_value(column) < FALSE_ALARM


@pytest.mark.slow
def test_every_flood_is_that_of_the_honest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of precision 2: messages 2 are of one flood, or of the noise of the values alone."""
    protocol = KashinCorrelatedNoise(20, Ball(33), 40, 0.05, min_honest=10, precision=2)
    of_no_values(protocol, monkeypatch)
    (triples,) = (flood for flood in protocol.noise.floods if 2 in flood.atoms)
    rng = DeterministicRandom(12)
    seen = np.concatenate([copies(protocol, 15, rng)[:, 3] for _ in range(12)])
    law = polya_law(float(triples.shape * Fraction(15, 10)), float(triples.rate))
    assert law.p_value(seen) > FALSE_ALARM
    fewer = polya_law(float(triples.shape * Fraction(15, 20)), float(triples.rate))
    assert fewer.p_value(seen) < FALSE_ALARM


@pytest.mark.slow
def test_number_of_messages_is_the_cost() -> None:
    protocol = KashinCorrelatedNoise(
        2000, Ball(4), 2, 1e-3, precision=1, sampling=Fraction(1, 2), min_honest=1500
    )
    rng, x = DeterministicRandom(6), np.zeros((2000, 4))
    sent = [protocol._listed(x, rng)[0].size / 2000 for _ in range(20)]
    half = 0.25 * protocol.coefficients  # of values 1/2, half are rounded to 0
    expected = protocol.cost().messages_per_user - half
    assert np.mean(sent) == pytest.approx(expected, rel=0.15)
    senders, labels = protocol._listed(x, rng)
    assert (np.diff(senders) >= 0).all()
    assert 1 <= labels.min() <= labels.max() <= 2 * protocol.coefficients


def test_secure_sums_send_a_fixed_number() -> None:
    protocol = MAKERS["secure"]()
    messages = protocol.randomize(unit_vectors(40, 3), DeterministicRandom(7))
    assert messages.shape[0] == protocol.cost().messages_per_user
    assert int(messages.max()).bit_length() <= protocol.cost().bits_per_message
    assert protocol.proved_delta <= protocol.delta
    noisy = optimal_delta(
        protocol.epsilon, protocol.coefficients, protocol.rate * protocol.precision
    )
    hidden = (1 + math.exp(protocol.epsilon)) * 2.0**-protocol.sigma
    assert noisy + hidden <= protocol.proved_delta * (1 + 1e-12)
    assert hidden <= float(protocol.delta) / 100
    # all sums together, by a union bound at worst and by the root of their number at best
    one, many = protocol.messages.sigma, protocol.coefficients
    assert protocol.sigma == level_of_sums(one, many, analysis="second_moment")
    assert one - math.log2(many) <= protocol.sigma <= one - math.log2(many) / 2
    lonely = KashinPrivateSum(3, Ball(2), 1, 1e-3, min_honest=1)
    assert lonely.proved_delta <= 1e-3


def test_secure_sums_hide_as_well_as_those_of_the_honest() -> None:
    trusting = KashinPrivateSum(10**5, Ball(8), 1, 1e-6, min_honest=200)
    hidden = checked_scheme(200, trusting.modulus, clear_share=False).proved(
        trusting.messages.shuffled
    )
    assert trusting.sigma <= level_of_sums(
        hidden.sigma, trusting.coefficients, analysis="second_moment"
    )
    assert trusting.messages.total > KashinPrivateSum(10**5, Ball(8), 1, 1e-6).messages.total


def test_what_is_proved_of_several_releases_is_of_all_of_them() -> None:
    """Nine of them are composed once more, and what each sum reveals is added up."""
    secure = KashinPrivateSum(1000, Ball(8), 2, 1e-6, releases=9)
    assert "9 reports per user" in str(secure.guarantee.conditions)
    noisy = optimal_delta(2, 9 * secure.coefficients, secure.rate * secure.precision)
    revealed = 9 * (1 + math.exp(2)) * 2.0**-secure.sigma
    assert noisy + revealed <= secure.proved_delta * (1 + 1e-9)
    local = KashinCorrelatedNoise(1000, Ball(8), 2, 1e-6, releases=9)
    spent = optimal_delta(2, 9 * local.coefficients, local.local_epsilon, local.noise.delta)
    assert spent <= local.proved_delta * (1 + 1e-9)


# What is refused


def uneven(frame: KashinFrame) -> NDArray[np.float64]:
    """Return a unit vector without coefficients within 2.5: see the tests of `KashinFrame`."""
    x = structured(frame, 8)
    assert x is not None
    with pytest.raises(ValueError, match="has no coefficients within"):
        frame.coefficients(x)
    return x


def seen_encodings(protocol: Any, monkeypatch: pytest.MonkeyPatch) -> list[NDArray[np.int64]]:
    """Return a list which all that is encoded is added to."""
    seen: list[NDArray[np.int64]] = []
    encoded = type(protocol)._encoded

    def kept(self: Any, units: NDArray[np.float64], rng: RandomSource) -> NDArray[np.int64]:
        found = encoded(self, units, rng)
        seen.append(found.copy())  # noise is added in place
        return found

    monkeypatch.setattr(type(protocol), "_encoded", kept)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("make", [KashinCorrelatedNoise, KashinPrivateSum])
def test_vectors_without_even_coefficients_are_protected_as_well(make, monkeypatch):
    """They are sent, by encodings that the guarantee covers; an error would be seen."""
    protocol = make(6, Ball(64, 3.0), 20, 1e-2, precision=3, min_honest=5)
    x = np.zeros((6, 64))
    x[4:] = 3 * uneven(protocol.frame)
    seen = seen_encodings(protocol, monkeypatch)
    rng = DeterministicRandom(8)
    with pytest.warns(RuntimeWarning, match=r"x\[4\] and 1 more: .* private, but .* biased"):
        protocol.randomize(x, rng)
    with pytest.warns(RuntimeWarning, match=r"x\[0\]: no coefficients within 2.5/sqrt\(128\)"):
        assert protocol.report(x[4], rng).size
    with pytest.warns(RuntimeWarning, match=r"x\[4\] and 1 more"):
        result = protocol.run(x, rng)
    with monkeypatch.context() as patch:
        patch.setattr(kashin_sums_afnntz24, "MAX_MADE", 0)
        with pytest.warns(RuntimeWarning, match=r"x\[4\] and 1 more"):
            protocol.run(x, rng)
    assert len(seen) == 4
    assert all(0 <= encoded.min() <= encoded.max() <= 3 for encoded in seen)
    assert len(np.unique(np.concatenate(seen))) == 4
    assert np.isfinite(result.estimate).all()


def test_what_is_cut_off_is_close() -> None:
    """The nearest coefficients within the bound: a vector that points the same way."""
    protocol = KashinPrivateSum(2, Ball(64), 1, 1e-3)
    x = uneven(protocol.frame)
    with pytest.warns(RuntimeWarning):
        units = protocol._units(x)
    assert (units.min(), units.max()) == (0, 1)
    (sent,) = protocol.frame.vectors(protocol.half * (2 * units - 1))
    assert 0.8 < sent @ x[0] < 1
    assert np.linalg.norm(sent - x[0]) < 0.2


@pytest.mark.slow
def test_warnings_number_users_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "ENTRIES_PER_PASS", 2 * 64)
    for make in (KashinCorrelatedNoise, KashinPrivateSum):
        protocol = make(5, Ball(64), 20, 1e-2, precision=3)
        x = np.zeros((5, 64))
        x[3] = uneven(protocol.frame)
        for few in (True, False):
            monkeypatch.setattr(kashin_sums_afnntz24, "MAX_MADE", 10**9 * few)
            with pytest.warns(RuntimeWarning, match=r"x\[3\]: no coefficients"):
                protocol.run(x, DeterministicRandom(9))
