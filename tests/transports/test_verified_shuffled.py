"""Verified sums in the shuffle model: what hides values is proved again, by the page's formula."""

from __future__ import annotations

import math
from typing import Any

import gmpy2
import pytest
from gmpy2 import mpfr

from ikos import (
    Box,
    Categories,
    InvalidValue,
    PrivateSum,
    PrivateVectorSum,
    SecureSum,
    SecureVectorSum,
    Sensitivity,
)
from ikos.accounting.uniform_noise import composed_delta
from ikos.noise.uniform_noise import UniformNoise
from ikos.transports import Shuffled, VerifiedShuffled

BITS = 6000  # q^n / (n!)^m and the like are exact


def moment(n: int, m: int, q: int) -> mpfr:
    """Return 1 + Delta of m parallel columns without a clear share: E[q^(C - 1)].

    C is the number of orbits of m - 1 permutations; by the exponential formula, with weights
    f_k = k!^(m - 2), it is the coefficient of z^n in F(z)^q, over q f_n.
    """
    with gmpy2.context(precision=BITS):
        f = [mpfr(math.factorial(k)) ** (m - 2) for k in range(n + 1)]
        c = [mpfr(1)]
        for j in range(1, n + 1):
            c.append(sum((k * (q + 1) - j) * f[k] * c[j - k] for k in range(1, j + 1)) / j)
        return c[n] / (q * f[n])


def least_delta(protocol: Any, moved: int, steps: int, releases: int = 1) -> float:
    """Return the least delta of formula (2) of the page on proofs, over a grid of c."""
    transport, excess = protocol.transport, mpfr(1)
    for shares in filter(None, (transport.keys, transport.coordinates)):
        m = shares.layout.count.total - shares.trust.corrupt_shufflers
        one = moment(protocol.min_honest, m, shares.q**shares.layout.length)
        excess *= one**shares.layout.sums
    excess, found = excess - 1, []
    for power in range(1, 60):
        c = 2.0**-power
        epsilon = float(protocol.epsilon) - 2 * releases * math.log1p(c)
        if epsilon > 0:
            of_noise = composed_delta(
                protocol.min_honest, protocol.noise.width, steps, epsilon, moved * releases
            )
            hidden = releases * (1 + c) ** (2 * releases - 2) * excess / (4 * c)
            hidden *= 1 + (1 + c) ** 3 * math.exp(epsilon)
            found.append((1 + c) ** releases * of_noise + float(hidden))
    return min(found)


COUNTS = [(100, 1e-4, 50, 65), (1000, 1e-6, 31, 44), (10**4, 1e-8, 25, 34),
          (10**5, 1e-8, 20, 27), (10**6, 1e-8, 17, 23)]  # fmt: skip


@pytest.mark.parametrize(("n", "delta", "private", "secure"), COUNTS)
def test_the_counts_of_the_documentation(n: int, delta: float, private: int, secure: int) -> None:
    keys = PrivateSum(n, 1, delta, transport="verified-shuffled").transport.keys
    assert keys.layout.count.total == private
    transport = SecureSum(n, upper=10, transport="verified-shuffled").transport
    assert transport.keys.layout.count.total == secure  # type: ignore[attr-defined]


PROMISE = Sensitivity(linf=0.5)
CASES = {
    "numbers": lambda **of: PrivateSum(60, 1, 1e-3, **of),
    "fewer honest": lambda **of: PrivateSum(70, 1, 1e-3, min_honest=60, **of),
    "box": lambda **of: PrivateVectorSum(60, Box(4), 2, 1e-3, **of),
    "classes": lambda **of: PrivateVectorSum(60, Categories([4]), 4, 1e-3, **of),
    "promise": lambda **of: PrivateVectorSum(60, Box(4), 2, 1e-3, sensitivity=PROMISE, **of),
    "windows": lambda **of: PrivateVectorSum(60, Box(4), 4, 1e-3, releases=3, **of),
}


@pytest.mark.parametrize("layout", ["separate", "group", 3, "blocks"])
@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("corrupt", [0, 2])
def test_delta_is_no_less_than_by_the_formula(kind: str, layout: Any, corrupt: int) -> None:
    """Also of blocks of coordinates, whose groups are larger, and take more messages."""
    options = Shuffled(clear_share=False, corrupt_shufflers=corrupt, layout=layout)
    protocol = CASES[kind](transport=VerifiedShuffled(options))
    shift = protocol.encoding.shift(protocol.dimension)
    releases = protocol.releases
    least = least_delta(protocol, shift.moved, shift.linf, releases)
    assert 0.99 * least <= protocol.total_delta <= protocol.delta
    assert protocol.guarantee.delta == protocol.total_delta
    assert UniformNoise.hiding_theorem in protocol.guarantee.theorem
    coordinates = protocol.transport.coordinates
    if coordinates is not None and isinstance(layout, int):
        assert coordinates.layout.length == layout


@pytest.mark.parametrize(
    "shares", [Shuffled(), Shuffled(adaptive=True), Shuffled(clear_share=False, adaptive=True)]
)
def test_no_other_share_bypasses_the_shufflers(shares: Shuffled) -> None:
    with pytest.raises(InvalidValue, match=r"^shares must be Shuffled\(clear_share=False"):
        VerifiedShuffled(shares)


@pytest.mark.parametrize(("layout", "proved"), [("separate", True), ("group", False)])
def test_what_is_not_proved_for_a_group_is_said(layout: str, proved: bool) -> None:
    shares = Shuffled("single", clear_share=False, analysis="ghazi2020", layout=layout)
    transport = VerifiedShuffled(shares)
    protocol = SecureVectorSum(10**4, 3, upper=10, transport=transport)
    assert gmpy2.is_prime(protocol.transport.coordinates.q)  # type: ignore[attr-defined]
    texts = [one.text for one in protocol.guarantee.conditions]
    assert any(text.startswith("NOT for this group") for text in texts) != proved
