"""Differentially private summation of reals (BBGN20, Algorithms 5 and 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import (
    check_participation,
    choice,
    flag,
    floating,
    integer,
    quote,
    round_up,
    validate_users,
)
from ikos.accuracy import Noise, NoiseLaw, default_modulus, default_precision
from ikos.aggregation.engine import SharingScheme
from ikos.aggregation.execution import Engine, Values, add_up, collect
from ikos.aggregation.secure_sum import PSEUDORANDOM, SecureSum, digest, unproved_conditions
from ikos.bounds import Bounds, whole
from ikos.concurrency import Progress
from ikos.counts import (
    SHUFFLERS,
    MessageCount,
    Remaining,
    private_message_count,
    private_proved,
    private_remaining,
)
from ikos.counts.ghazi2020 import covered
from ikos.counts.private import checked_budget
from ikos.counts.secure import MAX_MESSAGES, checked_analysis, checked_trust
from ikos.encoding import MAX_PRECISION, decode, encode
from ikos.errors import NoisySum, SumError
from ikos.noise import polya_shares
from ikos.randomness import RandomSource, secure
from ikos.results import ONE_REPORT, Cost, Guarantee, SumResult, at_least, footer
from ikos.sharing import split
from ikos.shuffling import View

MAX_USERS = 1 << 53


def checked_precision(precision: object) -> int:
    """Check and return the steps of an encoding."""
    return integer("precision", precision, low=1, high=MAX_PRECISION)


def checked_modulus(modulus: object, users: int, precision: int, law: Noise, analysis: str) -> int:
    """Check and return the order of the group; None for the least from `default_modulus` on."""
    if modulus is None:
        return covered(analysis, default_modulus(users, precision, law))
    q = integer("modulus", modulus, low=2)
    if q <= users * precision:
        raise ValueError(
            f"modulus must be above n * precision = {users * precision}, got {quote(modulus)}"
        )
    return q


@dataclass(frozen=True, init=False, repr=False)
class PrivateSum:
    """Differentially private summation: exact discrete Laplace noise that nobody has to add alone.

    Each user rounds its value to {0..precision} at random, adds a noise share, and sends the
    result through `SecureSum`. The noise shares of ``min_honest`` users add up to exactly discrete
    Laplace noise of inverse scale noise_epsilon / precision, drawn by integer arithmetic alone.

    Parameters
    ----------
    n : int
        Users, from 1 to 2^53; public.
    epsilon, delta : float
        The guarantee, under replacement of one user's value. A float is taken at its exact value.
        The imperfect hiding is paid for with ``delta`` and a small part of ``epsilon``; the noise
        alone is purely private.
    precision : int, optional
        Steps p of the encoding, at most 2^52. By default the smallest p at which randomized
        rounding adds at most 1 % to the variance of the noise, about 3.5 epsilon sqrt(min_honest):
        more steps cost bits (the modulus grows with p), fewer cost accuracy.
    modulus : int, optional
        Order q of the group, above n p. By default the smallest power of two at which the noisy
        sum wraps around with probability at most 2^-40, and at which that adds at most a thousandth
        of the noise's variance to the mean squared error (a wrong result, no loss of privacy);
        with ``analysis="ghazi2020"``, which is proved for primes alone, the next prime.
    messages : int, optional
        Messages of each user in all, the clear share included. Used even where they prove
        nothing; the guarantee then says so. By default the smallest number that proves
        (epsilon, delta).
    analysis, shuffler, clear_share, corrupt_shufflers
        As for `SecureSum`.
    reserve : float
        Largest share of ``epsilon`` that may be spent on the imperfect hiding instead of noise; as
        little of it is spent as allows the number of messages (`private_message_count`).
    min_honest : int, optional
        The guarantee holds while at least this many users are honest and present; ``n`` by
        default. Noise and messages are chosen for this many, so that with all n present the noise
        variance is n / min_honest times as large. `run` and `analyze` refuse fewer.
    lower, upper : float
        Public bounds of the values, within 1e100; 0 and 1 by default. Results are in the same
        units.
    integers : bool
        Promise that the values are integers, and refuse others. The bounds must be integers and
        the precision is ``upper - lower``: nothing is rounded, and messages are short.

    Attributes
    ----------
    messages : MessageCount
        Messages of each user, the sigma and delta proved for them, and ``noise_epsilon``, what is
        left of epsilon for the noise.
    guarantee : Guarantee
        What holds, by which theorem, under which conditions.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or nothing is proved for the setting
        and no ``messages`` are given.

    Notes
    -----
    Every run spends the budget anew: k releases about the same users are
    (k epsilon, k delta)-private by basic composition.

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.testing import DeterministicRandom
    >>> ages = np.random.default_rng(0).uniform(18, 90, 10_000)
    >>> protocol = PrivateSum(10_000, epsilon=1, delta=1e-8, lower=0, upper=100)
    >>> result = protocol.run(ages, DeterministicRandom(0))  # omit the second in earnest
    >>> low, high = result.interval(0.999999)
    >>> bool(low < ages.sum() < high), bool(high - low < 4000)
    (True, True)
    """

    n: int
    epsilon: Fraction
    delta: Fraction
    precision: int
    lower: float
    upper: float
    integers: bool
    messages: MessageCount
    secure_sum: SecureSum

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        precision: int | None = None,
        modulus: int | None = None,
        messages: int | None = None,
        analysis: str = "best",
        shuffler: str = "parallel",
        clear_share: bool = True,
        min_honest: int | None = None,
        corrupt_shufflers: int = 0,
        reserve: float | Fraction = 0.01,
        lower: float = 0.0,
        upper: float = 1.0,
        integers: bool = False,
    ) -> None:
        n = integer("n", n, low=1, high=MAX_USERS)
        budget, allowed, spare = checked_budget(epsilon, delta, reserve)
        analysis = checked_analysis(analysis)
        choice("shuffler", shuffler, SHUFFLERS)
        honest, corrupt = checked_trust(n, min_honest, corrupt_shufflers, shuffler)
        flag("clear_share", clear_share)
        bounds = Bounds(lower, upper)
        if exact := flag("integers", integers):
            precision = bounds.whole_steps(precision)
        if precision is None:
            precision = default_precision(budget, honest)
        p = checked_precision(precision)
        law = NoiseLaw(budget * (1 - spare) / p, Fraction(n, honest))
        q = checked_modulus(modulus, n, p, law, analysis)
        # One user's value changes: the views of min_honest users hide it, and giving the adversary
        # what the other honest ones send only helps it. So the delta for min_honest is enough,
        # however many are honest. (A level sigma is about inputs that may differ everywhere.)
        if messages is None:
            count = private_message_count(
                n,
                q,
                budget,
                allowed,
                p,
                analysis=analysis,
                shuffler=shuffler,
                clear_share=clear_share,
                min_honest=honest,
                corrupt_shufflers=corrupt,
                reserve=spare,
            )
        else:
            total = integer("messages", messages, low=1, high=MAX_MESSAGES)
            count = private_proved(
                honest,
                q,
                max(0, total - int(clear_share) - corrupt),
                budget,
                allowed,
                p,
                analysis=analysis,
                shuffler=shuffler,
                clear_share=clear_share,
                reserve=spare,
                most=n,
            ).with_corruption(corrupt, total)
        secure_sum = SecureSum(
            n,
            q,
            messages=count.total,
            analysis=analysis,
            shuffler=shuffler,
            clear_share=clear_share,
            min_honest=honest,
            corrupt_shufflers=corrupt,
        )
        for name, value in zip(
            self.__dataclass_fields__,
            (n, budget, allowed, p, bounds.lower, bounds.upper, exact, count, secure_sum),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    @property
    def domain(self) -> Bounds:
        """The public bounds of the values."""
        return Bounds(self.lower, self.upper)

    @property
    def modulus(self) -> int:
        """Order of the group."""
        return self.secure_sum.q

    @property
    def min_honest(self) -> int:
        """How many users must be honest and present."""
        return self.secure_sum.min_honest

    @property
    def rate(self) -> Fraction:
        """Inverse scale of the noise in encoding steps, noise_epsilon / precision, exactly."""
        assert self.messages.noise_epsilon is not None
        return Fraction(self.messages.noise_epsilon) / self.precision

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run."""
        count = self.messages
        assert count.delta is not None
        conditions: tuple[str, ...] = (
            *unproved_conditions(count.analysis, self.modulus),
            *self.secure_sum.trust,
            ONE_REPORT,
            PSEUDORANDOM,
        )
        if count.delta == 1:
            conditions = ()
        return Guarantee(round_up(self.epsilon), count.delta, count.theorem, conditions)

    def remaining(
        self,
        *,
        honest: int | None = None,
        corrupt_shufflers: int | None = None,
        delta: float | Fraction | None = None,
    ) -> Remaining:
        """Return what is still proved if fewer users or shufflers are honest than planned.

        Parameters
        ----------
        honest : int, optional
            Honest users, at least; ``min_honest`` by default.
        corrupt_shufflers : int, optional
            Shufflers that collude with the analyzer; as planned by default.
        delta : float, optional
            The delta to be reached; by default the one that was asked for.

        Returns
        -------
        Remaining
            The smallest epsilon that is proved with this delta, rounded up. By the sum's own
            analysis, or by "best" where that one proves nothing.

        Raises
        ------
        ValueError
            If an argument is out of range, or no epsilon is proved with this delta; the message
            says which delta could be reached.

        Examples
        --------
        >>> protocol = PrivateSum(10_000, epsilon=1, delta=1e-8)
        >>> round(protocol.remaining(honest=9_000).epsilon, 3)
        1.187
        """
        count, planned = self.messages, self.secure_sum
        assert count.noise_epsilon is not None
        return private_remaining(
            self.n,
            self.modulus,
            count.total,
            count.noise_epsilon,
            self.delta if delta is None else delta,
            self.precision,
            honest=self.min_honest if honest is None else honest,
            noise_users=self.min_honest,
            corrupt_shufflers=(
                planned.corrupt_shufflers if corrupt_shufflers is None else corrupt_shufflers
            ),
            analysis=count.analysis or "best",
            shuffler=planned.shuffler,
            clear_share=planned.clear_share,
        )

    @property
    def mse(self) -> float:
        """Bound on the mean squared error of the sum with all n users, in squared data units.

        Noise, rounding and wrap-around: ``2 alpha / (p^2 (1 - alpha)^2)`` times ``n /
        min_honest``, plus ``n / (4 p^2)`` unless ``integers``, plus ``(q / p)^2``
        times the probability of a wrap-around, at most ``alpha^((q - n p) / 2)`` for ``min_honest
        = n`` (BBGN20, Section 5.3), all times ``(upper - lower)^2``.
        """
        return self.error(self.n).mean_square

    def error(self, users: int) -> SumError:
        """Return what is known of noise, rounding and wrap-around of a sum of this many users."""
        return NoisySum(
            NoiseLaw(self.rate, Fraction(validate_users(users, self.n), self.min_honest)),
            self.precision,
            users,
            self.upper - self.lower,
            self.modulus,
            rounded=not self.integers,
        ).error()

    @property
    def influence(self) -> float:
        """Greatest difference that one user's messages alone can make to the estimate.

        In the data's units. A user may send any element of the group, so that the estimate may
        land on any of the q points of the window that sums are decoded to (BBGN20, Section 8).
        """
        return self.domain.width * floating(Fraction(self.modulus - 1, self.precision))

    @property
    def parameter_hash(self) -> str:
        """SHA-256 of the parameters, equal for two parties if and only if they agree on all."""
        return digest(self.parameters)

    @property
    def parameters(self) -> dict[str, object]:
        """What the parties must agree on."""
        return {
            "protocol": "ikos-private-sum-1",
            "epsilon": str(self.epsilon),
            "noise_rate": str(self.rate),
            "precision": self.precision,
            "lower": self.lower.hex(),
            "upper": self.upper.hex(),
            "integers": self.integers,
            "secure_sum": self.secure_sum.parameters,
        }

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send."""
        return self.secure_sum.cost(users)

    # The client

    def report(self, x: float, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's shares of its rounded and noisy value (BBGN20, Algorithm 6).

        Parameters
        ----------
        x : float
            In ``[lower, upper]``.
        rng : RandomSource, optional
            Secure randomness by default.

        Returns
        -------
        (total,) ndarray
            As `SecureSum.report` returns them; the same warnings apply. The time that this takes
            depends, slightly, on the noise: do not send at once when it is done.
        """
        source = secure(rng)
        noisy = self.encoded(self.checked([x]), source.streams()(0))
        return split(noisy, self.secure_sum.group, self.messages.total, source)[:, 0].copy()

    def randomize(self, x: Values, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return everybody's shares of rounded and noisy values.

        Parameters
        ----------
        x : (k,) array_like of float, or iterator of such
            Values in ``[lower, upper]``, ``min_honest <= k <= n``, or blocks of them.
        rng : RandomSource, optional
            Secure randomness by default.

        Returns
        -------
        (total, k) ndarray
            Row j is what goes to shuffler j; with a clear share, it is the last row.
        """
        source = secure(rng)
        group = self.secure_sum.group
        return split(collect(self, x, source), group, self.messages.total, source)

    @property
    def setting(self) -> SharingScheme:
        """What is sent to whom."""
        return self.secure_sum.setting

    def checked(self, x: ArrayLike | Sequence[float], first: int = 0) -> NDArray[np.float64]:
        """Return values as doubles in the data's units, each looked at; from user ``first`` on.

        What are doubles already is not copied.
        """
        values = self.domain.values(x, first, copy=False)
        return whole(values, first) if self.integers else values

    def encoded(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        """Return checked values, rounded and noisy, as group elements."""
        group = self.secure_sum.group
        elements = np.empty(values.size, dtype=group.dtype)
        if self.integers:
            elements[:] = (values - self.lower).astype(np.int64)  # integers below 2^53: exact
        else:
            encode(values, self.precision, rng, bounds=self.domain, out=elements)
        noisy, noise = polya_shares(values.size, self.rate, parties=self.min_honest, rng=rng)
        changed = elements[noisy]
        group.add(changed, group.reduce(noise))
        elements[noisy] = changed
        return elements

    def check_users(self, users: int, name: str) -> None:
        """Refuse fewer users than the guarantee counts on, and more than there are."""
        check_participation(name, users, self.min_honest, self.n)

    # The shufflers

    def shuffle(
        self, shares: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Pass shares through the shufflers, as `SecureSum.shuffle` does."""
        return self.secure_sum.shuffle(shares, rng, order=order)

    # The analyzer

    def analyze(self, view: View) -> SumResult:
        """Return the estimate of the sum over the users of a view (BBGN20, Algorithm 5).

        Raises
        ------
        ValueError
            If the view is not one of complete reports of at least ``min_honest`` users.
        """
        users = self.secure_sum.users(view)
        return self._result(self.secure_sum.analyze(view), users)

    def _result(self, z: int, users: int) -> SumResult:
        p, q = self.precision, self.modulus
        parts = Fraction(decode(z, users, p, q), p)
        return SumResult(
            estimate=self.domain.total(parts, users),
            users=users,
            domain=self.domain,
            guarantee=self.guarantee,
            cost=self.cost(users),
            error=self.error(users),
        )

    # All of them

    def run(
        self,
        x: Values,
        rng: RandomSource | None = None,
        *,
        threads: int | None = None,
        cluster: Engine | None = None,
        progress: Progress | None = None,
    ) -> SumResult:
        """Run the protocol on everybody's values, here.

        The same as `randomize`, `shuffle` and `analyze` with the same ``rng``, message for message,
        in the memory of the values, the last shares, and one column for each thread.

        Parameters
        ----------
        x : (k,) array_like of float, or iterator of such
            Values in ``[lower, upper]``, ``min_honest <= k <= n``; or a memory map; or an iterator
            over blocks of any lengths.
        rng : RandomSource, optional
            Secure randomness by default.
        threads : int, optional
            How many columns are worked on at once; by default one on each core where there are
            enough messages. No result depends on it.
        cluster : ikos.cluster.Cluster, optional
            Workers of Dask to run it on instead.
        progress : callable, optional
            Called with the pieces of the shufflers' output that are done, and their number.

        Returns
        -------
        SumResult
            Estimates with intervals, the guarantee, and what was sent.

        Raises
        ------
        TypeError, ValueError
            If a value is not a real number within the bounds (NaN is not), or there are too few
            or too many. Nothing is clipped.
        Interrupted
            At Ctrl-C, a `KeyboardInterrupt`; nothing was released.
        """
        source = secure(rng)
        z, users = add_up(self, x, source, threads=threads, cluster=cluster, progress=progress)
        result = self._result(z, users)
        return replace(result, guarantee=result.guarantee.of_run(source))

    def __repr__(self) -> str:
        extras = f", min_honest={self.min_honest}" if self.min_honest < self.n else ""
        if self.secure_sum.corrupt_shufflers:
            extras += f", corrupt_shufflers={self.secure_sum.corrupt_shufflers}"
        return (
            f"<PrivateSum n={self.n}{extras}, precision={self.precision}, "
            f"q={quote(self.modulus)}, {self.secure_sum.shuffler}: {self.messages}; "
            f"{self.guarantee}>"
        )

    def __str__(self) -> str:
        return "\n".join(
            (
                f"private sum of {self.n:,} user{'s' * (self.n > 1)}, values in "
                f"[{self.lower:g}, {self.upper:g}] in {self.precision:,} steps, modulo "
                f"{quote(self.modulus)}, {self.secure_sum.shuffler} "
                f"shuffler{'s' * (self.secure_sum.shuffler == 'parallel')}",
                f"error     {at_least(math.sqrt(self.mse), 4)} (sum, root mean square, at most)",
                *footer(self.guarantee, str(self.cost()), self.n),
            )
        )
