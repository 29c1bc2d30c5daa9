"""The assumptions of guarantees: a guarantee is void if a condition is not met.

A guarantee lists its conditions (`ikos.results.guarantees`): fields for programs, and a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Condition", "Kind"]


class Kind(Enum):
    """The subject of a condition."""

    RUN = "the randomness of this run"
    GROUP = "the group in which messages are added"
    USERS = "which users must be honest and not drop out"
    PARTIES = "which other parties must be honest"
    SENSITIVITY = "the distance between two vectors of a user"
    RELEASES = "other releases about the same users"
    RANDOMNESS = "public numbers, and pseudorandom ones"
    CRYPTOGRAPHY = "cryptographic assumptions"
    SCOPE = "any other condition"


@dataclass(frozen=True)
class Condition:
    """A condition of a guarantee; printed as its ``text``.

    Parameters
    ----------
    kind : Kind
        Its subject.
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
    """Return the condition on the users; ``adaptive`` dropouts may depend on shares and noise."""
    text = f"while {_users(least, n, 'is', 'are')} honest and present"
    if not adaptive and least < n:
        text += ", and which users drop out is independent of their shares and noise"
    return Condition(Kind.USERS, text)


def answering(least: int, n: int) -> Condition:
    """Return the condition that enough users answer at random."""
    return Condition(Kind.USERS, f"while {_users(least, n, 'answers', 'answer')} as prescribed")


def _users(least: int, n: int, one: str, several: str) -> str:
    """Return a subject and its verb: all users, or some of them."""
    users = f"all {n:,} users" if n > 1 else "the user"
    if least < n:
        users = f"at least {least:,} of {n:,} users"
    return f"{users} {one if least == 1 else several}"


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
        text += " and does not itself add up a user's shares, all of which it receives"
    return Condition(Kind.PARTIES, text)


UNSEEN_COUNTS = Condition(Kind.PARTIES, "while no one sees how many messages each user sends")

PROMISED = Condition(
    Kind.SENSITIVITY,
    "while any two vectors that a user may have are within the promised sensitivity",
)

# What is released

ONE_REPORT = Condition(
    Kind.RELEASES,
    "for one report per user; every further release about the same users adds to the privacy loss",
)
ONE_SUM = Condition(
    Kind.RELEASES,
    "for one report per user; every further sum over the same users is revealed as well",
)


def reports(releases: int) -> Condition:
    """Return the condition of a guarantee for a number of releases."""
    if releases == 1:
        return ONE_REPORT
    return Condition(
        Kind.RELEASES,
        f"for {releases:,} reports per user in all, each of which may depend on earlier results; "
        "every further release about the same users adds to the privacy loss",
    )


def pseudorandom(drawn: str = "shares") -> Condition:
    """Return the condition on the randomness."""
    return Condition(
        Kind.RANDOMNESS,
        f"the number of users is public; {drawn} are pseudorandom (AES-256)",
    )
