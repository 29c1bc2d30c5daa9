"""IKOS secure summation over Z_q (IKOS06; BBGN20, Sections 5.1 and 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

import gmpy2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import integer, number, quote, refuse_missing, vector
from ikos.counts import Layout, MessageCount, remaining
from ikos.counts.analyses import checked_scheme
from ikos.counts.published import covered
from ikos.counts.secure import checked_analysis
from ikos.counts.types import MAX_SIGMA, Choices
from ikos.counts.vectors import ENVELOPE_BYTES, MASKED, checked_layout, level_of_sums, secure_layout
from ikos.data.domains import MAX_DIMENSION
from ikos.numeric.rounding import DOWN, UP, exact, rounding
from ikos.primitives.concurrency import Scratch
from ikos.primitives.randomness import RandomSource
from ikos.results.sums import Printed, hundredths, unmet
from ikos.sums.masked_vectors import VectorSum, masked_vectors
from ikos.sums.shuffled_sum import PSEUDORANDOM, ShuffledSum

FURTHER_SUMS = "for one report per user; every further sum over the same users is learned as well"

_T = TypeVar("_T")


@dataclass(frozen=True)
class SecureGuarantee(Printed):
    """The guarantee of a secure sum: it hides all but the sum. It is not differential privacy.

    The analyzer's views of any two inputs with the same sum are within total variation
    ``2**-sigma``. ``sigma`` is rounded down; 0.0 if nothing is proved, infinite for a single user.
    ``theorem`` and ``conditions`` are as in `ikos.Guarantee`. A ``computational`` guarantee bounds
    the advantage of tests, up to that against what its conditions assume.
    """

    sigma: float
    theorem: str
    conditions: tuple[str, ...]
    computational: bool = False

    @property
    def vacuous(self) -> bool:
        """Whether nothing is proved because there are too few messages."""
        return self.sigma <= 0

    @property
    def proved(self) -> bool:
        """Whether something is proved, for this group."""
        return not self.vacuous and not unmet(self.conditions)

    @property
    def statement(self) -> str:
        """What is guaranteed, in words."""
        if self.vacuous:
            return "nothing is proved: too few messages"
        distance = "0" if math.isinf(self.sigma) else f"2^-{hundredths(self.sigma)}"
        if self.computational:
            return (
                "any test that tells two inputs with the same sum apart with an advantage above "
                f"{distance} breaks what is assumed"
            )
        return f"views of any two inputs with the same sum are within total variation {distance}"

    def __str__(self) -> str:
        if self.vacuous:
            return self.statement
        return "; ".join((f"{self.statement} ({self.theorem})", *unmet(self.conditions)))


@dataclass(frozen=True, repr=False)
class SecureAggregation(ShuffledSum[_T]):
    """The common part of `SecureSum` and `SecureVectorSum`; ``upper`` is the largest value."""

    upper: int | None

    @property
    def sigma(self) -> float:
        """Proved security of the whole vector in bits, rounded down; 0.0 if nothing is proved."""
        return self.layout.sigma

    @property
    def parameters(self) -> dict[str, object]:
        """What the parties must agree on."""
        upper = {} if self.upper is None else {"upper": hex(self.upper)}
        return {**self.sharing_parameters, **upper}

    @property
    def guarantee(self) -> SecureGuarantee:
        """What is hidden of the users' values, by which theorem, under which conditions."""
        conditions = (*self.conditions, FURTHER_SUMS, PSEUDORANDOM) if self.sigma else ()
        return SecureGuarantee(self.sigma, self.theorem, conditions, self.masks is not None)

    def remaining(
        self, *, honest: int | None = None, corrupt_shufflers: int | None = None
    ) -> MessageCount:
        """Return what is still proved if fewer users or shufflers are honest than planned.

        ``honest`` is how many users are, and ``corrupt_shufflers`` how many of each sum collude
        with the analyzer; as planned by default. The ``sigma`` returned is for the whole vector, by
        the sum's own analysis, or by "best" if that one proves nothing.
        """
        if self.masks is not None:
            left: MessageCount = self.masks.keys.remaining(
                honest=honest, corrupt_shufflers=corrupt_shufflers
            )
            return replace(left, sigma=self.masks.level(left.sigma))
        trust, count = self.trust, self.layout.count
        left = remaining(
            self.n,
            self.q**self.layout.length,
            count.total,
            honest=trust.min_honest if honest is None else honest,
            corrupt_shufflers=(
                trust.corrupt_shufflers if corrupt_shufflers is None else corrupt_shufflers
            ),
            analysis=count.analysis or "best",
            **trust.graph,
        )
        level = level_of_sums(left.sigma, self.layout.sums, analysis=left.analysis)
        return replace(left, sigma=level)

    def rounded(
        self, values: NDArray[Any], rng: RandomSource, out: NDArray[Any], scratch: Scratch
    ) -> None:
        """Write checked values as group elements, which checked numbers are already."""
        del rng, scratch
        elements = values if self.scalar else self.group.elements(values)
        if elements is not out:
            out[...] = elements

    @property
    def _values(self) -> str:
        if not self.scalar:
            return f"dimension={self.dimension}, {self.layout.name}"
        return "sum modulo q" if self.upper is None else f"upper={quote(self.upper)}"

    def __str__(self) -> str:
        guarantee = self.guarantee
        lines = (
            *([] if guarantee.vacuous else [f"by {guarantee.theorem}"]),
            *guarantee.conditions,
            "no differential privacy: the sum is exact",
        )
        proof = (f"guarantee {guarantee.statement}", *(f"          {line}" for line in lines))
        return "\n".join((self._title, *proof, f"sent      {self.cost()}"))


def _group_order(n: int, q: int | None, upper: int | None, analysis: str) -> tuple[int, int | None]:
    """Check and return the order of the group and the largest value."""
    if upper is None:
        if q is None:
            raise TypeError("upper must be given, the largest value, or q for a sum modulo q")
        return integer("q", q, low=2), None
    upper = integer("upper", upper, low=1)
    largest = n * upper
    if q is None:
        prime = analysis == "ghazi2020"  # proved for primes only
        return covered(analysis, largest + 1) if prime else 1 << largest.bit_length(), upper
    q = integer("q", q, low=2)
    if q <= largest:
        raise ValueError(
            f"q must be above n * upper = {quote(largest)}, or sums wrap around, got {quote(q)}"
        )
    return q, upper


@dataclass(frozen=True, init=False, repr=False)
class SecureSum(SecureAggregation[int]):
    """Secure summation: the analyzer learns the sum and, up to 2^-sigma, nothing else.

    Each user splits its value into shares that are uniform subject to their sum; shufflers mix all
    users' shares; the analyzer adds them up. An object holds parameters only: every party holds
    one, and they compare `parameter_hash`.

    Parameters
    ----------
    n : int
        Users, at least 1.
    q : int, optional
        Order of the group, at least 2. By default the smallest power of two above ``n * upper``;
        for "ghazi2020", the smallest prime.
    upper : int, optional
        Values are in ``{0..upper}``, and ``q`` must be above ``n * upper``, so that their sum never
        wraps around. Without it, values are in ``[0, q)`` and the result is their sum modulo q.
    sigma : float
        Security in bits for which the number of messages is chosen.
    messages : int, optional
        Messages of each user, the clear share included; by default the fewest proved for ``sigma``.
        A number for which nothing is proved is used as well, and the printed form says so.
    analysis : {"best", "second_moment", "balle2020", "ghazi2020", "ishai2006"}
        Which bound; "best" is the best one proved for these parameters.
    shuffler : {"parallel", "single"}
        One shuffler per shuffled message, or one for all of them.
    clear_share : bool
        Whether the last share bypasses the shufflers: the analyzer may know whose it is.
    min_honest : int, optional
        The security holds for any number of honest and present users from this to ``n``, the
        default. `analyze` refuses fewer reports.
    corrupt_shufflers : int
        How many parallel shufflers may collude with the analyzer; each costs a message.

    Attributes
    ----------
    messages : MessageCount
        Messages of each user and the level proved for them, colluding shufflers deducted.

    Notes
    -----
    A setting for which nothing is proved is refused, unless ``messages`` are given. The theorem is
    about uniform shares; the library's are pseudorandom (AES-256 in counter mode), which no sigma
    accounts for. Any user can shift the sum by any amount.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = SecureSum(1000, upper=1000)
    >>> protocol.q, protocol.messages.total
    (1048576, 20)
    >>> protocol.run(range(1000), DeterministicRandom(0))  # in production, omit the generator
    499500
    >>> SecureSum(3, 2**16).run([2**15, 2**15, 1])  # modulo q
    1
    >>> SecureSum(300, upper=1000).run(range(start, start + 100) for start in (0, 100, 200))
    44850
    """

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
        how: Choices = {"analysis": analysis, "shuffler": shuffler, "clear_share": clear_share}
        scheme = checked_scheme(n, q, min_honest, corrupt_shufflers, **how)
        sent = secure_layout(scheme, sigma, 1, messages=messages)
        SecureAggregation.__init__(self, n, 1, q, sent, scheme.trust, upper, masks=None)

    @property
    def messages(self) -> MessageCount:
        """Messages of each user and the level proved for them."""
        return self.layout.count

    def checked(self, x: ArrayLike | Sequence[int], first: int = 0) -> NDArray[Any]:
        """Return checked values as group elements; the first is user number ``first``'s."""
        values = list(x) if isinstance(x, range) else x
        return vector("x", x, self.group.elements(values, first=first, upper=self.upper))

    def _result(self, totals: list[int], users: int, rng: RandomSource | None = None) -> int:
        del users, rng
        return totals[0]


@dataclass(frozen=True, init=False, repr=False)
class SecureVectorSum(VectorSum[NDArray[Any]], SecureAggregation[NDArray[Any]]):
    """Secure summation of vectors: the analyzer learns the sum modulo q and, almost, nothing else.

    Like `ikos.SecureSum`, for vectors of ``dimension`` elements of Z_q.

    Parameters
    ----------
    n, dimension : int
        Users and coordinates.
    q, upper : int, optional
        As in `ikos.SecureSum`, for each coordinate.
    sigma : float
        Security of the whole vector in bits, for which the number of messages is chosen.
    layout : {"separate", "group", "blocks", "masked"} or int
        How many coordinates are shuffled together, in blocks with shufflers of their own: one,
        all, as many as take the fewest bytes, or this many. Short blocks take few bits and many
        messages; see the documentation, Sums of vectors, "Layouts". With "masked", users send their
        vectors masked, and only the keys of the masks in blocks: a few bytes a coordinate, for
        vectors of thousands to millions, on an assumption; ``upper`` must be given.
    overhead : int
        For "blocks" and "masked", the bytes by which a message grows on its way: 48 in an HPKE
        envelope.
    messages, analysis, shuffler, clear_share, min_honest, corrupt_shufflers
        As in `ikos.SecureSum`, per block: a single shuffler is one for each block.

    Attributes
    ----------
    layout : Layout
        What each user sends, and ``sigma``, proved for the whole vector.

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = SecureVectorSum(1000, 3, 2**32)
    >>> print(protocol.layout)
    separate sums: 66 messages of 32 bits per user (2,112 bits)
    >>> protocol.run(np.full((1000, 3), [1, 2, 3]), DeterministicRandom(0))  # omit in production
    array([1000, 2000, 3000], dtype=uint32)
    """

    def __init__(
        self,
        n: int,
        dimension: int,
        q: int | None = None,
        *,
        upper: int | None = None,
        sigma: float | Fraction = 80,
        layout: str | int = "separate",
        overhead: int = ENVELOPE_BYTES,
        messages: int | None = None,
        analysis: str = "best",
        shuffler: str = "parallel",
        clear_share: bool = True,
        min_honest: int | None = None,
        corrupt_shufflers: int = 0,
    ) -> None:
        n = integer("n", n, low=1)
        q, upper = _group_order(n, q, upper, checked_analysis(analysis))
        d = integer("dimension", dimension, low=1, high=MAX_DIMENSION)
        how: Choices = {"analysis": analysis, "shuffler": shuffler, "clear_share": clear_share}
        scheme = checked_scheme(n, q, min_honest, corrupt_shufflers, **how)
        masks = None
        if layout == MASKED:
            checked_layout(layout, d, messages)
            if upper is None:
                raise TypeError("upper must be given with layout='masked': sums are not modulo q")
            wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
            with rounding(DOWN):
                allowed = gmpy2.exp2(-exact(wanted + 1, UP))
            added, half = integer("overhead", overhead, low=0), -(-n * upper // 2)
            masks = masked_vectors(
                n, d, upper, half, scheme.trust, SecureVectorSum,
                allowed=allowed, overhead=added, analysis=analysis,
            )  # fmt: skip
            sent: Layout = masks.layout((q - 1).bit_length())
        else:
            sent = secure_layout(scheme, sigma, d, layout, overhead, messages)
        SecureAggregation.__init__(self, n, d, q, sent, scheme.trust, upper, masks=masks)

    def checked(self, x: ArrayLike, first: int = 0) -> NDArray[Any]:
        """Return vectors with each entry checked; the first is user number ``first``'s."""
        refuse_missing("x", x)
        given = np.asarray(x, dtype=object) if isinstance(x, (list, tuple)) else np.asarray(x)
        if given.ndim != 2 or given.shape[1] != self.dimension:
            raise ValueError(
                f"x must have shape (users, {self.dimension}), a row for each user, got shape "
                f"{given.shape}"
            )
        most = self.q - 1 if self.upper is None else self.upper
        good = (
            given.dtype.kind in "biu" and 0 <= given.min(initial=0) <= given.max(initial=0) <= most
        )
        for c, column in enumerate(() if good else given.T):
            self.group.elements(column, f"x[:, {c}]", first, self.upper)
        return given

    def _result(
        self, totals: list[int], users: int, rng: RandomSource | None = None
    ) -> NDArray[Any]:
        del users, rng
        result = np.empty(self.dimension, dtype=self.group.dtype)
        result[:] = totals
        return result
