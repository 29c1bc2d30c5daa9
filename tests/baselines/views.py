"""The exact law of a view behind one shuffler, for users whose noise has laws of their own.

A user's report is a vector of counts of residues, and reports add up; see
`exact.test_private_view`, whose laws these are.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from exact.test_private_view import hockey_stick, multiset_laws, noise_modulo
from numpy.typing import NDArray
from scipy.signal import fftconvolve

Noise = NDArray[np.float64]

__all__ = ["no_noise", "noise_modulo", "view_delta", "view_law"]


def no_noise(q: int) -> Noise:
    """Return the law of nothing."""
    return np.asarray(np.eye(q)[0])


def view_law(x: tuple[int, ...], noises: tuple[Noise, ...], q: int, m: int) -> Noise:
    """Return the law of the counts of residues 1..q-1 among everybody's m shares."""
    laws = multiset_laws(q, m)
    view = np.ones((1,) * (q - 1))
    for value, noise in zip(x, noises, strict=True):
        report = sum(noise[k] * laws[(value + k) % q] for k in range(q))
        view = fftconvolve(view, report)
    assert abs(view.sum() - 1) < 1e-12
    return np.asarray(np.maximum(view, 0))


def view_delta(noises: tuple[Noise, ...], q: int, m: int, p: int, epsilon: float) -> float:
    """Return the largest divergence between inputs in {0, p} that differ in one user, any of them.

    Other inputs are mixtures of these, and the divergence is jointly convex.
    """
    users, worst = len(noises), 0.0
    for changed in range(users):
        for others in product((0, p), repeat=users - 1):
            low, high = (
                view_law((*others[:changed], value, *others[changed:]), noises, q, m)
                for value in (0, p)
            )
            worst = max(worst, hockey_stick(low, high, epsilon), hockey_stick(high, low, epsilon))
    return worst
