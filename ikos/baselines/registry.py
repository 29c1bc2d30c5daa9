"""All protocols for sums side by side: what each asks of its users, and how far off it can be.

`comparison` makes each protocol for the same users and the same guarantee, or says why there is
none; `measure` runs one of them, or any other, on data whose sum is known.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from numpy.typing import ArrayLike

from ikos._validation import integer, number, quote
from ikos.aggregation import PrivateSum
from ikos.aggregation.protocol import MAX_USERS, SumProtocol, budget
from ikos.baselines.binary_csuzz19 import BinaryRandomizedResponse
from ikos.baselines.blanket_bbgn19 import PrivacyBlanket
from ikos.baselines.central_laplace import CentralDiscreteLaplace, CentralLaplace
from ikos.baselines.compared import ComparisonRow, checked_progress, compare
from ikos.baselines.correlated_noise_gkmps21 import CorrelatedNoise
from ikos.baselines.designated_bbgn20 import DesignatedNoise
from ikos.baselines.local_laplace import LocalLaplace
from ikos.baselines.local_randomized_response import LocalRandomizedResponse
from ikos.baselines.recursive_bbgn20 import RecursiveSum
from ikos.baselines.sample_and_threshold import SampleAndThreshold
from ikos.baselines.sparse_noise_scrcs11 import SparseNoise
from ikos.baselines.unary_csuzz19 import UnaryEncoding
from ikos.bounds import Bounds
from ikos.concurrency import Progress
from ikos.randomness import RandomSource, secure
from ikos.results import Interval

MAX_RUN = 10**8
"""Most messages of one run that is measured."""

KURTOSIS = 6
"""Of Laplace noise; no error here has tails as heavy, but for what is likelier to be seen."""

_CURATOR = "all users trust the curator with their values, and to add the noise"
_COUNTING = "all users trust the shuffler to count the ones, and to suppress small counts"
_DESIGNATED = (
    "all users trust the first one to add the noise and to keep it to itself; "
    "nobody is protected from that user"
)


@dataclass(frozen=True)
class ProtocolSpec:
    """A protocol, not yet made for any users.

    Attributes
    ----------
    key : str
        What it is called in programs; it does not change.
    name, source : str
        What it is called by people, and the paper that it is from.
    model : {"central", "shuffle", "local"}
        Whom its users trust.
    note : str or None
        A special trust assumption.
    made_by : callable
        The protocol's class.
    options : mapping
        Further arguments of it.
    pure : bool
        Whether its delta is 0, so that it takes none.
    honest : {"counted", "all", "any"}
        Whether it takes ``min_honest``, needs all users, or protects each without the others.
    counted : bool
        Whether a run draws how often each message is sent, and not the messages one by one.
    """

    key: str
    name: str
    source: str
    model: str
    made_by: Callable[..., SumProtocol]
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    note: str | None = None
    pure: bool = False
    honest: str = "counted"
    counted: bool = False

    def make(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        min_honest: int | None = None,
        lower: float = 0.0,
        upper: float = 1.0,
    ) -> SumProtocol:
        """Return the protocol; ValueError if there is none."""
        given: dict[str, Any] = {"lower": lower, "upper": upper, **self.options}
        if min_honest is not None and min_honest < n:
            if self.honest == "all":
                raise ValueError("it needs all users to be honest and present")
            if self.honest == "counted":
                given["min_honest"] = min_honest
        spent = (epsilon,) if self.pure else (epsilon, delta)
        return self.made_by(n, *spent, **given)


@dataclass(frozen=True)
class Row(ComparisonRow[ProtocolSpec, SumProtocol]):
    """A protocol for given users and a given guarantee, or why there is none.

    Attributes
    ----------
    contender : ProtocolSpec
        Which.
    protocol : SumProtocol or None
        As it was made.
    reason : str or None
        Why it was not, in one line.
    """


def _recursive(messages: int, whose: str) -> ProtocolSpec:
    by = ", BBGN20's parameters" if whose == "paper" else ", optimized"
    return ProtocolSpec(
        f"recursive-{messages}" + ("-paper" if whose == "paper" else ""),
        f"recursive protocol with {messages} messages{by}",
        "BBGN20, Section 4",
        "shuffle",
        RecursiveSum,
        {"messages": messages, "parameters": whose},
    )


PROTOCOLS: tuple[ProtocolSpec, ...] = (
    ProtocolSpec(
        "central-laplace",
        "central Laplace noise",
        "Dwork, McSherry, Nissim, Smith 2006",
        "central",
        CentralLaplace,
        note=_CURATOR,
        pure=True,
        honest="any",
    ),
    ProtocolSpec(
        "central-discrete",
        "central discrete Laplace noise",
        "Ghosh, Roughgarden, Sundararajan 2009",
        "central",
        CentralDiscreteLaplace,
        note=_CURATOR,
        pure=True,
        honest="any",
    ),
    ProtocolSpec(
        "private-sum",
        "noise of all users, over secure summation",
        "BBGN20, Section 5, counts of this library",
        "shuffle",
        PrivateSum,
    ),
    ProtocolSpec(
        "private-sum-bbgn20",
        "noise of all users, over secure summation",
        "BBGN20, Section 5, and its counts",
        "shuffle",
        PrivateSum,
        {"analysis": "balle2020"},
    ),
    ProtocolSpec(
        "designated-noise",
        "noise of one designated user, over secure summation",
        "BBGN20, Section 5.2",
        "shuffle",
        DesignatedNoise,
        note=_DESIGNATED,
        honest="all",
    ),
    ProtocolSpec(
        "sparse-noise",
        "noise of a few random users, over secure summation",
        "SCRCS11 and GPV19, exact divergence",
        "shuffle",
        SparseNoise,
    ),
    ProtocolSpec(
        "sparse-noise-scrcs11",
        "noise of a few random users, over secure summation",
        "SCRCS11 and GPV19",
        "shuffle",
        SparseNoise,
        {"accountant": "published"},
    ),
    ProtocolSpec(
        "correlated-noise",
        "noise of all users, hidden in messages that cancel",
        "GKMPS21, certified numerically",
        "shuffle",
        CorrelatedNoise,
        counted=True,
    ),
    ProtocolSpec(
        "privacy-blanket",
        "single-message privacy blanket",
        "BBGN19",
        "shuffle",
        PrivacyBlanket,
    ),
    _recursive(2, "paper"),
    _recursive(3, "paper"),
    _recursive(2, "optimized"),
    _recursive(3, "optimized"),
    _recursive(4, "optimized"),
    ProtocolSpec(
        "binary-response",
        "shuffled randomized response on one bit",
        "CSUZZ19",
        "shuffle",
        BinaryRandomizedResponse,
    ),
    ProtocolSpec(
        "unary-encoding",
        "shuffled randomized response on many bits",
        "CSUZZ19, exact divergence",
        "shuffle",
        UnaryEncoding,
        counted=True,
    ),
    ProtocolSpec(
        "sample-threshold",
        "sampled ones, and no small counts",
        "after CSUZZ19",
        "shuffle",
        SampleAndThreshold,
        note=_COUNTING,
        honest="all",
    ),
    ProtocolSpec(
        "local-response",
        "local randomized response on one bit",
        "Warner 1965, after randomized rounding",
        "local",
        LocalRandomizedResponse,
        pure=True,
        honest="any",
    ),
    ProtocolSpec(
        "local-laplace",
        "local Laplace noise",
        "Dwork, McSherry, Nissim, Smith 2006",
        "local",
        LocalLaplace,
        pure=True,
        honest="any",
    ),
)
"""All protocols that are compared."""


def comparison(
    n: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
    min_honest: int | None = None,
    protocols: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> tuple[Row, ...]:
    """Make every protocol for the same users and the same guarantee.

    Parameters
    ----------
    n : int
        Users, at most 10^9; public.
    epsilon, delta : float
        The guarantee, under replacement of one user's value. The purely private protocols have a
        delta of 0.
    lower, upper : float
        Public bounds of the values.
    min_honest : int, optional
        How many users are honest and present at least; ``n`` by default.
    protocols : sequence of str, optional
        Only those of these keys; all of ``PROTOCOLS`` by default.
    progress : callable, optional
        Called with how many are made and of how many: the search for the parameters of several
        messages takes seconds.

    Returns
    -------
    tuple of Row
        The central model first, then the shuffle model, then the local one; in each the smallest
        bound on the mean squared error first, and last those that there are not.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range. That one protocol is not possible is
        no error: its row says why.

    Examples
    --------
    >>> for row in comparison(
    ...     10**4, 1, 1e-8, protocols=["private-sum", "privacy-blanket", "local-laplace"]
    ... ):
    ...     print(row.key, row.messages, round(row.mse))
    private-sum 6 2
    privacy-blanket 1 221
    local-laplace 1 20000
    """
    users = integer("n", n, low=1, high=MAX_USERS)
    eps, small = budget(epsilon, delta)
    bounds = Bounds(lower, upper)
    honest = None if min_honest is None else integer("min_honest", min_honest, low=1, high=users)

    def make(contender: ProtocolSpec) -> SumProtocol:
        return contender.make(
            users, eps, small, min_honest=honest, lower=bounds.lower, upper=bounds.upper
        )

    return compare(PROTOCOLS, protocols, make, Row, honest=honest, users=users, progress=progress)


@dataclass(frozen=True)
class Measurement:
    """Errors of runs on data whose sum is known. Not private: they say what the sum is.

    Attributes
    ----------
    errors : tuple of float
        Estimate minus true sum, of each run, in the data's units.
    seconds : float
        Time of one run, on average.
    """

    errors: tuple[float, ...]
    seconds: float

    @property
    def runs(self) -> int:
        """How many."""
        return len(self.errors)

    @property
    def rmse(self) -> float:
        """Root of the mean of the squared errors."""
        return math.sqrt(math.fsum(error * error for error in self.errors) / self.runs)

    def interval(self, confidence: float | Fraction = Fraction(19, 20)) -> Interval:
        """Return an approximate interval for the root mean squared error of all possible runs.

        Parameters
        ----------
        confidence : float
            Strictly between 0 and 1.

        Returns
        -------
        Interval

        Notes
        -----
        Of runs whose errors are normal, the sum of squares has a chi-square law with a degree of
        freedom for each run. Here there are ``2 / (kurtosis - 1)`` for each, which gives the mean
        square the right variance, at the kurtosis of Laplace noise, 6: where errors are nearer to
        normal, as in most protocols, the interval is wider than it must be.
        """
        from scipy.special import chdtri

        miss = float(1 - number("confidence", confidence, above=0, below=1))
        freedom = 2 * self.runs / (KURTOSIS - 1)
        scale = self.rmse * math.sqrt(freedom)
        low, high = chdtri(freedom, miss / 2), chdtri(freedom, 1 - miss / 2)
        return Interval(scale / math.sqrt(low), scale / math.sqrt(high))


def measure(
    row: Row | SumProtocol,
    values: ArrayLike,
    runs: int,
    rng: RandomSource | None = None,
    *,
    progress: Progress | None = None,
) -> Measurement:
    """Run a protocol many times on data whose sum is known.

    Parameters
    ----------
    row : Row or SumProtocol
        Of a comparison, where there is that protocol; or any protocol itself, also one of your own.
    values : (n,) array_like of float
        Everybody's values, within the bounds.
    runs : int
        How often, at least 1.
    rng : RandomSource, optional
        Secure randomness by default.
    progress : callable, optional
        Called with how many runs are done and of how many.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, one run would take more than 10^8
        messages (a protocol of `PROTOCOLS` that draws how often each is sent may have more), or
        the values are refused.

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.testing import DeterministicRandom
    >>> (row,) = comparison(1000, 1, 1e-6, protocols=["central-discrete"])
    >>> measured = measure(row, np.full(1000, 0.25), 50, DeterministicRandom(0))
    >>> low, high = measured.interval()
    >>> low < row.rmse < high
    True

    A protocol by itself:

    >>> protocol = PrivateSum(1000, 1, 1e-6)
    >>> measure(protocol, np.full(1000, 0.25), 50, DeterministicRandom(0)).rmse < 3
    True
    """
    many = integer("runs", runs, low=1)
    checked_progress(progress)
    protocol, counted = _measured(row)
    sent = protocol.cost().messages
    if sent > MAX_RUN and not counted:
        raise ValueError(
            f"a run has {sent:,.0f} messages, more than the {MAX_RUN:,} that are simulated"
        )
    checked = protocol.domain.values(values)
    truth, source = math.fsum(checked), secure(rng)
    errors = []
    began = time.perf_counter()
    for done in range(1, many + 1):
        errors.append(protocol.run(checked, source).estimate - truth)
        if progress is not None:
            progress(done, many)
    return Measurement(tuple(errors), (time.perf_counter() - began) / many)


def _measured(row: object) -> tuple[SumProtocol, bool]:
    """Return a protocol, and whether a run draws how often each message is sent."""
    if isinstance(row, Row):
        if row.protocol is None:
            raise ValueError(f"row must be of a protocol that there is, got none: {row.reason}")
        return row.protocol, row.contender.counted
    if isinstance(row, type) or not isinstance(row, SumProtocol):  # a class has all members, too
        raise TypeError(
            f"row must be a Row or a SumProtocol, got {type(row).__name__} {quote(row)}"
        )
    return row, any(one.counted and type(row) is one.made_by for one in PROTOCOLS)
