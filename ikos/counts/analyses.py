"""The analyses from which counts follow: one object and one entry in the table for each."""

from __future__ import annotations

from ikos._validation import MAX_COUNTED_USERS, InvalidValue, choice, flag, integer
from ikos.counts.best import Best
from ikos.counts.direct_comparison import DirectComparison
from ikos.counts.higher_moments import HigherMoments
from ikos.counts.published import Balle2020, Ghazi2020, Ishai2006
from ikos.counts.second_moment import SecondMoment
from ikos.counts.types import MAX_BITS, Analysis, Scheme, Trust

BEST = Best.name
"""The default analysis, which takes the best of this library's bounds."""

TABLE: dict[str, Analysis] = {
    analysis.name: analysis
    for analysis in (
        Best(), DirectComparison(), HigherMoments(), SecondMoment(), Balle2020(), Ghazi2020(),
        Ishai2006(),
    )
}  # fmt: skip
"""Every analysis by its name, the tightest first."""

ANALYSES = tuple(name for name in TABLE if name != BEST)
"""Names of the analyses, the tightest first."""


LEVELS = tuple(name for name in ANALYSES if TABLE[name].level_analysis.name == name)
"""Names of the analyses with their own security levels, for secure sums."""


def checked_analysis(analysis: object) -> str:
    """Check and return the name of an analysis; "exact" is an older name of "best"."""
    name = choice("analysis", analysis, (*TABLE, "exact"))
    return BEST if name == "exact" else name


def same_family(name: str | None) -> str:
    """Return a published analysis unchanged, and "best" for None or one of this library."""
    return BEST if name is None or TABLE[name].private else name


def checked_scheme(
    n: object,
    q: object,
    min_honest: int | None = None,
    corrupt_shufflers: int = 0,
    *,
    analysis: object = "best",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> Scheme:
    """Check the arguments that most functions of this package take, and return them."""
    order = integer("q", q, low=2)
    if order.bit_length() > MAX_BITS:
        raise InvalidValue(
            "q", f"must be below 2**{MAX_BITS}, got one of {order.bit_length()} bits"
        )
    users, name = integer("n", n, low=1, high=MAX_COUNTED_USERS), checked_analysis(analysis)
    clear_share = flag("clear_share", clear_share)
    trust = Trust.of(users, shuffler, clear_share, min_honest, corrupt_shufflers)
    return Scheme(users, order, trust, TABLE[name])
