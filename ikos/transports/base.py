"""The interface of transports, which add up many users' integers and reveal only the sum.

A transport holds parameters alone, the same at all parties. It knows no domain, no noise and no
budget: a recipe (`Recipe`) chooses its numbers for what a sum needs.

Each party's step is a method: a client makes a report, a part for each party (`report`); a party
releases the result of its parts (`release`); and the analyzer adds up all releases (`totals`).
Party 0 is the analyzer. `share`, `shuffle` and `run` play all users, and all parties.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import Any, ClassVar, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue, choice, floating, quote
from ikos.counts import Layout, MessageCount, Remaining
from ikos.data.domains import Coordinates, Domain
from ikos.data.encoding import Encoding, converge, encoding_of
from ikos.data.reading import Inputs, Participation, Reader, Ring
from ikos.data.sensitivity import Shift
from ikos.noise.base import Noise, PlacedNoise
from ikos.numeric.distributions import default_precision
from ikos.primitives.concurrency import Progress
from ikos.primitives.modular import Zq
from ikos.primitives.randomness import RandomSource
from ikos.primitives.sharing import SharingScheme
from ikos.primitives.shuffling import MESSAGE_ORDERS
from ikos.results.conditions import Condition

Part = tuple[NDArray[Any], ...]
"""The messages of some users to one party: arrays with a row for each user."""


ID_BYTES = 16


def drawn_ids(users: int, rng: RandomSource) -> tuple[bytes, ...]:
    """Return random ids of reports, by which parties recognize those that are complete."""
    octets = rng.bytes(users * ID_BYTES)
    return tuple(octets[i : i + ID_BYTES] for i in range(0, len(octets), ID_BYTES))


@dataclass(frozen=True, eq=False)
class Reports:
    """The messages of some users, with an id each: a part for each party, the analyzer's first.

    To retry, send the same parts. A second report of the same value counts as another user's.
    """

    ids: tuple[bytes, ...]
    parts: tuple[Part, ...]

    def of(self, user: int) -> Reports:
        """Return the report of one of the users."""
        parts = (tuple(rows[[user]] for rows in part) for part in self.parts)
        return Reports((self.ids[user],), tuple(parts))

    def __repr__(self) -> str:
        return f"<Reports: {len(self.ids):,}, with parts for {len(self.parts)} parties>"


def joined(parts: Sequence[Part]) -> Part:
    """Return the parts of several users for one party as one part."""
    return tuple(np.concatenate(rows) for rows in zip(*parts, strict=True))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What lets others check a verified sum: its reports, and the opening of their product.

    ``public`` has a row of bytes for each report: ``size`` of commitments, and its proof. Iterating
    yields the id, the commitments and the proof of each, in the order of ids.
    """

    context: bytes
    ids: tuple[bytes, ...]
    public: NDArray[np.uint8]
    size: int
    sums: tuple[int, ...]
    blinding: int

    def __iter__(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        for id, place in sorted(zip(self.ids, count(), strict=False)):
            row = self.public[place].tobytes()
            yield id, row[: self.size], row[self.size :]


@dataclass(frozen=True)
class Totals:
    """The sum of each coordinate modulo q, and the number of users in it.

    Of verified sums, also the ids of reports that were ``refused``, and the evidence.
    """

    sums: list[int]
    users: int
    refused: tuple[bytes, ...] = ()
    evidence: Evidence | None = None


class Work(TypedDict):
    """How a run is spread over cores, and where it reports its progress."""

    threads: int | None
    progress: Progress | None


class ReportSet(TypedDict, total=False):
    """A set of reports to be released: their ids, the context of their sum, and in which order."""

    order: str
    ids: Sequence[bytes]
    context: bytes


class Transport(ABC):
    """Parameters of one way to add up, with their guarantee.

    ``share``, ``shuffle`` and ``totals`` make the same draws as ``run``, whose progress ends at
    its total, and which raises ``Interrupted`` for Ctrl-C. What a party releases are arrays, or
    tuples of them.
    """

    name: ClassVar[str]
    """Its name as an argument."""

    bound: ClassVar[bool] = False
    """Whether messages depend on a context, which all parties of a sum know."""

    verified: ClassVar[bool] = False
    """Whether parties refuse invalid reports before a set is fixed."""

    soundness: ClassVar[tuple[Condition, ...]] = ()
    """The assumptions, apart from those of privacy, for a sum of valid values."""

    failure: float = 0.0
    """Probability with which totals are wrong, besides wrap-arounds modulo q."""

    digits: int = 1
    """Coordinates that are wrong if one of them wraps around."""

    layout: Layout
    """The messages per user, and the level proved for whole vectors."""

    q: int

    @cached_property
    def group(self) -> Zq:
        """The group Z_q of each coordinate's sum."""
        return Zq(self.q)

    @property
    def order(self) -> str:
        """The order of the group, as printed."""
        return f"q={quote(self.q)}"

    @property
    def ring(self) -> Ring:
        """The ring of the elements of a user's value."""
        return self.group

    @property
    @abstractmethod
    def parties(self) -> int:
        """Number of parties beside the analyzer."""

    @property
    def scheme(self) -> SharingScheme | None:
        """The shares of each coordinate, as workers of a cluster draw them; None if they cannot."""
        return None

    @property
    def dimension(self) -> int:
        """Coordinates."""
        return self.layout.dimension

    @property
    def reach(self) -> float:
        """Greatest Euclidean distance, in steps, by which one user's messages alone move the sums.

        A user may send any group elements, and so move each sum to any of the q points of the
        window that it is decoded to (BBGN20, Section 8).
        """
        return floating(Fraction(self.group.q - 1)) * math.sqrt(self.dimension)

    def influence_lines(self, step: float) -> tuple[str, ...]:
        """Return how far one user can move the sum, as printed, where that is bounded."""
        del step
        return ()

    @property
    def messages(self) -> MessageCount:
        """Messages per user for a block, and their proved guarantee."""
        return self.layout.count

    @property
    def sigma(self) -> float:
        """Proved security of whole vectors in bits, rounded down; 0.0 if nothing is proved.

        The parties' views of two inputs with equal sums are that close.
        """
        return self.layout.sigma

    @property
    def theorem(self) -> str:
        """The theorem by which the summands are hidden."""
        return self.layout.count.theorem

    @property
    @abstractmethod
    def conditions(self) -> tuple[Condition, ...]:
        """The assumptions on the group, the users and the parties."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""

    @property
    @abstractmethod
    def description(self) -> str:
        """The parties, in words."""

    @abstractmethod
    def remaining(self, *, honest: int | None, corrupt_shufflers: int | None) -> MessageCount:
        """Return the remaining guarantee if fewer users or shufflers are honest than planned."""

    def remaining_privacy(
        self, noise: Noise, precision: int, delta: float | Fraction, **present: int | None
    ) -> Remaining:
        """Return the remaining privacy of a sum of numbers with noise, or refuse to."""
        del noise, precision, delta, present
        raise InvalidValue("transport", f"must be 'shares' to compute it, got {self.name!r}")

    @abstractmethod
    def report(
        self, reader: Reader, values: NDArray[Any], rng: RandomSource, context: bytes = b""
    ) -> Reports:
        """Return the reports of a few clients, for their checked values, all drawn together."""

    @abstractmethod
    def share(self, inputs: Inputs, rng: RandomSource, context: bytes = b"") -> Any:
        """Return all users' messages, in the form that `shuffle` takes."""

    def shuffle(
        self,
        shares: Any,
        rng: RandomSource,
        order: str,
        users: Participation,
        context: bytes = b"",
    ) -> Any:
        """Return the releases of all parties for the messages of all users: the analyzer's view."""
        choice("order", order, MESSAGE_ORDERS)
        if not isinstance(shares, Reports):
            raise InvalidType("shares", f"must be Reports, got {type(shares).__name__}")
        for party, part in enumerate(shares.parts):
            self.check(party, part)
        users.check("shares", len(shares.ids))
        of: ReportSet = {"order": order, "ids": shares.ids, "context": context}
        return self.view([self.release(j, p, rng, **of) for j, p in enumerate(shares.parts)])

    @abstractmethod
    def check(self, party: int, part: Part) -> None:
        """Refuse a part, of one report or several, that no client of this transport sends."""

    def receipts(self, part: Part) -> NDArray[np.uint8]:
        """Return what the analyzer, of its parts, tells the others before a set is fixed: rows."""
        return np.empty((len(part[0]) if part else 0, 0), dtype=np.uint8)

    def refused(
        self,
        party: int,
        part: Part,
        *,
        ids: Sequence[bytes],
        context: bytes = b"",
        receipts: NDArray[np.uint8] | None = None,
    ) -> list[int]:
        """Return the places of the reports that a party refuses, given the others' receipts."""
        del party, part, ids, context, receipts
        return []

    @abstractmethod
    def release(self, party: int, part: Part, rng: RandomSource, **of: Unpack[ReportSet]) -> Any:
        """Return a party's release for the parts of a set of reports, once."""

    @abstractmethod
    def view(self, released: Sequence[Any]) -> Any:
        """Return the analyzer's view, from each party's release, the analyzer's first."""

    @abstractmethod
    def totals(self, view: Any, context: bytes = b"") -> Totals:
        """Return the sums in a view."""

    def with_noise(self, totals: Totals, rng: RandomSource) -> Totals:
        """Return the sums of all users' elements with the noise of the parties, if they add any."""
        del rng
        return totals

    @abstractmethod
    def run(
        self, inputs: Inputs, rng: RandomSource, context: bytes = b"", **work: Unpack[Work]
    ) -> Totals:
        """Play all users and parties, in less memory and time than one after the other."""


@dataclass(frozen=True)
class Need:
    """The requirements of a private sum; the budget is for all ``releases`` about the same users.

    ``shift`` bounds the shift of one sum by replacing one user's value of the ``domain``. If users
    hold numbers, ``scalar``, the noise of shares has pure differential privacy. To find an
    encoding, it need not be ``drawn``.
    """

    users: Participation
    domain: Domain
    epsilon: Fraction
    delta: Fraction
    shift: Shift
    releases: int
    scalar: bool
    drawn: bool = True

    @property
    def parties(self) -> int | None:
        """Number of users who must be able to draw shares of the noise, if it is drawn."""
        return self.users.least if self.drawn else None


class Recipe(ABC):
    """The options of a transport, before its numbers are known."""

    @classmethod
    @abstractmethod
    def of(cls, options: Any) -> Recipe:
        """Return the recipe with the options of shares that were passed with its name."""

    def noise_users(self, users: Participation) -> int:
        """Return the number of users, each rounding its value, for each variable of the noise."""
        return users.least

    def encoding(
        self, known: Coordinates, precision: object, need: Callable[[Encoding], Need]
    ) -> Encoding:
        """Return the encoding with a given precision, or that of the default precision.

        Integers are not rounded. Otherwise the default is the smallest precision, of vectors the
        smallest power of two, at which rounding adds at most 1 % to the variance of the noise.
        ``need`` returns the requirements of the sum of encoded values.
        """
        chosen = encoding_of(known, precision)
        if isinstance(chosen, Encoding):
            return chosen
        first = need(chosen(1))
        rounded = self.noise_users(first.users)
        if first.scalar:
            default = encoding_of(known, default_precision(first.epsilon, rounded))
            assert isinstance(default, Encoding)
            return default

        def signal(encoding: Encoding) -> float:
            ideal = self.largest_noise(replace(need(encoding), drawn=False))
            deviation = ideal.noise.deviation  # 0.0 of so little noise on a coarse grid
            return encoding.precision / deviation if deviation else math.inf

        return converge(chosen, signal, math.sqrt(rounded) / 2)

    @abstractmethod
    def order(self, least: int) -> int:
        """Return the smallest order of a group from ``least`` on that the transport takes."""

    @abstractmethod
    def secure(
        self, users: Participation, dimension: int | None, q: int, upper: int | None, sigma: object
    ) -> Transport:
        """Return the transport of a secure sum, of numbers if there is no ``dimension``."""

    @abstractmethod
    def largest_noise(self, need: Need) -> PlacedNoise:
        """Return the largest noise that the budget may need, for any order of the group."""

    @abstractmethod
    def size(self, need: Need, encoding: Encoding, q: int) -> tuple[Transport, PlacedNoise, float]:
        """Return the cheapest transport for a need, the noise, and the delta proved for both."""
