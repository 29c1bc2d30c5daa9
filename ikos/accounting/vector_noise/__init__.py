"""What independent noise in every coordinate guarantees for a sum of integer vectors.

One user's replacement moves the sum by some k in Z^d, of which bounds of the l1, l2 and l-infinity
norms are known. Each coordinate gets independent noise, discrete Laplace of one rate (inverse
scale, for each step) or discrete Gaussian of one variance.

Laplace noise of rate r makes coordinate j (r |k_j|)-differentially private: its two laws are what
some function makes of randomized response on two values with e_j = r |k_j| (Kairouz, Oh,
Viswanath, *The Composition Theorem for Differential Privacy*, ICML 2015). As coordinates are
independent, the whole is at most what the product of these responses tells. Three bounds of that,
each for every k within the norms; at most s coordinates of k differ from 0, and s is at most d, the
l1 norm and the square of the l2 norm, k being integer.

*Pure.* The e_j add up to at most r l1.

*Composition.* Each e_j is at most r linf, and a response with smaller e is a function of one with
a larger e: s responses with e = r linf. Their delta is known exactly (Theorem 3.3, there), and if
linf = 1 it is the delta of discrete Laplace noise itself for k of s ones.

*Renyi.* Randomized response with e^2 = u has (a - 1) D_a = F(u) for the order a > 1,

    F(u) = L((a - 1/2)^2 u) - L(u / 4),      L(v) = ln cosh sqrt v,

and these add up over coordinates. F is concave: with x = sqrt v, v^2 L''(v) = g(x) =
x (x sech^2 x - tanh x) / 4, and 4 g'(x) = x sech^2 x - tanh x - 2 x^2 sech^2 x tanh x < 0, because
tanh x > x sech^2 x (tanh is concave, tanh 0 = 0). So u^2 F''(u) = g((a - 1/2) sqrt u) -
g(sqrt(u) / 2) < 0. F(0) = 0, and F increases, as v L'(v) = x tanh(x) / 2 does. Hence the sum of
F(u_j) over at most s coordinates, with the u_j adding up to at most r^2 l2^2, is at most
s F(r^2 l2^2 / s).

Discrete Gaussian noise of variance parameter v has D_a <= a l2^2 / (2 v) (CKS20, Theorem 14). A
delta follows from any order (CKS20, Proposition 12):

    delta <= exp((a - 1)(D_a - epsilon)) (1 - 1/a)^a / (a - 1).

CKS20 is Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020.
"""

from __future__ import annotations

from ikos.accounting.vector_noise.gaussian import gaussian_delta, gaussian_variance, least_variance
from ikos.accounting.vector_noise.laplace import (
    METHODS,
    NoiseRate,
    best_rate,
    laplace_delta,
    laplace_rate,
)
from ikos.accounting.vector_noise.sensitivity import Sensitivity, Shift

__all__ = [
    "METHODS",
    "NoiseRate",
    "Sensitivity",
    "Shift",
    "best_rate",
    "gaussian_delta",
    "gaussian_variance",
    "laplace_delta",
    "laplace_rate",
    "least_variance",
]
