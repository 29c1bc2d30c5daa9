"""The direct comparison's delta once more, in ball arithmetic, from the formulas of its theorem.

Moments of tuples, weights and the rest beyond the cutoff are the library's, which other tests
check; y_B, the noise, and every term are evaluated anew, as balls that contain the true values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from counts.moments import flint

from ikos.counts.direct_comparison import DirectPoint
from ikos.counts.higher_moments import setting
from ikos.counts.tuple_moments import (
    arrangements,
    connecting,
    partitions,
    tuple_moments,
    without_singletons,
)


def ball(number: Any) -> Any:
    """Return a finite number exactly, or a fraction."""
    return flint.arb(flint.fmpq(*map(int, number.as_integer_ratio())))


def clusters(n: int, q: int, m: int, highest: int) -> list[Any]:
    """Return y_B by sums over the first partition, split into its connected parts."""
    theta, blocks = flint.arb(q).root(m - 1), {}
    for total in range(2, highest + 1):
        for t in partitions(total, 2):
            blocks[t] = sum(
                count * flint.arb(n) ** (u - total) * theta ** (total - len(t) - u + 1)
                for u, count in enumerate(connecting(t))
            )
    memo: dict[tuple[int, ...], Any] = {(): flint.arb(1)}

    def connected_sum(t: tuple[int, ...]) -> Any:
        """Return I_t: the blocks joined to the first one, and the rest."""
        if t not in memo:
            value = flint.arb(0)
            for chosen in range(1 << (len(t) - 1)):
                inside = (t[0], *(b for i, b in enumerate(t[1:]) if chosen >> i & 1))
                outside = tuple(b for i, b in enumerate(t[1:]) if not chosen >> i & 1)
                value += blocks[inside] * connected_sum(outside)
            memo[t] = value
        return memo[t]

    whole = [
        sum(
            (
                arrangements(t) * flint.arb(n) ** (len(t) - k) * connected_sum(t) ** (m - 1)
                for t in partitions(k, 2)
            ),
            flint.arb(k == 0),
        )
        if k
        else flint.arb(1)
        for k in range(highest + 1)
    ]
    y = [flint.arb(0)] * 2
    for size in range(2, highest + 1):
        parts = (math.comb(size - 1, b - 1) * y[b] * whole[size - b] for b in range(2, size))
        y.append(whole[size] - sum(parts, flint.arb(0)))
    return y


@dataclass(frozen=True)
class NoiseBalls:
    """Lemma 5 for noise proportional to exp(-rate |k|), modulo q, and shifts of at most p."""

    epsilon: Any
    mean: Any  # of J
    D: Any
    D1: Any
    D2: Any  # squared
    eta: Any

    @classmethod
    def of(cls, q: int, rate: Fraction, p: int) -> NoiseBalls:
        alpha = (-ball(rate)).exp()
        square = alpha**2

        def increase(x: int) -> Any:
            """F(x) - F(0), by its series and a geometric bound on what is left."""
            total = sum((1 / flint.arb(y) for y in range(1, x + 1)), flint.arb(0))
            power, y = flint.arb(1), 0
            while not power < flint.arb(2) ** -120:
                y, power = y + 1, power * square
                total += power / (x + y)
            rest = power * square / (1 - square) / (x + y)
            return total + flint.arb(rest / 2, rest / 2) + (1 - square).log()

        D1 = 2 * increase(-(-p // 2))
        eta, k = D1, q // 4 - p
        if k >= 0:
            inside = (4 * alpha ** flint.arb(flint.fmpq(q, 2)) / q / (1 - square)).min(D1)
            eta = (inside**2 + 2 * D1**2 * alpha ** (k + 1) / (1 + alpha)).sqrt()
        mean = -2 * (1 - alpha).log()
        return cls(ball(rate * p), mean, increase(p), D1, (1 - square) * D1, eta)

    def norm(self, K: int) -> Any:
        """(E J^K)^(1/K), by Stirling numbers."""
        row = [1]
        for _ in range(K):
            row = [i * a + b for i, (a, b) in enumerate(zip([*row, 0], [0, *row], strict=True))]
        return sum((count * self.mean**i for i, count in enumerate(row)), flint.arb(0)).root(K)

    def beta(self, n: int, c: Any, K: int, s: int) -> Any:
        first = 2 * self.D1 + 2 * c * (self.norm(K) + self.D)
        second = flint.arb(2 * s) / n * self.norm(2 * K) ** 2 * (1 + (self.epsilon / K).exp())
        return flint.arb(s) / n * (first + second)


@dataclass(frozen=True)
class DirectBalls:
    """Every number of a bound at given parameters."""

    main: Any
    remainder: Any
    user: Any
    single: Any
    paired: Any
    own: Any
    proved: Any


def evaluate(
    n: int,
    q: int,
    m: int,
    noise: NoiseBalls,
    c: Any,
    at: DirectPoint,
    main: Any = None,
    highest: int = 20,
) -> DirectBalls:
    """Return the theorem at given parameters; with ``main``, for a given g_0."""
    known, moments = setting(n, q, m), tuple_moments(n, q, m, highest)
    assert known is not None
    arb, d = flint.arb, at.d
    W, tau = [ball(weight) for weight in known.weights], ball(known.rest)
    u, b_c, f = arb(q) / (q - 1), 1 + (1 + c) ** 2, (noise.mean + noise.mean**2).sqrt()
    mu = noise.mean
    g_2 = (mu**4 + 4 * mu**3 + 2 * mu**2).sqrt()
    eps = noise.epsilon

    def t(j: int) -> Any:
        return arb(math.perm(n, j)) / arb(n) ** j

    def g(j: int) -> Any:
        return arb(q - 1) ** j / arb(math.perm(n, j)) ** m * (1 - t(j) ** m)

    def special(j: int) -> Any:
        tau_j = sum(arb(k) * n**b for b, k in enumerate(without_singletons(2 * j))) / arb(n) ** j
        few = tau_j - math.prod(range(1, 2 * j, 2))
        ones = j * (j - 1) * ((2 + few) ** m - 1) + m * few * (1 + few) ** (m - 1)
        return (arb(q - 1) ** (j - 1) * ones + 2 * arb(q) ** (j - 2) * tau_j**m) / arb(n) ** (j * m)

    def ell(s: int) -> Any:
        first = (noise.D**2 + noise.D2).sqrt() + noise.eta + arb(2).sqrt() * c * (f + noise.D)
        second = arb(2).sqrt() * g_2 * (1 + (eps / 2).exp())
        return u.sqrt() * (first * s / n + second * s * s / n**2)

    def gamma(s: int) -> Any:
        first = arb(2).sqrt() * (f + (1 + c) * (f + noise.D))
        return u.sqrt() * (first * s / n + b_c.sqrt() * m * s * (s + 1) / (2 * n))

    end, zero = known.cutoff, arb(0)
    cross = sum(
        (
            arb(s + 1) / n * W[s + 1] * gamma(s) ** 2
            + math.comb(n - 1, s) * (u * b_c * g(s + 1) + (2 + c) ** 2 * special(s + 1))
            for s in range(1, d + 1)
        ),
        zero,
    )
    high = (2 + c) ** 2 * sum((arb(s) / n * W[s] for s in range(d + 2, end)), zero)
    low = sum((W[s] * ell(s) ** 2 for s in range(3 if at.lifted else 2, end)), zero)
    r = sum(W[d + 1 :], zero)
    for j in range(3 if at.lifted == 2 else 2, d + 1):
        grown = (1 + t(j)) ** m
        alike = special(j) * (1 + t(j) ** (-2 * m)) * grown / (grown - 1)
        r += math.comb(n - 1, j) * (g(j) + alike)
    remainder = cross + high + (low.sqrt() + c * r.sqrt()) ** 2 + (2 + c) ** 2 * tau

    y_B = clusters(n, q, m, highest)
    users, pairs = arb(n) ** m, arb(n + 1) ** m
    direct = 3 * (pairs - users - 1) * q**2 + (arb(3 * n + 1) ** m - 3 * pairs + 2) * q + q**3
    y_B[4] = y_B[4].min(direct / users**3)
    z = [y * (2 + c) ** k for k, y in enumerate(y_B)]
    z[2] = b_c * q / users
    X = [arb(1), zero]
    for k in range(2, highest + 1):
        X.append(sum((math.comb(k - 1, b - 1) * z[b] * X[k - b] for b in range(2, k + 1)), zero))

    h1, h2, y, part, shift, share, parts = (
        arb(value) for value in (at.h1, at.h2, at.y, at.part, at.shift, at.share, at.pairs)
    )
    if main is None:
        series = [arb(1), h1]
        for j in range(2, 200):
            series.append((h1 * series[-1] + h2 * series[-2]) / j)
        L = h2.sqrt() * y**2 / 3 - (1 - y).log() - y - y**2 / 2 - y**3 / 3
        whole = (h1 + h2 / 2).exp()
        main = 1 / whole - (whole - sum(series[: d + 1], zero)) - whole * L.expm1()
    c_0 = part * c
    b, room = shift * c_0, (c - c_0) * main
    c_Y, c_P = share * room, parts * room
    c_R = room - c_Y - c_P

    def tail(K: int) -> Any:
        return arb((K - 1) ** (K - 1)) / K**K

    K = at.K
    user = sum((math.comb(K, k) * b ** (K - k) * X[k] for k in range(K + 1)), zero)
    single = noise.beta(n, c, at.K_Y, 1) ** at.K_Y * ball(moments.total[at.K_Y])
    proved = tail(K) * user / (c_0 + b) ** (K - 1) + tail(at.K_Y) * single / c_Y ** (at.K_Y - 1)
    paired = zero
    if at.lifted:
        moved = noise.beta(n, c, at.K_Q, 2) + (c if at.lifted == 2 else 0)
        paired = (moved / (2 * t(2) ** m)) ** at.K_Q * ball(moments.total[2 * at.K_Q])
        proved += tail(at.K_Q) * paired / c_P ** (at.K_Q - 1)
    proved += remainder / (4 * c_R)
    fourth = arb(n - 1) ** (at.K4 // 4) * ball(moments.single[at.K4]) / y**at.K4
    bad = ball(moments.total[at.K1]) / h1**at.K1 + ball(moments.squares[at.l]) / h2**at.l
    c_2 = arb(at.far) * c
    bad += fourth + X[at.K3] / c_2**at.K3
    h = arb(max(at.h1, math.sqrt(at.h2)))
    proved += ((c_2 + c) * sum((h**j for j in range(d + 1)), zero) + c * main) * bad
    return DirectBalls(main, remainder, user, single, paired, X[at.K3], proved)
