"""IKOS secure summation over Z_q (IKOS06; BBGN20, Sections 5.1 and 6)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import choice, flag, integer, quote, reject_masked, validate_users, vector
from ikos.aggregation.engine import SharingScheme, mixed_sum
from ikos.aggregation.execution import Engine, Values, add_up, collect
from ikos.concurrency import Progress
from ikos.counts import SHUFFLERS, MessageCount, message_count, proved, remaining
from ikos.counts.published import covered, unproved
from ikos.counts.secure import MAX_MESSAGES, checked_analysis
from ikos.modular import Zq
from ikos.randomness import RandomSource, secure
from ikos.results import NOT, Cost, Printed, hundredths, present, unmet
from ikos.sharing import split
from ikos.shuffling import ORDERS, View, shuffle
from ikos.trust import Trust

FURTHER_SUMS = "for one report per user; every further sum over the same users is learned as well"

PSEUDORANDOM = "the number of users is public; shares are pseudorandom (AES-256)"


def collusion(corrupt: int) -> str:
    """Return the condition that no more of several shufflers collude.

    Examples
    --------
    >>> collusion(0)
    'while no shuffler colludes with the analyzer'
    """
    if corrupt:
        verb = "colludes" if corrupt == 1 else "collude"
        return f"while at most {corrupt} of the shufflers {verb} with the analyzer"
    return "while no shuffler colludes with the analyzer"


def unproved_conditions(analysis: str | None, q: int, dimension: int = 1) -> tuple[str, ...]:
    """Return the condition that nothing is proved for the group Z_q^dimension, if that is so.

    Examples
    --------
    >>> unproved_conditions("ghazi2020", 2**31)
    ('NOT for this group: not proved for a composite modulus',)
    >>> unproved_conditions("second_moment", 2**31)
    ()
    """
    missing = unproved(analysis, q, dimension)
    return (f"{NOT}group: {missing}",) if missing else ()


def digest(parameters: dict[str, object]) -> str:
    """Return the SHA-256 of parameters, for parties to compare: equal if and only if they are."""
    canonical = json.dumps(parameters, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def alone(clear_share: bool) -> str:
    """Return the condition on a single shuffler, who has all shares of each user but a clear one.

    Examples
    --------
    >>> alone(clear_share=True)
    'while the shuffler does not collude with the analyzer'
    """
    text = "while the shuffler does not collude with the analyzer"
    if clear_share:
        return text
    return f"{text}, nor itself add up a user's shares, all of which it has"


@dataclass(frozen=True)
class SecureGuarantee(Printed):
    """What a secure sum guarantees: all but the sum is hidden. It is no differential privacy.

    Attributes
    ----------
    sigma : float
        The analyzer's views of any two inputs with the same sum are within total variation
        ``2**-sigma``. Rounded down; 0.0 where nothing is proved, infinite for one user, who has
        nothing to hide but the sum.
    theorem : str
        The statement that proves it, with its source.
    conditions : tuple of str
        What must hold for it. One that begins with "NOT for this" does not hold.
    """

    sigma: float
    theorem: str
    conditions: tuple[str, ...]

    @property
    def vacuous(self) -> bool:
        """Whether nothing is said: too few messages."""
        return self.sigma <= 0

    @property
    def proved(self) -> bool:
        """Whether something is proved, for this group."""
        return not self.vacuous and not unmet(self.conditions)

    @property
    def distance(self) -> str:
        """The total variation as a power of two, rounded up.

        Examples
        --------
        >>> SecureGuarantee(80.129, "", ()).distance
        '2^-80.12'
        """
        if math.isinf(self.sigma):
            return "0"
        return f"2^-{hundredths(self.sigma)}"

    @property
    def statement(self) -> str:
        """What is guaranteed, in words."""
        if self.vacuous:
            return "nothing is proved: too few messages"
        return (
            f"views of any two inputs with the same sum are within total variation {self.distance}"
        )

    def __str__(self) -> str:
        if self.vacuous:
            return self.statement
        return "; ".join((f"{self.statement} ({self.theorem})", *unmet(self.conditions)))


def summary(title: str, guarantee: SecureGuarantee, cost: Cost) -> str:
    """Return what is printed of a secure sum."""
    lines = (
        *([] if guarantee.vacuous else [f"by {guarantee.theorem}"]),
        *guarantee.conditions,
        "no differential privacy: the sum is exact",
    )
    return "\n".join(
        (
            title,
            f"guarantee {guarantee.statement}",
            *(f"          {line}" for line in lines),
            f"sent      {cost}",
        )
    )


def _group_order(n: int, q: int | None, upper: int | None, analysis: str) -> tuple[int, int | None]:
    """Check and return the order of the group and the largest value."""
    if upper is None:
        if q is None:
            raise TypeError("upper must be given, the largest value, or q for a sum modulo q")
        return integer("q", q, low=2), None
    upper = integer("upper", upper, low=1)
    largest = n * upper
    if q is None and analysis == "ghazi2020":  # which is proved for primes alone
        return covered(analysis, largest + 1), upper
    if q is None:
        return 1 << largest.bit_length(), upper
    q = integer("q", q, low=2)
    if q <= largest:
        raise ValueError(
            f"q must be above n * upper = {quote(largest)}, or sums wrap around, got {quote(q)}"
        )
    return q, upper


@dataclass(frozen=True, init=False, repr=False)
class SecureSum:
    """Secure summation: the analyzer learns the sum and, up to 2^-sigma, nothing else.

    Each user splits its value into shares that are uniform subject to their sum; shufflers mix
    everybody's shares; the analyzer adds them up. An object holds parameters only and never
    changes, so that every party can hold one; `parameter_hash` tells whether two are the same.

    Parameters
    ----------
    n : int
        Users, at least 1.
    q : int, optional
        Order of the group, at least 2. By default the least power of two above ``n * upper``, for
        "ghazi2020" the least prime.
    upper : int, optional
        Values are in ``{0..upper}``, and their sum never wraps around: a ``q`` that is not above
        ``n * upper`` is refused. Without it values are in ``[0, q)`` and the result is their sum
        modulo q.
    sigma : float
        Security in bits that the number of messages is chosen for.
    messages : int, optional
        Messages of each user in all, the clear share included. Used even where nothing is proved
        for it; ``messages.sigma`` then is 0.0 and the printed form says so. By default the
        smallest number proved for ``sigma``, ``min_honest`` and ``corrupt_shufflers``.
    analysis : {"best", "second_moment", "balle2020", "ghazi2020", "ishai2006"}
        Which bound; "best" is the best that is proved here.
    shuffler : {"parallel", "single"}
        A shuffler for each shuffled message, or one for all of them.
    clear_share : bool
        Whether the last share bypasses the shufflers: the analyzer may know whose it is.
    min_honest : int, optional
        The security holds while at least this many users are honest and present; ``n`` by
        default. The count is the one proved for every number of honest users from here to ``n``.
        `analyze` refuses fewer reports.
    corrupt_shufflers : int
        How many of the parallel shufflers may collude with the analyzer; as many further
        messages are sent.

    Attributes
    ----------
    messages : MessageCount
        Messages of each user and the level proved for them, colluding shufflers deducted.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or nothing is proved for the setting
        and no ``messages`` are given.

    Notes
    -----
    The statement is for uniform shares; the library's come from AES-256 in counter mode, a
    computational assumption that no sigma includes. Users are trusted with the result's
    correctness: any one of them can shift the sum by any amount.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = SecureSum(1000, upper=1000)
    >>> protocol.q, protocol.messages.total
    (1048576, 20)
    >>> protocol.run(range(1000), DeterministicRandom(0))  # in production, omit the generator
    499500
    >>> print(protocol)
    secure sum of 1,000 users' values from 0 to 1000 (modulus 1048576), parallel shufflers
    guarantee views of any two inputs with the same sum are within total variation 2^-80.19
              by ...

    Sums modulo q on purpose:

    >>> print(SecureSum(3, 2**16))
    secure sum modulo 65536 of 3 users' values, parallel shufflers
    guarantee ...
    >>> SecureSum(3, 2**16).run([2**15, 2**15, 1])
    1
    """

    n: int
    q: int
    upper: int | None
    messages: MessageCount
    shuffler: str
    min_honest: int
    corrupt_shufflers: int

    def __init__(
        self,
        n: int,
        q: int | None = None,
        *,
        upper: int | None = None,
        sigma: float | Fraction = 80,
        messages: int | None = None,
        analysis: str = "best",
        shuffler: str = "parallel",
        clear_share: bool = True,
        min_honest: int | None = None,
        corrupt_shufflers: int = 0,
    ) -> None:
        n = integer("n", n, low=1)
        q, upper = _group_order(n, q, upper, checked_analysis(analysis))
        choice("shuffler", shuffler, SHUFFLERS)
        trust = Trust.of(
            n,
            shuffler=shuffler,
            clear_share=clear_share,
            min_honest=min_honest,
            corrupt_shufflers=corrupt_shufflers,
        )
        honest, corrupt = trust.min_honest, trust.corrupt_shufflers
        analysis = checked_analysis(analysis)
        clear = flag("clear_share", clear_share)
        if messages is None:
            count = message_count(
                n,
                q,
                sigma,
                analysis=analysis,
                shuffler=shuffler,
                clear_share=clear,
                min_honest=honest,
                corrupt_shufflers=corrupt,
            )
        else:
            total = integer("messages", messages, low=1, high=MAX_MESSAGES)
            count = proved(
                (honest, n),
                q,
                max(0, total - int(clear) - corrupt),
                analysis=analysis,
                shuffler=shuffler,
                clear_share=clear,
            ).with_corruption(corrupt, total)
        values = (n, q, upper, count, shuffler, honest, corrupt)
        for name, value in zip(self.__dataclass_fields__, values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def group(self) -> Zq:
        """The group Z_q."""
        return Zq(self.q)

    @property
    def setting(self) -> SharingScheme:
        """What is sent to whom."""
        return SharingScheme(
            self.group, self.messages.total, self.clear_share, self.shuffler == "single"
        )

    @property
    def clear_share(self) -> bool:
        """Whether the last share of each user bypasses the shufflers."""
        return bool(self.messages.clear)

    @property
    def parameter_hash(self) -> str:
        """SHA-256 of the parameters, equal for two parties if and only if they agree on all."""
        return digest(self.parameters)

    @property
    def parameters(self) -> dict[str, object]:
        """What the parties must agree on."""
        return {
            "protocol": "ikos-secure-sum-1",
            "n": self.n,
            "q": hex(self.q),
            "shuffled": self.messages.shuffled,
            "clear": self.messages.clear,
            "shuffler": self.shuffler,
            "min_honest": self.min_honest,
            "corrupt_shufflers": self.corrupt_shufflers,
            **({} if self.upper is None else {"upper": hex(self.upper)}),
        }

    @property
    def trust(self) -> tuple[str, ...]:
        """Who must be honest."""
        if self.shuffler == "single":
            shufflers = alone(self.clear_share)
        else:
            shufflers = collusion(self.corrupt_shufflers)
        return present(self.min_honest, self.n), shufflers

    @property
    def guarantee(self) -> SecureGuarantee:
        """What is hidden of the users' values, by which theorem, under which conditions."""
        count = self.messages
        conditions = (
            *unproved_conditions(count.analysis, self.q),
            *self.trust,
            FURTHER_SUMS,
            PSEUDORANDOM,
        )
        return SecureGuarantee(count.sigma, count.theorem, conditions if count.sigma else ())

    def remaining(
        self, *, honest: int | None = None, corrupt_shufflers: int | None = None
    ) -> MessageCount:
        """Return what is still proved if fewer users or shufflers are honest than planned.

        Parameters
        ----------
        honest : int, optional
            Honest users, at least; ``min_honest`` by default.
        corrupt_shufflers : int, optional
            Shufflers that collude with the analyzer; as planned by default.

        Returns
        -------
        MessageCount
            With the level that is left as ``sigma``, rounded down; 0.0 where nothing is proved. By
            the sum's own analysis, or by "best" where that one proves nothing.

        Examples
        --------
        >>> round(SecureSum(1000, upper=100).remaining(honest=500, corrupt_shufflers=1).sigma, 2)
        68.21
        """
        return remaining(
            self.n,
            self.q,
            self.messages.total,
            honest=self.min_honest if honest is None else honest,
            corrupt_shufflers=(
                self.corrupt_shufflers if corrupt_shufflers is None else corrupt_shufflers
            ),
            analysis=self.messages.analysis or "best",
            shuffler=self.shuffler,
            clear_share=self.clear_share,
        )

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send."""
        return Cost(validate_users(users, self.n), self.messages.total, self.group.bits)

    # The client

    def report(self, x: int, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's shares of its value.

        Parameters
        ----------
        x : int
            In ``{0..upper}``, or in ``[0, q)`` for a sum modulo q.
        rng : RandomSource, optional
            Secure randomness by default.

        Returns
        -------
        (total,) ndarray
            Share j is for shuffler j; with a clear share, the last one is for the analyzer.
            Send all of them or none, and never two reports for one sum: a second sharing of a
            value links shares.
        """
        source = secure(rng)
        element = self.encoded(self.checked([x]), source.streams()(0))
        return split(element, self.group, self.messages.total, source)[:, 0].copy()

    def share(self, x: ArrayLike | Sequence[int], rng: RandomSource | None = None) -> NDArray[Any]:
        """Return everybody's shares.

        Parameters
        ----------
        x : (n,) array_like of int
            Values in ``{0..upper}``, or in ``[0, q)`` for a sum modulo q, of any integer dtype or
            Python integers; with ``min_honest``, between ``min_honest`` and ``n`` of them.
        rng : RandomSource, optional
            Secure randomness by default.

        Returns
        -------
        (total, n) ndarray
            Row j is what goes to shuffler j; with a clear share, it is the last row. uint32 or
            uint64 for q up to 2^64, an object array of Python integers beyond.

        Raises
        ------
        TypeError, ValueError
            If a value is not such an integer, or there are too few or too many.
        """
        source = secure(rng)
        return split(collect(self, x, source), self.group, self.messages.total, source)

    def checked(self, x: ArrayLike | Sequence[int], first: int = 0) -> NDArray[Any]:
        """Return values as group elements, each looked at; the first is user number ``first``."""
        values = list(x) if isinstance(x, range) else x
        return vector("x", x, self.group.elements(values, first=first, upper=self.upper))

    def encoded(self, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return what users with checked values share: these as they are."""
        del rng
        return values

    def check_users(self, users: int, name: str) -> None:
        """Refuse fewer users than the guarantee counts on, and more than there are."""
        if not self.min_honest <= users <= self.n:
            wanted = f"{self.n}"
            if self.min_honest < self.n:
                wanted = f"{self.min_honest} (min_honest) to {self.n}"
            raise ValueError(f"{name} must hold {wanted} users' values, got {users}")

    # The shufflers

    def shuffle(
        self, shares: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Pass shares through the shufflers.

        Parameters
        ----------
        shares : (total, n) ndarray
            As `share` returns them; left unchanged.
        rng : RandomSource, optional
            Secure randomness by default; used for ``order="permuted"`` alone.
        order : {"sorted", "permuted"}
            Each shuffler's output sorted, or in a uniformly random order of its own. Both carry
            exactly the multiset of the messages.

        Returns
        -------
        View
            What the analyzer receives.
        """
        choice("order", order, ORDERS)
        if not isinstance(shares, np.ndarray):
            raise TypeError(f"shares must be a numpy array, got {type(shares).__name__}")
        reject_masked("shares", shares)
        if shares.ndim != 2 or shares.shape[0] != self.messages.total:
            raise ValueError(
                f"shares must have shape ({self.messages.total}, users), got {shares.shape}: "
                "all of a user's shares are needed, or none"
            )
        self.check_users(shares.shape[1], "shares")
        if not self.group.contains(shares):
            raise ValueError(
                f"shares must be of dtype {self.group.dtype} in [0, q) for q = {quote(self.q)}, "
                f"got dtype {shares.dtype} or values beyond (not shown)"
            )
        return shuffle(
            shares,
            shuffler=self.shuffler,
            clear_share=self.clear_share,
            order=order,
            rng=secure(rng),
        )

    # The analyzer

    def users(self, view: View) -> int:
        """Return how many users' complete reports a view holds, or refuse it.

        Raises
        ------
        ValueError
            If messages are missing or in excess, or outside ``[0, q)``, or there are fewer
            users than ``min_honest``.
        """
        if not isinstance(view, View):
            raise TypeError(f"view must be a View, got {type(view).__name__}")
        single = self.shuffler == "single"
        expected = 1 if single else self.messages.shuffled
        if len(view.columns) != expected or (view.clear is not None) != self.clear_share:
            raise ValueError(
                f"view must hold the output of {expected} shufflers "
                f"{'and' if self.clear_share else 'without'} clear shares, got {view!r}"
            )
        per_column = self.messages.shuffled if single else 1
        sizes = {column.size / per_column for column in view.columns if per_column}
        if view.clear is not None:
            sizes.add(view.clear.size)
        if len(sizes) != 1 or not float(users := sizes.pop()).is_integer():
            raise ValueError(f"view must hold equally many messages of each kind, got {view!r}")
        self.check_users(int(users), "view")
        for column in (*view.columns, *(() if view.clear is None else (view.clear,))):
            if not self.group.contains(column):
                raise ValueError(
                    f"view must hold {self.group.dtype} messages in [0, q) for "
                    f"q = {quote(self.q)}; there are others (not shown)"
                )
        return int(users)

    def analyze(self, view: View) -> int:
        """Return the sum of the users' values, modulo q.

        Raises
        ------
        ValueError
            If the view is not one of complete reports of enough users: with a share missing the
            sum would be uniform on Z_q, with one in excess simply wrong.
        """
        self.users(view)
        clear = () if view.clear is None else (view.clear,)
        return sum(self.group.sum(column) for column in (*view.columns, *clear)) % self.q

    # All of them

    def run(
        self,
        x: Values,
        rng: RandomSource | None = None,
        *,
        threads: int | None = None,
        cluster: Engine | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Run the protocol on all users' values, here, and return the sum (modulo q).

        The same as `share`, `shuffle` and `analyze` with the same ``rng``, message for message, in
        the memory of the values, the last shares, and one column for each thread.

        Parameters
        ----------
        x : (n,) array_like of int, or iterator of such
            As for `share`, or a memory map, or an iterator over blocks of any lengths.
        rng : RandomSource, optional
            Secure randomness by default.
        threads : int, optional
            How many columns are worked on at once; by default one on each core where there are
            enough messages. No result depends on it.
        cluster : ikos.cluster.Cluster, optional
            Workers of Dask to run it on instead.
        progress : callable, optional
            Called with the pieces of the shufflers' output that are done, and their number.

        Raises
        ------
        TypeError, ValueError
            As `share`.
        Interrupted
            At Ctrl-C, a `KeyboardInterrupt`; no sum is known then.

        Examples
        --------
        >>> import numpy as np
        >>> SecureSum(300, upper=1000).run(np.arange(start, start + 100) for start in (0, 100, 200))
        44850
        """
        source = secure(rng)
        return add_up(self, x, source, threads=threads, cluster=cluster, progress=progress)[0]

    def run_elements(self, elements: NDArray[Any], rng: RandomSource) -> int:
        """Run the protocol on reduced elements, which are overwritten."""
        return mixed_sum(elements, self.setting, rng)

    def __repr__(self) -> str:
        extras = "" if self.upper is None else f", upper={quote(self.upper)}"
        if self.min_honest < self.n:
            extras += f", min_honest={self.min_honest}"
        if self.corrupt_shufflers:
            extras += f", corrupt_shufflers={self.corrupt_shufflers}"
        return (
            f"<SecureSum n={self.n}, q={quote(self.q)}, {self.shuffler}{extras}: {self.messages}>"
        )

    def __str__(self) -> str:
        users = f"{self.n:,} users' values" if self.n > 1 else "1 user's value"
        if self.upper is None:
            title = f"secure sum modulo {quote(self.q)} of {users}"
        else:
            title = f"secure sum of {users} from 0 to {quote(self.upper)} (modulus {quote(self.q)})"
        title += f", {self.shuffler} shuffler{'s' * (self.shuffler == 'parallel')}"
        return summary(title, self.guarantee, self.cost())
