"""Messages against users: the numbers behind the plots."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ikos._validation import integer
from ikos.counts import (
    ANALYSES,
    MessageCount,
    message_count,
    necessary_messages,
    necessary_private_messages,
)
from ikos.counts.analyses import LEVELS
from ikos.counts.floor import counting_floor
from ikos.counts.secure import checked_analysis
from ikos.numeric.distributions import default_precision
from ikos.primitives.concurrency import Progress
from ikos.sums import PrivateSum

Shuffling = tuple[str, bool]  # a shuffler, and whether there is a clear share

BOTH_WAYS: tuple[Shuffling, ...] = (("parallel", True), ("single", False))
"""The settings of BBGN20 and of IKOS06; the others need the same number of messages, +-1."""

_EVERYWHERE = "second_moment"
"""The analysis that covers every setting, with a separate count in each."""


@dataclass(frozen=True)
class Curve:
    """The number of messages that one analysis needs in one setting, as a function of the users.

    ``name`` is an analysis, or "necessary" (a proved lower bound), "floor" (the counting lower
    bound) or "attack" (an estimate). ``points`` has users, ascending, and messages per user, a
    clear share included; only where covered.
    """

    name: str
    shuffler: str
    clear_share: bool
    points: tuple[tuple[int, int], ...]

    def at(self, users: int) -> int | None:
        """Return the messages for n users, or None if n is not a point of the curve."""
        return dict(self.points).get(users)


def grid(low: int, high: int, per_decade: int, *, also: Iterable[int] = ()) -> tuple[int, ...]:
    """Return numbers of users, ascending: about ``per_decade`` per factor of ten, and ``also``.

    Both ends are included; 1 <= low <= high.

    Examples
    --------
    >>> grid(1, 100, 3, also=[50])
    (1, 2, 5, 10, 22, 46, 50, 100)
    """
    steps = max(1, round(per_decade * math.log10(high / low)))
    inner = (round(low * (high / low) ** (i / steps)) for i in range(1, steps))
    return tuple(sorted({low, high, *inner, *also}))


def attack_estimate(n: int, q: int, sigma: float | Fraction) -> int:
    """Estimate how many shuffled messages stop the tuple-counting attack at 2^-sigma.

    Neither a proof nor a bound: if the attack's statistic (`ikos.attacks`) were normal, its
    advantage would be ``sqrt(2/pi * q / (n^m + 2^m - 2))``. Experiments agree or come out slightly
    lower, at advantages from 1/2 down to 1/100. Better attacks may exist.

    The result is the smallest m >= 1 for which this is at most ``2**-sigma``, in double precision.

    Examples
    --------
    >>> attack_estimate(10**6, 2**64, 80)
    12
    """
    integer("n", n, low=2)
    wanted = 2 * float(sigma) + math.log2(q) + math.log2(2 / math.pi)
    m = max(1, math.ceil(wanted / math.log2(n)))
    while m > 1 and (m - 1) * math.log2(n) + math.log2(1 + (2 / n) ** (m - 1)) >= wanted:
        m -= 1
    return m


def secure_curves(
    users: Sequence[int],
    q: int,
    sigma: float | Fraction,
    *,
    analyses: Sequence[str] = LEVELS,
    settings: Sequence[Shuffling] = BOTH_WAYS,
    honest: Fraction = Fraction(1),
    corrupt: int = 0,
    progress: Progress | None = None,
) -> list[Curve]:
    """Return the curves of a secure sum: the lower bound, and the counts of each analysis.

    Parameters
    ----------
    users : sequence of int
        Numbers of users, ascending.
    q, sigma
        As for `SecureSum`.
    analyses : sequence of str
        "second_moment" gives a curve in each setting, the others in the first that they cover (they
        need the same total in all of them).
    settings : sequence of (str, bool)
        Shuffler and clear share. The attack, an estimate, is on parallel shufflers; it is shown
        only where the lower bound is no better than the counting bound.
    honest : Fraction
        Least fraction of the users that is honest, rounded up.
    corrupt : int
        Shufflers that may collude with the analyzer; only if all settings have parallel ones.
    progress : callable, optional
        Called with the amounts done and in all.

    Examples
    --------
    >>> for curve in secure_curves([1000], 2**64, 80):
    ...     print(curve.name, curve.shuffler, curve.at(1000))
    necessary parallel 25
    floor single 7
    second_moment parallel 25
    second_moment single 22
    balle2020 parallel 29
    ghazi2020 single 1611
    ishai2006 single 254
    """

    def count(n: int, analysis: str, setting: Shuffling) -> MessageCount:
        return message_count(
            n, q, sigma, analysis=analysis, shuffler=setting[0], clear_share=setting[1],
            min_honest=_part(n, honest), corrupt_shufflers=corrupt,
        )  # fmt: skip

    curves = []
    present = [(n, _part(n, honest)) for n in users if _part(n, honest) > 1]
    for shuffler, clear in settings:
        if (shuffler, clear) == ("single", False):  # more messages are not known to hide more
            lowest = tuple((n, counting_floor(p, q, sigma, shuffler="single")) for n, p in present)
            curves.append(Curve("floor", shuffler, clear, lowest))
            continue
        graph: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
        graph["corrupt_shufflers"] = corrupt
        necessary = [(n, p, necessary_messages(p, q, sigma, **graph)) for n, p in present]
        points = tuple((n, m + clear) for n, _, m in necessary)
        curves.append(Curve("necessary", shuffler, clear, points))
        if shuffler == "parallel" and not any(curve.name == "attack" for curve in curves):
            unknown = (
                (n, attack_estimate(p, q, sigma) + clear + corrupt)
                for n, p, m in necessary
                if m - corrupt <= counting_floor(p, q, sigma)
            )
            curves.append(Curve("attack", shuffler, clear, tuple(unknown)))
    curves += _analysed(users, analyses, settings, count, progress)
    return [curve for curve in curves if curve.points]


def private_curves(
    users: Sequence[int],
    epsilon: float | Fraction,
    delta: float | Fraction,
    *,
    precision: int | None = None,
    modulus: int | None = None,
    analyses: Sequence[str] = ANALYSES,
    settings: Sequence[Shuffling] = BOTH_WAYS,
    honest: Fraction = Fraction(1),
    corrupt: int = 0,
    reserve: float | Fraction = Fraction(1, 100),
    progress: Progress | None = None,
) -> list[Curve]:
    """Return the curves of a private sum: the counts of each analysis, and the lower bound.

    The lower bound is for parallel shufflers with a clear share.

    The arguments are those of `secure_curves` and of `PrivateSum`. There is no point where the
    modulus, if set, is too small for the users.

    Examples
    --------
    >>> for curve in private_curves([100], 1, 1e-6):
    ...     print(curve.name, curve.shuffler, curve.at(100))
    necessary parallel 4
    direct_comparison parallel 7
    higher_moments parallel 8
    second_moment parallel 8
    second_moment single 7
    balle2020 parallel 13
    ghazi2020 single 622
    ishai2006 single 64
    """

    def protocol(n: int, analysis: str, setting: Shuffling) -> PrivateSum | None:
        at_least = _part(n, honest)
        if modulus is not None:
            steps = precision or default_precision(Fraction(epsilon), at_least)
            if modulus <= n * steps:
                return None
        return PrivateSum(
            n, epsilon, delta, precision=precision, modulus=modulus, analysis=analysis,
            shuffler=setting[0], clear_share=setting[1], min_honest=at_least,
            corrupt_shufflers=corrupt, reserve=reserve,
        )  # fmt: skip

    def count(n: int, analysis: str, setting: Shuffling) -> MessageCount | None:
        protocol_at_n = protocol(n, analysis, setting)
        return None if protocol_at_n is None else protocol_at_n.messages

    curves = []
    if ("parallel", True) in settings:
        # the modulus and the precision are those of every analysis with its own theorem
        protocols = [(n, protocol(n, _EVERYWHERE, ("parallel", True))) for n in users]
        points = (
            (n, 1 + necessary_private_messages(
                n, sized.modulus, epsilon, delta, sized.precision, min_honest=_part(n, honest),
                corrupt_shufflers=corrupt, reserve=reserve,
            ))
            for n, sized in protocols if sized is not None
        )  # fmt: skip
        curves.append(Curve("necessary", "parallel", True, tuple(points)))
    curves += _analysed(users, analyses, settings, count, progress)
    return [curve for curve in curves if curve.points]


def _part(n: int, honest: Fraction) -> int:
    """Return the minimum number of honest users among n."""
    return max(1, math.ceil(n * honest))


def _analysed(
    users: Sequence[int],
    analyses: Sequence[str],
    settings: Sequence[Shuffling],
    count: Callable[[int, str, Shuffling], MessageCount | None],
    progress: Progress | None,
) -> list[Curve]:
    names = dict.fromkeys(map(checked_analysis, analyses))
    wanted = [(analysis, setting) for analysis in names for setting in settings]
    curves: list[Curve] = []
    for i, (analysis, setting) in enumerate(wanted):
        if analysis != _EVERYWHERE and any(curve.name == analysis for curve in curves):
            continue
        points = []
        for j, n in enumerate(users):
            try:
                messages = count(n, analysis, setting)
            except ValueError:
                if analysis == _EVERYWHERE:  # covers everything, so the error has another cause
                    raise
                messages = None
            if messages is not None:
                points.append((n, messages.total))
            if progress is not None:
                progress(i * len(users) + j + 1, len(wanted) * len(users))
        if points:
            curves.append(Curve(analysis, *setting, tuple(points)))
    return curves
