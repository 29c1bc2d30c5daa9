"""What a guarantee assumes of the shufflers, and how many parties may collude."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ikos._validation import InvalidValue, choice, flag, integer

SHUFFLERS = ("parallel", "single")
"""One shuffler per shuffled message, or one for all of them."""

MAX_MESSAGES = 10**8
"""More messages or shufflers are taken for a mistake: no level within the limits asks for them."""


@dataclass(frozen=True)
class Trust:
    """The parties that a guarantee assumes to be honest.

    It holds while at least ``min_honest`` users are honest and present, and at most
    ``corrupt_shufflers`` parallel shufflers collude with the analyzer; a single one may not. With a
    ``clear_share``, the last share bypasses the shufflers; the analyzer may then know whose it is.
    """

    shuffler: str
    clear_share: bool
    min_honest: int
    corrupt_shufflers: int = 0

    def __post_init__(self) -> None:
        choice("shuffler", self.shuffler, SHUFFLERS)
        flag("clear_share", self.clear_share)
        integer("min_honest", self.min_honest, low=1)
        corrupt = integer("corrupt_shufflers", self.corrupt_shufflers, low=0, high=MAX_MESSAGES)
        if corrupt and self.single:
            raise InvalidValue(
                "corrupt_shufflers",
                f"must be 0 with a single shuffler, got {corrupt}: "
                "a party that controls it sees everything",
            )

    @classmethod
    def of(
        cls,
        n: int,
        shuffler: str = "parallel",
        clear_share: bool = True,
        min_honest: int | None = None,
        corrupt_shufflers: int = 0,
    ) -> Trust:
        """Return the trust among n users, all of them honest by default."""
        honest = n if min_honest is None else integer("min_honest", min_honest, low=1, high=n)
        return cls(shuffler, clear_share, honest, corrupt_shufflers)

    @property
    def single(self) -> bool:
        """Whether one shuffler has all shuffled messages."""
        return self.shuffler == "single"

    @property
    def graph(self) -> dict[str, Any]:
        """The arguments of counts that say what is shuffled together."""
        return {"shuffler": self.shuffler, "clear_share": self.clear_share}

    def hiding(self, total: int) -> int:
        """Return how many of a user's messages go through honest shufflers."""
        return max(0, total - int(self.clear_share) - self.corrupt_shufflers)
