"""Trees of noisy counts over ordered bins: estimates of ranks, and the noise in them.

Level l of a tree has b_1 ... b_l nodes, each the number of users in a run of bins; its root would
be the number of users, which is public. All counts have independent noise of the same law. Least
squares makes them consistent (M. Hay, V. Rastogi, G. Miklau, D. Suciu, *Boosting the accuracy of
differentially private histograms through consistency*, VLDB 2010).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

_FLAT, _TWO = 45, 800
"""Most bins for which one level, and two, have the smallest mean squared error of ranks.

With Laplace noise, that of a count grows with the square of the number of levels.
"""


def fan_outs(bins: int) -> tuple[int, ...]:
    """Return the numbers of children on each level, of the best tree over so many bins or more.

    >>> fan_outs(20), fan_outs(121), fan_outs(1024)
    ((20,), (11, 11), (11, 10, 10))
    """
    levels = 1 if bins <= _FLAT else 2 if bins <= _TWO else 3
    fan = [math.ceil(bins ** (1 / levels) - 1e-9)] * levels
    for place in reversed(range(levels)):  # as few leaves as hold the bins, larger fans first
        if math.prod(fan) // fan[place] * (fan[place] - 1) >= bins:
            fan[place] -= 1
    return tuple(fan)


@dataclass(frozen=True)
class Tree:
    """A tree with the numbers of children ``fan`` on its levels, for a known number of users.

    Examples
    --------
    >>> tree = Tree((2, 2))
    >>> levels = np.array([5.0, 2, 1, 3, 0, 2])
    >>> (3 * tree.leaves(levels, 8)).round(9).tolist()
    [5.0, 11.0, 1.0, 7.0]
    """

    fan: Sequence[int]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of nodes on each level."""
        return tuple(math.prod(self.fan[: level + 1]) for level in range(len(self.fan)))

    def nodes(self, bins: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of the nodes of each bin, (k, levels), among all nodes."""
        firsts = np.cumsum((0, *self.sizes[:-1]))
        below = self.sizes[-1] // np.array(self.sizes)
        return np.asarray(firsts + bins[:, np.newaxis] // below)

    @cached_property
    def _variances(self) -> list[float]:
        """Variances of a node's count, estimated from itself and all below it, by level."""
        variances = [1.0]
        for fan in reversed(self.fan[1:]):
            variances.append(1 / (1 + 1 / (fan * variances[-1])))
        return variances[::-1]

    def leaves(self, counts: NDArray[np.float64], users: float | None) -> NDArray[np.float64]:
        """Return least squares estimates of the leaves, (..., leaves), from all nodes' counts.

        The number of ``users`` is their sum, unless it is unknown.
        """
        shape = counts.shape[:-1]
        levels = np.split(counts, np.cumsum(self.sizes[:-1]), axis=-1)
        upward = [levels[-1]]
        for level in reversed(range(len(self.fan) - 1)):
            v, below, fan = self._variances[level], self._variances[level + 1], self.fan[level + 1]
            sums = upward[-1].reshape(*shape, -1, fan).sum(axis=-1)
            upward.append(v * (levels[level] + sums / (fan * below)))
        total = upward[-1].sum(axis=-1, keepdims=True)
        if users is not None:
            total = np.full(total.shape, users)
        for fan, estimate in zip(self.fan, reversed(upward), strict=True):
            children = estimate.reshape(*shape, -1, fan)
            left = total - children.sum(axis=-1)
            total = (children + left[..., np.newaxis] / fan).reshape(*shape, -1)
        return np.asarray(total)

    def rank_weights(
        self, edges: NDArray[np.int64], share: float = 0.0, *, known: bool = True
    ) -> NDArray[np.float64]:
        """Return how much each node's count adds to the estimated number in the first leaves.

        ``edges`` are k numbers of leaves, and the result (k, nodes). A ``share`` of the number in
        all leaves is subtracted; it matters if the number of users is not ``known``.
        """
        weights = (np.arange(self.sizes[-1]) < edges[:, np.newaxis]).astype(np.float64)
        return self._adjoint(weights - share, known)

    def _adjoint(self, weights: NDArray[np.float64], known: bool) -> NDArray[np.float64]:
        """Return the transpose of `leaves`, a linear map of counts, for weights of leaves."""
        k = weights.shape[0]
        downward = []  # weights of the upward estimates, from the leaves to the first level
        for level in reversed(range(len(self.fan))):
            children = weights.reshape(k, -1, self.fan[level])
            mean = children.mean(axis=-1, keepdims=True)
            if not (known or level):
                mean = np.zeros_like(mean)
            downward.append((children - mean).reshape(k, -1))
            weights = mean[..., 0]
        levels = downward[::-1]
        for level in range(len(self.fan) - 1):
            v, below, fan = self._variances[level], self._variances[level + 1], self.fan[level + 1]
            levels[level] = levels[level] * v
            levels[level + 1] = levels[level + 1] + np.repeat(
                levels[level] / (fan * below), fan, axis=-1
            )
        return np.concatenate(levels, axis=-1)
