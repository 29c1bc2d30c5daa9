"""Secure summation of vectors, by shares of each coordinate or of the whole vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import (
    check_participation,
    choice,
    flag,
    integer,
    number,
    quote,
    reject_masked,
    validate_users,
)
from ikos.aggregation import SecureSum
from ikos.aggregation.secure_sum import (
    FURTHER_SUMS,
    PSEUDORANDOM,
    SecureGuarantee,
    alone,
    collusion,
    digest,
    summary,
    unproved_conditions,
)
from ikos.concurrency import Progress
from ikos.counts import SHUFFLERS, Layout, proved, vector_layouts
from ikos.counts.secure import MAX_MESSAGES, MAX_SIGMA, checked_analysis
from ikos.counts.vectors import ONE_GROUP, SEPARATE, level_of_sums
from ikos.domains import MAX_DIMENSION
from ikos.modular import Zq, blocks
from ikos.randomness import RandomSource, secure
from ikos.results import Cost, hundredths, present
from ikos.sharing import split
from ikos.shuffling import ORDERS, View, shuffle
from ikos.trust import Trust

LAYOUTS = (SEPARATE, ONE_GROUP)
"""A sum for each coordinate, with shufflers of its own, or one sum of whole vectors."""

MAX_ENTRIES = 1 << 28
"""Most entries of an array of shares."""

COLUMNS = 32
"""Coordinates that are taken out of everybody's vectors at a time."""

Elements = Callable[[slice], NDArray[Any]]
"""Returns everybody's elements of a run of coordinates, (coordinates, users)."""


def pack(elements: NDArray[Any], group: Zq) -> NDArray[np.void]:
    """Return vectors of group elements, (..., d), as messages of fixed length, (...).

    One opaque item for each vector, so that to permute or sort messages moves whole vectors.
    """
    if group.dtype == object:
        width = (group.bits + 7) // 8
        joined = b"".join(int(value).to_bytes(width, "little") for value in elements.flat)
        octets = np.frombuffer(joined, dtype=np.uint8)
        octets = octets.reshape(*elements.shape[:-1], elements.shape[-1] * width).copy()
    else:
        octets = np.ascontiguousarray(elements, dtype=group.dtype.newbyteorder("<")).view(np.uint8)
    return octets.view(np.dtype((np.void, octets.shape[-1])))[..., 0]


def unpack(messages: NDArray[np.void], group: Zq, dimension: int) -> NDArray[Any]:
    """Return the vectors, (k, d), of k messages."""
    octets = np.ascontiguousarray(messages)[:, np.newaxis].view(np.uint8)
    if group.dtype != object:
        return octets.view(group.dtype.newbyteorder("<")).astype(group.dtype, copy=False)
    width = (group.bits + 7) // 8
    flat = octets.tobytes()
    result = np.empty(messages.size * dimension, dtype=object)
    result[:] = [
        int.from_bytes(flat[start : start + width], "little")
        for start in range(0, len(flat), width)
    ]
    return result.reshape(messages.size, dimension)


@dataclass(frozen=True, init=False, repr=False)
class SecureVectorSum:
    """Secure summation of vectors: the analyzer learns the sum modulo q and, almost, nothing else.

    As `ikos.SecureSum`, for vectors of ``dimension`` elements of Z_q, in one of two layouts. Each
    coordinate is shared by itself in both; what differs is what is shuffled together, how many
    shares are enough, and so what is sent.

    Parameters
    ----------
    n : int
        Users, at least 1.
    dimension : int
        Coordinates.
    q : int
        Order of each coordinate's group, at least 2.
    sigma : float
        Security in bits, of the whole vector, that the number of messages is chosen for.
    layout : {"separate sums", "one group"}
        Shuffle the shares of each coordinate apart from those of the others, or whole vectors of
        shares. The first takes more messages and far fewer bits.
    messages : int, optional
        Messages of each sum in all, the clear share included. Used even where nothing is proved
        for it. By default the smallest number proved for ``sigma``, ``min_honest`` and
        ``corrupt_shufflers``.
    analysis, shuffler, clear_share, min_honest, corrupt_shufflers
        As for `ikos.SecureSum`, of each sum. With separate sums and ``shuffler="single"``, each
        sum has a single shuffler of its own.

    Attributes
    ----------
    layout : Layout
        What each user sends, and ``sigma``, proved for the whole vector.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or nothing is proved for the setting
        and no ``messages`` are given.

    Notes
    -----
    As for `ikos.SecureSum`: shares are pseudorandom, and users are trusted with the correctness of
    the result.

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = SecureVectorSum(1000, 3, 2**32)
    >>> print(protocol.layout)
    separate sums: 66 messages of 32 bits per user (2,112 bits)
    >>> protocol.run(np.full((1000, 3), [1, 2, 3]), DeterministicRandom(0))  # omit it in earnest
    array([1000, 2000, 3000], dtype=uint32)
    """

    n: int
    dimension: int
    q: int
    layout: Layout
    shuffler: str
    min_honest: int
    corrupt_shufflers: int

    def __init__(
        self,
        n: int,
        dimension: int,
        q: int,
        *,
        sigma: float | Fraction = 80,
        layout: str = SEPARATE,
        messages: int | None = None,
        analysis: str = "best",
        shuffler: str = "parallel",
        clear_share: bool = True,
        min_honest: int | None = None,
        corrupt_shufflers: int = 0,
    ) -> None:
        n, q = integer("n", n, low=1), integer("q", q, low=2)
        d = integer("dimension", dimension, low=1, high=MAX_DIMENSION)
        choice("layout", layout, LAYOUTS)
        analysis = checked_analysis(analysis)
        choice("shuffler", shuffler, SHUFFLERS)
        trust = Trust.of(
            n,
            shuffler=shuffler,
            clear_share=clear_share,
            min_honest=min_honest,
            corrupt_shufflers=corrupt_shufflers,
        )
        honest, corrupt = trust.min_honest, trust.corrupt_shufflers
        clear = flag("clear_share", clear_share)
        wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
        if messages is None:
            ways = vector_layouts(
                n,
                q,
                wanted,
                d,
                analysis=analysis,
                shuffler=shuffler,
                clear_share=clear,
                min_honest=honest,
                corrupt_shufflers=corrupt,
            )
            chosen = ways[0] if layout == ONE_GROUP or d == 1 else ways[1]
        else:
            total = integer("messages", messages, low=1, high=MAX_MESSAGES)
            sums = 1 if layout == ONE_GROUP else d
            count = proved(
                (honest, n),
                q ** (d // sums),
                max(0, total - int(clear) - corrupt),
                analysis=analysis,
                shuffler=shuffler,
                clear_share=clear,
            )
            chosen = Layout(
                layout,
                count.with_corruption(corrupt, total),
                sums,
                Zq(q).bits * (d // sums),
                level_of_sums(count.sigma, sums, analysis=count.analysis),
            )
        self._set(n, d, q, chosen, shuffler, honest, corrupt)

    def _set(self, *values: object) -> None:
        for name, value in zip(self.__dataclass_fields__, values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def group(self) -> Zq:
        """The group Z_q of each coordinate."""
        return Zq(self.q)

    @property
    def sigma(self) -> float:
        """Proved security of the whole vector in bits, rounded down; 0.0 where nothing is."""
        return self.layout.sigma

    @property
    def clear_share(self) -> bool:
        """Whether the last share of each coordinate bypasses the shufflers."""
        return bool(self.layout.count.clear)

    @property
    def trust(self) -> tuple[str, ...]:
        """Who must be honest."""
        shufflers = collusion(0)
        if self.shuffler == "single":
            shufflers = alone(self.clear_share)
        if self.corrupt_shufflers:
            shufflers = (
                f"while at most {self.corrupt_shufflers} of the shufflers of each sum collude "
                "with the analyzer"
            )
        return present(self.min_honest, self.n), shufflers

    @property
    def guarantee(self) -> SecureGuarantee:
        """What is hidden of the users' vectors, by which theorem, under which conditions."""
        count = self.layout.count
        conditions = (
            *unproved_conditions(count.analysis, self.q, self.dimension // self.layout.sums),
            *self.trust,
            FURTHER_SUMS,
            PSEUDORANDOM,
        )
        return SecureGuarantee(self.sigma, count.theorem, conditions if self.sigma else ())

    @property
    def _separate(self) -> bool:
        return self.layout.name != ONE_GROUP

    @property
    def _total(self) -> int:
        return self.layout.count.total

    @property
    def parameter_hash(self) -> str:
        """SHA-256 of the parameters, equal for two parties if and only if they agree on all."""
        return digest(self.parameters)

    @property
    def parameters(self) -> dict[str, object]:
        """What the parties must agree on."""
        return {
            "protocol": "ikos-secure-vector-sum-1",
            "n": self.n,
            "dimension": self.dimension,
            "q": hex(self.q),
            "layout": self.layout.name,
            "shuffled": self.layout.count.shuffled,
            "clear": self.layout.count.clear,
            "shuffler": self.shuffler,
            "min_honest": self.min_honest,
            "corrupt_shufflers": self.corrupt_shufflers,
        }

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send."""
        each = self.layout
        return Cost(validate_users(users, self.n), each.messages_per_user, each.bits_per_message)

    # The client

    def report(self, x: ArrayLike | Sequence[int], rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's shares of its vector.

        Parameters
        ----------
        x : (dimension,) array_like of int
            In ``[0, q)``.
        rng : RandomSource, optional
            Secure randomness by default.

        Returns
        -------
        (total, dimension) ndarray
            Row j holds share j of each coordinate: one message of a whole vector, or a message for
            each coordinate's shuffler j. Send all of them or none, and never two reports.
        """
        vector = self.group.elements(x)
        if vector.shape != (self.dimension,):
            raise ValueError(
                f"x must be one vector of {self.dimension} elements, got shape {vector.shape}"
            )
        columns = vector[:, np.newaxis]
        return self.share_elements(lambda part: columns[part], 1, secure(rng))[:, 0].copy()

    def share(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return everybody's shares.

        Parameters
        ----------
        x : (n, dimension) array_like of int
            Vectors with entries in ``[0, q)``; with ``min_honest``, between ``min_honest`` and
            ``n`` of them.
        rng : RandomSource, optional
            Secure randomness by default.

        Returns
        -------
        (total, n, dimension) ndarray
            With a clear share, it is the last one of the first axis. uint32 or uint64 for q up to
            2^64, an object array of Python integers beyond.

        Raises
        ------
        TypeError, ValueError
            If an entry is not an integer in ``[0, q)``, or there are too few or too many vectors,
            or the shares would have more than 2^28 entries: `run` takes one coordinate at a time.
        """
        values = self._checked(x)
        elements = self.group.elements(values)
        return self.share_elements(
            lambda part: np.ascontiguousarray(elements[:, part].T), values.shape[0], secure(rng)
        )

    def share_elements(self, elements: Elements, users: int, rng: RandomSource) -> NDArray[Any]:
        """Return everybody's shares of reduced elements; what `share` does after its checks.

        Coordinate after coordinate, so that `run_elements` draws the same ones.
        """
        entries = self._total * users * self.dimension
        if entries > MAX_ENTRIES:
            raise ValueError(
                f"x has so many users that their shares have {entries:,} entries, more than "
                f"{MAX_ENTRIES:,}; use run, or fewer users"
            )
        shares = np.empty((self._total, users, self.dimension), dtype=self.group.dtype)
        for part in blocks(self.dimension, COLUMNS):
            for c, column in enumerate(elements(part), part.start):
                shares[:, :, c] = split(column, self.group, self._total, rng)
        return shares

    def _checked(self, x: ArrayLike) -> NDArray[Any]:
        """Return everybody's vectors as an array of the right shape; entries are not looked at."""
        reject_masked("x", x)
        given = np.asarray(x, dtype=object) if isinstance(x, (list, tuple)) else np.asarray(x)
        if given.ndim != 2 or given.shape[1] != self.dimension:
            raise ValueError(
                f"x must have shape (users, {self.dimension}), a row for each user, got shape "
                f"{given.shape}"
            )
        self._enough("x", given.shape[0])
        return given

    def _enough(self, name: str, users: int) -> None:
        check_participation(name, users, self.min_honest, self.n)

    # The shufflers

    def shuffle(
        self, shares: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Pass shares through the shufflers.

        Parameters
        ----------
        shares : (total, n, dimension) ndarray
            As `share` returns them; left unchanged.
        rng : RandomSource, optional
            Secure randomness by default; used for ``order="permuted"`` alone.
        order : {"sorted", "permuted"}
            As for `ikos.SecureSum.shuffle`.

        Returns
        -------
        View
            Separate sums: the columns of the first coordinate, then those of the second, and so on.
            One group: a column for each shuffler, of whole vectors (an opaque item each). The clear
            shares are vectors either way: they may be linked to their users.
        """
        choice("order", order, ORDERS)
        if not isinstance(shares, np.ndarray):
            raise TypeError(f"shares must be a numpy array, got {type(shares).__name__}")
        reject_masked("shares", shares)
        shape = (self._total, self.dimension)
        if shares.ndim != 3 or (shares.shape[0], shares.shape[2]) != shape:
            raise ValueError(
                f"shares must have shape ({shape[0]}, users, {shape[1]}), got {shares.shape}: all "
                "of a user's shares are needed, or none"
            )
        self._enough("shares", shares.shape[1])
        if not self.group.contains(shares):
            raise ValueError(
                f"shares must be of dtype {self.group.dtype} in [0, q) for q = {quote(self.q)}, "
                f"got dtype {shares.dtype} or values beyond (not shown)"
            )
        how: dict[str, Any] = {"shuffler": self.shuffler, "order": order, "rng": secure(rng)}
        if not self._separate:
            return shuffle(pack(shares, self.group), clear_share=self.clear_share, **how)
        shuffled = shares[:-1] if self.clear_share else shares
        columns: list[NDArray[Any]] = []
        for c in range(self.dimension):
            each = np.ascontiguousarray(shuffled[:, :, c])
            columns += shuffle(each, clear_share=False, **how).columns
        clear = pack(shares[-1], self.group) if self.clear_share else None
        if clear is not None:
            clear = clear.copy()
            clear.setflags(write=False)
        return View(tuple(columns), clear)

    # The analyzer

    def users(self, view: View) -> int:
        """Return how many users' complete reports a view holds, or refuse it.

        Raises
        ------
        ValueError
            If messages are missing or in excess, or outside ``[0, q)``, or there are fewer
            users than ``min_honest``.
        """
        return self._read(view)[0]

    def analyze(self, view: View) -> NDArray[Any]:
        """Return the sum modulo q of the users' vectors, (dimension,).

        Raises
        ------
        ValueError
            If the view is not one of complete reports of enough users.
        """
        return self._read(view)[1]

    def _read(self, view: View) -> tuple[int, NDArray[Any]]:
        """Return how many users' reports a view holds, and the sum."""
        if not isinstance(view, View):
            raise TypeError(f"view must be a View, got {type(view).__name__}")
        single, shuffled = self.shuffler == "single", self.layout.count.shuffled
        sums = self.dimension if self._separate else 1
        of_each = 1 if single else shuffled
        if len(view.columns) != sums * of_each or (view.clear is not None) != self.clear_share:
            raise ValueError(
                f"view must hold the output of {sums * of_each} shufflers "
                f"{'and' if self.clear_share else 'without'} clear shares, got {view!r}"
            )
        per_column = shuffled if single else 1
        sizes = {column.size / per_column for column in view.columns if per_column}
        if view.clear is not None:
            sizes.add(view.clear.size)
        if len(sizes) != 1 or not float(users := sizes.pop()).is_integer():
            raise ValueError(f"view must hold equally many messages of each kind, got {view!r}")
        self._enough("view", int(users))
        totals = [0] * self.dimension
        for place, column in enumerate(view.columns):
            if self._separate:
                self._contained(column)
                totals[place // of_each] += self.group.sum(column)
            else:
                self._add(totals, column)
        if view.clear is not None:
            self._add(totals, view.clear)
        return int(users), self._sums(totals)

    def _add(self, totals: list[int], messages: NDArray[Any]) -> None:
        """Add messages of whole vectors to the totals."""
        width = (self.group.bits + 7) // 8
        if self.group.dtype != object:
            width = self.group.dtype.itemsize
        if messages.dtype != np.dtype((np.void, self.dimension * width)):
            raise ValueError(
                f"view must hold vectors of {self.dimension} elements as messages, got an array of "
                f"{messages.dtype}"
            )
        vectors = unpack(messages, self.group, self.dimension)
        self._contained(vectors)
        for c in range(self.dimension):
            totals[c] += self.group.sum(np.ascontiguousarray(vectors[:, c]))

    def _contained(self, elements: NDArray[Any]) -> None:
        if not self.group.contains(elements):
            raise ValueError(
                f"view must hold {self.group.dtype} messages in [0, q) for q = {quote(self.q)}; "
                "there are others (not shown)"
            )

    def _sums(self, totals: list[int]) -> NDArray[Any]:
        result = np.empty(self.dimension, dtype=self.group.dtype)
        result[:] = [total % self.q for total in totals]
        return result

    # All of them

    def run(
        self, x: ArrayLike, rng: RandomSource | None = None, *, progress: Progress | None = None
    ) -> NDArray[Any]:
        """Run the protocol on everybody's vectors, here, and return the sum modulo q.

        The same as `share`, `shuffle` and `analyze` with the same ``rng``. One coordinate is worked
        on at a time, so that beside ``x`` little memory is needed.

        Parameters
        ----------
        x : (n, dimension) array_like of int
            As for `share`.
        rng : RandomSource, optional
            Secure randomness by default.
        progress : callable, optional
            Called with the coordinates done and their number.
        """
        given, source = self._checked(x), secure(rng)
        for part in blocks(self.dimension, COLUMNS):  # refuse before anything is drawn
            for c, column in enumerate(np.ascontiguousarray(given[:, part].T), part.start):
                self.group.elements(column, f"x[:, {c}]")

        def elements(part: slice) -> NDArray[Any]:
            return self.group.elements(np.ascontiguousarray(given[:, part].T))

        return self.run_elements(elements, source, progress)

    def run_elements(
        self,
        elements: Elements,
        rng: RandomSource,
        progress: Progress | None = None,
    ) -> NDArray[Any]:
        """Run the protocol on reduced elements; what `run` does after its checks.

        Parameters
        ----------
        elements : callable
            As `Elements`; called with one run of coordinates after the other.
        rng, progress
            As for `run`.

        Notes
        -----
        The sum does not depend on what shufflers mix with what, so that both layouts can add up
        the coordinates one after the other.
        """
        each = SecureSum(
            self.n,
            self.q,
            messages=self._total,
            shuffler=self.shuffler,
            clear_share=self.clear_share,
            min_honest=self.min_honest,
            corrupt_shufflers=self.corrupt_shufflers,
        )
        totals: list[int] = []
        for part in blocks(self.dimension, COLUMNS):
            for column in elements(part):
                totals.append(each.run_elements(column, rng))
                if progress is not None:
                    progress(len(totals), self.dimension)
        return self._sums(totals)

    def __repr__(self) -> str:
        extras = ""
        if self.min_honest < self.n:
            extras += f", min_honest={self.min_honest}"
        if self.corrupt_shufflers:
            extras += f", corrupt_shufflers={self.corrupt_shufflers}"
        proof = f"sigma = {hundredths(self.sigma)} bits" if self.sigma else "nothing is proved"
        return (
            f"<SecureVectorSum n={self.n}, dimension={self.dimension}, q={quote(self.q)}, "
            f"{self.shuffler}{extras}: {self.layout}; {proof}>"
        )

    def __str__(self) -> str:
        title = (
            f"secure sum of {self.n:,} vector{'s' * (self.n > 1)} of {self.dimension:,} "
            f"coordinate{'s' * (self.dimension > 1)} modulo {quote(self.q)}, {self.layout.name}, "
            f"{self.shuffler} shuffler{'s' * (self.shuffler == 'parallel')}"
        )
        return summary(title, self.guarantee, self.cost())
