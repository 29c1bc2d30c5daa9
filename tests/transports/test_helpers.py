"""Helpers: views enumerated exactly, keystreams byte by byte, sums in machine words, and noise."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import chain, combinations, product
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray
from statistical import FALSE_ALARM, IntegerLaw, discrete_laplace_law, skellam_law
from transports.cases import CONTEXT, by_parties, reports_of

from ikos import (
    Box,
    PrivateSum,
    PrivateVectorSum,
    SecureSum,
    SecureVectorSum,
    SparseTernary,
)
from ikos.counts import helpers as counted
from ikos.counts.helpers import HelpersLayout, expansion_loss, helpers_level
from ikos.data.domains import ResidueVectors
from ikos.data.reading import Participation, Reader
from ikos.noise.base import Noise
from ikos.noise.laplace_noise import LaplaceNoise
from ikos.numeric.rounding import rounding
from ikos.primitives.modular import Zq
from ikos.results.conditions import Kind
from ikos.testing import DeterministicRandom
from ikos.transports import AddedShares, Helpers
from ikos.transports.roles import Party

SEED, ID = bytes(range(32)), bytes(range(100, 116))


# Views, enumerated: coordinate t of all vectors is outcome t of one sum of numbers


@dataclass(frozen=True)
class Enumerated(AddedShares):
    """Sums of numbers modulo any q, whose keystreams take all values.

    A keystream that is drawn the first time takes the next of the ``axes`` of outcomes; those that
    are ``known`` are the coalition's.
    """

    axes: tuple[NDArray[Any], ...] = ()
    known: dict[bytes, NDArray[Any]] = field(default_factory=dict)
    drawn: dict[tuple[Any, ...], NDArray[Any]] = field(default_factory=dict)

    def keystream(self, seed: bytes, party: int, id: bytes, context: bytes) -> NDArray[Any]:
        if seed in self.known:
            return self.known[seed]
        axis = self.axes[min(len(self.drawn), len(self.axes) - 1)]
        return self.drawn.setdefault((seed, party, id, context), axis)

    def elements(self, words: NDArray[Any]) -> NDArray[Any]:
        return (words % self.q).astype(self.group.dtype)


class Reused(Enumerated):
    """A bad one: all users' keystreams for a party are equal."""

    def keystream(self, seed: bytes, party: int, id: bytes, context: bytes) -> NDArray[Any]:
        return super().keystream(b"", party, b"", context)


class Twice(Enumerated):
    """A bad one: parties add their noise twice."""

    def noisy(self, sums: NDArray[Any], rng: Any) -> NDArray[Any]:
        return super().noisy(super().noisy(sums, rng), rng)


class Never(Enumerated):
    """A bad one: parties add no noise."""

    def noisy(self, sums: NDArray[Any], rng: Any) -> NDArray[Any]:
        return sums


ATOMS = (0, 0, 1)
"""Equally likely values of a noise."""


@dataclass(frozen=True)
class Atoms(Noise):
    """A noise with these values in all outcomes."""

    values: NDArray[np.int64]

    def whole(self, size: int, rng: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
        return np.arange(size), self.values

    shares = distribution = divergences = error_growth = least = None


@dataclass
class World:
    """All outcomes of a sum of n users with k helpers, as all parties but one see it.

    The last ``corrupt`` users send parts that are no shares of a value. ``before`` is what the
    coalition has of the others when the ``missing`` party is asked, ``values`` their values, and
    ``stolen`` whether that party has another part than its own under the first one's id.
    """

    q: int
    n: int
    k: int
    missing: int
    corrupt: int = 0
    noise: bool = False
    kind: type[Enumerated] = Enumerated
    stolen: bool = False

    def __post_init__(self) -> None:
        q, honest = self.q, self.n - self.corrupt
        shape = (q,) * (self.k * honest) + (q,) * honest + (len(ATOMS),) * self.noise
        digits = np.indices(shape, dtype=np.uint8).reshape(len(shape), -1)
        size, shares = digits.shape[1], self.k * honest
        self.honest, self.values = honest, digits[shares : shares + honest]
        group, users = Zq(q), Participation(self.n, 1)
        layout = HelpersLayout.of(self.n, size, group.bits, self.k)
        noise = Atoms(np.array(ATOMS)[digits[-1]]) if self.noise else None
        transport = self.kind(users, q, layout, noise, axes=tuple(digits[:shares]))
        reader = Reader(users, ResidueVectors(group, None, size), None, None, group, scalar=False)
        self.party = Party(transport, users, self.missing, CONTEXT)
        others = [j for j in range(1, self.k + 1) if j != self.missing]
        known, row = np.full(size, 1, np.uint8), np.full((1, size), 1, group.dtype)
        rng, self.ids, seen = DeterministicRandom(3), list[bytes](), list[NDArray[Any]]()
        for b in range(self.n):
            id, octets = bytes([b]) * 16, np.full((1, 32), b, np.uint8)
            transport.known[octets.tobytes()] = known
            forged = (octets if self.missing else row,)
            part = forged
            if b < honest:
                x = self.values[b : b + 1].astype(group.dtype)
                report = transport.report(reader, x, rng, CONTEXT)
                ((id,), parts) = report.ids, report.parts
                seen += [parts[0][0][0]] * (self.missing > 0)
                seen += [transport.keystream(parts[j][0].tobytes(), j, id, CONTEXT) for j in others]
                part = forged if self.stolen and b == 0 else parts[self.missing]
            self.ids.append(id)
            self.party.receive(id, part)
        assert len(transport.drawn) == shares or self.kind is Reused
        self.before, self.seen = self._code(seen), len(seen)

    def _code(self, digits: Sequence[NDArray[Any]]) -> NDArray[np.int32]:
        """Return digits of all outcomes as one number."""
        code = np.zeros(self.values.shape[1], np.int32)
        for digit in digits:
            code *= self.q
            code += digit.astype(np.int32)
        return code

    def answer(self, chosen: Sequence[int]) -> NDArray[Any]:
        """Return what the missing party answers for a set of users.

        Each time it is another copy of it: no party answers two sets.
        """
        party = copy.copy(self.party)
        party._parts = dict(party._parts)
        sums: NDArray[Any] = party.release(self.ids[b] for b in chosen).messages.sums
        return sums

    def law(self, chosen: Sequence[int], *more: NDArray[Any]) -> NDArray[Any]:
        """Return how often each view comes about, a row for each of the honest users' values."""
        answers, rows = (self.answer(chosen), *more), self.q**self.honest
        code = self._code(self.values) * self.q**self.seen + self.before
        for answer in answers:
            code = code * self.q + answer.astype(np.int32)
        size = rows * self.q ** (self.seen + len(answers))
        return np.bincount(code, minlength=size).reshape(rows, -1)

    def laws(self, chosen: Sequence[int], *more: NDArray[Any]) -> dict[int, NDArray[Any]] | None:
        """Return the law of the view by the sum of honest users' values, if it is all that counts.

        Those are the users in the set whose own parts the missing party has.
        """
        users = [b for b in chosen if b < self.honest and not (self.stolen and b == 0)]
        every = np.indices((self.q,) * self.honest).reshape(self.honest, -1)
        sums = (every[users].sum(axis=0) % self.q).tolist()
        law = self.law(chosen, *more)
        one = dict(zip(sums, law, strict=True))
        alike = all((row == one[s]).all() for s, row in zip(sums, law, strict=True))
        return one if alike else None

    @property
    def sets(self) -> list[tuple[int, ...]]:
        """All sets of users: whatever rule chooses one, it is one of them."""
        users = range(self.n)
        return list(chain.from_iterable(combinations(users, m) for m in range(1, self.n + 1)))


def noisy(laws: dict[int, NDArray[Any]], q: int) -> dict[int, NDArray[Any]]:
    """Return the laws of views for sums to which a noise is added, once."""
    if len(laws) == 1:  # of no honest users: the answer is that of the coalition, with noise
        answers = laws[0].reshape(-1, q)
        return {0: sum(np.roll(answers, e, axis=1) for e in ATOMS).reshape(-1)}
    return {s: sum(laws[(s + e) % q] for e in ATOMS) for s in laws}


def equal(one: dict[int, NDArray[Any]] | None, other: dict[int, NDArray[Any]]) -> bool:
    """Return whether two families of laws are the same."""
    return one is not None and all((one[s] == other[s]).all() for s in other)


SMALL = [(2, 2, 1), (2, 3, 1), (3, 2, 1), (2, 2, 2)]
WORLDS = [
    pytest.param(q, n, k, missing, corrupt, id=f"{q}-{n}-{k}-{missing}-{corrupt}",
                 marks=[] if (q, n, k) in SMALL else pytest.mark.slow)
    for q, n, k in product((2, 3, 5), (2, 3), (1, 2))
    for missing in range(k + 1) for corrupt in range(min(n, 3))
]  # fmt: skip


@pytest.mark.points(len(WORLDS))
@pytest.mark.parametrize(("q", "n", "k", "missing", "corrupt"), WORLDS)
def test_what_a_coalition_sees_depends_on_one_sum_alone(
    q: int, n: int, k: int, missing: int, corrupt: int
) -> None:
    """Of whatever set, perhaps chosen by what was seen before: enumerated, in integers.

    With noise of parties, the sum has that of the missing one, once.
    """
    plain, other = (World(q, n, k, missing, corrupt, noise) for noise in (False, True))
    for chosen in plain.sets:
        laws = plain.laws(chosen)
        assert laws is not None, chosen
        if len(laws) == q:  # and does depend on it
            assert all((laws[0] != laws[s]).any() for s in range(1, q))
        assert equal(other.laws(chosen), noisy(laws, q)), chosen


@pytest.mark.parametrize("missing", [0, 1])
def test_a_user_whose_id_was_stolen_is_hidden(missing: int) -> None:
    world = World(3, 2, 1, missing, stolen=True)
    assert all(world.laws(chosen) for chosen in world.sets)


@pytest.mark.parametrize("missing", [0, 1])
def test_the_enumeration_notices_what_is_wrong(missing: int) -> None:
    """Two answers, one keystream for two users, noise twice, or none."""
    world = World(3, 2, 1, missing)
    laws = world.laws((0, 1))
    assert laws is not None
    assert world.laws((0, 1), world.answer((0,))) is None
    reused = World(3, 2, 1, missing, kind=Reused)
    # all but the analyzer's secrets are the coalition's anyway, if that is missing
    assert (missing == 0) == all(reused.laws(chosen) for chosen in reused.sets)
    for kind in (Twice, Never):
        wrong = World(3, 2, 1, missing, noise=True, kind=kind)
        assert not equal(wrong.laws((0, 1)), noisy(laws, 3))


# Keystreams


def words(bits: int, count: int, seed: bytes, party: int, id: bytes, context: bytes) -> list[int]:
    """Return the elements of a seed, by other code than the library's."""
    size = next(size for size in (1, 2, 4, 8) if 8 * size >= bits)
    stream = b""
    for chunk in range(-(-count * size >> 20)):
        bound = context + party.to_bytes(4, "big") + id + chunk.to_bytes(4, "big")
        key = HKDFExpand(SHA512(), 48, b"ikos helpers 1" + bound).derive(seed)
        cipher = Cipher(algorithms.AES256(key[:32]), modes.CTR(key[32:]))
        stream += cipher.encryptor().update(bytes(1 << 20))
    cut = (stream[size * i : size * i + size] for i in range(count))
    return [int.from_bytes(word, "little") % (1 << bits) for word in cut]


def vectors(bits: int, dimension: int, helpers: int = 1, n: int = 2) -> AddedShares:
    """Return the transport of vectors modulo 2^bits."""
    protocol = SecureVectorSum(n, dimension, 2**bits, transport=Helpers(helpers))
    assert isinstance(protocol.transport, AddedShares)
    return protocol.transport


def expanded(bits: int, count: int, *bound: Any) -> NDArray[Any]:
    """Return the elements of a seed."""
    transport = vectors(bits, count)
    return transport.elements(transport.keystream(*(bound or (SEED, 1, ID, CONTEXT))))


GOLDEN = {
    (1, 5): "e1590269f4fbf8cae052ad209e51508575a7c52bbda340180c2bc7124794014b",
    (5, 1_000): "806e38d5b88b6e66a2ba98200287a17e28ab2bb05a79c833406653640b046bd4",
    (8, 1_048_577): "705332d352fd2df94325a2da38d5ed64752987989d47d00be46d5018f5baae5a",
    (9, 3): "175d092f87f58f3ce41c188950e5ad7bb1d342ad4e58e830b4c000ebee149d4d",
    (16, 524_295): "ee25d082655ea1a09855dd4f4d714f939f06e130f965f8e5831d04133f75d4b2",
    (17, 100): "b7820a003b85449a37bc4fab44ba79540dedd481dcb0a52cdc4210b35ef82a18",
    (18, 100_000): "a077047db52927f34dd18e267291ef5bcc5a7a35a4f91fef3529dbf5d7f78e0e",
    (18, 786_437): "a845bce0c1548ea54d4d07f247348efa71aa0268f18a280433337a804f9ab937",
    (32, 1): "57398d3fca569c945fc00246cbfbe8e0e552340f7022adf9588ad6a5dac9fb76",
    (33, 262_144): "3cbedacbe71ff63abe1ce55b2799fbe68da51eddae1fa63441c1d4a0dd37419a",
    (47, 9): "aae6168374e6ea7cbcb9422bcb3218e143496d484212af5e9952b29eaa7e6c80",
    (63, 131_073): "60374909e0709ad947fd82b0ce29182f77ec89ab385c3c64336bbce224948b51",
    (64, 131_072): "828299e435982e5d27fcf60241210b03429fe3716fcfadd2616bfc0e4bb2045f",
}
"""SHA-256 of elements as words of 8 bytes, little-endian, by bits and dimension."""


@pytest.mark.points(6)
@pytest.mark.parametrize(("bits", "count"), GOLDEN)
def test_a_keystream_is_what_it_always_was(bits: int, count: int) -> None:
    """Of a vector in one piece, and in several, of 2^20 bytes each."""
    drawn = expanded(bits, count)
    assert drawn.tolist() == words(bits, count, SEED, 1, ID, CONTEXT)
    assert hashlib.sha256(drawn.astype("<u8").tobytes()).hexdigest() == GOLDEN[bits, count]


def test_a_keystream_is_bound_to_all_that_it_depends_on() -> None:
    """A longer vector goes on where a shorter one ends."""
    bound = (SEED, 1, ID, CONTEXT)
    others = [(bytes(32), *bound[1:]), (SEED, 2, ID, CONTEXT), (SEED, 1, ID[::-1], CONTEXT)]
    others += [(*bound[:3], CONTEXT + b"\0"), (*bound[:3], b"")]
    drawn = [expanded(64, 4, *one).tolist() for one in (bound, *others)]
    assert len(set(chain.from_iterable(drawn))) == 4 * len(drawn)
    assert expanded(64, 2, *bound).tolist() == drawn[0][:2]


@pytest.mark.points(1)
@pytest.mark.parametrize("id", [b"", bytes(15), bytes(17), bytes(36)])
def test_ids_of_other_lengths_are_refused(id: bytes) -> None:
    """Else another name of a sum might end as this one's party and id begin."""
    protocol = SecureSum(2, upper=9, transport="helpers")
    (report,) = reports_of(protocol, [7])
    with pytest.raises(ValueError, match=r"^id must have 16 bytes"):
        expanded(8, 3, SEED, 1, id, CONTEXT)
    for party in protocol.parties(CONTEXT):
        with pytest.raises(ValueError, match=r"^id must have 16 bytes"):
            party.receive(id, report.parts[party.number])


# Sums


@pytest.mark.parametrize("bits", range(1, 65))
def test_sums_are_exact_modulo_every_power_of_two(bits: int) -> None:
    """More users than a word of a keystream counts, of which all have the largest value."""
    q, users = 1 << bits, 300 if bits <= 8 else 9
    protocol = SecureVectorSum(users, 2, q, transport=Helpers(2))
    x = np.full((users, 2), q - 1, dtype=np.uint64)
    x[0, 1] = 0
    expected = [users * (q - 1) % q, (users - 1) * (q - 1) % q]
    shares = protocol.share(x, context=CONTEXT)
    view = protocol.shuffle(shares, context=CONTEXT)
    assert by_parties(protocol, reports_of(protocol, x)).tolist() == expected
    assert protocol.run(x).tolist() == expected
    assert protocol.analyze(view, context=CONTEXT).tolist() == expected


def test_parts_under_another_id_give_no_sum_but_a_random_one() -> None:
    """Nobody notices, as of a report that is damaged; nor does anybody learn a value."""
    protocol = SecureSum(3, 2**64, transport="helpers")
    one, other, third = reports_of(protocol, [5, 6, 7])
    assert by_parties(protocol, [one, other, third]) == 18
    swapped = [replace(one, ids=other.ids), replace(other, ids=one.ids), third]
    assert abs(by_parties(protocol, swapped) - 18) > 2**32


@pytest.mark.parametrize("party", [0, 2])
def test_what_is_no_sum_of_vectors_is_refused(party: int) -> None:
    """Of another length or type, or beyond q, or of other users, or of too few parties."""
    protocol = SecureVectorSum(2, 3, 2**20, transport=Helpers(2))
    shares = protocol.share(np.ones((2, 3), int), context=CONTEXT)
    view = protocol.shuffle(shares, context=CONTEXT)
    sums = view[party].sums
    beyond = sums.copy()
    beyond[1] = 2**20
    for forged in (sums[:1], np.append(sums, sums[:1]), sums.astype(float), beyond, sums[None]):
        bad = [replace(one, sums=forged) if j == party else one for j, one in enumerate(view)]
        with pytest.raises(ValueError, match=r"^view must hold sums of 3 elements of each party"):
            protocol.analyze(tuple(bad), context=CONTEXT)
    fewer = [replace(one, users=1) if j == party else one for j, one in enumerate(view)]
    for wrong in (view[1:], (*view, view[0]), tuple(fewer)):
        with pytest.raises(ValueError, match=r"^view must hold the sums of 3 parties, of the same"):
            protocol.analyze(wrong, context=CONTEXT)
    assert protocol.analyze(view, context=CONTEXT).tolist() == [2, 2, 2]


# Noise


def noise_law(noise: Noise, variables: int) -> IntegerLaw:
    """Return the law of a sum of several variables of a noise."""
    if noise.kind == "skellam":
        return skellam_law(variables * float(noise.value))
    one = law = discrete_laplace_law(float(noise.value))
    for _ in range(variables - 1):
        law = law.minus(one)  # it is symmetric
    return law


@pytest.mark.points(2)
@pytest.mark.parametrize("helpers", [1, 2])
@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 40)])
def test_each_party_adds_one_whole_noise_to_each_coordinate(helpers: int, rate: Fraction) -> None:
    """Whatever the number of users, at once and by parties."""
    d, noise = 16_000, LaplaceNoise(rate)
    law, *others = (noise_law(noise, helpers + more) for more in (1, 0, 2))
    for users in (1, 5):
        protocol = SecureVectorSum(users, d, 2**16, transport=Helpers(helpers))
        transport = replace(vectors(16, d, helpers, users), noise=noise)
        object.__setattr__(protocol, "transport", transport)
        x = np.zeros((users, d), dtype=int)
        reports = reports_of(protocol, x)
        for sums in (protocol.run(x, DeterministicRandom(1)), by_parties(protocol, reports)):
            drawn = np.asarray(sums).astype(np.uint16).view(np.int16)
            assert law.p_value(drawn) > FALSE_ALARM
            assert all(other.p_value(drawn) < FALSE_ALARM for other in others)


D = 8000


@pytest.mark.parametrize("who", ["users", "parties"])
@pytest.mark.parametrize("domain", [Box(D, 0, 1), SparseTernary(D, 1)], ids=["skellam", "laplace"])
def test_results_have_the_noise_that_is_said(who: Any, domain: Any) -> None:
    """Between parties: that of the least number of users, or of two parties."""
    users, whole = 4, {"integers": True} if isinstance(domain, Box) else {}
    protocol = PrivateVectorSum(
        users, domain, 1, 1e-6, min_honest=2, transport=Helpers(1, who), **whole
    )
    x = np.zeros((users, D), dtype=int)
    for some in (users, 2):
        result = by_parties(protocol, reports_of(protocol, x[:some]))
        drawn = np.asarray(result.estimate).astype(np.int64)
        variables = 2 if who == "parties" else some // 2
        assert noise_law(protocol.noise, variables).p_value(drawn) > FALSE_ALARM
        assert noise_law(protocol.noise, variables + 1).p_value(drawn) < FALSE_ALARM
        low, high = result.interval(1 - 1e-9, simultaneous=True)
        assert ((low <= 0) & (high >= 0)).all()
        noise = D * protocol.noise.deviation**2 * variables
        assert result.error.mean_square == pytest.approx(noise, rel=2e-3)


def test_no_two_parties_have_the_same_noise() -> None:
    protocol = PrivateVectorSum(2, Box(50, 0, 1), 1, 1e-6, transport=Helpers(2, "parties"))
    transport, rng = protocol.transport, DeterministicRandom(1)
    assert isinstance(transport, AddedShares)
    drawn = [tuple(transport.noisy(transport.elements(transport.zeros()), rng)) for _ in range(6)]
    assert len(set(drawn)) == 6


# The guarantee


def test_keystreams_cost_what_the_switching_lemma_says() -> None:
    """By the blocks of each chunk, in rationals; rounded up, and levels down."""
    for d, bits in [(1, 64), (5, 1), (17, 8), (10**5, 18), (10**7, 32), ((1 << 17) + 1, 64)]:
        size = next(size for size in (1, 2, 4, 8) if 8 * size >= bits)
        chunks = [min(1 << 20, d * size - first) for first in range(0, d * size, 1 << 20)]
        blocks = [-(-length // 16) for length in chunks]
        exact = sum(Fraction(b * (b - 1), 1 << 129) for b in blocks)
        loss = Fraction(*expansion_loss(d, bits).as_integer_ratio())
        assert exact <= loss <= exact * (1 + Fraction(1, 1 << 50))
        for users in (1, 1000):
            level = helpers_level(users, d, bits)
            assert level == (pytest.approx(-math.log2(2 * users * exact)) if exact else math.inf)


@pytest.mark.points(2)
@pytest.mark.parametrize("users", range(1, 30))
def test_losses_are_rounded_up_and_levels_down(users: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As numbers of few bits show."""
    d, bits = 3 * 10**5 + 7, 32
    exact = 2 * users * expansion_loss(d, bits)
    monkeypatch.setattr(counted, "rounding", partial(rounding, precision=9))
    assert exact < 2 * users * expansion_loss(d, bits) < 1.01 * float(exact)
    assert -0.6 < helpers_level(users, d, bits) + math.log2(exact) < 0


def test_figures_are_those_of_the_documentation() -> None:
    assert -math.log2(expansion_loss(10**5, 18)) == pytest.approx(99.8, abs=0.05)
    assert -math.log2(10**6 * expansion_loss(10**7, 32)) == pytest.approx(71.8, abs=0.05)
    recipes = {Helpers(): 1.414, Helpers(3): 1.414, Helpers(1, "parties"): 2.0}
    recipes[Helpers(2, "parties")] = 2.449
    for recipe, expected in recipes.items():
        for users in (500, 1000):
            error = math.sqrt(PrivateSum(users, 1, 1e-6, transport=recipe).mse)
            assert expected < error < 1.007 * expected  # by rounding
    for d, bits, helpers in [(1, 1, 1), (3, 5, 2), (10**5, 18, 1)]:
        layout = vectors(bits, d, helpers).layout
        assert layout.bytes_per_user(0) == -(-d * bits // 8) + 32 * helpers
        assert layout.messages_per_user == 1 + helpers
    assert [SecureSum(2, upper=u, transport="helpers").q for u in (3, 4)] == [8, 16]


@pytest.mark.parametrize(("who", "seeds"), [("users", 1000), ("parties", 1)])
@pytest.mark.parametrize("releases", [1, 7])
def test_delta_covers_the_keystreams_of_all_releases(who: Any, seeds: int, releases: int) -> None:
    """Of all users' seeds, or with noise of parties of that of the one who is replaced."""
    d, epsilon = 10**7, 3
    protocol = PrivateVectorSum(
        1000, Box(d, 0, 1), epsilon, 1e-20, integers=True, releases=releases,
        transport=Helpers(2, who),
    )  # fmt: skip
    lost = float(expansion_loss(d, protocol.transport.layout.bits))
    charged = Fraction(protocol.total_delta) - Fraction(protocol.noise.delta)
    expected = releases * seeds * (1 + math.exp(epsilon)) * lost
    assert float(charged) == pytest.approx(expected, rel=1e-9, abs=0)
    with pytest.raises(ValueError, match=r"^delta must be at least"):
        PrivateVectorSum(1000, Box(d, 0, 1), epsilon, 1e-27, transport=Helpers(2, who))


def test_guarantees_name_who_must_be_honest_and_what_is_assumed() -> None:
    """Some users, unless parties add the noise, and one of the parties."""
    for make, who, users, times in [
        (SecureSum, "users", True, 50),
        (PrivateSum, "users", True, 50), (PrivateSum, "parties", False, 1),
    ]:  # fmt: skip
        budget = {"upper": 9} if make is SecureSum else {"epsilon": 1, "delta": 1e-6}
        protocol = make(50, **budget, min_honest=40, transport=Helpers(2, who))
        of = {condition.kind: condition for condition in protocol.guarantee.conditions}
        assert (Kind.USERS in of) == users
        assert not users or "at least 40 of 50 users" in of[Kind.USERS].text
        assert "while one of the analyzer and 2 helpers is honest" in of[Kind.PARTIES].text
        assert protocol.guarantee.computational
        assert (f"up to {times} times" if times > 1 else "once") in of[Kind.CRYPTOGRAPHY].text
    transport = replace(vectors(64, 2**20), noise=LaplaceNoise(Fraction(1)))  # with 8 keys a seed
    assert any("up to 8 times" in condition.text for condition in transport.conditions)


def test_one_honest_helper_is_as_good_as_all() -> None:
    protocol = SecureVectorSum(9, 10**5, upper=9, min_honest=5, transport=Helpers(3))
    assert protocol.guarantee.sigma == helpers_level(9, 10**5, 7)
    for honest, corrupt in [(None, None), (1, 0), (5, 2)]:
        rest = protocol.remaining(honest=honest, corrupt_shufflers=corrupt)
        assert rest.sigma == protocol.guarantee.sigma
    assert protocol.remaining(corrupt_shufflers=3).sigma == 0
    assert SecureSum(9, upper=9, transport="helpers").remaining().sigma == math.inf


def test_a_level_that_keystreams_do_not_have_is_refused() -> None:
    most = helpers_level(10**6, 10**7, 24)
    protocol = SecureVectorSum(10**6, 10**7, upper=9, sigma=most, transport="helpers")
    assert protocol.guarantee.sigma == most
    with pytest.raises(ValueError, match=r"^sigma must be at most 70\.\d\d with helpers"):
        SecureVectorSum(10**6, 10**7, upper=9, sigma=most + 1, transport="helpers")
