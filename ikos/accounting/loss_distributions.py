"""Privacy losses as distributions of Google's dp-accounting, to compose with releases elsewhere.

What is proved for replaced values becomes a pessimistic ``PrivacyLossDistribution`` of
dp-accounting, whose divergence is nowhere below the true one ("connecting the dots",
:ref:`proof-lattice`). It may be composed with others of the same interval, if those are pessimistic
and for replaced values too.
dp-accounting computes in doubles, in part by Fourier transforms. Its results are off by about a
part of 1e-13, and by 1e-15, which is observed and not proved.

Needs the extra ``dp-accounting``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from ikos._validation import number, round_up
from ikos.results import Guarantee

try:
    from dp_accounting.dp_event import ZCDpEvent
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
except ImportError:
    raise ImportError(
        "loss distributions need dp-accounting: pip install 'ikos[dp-accounting]'"
    ) from None

__all__ = ["composed", "event", "loss_of_curve", "loss_of_guarantee"]

_BELOW = 1 - 2.0**-50  # a delta at a slightly smaller epsilon covers the grid's rounding


def loss_of_curve(
    delta: Callable[[float], float], epsilons: Iterable[float | Fraction], *, interval: float = 1e-4
) -> PrivacyLossDistribution:
    """Return a pessimistic loss distribution of a release of which many deltas are proved.

    Parameters
    ----------
    delta : callable
        Returns, for an epsilon, a delta that holds for both orders of any two neighbours, such as
        ``lambda e: response_delta(e, n, k, gamma)``.
    epsilons : iterable of float
        Where to ask, positive; rounded to the grid. Losses beyond the last one count as infinite,
        with the delta there, which should be far below the one that is wanted in the end.
    interval : float, optional
        That of the grid; the same for all distributions to be composed.

    Examples
    --------
    >>> from ikos.accounting import gaussian_delta
    >>> loss = loss_of_curve(lambda e: gaussian_delta(e, 0.1), np.arange(1, 101) / 100)
    >>> f"{loss.self_compose(4).get_delta_for_epsilon(1.0):.3g}", f"{gaussian_delta(1, 0.2):.3g}"
    ('1.79e-08', '1.75e-08')
    """
    unit = number("interval", interval, above=0)
    nearest = (round(number("epsilons", e, above=0) / unit) for e in epsilons)
    keys = np.array(sorted({max(1, key) for key in nearest}))
    if not keys.size:
        raise ValueError("epsilons must not be empty")
    at = keys * float(unit)
    proved = [number("delta", delta(float(e) * _BELOW), low=0, high=1) for e in at]
    above = np.minimum.accumulate(np.array(proved, dtype=np.float64))
    # exchanging the neighbours turns a loss of e into one of -e
    below = np.exp(-at) * above - np.expm1(-at)
    return PrivacyLossDistribution(
        create_pmf_pessimistic_connect_dots(
            float(unit), np.append(-keys[::-1], keys), np.append(below[::-1], above)
        )
    )


def loss_of_guarantee(guarantee: Guarantee, *, interval: float = 1e-4) -> PrivacyLossDistribution:
    """Return a loss distribution that covers every release with this guarantee.

    It is that of randomized response that tells all with probability delta (KOV15), for epsilon
    rounded up to the grid of this ``interval``. ValueError if nothing is proved for the run.

    Examples
    --------
    >>> import ikos
    >>> protocol = ikos.PrivateSum(1000, epsilon=0.1, delta=1e-8)
    >>> loss = loss_of_guarantee(protocol.guarantee).self_compose(30)
    >>> round(loss.get_epsilon_for_delta(1e-6), 2)
    2.37
    """
    _check(guarantee)
    unit = number("interval", interval, above=0)
    covered = unit * max(1, math.ceil(Fraction(guarantee.epsilon) / unit))
    return loss_of_curve(lambda _: guarantee.delta, [covered], interval=interval)


def event(guarantee: Guarantee) -> ZCDpEvent:
    """Return the event of a release with a pure guarantee: (epsilon^2 / 2)-concentrated privacy.

    For an ``RdpAccountant`` of replaced values. There is no event for a guarantee with a delta, nor
    a better one for a pure guarantee: a Gaussian's noise multiplier means different things in
    dp-accounting's accountants of replaced values, and of repeated randomized responses its
    ``PLDAccountant`` counts one (in version 0.9). ValueError if delta is not 0.

    Examples
    --------
    >>> from ikos.baselines import CentralLaplace
    >>> event(CentralLaplace(1000, epsilon=0.5).guarantee)
    ZCDpEvent(rho=0.125, xi=0.0)
    """
    _check(guarantee)
    if guarantee.delta:
        raise ValueError(
            f"guarantee must have a delta of 0, got {guarantee.delta!r}; "
            "loss_of_guarantee takes others"
        )
    return ZCDpEvent(rho=round_up(Fraction(guarantee.epsilon) ** 2 / 2))


def composed(
    loss: PrivacyLossDistribution, delta: float, conditions: tuple[str, ...] = ()
) -> Guarantee:
    """Return the guarantee of releases with a loss distribution, made here or elsewhere.

    Parameters
    ----------
    loss
        Pessimistic, and for replaced values.
    delta : float
        More than the mass of infinite losses.
    conditions : tuple of str, optional
        Of the releases made here, ``result.guarantee.conditions``, and of others.

    Returns
    -------
    Guarantee
        With epsilon raised by a part of 1e-9.

    Examples
    --------
    >>> from dp_accounting.pld import privacy_loss_distribution as losses
    >>> here = loss_of_guarantee(Guarantee(1.0, 1e-8, "", ()))
    >>> elsewhere = losses.from_gaussian_mechanism(10.0)  # of the distance of replaced values
    >>> print(composed(here.compose(elsewhere), 1e-6).budget)
    (1.38985, 1e-06)-differential privacy, replace-one
    """
    small = float(number("delta", delta, above=0, below=1))
    if not loss._pmf_remove._pessimistic_estimate:
        raise ValueError("loss must be a pessimistic estimate, got an optimistic one")
    epsilon = float(loss.get_epsilon_for_delta(small))
    if math.isinf(epsilon):
        raise ValueError(f"delta must exceed the mass of infinite losses, got {delta!r}")
    said = "every release has the loss distribution given for it, under replacement of one value"
    theorem = "composed privacy loss distributions, by dp-accounting in floating point"
    return Guarantee(epsilon * (1 + 1e-9), small, theorem, (*conditions, said))


def _check(guarantee: Guarantee) -> None:
    """Refuse a guarantee of which nothing is proved."""
    if not guarantee.proved:
        raise ValueError(f"guarantee must be proved for the run, got {str(guarantee)!r}")
