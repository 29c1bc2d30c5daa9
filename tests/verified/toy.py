"""Groups small enough to enumerate, in place of secp256k1: vectors over Z_p, added.

With one coordinate, every element generates and all relations are known. With a coordinate for each
generator, an element is what the algebraic group model knows of it: its exponents to each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

Element = tuple[int, ...]


class Toy:
    """What `ikos.verified.proofs` uses of `ikos.verified.group`."""

    SCALAR_BYTES = 1

    def __init__(self, p: int, generators: Mapping[str, Element], seed: int = 0) -> None:
        self.ORDER = p
        self.generators = generators
        self.POINT_BYTES = len(generators["h"])
        self.BASE = generators["value 0"]
        self.nonces: Callable[[int], int] = lambda index: 0
        self.oracle: dict[tuple[bytes, ...], int] = {}
        self.rng = random.Random(seed)

    def generator(self, label: str) -> Element:
        return self.generators[label]

    def decode(self, data: bytes) -> Element:
        if len(data) != self.POINT_BYTES:
            raise ValueError
        return tuple(data)

    def encode(self, element: Element | None) -> bytes:
        return bytes(element or [0] * self.POINT_BYTES)

    def scalars(self, data: bytes) -> list[int]:
        return list(data)

    def combine(self, elements: Sequence[Element | None]) -> Element | None:
        return self.power_product(elements, [1] * len(elements))

    def power_product(self, elements, exponents) -> Element | None:
        total = [0] * self.POINT_BYTES
        for element, exponent in zip(elements, exponents, strict=True):
            for at, x in enumerate(element or ()):
                total[at] = (total[at] + x * exponent) % self.ORDER
        return tuple(total) if any(total) else None

    def hash_scalar(self, label: bytes, *parts: bytes) -> int:
        """Return a scripted nonce, or a random function's value."""
        if label.endswith(b"nonce"):
            return self.nonces(parts[-1][-1])
        if parts not in self.oracle:
            self.oracle[parts] = self.rng.randrange(self.ORDER)
        return self.oracle[parts]


def one_coordinate(p: int, wires: int, dimension: int, seed: int) -> Toy:
    """Return Z_p itself, with random generators."""
    rng = random.Random(seed)
    labels = ["h", "k", *(f"{kind} {j}" for kind in ("bit", "square") for j in range(wires))]
    labels += [f"value {i}" for i in range(dimension)]
    return Toy(p, {label: (rng.randrange(1, p),) for label in labels}, seed)


def independent(p: int, labels: Sequence[str]) -> Toy:
    """Return the group of exponents to generators of which nobody knows a relation."""
    return Toy(p, {one: tuple(int(one == other) for other in labels) for one in labels})
