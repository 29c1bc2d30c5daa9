"""Directed arithmetic, and what becomes of Ctrl-C in the midst of it."""

from __future__ import annotations

import fractions
import math

import gmpy2
import pytest

from ikos.counts.share_graph import ShareGraph
from ikos.numeric.rounding import DOWN, UP, exact, float_down, float_up, log2, rational


def interrupted(*_):
    raise KeyboardInterrupt


# of this name, which is how gmpy2 knows a Fraction
Fraction = type(
    "Fraction",
    (fractions.Fraction,),
    {"numerator": property(interrupted), "denominator": property(interrupted)},
)


def test_rational_is_the_same_number():
    for value in (fractions.Fraction(-22, 7), fractions.Fraction(0), 5, -(1 << 300)):
        assert rational(value) == gmpy2.mpq(int(value * 7), 7)


def test_doubles_are_on_their_side_and_next_to_the_number():
    """Of thirds, sevenths and elevenths, the nearest double is now above and now below."""
    for value in (gmpy2.mpq(i, d) for i in range(-30, 31) for d in (3, 7, 11)):
        low, high = float_down(value), float_up(value)
        assert gmpy2.mpq(low) <= value <= gmpy2.mpq(high)
        assert high in (low, math.nextafter(low, math.inf))


@pytest.mark.parametrize(
    "convert",
    [
        rational,
        lambda value: exact(value, UP),
        lambda value: exact(value, DOWN),
        lambda value: log2(value, UP),
    ],
)
def test_an_interrupt_in_a_conversion_stays_one(convert):
    with pytest.raises(KeyboardInterrupt):
        convert(Fraction(1, 3))


def test_gmpy2_calls_the_properties():
    """It loses what is raised there, in the versions of today."""
    with pytest.raises((SystemError, KeyboardInterrupt)):
        gmpy2.mpq(Fraction(1, 3))


@pytest.mark.parametrize("shuffler", ["parallel", "single"])
@pytest.mark.parametrize("clear", [True, False])
def test_weights_of_the_share_graph_are_enclosed(shuffler, clear):
    """Each is on its side of the rational, also where logarithms are subtracted."""
    for m in (2, 3, 7, 257, 300):
        graph, weight = ShareGraph(m, shuffler, clear), gmpy2.mpq(1)
        for k in range(1, 12):
            growth = graph.growth_exactly(k)
            weight *= growth
            assert graph.growth(k, DOWN) <= growth <= graph.growth(k, UP)
            with gmpy2.context(precision=4000):
                log = gmpy2.log(weight.numerator) - gmpy2.log(weight.denominator)
                edgeless = log + gmpy2.log(gmpy2.fac(k))
            assert graph.log_weight(k, DOWN) <= log <= graph.log_weight(k, UP)
            assert graph.log_edgeless(k, DOWN) <= edgeless <= graph.log_edgeless(k, UP)
            assert graph.log_weight(k, UP) - graph.log_weight(k, DOWN) < 1e-30
