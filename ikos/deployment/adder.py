"""A party that adds up: collects a secret of each report, and releases the sum of a set, once.

It stores the sum and deletes all secrets of the window, in one transaction, before it sends any of
the sum; asked again, it sends what it stored.
"""

from __future__ import annotations

import hmac
import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, cast

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ikos.deployment.adding import AddingTerms
from ikos.deployment.intermediary import SENT, Intermediary, check_kept
from ikos.deployment.opening import unsealed
from ikos.deployment.remote import PEER_SECONDS
from ikos.deployment.store import Writing
from ikos.deployment.wire import Problem


class AdderEndpoint(Intermediary):
    """One party that adds up, of one window."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._releasing = threading.Lock()
        self.terms = cast(AddingTerms, self.task.transport)
        self.context = self.terms.context(self.window)
        self._hiding: Cipher[modes.ECB] | None = None  # forgotten with the secrets

    def stored(self, number: bytes, part: bytes) -> bytes:
        """Return the secret in an envelope, under the window's key of the store."""
        if self.window.key not in self.config.keys.remaining:
            raise Problem("taskClosed", "the window is over")
        key = self.config.keys.hold(self.window.key)
        try:
            secret = unsealed(part, key, self.terms.info(self.window, self.config.party, number))
        except ValueError:
            raise ValueError(
                f"the envelope must be encrypted to this {self.terms.intermediary}, for this "
                "window and report id"
            ) from None
        return self._cipher().encryptor().update(secret)

    def expire(self, moment: datetime) -> bool:
        """Delete what was not released in time; forget what came of secrets that are gone."""
        if self.deleted:
            self._hiding = None
        return super().expire(moment)

    def batch(self) -> Iterator[bytes]:
        """Return the sum of the complete reports."""
        if not self._releasing.acquire(timeout=PEER_SECONDS):
            raise Problem("batchPending", "the batch is being added up; ask again")
        try:
            if self.fact(SENT) is None:
                self.check_agreed()
                self.write(partial(self._keep, self.sum())).result()
                self.log("batch released")
            self.store.shrink()  # until the secrets are off the disk, the sum is not sent
        finally:
            self._releasing.release()
        if released := [row[-1] for row in self.rows("opened")]:
            return iter(released)
        raise Problem("batchGone", "the batch was deleted by command")

    def _keep(self, released: bytes, writing: Writing) -> None:
        """Store the sum, and delete all secrets, those outside the set too."""
        check_kept(writing)
        writing.note(SENT, "yes")
        self.intake.clear(writing)
        writing.insert("opened", self.config.party, "", released)

    @abstractmethod
    def sum(self) -> bytes:
        """Return the release of the agreed set."""

    def secrets(self, reports: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the id and the secret of each report, given its secret as stored."""
        decryptor = self._cipher().decryptor()
        return ((number, decryptor.update(part)) for number, part in reports)

    def derived(self, purpose: bytes) -> bytes:
        """Return a pseudorandom function of the window's private key."""
        bound = f"ikos-parties 3 {self.terms.intermediary} ".encode() + self.window.bound + purpose
        return hmac.digest(self.config.keys.hold(self.window.key).raw, bound, "sha512")

    def _cipher(self) -> Cipher[modes.ECB]:
        """Return what hides secrets on the disk, where the key's erasure then deletes them too.

        Secrets are uniformly random: no two blocks of them are equal, which alone ECB would show.
        """
        if self._hiding is None:
            self._hiding = Cipher(algorithms.AES256(self.derived(b"store")[:32]), modes.ECB())
        return self._hiding
