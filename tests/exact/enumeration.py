"""Exact laws by playing every outcome of the randomness, and of the view by counting.

`exact_law` runs an experiment once for every sequence of outcomes of its random source and adds
up the probabilities as fractions: what comes out is the law itself, no sample of it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.primitives.modular import Zq
from ikos.primitives.randomness import RandomSource

Law = dict[Any, Fraction]


class Unfinished(Exception):  # noqa: N818 - a signal, not an error
    """The experiment asked for more randomness than is played out."""


class Script(RandomSource):
    """A source that follows a path through the tree of outcomes; new branches begin at 0."""

    def __init__(self, path: list[tuple[int, int]], least: Fraction) -> None:
        self.path, self.least = path, least
        self.step = 0
        self.numerator, self.denominator = 1, 1

    @property
    def weight(self) -> Fraction:
        """Probability of the path so far."""
        return Fraction(self.numerator, self.denominator)

    def _branch(self, arity: int) -> int:
        if self.least and self.weight < self.least:
            raise Unfinished
        if self.step == len(self.path):
            self.path.append((0, arity))
        index, planned = self.path[self.step]
        assert planned == arity, "the experiment is not a function of its randomness"
        self.step += 1
        return index

    def choose(self, count: int) -> int:
        """Return a uniform element of ``range(count)``."""
        index = self._branch(count)
        self.denominator *= count
        return index

    def flip(self, probability: Fraction) -> bool:
        """Return True with this probability."""
        if probability in (0, 1):
            return probability == 1
        outcome = bool(self._branch(2))
        chance = probability if outcome else 1 - probability
        self.numerator *= chance.numerator
        self.denominator *= chance.denominator
        return outcome

    def streams(self) -> Callable[[int], RandomSource]:
        return lambda number: self

    def family(self) -> Callable[[int], RandomSource]:
        return lambda number: self  # for experiments that ask for no source twice

    def _read_into(self, out: memoryview) -> None:
        raise AssertionError("raw bytes were asked of a script")

    def bytes(self, count: int) -> bytes:
        raise AssertionError("raw bytes were asked of a script")


class Ideal(Script):
    """Plays the samplers of `RandomSource` as what they claim to be."""

    def integer(self, bound: int) -> int:
        return self.choose(bound)

    def uniform_into(self, out: NDArray[Any], group: Zq) -> None:
        out[:] = [self.choose(group.q) for _ in range(out.size)]

    def below(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array([self.choose(int(bound)) for bound in bounds], dtype=np.int64)

    def permutation(self, n: int) -> NDArray[np.int64]:
        index = self.choose(math.factorial(n))
        return np.array(list(permutations(range(n)))[index], dtype=np.int64)


class Halves(Ideal):
    """Plays Bernoulli variables, and rounding of what is an integer or in the middle of two."""

    def bernoullis(self, probability: Fraction, size: int) -> NDArray[np.bool_]:
        return np.array([self.flip(probability) for _ in range(size)], dtype=np.bool_)

    def fill(self, out: NDArray[Any]) -> None:
        # the first digits of a rounding: with the others 0 they never tie, and the first decides
        assert out.dtype == np.uint16
        out[:] = [self.choose(2) << 15 for _ in range(out.size)]


class Words(Script):
    """Plays the raw words under the real samplers, with ``bits`` bits that matter in each.

    The bits stand at the bottom of a word, where masking looks, or at the top, where sort keys do;
    the others are zero. Unfinished after ``draws`` requests, for samplers that reject.
    """

    def __init__(
        self, path: list[tuple[int, int]], least: Fraction, bits: int, draws: int, top: bool
    ) -> None:
        super().__init__(path, least)
        self.bits, self.draws, self.top = bits, draws, top

    def _count_draw(self) -> None:
        if not self.draws:
            raise Unfinished
        self.draws -= 1

    def fill(self, out: NDArray[Any]) -> None:
        self._count_draw()
        shift = 8 * out.dtype.itemsize - self.bits if self.top else 0
        out[:] = [self.choose(1 << self.bits) << shift for _ in range(out.size)]

    def bytes(self, count: int) -> bytes:
        self._count_draw()
        assert self.bits <= 8 * count
        return self.choose(1 << self.bits).to_bytes(count, "little")


def words(bits: int, draws: int, *, top: bool = False) -> Callable[..., Words]:
    """Return a maker of `Words` for `exact_law`."""
    return lambda path, least: Words(path, least, bits, draws, top)


def exact_law(
    experiment: Callable[[Any], Hashable],
    source: Callable[[list[tuple[int, int]], Fraction], Script] = Ideal,
    *,
    least: Fraction | int = 0,
) -> tuple[Law, Fraction]:
    """Return an experiment's law, and the probability of the paths left unfinished.

    Parameters
    ----------
    experiment : callable
        Takes the random source, returns the outcome.
    source : callable
        Makes the source from a path.
    least : Fraction
        Paths less likely than this are given up when they branch again.
    """
    law: dict[Any, Fraction] = defaultdict(Fraction)
    unfinished = Fraction(0)
    path: list[tuple[int, int]] = []
    while True:
        script = source(path, Fraction(least))
        try:
            outcome = experiment(script)
        except Unfinished:
            unfinished += script.weight
        else:
            assert script.step == len(path)
            law[outcome] += script.weight
        while path and path[-1][0] == path[-1][1] - 1:
            path.pop()
        if not path:
            break
        index, arity = path[-1]
        path[-1] = (index + 1, arity)
    assert sum(law.values()) + unfinished == 1
    return dict(law), unfinished


# The analyzer's view, counted from the definition and without the library


def share_tuples(x: int, q: int, total: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to write x as a sum of ``total`` elements of Z_q."""
    for free in product(range(q), repeat=total - 1):
        yield (*free, (x - sum(free)) % q)


def view_counts(
    inputs: tuple[int, ...], q: int, shuffled: int, shuffler: str, clear: bool
) -> Counter[Hashable]:
    """Return how many share choices lead to each view: multisets, and clear shares in order."""
    counts: Counter[Hashable] = Counter()
    total = shuffled + clear
    for users in product(*(list(share_tuples(x, q, total)) for x in inputs)):
        rows = list(zip(*users, strict=True))
        mixed = rows[:shuffled]
        columns = [[share for row in mixed for share in row]] if shuffler == "single" else mixed
        seen = tuple(tuple(sorted(column)) for column in columns)
        counts[seen, rows[-1] if clear else None] += 1
    return counts


def view_law(inputs: tuple[int, ...], q: int, shuffled: int, shuffler: str, clear: bool) -> Law:
    """Return the law of the view for given inputs."""
    counts = view_counts(inputs, q, shuffled, shuffler, clear)
    total = sum(counts.values())
    return {view: Fraction(count, total) for view, count in counts.items()}


def hockey_stick(first: Law, second: Law, ratio: Fraction) -> Fraction:
    """Return the sum of the positive parts of ``first - ratio * second``."""
    gain = (p - ratio * second.get(outcome, Fraction(0)) for outcome, p in first.items())
    return sum((g for g in gain if g > 0), Fraction(0))


def total_variation(first: Law, second: Law) -> Fraction:
    """Return the total variation distance of two laws."""
    return hockey_stick(first, second, Fraction(1))


def worst_case_variation(n: int, q: int, shuffled: int, shuffler: str, clear: bool) -> Fraction:
    """Return the largest total variation between views of inputs with the same sum."""
    by_sum: dict[int, list[Law]] = defaultdict(list)
    for inputs in product(range(q), repeat=n):
        by_sum[sum(inputs) % q].append(view_law(inputs, q, shuffled, shuffler, clear))
    return max(
        total_variation(laws[i], laws[j])
        for laws in by_sum.values()
        for i in range(len(laws))
        for j in range(i)
    )
