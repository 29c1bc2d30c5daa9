"""How many messages are enough for the private sum, by each analysis."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import gmpy2
from gmpy2 import mpfr

from ikos._validation import integer, number, quote
from ikos.counts import hockey_stick, second_moment
from ikos.counts.rounding import DOWN, UP, exact, float_down, float_up, rounding
from ikos.counts.secure import MAX_SIGMA, checked_trust, least, proved, setting, smallest
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import MessageCount

MAX_PRECISION = 1 << 100
MIN_EPSILON, MIN_DELTA = math.nextafter(1e-100, 0), math.nextafter(1e-300, 0)
MAX_EPSILON = 1e6
"""Budgets within these are counted: what lies outside is a slip, and overflows doubles."""


def checked_budget(
    epsilon: object, delta: object, reserve: object
) -> tuple[Fraction, Fraction, Fraction]:
    """Check and return a budget and the share of it that hiding may take."""
    return (
        number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON),
        number("delta", delta, above=0, low=MIN_DELTA, below=1),
        number("reserve", reserve, low=0, high=0.5),
    )


def share_graphs(m: int, shuffler: str, clear_share: bool) -> list[ShareGraph]:
    """Return the graphs whose bounds hold for m shuffled messages, each by itself."""
    graphs = [ShareGraph(m, shuffler, clear_share)] if m else []
    if not clear_share and m >= 2:
        # a clear share may be shuffled with the others
        graphs.append(ShareGraph(m - 1, shuffler, True))
    return graphs


def private_message_count(
    n: int,
    q: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    precision: int,
    *,
    analysis: str = "best",
    shuffler: str = "parallel",
    clear_share: bool = True,
    min_honest: int | None = None,
    corrupt_shufflers: int = 0,
    reserve: float | Fraction = 0.01,
) -> MessageCount:
    """Return how many messages the private sum needs to be (epsilon, delta)-private.

    Parameters
    ----------
    n : int
        Users.
    q : int
        Order of the group.
    epsilon, delta : float
        The guarantee, under replacement of one user's value; epsilon > 0, 0 < delta < 1.
    precision : int
        Steps of the encoding, {0..precision}. The published analyses do not depend on it.
    analysis, shuffler, clear_share
        As in `security_level`.
    min_honest : int, optional
        Count for this many users in place of ``n``.
    corrupt_shufflers : int
        How many of the parallel shufflers may collude with the analyzer. As many messages are
        added; ``shuffled`` counts these, too.
    reserve : float
        Largest share of epsilon that may be spent on the imperfect hiding instead of noise, 0 to
        1/2. As little of it is spent as allows the count. The published analyses spend none.

    Returns
    -------
    MessageCount
        The smallest count, with the delta that it proves (rounded up) and the epsilon that is left
        for the noise (``noise_epsilon``, rounded down): the noise must be discrete Laplace of rate
        ``noise_epsilon / precision``. For "second_moment" by the hockey-stick theorem; for the
        others with sigma >= log2((1 + e^epsilon) / delta), which is enough by BBGN20, Lemma 5.2.

    Raises
    ------
    ValueError
        If an argument is out of range, or the analysis does not cover the setting.

    Examples
    --------
    >>> count = private_message_count(10**6, 2**31, 1.0, 1e-12, 1000)
    >>> count.total, count.noise_epsilon >= 0.99
    (6, True)
    >>> private_message_count(10**6, 2**31, 1.0, 1e-12, 1000, analysis="balle2020").total
    9
    """
    n, q, analysis, shuffler, clear_share = setting(n, q, analysis, shuffler, clear_share)
    users, corrupt = checked_trust(n, min_honest, corrupt_shufflers, shuffler)
    budget, allowed, spare = checked_budget(epsilon, delta, reserve)
    precision = integer("precision", precision, low=1, high=MAX_PRECISION)
    if analysis != "second_moment":
        with rounding(UP):
            needed = gmpy2.log2((1 + gmpy2.exp(exact(budget, UP))) / exact(allowed, DOWN))
        if needed > MAX_SIGMA:
            raise ValueError(
                f"epsilon must not ask for more than {MAX_SIGMA} bits of security with "
                f"analysis={analysis!r}, got {quote(epsilon)}; analysis='best' has no such limit"
            )
        shuffled = least(
            (users, users),
            q,
            float_up(needed),
            analysis=analysis,
            shuffler=shuffler,
            clear_share=clear_share,
        ).shuffled

    def with_messages(m: int, most: int = users) -> MessageCount:
        return private_proved(
            users,
            q,
            m,
            budget,
            allowed,
            precision,
            analysis=analysis,
            shuffler=shuffler,
            clear_share=clear_share,
            reserve=spare,
            most=most,
        )

    def enough(m: int) -> bool:
        found = with_messages(m).delta
        assert found is not None
        return m >= 1 and found <= allowed

    if analysis == "second_moment":
        shuffled = smallest(enough, near(users, q, allowed, shuffler, clear_share, budget))
    return with_messages(shuffled, n).with_corruption(corrupt)


def near(
    n: int,
    q: int,
    delta: Fraction,
    shuffler: str,
    clear_share: bool,
    epsilon: Fraction = Fraction(0),
) -> int:
    """Return a count to begin a search for privacy by "second_moment" at.

    The second moments count e^epsilon times in delta. From a guess without that factor a large
    epsilon takes dozens of tries, and each may run a recursion.
    """
    bits = float(epsilon) / math.log(2) - float(gmpy2.log2(exact(delta, DOWN)))
    sigma = (1 + bits) / 2
    return max(2, second_moment.guess(n, q, sigma, shuffler=shuffler, clear_share=clear_share))


def private_proved(
    n: int,
    q: int,
    m: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    precision: int,
    *,
    analysis: str = "best",
    shuffler: str = "parallel",
    clear_share: bool = True,
    reserve: float | Fraction = 0.01,
    dimension: int = 1,
    sensitivity: int | None = None,
    sums: int = 1,
    most: int | None = None,
) -> MessageCount:
    """Return m shuffled messages with the privacy that is proved for them, if only nothing.

    Parameters
    ----------
    n : int
        Users who share the noise.
    m : int
        Shuffled messages of each, at least 0.
    delta : float
        The delta wanted: for "second_moment", as little of epsilon as reaches it is spent on
        hiding, or as much as makes delta smallest where it is not reached.
    dimension : int
        For "second_moment", the coordinates of a vector that is shared as one element of a group of
        order q, each encoded in {0..precision} and noisy at rate noise_epsilon / sensitivity.
    sensitivity : int, optional
        For "second_moment", how far a user's replacement moves the sum at most, in l1 norm over all
        coordinates: ``sums * dimension * precision`` unless less is promised.
    sums : int
        For "second_moment", how many such sums are shared apart from each other, each in a group of
        order q, with shufflers of its own, and with noise for all of them together: ``delta`` and
        ``noise_epsilon`` are those of the whole, the counts and ``sigma`` those of each.
    most : int, optional
        Honest users at most, n by default. The delta for n of them is one for more as it is;
        ``sigma``, of inputs that may differ everywhere, is proved for each number in between.
    q, epsilon, precision, analysis, shuffler, clear_share, reserve
        As in `private_message_count`.

    Returns
    -------
    MessageCount
        ``delta`` is 1.0 where nothing is proved.

    Examples
    --------
    >>> f"{private_proved(1000, 2**16, 6, 1, 1e-9, 32).delta:.1e}"
    '1.0e-09'
    """
    n, q, analysis, shuffler, clear_share = setting(n, q, analysis, shuffler, clear_share)
    budget, _, spare = checked_budget(epsilon, 0.5, reserve)
    allowed = number("delta", delta, above=0, below=1)  # however small: asks for the smallest
    m = integer("m", m, low=0)
    precision = integer("precision", precision, low=1, high=MAX_PRECISION)
    dimension, sums = integer("dimension", dimension, low=1), integer("sums", sums, low=1)
    most = n if most is None else integer("most", most, low=n)
    how = {"analysis": analysis, "shuffler": shuffler}
    count = proved((n, most), q, m, clear_share=clear_share, **how)
    if analysis != "second_moment":
        hidden = proved((n, n), q, m, clear_share=clear_share, **how)
        return replace(lemma_5_2(hidden, budget), sigma=count.sigma)
    full = precision * dimension * sums
    moved = full if sensitivity is None else integer("sensitivity", sensitivity, low=1, high=full)
    found = ways(
        n,
        q,
        m,
        budget,
        allowed,
        sensitivity=moved,
        shuffler=shuffler,
        clear_share=clear_share,
        reserve=spare,
        dimension=dimension,
        sums=sums,
    )
    if not found or found[0][1].delta >= 1:
        return _unproved(count, budget)
    best = found[0][1]
    return replace(
        count,
        analysis="second_moment",
        theorem=hockey_stick.THEOREM,
        delta=float_up(best.delta),
        noise_epsilon=best.noise_epsilon,
    )


def ways(
    n: int,
    q: int,
    m: int,
    epsilon: Fraction,
    delta: Fraction,
    *,
    sensitivity: int,
    shuffler: str,
    clear_share: bool,
    reserve: Fraction,
    dimension: int = 1,
    sums: int = 1,
) -> list[tuple[ShareGraph, hockey_stick.Privacy]]:
    """Return the second-moment proofs of privacy for m shuffled messages, the best one first.

    That is the one with the most left for the noise among those that reach delta, and where none
    does, the one with the smallest delta. Parameters as for `hockey_stick.privacy`.
    """
    allowed = exact(delta, DOWN)

    def preference(way: tuple[ShareGraph, hockey_stick.Privacy]) -> tuple[bool, float, mpfr]:
        reached = bool(way[1].delta <= allowed)
        return not reached, -way[1].noise_epsilon if reached else 0.0, way[1].delta

    found = [
        (
            graph,
            hockey_stick.privacy(
                n,
                q,
                graph,
                epsilon=epsilon,
                delta=delta,
                sensitivity=sensitivity,
                reserve=reserve,
                dimension=dimension,
                sums=sums,
            ),
        )
        for graph in share_graphs(m, shuffler, clear_share)
    ]
    return sorted(found, key=preference)


def _unproved(count: MessageCount, epsilon: Fraction) -> MessageCount:
    with rounding(DOWN):
        noise_epsilon = float_down(exact(epsilon, DOWN))
    return replace(count, delta=1.0, noise_epsilon=noise_epsilon)


def lemma_5_2(count: MessageCount, epsilon: Fraction) -> MessageCount:
    """Return a count with the delta that its sigma buys by BBGN20, Lemma 5.2.

    The private sum is (epsilon, (1 + e^epsilon) 2^-sigma)-differentially private; all of epsilon
    goes to the noise. The delta is rounded up, and is 1.0 where nothing is proved.
    """
    found = _unproved(count, epsilon)
    if count.analysis is None:
        return found
    with rounding(UP):
        delta = (1 + gmpy2.exp(exact(epsilon, UP))) * gmpy2.exp2(
            -exact(Fraction(count.sigma), DOWN)
        )
        return replace(
            found,
            theorem=f"BBGN20, Lemma 5.2, with {count.theorem}",
            delta=min(1.0, float_up(delta)),
        )
