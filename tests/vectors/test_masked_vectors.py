"""Masked vectors: exact sums, what the analyzer sees, and one release of one set."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from statistical import FALSE_ALARM
from test_discrete_gaussian import gaussian_law

from ikos import Ball, Box, Categories, PrivateVectorSum, SecureVectorSum
from ikos.counts.masks import MaskParameters, mask_parameters
from ikos.numeric.rings import Negacyclic, Words, above, add, below, raised
from ikos.sums import masked_vectors as module
from ikos.sums.masked_vectors import MaskedAnalyzer, MaskedReport, MaskedVectors
from ikos.testing import DeterministicRandom

SEED = bytes(32)
TASK = b"a task"

QUICK: dict[str, Any] = {"layout": "masked", "sigma": 1}
"""Few messages for the keys, as the level is not what is tested."""


def secure_sum(users: int, dimension: int, upper: int, **how: Any) -> SecureVectorSum:
    return SecureVectorSum(users, dimension, upper=upper, **(QUICK | how))


def vectors(users: int, dimension: int, upper: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, upper + 1, (users, dimension))


def masks_of(users: int, dimension: int, highest: int, **how: Any) -> MaskedVectors:
    """Return masks without a sum of keys, perhaps with other parameters than are proved."""
    found = copy.copy(mask_parameters(users, dimension, -(-users * highest // 2)))
    for name, value in how.items():
        object.__setattr__(found, name, value)
    return MaskedVectors(found, None, highest)


def opened(masks: MaskedVectors, x: NDArray[np.int64], keys: NDArray[np.int64]) -> Any:
    """Return the sums of masked vectors, given the keys."""
    total = masked_total(masks, x, keys)
    summed = keys.sum(axis=0) % masks.parameters.key_modulus
    return masks.unmasked(SEED, total, summed, len(x))


def masked_total(
    masks: MaskedVectors, x: NDArray[np.int64], keys: NDArray[np.int64], seed: int = 0
) -> Words:
    """Return the sum of what is sent."""
    total = masks.ring.zeros(masks.parameters.samples)
    for rows, _, sent in masks.masked(SEED, x, keys, DeterministicRandom(seed)):
        add(total[:, rows], sent)
    return total


def fixed_errors(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """Make all errors the same."""
    monkeypatch.setattr(
        MaskedVectors,
        "gaussians",
        lambda self, count, rng: np.full((count, self.parameters.degree), error),
    )


# Exact sums


@pytest.mark.points(3)
@pytest.mark.parametrize(
    ("users", "dimension", "upper"),
    [(2, 1, 1), (3, 2048, 2**20), (4, 5000, 2**16), (2, 40_000, 10), (2, 5000, 2**58)],
)
def test_sums_are_exact(users: int, dimension: int, upper: int) -> None:
    protocol = secure_sum(users, dimension, upper)
    x = vectors(users, dimension, upper)
    x[:, 0], x[:, -1] = upper, 0
    np.testing.assert_array_equal(protocol.run(x), x.sum(axis=0))


def test_both_degrees_and_words_are_used() -> None:
    used = {
        (found.degree, found.modulus_bits > 64, found.digits > 1)
        for users, dimension, upper in ((3, 2048, 2**20), (2, 5000, 2**58), (2, 40_000, 10))
        for found in [secure_sum(users, dimension, upper).masks.parameters]  # type: ignore[union-attr]
    }
    assert {(2048, False, True), (4096, True, False)} <= used


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
    masks = MaskedVectors(found, None, 0)
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
    found = right.parameters
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
    assert less.parameters.failure > 1 > 2**-40 > right.parameters.failure


def test_sums_that_leave_the_window_spoil_the_next_digit_by_one() -> None:
    masks = masks_of(2, 3 * 2048, 100)
    found = masks.parameters
    size = 1 << found.digit_bits
    x = np.zeros((2, found.dimension), dtype=np.int64)
    x[0, 0] = size  # coordinates 0 and N are digits of one coefficient
    sums = opened(masks, x, masks.gaussians(2, DeterministicRandom(0)))
    assert found.digits >= 2
    assert np.flatnonzero(sums).tolist() == [found.degree]
    assert sums[found.degree] == 1


# What the analyzer sees


def test_keys_and_errors_are_discrete_gaussian_of_deviation_six() -> None:
    draws = masks_of(2, 4000, 10).gaussians(100, DeterministicRandom(3)).reshape(-1)
    assert gaussian_law(36.0).p_value(draws) > FALSE_ALARM
    for wrong in (33.0, 39.0, 36 / (2 * math.pi)):
        assert gaussian_law(wrong).p_value(draws) < FALSE_ALARM


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
    found, ring = masks.parameters, masks.ring
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


@pytest.mark.parametrize("bits", [16, 40])
def test_with_the_same_randomness_equal_sums_modulo_t_give_the_same_view(bits: int) -> None:
    """All of the sum of what is sent is the same, dropped bits included."""
    masks = masks_of(2, 9000, (1 << bits) - 1)
    found = masks.parameters
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


def test_keys_of_two_sets_open_the_vector_of_the_user_between() -> None:
    """Why there is one release: a second one, with one user less, gives that user's key."""
    masks = masks_of(4, 5000, 1000)
    x, keys = vectors(4, 5000, 1000), masks.gaussians(4, DeterministicRandom(2))
    key = keys.sum(axis=0) - keys[:3].sum(axis=0)
    sent = masked_total(masks, x, keys)
    fewer = masked_total(masks, x[:3], keys[:3])
    # errors are drawn for all users at once: those of the first three are others here
    alone = masks.ring.zeros(masks.parameters.samples)
    for rows, user, each in masks.masked(SEED, x, keys, DeterministicRandom(0)):
        if user == 3:
            add(alone[:, rows], each)
    assert sent.shape == fewer.shape
    found = masks.unmasked(SEED, alone, key % masks.parameters.key_modulus, 1)
    np.testing.assert_array_equal(found, x[3])


# The parties


def send(protocol: Any, reports: list[MaskedReport]) -> tuple[MaskedAnalyzer, list[Any]]:
    analyzer = protocol.analyzer(TASK)
    shufflers = [protocol.shuffler(j) for j in range(protocol.masks.shufflers)]
    for report in reports:
        analyzer.receive(report.id, report.masked, report.clear)
        for shuffler, part in zip(shufflers, report.parts, strict=True):
            shuffler.receive(part)
    return analyzer, shufflers


@pytest.mark.points(2)
@pytest.mark.parametrize(
    ("shuffler", "clear_share"), list(itertools.product(["parallel", "single"], [True, False]))
)
def test_the_parties_add_up_the_reports_that_are_complete(shuffler: str, clear_share: bool) -> None:
    protocol = secure_sum(5, 3000, 999, min_honest=3, shuffler=shuffler, clear_share=clear_share)
    x = vectors(5, 3000, 999)
    reports = [protocol.client(row, TASK, DeterministicRandom(i)) for i, row in enumerate(x)]
    assert {len(report.masked) for report in reports} == {protocol.masks.parameters.masked_bytes}  # type: ignore[union-attr]
    analyzer, shufflers = send(protocol, [*reports[:3], reports[1]])  # one of them twice
    analyzer.receive(reports[3].id, reports[3].masked, reports[3].clear)  # no shares of the key
    for one, part in zip(shufflers, reports[4].parts, strict=True):
        one.receive(part)  # no masked vector
    chosen = analyzer.choose(*(one.ids for one in shufflers))
    assert set(chosen) == {report.id for report in reports[:3]}
    releases = [one.release(chosen) for one in shufflers]
    np.testing.assert_array_equal(analyzer.analyze(releases[::-1]), x[:3].sum(axis=0))


@pytest.mark.points(0)
def test_a_second_set_and_a_second_release_are_refused() -> None:
    protocol = secure_sum(3, 3000, 9, min_honest=2)
    reports = [protocol.client(row, TASK) for row in vectors(3, 3000, 9)]
    analyzer, shufflers = send(protocol, reports)
    held = [one.ids for one in shufflers]
    with pytest.raises(ValueError, match=r"^ids must be those of \d+ shufflers"):
        analyzer.choose(*held[1:])
    for bad in ([reports[0].id], [reports[0].id] * 2, [reports[0].id, bytes(16)]):
        with pytest.raises(ValueError, match=r"^ids must"):
            shufflers[0].release(bad)
    chosen = analyzer.choose(*held)
    with pytest.raises(ValueError, match=r"^ids must be those of a task's only set"):
        analyzer.choose(*held)
    releases = [one.release(chosen) for one in shufflers]
    with pytest.raises(ValueError, match=r"^ids must be those of a task's only release"):
        shufflers[0].release(chosen[1:])
    with pytest.raises(ValueError, match=r"^releases must be one of each"):
        analyzer.analyze(releases[1:])
    other = replace(releases[0], seals={bytes(16): bytes(32)})
    with pytest.raises(ValueError, match=r"^releases must be of the set"):
        analyzer.analyze([other, *releases[1:]])


def test_damaged_parts_are_refused_where_they_can_be_seen() -> None:
    protocol = secure_sum(2, 3000, 9)
    report, other = (protocol.client(row, TASK) for row in vectors(2, 3000, 9))
    analyzer, shufflers = send(protocol, [report])
    assert report.clear is not None
    for name, masked, clear in (
        ("masked", report.masked[:-1], report.clear),
        ("id", other.masked, report.clear),  # under an id that is there
        ("clear", report.masked, None),
        ("clear", report.masked, report.clear[1:]),
        ("clear", report.masked, report.clear + np.uint32(2**20)),
    ):
        with pytest.raises(ValueError, match=f"^{name} must"):
            analyzer.receive(report.id, masked, clear)
    part = report.parts[0]
    for shares in (part.shares[:, 1:], part.shares + np.uint32(2**20), other.parts[0].shares):
        with pytest.raises(ValueError, match=r"^(part|id) must"):
            shufflers[0].receive(replace(part, shares=shares))
    with pytest.raises(ValueError, match=r"^part must hold 32 bytes"):
        shufflers[0].receive(replace(part, seal=part.seal[1:]))


def test_a_masked_vector_is_sealed_until_every_shuffler_released() -> None:
    protocol = secure_sum(2, 3000, 9)
    report = protocol.client(vectors(1, 3000, 9)[0], TASK, DeterministicRandom(0))
    seals = [part.seal for part in report.parts]
    assert len({*seals}) == len(seals) > 1
    whole = module._stream(seals, 64)
    for j in range(len(seals)):
        assert (module._stream(seals[:j] + seals[j + 1 :], 64) != whole).any()
    assert module._stream(seals[::-1], 64).tolist() == whole.tolist()


def test_public_polynomials_depend_on_the_task_and_all_parameters() -> None:
    one, other = secure_sum(2, 3000, 9), secure_sum(2, 3000, 10)
    assert len({one.seed(TASK), one.seed(b"another"), other.seed(TASK)}) == 3
    assert one.parameters["modulus_bits"] == one.masks.parameters.modulus_bits  # type: ignore[union-attr]


def test_sums_are_values_and_travel() -> None:
    one, same, other = (secure_sum(2, 3000, upper) for upper in (9, 9, 10))
    assert one == same != other
    assert hash(one) == hash(same)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != SecureVectorSum(2, 3000, upper=9, sigma=1)


def test_reports_are_of_fresh_keys() -> None:
    protocol = secure_sum(2, 3000, 9)
    x = vectors(1, 3000, 9)[0]
    one, other = protocol.client(x, TASK), protocol.client(x, TASK)
    assert one.id != other.id
    assert one.masked != other.masked


# The guarantee


def test_the_level_is_that_of_keys_and_splitting_together() -> None:
    protocol = SecureVectorSum(1000, 10**5, upper=1047, layout="masked", min_honest=900)
    masks = protocol.masks
    assert masks is not None
    lost = 2 * (2.0**-masks.keys.sigma + 2.0**-masks.parameters.security)
    assert 80 <= protocol.sigma <= -math.log2(lost) + 1e-9
    assert masks.keys.trust == protocol.trust
    assert masks.keys.q == masks.parameters.key_modulus
    guarantee = protocol.guarantee
    assert guarantee.computational
    said = "\n".join(map(str, guarantee.conditions))
    for name in ("Ring-LWE", "random oracle", "2^-81", "900 of 1,000", "no shuffler colludes"):
        assert name in said
    assert protocol.cost().messages_per_user == masks.keys.cost().messages_per_user + 1
    sent = masks.parameters.masked_bytes + 32 * masks.shufflers
    assert protocol.cost().bits_per_user == masks.keys.cost().bits_per_user + 8 * sent
    assert protocol.remaining(honest=500).sigma < 80


@pytest.mark.points(0)
@pytest.mark.parametrize(("domain", "releases"), [(Box(5000), 1), (Ball(5000), 1), (Box(5000), 7)])
def test_the_delta_is_that_of_the_noise_and_of_what_masks_lose(domain: Any, releases: int) -> None:
    epsilon, delta = Fraction(3, 2), Fraction(1, 10**7)
    protocol = PrivateVectorSum(
        300, domain, epsilon, delta, layout="masked", releases=releases, min_honest=200
    )
    masks, noise = protocol.masks, protocol.noise
    assert masks is not None
    lost = 2.0**-masks.keys.sigma + 2.0**-masks.parameters.security
    hidden = releases * (1 + math.exp(1.5)) * lost
    shown = protocol.guarantee.delta
    assert hidden + noise.delta <= shown * (1 + 1e-12)
    assert shown <= delta
    assert protocol.guarantee.epsilon == 1.5
    assert "computational" in str(protocol.guarantee)
    # the noise is private with all of epsilon, and no larger than in shares of the same sum
    shares = PrivateVectorSum(300, domain, epsilon, delta, releases=releases, min_honest=200)
    assert noise.deviation <= shares.noise.deviation


@pytest.mark.points(0)
def test_noise_and_rounding_are_in_the_integers_that_are_masked() -> None:
    x = np.random.default_rng(0).random((40, 3000))
    protocol = PrivateVectorSum(40, Box(3000), 1, 1e-6, layout="masked", precision=10)
    result = protocol.run(x, DeterministicRandom(1))
    off = (result.estimate - x.sum(axis=0)) * 10
    variance = protocol.error(40).coordinate.mean_square * 100
    rounding = (x * 10 % 1 * (1 - x * 10 % 1)).sum(axis=0).mean()
    noise = protocol.noise.law(Fraction(1)).variance
    assert noise + rounding <= variance
    # the mean square of 3,000 nearly normal errors: 8 deviations
    assert abs((off**2).mean() / (noise + rounding) - 1) < 8 * math.sqrt(2 / 3000)


@pytest.mark.points(0)
def test_integers_without_noise_come_out_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = PrivateVectorSum(
        4, Box(2500, -3, 4), 1, 0.5, layout="masked", integers=True, min_honest=2
    )
    none = np.empty(0, dtype=np.int64)
    monkeypatch.setattr(PrivateVectorSum, "noise_shares", lambda *_: (none, none))
    for users, values in ((4, 4), (2, -3), (3, None)):
        x = np.random.default_rng(users).integers(-3, 5, (users, 2500))
        if values is not None:
            x[:] = values
        result = protocol.run(x)
        np.testing.assert_array_equal(result.estimate, x.sum(axis=0))
        assert result.users == users
    analyzer, shufflers = send(protocol, [protocol.client(row, TASK) for row in x])
    chosen = analyzer.choose(*(one.ids for one in shufflers))
    result = analyzer.analyze([one.release(chosen) for one in shufflers])
    np.testing.assert_array_equal(result.estimate, x.sum(axis=0))


def test_the_error_counts_failures_and_wraps_of_other_digits() -> None:
    protocol = PrivateVectorSum(300, Box(5000), 1, 1e-6, layout="masked")
    found = protocol.masks.parameters  # type: ignore[union-attr]
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
def test_a_run_depends_neither_on_threads_nor_on_how_users_come() -> None:
    protocol = PrivateVectorSum(6, Categories([3000]), 1, 1e-6, layout="masked", reserve=0)
    x = np.eye(3000)[:6]
    results = [
        protocol.run(values, DeterministicRandom(4), threads=threads).estimate.tolist()
        for values, threads in ((x, 1), (x, 3), (iter([x[:4], x[4:]]), 2))
    ]
    assert results[0] == results[1] == results[2]


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
        ({"messages": 5}, "layout must be the length of blocks"),
        ({"sigma": 115}, "n and dimension must be less"),
    ],
)
def test_refusals(how: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        SecureVectorSum(
            **({"n": 3, "dimension": 10, "upper": 4, "layout": "masked"} | how)  # type: ignore[arg-type]
        )


def test_values_beyond_the_largest_are_refused() -> None:
    for layout in ("masked", "separate"):
        protocol = SecureVectorSum(2, 3, upper=4, layout=layout, sigma=1)
        with pytest.raises(ValueError, match=r"^x\[:, 1\]\[1\] must be in \[0, upper\]"):
            protocol.run([[1, 2, 3], [4, 5, 0]])


def test_shares_of_vectors_are_refused() -> None:
    protocol, shares = secure_sum(2, 3, 4), SecureVectorSum(2, 3, 8)
    x = np.ones((2, 3), dtype=np.int64)
    for call in (protocol.share, protocol.report, protocol.shuffle):
        with pytest.raises(ValueError, match=r"^layout must not be 'masked'"):
            call(x[0] if call == protocol.report else x)
    with pytest.raises(ValueError, match=r"^layout must not be 'masked'"):
        protocol.run(x, cluster=SimpleNamespace(add_up=None))
    for name, argument in (("analyzer", TASK), ("shuffler", 0)):
        with pytest.raises(ValueError, match=r"^layout must be 'masked'"):
            getattr(shares, name)(argument)
    with pytest.raises(TypeError, match=r"^task must be bytes, got 'a name'"):
        protocol.client(x[0], "a name")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="power of two"):
        PrivateVectorSum(10, Box(3), 1, 1e-6, layout="masked", modulus=10**6 + 3)


def test_parameters_of_another_sum_are_not_accepted() -> None:
    found = mask_parameters(10, 5000, 1000)
    assert isinstance(found, MaskParameters)
    with pytest.raises(ValueError, match="modulus_bits"):
        replace(found, modulus_bits=found.modulus_bits - 2)
    assert above(raised(np.ones((2, 1, 64), dtype=np.uint64), 3), 3)[0].sum() == 64
