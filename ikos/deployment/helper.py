"""A helper: collects a seed of each report, and releases the sum of their vectors, once.

It stores the sum of a set and deletes all seeds of the window, in one transaction, before it sends
any of the sum; asked again, it sends what it stored. A copy of its folder from before adds the
same noise to the same set with the same seeds, and independent noise to anything else.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

import httpx
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from ikos.deployment.endpoint import PartyEndpoints
from ikos.deployment.helpers import LONG_VECTOR, added_shares, added_up, noisy, seed_info
from ikos.deployment.intermediary import SENT, Intermediary, check_kept
from ikos.deployment.opening import unsealed
from ikos.deployment.packed import packed
from ikos.deployment.party_files import PartyConfig
from ikos.deployment.remote import PEER_SECONDS, RemoteShuffler
from ikos.deployment.store import Writing, damaged
from ikos.deployment.wire import Problem
from ikos.primitives.randomness import Expanded


class HelperEndpoint(Intermediary):
    """One helper of one window."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._releasing, self._adding = threading.Lock(), threading.Lock()
        self._transport = added_shares(self.task)
        self._context = self.task.protocol.context(self.window.bound)
        # forgotten with the seeds: what is added up already, and whose; what hides seeds on disk
        self._ahead: tuple[NDArray[Any], set[bytes]] | None = None
        self._hiding: Cipher[modes.ECB] | None = None

    def stored(self, number: bytes, part: bytes) -> bytes:
        """Return the seed in an envelope, under the window's key of the store."""
        if self.window.key not in self.config.keys.remaining:
            raise Problem("taskClosed", "the window is over")
        key = self.config.keys.hold(self.window.key)
        try:
            seed = unsealed(part, key, seed_info(self.window, self.config.party, number))
        except ValueError:
            raise ValueError(
                "the envelope must be encrypted to this helper, for this window and report id"
            ) from None
        return self._cipher().encryptor().update(seed)

    def received(self, number: bytes, part: bytes) -> None:
        """Add a short vector up now: so a release takes as long as what is left out."""
        if self._transport.dimension < LONG_VECTOR:
            with self._adding:
                total, ids = self._ahead = self._ahead or (self._transport.zeros(), set())
                for _, words in self._vectors([(number, part)]):
                    total += words
                ids.add(number)

    def expire(self, moment: datetime) -> bool:
        """Delete what was not released in time; forget what came of seeds that are gone."""
        if self.deleted:
            self._ahead = self._hiding = None
        return super().expire(moment)

    def batch(self) -> Iterator[bytes]:
        """Return the sum of the vectors of the complete reports."""
        if not self._releasing.acquire(timeout=PEER_SECONDS):
            raise Problem("batchPending", "the batch is being added up; ask again")
        try:
            if not self.count("opened"):
                self.check_agreed()
                self.write(partial(self._keep, self._sum())).result()
                self.log("batch released")
            self.store.shrink()  # until the seeds are off the disk, the sum is not sent
        finally:
            self._releasing.release()
        if released := [row[-1] for row in self.rows("opened")]:
            return iter(released)
        raise Problem("batchGone", "the batch was deleted by command")

    def _keep(self, released: bytes, writing: Writing) -> None:
        """Store the sum, and delete all seeds, those outside the set too."""
        check_kept(writing)
        writing.insert("opened", self.config.party, "", released)
        writing.note(SENT, "yes")
        self.intake.clear(writing, ("report", "complete"))

    def _sum(self) -> bytes:
        """Return the packed sum of the agreed set, with this helper's noise, if it adds any."""
        transport, complete, here, drawn = self._transport, set(self.complete_ids()), 0, 0

        def waiting() -> Iterator[tuple[bytes, bytes]]:
            nonlocal here, drawn
            for number, _, part in self.intake.reports():
                if number in complete:
                    here += 1  # in any order, and nobody else knows what is hashed
                    drawn += int.from_bytes(hashlib.sha256(number + part).digest())
                if (number in complete) != (number in ids):
                    yield number, part

        def add(total: NDArray[Any], some: list[tuple[bytes, bytes]]) -> None:
            for number, words in self._vectors(some):
                (np.add if number in complete else np.subtract)(total, words, out=total)

        with self._adding:
            ahead, ids = self._ahead or (transport.zeros(), set())
            total = ahead + added_up(waiting(), transport.zeros, add, transport.dimension)
        if here != len(complete):
            raise damaged(f"{len(complete) - here} reports are gone")
        # a copy may be sent another seed under an id: with one noise, the answers' difference
        # would be that of the two vectors
        source = Expanded(self._secret(b"noise" + drawn.to_bytes(40)))
        sums = noisy(transport, transport.elements(total), source)
        return packed(sums, transport.group.bits)

    def _vectors(self, reports: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, NDArray[Any]]]:
        """Yield the id and the vector of each report, given its seed as stored."""
        seeds = self._cipher().decryptor().update(b"".join(part for _, part in reports))
        for place, (number, _) in enumerate(reports):
            bound = self.config.party, number, self._context
            yield number, self._transport.keystream(seeds[32 * place :][:32], *bound)

    def _secret(self, purpose: bytes) -> bytes:
        """Return a pseudorandom function of the window's private key."""
        bound = b"ikos-parties 3 helper " + self.window.bound + purpose
        return hmac.digest(self.config.keys.hold(self.window.key).raw, bound, "sha512")

    def _cipher(self) -> Cipher[modes.ECB]:
        """Return what hides seeds on the disk, where the key's erasure then deletes them too.

        Seeds are uniformly random: no two blocks of them are equal, which alone ECB would show.
        """
        if self._hiding is None:
            self._hiding = Cipher(algorithms.AES256(self._secret(b"store")[:32]), modes.ECB())
        return self._hiding


def helper(config: PartyConfig, client: httpx.Client) -> PartyEndpoints[HelperEndpoint]:
    """Return a helper that asks the others over a connection."""
    return PartyEndpoints(config, HelperEndpoint, partial(RemoteShuffler, client))
