"""What it takes to let every user send so many messages and no more."""

from __future__ import annotations

import gmpy2

from ikos._validation import integer
from ikos.accounting.bounds_afnntz24.arguments import MAX_DIMENSION, MAX_USERS


def counter_bits(n: int, messages: int) -> int:
    """Return the bits that tell how many messages each of n users has sent to one shuffler.

    Parameters
    ----------
    n : int
        Users.
    messages : int
        Which each may send, at most B.

    Returns
    -------
    int
        ``ceil(n log2(B + 1))``: (B + 1)^n states, and no storage can do with less.

    Notes
    -----
    AFNNTZ24, Section 1.

    Examples
    --------
    A million messages of each of a hundred million users, in megabytes:

    >>> round(counter_bits(10**8, 10**6) / 8e6)
    249
    """
    users = integer("n", n, low=1, high=MAX_USERS)
    each = integer("messages", messages, low=1, high=MAX_DIMENSION)
    if (each + 1) & each == 0:
        return users * each.bit_length()
    with gmpy2.context(precision=200):
        bits: int = int(gmpy2.ceil(users * gmpy2.log2(each + 1)))
    return bits


def token_bits(n: int, shufflers: int) -> int:
    """Return the bits that tell which of several shufflers each of n users has sent a message to.

    Parameters
    ----------
    n, shufflers : int
        Users, and shufflers that take one message of each.

    Notes
    -----
    ``n B`` for B shufflers (AFNNTZ24, Section 1): 2^(n B) states.

    Examples
    --------
    A million shufflers and a hundred million users, in terabytes:

    >>> token_bits(10**8, 10**6) / 8e12
    12.5
    """
    users = integer("n", n, low=1, high=MAX_USERS)
    return users * integer("shufflers", shufflers, low=1, high=MAX_DIMENSION)
