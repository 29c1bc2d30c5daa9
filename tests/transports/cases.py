"""Every transport with every domain of values: what `test_interface` runs the same tests on.

A transport that is added is an entry of `WAYS`, and a domain one of `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos import (
    Ball,
    Box,
    Categories,
    PrivateSum,
    PrivateVectorSum,
    SecureSum,
    SecureVectorSum,
    SparseTernary,
)
from ikos.testing import DeterministicRandom
from ikos.transports import (
    TRANSPORTS,
    Helpers,
    Masked,
    Recipe,
    Reports,
    Shuffled,
    Verified,
    VerifiedShuffled,
)

N, LEAST = 5, 3
"""Users of each sum, and how many must take part."""

CONTEXT = b"one sum"


@dataclass(frozen=True)
class Way:
    """A recipe, what its transport adds up, and if slowly.

    ``numbers``: not only vectors; ``secure``: sums without noise as well; ``moduli``: those of sums
    that wrap around, "all", "powers" of two or "none"; ``mixes``: parties release messages as they
    are, in another order; ``proves``: only values of which clients can prove that they are valid.
    """

    recipe: Recipe
    numbers: bool = True
    secure: bool = True
    moduli: str = "all"
    mixes: bool = True
    proves: bool = False
    slow: bool = False

    def wraps(self, q: int) -> bool:
        """Return whether sums modulo q may wrap around."""
        return self.moduli == "all" or (self.moduli == "powers" and q & (q - 1) == 0)


def _masked(**keys: Any) -> Way:
    """Return masks whose keys are added up by few messages: their level is not what is tested."""
    return Way(Masked(Shuffled(messages=4, **keys)), numbers=False, moduli="none", slow=True)


WAYS: dict[str, Way] = {
    "parallel": Way(Shuffled(messages=4)),
    "unclear": Way(Shuffled(clear_share=False, messages=4, layout=2)),
    "single": Way(Shuffled("single", messages=4, layout="group")),
    "alone": Way(Shuffled("single", clear_share=False, messages=4, layout=2)),
    "adaptive": Way(Shuffled(messages=4, layout=2, adaptive=True)),
    "helpers": Way(Helpers(2), moduli="powers", mixes=False),
    "noisy": Way(Helpers(1, "parties"), secure=False, moduli="powers", mixes=False),
    "relays": Way(Verified(2), moduli="none", mixes=False, proves=True),
    "openings": Way(
        VerifiedShuffled(Shuffled(clear_share=False, messages=4)),
        moduli="none",
        mixes=False,
        proves=True,
    ),
    "masks": _masked(layout="group"),
    "mask": _masked(layout=1024, shuffler="single", clear_share=False),
    "sealed": _masked(layout=1024, adaptive=True),
}


@dataclass(frozen=True)
class SumCase:
    """A sum of some domain: how it is made, and values of all users with extreme ones."""

    make: Callable[..., Any]
    values: Any
    arguments: dict[str, Any] = field(default_factory=dict)
    modulo: int | None = None

    @property
    def numbers(self) -> bool:
        return bool(np.ndim(self.values) == 1)

    @property
    def private(self) -> bool:
        return self.make in (PrivateSum, PrivateVectorSum)


def _secure(q: int, *values: Any) -> SumCase:
    x = [*values, *[[q - 1] * 3] * 3] if values else [q - 1, 0, 1, q // 2, 7]
    kind = np.uint64 if q == 2**64 else None  # which numpy would take for floats
    dimension = {"dimension": 3} if values else {}
    make = SecureVectorSum if values else SecureSum
    return SumCase(make, np.array(x, dtype=kind), {"q": q, **dimension}, q)


def _private(make: Callable[..., Any], values: Any, **arguments: Any) -> SumCase:
    """Return a sum of so little noise that sums of other values are beyond its interval."""
    return SumCase(make, np.array(values), {"epsilon": 60, "delta": 0.4, **arguments})


KINDS: dict[str, SumCase] = {
    "residues": _secure(2**61 - 1),
    "large": _secure(2**127 - 1),
    "words": _secure(2**64),
    "bytes": _secure(2**5, [0, 1, 31], [3, 2, 1]),
    "counts": SumCase(SecureSum, np.array([9, 0, 1, 9, 3]), {"upper": 9}),
    "columns": _secure(3 * 2**61, [0, 1, 2], [3, 2, 1]),
    "vectors": SumCase(
        SecureVectorSum,
        np.array([[9, 0, 1], [9, 9, 9], [0, 0, 0], [1, 2, 3], [9, 1, 0]]),
        {"upper": 9, "dimension": 3},
    ),
    "reals": _private(PrivateSum, [-1, 2, 0.3, 1.7, -0.2], lower=-1, upper=2, precision=8),
    "integers": _private(PrivateSum, [-3, 4, 0, 1, -1], lower=-3, upper=4, integers=True),
    "box": _private(
        PrivateVectorSum,
        [[0, 9, 5], [9, 9, 9], [0, 0, 0], [1, 2, 3], [8, 0, 7]],
        domain=Box(3, 0, 9),
        integers=True,
    ),
    "ball": _private(
        PrivateVectorSum,
        [[1, 0, 0], [0, -1, 0], [0.6, 0, 0.8], [0.1, 0.2, 0.3], [0, 0, 0]],
        domain=Ball(3),
        precision=8,
    ),
    "signs": _private(
        PrivateVectorSum,
        [[1, 0, -1], [0, 0, 0], [0, 1, 1], [-1, -1, 0], [0, 0, 1]],
        domain=SparseTernary(3, 2),
    ),
    "matrices": SumCase(
        SecureVectorSum,
        np.arange(5 * 6).reshape(5, 2, 3) * 7 % 10,
        {"upper": 9, "dimension": 6, "shape": (2, 3)},
    ),
    "tensors": _private(
        PrivateVectorSum,
        np.linspace(-0.4, 0.4, 5 * 6).reshape(5, 3, 1, 2),
        domain=Ball(6, shape=(3, 1, 2)),
        precision=8,
    ),
    "answers": _private(
        PrivateVectorSum,
        [[1, 0, 1, 0, 0], [0, 1, 0, 0, 1], [0, 1, 0, 1, 0], [1, 0, 0, 1, 0], [1, 0, 1, 0, 0]],
        domain=Categories([2, 3]),
    ),
    "choices": _private(PrivateVectorSum, np.eye(3)[[0, 1, 1, 2, 0]], domain=Categories([3])),
}

UNPROVED = {"ball", "signs", "tensors", "answers"}


@dataclass(frozen=True)
class Case:
    """A transport with a domain."""

    way: str
    kind: str

    @property
    def slow(self) -> bool:
        """Whether the transport is slow."""
        return WAYS[self.way].slow

    @property
    def quick(self) -> bool:
        """Whether it is one of fewer pairs, in which each transport and each domain occurs."""
        kinds = {"parallel": set(KINDS), "mask": {"vectors"}, "sealed": {"vectors"}}
        kinds |= {"helpers": {"words", "reals", "vectors"}, "noisy": {"reals", "ball", "answers"}}
        return self.kind in kinds.get(self.way, {"residues", "reals", "vectors", "ball"})

    @property
    def values(self) -> NDArray[Any]:
        """All users' values; whoever changes them would change those of other tests."""
        values: NDArray[Any] = KINDS[self.kind].values
        values.setflags(write=False)
        return values

    def make(self, **changes: Any) -> Any:
        """Return the sum, perhaps with other arguments."""
        kind = KINDS[self.kind]
        given = {"n": N, "min_honest": LEAST, "transport": WAYS[self.way].recipe}
        return kind.make(**{**given, **kind.arguments, **changes})

    @property
    def protocol(self) -> Any:
        """The sum, made once."""
        return _made(self)

    @property
    def private(self) -> bool:
        """Whether it adds noise."""
        return KINDS[self.kind].private

    def check(self, result: Any, users: int = N) -> None:
        """Require the sum of the first users' values: exactly, or as far as noise may be."""
        kind, x = KINDS[self.kind], self.values[:users]
        if kind.private:
            assert result.users == users
            assert np.shape(result.estimate) == x.shape[1:]
            low, high = result.interval(1 - 1e-9, simultaneous=True)
            assert np.all((low - 1e-9 <= x.sum(axis=0)) & (x.sum(axis=0) <= high + 1e-9))
            return
        totals = [sum(map(int, column)) for column in x.reshape(users, -1).T]
        expected = [total % kind.modulo if kind.modulo else total for total in totals]
        assert np.ravel(result).tolist() == expected
        assert np.shape(result) == x.shape[1:]


@cache
def _made(case: Case) -> Any:
    return case.make()


def _possible(way: str, kind: str) -> bool:
    transport, values = WAYS[way], KINDS[kind]
    if values.values.ndim > 2:  # vectors once they are read
        return way == "parallel" or (way, kind) in {("mask", "matrices"), ("noisy", "tensors")}
    if not (transport.secure or values.private) or (transport.proves and kind in UNPROVED):
        return False
    wraps = not values.modulo or transport.wraps(values.modulo)
    return (transport.numbers or not values.numbers) and wraps


CASES = {
    f"{way}-{kind}": Case(way, kind) for way, kind in product(WAYS, KINDS) if _possible(way, kind)
}

assert {type(way.recipe) for way in WAYS.values()} == set(TRANSPORTS.values())


def same(one: Any, other: Any) -> bool:
    """Return whether two results of one sum are equal."""
    values = (getattr(result, "estimate", result) for result in (one, other))
    return np.array_equal(*values)


def reports_of(protocol: Any, x: Iterable[Any], context: bytes = CONTEXT) -> list[Reports]:
    """Return a report of each value, from one reproducible source."""
    rng = DeterministicRandom(11)
    return [protocol.report(value, rng, context=context) for value in x]


def sent(parties: Sequence[Any], reports: Iterable[Reports]) -> None:
    """Give every party its parts."""
    for report in reports:
        for party in parties:
            party.receive(report.ids[0], report.parts[party.number])


def verify(parties: Sequence[Any]) -> None:
    """Let all parties refuse invalid reports, where the transport verifies them."""
    analyzer, *others = parties
    if analyzer.transport.verified:
        receipts = analyzer.receipts()
        for party in others:
            party.verify(receipts)


def released(parties: Sequence[Any]) -> list[Any]:
    """Let the analyzer choose the set, and all others release it."""
    analyzer, *others = parties
    verify(parties)
    chosen = analyzer.choose(*(party.ids for party in others))
    return [party.release(chosen) for party in others]


def by_parties(protocol: Any, reports: Iterable[Reports], context: bytes = CONTEXT) -> Any:
    """Return the result of parties of whom none sees what another does."""
    parties = protocol.parties(context)
    sent(parties, reports)
    return parties[0].analyze(released(parties))
