"""Tasks whose intermediaries add up: each gets a secret of every report, in one envelope.

Envelopes are bound to the task, the window, the party and the report's id.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from ikos._validation import InvalidValue, quote
from ikos.deployment.envelopes import envelope_overhead
from ikos.deployment.opening import KEMS, public_key, suite
from ikos.deployment.sums import AnySum, SumTerms, sum_of
from ikos.deployment.terms import Wanted
from ikos.results.conditions import Condition, Kind
from ikos.transports.base import Recipe, Transport

if TYPE_CHECKING:
    from ikos.deployment.task import Task, Window


class AddingTerms(SumTerms):
    """Terms of sums whose intermediaries add up what they were sent."""

    label: ClassVar[bytes]
    """What tells the envelopes of this kind from others."""

    secret: ClassVar[str]
    """What is in an envelope, in words, in the plural."""

    copies: ClassVar[int] = 1

    @staticmethod
    def key_holders(columns: int) -> range:
        """Return the intermediaries: the analyzer decrypts nothing."""
        return range(1, columns + 1)

    @classmethod
    def corrupt(cls, transport: Transport) -> int:
        """Return all intermediaries but one."""
        return transport.parties - 1

    @classmethod
    def count_of(cls, wanted: Wanted, given: int | None, corrupt_shufflers: int) -> int:
        """Return the number of intermediaries: that of the addresses, or the given one, or 1."""
        name = f"{cls.intermediary}s"
        if corrupt_shufflers:
            raise InvalidValue(
                "corrupt_shufflers",
                f"must not be given with {name}, of which any may be, got {corrupt_shufflers}",
            )
        count = wanted.shufflers or (1 if given is None else given)
        if given not in (None, count):
            raise InvalidValue(
                name, f"must be the number of addresses, {count}, got {quote(given)}"
            )
        return count

    @classmethod
    def encrypted(cls, kem: str) -> Condition:
        """Return the condition that envelopes hide secrets."""
        text = (
            f"assuming that the encryption of {cls.secret} holds (HPKE with {KEMS[kem].words}, "
            f"HKDF-SHA256 and AES-128-GCM) against all but their {cls.intermediary}, and that of "
            "connections (TLS)"
        )
        return Condition(Kind.CRYPTOGRAPHY, text, computational=True)

    @abstractmethod
    def recipe(self, kem: str) -> Recipe:
        """Return the recipe of the transport, which rests on the encryption of secrets."""

    def protocol(self, task: Task) -> AnySum:
        """Return the private sum that clients and parties run."""
        names = ("precision", "modulus", "min_honest", "integers")
        numbers = {name: getattr(task, name) for name in names}
        budget = task.epsilon, task.delta
        return sum_of(task.users, task.domain, *budget, self.recipe(task.kem), **numbers)

    def order(self, task: Task) -> int:
        """Return the order of the group."""
        return task.modulus

    def blocks(self, task: Task) -> tuple[int, ...]:
        """Return that a secret is for all coordinates."""
        return (task.protocol.transport.dimension,)

    @abstractmethod
    def own_bytes(self, task: Task) -> int:
        """Return the bytes of the analyzer's part of a report."""

    @abstractmethod
    def secret_bytes(self, task: Task) -> int:
        """Return the bytes of a secret."""

    def part_bytes(self, task: Task, party: int) -> int:
        """Return the bytes of the analyzer's part, or of an envelope."""
        sealed = envelope_overhead(task.kem) + self.secret_bytes(task)
        return sealed if party else self.own_bytes(task)

    def stored_bytes(self, task: Task, party: int) -> int:
        """Return the bytes of the part, or of a secret, which is stored under a symmetric key."""
        return self.secret_bytes(task) if party else self.own_bytes(task)

    def info(self, window: Window, party: int, number: bytes) -> bytes:
        """Return the context to which the envelope of a party and a report's id is bound."""
        return self.label + window.bound + party.to_bytes(4, "big") + number

    def envelopes(
        self, window: Window, number: bytes, secrets: Iterable[bytes]
    ) -> tuple[bytes, ...]:
        """Return the envelope of each intermediary."""
        kem = window.task.kem
        return tuple(
            bytes(
                suite(kem).encrypt(
                    secret,
                    public_key(window.public_key(party), kem),
                    self.info(window, party, number),
                )
            )
            for party, secret in enumerate(secrets, 1)
        )
