"""What the protocols of the local model share: each user's noise protects that user."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from ikos._validation import round_up
from ikos.aggregation.protocol import BaseProtocol
from ikos.randomness import RandomSource
from ikos.results import ONE_REPORT, Guarantee
from ikos.shuffling import View


class LocalProtocol(BaseProtocol):
    """Each user sends one message, private by itself; the analyzer knows who sent what."""

    epsilon: Fraction

    @property
    def min_honest(self) -> int:  # type: ignore[override]
        """One: each user's noise protects that user."""
        return 1

    def _alone(self, theorem: str, random: str) -> Guarantee:
        """Return the guarantee of each message by itself."""
        return Guarantee(
            round_up(self.epsilon), 0.0, theorem, (ONE_REPORT, f"{random} pseudorandom (AES-256)")
        )

    def shuffle(
        self,
        messages: NDArray[Any],
        rng: RandomSource | None = None,  # noqa: ARG002
        *,
        order: str = "sorted",
    ) -> View:
        """Return what the analyzer sees: every message, and whose it is."""
        self._arrived(messages, order, rows=1)
        clear = messages[0].copy()
        clear.setflags(write=False)
        return View((), clear)

    def _clear(self, view: View) -> NDArray[Any]:
        """Return the messages of a view; ValueError if it is not one of the local model."""
        if view.columns or view.clear is None:
            raise ValueError("view must hold one clear message of each user")
        return view.clear

    def _users_of(self, view: View) -> int:
        return int(self._clear(view).size)
