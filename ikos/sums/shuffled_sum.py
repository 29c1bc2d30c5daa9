"""Sums over Z_q of shares that shufflers mix, of numbers and of vectors.

A number is a vector of one coordinate. Vectors are cut into *blocks* of coordinates
(`ikos.counts.vectors`): a message is one element of the group of a block, a share of each of its
coordinates, and every block has shufflers of its own. Shares are drawn coordinate by coordinate,
whatever the blocks are. What the parties do with them:

- A client (`report`, or `share` for all users) makes an array (messages, dimension), of which
  message j of the block with coordinates ``blocks[k]`` is the part ``[j, blocks[k]]``. The last
  messages are clear shares, if there are any; each other one goes to a shuffler of its own, or all
  of a block's to the block's single one.
- The shufflers (`shuffle`) release a `View`: all columns of the first block, then those of the
  next, each in an order of its own, and the clear shares of whole vectors.
- The analyzer (`analyze`) adds up all messages of a block, in the group Z_q^length, and joins the
  blocks' sums.

Values come in parts: of users, of vectors with some of their coordinates. Each part draws its
rounding and noise from its own source; so do bunches of coordinates their shares.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, count, repeat
from operator import call
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import (
    check_participation,
    choice,
    integer,
    quote,
    refuse_missing,
    validate_users,
)
from ikos.counts import Layout
from ikos.counts.published import unproved
from ikos.counts.types import MAX_MESSAGES, Trust
from ikos.primitives.concurrency import Interrupted, Progress, Scratch, cores, spread
from ikos.primitives.mixing import (
    MESSAGES_FOR_ALL_CORES,
    MESSAGES_IN_MEMORY,
    Encoder,
    mixed_sum,
    mixed_sums,
)
from ikos.primitives.modular import Zq, blocks
from ikos.primitives.randomness import RandomSource, secure
from ikos.primitives.sharing import USERS_PER_SOURCE, SharingScheme, split
from ikos.primitives.shuffling import MESSAGE_ORDERS, View, shuffle
from ikos.results.sums import NOT, Cost, present
from ikos.sums.ledger import Ledger, enter_run

if TYPE_CHECKING:
    from ikos.sums.masked_vectors import MaskedVectors

ENTRIES = 1 << 20  # of vectors, whose rounding and noise come from one source
COLUMNS = 32  # coordinates taken out of all users' vectors at a time, in whole lines of cache,
TOGETHER = 1 << 22  # or as many as have this many entries
BUNCH = 1 << 17  # entries of whole coordinates that are shared together, in cache
MANY = 1 << 22  # users from which all threads share one coordinate
MAX_ENTRIES = 1 << 28  # in an array of shares of vectors

Values = ArrayLike | Sequence[Any] | Iterator[ArrayLike]
"""An array, a list, a memory map, or an iterator over blocks of values."""

Elements = tuple[
    NDArray[Any], Sequence[Callable[[NDArray[Any]], None]], Sequence[tuple[slice, RandomSource]]
]
"""Memory for all users' elements of some coordinates, (c, users), what is still to write parts of
them, and which coordinates are then shared together, from which source."""


PSEUDORANDOM = "the number of users is public; shares are pseudorandom (AES-256)"

NoiseShares = tuple[NDArray[np.int64], NDArray[Any]]
"""Places of entries that get noise, ascending, and the integers to be added."""

_T = TypeVar("_T")


def collusion(corrupt: int, shufflers: str = "shufflers") -> str:
    """Return the condition on the number of colluding shufflers."""
    if corrupt:
        verb = "colludes" if corrupt == 1 else "collude"
        return f"while at most {corrupt} of the {shufflers} {verb} with the analyzer"
    return "while no shuffler colludes with the analyzer"


def alone(clear_share: bool) -> str:
    """Return the condition on a single shuffler, which has all messages but clear shares."""
    text = "while the shuffler does not collude with the analyzer"
    if clear_share:
        return text
    return f"{text}, nor itself add up a user's shares, all of which it has"


def unproved_conditions(analysis: str | None, q: int, dimension: int = 1) -> tuple[str, ...]:
    """Return the condition that nothing is proved for the group Z_q^dimension, if so."""
    missing = unproved(analysis, q, dimension)
    return (f"{NOT}group: {missing}",) if missing else ()


def pack(elements: NDArray[Any], group: Zq) -> NDArray[Any]:
    """Return vectors of group elements, (..., b), as messages, (...), that sorting moves whole."""
    if elements.shape[-1] == 1:
        return np.ascontiguousarray(elements[..., 0])
    if group.dtype == object:
        width = (group.bits + 7) // 8
        joined = b"".join(int(value).to_bytes(width, "little") for value in elements.flat)
        octets = np.frombuffer(joined, dtype=np.uint8)
        octets = octets.reshape(*elements.shape[:-1], elements.shape[-1] * width).copy()
    else:
        octets = np.ascontiguousarray(elements, dtype=group.dtype.newbyteorder("<")).view(np.uint8)
    return octets.view(np.dtype((np.void, octets.shape[-1])))[..., 0]


def unpack(messages: NDArray[Any], group: Zq, dimension: int) -> NDArray[Any]:
    """Return the vectors, (k, b), of k messages; ValueError if they are not such messages."""
    if dimension == 1:
        return messages[:, np.newaxis]
    width = (group.bits + 7) // 8 if group.dtype == object else group.dtype.itemsize
    if messages.dtype != np.dtype((np.void, dimension * width)):
        raise ValueError(
            f"view must hold vectors of {dimension} elements as messages, got an array of "
            f"{messages.dtype}"
        )
    octets = np.ascontiguousarray(messages)[:, np.newaxis].view(np.uint8)
    if group.dtype != object:
        return octets.view(group.dtype.newbyteorder("<")).astype(group.dtype, copy=False)
    flat = octets.tobytes()
    result = np.empty(messages.size * dimension, dtype=object)
    result[:] = [
        int.from_bytes(flat[start : start + width], "little")
        for start in range(0, len(flat), width)
    ]
    return result.reshape(messages.size, dimension)


def _add(noise: NoiseShares, elements: NDArray[Any], group: Zq) -> None:
    """Add noise to elements, (k,), in place."""
    places, amounts = noise
    if places.size:
        changed = elements[places]
        group.subtract(changed, group.reduce(-amounts))
        elements[places] = changed


@dataclass(frozen=True, repr=False)
class ShuffledSum(ABC, Generic[_T]):
    """A sum over Z_q of n users' shares that shufflers mix, of numbers or of vectors.

    With ``masks``, users mask their vectors, and only the keys are shared.
    """

    n: int
    dimension: int
    q: int
    layout: Layout
    trust: Trust
    masks: MaskedVectors | None = field(kw_only=True)

    scalar = True
    """Whether users hold numbers, not vectors."""

    def __post_init__(self) -> None:
        # colluding shufflers may cost too many messages
        integer("messages", self.layout.count.total, low=1, high=MAX_MESSAGES)

    @abstractmethod
    def checked(self, x: Any, first: int = 0) -> NDArray[Any]:
        """Return checked values, (k,) or (k, d); the first is user number ``first``'s."""

    @abstractmethod
    def rounded(
        self, values: NDArray[Any], rng: RandomSource, out: NDArray[Any], scratch: Scratch
    ) -> None:
        """Write the group elements of checked values, numbers or entries of vectors, to ``out``.

        It is contiguous and has the shape of ``values``.
        """

    def noise_shares(self, size: int, rng: RandomSource) -> NoiseShares:
        """Draw the noise of so many entries: none, unless the sum is private."""
        del size, rng
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)

    def encoded(self, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return the group elements of checked values, of the same shape, with noise."""
        elements = np.empty(values.shape, dtype=self.group.dtype)
        self.rounded(values, rng, elements, Scratch())
        _add(self.noise_shares(elements.size, rng), elements.reshape(-1), self.group)
        return elements

    def noisy_integers(self, values: NDArray[Any], rng: RandomSource) -> NDArray[np.int64]:
        """Return checked vectors as integers, with noise, and not modulo q.

        Masked vectors tell the sum of these integers: it must be as private as they say.
        """
        found = np.empty(values.shape, dtype=np.int64)
        self.rounded(values, rng, found, Scratch())
        places, noise = self.noise_shares(found.size, rng)
        found.reshape(-1)[places] += noise
        return found

    def seed(self, task: bytes) -> bytes:
        """Return the seed of a task's public polynomials, by a hash of all parameters."""
        if not isinstance(task, bytes):
            raise TypeError(f"task must be bytes, got {quote(task)}")
        label = b"ikos masked vectors 1" + bytes.fromhex(self.parameter_hash)
        return hashlib.sha256(label + task).digest()

    @abstractmethod
    def _result(self, totals: list[int], users: int, rng: RandomSource | None = None) -> _T:
        """Return the result for the sums of all coordinates; ``rng`` is the source of the run."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, object]:
        """What the parties must agree on."""

    @property
    def parameter_hash(self) -> str:
        """SHA-256 of the parameters, equal for two parties that agree on all of them."""
        canonical = json.dumps(self.parameters, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def sharing_parameters(self) -> dict[str, object]:
        """What the parties must agree on to share values and add up shares."""
        if self.masks is not None:
            return {
                "protocol": "ikos-masked-vector-sum-1",
                "q": hex(self.q),
                **asdict(self.masks.parameters),
                "keys": self.masks.keys.sharing_parameters,
            }
        vector = {} if self.scalar else {"dimension": self.dimension, "layout": self.layout.name}
        return {
            "protocol": f"ikos-secure-{'' if self.scalar else 'vector-'}sum-2",
            "n": self.n,
            "q": hex(self.q),
            "shuffled": self.layout.count.shuffled,
            "clear": self.layout.count.clear,
            "shuffler": self.trust.shuffler,
            "min_honest": self.trust.min_honest,
            "corrupt_shufflers": self.trust.corrupt_shufflers,
            **vector,
        }

    @cached_property
    def group(self) -> Zq:
        """The group Z_q of each coordinate."""
        return Zq(self.q)

    @cached_property
    def setting(self) -> SharingScheme:
        """What is sent to whom, per coordinate."""
        if self.masks is not None:
            raise ValueError(
                "layout must not be 'masked' for shares of vectors: use run, or client, shuffler "
                "and analyzer"
            )
        trust = self.trust
        return SharingScheme(self.group, self.layout.count.total, trust.single, trust.clear_share)

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Which coordinates are shuffled together."""
        return tuple(blocks(self.dimension, self.layout.length))

    @property
    def min_honest(self) -> int:
        """How many users must be honest and present."""
        return self.trust.min_honest

    @property
    @abstractmethod
    def guarantee(self) -> Any:
        """What is proved, by which theorem, under which conditions."""

    @property
    @abstractmethod
    def _values(self) -> str:
        """The values as printed."""

    def _printed(self, users: str) -> str:
        trust = self.trust
        extras = f", min_honest={trust.min_honest}" if trust.min_honest < self.n else ""
        if trust.corrupt_shufflers:
            extras += f", corrupt_shufflers={trust.corrupt_shufflers}"
        group = f"{self._values}, q={quote(self.q)}, {trust.shuffler}{extras}"
        return f"{type(self).__name__} {users}, {group}"

    def __repr__(self) -> str:
        return f"<{self._printed(f'n={self.n}')}: {self.cost()}; {self.guarantee}>"

    @property
    def theorem(self) -> str:
        """By which theorem what is summed is hidden."""
        return self.layout.count.theorem if self.masks is None else self.masks.theorem

    @property
    def _title(self) -> str:
        """The first line of what is printed."""
        return self._printed(f"of {self.n:,} user{'s' * (self.n > 1)}")

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a proof assumes of the group, the users and the shufflers."""
        if self.masks is not None:
            return (*self.masks.assumptions, *self.masks.keys.conditions)
        trust = self.trust
        if trust.single:
            shufflers = alone(trust.clear_share)
        else:
            which = "shufflers" if self.scalar else "shufflers of each sum"
            shufflers = collusion(trust.corrupt_shufflers, which)
        analysis = self.layout.count.analysis
        return (
            *unproved_conditions(analysis, self.q, self.layout.length),
            present(trust.min_honest, self.n),
            shufflers,
        )

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send."""
        return replace(self._cost, users=validate_users(users, self.n))

    @cached_property
    def _cost(self) -> Cost:
        messages, bits = self.layout.messages_per_user, self.layout.bits_per_user
        return Cost(self.n, messages, bits / messages if bits % messages else bits // messages)

    # The client

    def report(self, x: Any, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's shares of its value, (total,) or (total, dimension), as in `share`.

        Send all of them or none, and never two reports for one sum: a second sharing of a value
        links shares. The time to make a private sum's report depends slightly on its noise: do not
        send it as soon as it is made (BBGN20, Algorithm 6).
        """
        source, values = secure(rng), self.checked([refuse_missing("x", x)])
        if not self.scalar:
            return shares_of(self, 1, elements_of(self, values, source))[:, 0].copy()
        element = self.encoded(values, source.streams()(0))
        return split(element, self.group, self.setting.messages, source)[:, 0].copy()

    def share(self, x: Values, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return all users' shares of their values, ``x`` as for `run`.

        Returns
        -------
        (total, k) or (total, k, dimension) ndarray
            Row j goes to shuffler j; the last row holds the clear shares, if any. uint32 or uint64
            for q up to 2^64, beyond that an object array of Python integers. Vectors may have up to
            2^28 shares.
        """
        source = secure(rng)
        if not self.scalar:
            return shares_of(self, *vectors_of(self, x, source))
        elements = numbers_of(self, x, source)
        if isinstance(elements, Encoder):
            encoder, elements = elements, np.empty(elements.users, dtype=self.group.dtype)
            for number, part in enumerate(blocks(encoder.users, USERS_PER_SOURCE)):
                encoder.write(number, part, elements[part])
        return split(elements, self.group, self.setting.messages, source)

    # The shufflers

    def shuffle(
        self, shares: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Pass shares, as `share` returns them, through the shufflers.

        Parameters
        ----------
        shares : (total, k) or (total, k, dimension) ndarray
        order : {"sorted", "permuted"}
            Each shuffler's output sorted, or in its own uniformly random order, drawn from ``rng``.

        Returns
        -------
        View
            What the analyzer receives: one column per shuffler of the first block, then of the
            second, and so on. Messages of several coordinates are opaque items.
        """
        choice("order", order, MESSAGE_ORDERS)
        if not isinstance(shares, np.ndarray):
            raise TypeError(f"shares must be a numpy array, got {type(shares).__name__}")
        refuse_missing("shares", shares)
        rest = () if self.scalar else (self.dimension,)
        users = shares.shape[1] if shares.ndim > 1 else "users"
        if shares.shape != (self.setting.messages, users, *rest):
            wanted = ", ".join(map(str, (self.setting.messages, "users", *rest)))
            raise ValueError(
                f"shares must have shape ({wanted}), got {shares.shape}: "
                "all of a user's shares are needed, or none"
            )
        check_participation("shares", shares.shape[1], self.trust.min_honest, self.n)
        if not self.group.contains(shares):
            raise ValueError(
                f"shares must be of dtype {self.group.dtype} in [0, q) for q = {quote(self.q)}, "
                f"got dtype {shares.dtype} or values beyond (not shown)"
            )
        vectors, source = shares.reshape(*shares.shape[:2], self.dimension), secure(rng)
        columns = self.mixed(vectors[: self.setting.shuffled], source, order)
        if not self.setting.clear:
            return View(columns, None)
        clear = pack(vectors[-1], self.group).copy()
        clear.setflags(write=False)
        return View(columns, clear)

    def mixed(
        self, shares: NDArray[Any], rng: RandomSource, order: str = "sorted"
    ) -> tuple[NDArray[Any], ...]:
        """Return what shufflers release of some of the users' shares, (messages, k, dimension)."""
        columns: list[NDArray[Any]] = []
        for block in self.blocks:
            messages = pack(shares[..., block], self.group)
            how = {"shuffler": self.trust.shuffler, "order": order}
            columns += shuffle(messages, rng=rng, **how)
        return tuple(columns)

    # The analyzer

    def users(self, view: View) -> int:
        """Return how many users' reports a view holds; ValueError unless all are complete."""
        return self._read(view)[1]

    def analyze(self, view: View) -> _T:
        """Return the result for a view (BBGN20, Algorithm 5).

        A view without complete reports of at least ``min_honest`` users is refused.
        """
        return self._result(*self._read(view))

    def result(self, totals: list[int], users: int) -> _T:
        """Return the result for the sums modulo q of all coordinates of so many users' shares."""
        check_participation("totals", users, self.trust.min_honest, self.n)
        return self._result(totals, users)

    def _read(self, view: View) -> tuple[list[int], int]:
        """Return the sum of each coordinate modulo q, and the number of users in a view."""
        if not isinstance(view, View):
            raise TypeError(f"view must be a View, got {type(view).__name__}")
        each, per_column = self.setting.shuffled, 1
        if self.trust.single:
            each, per_column = 1, each
        expected = each * len(self.blocks)
        if len(view.columns) != expected or (view.clear is not None) != self.setting.clear:
            raise ValueError(
                f"view must hold the output of {expected} shufflers "
                f"{'and' if self.setting.clear else 'without'} clear shares, got {view!r}"
            )
        received = [(a, self.blocks[i // each]) for i, a in enumerate(view.columns) if per_column]
        sizes = {column.size / per_column for column, _ in received}
        if view.clear is not None:
            received.append((view.clear, slice(0, self.dimension)))
            sizes.add(view.clear.size)
        unasked = not per_column and any(column.size for column in view.columns)
        if unasked or len(sizes) != 1 or not float(users := sizes.pop()).is_integer():
            raise ValueError(f"view must hold equally many messages of each kind, got {view!r}")
        check_participation("view", int(users), self.trust.min_honest, self.n)
        totals = [0] * self.dimension
        for messages, block in received:
            vectors = unpack(messages, self.group, block.stop - block.start)
            if not self.group.contains(vectors):
                raise ValueError(
                    f"view must hold {self.group.dtype} messages in [0, q) for "
                    f"q = {quote(self.q)}; there are others (not shown)"
                )
            for c in range(block.start, block.stop):
                totals[c] += self.group.sum(np.ascontiguousarray(vectors[:, c - block.start]))
        return [total % self.q for total in totals], int(users)

    # All of them

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

        The same as `share`, `shuffle` and `analyze` with the same ``rng``, message for message, in
        the memory of the values, the last shares and one column, or of 2^27 messages; vectors, some
        coordinates at a time, and they must not change meanwhile.

        Parameters
        ----------
        x : (k,) or (k, dimension) array_like, or iterator of such
            The values of k users, ``min_honest <= k <= n``, or an iterator over blocks of any
            lengths. For a secure sum, integers of any dtype, or Python's, in ``{0..upper}`` or
            ``[0, q)``. For a private sum, reals in its domain.
        rng : RandomSource, optional
            Secure randomness by default.
        threads : int, optional
            By default one per core if there are enough messages. No result depends on it.
        cluster : ikos.cluster.Cluster, optional
            Dask workers that run the sum instead; ``x`` may then be a Dask collection.
        progress : callable, optional
            Called with how many pieces of the output, or coordinates of vectors, are done and are
            asked for.
        ledger : ikos.Ledger, optional
            For a private sum: the run is entered before anything is drawn, and refused if it would
            overspend. If it fails afterwards, the entry stays.

        Returns
        -------
        int, ndarray or SumResult
            For a secure sum, the sum modulo q; for a private sum, an estimate, with intervals, the
            guarantee, and the cost. Ctrl-C raises `Interrupted`; nothing was released.
        """
        source = secure(rng)
        if cluster is not None:
            if threads is not None:
                raise ValueError(f"threads must be None with cluster=, got {threads!r}")
            if not hasattr(cluster, "add_up"):
                raise TypeError(f"cluster must be an ikos.cluster.Cluster, got {quote(cluster)}")
            _ = self.setting  # refuses masked vectors
        if threads is not None:
            threads = integer("threads", threads, low=1, high=1024)
        enter_run(ledger, self)
        if cluster is not None:
            totals, users = cluster.add_up(self, x, source, progress)
            return self._result(totals, users, source)
        if self.masks is not None:
            return self._result(*self.masks.totals(self, x, source, threads, progress), source)
        if not self.scalar:
            users, given = vectors_of(self, x, source)
            return self._result(vector_totals(self, users, given, threads, progress), users, source)
        elements = numbers_of(self, x, source)
        users = elements.users if isinstance(elements, Encoder) else elements.size
        total = mixed_sum(elements, self.setting, source, threads=threads, progress=progress)
        return self._result([total], users, source)


def checked_blocks(
    clients: ShuffledSum[Any], x: NDArray[Any] | Iterator[ArrayLike], size: int | None = None
) -> Iterator[NDArray[Any]]:
    """Yield checked copies of ``size`` users' values, by default of `USERS_PER_SOURCE` numbers."""
    size = size or max(1, USERS_PER_SOURCE // clients.dimension)
    if not isinstance(x, Iterator):
        for part in blocks(x.shape[0], size):
            yield clients.checked(x[part].copy(), part.start)
        return
    first, lacking = 0, size
    kept: list[NDArray[Any]] = []
    for some in x:
        values = clients.checked(some.copy() if isinstance(some, np.ndarray) else some, first)
        first += values.shape[0]
        if first > clients.n:  # before more of them are read, possibly without end
            check_participation("x", first, clients.min_honest, clients.n, so_far=True)
        # copied by both: an iterator may write its next block to the same memory
        while values.shape[0] >= lacking:
            yield np.concatenate([*kept, values[:lacking]])
            values, kept, lacking = values[lacking:], [], size
        if values.shape[0]:
            kept.append(values.copy())
            lacking -= values.shape[0]
    if kept:
        yield np.concatenate(kept)


@dataclass(frozen=True)
class _Located:
    """Adds the file and row to the error for a refused value. It can be pickled."""

    check: Callable[[Any, int], Any]

    def __call__(self, values: NDArray[Any], before: int) -> NDArray[Any]:
        """Return a block of a table unchanged, checked where it is read."""
        try:
            self.check(values, before)
        except ValueError as error:
            found = re.match(r"x\[(\d+)\] ", message := str(error))
            if found is None:
                raise
            from ikos.data.tables import BadRow  # imported only if there are tables

            why = f"which {message[found.end() :]}"
            raise BadRow(int(found[1]) - before, why) from None
        return values


def with_location(check: Callable[[Any, int], Any], x: Any) -> Any:
    """Return a column of tables whose values are checked, and reported by file and row."""
    return x.seen(_Located(check)) if hasattr(x, "seen") else x


def iterator_or_array(clients: ShuffledSum[Any], x: Values) -> NDArray[Any] | Iterator[ArrayLike]:
    """Return values as an iterator, or as an array of which parts are still to be checked."""
    if isinstance(x, np.ndarray) and x.ndim == 1 and clients.scalar:
        return np.asarray(refuse_missing("x", x))
    if isinstance(x, Iterator):
        return x
    if hasattr(x, "__dask_graph__"):
        raise TypeError("x is a Dask collection: say where to work on it with cluster=")
    if hasattr(x, "parts") and hasattr(x, "blocks"):  # a column of tables
        found: Iterator[ArrayLike] = with_location(clients.checked, x).blocks()
        return found
    # a list is checked as a whole, since numpy would silently convert it to something else; so is
    # an array of no users, which is refused
    return clients.checked(x)


def _joined(parts: Iterator[NDArray[Any]]) -> NDArray[Any]:
    """Return what an iterator yields in one array."""
    try:
        found = list(parts)
    except KeyboardInterrupt:
        raise Interrupted(None, 0, 0, "while values were read") from None
    return np.concatenate(found) if found else np.empty(0)


class BlockEncoder:
    """Encodes users' values in blocks, of `USERS_PER_SOURCE` numbers or of vectors.

    Noise of numbers is drawn for as many blocks at once as one variable serves. All noise shares
    are independent: two threads or processes may draw the same blocks' and use those of one each.
    """

    def __init__(self, clients: ShuffledSum[Any], streams: Callable[[int], RandomSource]) -> None:
        self.clients, self.streams = clients, streams
        self.together = max(1, clients.trust.min_honest // USERS_PER_SOURCE)
        self.drawn: dict[int, NoiseShares] = {}
        self.scratch = Scratch()

    def __call__(
        self, values: NDArray[Any], number: int, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Return the elements of checked values, of block ``number``, perhaps in ``out``."""
        clients, source = self.clients, self.streams(number)
        if out is None:
            out = np.empty(values.shape, dtype=clients.group.dtype)
        clients.rounded(values, source, out, self.scratch)
        if clients.scalar:
            noise = self._noise(number, out.size)
        else:
            noise = clients.noise_shares(out.size, source)
        _add(noise, out.reshape(-1), clients.group)
        return out

    def _noise(self, number: int, size: int) -> NoiseShares:
        """Return the noise of a block of so many numbers."""
        run, place = divmod(number, self.together)
        found = self.drawn.get(run)
        if found is None:
            drawn = self.together * USERS_PER_SOURCE if self.together > 1 else size
            found = self.clients.noise_shares(drawn, self.streams((1 << 64) + run))
            if self.together > 1:
                self.drawn[run] = found
        users, noise = found
        low, high = np.searchsorted(
            users, (place * USERS_PER_SOURCE, place * USERS_PER_SOURCE + size)
        )
        return users[low:high] - place * USERS_PER_SOURCE, noise[low:high]


def numbers_of(clients: ShuffledSum[Any], x: Values, rng: RandomSource) -> NDArray[Any] | Encoder:
    """Return the elements of users' numbers, or what computes them.

    An iterator is read here, once, as the number of users is not known before.
    """
    given, encode = iterator_or_array(clients, x), BlockEncoder(clients, rng.streams())
    if isinstance(given, Iterator):
        read = checked_blocks(clients, given)
        elements = _joined(map(encode, read, count()))
        check_participation("x", elements.size, clients.trust.min_honest, clients.n)
        return elements
    users = given.size
    check_participation("x", users, clients.trust.min_honest, clients.n)

    def write(number: int, part: slice, out: NDArray[Any]) -> None:
        # a copy is checked and used: others may meanwhile write to the memory, or the file
        same = given.dtype == out.dtype
        values = out if same else encode.scratch("values", out.size, given.dtype)
        values[:] = given[part]
        encode(clients.checked(values, part.start), number, out)

    return Encoder(users, write)


def vectors_of(
    clients: ShuffledSum[Any], x: Values, rng: RandomSource
) -> tuple[int, Iterator[Elements]]:
    """Return the number of users and the elements of their vectors, some coordinates at a time."""
    given = iterator_or_array(clients, x)
    if isinstance(given, Iterator):
        # checked again: a promise about all vectors, once all are there
        given = clients.checked(_joined(checked_blocks(clients, given)))
    check_participation("x", given.shape[0], clients.trust.min_honest, clients.n)
    return given.shape[0], elements_of(clients, given, rng)


def elements_of(
    clients: ShuffledSum[Any], values: NDArray[Any], rng: RandomSource
) -> Iterator[Elements]:
    """Yield the elements of checked vectors, each time in the same memory.

    What is drawn for an entry depends on its place, not on the threads.
    """
    users, numbers = values.shape[0], count()
    encode, secrets = BlockEncoder(clients, rng.streams()), rng.streams()

    def write(columns: slice, number: int, part: slice, out: NDArray[Any]) -> None:
        some = values[part, columns]
        copy, made = (
            encode.scratch(name, some.size, kind).reshape(some.shape)
            for name, kind in (("values", some.dtype), ("made", out.dtype))
        )
        copy[...] = some
        out[:, part] = encode(copy, number, made).T

    together = min(max(COLUMNS, TOGETHER // users), max(1, MESSAGES_IN_MEMORY // users))
    elements = np.empty((min(clients.dimension, together), users), clients.group.dtype)
    for columns in blocks(clients.dimension, together):
        c = columns.stop - columns.start
        yield (
            elements[:c],
            [
                partial(write, columns, next(numbers), part)
                for part in blocks(users, max(1, ENTRIES // c))
            ],
            [
                (rows, secrets(columns.start + rows.start))
                for rows in blocks(c, max(1, BUNCH // users))
            ],
        )


def vector_totals(
    clients: ShuffledSum[Any],
    users: int,
    given: Iterator[Elements],
    threads: int | None,
    progress: Progress | None,
) -> list[int]:
    """Return the sum of each coordinate modulo q; each thread makes those of some coordinates."""
    scheme, d = clients.setting, clients.dimension
    if threads is None:
        threads = cores() if users * d * scheme.messages >= MESSAGES_FOR_ALL_CORES else 1
    totals: list[int] = []
    stop = threading.Event()
    pool = nullcontext() if threads == 1 else ThreadPoolExecutor(threads)
    try:
        with pool as executor, ExitStack() as before:
            before.callback(stop.set)  # before the executor waits for its threads
            for elements, writes, bunches in given:
                deque(spread(call, zip(writes, repeat(elements), strict=False), executor), 0)
                made: Iterable[list[int]]
                if users < MANY:
                    tasks = ((elements[rows], scheme, rng, stop) for rows, rng in bunches)
                    made = spread(mixed_sums, tasks, executor)
                else:
                    one = partial(mixed_sum, scheme=scheme, threads=threads)
                    made = ([one(elements[rows.start], rng=rng)] for rows, rng in bunches)
                for total in chain.from_iterable(made):
                    totals.append(total)
                    if progress is not None:
                        progress(len(totals), d)
    except KeyboardInterrupt:
        raise Interrupted(None, len(totals), d, "coordinates") from None
    return totals


def shares_of(clients: ShuffledSum[Any], users: int, given: Iterator[Elements]) -> NDArray[Any]:
    """Return the shares of vectors, (messages, users, dimension)."""
    scheme, d = clients.setting, clients.dimension
    entries = scheme.messages * users * d
    if entries > MAX_ENTRIES:
        raise ValueError(
            f"x has users whose shares have {entries} entries, more than "
            f"{MAX_ENTRIES}; use run, or fewer users"
        )
    shares = np.empty((scheme.messages, d, users), dtype=scheme.group.dtype)
    first = 0
    for elements, writes, bunches in given:
        for write in writes:
            write(elements)
        for rows, rng in bunches:
            made = split(elements[rows].reshape(-1), scheme.group, scheme.messages, rng)
            here = slice(first, first := first + rows.stop - rows.start)
            shares[:, here] = made.reshape(scheme.messages, -1, users)
    return np.moveaxis(shares, 1, -1)
