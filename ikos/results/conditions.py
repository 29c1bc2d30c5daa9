"""What guarantees assume, and why one is void: a condition that is not met.

A guarantee lists its conditions (`ikos.results.guarantees`). Programs read their fields, people
their sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Condition", "Kind"]


class Kind(Enum):
    """What a condition is about."""

    RUN = "the randomness of this run"
    GROUP = "the group in which messages are added"
    USERS = "who must be honest and present"
    PARTIES = "whom the users trust besides"
    SENSITIVITY = "how far a user's vectors may be apart"
    RELEASES = "what is released about the same users"
    RANDOMNESS = "what is public, and what is pseudorandom"
    CRYPTOGRAPHY = "what cannot be broken"
    SCOPE = "what else holds, or does not"


@dataclass(frozen=True)
class Condition:
    """A condition of a guarantee; printed as its ``text``.

    Parameters
    ----------
    kind : Kind
        What it is about.
    text : str
        The condition as people read it.
    met : bool
        False if it is known not to hold: then the guarantee is for comparison only.
    computational : bool
        Whether the guarantee holds only against tests that cannot break this assumption, up to
        the advantage of those that can.

    Examples
    --------
    >>> print(present(900, 1000, adaptive=True))
    while at least 900 of 1,000 users are honest and present
    """

    kind: Kind
    text: str
    met: bool = True
    computational: bool = False

    def __str__(self) -> str:
        return self.text


# Not met

SEEDED = Condition(
    Kind.RUN,
    "NOT for this run: drawn from a seed, it protects no one from those who know the seed",
    met=False,
)


def unproved_group(reason: str | None) -> tuple[Condition, ...]:
    """Return the condition that nothing is proved for a group, if there is a reason."""
    return (Condition(Kind.GROUP, f"NOT for this group: {reason}", met=False),) if reason else ()


# The users and the parties


def present(least: int, n: int, *, adaptive: bool = False) -> Condition:
    """Return the condition on who is present, if who is missing may be ``adaptive`` or not."""
    verb = "is" if least == 1 else "are"
    text = f"while at least {least:,} of {n:,} users {verb} honest and present"
    if not adaptive and least < n:
        text += ", and who is missing does not depend on shares or noise"
    return Condition(Kind.USERS, text)


def answering(least: int, n: int) -> Condition:
    """Return the condition that enough users answer at random."""
    return Condition(
        Kind.USERS, f"while at least {least:,} of {n:,} users answer at random as asked"
    )


def collusion(corrupt: int, shufflers: str = "shufflers") -> Condition:
    """Return the condition on the number of colluding shufflers."""
    text = "while no shuffler colludes with the analyzer"
    if corrupt:
        verb = "colludes" if corrupt == 1 else "collude"
        text = f"while at most {corrupt} of the {shufflers} {verb} with the analyzer"
    return Condition(Kind.PARTIES, text)


def alone(clear_share: bool = True) -> Condition:
    """Return the condition on a single shuffler, which has all messages but clear shares."""
    text = "while the shuffler does not collude with the analyzer"
    if not clear_share:
        text += ", nor itself add up a user's shares, all of which it has"
    return Condition(Kind.PARTIES, text)


UNSEEN_COUNTS = Condition(Kind.PARTIES, "who sends how many messages is not seen")

PROMISED = Condition(
    Kind.SENSITIVITY,
    "while any two vectors that a user may have are within the promised sensitivity",
)

# What is released

ONE_REPORT = Condition(
    Kind.RELEASES,
    "for one report per user; every further release about the same users adds to it",
)
ONE_SUM = Condition(
    Kind.RELEASES,
    "for one report per user; every further sum over the same users is learned as well",
)


def reports(releases: int) -> Condition:
    """Return the condition of a guarantee for this many releases."""
    if releases == 1:
        return ONE_REPORT
    return Condition(
        Kind.RELEASES,
        f"for {releases:,} reports per user in all, each of which may depend on earlier results; "
        "every further release about the same users adds to it",
    )


def pseudorandom(drawn: str = "shares") -> Condition:
    """Return the condition on what is drawn."""
    return Condition(
        Kind.RANDOMNESS,
        f"the number of users is public; {drawn} are pseudorandom (AES-256)",
    )
