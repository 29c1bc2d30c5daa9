"""Secure sums: the analyzer learns the sum, and nothing else (IKOS06; BBGN20, Section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue, integer, quote
from ikos.counts import Layout, MessageCount
from ikos.counts.vectors import ENVELOPE_BYTES
from ikos.data.domains import MAX_DIMENSION, Residues, ResidueVectors
from ikos.data.reading import Participation, Reader
from ikos.primitives.modular import Zq
from ikos.primitives.randomness import RandomSource
from ikos.results.conditions import ONE_SUM, pseudorandom
from ikos.results.guarantees import SecureGuarantee
from ikos.sums.base import Sum, chosen_recipe, participation
from ikos.transports import Recipe, Shuffled
from ikos.transports.base import Totals

_T = TypeVar("_T")


@dataclass(frozen=True, repr=False)
class _Secure(Sum[_T]):
    """The common part of secure sums of scalars and of vectors."""

    def _size(
        self,
        users: Participation,
        dimension: int | None,
        q: int | None,
        upper: int | None,
        sigma: object,
        recipe: Recipe,
        shape: Sequence[int] = (),
    ) -> None:
        """Set all fields: the transport that a recipe proves, of numbers without a dimension."""
        q, upper = _group_order(users.n, q, upper, recipe)
        transport = recipe.secure(users, dimension, q, upper, sigma)
        domain = Residues(Zq(q), upper)
        if dimension is not None:
            domain = ResidueVectors(Zq(q), upper, dimension, shape=shape)
        reader = Reader(users, domain, None, None, transport.ring, dimension is None)
        _Secure.__init__(self, reader, transport)

    @property
    def q(self) -> int:
        """Order of the group of each coordinate."""
        return self.transport.group.q

    @property
    def upper(self) -> int | None:
        """Largest value, or None if sums may wrap around."""
        assert isinstance(self.reader.domain, Residues)
        return self.reader.domain.upper

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""
        upper = {} if self.upper is None else {"upper": hex(self.upper)}
        return {**self.transport.parameters, **upper, **self.reader.domain.shape_parameter}

    @property
    def guarantee(self) -> SecureGuarantee:
        """The guarantee that users' values are hidden, with its theorem and conditions."""
        sigma, transport = self.transport.sigma, self.transport
        conditions = (*transport.conditions, ONE_SUM, pseudorandom()) if sigma else ()
        return SecureGuarantee(sigma, transport.theorem, conditions)

    def remaining(
        self, *, honest: int | None = None, corrupt_shufflers: int | None = None
    ) -> MessageCount:
        """Return the remaining guarantee if fewer users or shufflers are honest than planned.

        ``honest`` is the number of honest users, and ``corrupt_shufflers`` the number per sum that
        collude with the analyzer; as planned by default. The ``sigma`` returned is for the whole
        vector, by the sum's own analysis, or by "best" if that one proves nothing.
        """
        return self.transport.remaining(honest=honest, corrupt_shufflers=corrupt_shufflers)

    def __str__(self) -> str:
        guarantee = self.guarantee
        lines = (
            *([] if guarantee.vacuous else [f"by {guarantee.theorem}"]),
            *guarantee.conditions,
            "no differential privacy: the sum is exact",
        )
        proof = (f"guarantee {guarantee.statement}", *(f"          {line}" for line in lines))
        influence = self.transport.influence_lines(1)
        return "\n".join((self._title, *influence, *proof, f"sent      {self.cost()}"))


def _group_order(
    n: int, q: int | None, upper: int | None, recipe: Recipe
) -> tuple[int, int | None]:
    """Check and return the order of the group and the largest value."""
    if upper is None:
        if q is None:
            raise InvalidType("upper", "must be given (the largest value), or q for a sum modulo q")
        return integer("q", q, low=2), None
    upper = integer("upper", upper, low=1)
    largest = n * upper
    if q is None:
        return recipe.order(largest + 1), upper
    q = integer("q", q, low=2)
    if q <= largest:
        raise InvalidValue(
            "q", f"must be above n * upper = {quote(largest)}, or sums wrap around, got {quote(q)}"
        )
    return q, upper


@dataclass(frozen=True, init=False, repr=False)
class SecureSum(_Secure[int]):
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
        Messages per user, the clear share included; by default the fewest proved for ``sigma``.
        A number for which nothing is proved is used as well, and the printed form states so.
    analysis : {"best", "second_moment", "balle2020", "ghazi2020", "ishai2006"}
        Bound on the security level; "best" is the best one proved for these parameters.
    shuffler : {"parallel", "single"}
        One shuffler per shuffled message, or one for all of them.
    clear_share : bool
        Whether the last share bypasses the shufflers: the analyzer may know whose it is.
    min_honest : int, optional
        The security holds for any number of honest and present users from this to ``n``, the
        default. `analyze` refuses fewer reports.
    corrupt_shufflers : int
        How many parallel shufflers may collude with the analyzer; each costs a message.
    transport : str or Recipe, optional
        How messages are added up, by default by `ikos.transports.Shuffled` with the options above.

    Attributes
    ----------
    messages : MessageCount
        Messages per user and the level proved for them, colluding shufflers deducted.

    Notes
    -----
    A setting for which nothing is proved is refused, unless ``messages`` is given. The theorem is
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
        transport: str | Recipe | None = None,
    ) -> None:
        options = Shuffled(shuffler, clear_share, corrupt_shufflers, messages, analysis)
        users = participation(integer("n", n, low=1), min_honest)
        self._size(users, None, q, upper, sigma, chosen_recipe(transport, options))

    @property
    def _values(self) -> str:
        return "sum modulo q" if self.upper is None else f"upper={quote(self.upper)}"

    def _decoded(self, totals: Totals, rng: RandomSource | None = None) -> int:
        del rng
        return totals.sums[0]


@dataclass(frozen=True, init=False, repr=False)
class SecureVectorSum(_Secure[NDArray[Any]]):
    """Secure summation of vectors: the analyzer learns the sum and, up to 2^-sigma, nothing else.

    Like `ikos.SecureSum`, for vectors of ``dimension`` elements of Z_q, or arrays of a ``shape``.

    Parameters
    ----------
    n, dimension : int
        Users and coordinates.
    q, upper : int, optional
        As in `ikos.SecureSum`, for each coordinate.
    sigma : float
        Security of the whole vector in bits, for which the number of messages is chosen.
    layout : {"separate", "group", "blocks", "masked"} or int
        The number of coordinates that are shuffled together, in blocks with separate shufflers:
        one, all, the number with the fewest bytes, or this integer. Short blocks take few
        bits and many messages; see docs/vectors.md, "Layouts". With "masked", users send their
        vectors masked, and only the keys of the masks in blocks: a few bytes per coordinate, for
        vectors of thousands to millions, under a computational assumption; ``upper`` must be given.
    overhead : int
        For "blocks" and "masked", the transport overhead per message in bytes: 48 for an HPKE
        envelope.
    messages, analysis, shuffler, clear_share, min_honest, corrupt_shufflers
        As in `ikos.SecureSum`, per block: a single shuffler is one for each block.
    shape : tuple of int, optional
        Shape of a user's value and of the sum, with ``dimension`` entries: see `ikos.Box`.

    Attributes
    ----------
    layout : Layout
        The messages per user, and ``sigma``, proved for the whole vector.

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
        transport: str | Recipe | None = None,
        shape: Sequence[int] = (),
    ) -> None:
        options = Shuffled(
            shuffler, clear_share, corrupt_shufflers, messages, analysis,
            layout=layout, overhead=overhead,
        )  # fmt: skip
        users = participation(integer("n", n, low=1), min_honest)
        d = integer("dimension", dimension, low=1, high=MAX_DIMENSION)
        self._size(users, d, q, upper, sigma, chosen_recipe(transport, options), shape)

    @property
    def layout(self) -> Layout:
        """The messages per user, and the level proved for the whole vector."""
        return self.transport.layout

    @property
    def _values(self) -> str:
        shape = self.reader.domain.shape
        shaped = f"shape={shape}, " * (len(shape) > 1)
        return f"{shaped}dimension={self.reader.dimension}, {self.layout.name}"

    def _decoded(self, totals: Totals, rng: RandomSource | None = None) -> NDArray[Any]:
        del rng
        result = np.empty((1, self.reader.dimension), dtype=self.transport.group.dtype)
        result[0] = totals.sums
        total: NDArray[Any] = self.reader.domain.shaped(result)[0]
        return total
