"""A sum of shares that shufflers mix: what all sums of this package are made of.

There is one implementation, of vectors of ``dimension`` elements of Z_q; a number is a vector of
one coordinate. Each coordinate is shared by itself. What is shuffled together is a *block* of
coordinates: one message holds a share of each of them.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ikos._validation import (
    check_participation,
    choice,
    integer,
    quote,
    reject_masked,
    validate_users,
)
from ikos.aggregation.engine import SharingScheme
from ikos.aggregation.execution import Engine, Values, add_up, collect, coordinates, shares_of
from ikos.concurrency import Progress
from ikos.counts import Layout
from ikos.counts.published import unproved
from ikos.counts.types import MAX_MESSAGES
from ikos.counts.vectors import ONE_GROUP, SEPARATE
from ikos.modular import Zq, blocks
from ikos.randomness import RandomSource, secure
from ikos.results import NOT, Cost, present
from ikos.shuffling import ORDERS, View, shuffle
from ikos.trust import Trust

PSEUDORANDOM = "the number of users is public; shares are pseudorandom (AES-256)"

LAYOUTS = {"separate": SEPARATE, "group": ONE_GROUP}
"""A sum for each coordinate, with shufflers of its own, or one sum of whole vectors.

By the names that users give; those inside parameter hashes are accepted too.
"""

_T = TypeVar("_T")


def layout_name(layout: str) -> str:
    """Check and return a layout, by the name that is inside parameter hashes."""
    if layout in LAYOUTS.values():
        return layout
    return LAYOUTS[choice("layout", layout, LAYOUTS)]


def collusion(corrupt: int, shufflers: str = "shufflers") -> str:
    """Return the condition that no more of several shufflers collude."""
    if corrupt:
        verb = "colludes" if corrupt == 1 else "collude"
        return f"while at most {corrupt} of the {shufflers} {verb} with the analyzer"
    return "while no shuffler colludes with the analyzer"


def alone(clear_share: bool) -> str:
    """Return the condition on a single shuffler, who has all of each user but a clear share."""
    text = "while the shuffler does not collude with the analyzer"
    if clear_share:
        return text
    return f"{text}, nor itself add up a user's shares, all of which it has"


def unproved_conditions(analysis: str | None, q: int, dimension: int = 1) -> tuple[str, ...]:
    """Return the condition that nothing is proved for the group Z_q^dimension, if that is so."""
    missing = unproved(analysis, q, dimension)
    return (f"{NOT}group: {missing}",) if missing else ()


def pack(elements: NDArray[Any], group: Zq) -> NDArray[Any]:
    """Return vectors of group elements, (..., b), as messages, (...).

    One opaque item of fixed length for each vector, so that to permute or sort messages moves whole
    vectors; of one coordinate, its element.
    """
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


@dataclass(frozen=True, repr=False)
class ShuffledSum(ABC, Generic[_T]):
    """A sum of n users' shares that shufflers mix, of numbers or of vectors over Z_q."""

    n: int
    dimension: int
    q: int
    layout: Layout
    trust: Trust

    scalar = True
    """Whether users have numbers, and not vectors."""

    def __post_init__(self) -> None:
        # what colluding shufflers add to a number that was found may be too much
        integer("messages", self.layout.count.total, low=1, high=MAX_MESSAGES)

    @abstractmethod
    def checked(self, x: Any, first: int = 0) -> NDArray[Any]:
        """Return values, each looked at; the first is user number ``first``'s."""

    @abstractmethod
    def encoded(self, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return checked values as group elements."""

    @abstractmethod
    def _result(self, totals: list[int], users: int, rng: RandomSource | None = None) -> _T:
        """Return the result for the sum of each coordinate; ``rng`` is what a run drew from."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, object]:
        """What the parties must agree on."""

    @property
    def parameter_hash(self) -> str:
        """SHA-256 of the parameters, equal for two parties if and only if they agree on all."""
        canonical = json.dumps(self.parameters, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def sharing_parameters(self) -> dict[str, object]:
        """What the parties must agree on to share and to add up."""
        vector = {} if self.scalar else {"dimension": self.dimension, "layout": self.layout.name}
        return {
            "protocol": f"ikos-secure-{'' if self.scalar else 'vector-'}sum-1",
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
        """What is sent to whom, of each coordinate."""
        return SharingScheme(self.group, self.layout.count.total, self.trust)

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Which coordinates are shuffled together."""
        return tuple(blocks(self.dimension, -(-self.dimension // self.layout.sums)))

    @property
    def shuffler(self) -> str:
        """A shuffler for each shuffled message, "parallel", or a "single" one."""
        return self.trust.shuffler

    @property
    def clear_share(self) -> bool:
        """Whether the last share of each user bypasses the shufflers."""
        return self.trust.clear_share

    @property
    def min_honest(self) -> int:
        """How many users must be honest and present."""
        return self.trust.min_honest

    @property
    def corrupt_shufflers(self) -> int:
        """How many of the parallel shufflers, of each sum, may collude with the analyzer."""
        return self.trust.corrupt_shufflers

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a proof takes for granted: the group, and who is honest."""
        trust = self.trust
        if trust.single:
            shufflers = alone(trust.clear_share)
        else:
            which = "shufflers" if self.scalar else "shufflers of each sum"
            shufflers = collusion(trust.corrupt_shufflers, which)
        analysis = self.layout.count.analysis
        return (
            *unproved_conditions(analysis, self.q, self.blocks[0].stop),
            present(trust.min_honest, self.n),
            shufflers,
        )

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send."""
        messages = self.layout.sums * self.setting.messages
        return Cost(validate_users(users, self.n), messages, self.layout.bits_per_message)

    def check_users(self, users: int, name: str) -> None:
        """Refuse fewer users than the guarantee counts on, and more than there are."""
        check_participation(name, users, self.trust.min_honest, self.n)

    # The client

    def report(self, x: Any, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's shares of its value (BBGN20, Algorithm 6).

        Parameters
        ----------
        x : int or float, or (dimension,) array_like
            A value as of `run`.
        rng : RandomSource, optional
            Secure randomness by default.

        Returns
        -------
        (total,) or (total, dimension) ndarray
            Share j, of each coordinate, is for shuffler j; with a clear share, the last one is for
            the analyzer. Send all of them or none, and never two reports for one sum: a second
            sharing of a value links shares. The time that a private sum's report takes depends,
            slightly, on its noise: do not send at once when it is done.
        """
        source, values = secure(rng), self.checked([reject_masked("x", x)])
        return shares_of(self, 1, coordinates(self, values, source), source)[:, 0].copy()

    def share(self, x: Values, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return all users' shares.

        Parameters
        ----------
        x, rng
            As for `run`.

        Returns
        -------
        (total, k) or (total, k, dimension) ndarray
            Row j is what goes to shuffler j; with a clear share, it is the last row. uint32 or
            uint64 for q up to 2^64, an object array of Python integers beyond.

        Raises
        ------
        ValueError
            If vectors would have more than 2^28 shares: `run` takes one coordinate at a time.
        """
        source = secure(rng)
        return shares_of(self, *collect(self, x, source), source)

    # The shufflers

    def shuffle(
        self, shares: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Pass shares through the shufflers.

        Parameters
        ----------
        shares : (total, k) or (total, k, dimension) ndarray
            As `share` returns them; left unchanged.
        rng : RandomSource, optional
            Secure randomness by default; used for ``order="permuted"`` alone.
        order : {"sorted", "permuted"}
            Each shuffler's output sorted, or in a uniformly random order of its own. Both carry
            exactly the multiset of the messages.

        Returns
        -------
        View
            What the analyzer receives: a column for each shuffler, of the first sum, then of the
            second, and so on. Messages of several coordinates are opaque items. The clear shares
            are whole vectors: they may be linked to their users.
        """
        choice("order", order, ORDERS)
        if not isinstance(shares, np.ndarray):
            raise TypeError(f"shares must be a numpy array, got {type(shares).__name__}")
        reject_masked("shares", shares)
        total, rest = self.setting.messages, () if self.scalar else (self.dimension,)
        if shares.ndim != 2 + len(rest) or (shares.shape[0], *shares.shape[2:]) != (total, *rest):
            wanted = ", ".join(map(str, (total, "users", *rest)))
            raise ValueError(
                f"shares must have shape ({wanted}), got {shares.shape}: "
                "all of a user's shares are needed, or none"
            )
        self.check_users(shares.shape[1], "shares")
        if not self.group.contains(shares):
            raise ValueError(
                f"shares must be of dtype {self.group.dtype} in [0, q) for q = {quote(self.q)}, "
                f"got dtype {shares.dtype} or values beyond (not shown)"
            )
        vectors, source = shares.reshape(*shares.shape[:2], self.dimension), secure(rng)
        columns: list[NDArray[Any]] = []
        for block in self.blocks:
            messages = pack(vectors[: self.setting.shuffled, :, block], self.group)
            how = {"shuffler": self.trust.shuffler, "order": order}
            columns += shuffle(messages, clear_share=False, rng=source, **how).columns
        if not self.setting.clear:
            return View(tuple(columns), None)
        clear = pack(vectors[-1], self.group).copy()
        clear.setflags(write=False)
        return View(tuple(columns), clear)

    # The analyzer

    def users(self, view: View) -> int:
        """Return how many users' complete reports a view holds, or refuse it."""
        return self._read(view)[1]

    def analyze(self, view: View) -> _T:
        """Return the result for a view (BBGN20, Algorithm 5).

        Raises
        ------
        ValueError
            If the view is not one of complete reports of at least ``min_honest`` users: with a
            share missing the sum would be uniform on Z_q, with one in excess simply wrong.
        """
        return self._result(*self._read(view))

    def _read(self, view: View) -> tuple[list[int], int]:
        """Return the sum of each coordinate modulo q, and how many users' reports a view holds."""
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
        self.check_users(int(users), "view")
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
        cluster: Engine | None = None,
        progress: Progress | None = None,
    ) -> _T:
        """Run the protocol on all users' values, here.

        The same as `share` (or `randomize`), `shuffle` and `analyze` with the same ``rng``, message
        for message, in the memory of the values, the last shares, and one column for each thread.
        Vectors go through it one coordinate at a time.

        Parameters
        ----------
        x : (k,) or (k, dimension) array_like, or iterator of such
            The values of k users, ``min_honest <= k <= n``, or an iterator over blocks of any
            lengths. For a secure sum, integers of any dtype, or Python's, in ``{0..upper}`` or in
            ``[0, q)``. For a private sum, reals in its domain.
        rng : RandomSource, optional
            Secure randomness by default.
        threads : int, optional
            How many columns are worked on at once; by default one on each core where there are
            enough messages. No result depends on it.
        cluster : ikos.cluster.Cluster, optional
            Workers of Dask to run a sum of numbers on instead.
        progress : callable, optional
            Called with the pieces of the shufflers' output that are done, and their number; for
            vectors, with coordinates.

        Returns
        -------
        int, ndarray or SumResult
            Of a secure sum, the sum modulo q; of a private sum, an estimate, with intervals, the
            guarantee, and what was sent.

        Raises
        ------
        TypeError, ValueError
            If a value is of the wrong kind or out of range (NaN is), or there are too few users or
            too many. Nothing is clipped.
        Interrupted
            At Ctrl-C, a `KeyboardInterrupt`; nothing was released.
        """
        source = secure(rng)
        found = add_up(self, x, source, threads=threads, cluster=cluster, progress=progress)
        return self._result(*found, source)
