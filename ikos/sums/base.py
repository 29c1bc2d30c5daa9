"""The common part of all sums: a transport adds up values, and totals become a result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ikos._validation import InvalidType, InvalidValue, choice, integer, quote, validate_users
from ikos.counts import MessageCount
from ikos.counts.vectors import MASKED
from ikos.data.reading import Participation, Reader, Values
from ikos.primitives.concurrency import Progress, reported
from ikos.primitives.randomness import RandomSource, secure
from ikos.results.sums import Cost
from ikos.sums.ledger import Ledger, enter_run
from ikos.sums.protocol import digest
from ikos.transports import TRANSPORTS, Masks, Recipe, Shuffled, Transport
from ikos.transports.base import Reports, Totals, Work
from ikos.transports.roles import Analyzer, Party

if TYPE_CHECKING:
    from ikos.verified.certificate import Certificate

CONTEXT_BYTES = 32
"""Length of the random name of a run, for transports that bind messages to one."""

_T = TypeVar("_T")


def participation(n: int, min_honest: object) -> Participation:
    """Check and return the users of a sum; by default all of them must be honest."""
    least = n if min_honest is None else integer("min_honest", min_honest, low=1, high=n)
    return Participation(n, least)


def chosen_recipe(transport: str | Recipe | None, options: Shuffled) -> Recipe:
    """Return the recipe of a transport: named, with ``options`` of the shares in it, or given."""
    if transport is None:
        transport = Masks.name if options.layout == MASKED else "shares"
    if isinstance(transport, str):
        return TRANSPORTS[choice("transport", transport, TRANSPORTS)].of(options)
    if not isinstance(transport, Recipe):
        raise InvalidType("transport", f"must be a recipe or its name, got {quote(transport)}")
    if options != Shuffled():
        raise InvalidValue(
            "transport",
            "must not be a recipe beside options of shares: they belong in Shuffled or Masked",
        )
    return transport


@dataclass(frozen=True, repr=False)
class Sum(ABC, Generic[_T]):
    """A sum of n users' values: a ``reader`` makes them integers, a ``transport`` adds them up.

    An object holds public parameters only: every party holds one, and they compare
    `parameter_hash`.
    """

    reader: Reader
    transport: Transport

    @property
    def n(self) -> int:
        """Users."""
        return self.reader.users.n

    @property
    def min_honest(self) -> int:
        """Least number of users who must be honest and present."""
        return self.reader.users.least

    @property
    def dimension(self) -> int:
        """Coordinates; 1 for numbers."""
        return self.reader.dimension

    @property
    def messages(self) -> MessageCount:
        """Messages per user (of vectors, per user and block), and their proved guarantee."""
        return self.transport.messages

    @property
    @abstractmethod
    def guarantee(self) -> Any:
        """The guarantee, with its theorem and conditions."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""

    @cached_property
    def parameter_hash(self) -> str:
        """SHA-256 of the parameters, equal for two parties that agree on all of them."""
        return digest(self.parameters)

    @abstractmethod
    def _decoded(self, totals: Totals, rng: RandomSource | None = None) -> _T:
        """Return the result for totals of enough users; ``rng`` is the source of the run."""

    def certificate(self, totals: Totals) -> Certificate | None:
        """Return what lets anyone check verified totals, unsigned; None of other transports."""
        evidence = totals.evidence
        if evidence is None:
            return None
        from ikos.verified.certificate import Certificate  # needs the extra

        window = evidence.context[len(bytes.fromhex(self.parameter_hash)) :]
        opening = evidence.sums, evidence.blinding
        return Certificate(self.parameters, window, evidence, *opening)

    def result(self, totals: Totals) -> _T:
        """Return the result for the sums modulo q of all coordinates, of enough users."""
        self.reader.users.check("totals", totals.users)
        return self._decoded(totals)

    def cost(self, users: int | None = None) -> Cost:
        """Return the messages and bits of ``users``, all n by default."""
        return replace(self._cost, users=validate_users(users, self.n))

    @cached_property
    def _cost(self) -> Cost:
        layout = self.transport.layout
        messages, bits = layout.messages_per_user, layout.bits_per_user
        return Cost(self.n, messages, bits / messages if bits % messages else bits // messages)

    def context(self, name: object) -> bytes:
        """Return the context of all messages: the parameters, and the name of a sum."""
        if not isinstance(name, bytes):
            raise InvalidType("context", f"must be bytes, got {quote(name)}")
        if not self.transport.bound:
            return b""
        if not name:
            raise InvalidValue(
                "context", "must be a name that no other sum of this transport has, got b''"
            )
        return bytes.fromhex(self.parameter_hash) + name

    # One party at a time

    def report(self, x: Any, rng: RandomSource | None = None, *, context: bytes = b"") -> Reports:
        """Return one user's report of its value: a part for each party.

        Send all parts or none, and never two reports for one sum: a second sharing of a value
        links shares. The time to make a private sum's report depends slightly on its noise: do not
        send it as soon as it is made (BBGN20, Algorithm 6). ``context`` is a name that no other sum
        has, and that all parties know; masks and seeds are bound to it.
        """
        bound, source = self.context(context), secure(rng)
        return self.transport.report(self.reader, self.reader.one(x), source, bound)

    def parties(self, context: bytes = b"") -> tuple[Party, ...]:
        """Return the parties of one sum, in memory: the analyzer, and the others in order."""
        bound, users = self.context(context), self.reader.users
        analyzer = Analyzer(self.transport, users, 0, bound, decode=self.result)
        others = range(1, self.transport.parties + 1)
        return (analyzer, *(Party(self.transport, users, number, bound) for number in others))

    # All of them

    def share(self, x: Values, rng: RandomSource | None = None, *, context: bytes = b"") -> Any:
        """Return all users' shares of their values, ``x`` as for `run`.

        Returns
        -------
        (total, k) or (total, k, dimension) ndarray, or Reports
            Row j goes to shuffler j; the last row holds the clear shares, if any. uint32 or uint64
            for q up to 2^64, beyond that an object array of Python integers. Vectors may have up to
            2^28 shares. Other transports return reports, a part for each party.
        """
        bound, source = self.context(context), secure(rng)
        return self.transport.share(self.reader.read(x), source, bound)

    def shuffle(
        self,
        shares: Any,
        rng: RandomSource | None = None,
        *,
        order: str = "sorted",
        context: bytes = b"",
    ) -> Any:
        """Pass all users' messages through the parties, and return the analyzer's view.

        Parameters
        ----------
        shares : (total, k) or (total, k, dimension) ndarray, or Reports
            All users' shares, as ``share`` or ``randomize`` returns them.
        order : {"sorted", "permuted"}
            Each shuffler's output sorted, or in its own uniformly random order, drawn from ``rng``.
        context : bytes
            As for `share`.

        Returns
        -------
        View
            One column per shuffler of the first block, then of the second, and so on. Messages of
            several coordinates are opaque items.
        """
        bound, users = self.context(context), self.reader.users
        return self.transport.shuffle(shares, secure(rng), order, users, bound)

    def analyze(self, view: Any, *, context: bytes = b"") -> _T:
        """Return the result for a view (BBGN20, Algorithm 5).

        A view without complete reports of at least ``min_honest`` users is refused.
        """
        totals = self.transport.totals(view, self.context(context))
        self.reader.users.check("view", totals.users)
        return self._decoded(totals)

    def run(
        self,
        x: Values,
        rng: RandomSource | None = None,
        *,
        threads: int | None = None,
        cluster: Any = None,
        progress: Progress | None = None,
        ledger: Ledger | None = None,
    ) -> _T:
        """Run the protocol on all users' values, in this process.

        For shares, message for message equivalent to sharing, `shuffle` and `analyze` with the same
        ``rng``. Memory: values, last shares, and one column or 2^27 messages. Vectors are read some
        coordinates at a time; do not modify them meanwhile.

        Parameters
        ----------
        x : (k,) or (k, dimension) array_like, or iterator of such
            The values of k users, ``min_honest <= k <= n``, or an iterator over blocks of any
            lengths; ``(k, *shape)`` for values of a shape. For a secure sum, integers of any dtype,
            or Python's, in ``{0..upper}`` or ``[0, q)``. For a private sum, reals in its domain.
        rng : RandomSource, optional
            Secure randomness by default.
        threads : int, optional
            By default one per core if there are enough messages. No result depends on it.
        cluster : ikos.cluster.Cluster, optional
            Dask workers that run a sum of shares or with helpers instead; ``x`` may then be a Dask
            collection.
        progress : callable, optional
            Called with the number of pieces of the output (or coordinates, or users) done, and the
            total number.
        ledger : ikos.Ledger, optional
            For a private sum: the run is recorded before anything is drawn, and refused if it would
            exceed the budget. If it fails afterwards, the entry stays.

        Returns
        -------
        int, ndarray or SumResult
            For a secure sum, the sum modulo q; for a private sum, an estimate, with intervals,
            warnings, the guarantee, and the cost. Sums have the shape of a user's value. Ctrl-C
            raises `Interrupted`; nothing was released.
        """
        source = secure(rng)
        progress = progress or reported.get()
        if cluster is not None:
            if threads is not None:
                raise InvalidValue("threads", f"must be None with cluster=, got {threads!r}")
            if not hasattr(cluster, "add_up"):
                raise InvalidType(
                    "cluster", f"must be an ikos.cluster.Cluster, got {quote(cluster)}"
                )
            cluster.refuse_others(self.transport)
        if threads is not None:
            threads = integer("threads", threads, low=1, high=1024)
        enter_run(ledger, self)
        context = self.context(source.bytes(CONTEXT_BYTES) if self.transport.bound else b"")
        if cluster is not None:
            totals = cluster.add_up(self.reader, self.transport, x, source, progress)
            return self._decoded(totals, source)
        work: Work = {"threads": threads, "progress": progress}
        totals = self.transport.run(self.reader.read(x), source, context, **work)
        return self._decoded(totals, source)

    # Printed

    @property
    @abstractmethod
    def _values(self) -> str:
        """The values as printed."""

    def _printed(self, users: str) -> str:
        parties = f"{self._values}, {self.transport.order}, {self.transport.description}"
        return f"{type(self).__name__} {users}, {parties}"

    @property
    def _title(self) -> str:
        """The first printed line."""
        return self._printed(f"of {self.n:,} user{'s' * (self.n > 1)}")

    def __repr__(self) -> str:
        return f"<{self._printed(f'n={self.n}')}: {self.cost()}; {self.guarantee}>"
