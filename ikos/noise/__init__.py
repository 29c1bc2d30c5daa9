"""Exact noise by integer arithmetic: geometric, Polya, discrete Laplace and Gaussian.

There is no floating point: the scale ``s`` is a rational (a float stands for its exact value), and
neither ``exp(-s)`` nor a logarithm is computed. The time of a draw depends on its value, so a
client should send at a time that does not depend on it.

CKS20 is Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020; GX17 is
Goryczka, Xiong, "A Comprehensive Comparison of Multiparty Secure Additions with Differential
Privacy", 2017; BBGN20 is Balle, Bell, Gascon, Nissim, "Private Summation in the Multi-Message
Shuffle Model", CCS 2020.
"""

from __future__ import annotations

from ikos.noise.gaussian import discrete_gaussian
from ikos.noise.laplace import discrete_laplace, geometric
from ikos.noise.shares import polya, polya_population

__all__ = ["discrete_gaussian", "discrete_laplace", "geometric", "polya", "polya_population"]
