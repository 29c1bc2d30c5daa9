"""What a calculator returns."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ikos.results import Printed, at_least, at_most, hundredths

__all__ = ["SHUFFLERS"]

SHUFFLERS = ("parallel", "single")
"""A shuffler for each message of a user, or one for everybody's messages together."""

Users = tuple[int, int]
"""The fewest and the most honest users for whom a level must hold."""


@dataclass(frozen=True)
class MessageCount(Printed):
    """How many messages each user sends, and what is proved for that many.

    Attributes
    ----------
    shuffled : int
        Messages of each user that go through a shuffler.
    clear : int
        1 with a clear share (a message that bypasses the shufflers), else 0.
    sigma : float
        Proved security in bits: the views of two inputs with the same sum are within total
        variation ``2**-sigma``. Rounded down; 0.0 where nothing is proved, infinite for one user.
    analysis : str or None
        The analysis that proves it, or None where nothing is proved.
    theorem : str
        The statement behind ``sigma``, with its source.
    delta : float or None
        For a private sum, the proved delta, rounded up (1.0 where nothing is proved); else None.
    noise_epsilon : float or None
        For a private sum, what is left of epsilon for the noise, rounded down; else None.
    """

    shuffled: int
    clear: int
    sigma: float
    analysis: str | None
    theorem: str
    delta: float | None = None
    noise_epsilon: float | None = None

    @property
    def total(self) -> int:
        """Messages of each user, the clear share included."""
        return self.shuffled + self.clear

    def with_corruption(self, corrupt: int, total: int | None = None) -> MessageCount:
        """Return the count to send when ``corrupt`` shufflers collude with the analyzer.

        A colluding shuffler's messages are as good as clear. What is proved is what the others'
        messages prove: given the former, the latter are uniform shares of known differences.

        Parameters
        ----------
        corrupt : int
            Shufflers to tolerate; as many messages are added.
        total : int, optional
            A total that was fixed beforehand, in place of the addition.
        """
        if total is not None:
            return replace(self, shuffled=total - self.clear)
        return replace(self, shuffled=self.shuffled + corrupt)

    @property
    def _by(self) -> str:
        """The analysis, with what it asks of the group, which is not known here."""
        return "ghazi2020, for prime q only" if self.analysis == "ghazi2020" else f"{self.analysis}"

    def __str__(self) -> str:
        clear = " + 1 clear" if self.clear else ""
        messages = f"{self.shuffled} shuffled{clear} messages"
        if self.delta is not None and self.delta < 1:
            assert self.noise_epsilon is not None
            delta, noise = at_least(self.delta, 3), at_most(self.noise_epsilon, 6)
            proved = f"delta = {delta}, noise_epsilon = {noise}"
            return f"{messages}; {proved} (analysis: {self._by})"
        if self.analysis is None or self.delta is not None:
            return f"{messages}; nothing is proved"
        return f"{messages}; sigma = {hundredths(self.sigma)} bits (analysis: {self._by})"
