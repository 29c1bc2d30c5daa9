"""Sums of long vectors: clients mask them, and a secure sum adds the keys of the masks.

- A client (`MaskedReport`) sends its masked vector to the analyzer, and shares of its key to the
  shufflers. The masked vector is sealed: it is hidden by a stream whose key is the exclusive or of
  32 bytes for each shuffler.
- A shuffler (`KeyShuffler`) mixes the shares of one set of reports, once, and gives out its 32
  bytes of each report in the set.
- The analyzer (`MaskedAnalyzer`) fixes the set, of all reports that are complete, adds up the keys'
  shares and the masked vectors, and takes the sum of the masks off.

The proof is in the documentation: Masked vectors.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import chain, count
from typing import Any, TypeVar

import gmpy2
import numpy as np
from numpy.typing import NDArray

from ikos._validation import check_participation, integer, refuse_missing
from ikos.counts import Layout
from ikos.counts.masks import MaskParameters, mask_parameters
from ikos.counts.types import Trust
from ikos.numeric.rings import Negacyclic, Words, above, add, from_bytes, raised, scaled, to_bytes
from ikos.numeric.rounding import DOWN, UP, float_down, float_up, rounding
from ikos.primitives.concurrency import Interrupted, Progress, cores, spread
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource, secure
from ikos.primitives.samplers import discrete_gaussian
from ikos.primitives.shuffling import View
from ikos.results.sums import hundredths
from ikos.sums.shuffled_sum import (
    ShuffledSum,
    Values,
    checked_blocks,
    iterator_or_array,
    pack,
)

ID_BYTES, SEAL_BYTES = 16, 32

_AT_ONCE = 1 << 18  # coefficients of a vector that are masked at a time

_LARGEST = 1 << 61  # sums are int64, and so are digits of two of them

THEOREM = "masked vectors (documentation, Masked vectors)"

_T = TypeVar("_T")


@dataclass(frozen=True)
class MaskedLayout(Layout):
    """What each user sends: a masked vector, ``keys``, and 32 bytes for each of ``shufflers``.

    ``count`` and ``length`` are those of the keys' blocks; ``sigma`` is for the whole vector.
    """

    masks: MaskParameters = field(kw_only=True)
    keys: Layout = field(kw_only=True)
    shufflers: int = field(kw_only=True)

    @property
    def name(self) -> str:
        """What it is called."""
        return "masked vectors"

    @property
    def sums(self) -> int:
        """How many blocks a key has."""
        return self.keys.sums

    @property
    def messages_per_user(self) -> int:
        """Messages that each user sends: the masked vector, and shares of the key."""
        return self.keys.messages_per_user + 1

    @property
    def bits_per_message(self) -> int:
        """Bits of each share of a key."""
        return self.keys.bits_per_message

    @property
    def bits_per_user(self) -> int:
        """Bits that each user sends, before any encryption."""
        sealed = self.masks.masked_bytes + SEAL_BYTES * self.shufflers
        return self.keys.bits_per_user + 8 * sealed

    def __str__(self) -> str:
        return f"{self.name}: {self.masks}; keys in {self.keys}"


@dataclass(frozen=True)
class MaskedVectors:
    """How vectors are masked, and the `ikos.SecureVectorSum` that adds the ``keys``.

    Without noise, all entries of vectors are from 0 to ``highest``.
    """

    parameters: MaskParameters
    keys: Any
    highest: int

    @cached_property
    def ring(self) -> Negacyclic:
        """The polynomials of masked vectors."""
        return Negacyclic(self.parameters.degree, self.parameters.modulus_bits)

    @property
    def shufflers(self) -> int:
        """How many parties mix shares: one for each row of all blocks, or a single one."""
        return 1 if self.keys.trust.single else int(self.keys.setting.shuffled)

    def lost(self, keys: float) -> gmpy2.mpfr:
        """Return a bound of the advantage that no assumption covers: of shares, and of splitting.

        ``keys`` is the level at which the sum of keys hides them.
        """
        with rounding(UP):
            return sum(gmpy2.exp2(-gmpy2.mpfr(bits)) for bits in (keys, self.parameters.security))

    def level(self, keys: float) -> float:
        """Return the level for any two inputs with the same sum, in bits, rounded down."""
        with rounding(UP):
            return max(0.0, float_down(-gmpy2.log2(2 * self.lost(keys))))

    @property
    def theorem(self) -> str:
        """What is proved, and from what."""
        return f"{THEOREM}; keys: {self.keys.layout.count.theorem}"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the proof assumes besides honest parties."""
        found = self.parameters
        return (
            f"assuming {found.row}, an advantage against which counts up to "
            f"{found.users - 1:,} times for each input",
            "assuming that SHAKE-128 and SHAKE-256 behave as random oracles",
            f"keys are hidden to 2^-{hundredths(self.keys.sigma)}, and splitting masks costs "
            f"2^-{hundredths(found.security)}: both are proved, and counted",
        )

    def gaussians(self, polynomials: int, rng: RandomSource) -> NDArray[np.int64]:
        """Return polynomials that are keys, each of one vector, or errors."""
        found = self.parameters
        drawn = discrete_gaussian(found.deviation**2, polynomials * found.degree, rng)
        return drawn.reshape(polynomials, found.degree)

    def masked(
        self,
        seed: bytes,
        vectors: NDArray[np.int64],
        keys: NDArray[np.int64],
        rng: RandomSource,
    ) -> Iterator[tuple[slice, int, Words]]:
        """Yield what is sent for vectors: which polynomials, whose, and upper bits of each.

        All of a user's have the key in its row of ``keys``; ``seed`` determines the public ones.
        Polynomial l has coordinates l N c to (l + 1) N c - 1, of which the first N are the lowest
        digits.
        """
        found, ring, users = self.parameters, self.ring, len(vectors)
        size = found.degree * found.digits
        for rows in blocks(found.samples, max(1, _AT_ONCE // found.degree)):
            public = ring.transform(ring.public(seed, range(rows.start, rows.stop)))
            drawn = self.gaussians(users * (rows.stop - rows.start), rng)
            errors = drawn.reshape(users, -1, found.degree)
            here = vectors[:, rows.start * size : rows.stop * size]
            full = np.zeros((users, (rows.stop - rows.start) * size), dtype=np.int64)
            full[:, : here.shape[1]] = here
            digits = full.reshape(users, -1, found.digits, found.degree)
            for user, key in enumerate(keys):
                sent = ring.product(public, key)
                add(sent, scaled(errors[user], 0, ring.words))
                for digit in range(found.digits):
                    place = found.shift + digit * found.digit_bits
                    add(sent, scaled(digits[user, :, digit], place, ring.words))
                ring.reduce(sent)
                yield rows, user, above(sent, found.dropped_bits)

    def unmasked(
        self, seed: bytes, total: Words, keys: NDArray[Any], users: int
    ) -> NDArray[np.int64]:
        """Return the sums of vectors, each within M/2 of the middle of what is possible.

        ``total`` is the sum of what was sent, and ``keys`` that of the keys modulo q_s.
        """
        found, ring, centre = self.parameters, self.ring, -(-users * self.highest // 2)
        taken = keys.astype(np.int64)
        taken[taken >= found.key_modulus // 2] -= found.key_modulus
        half = 1 << found.digit_bits - 1
        # half of the dropped bits' range and of the errors' is added, and half of each digit's
        constant = users * ((1 << found.dropped_bits) - 1) // 2 + (1 << found.shift - 1)
        for digit in range(found.digits):
            constant += half - centre << found.shift + digit * found.digit_bits
        constants = [constant >> 64 * i & (1 << 64) - 1 for i in range(ring.words)]
        result = np.empty((found.samples, found.digits, found.degree), dtype=np.int64)
        for rows in blocks(found.samples, max(1, _AT_ONCE // found.degree)):
            left = raised(total[:, rows], found.dropped_bits)
            public = ring.transform(ring.public(seed, range(rows.start, rows.stop)))
            add(left, ring.product(public, -taken))
            add(left, np.array(constants, dtype=np.uint64).reshape(-1, 1, 1))
            for digit in range(found.digits):
                low = above(left, found.shift + digit * found.digit_bits)[0]
                digits = (low & np.uint64(2 * half - 1)).astype(np.int64)
                result[rows, digit] = digits + (centre - half)
        return result.reshape(-1)[: found.dimension]

    def totals(
        self,
        clients: ShuffledSum[Any],
        x: Values,
        rng: RandomSource,
        threads: int | None,
        progress: Progress | None,
    ) -> tuple[list[int], int]:
        """Return the sums of all users' vectors, and their number, as `ShuffledSum.run` does.

        Some users' vectors are masked at a time and added up, without seals, which cancel out.
        """
        seed, streams = clients.seed(rng.bytes(SEAL_BYTES)), rng.streams()

        def part(number: int, values: NDArray[Any]) -> tuple[Words, NDArray[Any]]:
            source = streams(number)
            vectors = clients.noisy_integers(values, source)
            keys = self.gaussians(len(vectors), source)
            total = self.ring.zeros(self.parameters.samples)
            for rows, _, sent in self.masked(seed, vectors, keys, source):
                add(total[:, rows], sent)
            return total, self.keys.group.reduce(keys)

        total, keys, users = self.ring.zeros(self.parameters.samples), [], 0
        given = iterator_or_array(clients, x)
        if not isinstance(given, Iterator):
            check_participation("x", len(given), clients.min_honest, clients.n)
        threads = cores() if threads is None else threads
        together = max(1, _AT_ONCE // self.parameters.coefficients)
        try:
            with nullcontext() if threads == 1 else ThreadPoolExecutor(threads) as executor:
                tasks = zip(count(), checked_blocks(clients, given, together), strict=False)
                for more, some in spread(part, tasks, executor):
                    add(total, more)
                    keys.append(some)
                    users += len(some)
                    if progress is not None:
                        progress(users, clients.n)
        except KeyboardInterrupt:
            raise Interrupted(None, users, clients.n, "users") from None
        check_participation("x", users, clients.min_honest, clients.n)
        found = self.keys.run(np.concatenate(keys), rng, threads=threads)
        return (self.unmasked(seed, total, found, users) % clients.q).tolist(), users

    def layout(self, bits: int) -> MaskedLayout:
        """Return what each user sends for sums of so many bits, with the level for the vector."""
        keys, sigma = self.keys.layout, self.level(self.keys.sigma)
        size = self.parameters.dimension, keys.length, bits
        more = {"masks": self.parameters, "keys": keys, "shufflers": self.shufflers}
        return MaskedLayout(keys.count, *size, sigma, **more)


def _stream(seals: Sequence[bytes], size: int) -> NDArray[np.uint8]:
    """Return the stream that hides a masked vector."""
    key = np.bitwise_xor.reduce([np.frombuffer(seal, dtype=np.uint8) for seal in seals])
    octets = hashlib.shake_256(b"ikos masked vector" + key.tobytes()).digest(size)
    return np.frombuffer(octets, dtype=np.uint8)


@dataclass(frozen=True, repr=False)
class KeyShares:
    """What one shuffler receives of a report: shares of the key, and its part of the seal."""

    id: bytes
    shares: NDArray[Any]
    seal: bytes


@dataclass(frozen=True, repr=False)
class MaskedReport:
    """What one client sends, under one random id: to each shuffler, and to the analyzer.

    To try again, send the same parts. A second report of the same value is a second user's.

    Attributes
    ----------
    id : bytes
    masked : bytes
        For the analyzer: the masked vector, sealed.
    clear : ndarray or None
        For the analyzer: the clear share of the key, if there is one.
    parts : tuple of KeyShares
        For the shufflers.
    """

    id: bytes
    masked: bytes
    clear: NDArray[Any] | None
    parts: tuple[KeyShares, ...]

    @classmethod
    def of(
        cls, masks: MaskedVectors, seed: bytes, vectors: NDArray[np.int64], rng: RandomSource
    ) -> MaskedReport:
        """Return the report of a single vector; its key is nowhere else, and then forgotten."""
        found, keys = masks.parameters, masks.keys
        key = masks.gaussians(1, rng)
        width = found.modulus_bits - found.dropped_bits
        packed = b"".join(
            to_bytes(sent, width) for _, _, sent in masks.masked(seed, vectors, key, rng)
        )
        shares = keys.report(keys.group.reduce(key[0]), rng)
        number, seals = rng.bytes(ID_BYTES), [rng.bytes(SEAL_BYTES) for _ in range(masks.shufflers)]
        sealed = np.frombuffer(packed, dtype=np.uint8) ^ _stream(seals, len(packed))
        mixed = shares[: keys.setting.shuffled]
        rows = [mixed] if keys.trust.single else np.split(mixed, masks.shufflers)
        parts = (KeyShares(number, *both) for both in zip(rows, seals, strict=True))
        clear = shares[-1] if keys.setting.clear else None
        return cls(number, sealed.tobytes(), clear, tuple(parts))


@dataclass(frozen=True, repr=False)
class KeyRelease:
    """What one shuffler releases: for each block of the keys a column, and seals by report."""

    number: int
    columns: tuple[NDArray[Any], ...]
    seals: dict[bytes, bytes]


class KeyShuffler:
    """A shuffler of keys' shares, for one task and one release; ``number`` counts from 0."""

    def __init__(self, masks: MaskedVectors, number: int) -> None:
        self.masks = masks
        self.number = integer("number", number, low=0, high=masks.shufflers - 1)
        self._parts: dict[bytes, tuple[Any, ...]] = {}
        self._released = False

    @property
    def ids(self) -> frozenset[bytes]:
        """The reports of which this shuffler has its part."""
        return frozenset(self._parts)

    def receive(self, part: KeyShares) -> None:
        """Keep this shuffler's part of a report; the same part again changes nothing."""
        keys = self.masks.keys
        shape = (keys.setting.shuffled // self.masks.shufflers, keys.dimension)
        right = part.shares.shape == shape and keys.group.contains(part.shares)
        if not right or len(part.seal) != SEAL_BYTES:
            raise ValueError(
                f"part must hold {SEAL_BYTES} bytes and shares of a key, {shape}, in [0, {keys.q})"
            )
        _keep(self._parts, part.id, (part.shares, part.seal))

    def release(self, ids: Iterable[bytes], rng: RandomSource | None = None) -> KeyRelease:
        """Return the mixed shares of these reports, and their seals, once and never again.

        The sums of keys of two sets would show the key of a user who is in one of them only.
        """
        chosen, keys = sorted(ids), self.masks.keys
        if self._released:
            raise ValueError("ids must be those of a task's only release, which was made before")
        if len(set(chosen)) < len(chosen) or not self.ids.issuperset(chosen):
            raise ValueError("ids must be those of different reports that this shuffler has")
        check_participation("ids", len(chosen), keys.min_honest, keys.n)
        self._released = True
        seals = {one: self._parts[one][1] for one in chosen}
        shares = np.stack([self._parts[one][0] for one in chosen], axis=1)
        self._parts.clear()
        return KeyRelease(self.number, keys.mixed(shares, secure(rng)), seals)


class MaskedAnalyzer:
    """The analyzer of one task, which adds up one set of reports."""

    def __init__(self, masks: MaskedVectors, clients: ShuffledSum[Any], seed: bytes) -> None:
        self.masks, self.clients, self.seed = masks, clients, seed
        self._reports: dict[bytes, tuple[Any, ...]] = {}
        self._set: list[bytes] | None = None

    def receive(self, id: bytes, masked: bytes, clear: NDArray[Any] | None) -> None:
        """Keep what a report has for the analyzer; the same again changes nothing."""
        size, keys = self.masks.parameters.masked_bytes, self.masks.keys
        if len(masked) != size:
            raise ValueError(f"masked must have {size} bytes, got {len(masked)}")
        held = () if clear is None else (clear,)
        if len(held) != int(keys.setting.clear) or not all(
            one.shape == (keys.dimension,) and keys.group.contains(one) for one in held
        ):
            what = f"a share of a key, in [0, {keys.q})" if keys.setting.clear else "None"
            raise ValueError(f"clear must be {what}")
        _keep(self._reports, id, (masked, clear))

    def choose(self, *ids: frozenset[bytes]) -> tuple[bytes, ...]:
        """Return the set, of the reports that each of the shufflers has and the analyzer."""
        if self._set is not None:
            raise ValueError("ids must be those of a task's only set, which was chosen before")
        if len(ids) != self.masks.shufflers:
            raise ValueError(f"ids must be those of {self.masks.shufflers} shufflers")
        chosen = sorted(frozenset(self._reports).intersection(*ids))
        keys = self.masks.keys
        check_participation("ids", len(chosen), keys.min_honest, keys.n)
        self._set = chosen
        return tuple(chosen)

    def analyze(self, releases: Sequence[KeyRelease]) -> Any:
        """Return the result, from what each shuffler released for the set."""
        masks, keys, chosen = self.masks, self.masks.keys, self._set or []
        ordered = sorted(releases, key=lambda release: release.number)
        if [one.number for one in ordered] != list(range(masks.shufflers)):
            raise ValueError(f"releases must be one of each of {masks.shufflers} shufflers")
        if any(sorted(one.seals) != chosen for one in ordered):
            raise ValueError("releases must be of the set that was chosen")
        clear = None
        if keys.setting.clear:
            clear = pack(np.stack([self._reports[one][1] for one in chosen]), keys.group)
        columns = zip(*(one.columns for one in ordered), strict=True)  # block by block
        summed = keys.analyze(View(tuple(chain.from_iterable(columns)), clear))
        total = masks.ring.zeros(masks.parameters.samples)
        for one in chosen:
            masked = self._reports[one][0]
            opened = np.frombuffer(masked, dtype=np.uint8) ^ _stream(
                [release.seals[one] for release in ordered], len(masked)
            )
            width = masks.parameters.modulus_bits - masks.parameters.dropped_bits
            add(total, from_bytes(opened, width, masks.ring.words, masks.ring.degree))
        sums = masks.unmasked(self.seed, total, summed, len(chosen))
        return self.clients.result((sums % self.clients.q).tolist(), len(chosen))


def _keep(held: dict[bytes, tuple[Any, ...]], number: bytes, part: tuple[Any, ...]) -> None:
    """Keep a part of a report, once."""
    there = held.setdefault(number, part)
    if not all(map(np.array_equal, there, part)):
        raise ValueError("id must be new for another report")


class VectorSum(ShuffledSum[_T]):
    """What sums of vectors share: the parties of ``layout="masked"``, one by one."""

    scalar = False

    @property
    def _masks(self) -> MaskedVectors:
        if self.masks is None:
            raise ValueError("layout must be 'masked' for a client, a shuffler or an analyzer")
        return self.masks

    def client(self, x: Any, task: bytes, rng: RandomSource | None = None) -> MaskedReport:
        """Return what one user sends with masked vectors.

        ``task`` is a name that no other task has, and that all parties know. Send all parts, or
        none, and send the same ones to try again; as for `report`, not as soon as they are made.
        """
        masks, source = self._masks, secure(rng)
        whole = isinstance(refuse_missing("x", x), np.ndarray)
        vectors = self.noisy_integers(self.checked(x[np.newaxis] if whole else [x]), source)
        return MaskedReport.of(masks, self.seed(task), vectors, source)

    def shuffler(self, number: int) -> KeyShuffler:
        """Return a shuffler of keys, for one task; numbers count from 0."""
        return KeyShuffler(self._masks, number)

    def analyzer(self, task: bytes) -> MaskedAnalyzer:
        """Return the analyzer of a task with masked vectors."""
        return MaskedAnalyzer(self._masks, self, self.seed(task))


def masked_vectors(
    n: int,
    dimension: int,
    highest: int,
    largest: int,
    trust: Trust,
    add_keys: Callable[..., ShuffledSum[Any]],
    *,
    allowed: gmpy2.mpfr,
    overhead: int,
    analysis: str,
    deviation: float = 0.0,
) -> MaskedVectors:
    """Return masks for which `MaskedVectors.lost` is at most ``allowed``.

    ``largest`` is that of the sums, less the middle of what is possible, and ``deviation`` that of
    the noise, which never leaves int64 if it is some 2^10 deviations; ``add_keys`` is
    `ikos.SecureVectorSum`.
    """
    if max(largest, 1024 * deviation) >= _LARGEST:
        raise ValueError(f"sums must be below 2^{_LARGEST.bit_length() - 1} for masked vectors")
    how: dict[str, Any] = {"overhead": overhead, "analysis": analysis, **asdict(trust)}
    with rounding(DOWN):
        bits = math.ceil(-gmpy2.log2(allowed))
    found = mask_parameters(n, dimension, largest, sigma=bits, **how)
    with rounding(UP):
        split = gmpy2.exp2(-gmpy2.mpfr(found.security))
    with rounding(DOWN):
        left = allowed - split
    if left <= 0:
        raise ValueError(
            f"n and dimension must be less for masked vectors of this level: splitting the masks "
            f"costs 2^-{hundredths(found.security)}"
        )
    with rounding(UP):
        level = Fraction(float_up(-gmpy2.log2(left)))
    keys = add_keys(n, found.degree, found.key_modulus, sigma=level, layout="blocks", **how)
    return MaskedVectors(found, keys, highest)
