"""Parameters of masked vectors: message sizes, the probability of a wrong sum, the guarantee.

Each client masks its vector under its own key, by Ring-LWE, and only the keys go through a secure
sum. Proofs are in docs/masked-vectors.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Unpack

import gmpy2
from gmpy2 import mpfr

from ikos._validation import MAX_MASKED_USERS, InvalidValue, integer, quote
from ikos.counts.analyses import checked_scheme
from ikos.counts.types import TrustChoices
from ikos.counts.vectors import ENVELOPE_BYTES, Layout, secure_layout
from ikos.numeric.rounding import DOWN, UP, exact, float_down, float_up, rational, rounding
from ikos.results.text import Printed

LARGEST_MODULUS = {1024: 26, 2048: 53, 4096: 106, 8192: 214}
"""Bits of Q at 128 bits of security against classical computers, by degree, for an error of
standard deviation 3.2 and ternary secrets: "Security Guidelines for Implementing Homomorphic
Encryption" (ePrint 2024/463), the 2024 revision of the homomorphic encryption standard."""

DEGREES = (2048, 4096)

DEVIATION = 6
"""Sigma of keys and errors; their variance is 2 (s1^2 + s2^2)."""

ASSUMED_VARIANCE = Fraction(16, 5) ** 2
"""s1^2: of secrets and errors in the Ring-LWE problem that is assumed to be hard."""

_MAX_DIMENSION = 1 << 40

SEAL_BYTES = 32
"""Size of each shuffler's share of the key that seals a masked vector."""


def smoothing() -> mpfr:
    """Return an upper bound on eps/(1 - eps), the cost of splitting a coefficient."""
    rest = Fraction(DEVIATION**2, 2) - ASSUMED_VARIANCE
    variance = ASSUMED_VARIANCE * rest / (ASSUMED_VARIANCE + rest)
    # with y = e^(2 pi^2 v), eps = 2 (y^-1 + y^-4 + y^-9 + ...) is at most 2/(y - 1)
    with rounding(DOWN):
        rest = gmpy2.exp(2 * gmpy2.const_pi() ** 2 * rational(variance)) - 3
    with rounding(UP):
        return 2 / rest


def _dropped_variance(bits: int) -> Fraction:
    """Return the variance of uniform bits, which are a sum of signs once centred."""
    return Fraction(4**bits - 1, 12)


def _bits(variance: Fraction, coefficients: int, more: int) -> int:
    """Return the bits for values from -b to b and ``more``, which few coefficients exceed.

    One does with probability 2^-41. ``variance`` is sub-Gaussian; two tails of each are counted.
    """
    with rounding(UP):
        bound = gmpy2.sqrt(2 * rational(variance) * gmpy2.log(mpfr(coefficients << 42)))
        room = int(gmpy2.ceil(2 * bound + more))
    return (room - 1).bit_length()


def _tail(variance: Fraction, coefficients: int, bound: int) -> mpfr:
    """Return an upper bound on the probability that some coefficient reaches a bound."""
    exponent = exact(-Fraction(bound**2) / (2 * variance), UP)
    with rounding(UP):
        return 2 * coefficients * gmpy2.exp(exponent)


def least_shift(users: int, dropped_bits: int, coefficients: int) -> int:
    """Return the least g such that errors and dropped bits stay below 2^(g-1)."""
    variance = users * (DEVIATION**2 + _dropped_variance(dropped_bits))
    return _bits(variance, coefficients, (1 << dropped_bits) + 2)


def least_key_modulus(users: int, degree: int) -> int:
    """Return the least power of two modulo which the sum of keys does not wrap around."""
    return 1 << _bits(Fraction(users * DEVIATION**2), degree, 1)


@dataclass(frozen=True)
class MaskParameters(Printed):
    """The parameters that all parties agree on, and the guarantee that they prove.

    Attributes
    ----------
    users, dimension : int
        Largest number of clients, and coordinates of each vector.
    min_honest : int
        Minimum number of honest clients, 2 or more.
    degree : int
        N, a power of two: coefficients of a polynomial, and of a key.
    modulus_bits : int
        K: coefficients are modulo Q = 2^K.
    plaintext_bits : int
        log T, ``digits * digit_bits``: sums are modulo T, above ``shift`` bits for the errors.
    dropped_bits : int
        r, the low bits of each coefficient that are not sent.
    digit_bits : int
        log M: sums of coordinates are in [-M/2, M/2).
    digits : int
        Coordinates in a coefficient.
    key_modulus : int
        Order of the group of a key's coefficient in the secure sum, a power of two.
    samples : int
        L, polynomials per client.
    deviation : int
        Sigma of the discrete Gaussian distribution of keys and errors.

    Examples
    --------
    >>> print(mask_parameters(10_000, 10**6, 2**20 - 1))
    N = 4096, Q = 2^98, 4 coordinates of 21 bits a coefficient, 4 bits dropped: 2,983,936 bytes
    """

    users: int
    dimension: int
    min_honest: int
    degree: int
    modulus_bits: int
    plaintext_bits: int
    dropped_bits: int
    digit_bits: int
    digits: int
    key_modulus: int
    samples: int
    deviation: int = DEVIATION

    def __post_init__(self) -> None:
        integer("users", self.users, low=2, high=MAX_MASKED_USERS)
        integer("dimension", self.dimension, low=1, high=_MAX_DIMENSION)
        integer("min_honest", self.min_honest, low=2, high=self.users)
        integer("digit_bits", self.digit_bits, low=1)
        integer("digits", self.digits, low=1)
        if self.degree not in DEGREES:
            raise InvalidValue("degree", f"must be one of {DEGREES}, got {quote(self.degree)}")
        bits = self.plaintext_bits
        integer("modulus_bits", self.modulus_bits, low=bits, high=LARGEST_MODULUS[self.degree])
        integer("dropped_bits", self.dropped_bits, low=0, high=self.shift)
        for name, needed in (
            ("deviation", DEVIATION),
            ("plaintext_bits", self.digits * self.digit_bits),
            ("samples", -(-self.dimension // (self.degree * self.digits))),
        ):
            integer(name, getattr(self, name), low=needed, high=needed)
        least = least_shift(self.users, self.dropped_bits, self.coefficients)
        integer("modulus_bits", self.modulus_bits, low=bits + least)
        q = integer("key_modulus", self.key_modulus, low=least_key_modulus(self.users, self.degree))
        if q & (q - 1):
            raise InvalidValue("key_modulus", f"must be a power of two, got {quote(q)}")

    @property
    def shift(self) -> int:
        """Bits below the plaintext, g: K - log T."""
        return self.modulus_bits - self.plaintext_bits

    @property
    def coefficients(self) -> int:
        """Coefficients that a client sends, N for each of L polynomials."""
        return self.samples * self.degree

    @property
    def masked_bytes(self) -> int:
        """Bytes of each client's masked vector."""
        return -(-self.coefficients * (self.modulus_bits - self.dropped_bits) // 8)

    @property
    def failure(self) -> float:
        """Upper bound on the probability that the sum of honest clients is wrong, rounded up.

        If bits are dropped, add the advantage that the Ring-LWE assumption leaves.
        """
        variance = Fraction(self.users * DEVIATION**2)
        keys = _tail(variance, self.degree, self.key_modulus // 2)
        variance += self.users * _dropped_variance(self.dropped_bits)
        bound = (1 << self.shift - 1) - (1 << self.dropped_bits) // 2
        vectors = _tail(variance, self.coefficients, bound)
        with rounding(UP):
            return float_up(keys + vectors)

    @property
    def security(self) -> float:
        """Bits of the statistical term of the theorem if all users are honest, rounded down."""
        terms = (self.users - 1) * self.degree * (self.samples + 1)
        with rounding(UP):
            return float_down(-gmpy2.log2(terms * smoothing()))

    @property
    def row(self) -> str:
        """The Ring-LWE assumption, and the row of the table that supports it."""
        return (
            f"Ring-LWE with N = {self.degree}, Q = 2^{self.modulus_bits}, standard deviation 3.2, "
            f"samples per key {self.samples}; 128 bits, classical, up to "
            f"2^{LARGEST_MODULUS[self.degree]} (ePrint 2024/463)"
        )

    def key_layout(
        self,
        sigma: float | Fraction = 80,
        overhead: int = ENVELOPE_BYTES,
        **choices: Unpack[TrustChoices],
    ) -> Layout:
        """Return the blocks in which keys take the fewest bytes at a level of sigma bits."""
        choices["min_honest"] = self.min_honest
        scheme = checked_scheme(self.users, self.key_modulus, **choices)
        return secure_layout(scheme, sigma, self.degree, "blocks", overhead)

    def __str__(self) -> str:
        return (
            f"N = {self.degree}, Q = 2^{self.modulus_bits}, {self.digits} coordinates of "
            f"{self.digit_bits} bits a coefficient, {self.dropped_bits} bits dropped: "
            f"{self.masked_bytes:,} bytes"
        )


@dataclass(frozen=True)
class MaskedLayout(Layout):
    """The messages per user: a masked vector, ``keys``, and 32 bytes for each of ``shufflers``.

    ``count`` and ``length`` are those of the keys' blocks; ``sigma`` is for the whole vector.
    """

    masks: MaskParameters = field(kw_only=True)
    keys: Layout = field(kw_only=True)
    shufflers: int = field(kw_only=True)

    @property
    def name(self) -> str:
        """Its name."""
        return "masked vectors"

    @property
    def sums(self) -> int:
        """Number of blocks of a key."""
        return self.keys.sums

    @property
    def messages_per_user(self) -> int:
        """Messages per user: the masked vector, and shares of the key."""
        return self.keys.messages_per_user + 1

    @property
    def bits_per_message(self) -> int:
        """Bits of each share of a key."""
        return self.keys.bits_per_message

    @property
    def bits_per_user(self) -> int:
        """Bits that each user sends, before any encryption."""
        sealed = self.masks.masked_bytes + SEAL_BYTES * self.shufflers
        return self.keys.bits_per_user + 8 * sealed

    def __str__(self) -> str:
        return f"{self.name}: {self.masks}; keys in {self.keys}"


def _fitting(
    users: int, dimension: int, honest: int, degree: int, bits: int
) -> Iterator[MaskParameters]:
    """Yield parameters with every number of digits and of dropped bits that fits a degree."""
    key_modulus, most = least_key_modulus(users, degree), LARGEST_MODULUS[degree]
    for digits in range(1, most // bits + 1):
        samples = -(-dimension // (degree * digits))
        for dropped in range(most):
            modulus = digits * bits + least_shift(users, dropped, samples * degree)
            if modulus > most:
                break
            size = degree, modulus, digits * bits, dropped, bits, digits
            yield MaskParameters(users, dimension, honest, *size, key_modulus, samples)


def mask_parameters(
    users: int,
    dimension: int,
    largest: int,
    *,
    degree: int | None = None,
    sigma: float | Fraction = 80,
    overhead: int = ENVELOPE_BYTES,
    **choices: Unpack[TrustChoices],
) -> MaskParameters:
    """Return the parameters with which each client sends the fewest bytes.

    Parameters
    ----------
    users, dimension : int
        Largest number of clients, and coordinates of each vector.
    largest : int
        Bound on the absolute value of each coordinate of the sum, noise included.
    degree : {2048, 4096}, optional
        N; by default the one that takes fewer bytes, keys included.
    sigma, overhead, **choices
        As in `vector_layouts`, for the secure sum of keys; at least two users must be honest.

    Raises
    ------
    ValueError
        If one coordinate does not fit; the message names the degree in which one would.

    Examples
    --------
    >>> found = mask_parameters(1000, 10**5, 2**20 - 1)
    >>> found.degree, found.modulus_bits, found.dropped_bits, found.masked_bytes
    (2048, 34, 5, 363776)
    """
    n = integer("users", users, low=2, high=MAX_MASKED_USERS)
    d = integer("dimension", dimension, low=1)
    honest = choices.get("min_honest")
    honest = n if honest is None else integer("min_honest", honest, low=2, high=n)
    bits = (2 * integer("largest", largest, low=1)).bit_length()
    if degree not in (None, *DEGREES):
        raise InvalidValue("degree", f"must be one of {DEGREES}, got {quote(degree)}")
    candidates = [
        min(fitting, key=lambda parameters: (parameters.masked_bytes, parameters.modulus_bits))
        for each in (DEGREES if degree is None else (degree,))
        if (fitting := list(_fitting(n, d, honest, each, bits)))
    ]
    if not candidates:
        raise InvalidValue("largest", _refusal(n, d, degree, bits))

    def sent(parameters: MaskParameters) -> int:
        keys = parameters.key_layout(sigma, overhead, **choices)
        return parameters.masked_bytes + keys.bytes_per_user(overhead)

    return min(candidates, key=sent)


def _refusal(users: int, dimension: int, degree: int | None, bits: int) -> str:
    """Return why no coordinate fits a coefficient, and the degree in which one would."""
    would = (
        larger
        for larger, most in LARGEST_MODULUS.items()
        if bits + least_shift(users, 0, -(-dimension // larger) * larger) <= most
    )
    return (
        f"must leave room for errors below 2^{LARGEST_MODULUS[degree or DEGREES[-1]]}, "
        f"got sums of {bits} bits: N = {next(would, None)} would fit"
    )
