"""Settings of a caller that would change a result, or stop a computation, that heeds them."""

from __future__ import annotations

import decimal
import gc
import locale
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import _lru_cache_wrapper
from typing import Any

import gmpy2
import numpy as np
import scipy.special

TRAPS = ("inexact", "underflow", "overflow", "invalid", "erange", "divzero")


@contextmanager
def hostile() -> Iterator[None]:
    """Have such settings, and check at the end that they are as they were.

    Warnings are errors in all tests.
    """
    real = gmpy2.context(
        precision=2, round=gmpy2.RoundUp, emin=-20, emax=20, subnormalize=True,
        rational_division=True, **{f"trap_{name}": True for name in TRAPS},
    )  # fmt: skip
    signals = list(decimal.getcontext().traps)
    decimals = decimal.Context(1, decimal.ROUND_UP, Emin=0, Emax=0, capitals=0, traps=signals)
    digits = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        with (
            real,
            decimal.localcontext(decimals),
            np.errstate(all="raise"),
            scipy.special.errstate(all="raise"),
        ):
            before = _current()
            yield
            assert _current() == before
    finally:
        sys.set_int_max_str_digits(digits)


def _current() -> tuple[Any, ...]:
    """Return what a library leaves alone: settings, flags, and the shared random generators."""
    return (
        repr(gmpy2.get_context()),
        repr(decimal.getcontext()),
        np.geterr(),
        np.get_printoptions(),
        scipy.special.geterr(),
        sys.get_int_max_str_digits(),
        locale.setlocale(locale.LC_ALL),
        random.getstate(),
        repr(np.random.get_state()),  # noqa: NPY002
    )


def forget() -> None:
    """Clear every cache of the library's functions."""
    for found in gc.get_objects():
        if isinstance(found, _lru_cache_wrapper) and str(found.__module__).startswith("ikos"):
            found.cache_clear()
