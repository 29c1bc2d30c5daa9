"""Doubles that may underflow, whatever the caller's settings of numpy and scipy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy

__all__: list[str] = []

_SPECIAL: dict[str, Any] = {"all": "ignore", "memory": "raise"}


@contextmanager
def may_underflow() -> Iterator[None]:
    """Let doubles underflow in numpy and in scipy's functions, without warnings or errors.

    These are the default settings of a process.
    """
    with np.errstate(all="warn", under="ignore"), scipy.special.errstate(**_SPECIAL):
        yield
