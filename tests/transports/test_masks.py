"""Masks: exact sums, how rarely they are wrong, what the analyzer sees, and the guarantee."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from statistical import FALSE_ALARM
from test_discrete_gaussian import gaussian_law
from transports.cases import by_parties, reports_of

from ikos import Ball, Box, PrivateVectorSum, SecureVectorSum
from ikos.counts.masks import MaskParameters, mask_parameters
from ikos.noise.base import UsersNoise
from ikos.numeric.rings import Negacyclic, Words, above, add, below, raised
from ikos.testing import DeterministicRandom
from ikos.transports import Masks, Reports
from ikos.transports import masks as module
from ikos.transports.base import Totals
from ikos.transports.masks import joint

SEED = bytes(32)
TASK = b"a task"

QUICK: dict[str, Any] = {"layout": "masked", "sigma": 1}
"""Few messages for the keys, as the level is not what is tested."""


def secure_sum(users: int, dimension: int, upper: int, **how: Any) -> SecureVectorSum:
    return SecureVectorSum(users, dimension, upper=upper, **(QUICK | how))


def vectors(users: int, dimension: int, upper: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, upper + 1, (users, dimension))


def masks_of(users: int, dimension: int, highest: int, **how: Any) -> Masks:
    """Return masks without a sum of keys, perhaps with other parameters than are proved."""
    found = copy.copy(mask_parameters(users, dimension, -(-users * highest // 2)))
    for name, value in how.items():
        object.__setattr__(found, name, value)
    return Masks(users, 2**61, highest, found, None)  # type: ignore[arg-type]


def opened(masks: Masks, x: NDArray[np.int64], keys: NDArray[np.int64]) -> Any:
    """Return the sums of masked vectors, given the keys."""
    total = masked_total(masks, x, keys)
    summed = keys.sum(axis=0) % masks.masks.key_modulus
    return masks.unmasked(SEED, total, summed, len(x))


def masked_total(
    masks: Masks, x: NDArray[np.int64], keys: NDArray[np.int64], seed: int = 0
) -> Words:
    """Return the sum of what is sent."""
    total = masks.polynomials.zeros(masks.masks.samples)
    for rows, _, sent in masks.masked(SEED, x, keys, DeterministicRandom(seed)):
        add(total[:, rows], sent)
    return total


def fixed_errors(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """Make all errors the same."""
    monkeypatch.setattr(
        Masks,
        "gaussians",
        lambda self, count, rng: np.full((count, self.masks.degree), error),
    )


# Exact sums


@pytest.mark.slow
@pytest.mark.parametrize(
    ("users", "dimension", "upper"),
    [(2, 1, 1), (3, 2048, 2**20), (4, 5000, 2**16), (2, 40_000, 10), (2, 5000, 2**58)],
)
def test_sums_are_exact(users: int, dimension: int, upper: int) -> None:
    protocol = secure_sum(users, dimension, upper)
    x = vectors(users, dimension, upper)
    x[:, 0], x[:, -1] = upper, 0
    np.testing.assert_array_equal(protocol.run(x), x.sum(axis=0))


@pytest.mark.slow
def test_both_degrees_and_words_are_used() -> None:
    used = {
        (found.degree, found.modulus_bits > 64, found.digits > 1)
        for users, dimension, upper in ((3, 2048, 2**20), (2, 5000, 2**58), (2, 40_000, 10))
        for found in [secure_sum(users, dimension, upper).transport.masks]
    }
    assert {(2048, False, True), (4096, True, False)} <= used


@pytest.mark.slow
@pytest.mark.parametrize("degree", [2048, 4096])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_errors_are_rounded_off_and_one_more_is_not(
    degree: int, sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With keys as large as their sum may be, and digits at both of their ends.

    Dropped bits, centred, add up to at most n (2^r - 1)/2, so that errors of a sum below
    2^(g-1) - n (2^r - 1)/2 are right whatever they are; without dropped bits, -2^(g-1) is, too.
    """
    users = 2
    found = mask_parameters(users, 4 * degree, 2**14, degree=degree)
    # M/2 - 1 above the middle, and M/2 below
    masks = Masks(users, 2**61, 0, found, None)  # type: ignore[arg-type]
    half = 1 << found.digit_bits - 1
    x = np.tile([[half - 1], [0]], (1, found.dimension))
    x[:, ::2] = [[-half], [0]]
    keys = np.full((users, degree), -found.key_modulus // 4)
    room = (1 << found.shift - 1) - users * ((1 << found.dropped_bits) - 1) // 2
    fixed_errors(monkeypatch, sign * (room // users - 1))
    np.testing.assert_array_equal(opened(masks, x, keys), x.sum(axis=0))
    fixed_errors(monkeypatch, sign * ((1 << found.shift) - room + users))
    lowest = np.arange(found.dimension) // degree % found.digits == 0
    assert (opened(masks, x, keys) != x.sum(axis=0))[lowest].all()


@pytest.mark.slow
def test_two_bits_less_of_room_give_wrong_sums_as_often_as_predicted() -> None:
    """The error of a coefficient is nearly normal, with the variance of errors and dropped bits.

    The bound of the failure is above what is seen, and far below it with the right shift.
    """
    users, dimension = 20, 40_000
    right = masks_of(users, dimension, 500)
    found = right.masks
    less = masks_of(users, dimension, 500, modulus_bits=found.modulus_bits - 2)
    rng = DeterministicRandom(1)
    keys, x = right.gaussians(users, rng), vectors(users, dimension, 500)
    truth = x.sum(axis=0)
    np.testing.assert_array_equal(opened(right, x, keys), truth)
    wrong = opened(less, x, keys) != truth
    assert found.digits > 1
    # of the lowest digits, which no carry reaches
    lowest = np.arange(dimension) // found.degree % found.digits == 0
    variance = users * (36 + (4**found.dropped_bits - 1) / 12)
    chance = 2 * stats.norm.sf((1 << found.shift - 3) / math.sqrt(variance))
    law = stats.binom(int(lowest.sum()), chance)
    seen = int(wrong[lowest].sum())
    assert law.ppf(FALSE_ALARM) * 0.9 < seen < law.isf(FALSE_ALARM) * 1.1
    assert seen > 100
    assert less.masks.failure > 1 > 2**-40 > right.masks.failure


@pytest.mark.slow
def test_sums_that_leave_the_window_spoil_the_next_digit_by_one() -> None:
    masks = masks_of(2, 3 * 2048, 100)
    found = masks.masks
    size = 1 << found.digit_bits
    x = np.zeros((2, found.dimension), dtype=np.int64)
    x[0, 0] = size  # coordinates 0 and N are digits of one coefficient
    sums = opened(masks, x, masks.gaussians(2, DeterministicRandom(0)))
    assert found.digits >= 2
    assert np.flatnonzero(sums).tolist() == [found.degree]
    assert sums[found.degree] == 1


# What the analyzer sees


@pytest.mark.slow
def test_keys_and_errors_are_discrete_gaussian_of_deviation_six() -> None:
    draws = masks_of(2, 4000, 10).gaussians(100, DeterministicRandom(3)).reshape(-1)
    assert gaussian_law(36.0).p_value(draws) > FALSE_ALARM
    for wrong in (33.0, 39.0, 36 / (2 * math.pi)):
        assert gaussian_law(wrong).p_value(draws) < FALSE_ALARM


@pytest.mark.slow
def test_every_user_has_a_key_and_errors_of_its_own() -> None:
    """What adds up to a key is small, and no other user's; nor are errors under the same key."""
    protocol = secure_sum(4, 2500, 9)
    reports = protocol.share(np.zeros((4, 2500), dtype=int), DeterministicRandom(5), context=TASK)
    shares = [reports.parts[0][1], *(part[0] for part in reports.parts[1:])]
    q = protocol.transport.keys.q
    keys = (np.sum(shares, axis=0, dtype=np.int64) + q // 2) % q - q // 2
    assert gaussian_law(36.0).p_value(keys.reshape(-1)) > FALSE_ALARM
    assert len({key.tobytes() for key in keys}) == 4
    masks = masks_of(2, 2048, 9)
    same = np.repeat(masks.gaussians(1, DeterministicRandom(0)), 2, axis=0)
    x = np.zeros((2, 2048), dtype=np.int64)
    (_, _, one), (_, _, other) = masks.masked(SEED, x, same, DeterministicRandom(1))
    assert (one != other).any()


PAIRS = np.array([[[0], [0]], [[65_534], [1]]])  # sums are equal modulo T = 65535


def _below_the_message(x: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """Return C - a S of two users who send a s + T e + x, with an odd T."""
    ring, t, count = Negacyclic(2048, 53), 65_535, 25
    masks = masks_of(2, count * 2048, 10)
    rng = DeterministicRandom(seed)
    total, keys = ring.zeros(count), masks.gaussians(2, rng)
    public = ring.transform(ring.public(SEED, range(count)))
    for key, value in zip(keys, x, strict=True):
        add(total, ring.product(public, key))
        add(total, (t * masks.gaussians(count, rng) + value).view(np.uint64)[np.newaxis])
    add(total, ring.product(public, -keys.sum(axis=0)))
    ring.reduce(total)
    centred = (total[0] + np.uint64(1 << 52) & np.uint64((1 << 53) - 1)).astype(np.int64)
    return np.asarray(((centred - (1 << 52)) // t).reshape(-1), dtype=np.float64)


def _above_the_errors(x: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """Return C - a S modulo 2^g, with the message on top."""
    masks = masks_of(2, 25 * 2048, 30_000, dropped_bits=0)
    found, ring = masks.masks, masks.polynomials
    keys = masks.gaussians(2, DeterministicRandom(seed))
    both = np.repeat(x, found.dimension, axis=1)
    left = masked_total(masks, both, keys, seed + 1)
    public = ring.transform(ring.public(SEED, range(found.samples)))
    add(left, ring.product(public, -keys.sum(axis=0)))
    add(left, np.full((ring.words, 1, 1), 1 << found.shift - 1, dtype=np.uint64))
    below(left, found.shift)
    return np.asarray(left[0].reshape(-1), dtype=np.float64)


@pytest.mark.slow
def test_the_sum_modulo_t_is_all_that_is_left_besides_the_errors() -> None:
    """The attack on messages below the errors: inputs with the same sum modulo T, told apart.

    Its statistic is the mean of what is left of 51,200 coefficients when masks and messages are
    off, in deviations. It is normal to far more than what is asked.
    """

    def deviations(seen: Any) -> float:
        first, second = (seen(x, seed) for seed, x in enumerate(PAIRS))
        spread = math.sqrt((first.var() + second.var()) / first.size)
        return float(abs(second.mean() - first.mean()) / spread)

    assert deviations(_below_the_message) > 15
    assert deviations(_above_the_errors) < 6.2


@pytest.mark.slow
@pytest.mark.parametrize("bits", [16, 40])
def test_with_the_same_randomness_equal_sums_modulo_t_give_the_same_view(bits: int) -> None:
    """All of the sum of what is sent is the same, dropped bits included."""
    masks = masks_of(2, 9000, (1 << bits) - 1)
    found = masks.masks
    keys = masks.gaussians(2, DeterministicRandom(0))
    x = vectors(2, found.dimension, 1000)
    other = x.copy()
    other[0] += 77
    other[1] -= 77
    last = slice((found.digits - 1) * found.degree, found.digits * found.degree)
    other[0, last] += 1 << found.digit_bits  # T, in the highest digit
    sums = []
    for values in (x, other):
        total = masked_total(masks, values, keys, 1)
        width = found.modulus_bits - found.dropped_bits
        below(total, width)
        sums.append(total)
    np.testing.assert_array_equal(*sums)


@pytest.mark.slow
def test_keys_of_two_sets_open_the_vector_of_the_user_between() -> None:
    """Why there is one release: a second one, with one user less, gives that user's key."""
    protocol, x = secure_sum(4, 3000, 9), vectors(4, 3000, 9)
    masks, reports = protocol.transport, reports_of(protocol, x, TASK)
    assert isinstance(masks, Masks)

    def sums_of_keys(some: list[Reports]) -> NDArray[Any]:
        parts = [
            masks.release(
                party,
                tuple(map(np.concatenate, zip(*(one.parts[party] for one in some), strict=True))),
                DeterministicRandom(0),
            )
            for party in range(masks.parties + 1)
        ]
        return np.array(masks.keys.totals(masks.view(parts).keys).sums)

    key = (sums_of_keys(reports) - sums_of_keys(reports[:3])) % masks.keys.q
    (sealed, *_), *others = reports[3].parts
    alone = masks.zeros()
    masks.add_opened(alone, sealed[0], joint([part[-1] for part in others])[0])
    opened = masks.unmask(alone, Totals(key.tolist(), 1), protocol.context(TASK))
    np.testing.assert_array_equal(opened.sums, x[3])


# The parties


@pytest.mark.slow
def test_a_masked_vector_is_sealed_until_every_party_released() -> None:
    """Without any one of the seals, or under another one, what opens is another vector."""
    protocol = secure_sum(2, 3000, 9)
    report = protocol.report(vectors(1, 3000, 9)[0], DeterministicRandom(0), context=TASK)
    _, *parts = report.parts
    seals = [part[-1] for part in parts]
    assert len({seal.tobytes() for seal in seals}) == len(seals) > 1

    def streams(seals: list[np.ndarray]) -> np.ndarray:
        return protocol.transport._stream(np.bitwise_xor.reduce(seals)[0])[None]

    whole = streams(seals)
    for j in range(len(seals)):
        less = streams([*seals[:j], *seals[j + 1 :]])
        # 15,000 octets agree in 59 by chance, in 6.2 deviations more with probability 1e-9
        assert (less == whole).sum() < 110


@pytest.mark.slow
def test_public_polynomials_depend_on_the_context_and_all_parameters() -> None:
    one, other = secure_sum(2, 3000, 9), secure_sum(2, 3000, 10)
    seeds = {
        protocol.transport._seed(protocol.context(context))
        for protocol, context in ((one, TASK), (one, b"another"), (other, TASK))
    }
    assert len(seeds) == 3
    assert one.parameters["modulus_bits"] == one.transport.masks.modulus_bits


# The guarantee


@pytest.mark.slow
def test_the_level_is_that_of_keys_and_splitting_together() -> None:
    protocol = SecureVectorSum(1000, 10**5, upper=1047, layout="masked", min_honest=900)
    masks = protocol.transport
    lost = 2 * (2.0**-masks.keys.sigma + 2.0**-masks.masks.security)
    assert 80 <= protocol.guarantee.sigma <= -math.log2(lost) + 1e-9
    assert masks.keys.trust.min_honest == 900
    assert masks.keys.q == masks.masks.key_modulus
    guarantee = protocol.guarantee
    assert guarantee.computational
    said = "\n".join(map(str, guarantee.conditions))
    for name in ("Ring-LWE", "random oracle", "2^-81", "900 of 1,000", "no shuffler colludes"):
        assert name in said
    assert protocol.cost().messages_per_user == masks.keys.layout.messages_per_user + 1
    assert protocol.remaining(honest=500).sigma < 80


@pytest.mark.points(0)
@pytest.mark.parametrize(("domain", "releases"), [(Box(5000), 1), (Ball(5000), 1), (Box(5000), 7)])
def test_the_delta_is_that_of_the_noise_and_of_what_masks_lose(domain: Any, releases: int) -> None:
    epsilon, delta = Fraction(3, 2), Fraction(1, 10**7)
    protocol = PrivateVectorSum(
        300, domain, epsilon, delta, layout="masked", releases=releases, min_honest=200
    )
    masks, noise = protocol.transport, protocol.noise
    lost = 2.0**-masks.keys.sigma + 2.0**-masks.masks.security
    hidden = releases * (1 + math.exp(1.5)) * lost
    shown = protocol.guarantee.delta
    assert hidden + noise.delta <= shown * (1 + 1e-12)
    assert shown <= delta
    assert protocol.guarantee.epsilon == 1.5
    assert "computational" in str(protocol.guarantee)
    # the noise is private with all of epsilon, and no larger than in shares of the same sum
    shares = PrivateVectorSum(300, domain, epsilon, delta, releases=releases, min_honest=200)
    assert 0.97 * shares.noise.deviation < noise.deviation <= shares.noise.deviation


@pytest.mark.points(0)
def test_noise_and_rounding_are_in_the_integers_that_are_masked() -> None:
    x = np.random.default_rng(0).random((40, 3000))
    protocol = PrivateVectorSum(40, Box(3000), 1, 1e-6, layout="masked", precision=10)
    result = protocol.run(x, DeterministicRandom(1))
    off = (result.estimate - x.sum(axis=0)) * 10
    variance = protocol.error(40).coordinate.mean_square * 100
    rounding = (x * 10 % 1 * (1 - x * 10 % 1)).sum(axis=0).mean()
    noise = protocol.noise.distribution(Fraction(1)).variance
    assert noise + rounding <= variance
    # the mean square of 3,000 nearly normal errors: 8 deviations
    assert abs((off**2).mean() / (noise + rounding) - 1) < 8 * math.sqrt(2 / 3000)


@pytest.mark.slow
def test_the_error_counts_failures_and_wraps_of_other_digits() -> None:
    protocol = PrivateVectorSum(300, Box(5000), 1, 1e-6, layout="masked")
    found = protocol.transport.masks
    shares = PrivateVectorSum(
        300, Box(5000), 1, 1e-6, layout=10, precision=protocol.precision, modulus=protocol.modulus
    )
    plain = replace(protocol.error(300).coordinate, digits=1, failure=0.0)  # type: ignore[type-var]
    error = protocol.error(300)
    assert error.wrap_probability == 5000 * plain.wrap_probability + found.failure
    wrong = found.digits * plain.wrap_probability + found.failure
    assert error.coordinate.wrap_probability == wrong  # type: ignore[attr-defined]
    assert error.coordinate.mean_square > plain.mean_square
    assert shares.error(300).coordinate.wrap_probability < wrong  # type: ignore[attr-defined]


# Running all parties


@pytest.mark.points(0)
def test_integers_without_noise_come_out_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many users there are: the middle of what is possible moves with their number."""
    protocol = PrivateVectorSum(
        4, Box(2500, -3, 4), 1, 0.5, layout="masked", integers=True, min_honest=2
    )
    none = np.empty(0, dtype=np.int64)
    monkeypatch.setattr(UsersNoise, "entries", lambda *_: (none, none))
    for users, values in ((4, 4), (2, -3), (3, None)):
        x = np.random.default_rng(users).integers(-3, 5, (users, 2500))
        if values is not None:
            x[:] = values
        np.testing.assert_array_equal(protocol.run(x).estimate, x.sum(axis=0))
    assert by_parties(protocol, reports_of(protocol, x)).estimate.tolist() == x.sum(axis=0).tolist()


@pytest.mark.slow
def test_vectors_are_read_one_after_the_other() -> None:
    dimension, alive = 300_000, [0, 0]
    protocol = secure_sum(6, dimension, 1)

    class Row(np.ndarray):  # type: ignore[type-arg]
        def __del__(self) -> None:
            alive[0] -= 1

    def rows() -> Iterator[NDArray[np.uint8]]:
        for _ in range(6):
            alive[0] += 1
            alive[1] = max(alive)
            yield np.ones((1, dimension), dtype=np.uint8).view(Row)

    assert protocol.run(rows(), threads=1).tolist() == [6] * dimension
    assert alive[1] < 6


@pytest.mark.slow
def test_ten_million_coordinates() -> None:
    protocol = secure_sum(2, 10**7, 2**18)
    x = vectors(2, 10**7, 2**18)
    np.testing.assert_array_equal(protocol.run(x), x.sum(axis=0))


# Refusals


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"upper": None, "q": 8}, "upper must be given"),
        ({"min_honest": 1}, "min_honest must be at least 2"),
        ({"n": 1}, "users must be at least 2"),
        ({"upper": 2**61}, "sums must be below"),
        ({"upper": 2**200}, "sums must be below"),
        ({"q": 8, "upper": 4}, "q must be above"),
        ({"messages": 5}, "messages must be None with masked vectors"),
        ({"layout": "group", "transport": "masks"}, "layout must not be given with masked"),
        ({"sigma": 115}, "n and dimension must be less"),
    ],
)
def test_refusals(how: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        SecureVectorSum(
            **({"n": 3, "dimension": 10, "upper": 4, "layout": "masked"} | how)  # type: ignore[arg-type]
        )


def test_the_group_is_a_power_of_two() -> None:
    with pytest.raises(ValueError, match=r"^modulus must be a power of two"):
        PrivateVectorSum(10, Box(3), 1, 1e-6, layout="masked", modulus=10**6 + 3)


@pytest.mark.slow
def test_too_many_masked_vectors_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = secure_sum(2, 3000, 9)
    monkeypatch.setattr(module, "MAX_ENTRIES", 4095)
    with pytest.raises(ValueError, match="use run"):
        protocol.share(vectors(2, 3000, 9), context=b"a sum")


@pytest.mark.slow
def test_parameters_of_another_sum_are_not_accepted() -> None:
    found = mask_parameters(10, 5000, 1000)
    assert isinstance(found, MaskParameters)
    with pytest.raises(ValueError, match="modulus_bits"):
        replace(found, modulus_bits=found.modulus_bits - 2)
    assert above(raised(np.ones((2, 1, 64), dtype=np.uint64), 3), 3)[0].sum() == 64
