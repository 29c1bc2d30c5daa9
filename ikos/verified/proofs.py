"""Commitments to users' values, and proofs that they are valid: nothing else is revealed.

The proof is that of Bootle, Cerulli, Chaidos, Ghadafi, Groth and Petit (2015) for bits, with its
two commitments merged into one and a linear link to the committed values (docs/verified-sums.md).
Given its commitment, a proof's distribution does not depend on the values, whatever the hash.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ikos._validation import InvalidValue
from ikos.verified import group
from ikos.verified.statements import Statement

PROOF = b"ikos verified sum 1: proof"
NONCE = b"ikos verified sum 1: nonce"
FRESH_BYTES = 32
_COEFFICIENT_BYTES = 16  # a false equation survives a batch with probability at most 2^-128
_BATCH = 1000  # reports held decoded at once, in about 3 kB each

_T = TypeVar("_T")


_Read = tuple[list[group.Point | None], int, list[int], int, int]
"""A report as read: D, A, C, B, the challenge, and the answers for the wires, k and h."""


@dataclass(frozen=True)
class Proofs:
    """Commitments and proofs for one statement in one context: no proof of another is valid.

    Examples
    --------
    >>> from ikos.verified.statements import bounded
    >>> proofs = Proofs(bounded(5), b"example")
    >>> proofs.commit([4], 7).hex()
    '0231c38acd884a6a074cf9c6ad03aa90014335ed9fa42bb4b35b3ef2a11fc67ff0'
    >>> commitment = proofs.commit([4], 7)
    >>> proof = proofs.prove([4], 7, [commitment], b"id", secrets.token_bytes(32))
    >>> proofs.refused([(b"id", commitment, proof), (b"another id", commitment, proof)])
    [1]
    """

    statement: Statement
    context: bytes

    def commit(self, values: Sequence[int], blinding: int) -> bytes:
        """Return a commitment to values modulo the order of the group.

        With a uniform blinding factor it is uniform. Raises an InvalidValue for the identity,
        which no uniform factor gives.
        """
        return group.encode(group.power_product(self._link(), [blinding, *values]))

    def prove(
        self,
        values: Sequence[int],
        blinding: int,
        commitments: Sequence[bytes],
        id: bytes,
        fresh: bytes,
    ) -> bytes:
        """Return a proof for committed values; an InvalidValue if they are not valid.

        Parameters
        ----------
        values, blinding : sequence of int, int
            The opening of the product of the commitments.
        commitments : sequence of bytes
            All that are sent.
        id : bytes
            The id of the report: the proof is not valid with another.
        fresh : bytes
            32 random bytes, never used before. All that is proved is hashed with them, so that
            the same ones for another value, as after a restored snapshot, reveal no bits.
        """
        bits = self.statement.witness(values)
        if len(fresh) != FRESH_BYTES:
            raise InvalidValue("fresh", f"must be {FRESH_BYTES} bytes, got {len(fresh)}")
        sent = b"".join(commitments)
        secret = (fresh, bytes(bits), blinding.to_bytes(group.SCALAR_BYTES), self.context, id, sent)
        rho, alpha, beta, *a = (
            group.hash_scalar(NONCE, *secret, index.to_bytes(4)) for index in range(len(bits) + 3)
        )
        b_wires, a_wires = self.statement.wires(bits, 1), self.statement.wires(a, 0)
        crossed = (a_j * (1 - 2 * b_j) for a_j, b_j in zip(a_wires, b_wires, strict=True))
        squared = (-a_j * a_j for a_j in a_wires)
        linked = (form.at(a_wires, 0) for form in self.statement.outputs)
        first = b"".join(
            group.encode(group.power_product(generators, exponents))
            for generators, exponents in (
                (self._bits(), [rho, *bits, *crossed]),
                (self._bits(), [alpha, *a, *squared]),
                (self._link(), [beta, *linked]),
            )
        )
        c = self._challenge(id, sent, first)
        answers = [c * b_j + a_j for b_j, a_j in zip(bits, a, strict=True)]
        answers += [c * rho + alpha, c * blinding + beta]
        return first + b"".join((x % group.ORDER).to_bytes(group.SCALAR_BYTES) for x in answers)

    def refused(self, reports: Sequence[tuple[bytes, bytes, bytes]]) -> list[int]:
        """Return the places of reports, each an id, commitments and a proof, that are not valid.

        Malformed ones are among them, and no valid ones, but with probability at most 2^-128 for
        each batch that is checked. If all are bad, they take four times as long as one by one.
        """
        return _bad(reports, self._read, self._valid)

    def unopened(
        self,
        commitments: Sequence[bytes],
        values: Sequence[Sequence[int]],
        blindings: Sequence[int],
    ) -> list[int]:
        """Return the places of commitments that these values and blinding factors do not open.

        Also of malformed ones and of numbers beyond the order; otherwise as `refused`.
        """
        rows = [*zip(commitments, values, blindings, strict=True)]
        return _bad(rows, _read_opening, self._opened)

    def opens(self, points: Sequence[bytes], values: Sequence[int], blinding: int) -> bool:
        """Return whether values and a blinding factor open the product of some commitments."""
        opening = group.power_product(self._link(), [-blinding, *(-value for value in values)])
        return group.combine([*map(group.decode, points), opening]) is None

    def total(self, points: Sequence[bytes], blinding: int, bound: int) -> int | None:
        """Return the sum in 0 .. ``bound`` to which a product of commitments commits, or None.

        For one value per report: see `ikos.verified.group.discrete_logarithm`.
        """
        clear = group.power_product([group.generator("h")], [-blinding])
        return group.discrete_logarithm(group.combine([*map(group.decode, points), clear]), bound)

    def _link(self) -> list[group.Point | None]:
        """Return h and the generators of the values."""
        others = (group.generator(f"value {i}") for i in range(1, self.statement.dimension))
        return [group.generator("h"), group.BASE, *others]

    def _bits(self) -> list[group.Point | None]:
        """Return k, the generators of the free bits, and those of all wires' squares."""
        bits = (group.generator(f"bit {j}") for j in range(self.statement.free))
        squares = (group.generator(f"square {j}") for j in range(self.statement.size))
        return [group.generator("k"), *bits, *squares]

    def _challenge(self, id: bytes, commitments: bytes, first: bytes) -> int:
        """Return the challenge for a report: it depends on all that was fixed before."""
        return group.hash_scalar(PROOF, self.context, id, commitments, first)

    def _read(self, id: bytes, commitments: bytes, proof: bytes) -> _Read:
        """Return a report as read; a ValueError if it is malformed."""
        size = group.POINT_BYTES
        if not commitments or len(proof) != self.statement.proof_bytes:
            raise ValueError
        starts = range(0, len(commitments), size)
        parts = [group.decode(commitments[at : at + size]) for at in starts]
        D, A, B = (group.decode(proof[at * size : (at + 1) * size]) for at in range(3))
        *f, z, z_link = group.scalars(proof[3 * size :])
        c = self._challenge(id, commitments, proof[: 3 * size])
        wires = self.statement.wires(f, c)
        return [D, A, group.combine(parts), B], c, wires, z, z_link

    def _valid(self, reports: Sequence[_Read]) -> bool:
        """Return whether both equations hold for all reports, by one random combination."""
        # drawn here, after the reports: whoever knew these could make errors that cancel
        draws = _coefficients(2 * len(reports))
        points: list[group.Point | None] = []
        exponents: list[int] = []
        k = h = ones = 0
        bits, squares, link = ([0] * self.statement.size for _ in range(3))
        for (own, c, wires, z, z_link), u, v in zip(reports, draws[::2], draws[1::2], strict=True):
            points += own
            exponents += (u * c, u, v * c, v)
            k, h, ones = k + u * z, h + v * z_link, ones + v * c
            for j, f in enumerate(wires):
                bits[j] += u * f
                squares[j] += u * (f * (c - f) % group.ORDER)
                link[j] += v * f
        values = (form.at(link, ones) for form in self.statement.outputs)
        right = [k, *bits[: self.statement.free], *squares, h, *values]
        points += self._bits() + self._link()
        exponents += (-exponent for exponent in right)
        return group.power_product(points, exponents) is None

    def _opened(self, rows: Sequence[tuple[group.Point, list[int]]]) -> bool:
        """Return whether all openings fit their commitments, by one random combination."""
        draws = _coefficients(len(rows))
        columns = zip(*(opening for _, opening in rows), strict=True)
        sums = (-sum(map(int.__mul__, draws, column)) for column in columns)
        points = [*(point for point, _ in rows), *self._link()]
        return group.power_product(points, [*draws, *sums]) is None


def _read_opening(
    commitment: bytes, values: Sequence[int], blinding: int
) -> tuple[group.Point, list[int]]:
    """Return a commitment as read, and its opening; a ValueError if one is malformed."""
    opening = [blinding, *values]
    if not all(0 <= x < group.ORDER for x in opening):
        raise ValueError
    return group.decode(commitment), opening


def _coefficients(count: int) -> list[int]:
    """Return random coefficients of a batch, from the system's generator."""
    drawn = secrets.token_bytes(count * _COEFFICIENT_BYTES)
    starts = range(0, len(drawn), _COEFFICIENT_BYTES)
    return [int.from_bytes(drawn[at : at + _COEFFICIENT_BYTES]) for at in starts]


def _bad(
    rows: Sequence[tuple[Any, ...]], read: Callable[..., _T], hold: Callable[[Sequence[_T]], bool]
) -> list[int]:
    """Return the places of rows that cannot be read, or do not hold."""
    bad = []
    for start in range(0, len(rows), _BATCH):
        good = []
        for place, row in enumerate(rows[start : start + _BATCH], start):
            try:
                good.append((place, read(*row)))
            except ValueError:
                bad.append(place)
        bad += _failing(good, hold)
    return sorted(bad)


def _failing(
    rows: Sequence[tuple[int, _T]], hold: Callable[[Sequence[_T]], bool], known: bool = False
) -> list[int]:
    """Return the places of rows that do not hold, by halves; ``known`` if one is known not to."""
    if not known and (not rows or hold([row for _, row in rows])):
        return []
    if len(rows) == 1:
        return [rows[0][0]]
    middle = len(rows) // 2
    left = _failing(rows[:middle], hold)
    return left + _failing(rows[middle:], hold, known=not left)
