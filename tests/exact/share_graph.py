"""The share graph's components and the views' laws at small sizes, counted from the definitions.

A permutation of the slots sends each slot of a user to a slot of a user. The graph has an edge
from the first to the second: on the users when there is a clear share, and from left copies to
right copies of them when there is none. Nothing here uses a formula of the library or the papers,
but for `component_counts`, which is a generating function and is checked against the enumeration.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, islice, permutations, product
from typing import NamedTuple

from gmpy2 import mpq

SETTINGS = [("parallel", True), ("single", True), ("parallel", False), ("single", False)]

# The graph of one permutation


def components(size: int, edges: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Return the component of each vertex, named after its least vertex."""
    name = list(range(size))
    for a, b in edges:
        if name[a] != name[b]:
            low, high = sorted((name[a], name[b]))
            name = [low if label == high else label for label in name]
    return tuple(name)


def all_slot_permutations(n: int, m: int, shuffler: str) -> Iterator[tuple[int, ...]]:
    """Yield every permutation of the shuffler's group; slot ``h * n + i`` is user i's h-th."""
    if shuffler == "single":
        yield from permutations(range(m * n))
        return
    for rows in product(permutations(range(n)), repeat=m):
        yield tuple(h * n + target for h, row in enumerate(rows) for target in row)


def all_graphs(n: int, m: int, shuffler: str, clear: bool) -> Counter[tuple[int, ...]]:
    """Return the number of permutations for each partition of the vertices into components.

    Without a clear share vertex i < n is the left copy of user i, and n + i the right copy.
    """
    size, right = (n, 0) if clear else (2 * n, n)
    counts: Counter[tuple[int, ...]] = Counter()
    for slots in all_slot_permutations(n, m, shuffler):
        counts[components(size, ((j % n, right + t % n) for j, t in enumerate(slots)))] += 1
    return counts


# All permutations at once: slots are sent one by one, and graphs that differ only by names are one

NONE = -1  # a copy without outgoing, or without incoming, slots
Vertex = tuple[int, int]  # how many outgoing and incoming slots are free
Graph = tuple[tuple[Vertex, ...], ...]


def _canonical(graph: Iterable[Iterable[Vertex]]) -> Graph:
    return tuple(sorted(tuple(sorted(component)) for component in graph))


def _fresh(vertex: Vertex, slots: int) -> Vertex:
    out, into = vertex
    return (NONE if out == NONE else slots, NONE if into == NONE else slots)


def _send_one(graph: Graph) -> Iterator[tuple[Graph, int]]:
    """Yield the graphs after one more slot is sent, with the number of slots that lead there."""
    at, place = next(
        (a, p) for a, component in enumerate(graph) for p, v in enumerate(component) if v[0] > 0
    )
    parts = [list(component) for component in graph]
    out, into = parts[at][place]
    parts[at][place] = (out - 1, into)
    for other, component in enumerate(parts):
        for v in set(component):
            if v[1] <= 0:
                continue
            target = list(component)
            target.remove(v)
            target.append((v[0], v[1] - 1))
            rest = [part for p, part in enumerate(parts) if p not in (at, other)]
            joined = target if other == at else target + parts[at]
            yield _canonical([*rest, joined]), v[1] * component.count(v)


class SizesLaw(NamedTuple):
    """The number of permutations for each multiset of component sizes, in users."""

    n: int
    clear: bool
    counts: dict[tuple[int, ...], int]

    def mean(self, value: Callable[[tuple[int, ...]], Fraction | int]) -> Fraction:
        total = sum((count * value(s) for s, count in self.counts.items()), Fraction(0))
        return total / sum(self.counts.values())

    def count_is(self, c: int) -> Fraction:
        """Return P[C = c]."""
        return self.mean(lambda sizes: len(sizes) == c)

    def divergence(self, q: int) -> Fraction:
        """Return E[q^(C-1); C >= 2]."""
        return self.mean(lambda sizes: q ** (len(sizes) - 1) if len(sizes) > 1 else 0)

    def excess(self, q: int) -> Fraction:
        """Return E[q^(C-1)] - 1."""
        return self.mean(lambda sizes: q ** (len(sizes) - 1)) - 1

    def split(self, q: int, k: int) -> Fraction:
        """Return E[q^(C-1); k users split], on the left and on the right if there are two copies.

        Names are uniform given the sizes; those of left and right copies are independent.
        """
        copies = 1 if self.clear else 2
        return self.mean(lambda sizes: q ** (len(sizes) - 1) * split_chance(sizes, k) ** copies)

    def unbalanced(self, group: Group, d: Sequence[int]) -> Fraction:
        """Return E[q^(C-1); d has a non-zero sum on a component], for a clear share."""

        def value(sizes: tuple[int, ...]) -> Fraction:
            balanced = component_sums(group, tuple(d), sizes).get((0,) * len(sizes), Fraction(0))
            return group.q ** (len(sizes) - 1) * (1 - balanced)

        return self.mean(value)

    def matched(self, group: Group, x: Sequence[int], y: Sequence[int]) -> Fraction:
        """Return E[q^(C-1); x on the left and y on the right have the same sum everywhere]."""

        def value(sizes: tuple[int, ...]) -> Fraction:
            left, right = (component_sums(group, tuple(values), sizes) for values in (x, y))
            agree = sum((p * right.get(sums, 0) for sums, p in left.items()), Fraction(0))
            return group.q ** (len(sizes) - 1) * agree

        return self.mean(value)


@cache
def split_chance(sizes: tuple[int, ...], k: int) -> Fraction:
    """Return the chance that k users fall into several components of these sizes."""
    name = [i for i, size in enumerate(sizes) for _ in range(size)]
    subsets = list(combinations(name, k))
    return Fraction(sum(len(set(subset)) > 1 for subset in subsets), len(subsets))


@cache
def component_sums(
    group: Group, values: tuple[int, ...], sizes: tuple[int, ...]
) -> dict[tuple[int, ...], Fraction]:
    """Return the law of the values' sums on components of these sizes, when placed uniformly."""
    counts: Counter[tuple[int, ...]] = Counter()
    for placed in permutations(values):
        rest = iter(placed)
        counts[tuple(group.sum(islice(rest, size)) for size in sizes)] += 1
    return {sums: Fraction(count, math.factorial(len(values))) for sums, count in counts.items()}


@cache
def sizes_law(n: int, m: int, shuffler: str, clear: bool) -> SizesLaw:
    """Return the law of the component sizes, by sending the slots one after the other.

    A slot whose turn it is goes to each of the free slots; whose turn it is may depend on the
    graph so far. Parallel shufflers are m rounds of one slot each, a single one is a round of m.
    """
    single_users = [((0, 0),)] * n if clear else [((0, NONE),)] * n + [((NONE, 0),)] * n
    graphs: Counter[Graph] = Counter({_canonical(single_users): 1})
    rounds, slots = (m, 1) if shuffler == "parallel" else (1, m)
    for _ in range(rounds):
        started: Counter[Graph] = Counter()
        for graph, count in graphs.items():
            started[_canonical([_fresh(v, slots) for v in part] for part in graph)] += count
        graphs = started
        for _ in range(n * slots):
            sent: Counter[Graph] = Counter()
            for graph, count in graphs.items():
                for after, ways in _send_one(graph):
                    sent[after] += count * ways
            graphs = sent
    counts: Counter[tuple[int, ...]] = Counter()
    for graph, count in graphs.items():
        left = [sum(out != NONE for out, _ in part) for part in graph]
        right = [sum(into != NONE for _, into in part) for part in graph]
        assert left == right
        counts[tuple(sorted(left))] += count
    return SizesLaw(n, clear, dict(counts))


# Larger sizes: the exponential formula for the number of graphs with c components


def weight(k: int, m: int, shuffler: str, clear: bool) -> mpq:
    """Return f_k: the number of permutations of k users' slots over the ways to name the copies."""
    slots = math.factorial(k) ** m if shuffler == "parallel" else math.factorial(m * k)
    return mpq(slots, math.factorial(k) ** (1 if clear else 2))


@cache
def component_counts(top: int, m: int, shuffler: str, clear: bool) -> list[list[mpq]]:
    """Return P[C = c] on n users for n <= top, as a list over n of lists over c <= n.

    Sum f_n x^n is the exponential of the connected graphs' series K, and K^c / c! counts the
    graphs with c components.
    """
    f = [weight(k, m, shuffler, clear) for k in range(top + 1)]
    connected = [mpq(0)]
    for n in range(1, top + 1):
        # n f_n = sum_s s K_s f_(n-s), the derivative of an exponential
        known = sum((s * connected[s] * f[n - s] for s in range(1, n)), mpq(0))
        connected.append(f[n] - known / n)
    chance = [[mpq(int(n == 0))] for n in range(top + 1)]
    row = [mpq(1)] + [mpq(0)] * top
    for c in range(1, top + 1):
        row = [
            sum((connected[s] * row[n - s] for s in range(1, n + 1)), mpq(0)) / c
            for n in range(top + 1)
        ]
        for n in range(c, top + 1):
            chance[n].append(row[n] / f[n])
    return chance


# Views


class Group(NamedTuple):
    """A finite abelian group: a product of cyclic groups, elements numbered from 0."""

    moduli: tuple[int, ...]

    @property
    def q(self) -> int:
        return math.prod(self.moduli)

    def add(self, a: int, b: int) -> int:
        total, place = 0, 1
        for modulus in self.moduli:
            total += place * ((a % modulus + b % modulus) % modulus)
            a, b, place = a // modulus, b // modulus, place * modulus
        return total

    def sum(self, elements: Iterable[int]) -> int:
        total = 0
        for element in elements:
            total = self.add(total, element)
        return total

    def multisets(self, n: int) -> list[tuple[int, ...]]:
        """Return the inputs of n users, up to the order of the users."""
        return list(combinations_with_replacement(range(self.q), n))

    def zero_sums(self, n: int) -> list[tuple[int, ...]]:
        """Return the non-zero differences of sum zero, up to the order of the users."""
        return [d for d in self.multisets(n) if any(d) and self.sum(d) == 0]


def support(d: Sequence[int]) -> int:
    """Return how many users a difference changes."""
    return sum(value != 0 for value in d)


def unmatched(x: Sequence[int], y: Sequence[int]) -> int:
    """Return the least number of users on whom x and y differ, over the orders of both."""
    return (Counter(x) - Counter(y)).total()


class Views:
    """The views of shufflers that take m shares of each of n users, as counts.

    A view is a multiset for each shuffler; it is written as a number whose digits are how often
    each shuffler outputs each element, so that the views of disjoint users add up. The law does
    not depend on the order of the users.
    """

    def __init__(self, group: Group, n: int, m: int, shuffler: str) -> None:
        self.group, self.q, self.n, self.m, self.shuffler = group, group.q, n, m, shuffler
        self.base = m * n + 1
        self.choices = self.q ** ((m - 1) * n)
        self.reports: list[Counter[int]] = [Counter() for _ in range(self.q)]
        for shares in product(range(self.q), repeat=m):
            code = sum(self._digit(slot, share) for slot, share in enumerate(shares))
            self.reports[group.sum(shares)][code] += 1
        self._laws: dict[tuple[int, ...], Counter[int]] = {(): Counter({0: 1})}
        self.uniform = self._uniform()

    def _digit(self, slot: int, share: int) -> int:
        column = slot if self.shuffler == "parallel" else 0
        return int(self.base ** (column * self.q + share))

    def _uniform(self) -> list[Counter[int]]:
        """Return, for each sum, the number of tuples of shares with each view, whoever has them."""
        counts: Counter[tuple[int, int]] = Counter({(0, 0): 1})
        for slot in range(self.m):
            for _ in range(self.n):
                longer: Counter[tuple[int, int]] = Counter()
                for (code, total), count in counts.items():
                    for share in range(self.q):
                        key = code + self._digit(slot, share), self.group.add(total, share)
                        longer[key] += count
                counts = longer
        by_sum: list[Counter[int]] = [Counter() for _ in range(self.q)]
        for (code, total), count in counts.items():
            by_sum[total][code] = count
        return by_sum

    def law(self, x: Sequence[int]) -> Counter[int]:
        """Return the number of share choices for each view, out of ``choices``."""
        key = tuple(sorted(x))
        if key not in self._laws:
            law: Counter[int] = Counter()
            for before, count in self.law(key[:-1]).items():
                for code, ways in self.reports[key[-1]].items():
                    law[before + code] += count * ways
            self._laws[key] = law
        return self._laws[key]

    def variation(self, x: Sequence[int], y: Sequence[int]) -> Fraction:
        """Return the total variation between the views of x and y."""
        return self.hockey_stick(x, y, Fraction(0))

    def hockey_stick(self, x: Sequence[int], y: Sequence[int], c: Fraction) -> Fraction:
        """Return sum_v (P_x(v) - (1 + c) P_y(v))_+."""
        first, second = self.law(x), self.law(y)
        a, b = c.denominator, c.denominator + c.numerator
        gain = (a * count - b * second[view] for view, count in first.items())
        return Fraction(sum(g for g in gain if g > 0), a * self.choices)

    def agreement(self, x: Sequence[int], y: Sequence[int]) -> Fraction:
        """Return sum_v P_x(v) P_y(v) / U(v), over tuples v, whose order is uniform."""
        first, second = self.law(x), self.law(y)
        uniform = self.uniform[self.group.sum(x)]
        by_size: Counter[int] = Counter()
        for view, count in first.items():
            by_size[uniform[view]] += count * second[view]
        total = sum((Fraction(value, size) for size, value in by_size.items()), Fraction(0))
        return total * self.q ** (self.m * self.n - 1) / self.choices**2

    def distance(self, x: Sequence[int], y: Sequence[int]) -> Fraction:
        """Return sum_v (P_x(v) - P_y(v))^2 / U(v)."""
        return self.agreement(x, x) - 2 * self.agreement(x, y) + self.agreement(y, y)

    def averaged(
        self, d: Sequence[int], value: Callable[[Sequence[int], Sequence[int]], Fraction]
    ) -> Fraction:
        """Return the mean of ``value(X, X + d)``, X uniform: what a clear share shows."""
        pairs: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
        for x in product(range(self.q), repeat=self.n):
            y = (self.group.add(a, b) for a, b in zip(x, d, strict=True))
            pairs[tuple(sorted(x)), tuple(sorted(y))] += 1
        total = sum((count * value(x, y) for (x, y), count in pairs.items()), Fraction(0))
        return total / self.q**self.n


@cache
def views(moduli: tuple[int, ...], n: int, m: int, shuffler: str) -> Views:
    """Return the views of these shufflers, with their laws kept."""
    return Views(Group(moduli), n, m, shuffler)
