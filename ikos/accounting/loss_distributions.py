"""Privacy losses as distributions of Google's dp-accounting, to compose with releases elsewhere.

A guarantee for the replace-one relation becomes a pessimistic ``PrivacyLossDistribution`` of
dp-accounting, whose divergence is nowhere below the true one ("connecting the dots",
:ref:`proof-lattice`). Its ``compose`` and ``self_compose`` multiply integers and round up, so that
``composed`` returns a proved guarantee. It may be composed with others of the same interval, if
those are pessimistic and replace-one too. dp-accounting itself composes by Fourier transforms in
doubles, which are off by 1e-13 and more, and reads deltas and epsilons off in doubles.

Needs the extra ``dp-accounting``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from ikos._validation import InvalidType, InvalidValue, integer, number, quote, round_down, round_up
from ikos.accounting.loss_masses import BITS, TAIL, Masses, connected, units
from ikos.numeric.rounding import DOWN, UP, float_up, rounding
from ikos.results.conditions import Condition, Kind
from ikos.results.guarantees import Guarantee
from ikos.results.sums import at_least

try:
    from dp_accounting.dp_event import ZCDpEvent
    from dp_accounting.pld.pld_pmf import DensePLDPmf, PLDPmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
except ImportError:
    raise ImportError(
        "loss distributions need dp-accounting: pip install 'ikos[dp-accounting]'"
    ) from None

__all__ = ["composed", "event", "loss_of_curve", "loss_of_guarantee"]

_BELOW = 1 - 2.0**-50  # a delta at a slightly smaller epsilon covers the grid's rounding
_ABOVE = 1 + 2.0**-51  # covers the rounding of an integer to a double, and of this product


def _masses(pmf: DensePLDPmf, stride: int) -> Masses:
    """Return the masses of dp-accounting, rounded up to 0 or more."""
    start = int(np.argmax(pmf._probs > 0))
    finite = [max(0, units(mass)) for mass in pmf._probs[start::stride].tolist()]
    return Masses(pmf._lower_loss + start, stride, finite, units(pmf._infinity_mass))


def _pmf(masses: Masses, like: DensePLDPmf) -> DensePLDPmf:
    """Return dp-accounting's object, rounded up, with the interval of another."""
    probs = np.zeros((len(masses.finite) - 1) * masses.stride + 1)
    *probs[:: masses.stride], infinite = (
        math.ldexp(float(mass) * _ABOVE, -BITS) for mass in (*masses.finite, masses.infinite)
    )
    return DensePLDPmf(like._discretization, masses.first, probs, infinite, True)


class _ProvedLoss(PrivacyLossDistribution):  # type: ignore[misc]
    """Masses of losses that are nowhere below the exact ones, also when composed.

    Masses of other distributions are not checked. The parameters are dp-accounting's.
    """

    computational = False

    def compose(
        self,
        privacy_loss_distribution: PrivacyLossDistribution,
        tail_mass_truncation: float = TAIL,
    ) -> _ProvedLoss:
        """Return the loss of both together."""
        other, tail = privacy_loss_distribution, units(tail_mass_truncation)

        def both(first: DensePLDPmf, second: PLDPmf) -> DensePLDPmf:
            second = second.to_dense_pmf()
            first.validate_composable(second)
            stride = math.gcd(_stride(first), _stride(second)) or 1
            return _pmf(_masses(first, stride).times(_masses(second, stride), tail), first)

        symmetric = self._symmetric and other._symmetric
        result = _ProvedLoss(
            both(self._pmf_remove, other._pmf_remove),
            None if symmetric else both(self._pmf_add, other._pmf_add),
        )
        result.computational = self.computational or getattr(other, "computational", False)
        return result

    def self_compose(self, num_times: int, tail_mass_truncation: float = TAIL) -> _ProvedLoss:
        """Return the loss of many together, by squaring."""
        copies = integer("num_times", num_times, low=1)

        def power(pmf: DensePLDPmf) -> DensePLDPmf:
            together = _masses(pmf, _stride(pmf) or 1).power(copies, tail_mass_truncation)
            return _pmf(together, pmf)

        result = _ProvedLoss(
            power(self._pmf_remove), None if self._symmetric else power(self._pmf_add)
        )
        result.computational = self.computational
        return result


def _stride(pmf: DensePLDPmf) -> int:
    """Return the greatest common divisor of the distances of losses with a mass; 0 without any."""
    return int(np.gcd.reduce(np.diff(np.flatnonzero(pmf._probs > 0))))


def _least_epsilon(pmf: DensePLDPmf, delta: float) -> float:
    """Return the epsilon of a delta of at least the infinite mass, rounded up.

    Over epsilon, delta is the largest of U - e^epsilon L, where U and L are the masses of the
    largest few losses under the two neighbours.
    """
    up, down = rounding(UP), rounding(DOWN)
    least, last = max(1, pmf._lower_loss), pmf._lower_loss + pmf.size - 1
    rise = down.exp(down.mul(pmf._discretization, 1))
    weight = down.exp(down.mul(pmf._discretization, -last))
    above, below, odds = up.add(pmf._infinity_mass, 0), down.add(0, 0), up.add(1, 0)
    for mass in reversed(pmf._probs[least - pmf._lower_loss :].tolist()):
        if mass:
            above, below = up.add(above, mass), down.fma(mass, weight, below)
            odds = max(odds, up.div(up.sub(above, delta), below))
        weight = down.mul(weight, rise)
    return float_up(up.log(odds))


def loss_of_curve(
    delta: Callable[[float], float], epsilons: Iterable[float | Fraction], *, interval: float = 1e-4
) -> PrivacyLossDistribution:
    """Return a pessimistic loss distribution of a release with a proved privacy profile.

    Parameters
    ----------
    delta : callable
        Returns, for an epsilon, a delta that holds for both orders of any two neighbours, such as
        ``lambda e: response_delta(e, n, k, gamma)``.
    epsilons : iterable of float
        Where to evaluate ``delta``, positive; rounded to the grid. Losses beyond the last one count
        as infinite, with the delta there, which should be far below the final one.
    interval : float, optional
        Step of the grid; the same for all distributions to be composed.

    Examples
    --------
    >>> from ikos.accounting import gaussian_delta
    >>> loss = loss_of_curve(lambda e: gaussian_delta(e, 0.1), np.arange(1, 101) / 100)
    >>> f"{loss.self_compose(4).get_delta_for_epsilon(1.0):.3g}", f"{gaussian_delta(1, 0.2):.3g}"
    ('1.79e-08', '1.75e-08')
    """
    unit = round_up(number("interval", interval, above=0))
    nearest = (round(number("epsilons", e, above=0) / Fraction(unit)) for e in epsilons)
    keys = sorted({max(1, key) for key in nearest})
    if not keys:
        raise InvalidValue("epsilons", "must not be empty")
    heights = [1.0]
    for key in keys:
        proved = number("delta", delta(key * unit * _BELOW), low=0, high=1)
        heights.append(min(heights[-1], round_up(proved)))
    last = keys[-1]
    probs = np.zeros(2 * last + 1)
    for key, one, other in connected(heights, keys, unit):
        probs[last - key], probs[last + key] = float_up(one), float_up(other)
    return _ProvedLoss(DensePLDPmf(unit, -last, probs, heights[-1], True))


def loss_of_guarantee(guarantee: Guarantee, *, interval: float = 1e-4) -> PrivacyLossDistribution:
    """Return a loss distribution that covers every release with this guarantee.

    It is that of randomized response that reveals its input with probability delta (KOV15), for
    epsilon rounded up to the grid of this ``interval``. ValueError unless the guarantee is proved
    for the run, and replace-one.

    Examples
    --------
    >>> import ikos
    >>> protocol = ikos.PrivateSum(100, epsilon=0.1, delta=1e-8)
    >>> loss = loss_of_guarantee(protocol.guarantee).self_compose(30)
    >>> round(loss.get_epsilon_for_delta(1e-6), 2)
    2.37
    """
    _check(guarantee)
    unit = Fraction(round_up(number("interval", interval, above=0)))
    covered = unit * max(1, math.ceil(Fraction(guarantee.epsilon) / unit))
    loss = loss_of_curve(lambda _: guarantee.delta, [covered], interval=interval)
    loss.computational = guarantee.computational
    return loss


def event(guarantee: Guarantee) -> ZCDpEvent:
    """Return the event of a release with a pure guarantee: (epsilon^2 / 2)-concentrated privacy.

    For an ``RdpAccountant`` with the replace-one relation. There is no event for a guarantee with a
    delta, nor a better one for a pure guarantee: a Gaussian's noise multiplier means different
    things in dp-accounting's replace-one accountants, and its ``PLDAccountant`` counts repeated
    randomized responses once (in version 0.9). ValueError if delta is not 0, and as for
    `loss_of_guarantee`.

    Examples
    --------
    >>> from ikos.baselines import CentralLaplace
    >>> event(CentralLaplace(1000, epsilon=0.5).guarantee)
    ZCDpEvent(rho=0.125, xi=0.0)
    """
    _check(guarantee)
    if guarantee.delta:
        raise InvalidValue(
            "guarantee",
            f"must have a delta of 0, got {guarantee.delta!r}; loss_of_guarantee takes others",
        )
    return ZCDpEvent(rho=round_up(Fraction(guarantee.epsilon) ** 2 / 2))


def composed(
    loss: PrivacyLossDistribution, delta: float, conditions: tuple[Condition, ...] = ()
) -> Guarantee:
    """Return the guarantee of releases with a loss distribution.

    Parameters
    ----------
    loss
        From a function of this module, or such a one composed with others:
        ``here.compose(elsewhere)``. The others are not checked, and must be replace-one.
    delta : float
        At least the mass of infinite losses, which has up to 1e-30 from each composition.
    conditions : tuple of ikos.results.conditions.Condition, optional
        Conditions of this library's releases, ``result.guarantee.conditions``, and of others.

    Returns
    -------
    Guarantee
        With epsilon rounded up; proved if the loss distributions are.

    Examples
    --------
    >>> from dp_accounting.pld import privacy_loss_distribution as losses
    >>> here = loss_of_guarantee(Guarantee(1.0, 1e-8, "", ()))
    >>> elsewhere = losses.from_gaussian_mechanism(10.0)  # of the distance of replaced values
    >>> print(composed(here.compose(elsewhere), 1e-6).budget)
    (1.38985, 1e-06)-differential privacy, replace-one
    """
    small = round_down(number("delta", delta, above=0, below=1))
    if not isinstance(loss, _ProvedLoss):
        raise InvalidType(
            "loss",
            "must be made here, or be one made here composed with others, "
            "here.compose(elsewhere): what dp-accounting composes is not proved",
        )
    orders = (loss._pmf_remove, loss._pmf_add)
    infinite = max(pmf._infinity_mass for pmf in orders)
    if infinite > small:
        raise InvalidValue(
            "delta",
            f"must be at least the mass of infinite losses, {at_least(infinite, 3)}, "
            f"got {quote(delta)}",
        )
    epsilon = max(_least_epsilon(pmf, small) for pmf in orders)
    assumed = Condition(
        Kind.SCOPE,
        "every release has the loss distribution given for it, under replacement of one value",
        computational=loss.computational,
    )
    theorem = "composed privacy loss distributions, ZDW22, Theorem 10"
    return Guarantee(epsilon, small, theorem, (*conditions, assumed))


def _check(guarantee: Guarantee) -> None:
    """Refuse a guarantee that is not proved, or not replace-one."""
    if not guarantee.proved:
        raise InvalidValue("guarantee", f"must be proved for the run, got {str(guarantee)!r}")
    if guarantee.adjacency != "replace-one":
        raise InvalidValue("guarantee", f"must be for replace-one, got {guarantee.adjacency}")
