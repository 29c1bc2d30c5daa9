"""The part of recipes whose users' values with noise are bounded, so that a bound can be proved."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from ikos._validation import InvalidValue, integer, quote
from ikos.data.domains import Coordinates
from ikos.data.encoding import MAX_PRECISION, Encoding
from ikos.noise.base import UsersNoise
from ikos.noise.uniform_noise import DEFAULT_WIDTH, UniformNoise, most_steps
from ikos.transports.base import Need, Recipe


class BoundedRecipe(Recipe):
    """A recipe of sums with uniform noise of all users."""

    def noise_delta(self, need: Need) -> Fraction:
        """Return the part of delta for the noise: all of it if hiding takes none."""
        return need.delta

    def largest_noise(self, need: Need) -> UsersNoise:
        """Return the noise of the smallest width."""
        shift, honest = need.shift.repeated(need.releases), need.users.least
        noise = UniformNoise.least(need.epsilon, self.noise_delta(need), shift, honest)
        assert noise is not None  # any number of users draw it
        return UsersNoise(noise, honest)

    def encoding(
        self, known: Coordinates, precision: object, need: Callable[[Encoding], Need]
    ) -> Encoding:
        """Return the encoding with a given precision, or that of the default precision.

        Integers are not rounded, but multiplied. The default is the largest precision for which a
        width of 16 is enough, of integers a width of 2, a fair coin: its range is the smallest for
        its variance, and next to that of rounding it would be as small.
        """
        unit = known.bounds.whole_steps() if known.exact else 1
        if precision is None:
            wanted, width = need(Encoding(**vars(known), precision=unit)), DEFAULT_WIDTH
            budget = wanted.epsilon, self.noise_delta(wanted), wanted.shift.moved * wanted.releases
            steps = most_steps(wanted.users.least, 2 if known.exact else width, *budget, unit)
            return Encoding(**vars(known), precision=max(unit, steps))
        steps = integer("precision", precision, low=1, high=MAX_PRECISION)
        if steps % unit:
            raise InvalidValue(
                "precision", f"must be a multiple of upper - lower = {unit} where values are "
                f"integers, got {quote(precision)}"
            )  # fmt: skip
        return Encoding(**vars(known), precision=steps)
