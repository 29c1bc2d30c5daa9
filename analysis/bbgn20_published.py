"""What BBGN20's Section 4 and Appendix A state of the recursive protocol: no guarantees.

See the errata of the documentation. Digits that are private are `ikos.accounting.paper_digits` and
`ikos.accounting.optimized_digits`; of any others `ikos.accounting.digits_delta` is proved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ikos._validation import integer, number


def doubly_exponential_precisions(n: int) -> tuple[int, ...]:
    """Return Theorem 4.2's second choice, p_j = 2^(3^j) for j up to floor(log_3 log_2 n).

    n is from 8 to 2^243 - 1. The first choice is
    `ikos.accounting.digits_bbgn20.published_precisions`.

    Examples
    --------
    >>> doubly_exponential_precisions(2**27), doubly_exponential_precisions(2**27 - 1)
    ((8, 512, 134217728), (8, 512))
    """
    users = integer("n", n, low=8, high=2**243 - 1)
    return tuple(2**3**j for j in range(1, 5) if 2**3**j <= users)


def published_gammas(
    n: int, epsilon: float, delta: float, precisions: Sequence[int]
) -> tuple[float, ...]:
    """Return the gamma_j of Theorem 4.2 as printed, which may exceed 1.

    ``14 (p_j + [j = m]) ln(2 m / delta) m^2 / ((n - 1) eps^2)``: an equal part of the budget for
    each message. With p_j in place of p_j + 1 values it is not proved (docs/errata.md).

    Examples
    --------
    >>> [f"{gamma:.3g}" for gamma in published_gammas(10**5, 1, 1e-10, (8, 512))]
    ['0.109', '7.01']
    """
    users, m = integer("n", n, low=2), len(precisions)
    eps, small = (
        float(number("epsilon", epsilon, above=0)),
        number("delta", delta, above=0, below=1),
    )
    rate = 14 * math.log(2 * m / float(small)) * m * m / ((users - 1) * eps**2)
    return tuple(rate * (p + (j == m)) for j, p in enumerate(precisions, 1))


def recursive_order(
    log_n: float, messages: int, epsilon: float = 1.0, a: float | None = None
) -> float:
    """Return n a^(3 - 3^(m+1)) + a^3 m^3 / eps^2, the order of Theorem 4.2's error.

    It is that of p_j = a^(3^j) for any real a > 1 (Appendix A), by default for the best one,
    ((3^m - 1) n eps^2 / m^3)^(3^(-m-1)). Even with that one and the best number of messages it
    grows as (log log n)^3, as Remark A.1 says.

    Parameters
    ----------
    log_n : float
        Natural logarithm of the number of users.
    messages : int
        m.

    Examples
    --------
    >>> for power in (4, 9, 100, 10**6, 10**12):
    ...     log_n = power * math.log(10)
    ...     best = min(recursive_order(log_n, m) for m in range(1, 60))
    ...     print(f"n = 10^{power:<14}{best:8.1f}{best / math.log(log_n, 3) ** 3:6.2f}")
    n = 10^4                 25.0  3.03
    n = 10^9                 60.3  2.87
    n = 10^100              297.1  2.45
    n = 10^1000000         3962.5  1.67
    n = 10^1000000000000  24276.5  1.40
    """
    m = integer("messages", messages, low=1, high=300)
    users = float(number("log_n", log_n, above=0))
    square = float(number("epsilon", epsilon, above=0)) ** 2
    if a is None:
        log_a = (math.log((3.0**m - 1) * square / m**3) + users) / 3.0 ** (m + 1)
    else:
        log_a = math.log(float(number("a", a, above=1)))
    logs = users + (3 - 3.0 ** (m + 1)) * log_a, 3 * log_a + math.log(m**3 / square)
    return sum(math.exp(each) if each < 700 else math.inf for each in logs)
