"""The interface of all private protocols for sums."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Protocol, runtime_checkable

from numpy.typing import ArrayLike, NDArray

from ikos.data.domains import Domain
from ikos.primitives.randomness import RandomSource
from ikos.primitives.shuffling import View
from ikos.results.guarantees import Guarantee
from ikos.results.sums import Cost, SumResult
from ikos.sums.ledger import Ledger

__all__ = ["SumProtocol"]


def digest(parameters: dict[str, object]) -> str:
    """Return SHA-256 of what parties must agree on, in hexadecimal digits."""
    canonical = json.dumps(parameters, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


@runtime_checkable
class SumProtocol(Protocol):
    """A differentially private protocol for the sum of all users' values, numbers or vectors.

    All private sums and baselines have these members, so that one loop can compare them. An object
    holds public parameters only. `report` is the client's part (`randomize` that of all clients),
    `shuffle` the shufflers' (in the central model, the curator's), `analyze` the analyzer's, and
    `run` executes all parts.
    """

    @property
    def n(self) -> int:
        """Users."""

    @property
    def min_honest(self) -> int:
        """Least number of users who must be honest and present; fewer reports are refused."""

    @property
    def domain(self) -> Domain:
        """The domain of the values, public bounds on scalars or a set of vectors."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee per user for one run, for the view and so for the estimate."""

    @property
    def mse(self) -> float:
        """Bound on the mean squared error (of vectors, in Euclidean norm) over all n users."""

    @property
    def influence(self) -> float:
        """Greatest distance by which one user's valid messages alone can move the estimate.

        In any protocol, a malicious user can move the estimate by the diameter of the domain, by
        reporting another value.
        """

    def cost(self, users: int | None = None) -> Cost:
        """Return the messages and bits of ``users``, from 1 to n; all n by default."""

    def report(self, x: Any, rng: RandomSource | None = None) -> Any:
        """Return one client's messages."""

    def randomize(self, x: ArrayLike, rng: RandomSource | None = None) -> Any:
        """Return all users' messages, (messages, k) or (messages, k, d), row j for shuffler j."""

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return the analyzer's view of the messages."""

    def analyze(self, view: View) -> SumResult:
        """Return the estimate for a view."""

    def run(
        self, x: ArrayLike, rng: RandomSource | None = None, *, ledger: Ledger | None = None
    ) -> SumResult:
        """Run the protocol on all users' values, in this process; a ledger records it first."""
