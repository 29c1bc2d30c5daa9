"""The part of recipes whose users' values with noise are bounded, so that a bound can be proved."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from ikos._validation import InvalidValue, choice, integer, quote
from ikos.data.domains import Coordinates
from ikos.data.encoding import MAX_PRECISION, Encoding
from ikos.noise.base import Noise, UsersNoise
from ikos.noise.cut_laplace_noise import CutLaplaceNoise
from ikos.noise.uniform_noise import UniformNoise, most_steps
from ikos.transports.base import Need, Recipe

_NOISES: dict[str, type[Noise]] = {"uniform": UniformNoise, "laplace": CutLaplaceNoise}

WIDTHS = (2, 4, 8, 16)
"""Default widths: powers of two, which need no rejections."""

WORTHWHILE = 1.05**2
"""Least ratio of variances at which a larger width is worth its bits."""


class BoundedRecipe(Recipe):
    """A recipe of sums with bounded shares of noise of all users.

    ``noise`` is "uniform" unless a recipe has an option of this name, which may also be "laplace":
    a smaller error, and a larger influence of one user.
    """

    noise: str = "uniform"

    def noise_delta(self, need: Need) -> Fraction:
        """Return the part of delta for the noise: all of it if hiding takes none."""
        return need.delta

    def largest_noise(self, need: Need) -> UsersNoise:
        """Return the noise of the smallest width."""
        shift, honest = need.shift.repeated(need.releases), need.users.least
        kind = _NOISES[choice("noise", self.noise, _NOISES)]
        noise = kind.least(need.epsilon, self.noise_delta(need), shift, honest)
        assert noise is not None  # any number of users draw it
        return UsersNoise(noise, honest)

    def encoding(
        self, known: Coordinates, precision: object, need: Callable[[Encoding], Need]
    ) -> Encoding:
        """Return the encoding with a given precision, or that of the default precision.

        Integers are not rounded, but may be multiplied. The default for uniform noise is the
        largest precision for which a width is enough: of reals 16, next to which the variance of
        rounding is small; of vectors of integers 2, a fair coin, which takes the fewest bits; and
        of integers the smallest with which the error is within 5 % of the least.
        """
        unit = known.bounds.whole_steps() if known.exact else 1
        if precision is None and self.noise != "uniform":
            return super().encoding(known, precision, need)
        if precision is None:
            wanted = need(Encoding(**vars(known), precision=unit))
            budget = wanted.epsilon, self.noise_delta(wanted), wanted.shift.moved * wanted.releases
            widths = WIDTHS[-1:] if not known.exact else WIDTHS if wanted.scalar else WIDTHS[:1]
            tried = {w: most_steps(wanted.users.least, w, *budget, unit) for w in widths}
            error = {w: (w * w - 1) / max(steps, 1e-9) ** 2 for w, steps in tried.items()}
            width = next(w for w in widths if error[w] <= WORTHWHILE * min(error.values()))
            return Encoding(**vars(known), precision=max(unit, tried[width]))
        steps = integer("precision", precision, low=1, high=MAX_PRECISION)
        if steps % unit:
            raise InvalidValue(
                "precision", f"must be a multiple of upper - lower = {unit} where values are "
                f"integers, got {quote(precision)}"
            )  # fmt: skip
        return Encoding(**vars(known), precision=steps)
