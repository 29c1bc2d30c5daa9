"""What all protocols share, of numbers or of vectors: users, what they send, and the shufflers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import check_participation, choice, integer, reject_masked
from ikos.randomness import RandomSource, secure
from ikos.results import Cost, Guarantee, at_least, footer
from ikos.shuffling import ORDERS, View, shuffle

__all__ = ["Reports"]

MAX_USERS = 10**9
"""Most users."""


class Reports(ABC):
    """Messages of n users, at least ``min_honest`` of them, that shufflers pass on.

    A protocol is a frozen dataclass whose fields are its public parameters. Its ``__init__`` checks
    them and sets them with ``_hold``.
    """

    n: int
    min_honest: int

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run."""

    @property
    @abstractmethod
    def mse(self) -> float:
        """Bound on the mean squared error of the sum of all n."""

    @abstractmethod
    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send."""

    def _hold(self, **values: object) -> None:
        """Set the fields of a frozen dataclass, once, from its ``__init__``."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @staticmethod
    def _checked_users(n: object, min_honest: object = None, *, least: int = 1) -> tuple[int, int]:
        """Check and return n and min_honest; None for all."""
        users = integer("n", n, low=least, high=MAX_USERS)
        if min_honest is None:
            return users, users
        return users, integer("min_honest", min_honest, low=least, high=users)

    @property
    @abstractmethod
    def _particulars(self) -> str:
        """What the printed form tells beside users, error and guarantee."""

    def __repr__(self) -> str:
        honest = f", min_honest={self.min_honest}" if self.min_honest < self.n else ""
        return (
            f"<{type(self).__name__} n={self.n}{honest}, {self._particulars}; "
            f"mean squared error at most {at_least(self.mse, 4)}; {self.guarantee}>"
        )

    def __str__(self) -> str:
        return "\n".join(
            (
                f"{type(self).__name__} of {self.n:,} user{'s' * (self.n > 1)}, "
                f"{self._particulars}",
                f"error     {at_least(math.sqrt(self.mse), 4)} (root mean square, at most)",
                *footer(self.guarantee, str(self.cost()), self.n),
            )
        )

    @abstractmethod
    def _users_of(self, view: View) -> int:
        """Return how many users' messages a view holds; ValueError if it is not a view of this."""

    @property
    def _shuffler(self) -> str:
        """One shuffler for each row, "parallel", or a "single" one for all of them."""
        return "parallel"

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return what the analyzer sees: a column of messages for each shuffler.

        Parameters
        ----------
        messages : (messages, k) ndarray
            As `randomize` returns them.
        rng : RandomSource, optional
            For a random order; secure randomness by default.
        order : {"sorted", "permuted"}
            As for `ikos.SecureSum.shuffle`.
        """
        self._arrived(messages, order)
        return shuffle(
            messages, shuffler=self._shuffler, clear_share=False, order=order, rng=secure(rng)
        )

    def _arrived(
        self,
        messages: NDArray[Any],
        order: str,
        *,
        rows: int | None = None,
        most: int | None = None,
    ) -> None:
        """Refuse what are not messages of enough users.

        Where a view does not show each message, what one user can do rests on ``rows``, how many
        messages each must send, and ``most``, the largest; the smallest is 0.
        """
        choice("order", order, ORDERS)
        if not isinstance(messages, np.ndarray):
            raise TypeError(f"messages must be a numpy array, got {type(messages).__name__}")
        if reject_masked("messages", messages).ndim != 2 or messages.dtype.kind not in "iuO":
            raise ValueError(
                "messages must be integers of shape (messages, users), got "
                f"{messages.dtype} of shape {messages.shape}"
            )
        check_participation("messages", messages.shape[1], self.min_honest, self.n)
        if rows is not None and messages.shape[0] != rows:
            raise ValueError(f"messages must be {rows} of each user, got {messages.shape[0]}")
        if most is not None and messages.size and not 0 <= messages.min() <= messages.max() <= most:
            raise ValueError(f"messages must be in [0, {most}]; there are others (not shown)")

    def _checked_view(self, view: View) -> int:
        """Return how many users' messages a view holds, of this protocol and of enough users."""
        if not isinstance(view, View):
            raise TypeError(f"view must be a View, got {type(view).__name__}")
        users = self._users_of(view)
        check_participation("view", users, self.min_honest, self.n)
        return users
