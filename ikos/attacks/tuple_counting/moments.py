"""The exact moments of the counts and of S, for every n >= 2, m >= 1, q >= 2 and d not 0 modulo q.

With a clear share the residues y_i are independent and uniform, whatever x is; without one, let x
be uniform. Either way all m n shuffled messages are independent and uniform, and under x

    E N(y_1) = 1 + (n^m - 1)/q,      Var N(y_1) = (n^m - 1)(q - 1)/q^2,
    E S = 2,                         Var S = 4 (n^m + 2^m - 2)/q.

*Proof.* For a tuple t other than the target's own let X_t be its sum less y_1: the sum, over the
shufflers j where t does not take user 1's message, of the message that it takes less that of user
1. Messages of users other than 1 enter with coefficient 1, and two different tuples differ in
which of them enter, so any two of the X_t are independent and uniform. N(y_1) counts the zeros
among them, and the target's own tuple: the first line. Let f = 1[X = 0] - 1[X = d], with mean 0
and mean square 2/q; then N(y_1) - N(y_1 + d) is 1 plus a sum of n^m - 1 uncorrelated f(X_t), with
variance 2 (n^m - 1)/q, and likewise for user 2, with Y_u and g = 1[Y = 0] - 1[Y = -d]. X_t and Y_u
are linear forms in the messages with coefficients -1, 0 and 1; they are independent and uniform
unless they are proportional modulo a prime divisor of q. Comparing the coefficients of each
shuffler's messages shows that this happens only where t takes messages of users 1 and 2 alone,
and u takes those of the two that t does not. Then Y_u = -X_t and g(Y_u) = f(X_t). There are
2^m - 1 such t that are not user 1's own tuple, each with E f(X_t) g(Y_u) = 2/q, and twice their
sum is what Var S has beyond 4 (n^m - 1)/q. QED
"""

from __future__ import annotations

from fractions import Fraction

from ikos._validation import integer


def count_moments(n: int, q: int, m: int) -> tuple[Fraction, Fraction]:
    """Return the exact mean and variance of a target's tuple count.

    Parameters
    ----------
    n, q, m : int
        Users, order of the group, shuffled messages of each user.

    Returns
    -------
    mean, variance : Fraction
        Of the number of tuples that add up to the target's own residue, over the messages (and
        over uniform inputs where there is no clear share): ``1 + (n^m - 1)/q`` and
        ``(n^m - 1)(q - 1)/q^2``. For another residue the mean is less by 1 and the variance is
        the same.

    Examples
    --------
    >>> count_moments(10, 50, 2)
    (Fraction(149, 50), Fraction(4851, 2500))
    """
    n, q, m = integer("n", n, low=1), integer("q", q, low=2), integer("m", m, low=1)
    others = n**m - 1
    return 1 + Fraction(others, q), Fraction(others * (q - 1), q * q)


def statistic_moments(n: int, q: int, m: int) -> tuple[Fraction, Fraction]:
    """Return the exact mean and variance of `statistic` under x.

    Parameters
    ----------
    n, q, m : int
        Users (at least 2), order of the group, shuffled messages of each user.

    Returns
    -------
    mean, variance : Fraction
        2 and ``4 (n^m + 2^m - 2)/q``, over the messages (and over uniform inputs where there is
        no clear share), whatever the difference. Under x' the mean is -2.

    Examples
    --------
    >>> statistic_moments(10, 50, 2)
    (Fraction(2, 1), Fraction(204, 25))
    """
    n, q, m = integer("n", n, low=2), integer("q", q, low=2), integer("m", m, low=1)
    return Fraction(2), Fraction(4 * (n**m + 2**m - 2), q)
