"""Tasks whose clients commit to their values, and prove that these are valid.

A client sends the analyzer its commitments with a proof and an opening, and each relay the opening
of another commitment. A relay checks its openings against the commitments that the analyzer hands
on, before the set is fixed, and releases the sum of those of the set, once, with a signature of
the reports in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, field
from functools import cache, reduce
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ikos._validation import InvalidValue
from ikos.deployment.adding import AddingTerms
from ikos.deployment.opening import PrivateKey
from ikos.deployment.sums import AnySum, sum_of
from ikos.deployment.task_fields import Bytes, Integer
from ikos.deployment.terms import Chosen, Opened, Wanted
from ikos.results.text import at_least, grouped
from ikos.transports.base import Reports, Totals, Transport
from ikos.transports.verified import AddedOpenings, Verified
from ikos.verified.statements import ORDER, POINT_BYTES, SCALAR_BYTES

if TYPE_CHECKING:
    from ikos.deployment.task import Task, Window

_T = TypeVar("_T")

SIGNATURE_BYTES = 64
KEY_BYTES = 32
DIGEST_BYTES = 32

TOGETHER_BYTES = 1 << 23
"""Bytes of reports whose proofs are verified together: more are no faster."""

SORTED_BYTES = 1 << 26
"""Bytes of reports that are in memory to be sorted."""

REPORT_SECONDS = 250e-6
"""Time on one core to verify a report before a release, measured; and the release."""


def added_openings(task: Task) -> AddedOpenings:
    """Return the transport of a task with relays."""
    return cast(AddedOpenings, task.protocol.transport)


def added(rows: NDArray[np.uint8]) -> list[int]:
    """Return the sum of openings, one in each row, of fewer than 2^32."""
    words = np.ascontiguousarray(rows).view(">u4").sum(axis=0, dtype=np.uint64)
    scalars = words.reshape(-1, SCALAR_BYTES // 4).tolist()
    return [reduce(lambda high, low: (high << 32) + low, scalar) % ORDER for scalar in scalars]


@dataclass(frozen=True)
class VerifiedTerms(AddingTerms):
    """Terms of verified sums: the relays, and the keys with which all parties sign."""

    relays: Integer
    # which no one computes from the protocol, unlike all else that is compared
    signing_keys: tuple[Bytes, ...] = field(default=(), compare=False)
    _: KW_ONLY
    kind: Literal["verified"] = "verified"

    intermediary: ClassVar[str] = "relay"
    options: ClassVar[frozenset[str]] = frozenset({"relays", "signing_keys"})
    label: ClassVar[bytes] = b"ikos-parties 3 opening"
    secret: ClassVar[str] = "openings"

    # How a task is made

    @classmethod
    def chosen(
        cls,
        wanted: Wanted,
        *,
        relays: int | None = None,
        signing_keys: Sequence[bytes] | None = None,
        corrupt_shufflers: int = 0,
        **numbers: Any,
    ) -> dict[str, Any]:
        """Return the fields of a task that follow from a guarantee."""
        count = cls.count_of(wanted, relays, corrupt_shufflers)
        drafted = [number.to_bytes(KEY_BYTES) for number in range(count + 1)]
        terms, budget = cls(count, tuple(signing_keys or drafted)), (wanted.epsilon, wanted.delta)
        recipe = terms.recipe(wanted.kem)
        protocol = sum_of(wanted.users, wanted.domain, *budget, recipe, **numbers)
        return cls.fields_of(protocol, wanted.domain) | {"transport": terms}

    @classmethod
    def of(cls, transport: Transport) -> Self:
        """Return the terms of a transport, without keys."""
        return cls(transport.parties)

    def recipe(self, kem: str) -> Verified:
        """Return the recipe of verified sums."""
        return Verified(self.relays, assumptions=(self.encrypted(kem),))

    def protocol(self, task: Task) -> AnySum:
        """Return the private sum; refuse too few keys."""
        keys = set(self.signing_keys)
        if len(keys) != self.relays + 1 or set(map(len, keys)) != {KEY_BYTES}:
            raise InvalidValue(
                "signing_keys",
                f"must be {self.relays + 1} different ones of {KEY_BYTES} bytes, a party's each, "
                f"got {len(keys)}",
            )
        return super().protocol(task)

    def notes(self, task: Task) -> list[str]:
        """Return how far one client can move the sum, and what its certificate rests on."""
        moved = grouped(at_least(task.protocol.influence, 4))
        norm = " in Euclidean norm" * (task.domain.dimension > 1)
        verified = (f"Verified: {condition}." for condition in added_openings(task).soundness)
        return [f"One client moves the sum by at most {moved}{norm}.", *verified]

    # What is sent

    @property
    def columns(self) -> int:
        """Number of relays."""
        return self.relays

    def own_bytes(self, task: Task) -> int:
        """Return the bytes of commitments, proof and opening."""
        return sum(added_openings(task).public_bytes) + self.secret_bytes(task)

    def secret_bytes(self, task: Task) -> int:
        """Return the bytes of an opening: of all coordinates, and a blinding factor."""
        return SCALAR_BYTES * (added_openings(task).dimension + 1)

    def receipt_bytes(self, task: Task) -> int:
        """Return the bytes of all commitments of a report, and of its proof's digest."""
        return added_openings(task).public_bytes[0] + DIGEST_BYTES

    def batch_bytes(self, task: Task, reports: int) -> int:
        """Return the bytes of a sum of openings and a signature, whatever the number of reports."""
        del reports
        return self.secret_bytes(task) + SIGNATURE_BYTES

    def release_seconds(self, task: Task) -> float:
        """Return the seconds of one core to verify all proofs, and to add up all openings."""
        return task.users * REPORT_SECONDS

    # The clients

    def parts(self, window: Window, report: Reports) -> tuple[bytes, ...]:
        """Return commitments, proof and opening, and each relay's envelope."""
        (number,), ((public, own), *others) = report.ids, report.parts
        secrets = (rows.tobytes() for (rows,) in others)
        return public.tobytes() + own.tobytes(), *self.envelopes(window, number, secrets)

    # The parties that check

    def check(self, task: Task, part: bytes) -> None:
        """Raise ValueError for a wrong form; whether the rest holds is found in batches."""
        del task
        size = (self.relays + 4) * POINT_BYTES
        scalars = (part[at : at + SCALAR_BYTES] for at in range(size, len(part), SCALAR_BYTES))
        if not {2, 3}.issuperset(part[:size:POINT_BYTES]) or max(scalars) >= ORDER.to_bytes(32):
            raise ValueError("a report must hold points, and scalars below their order")

    def receipts(
        self, window: Window, reports: Iterable[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield each report's commitments and its proof's digest, if proof and opening hold."""
        transport, context = added_openings(window.task), self.context(window)
        for ids, part in self._blocks(window.task, reports):
            bad = set(transport.refused(0, part, ids=ids, context=context))
            for place, row in enumerate(transport.receipts(part)):
                yield ids[place], None if place in bad else row.tobytes()

    def _blocks(
        self, task: Task, reports: Iterable[tuple[_T, bytes]]
    ) -> Iterator[tuple[list[_T], tuple[NDArray[np.uint8], NDArray[np.uint8]]]]:
        """Yield parts of some reports, as the transport takes them: with a proof, and openings."""
        rest, own = iter(reports), self.secret_bytes(task)
        while some := list(islice(rest, TOGETHER_BYTES // self.own_bytes(task))):
            names, parts = zip(*some, strict=True)
            rows = np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), -1)
            yield [*names], (rows[:, :-own], rows[:, -own:])

    @contextmanager
    def opener(
        self, window: Window, read_key: Callable[[], PrivateKey], batches: int, chosen: Chosen
    ) -> Iterator[Callable[[int, bytes], Opened]]:
        """Check each relay's sum against its commitments, and its signature."""
        from ikos.verified.certificate import digest  # needs the extra
        from ikos.verified.group import scalars

        del read_key, batches
        task, proofs = window.task, added_openings(window.task).proofs(self.context(window))
        reports = cache(lambda: self._listed(window, chosen))

        def open_batch(party: int, data: bytes) -> Opened:
            name, listed = task.party_name(party), reports()
            own = [receipt[party * POINT_BYTES :][:POINT_BYTES] for _, receipt in listed]
            try:
                *sums, blinding = scalars(data[:-SIGNATURE_BYTES])
                if not proofs.opens(own, sums, blinding):
                    raise ValueError
            except ValueError:
                raise ValueError(
                    f"{name} released a sum that does not open its commitments"
                ) from None
            signed = data[-SIGNATURE_BYTES:]
            try:
                key = Ed25519PublicKey.from_public_bytes(self.signing_keys[party])
                key.verify(signed, digest(self.context(window), listed))
            except (InvalidSignature, ValueError):
                raise ValueError(f"{name} has not signed the set of reports") from None
            return [*sums, blinding], signed

        yield open_batch

    def _listed(self, window: Window, chosen: Chosen) -> list[tuple[bytes, bytes]]:
        """Return the ids and receipts of a set, in the order of ids."""
        transport, receipts = added_openings(window.task), dict[int, bytes]()
        for places, part in self._blocks(window.task, chosen.parts()):
            receipts |= zip(places, map(bytes, transport.receipts(part)), strict=True)
        return [(number, receipts[place]) for place, number in enumerate(chosen.ids)]

    def _opening(self, task: Task, opened: Sequence[Opened], chosen: Chosen) -> list[int]:
        """Return the opening of the product of all commitments of a set."""
        own = (added(rows) for _, (_, rows) in self._blocks(task, chosen.parts()))
        columns = zip(*own, *(sums for sums, _ in opened), strict=True)
        return [sum(column) % ORDER for column in columns]

    def totals(self, window: Window, opened: Sequence[Opened], chosen: Chosen) -> Totals:
        """Return the sums, which open the product of all commitments."""
        *sums, _ = self._opening(window.task, opened, chosen)
        return Totals(sums, len(chosen.ids), refused=tuple(chosen.refused))

    def certificate(
        self,
        window: Window,
        opened: Sequence[Opened],
        chosen: Chosen,
        sign: Callable[[bytes], bytes],
    ) -> Iterator[bytes]:
        """Yield the lines of the certificate, with the signatures of all parties."""
        from ikos.verified.certificate import Certificate, digest  # needs the extra

        protocol: AnySum = window.task.protocol
        *sums, blinding = self._opening(window.task, opened, chosen)
        signed = sign(digest(self.context(window), self._listed(window, chosen)))
        certificate = Certificate(
            protocol.parameters,
            window.bound,
            self._reports(window.task, chosen),
            sums,
            blinding,
            self.signing_keys,
            [signed, *(signature for _, signature in opened)],
        )
        return certificate.lines()

    def _reports(self, task: Task, chosen: Chosen) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Yield ids, commitments and proofs, in the order of ids; some of them are in memory."""
        first, second = accumulate(added_openings(task).public_bytes)
        together = SORTED_BYTES // self.own_bytes(task)
        for start in range(0, len(chosen.ids), together):
            some = range(start, min(start + together, len(chosen.ids)))
            parts = {place: part for place, part in chosen.parts() if place in some}
            for place in some:
                yield chosen.ids[place], parts[place][:first], parts[place][first:second]
