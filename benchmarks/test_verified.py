"""Verified sums: clients, intake, certificates and release, against products of points alone.

The floor is a product of a point by libsecp256k1 for each report. A proof of b bits takes at least
2 b + 6 of them; a batch takes far fewer, as many points are added at once.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
import pytest

pytest.importorskip("coincurve")
from ikos import PrivateSum
from ikos.transports import Reports
from ikos.verified import certificate
from ikos.verified.group import BASE

USERS = 500
CONTEXT = b"a benchmark"


def products() -> None:
    """Multiply a point once for each report."""
    for _ in range(USERS):
        BASE.multiply(secrets.token_bytes(31) + b"\1")


@cache
def protocol() -> Any:
    """Return the sum: reports of 7 bits, and a relay."""
    return PrivateSum(10**4, 1, 1e-8, min_honest=USERS, transport="verified")


@cache
def made() -> Reports:
    """Return all users' reports."""
    x = np.linspace(0, 1, USERS)
    reports: Reports = protocol().share(x, context=CONTEXT)
    return reports


def refused(party: int) -> list[int]:
    """Return the reports that a party refuses."""
    reports, transport = made(), protocol().transport
    receipts = transport.receipts(reports.parts[0])
    of = {"ids": reports.ids, "context": protocol().context(CONTEXT), "receipts": receipts}
    places: list[int] = transport.refused(party, reports.parts[party], **of)
    return places


@cache
def file() -> bytes:
    """Return the certificate of a run."""
    result = protocol().run(np.linspace(0, 1, USERS))
    return b"".join(result.certificate.lines())


def release() -> None:
    """Add up all openings, and check each party's sum."""
    reports, transport, context = made(), protocol().transport, protocol().context(CONTEXT)
    of: dict[str, Any] = {"ids": reports.ids, "context": context}
    view = transport.view([transport.release(j, p, None, **of)
                           for j, p in enumerate(reports.parts)])  # fmt: skip
    assert transport.totals(view, context).users == USERS


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize(
    "work",
    [
        lambda: protocol().share(np.linspace(0, 1, USERS), context=CONTEXT),
        lambda: refused(0),
        lambda: refused(1),
        release,
        lambda: certificate.verify(BytesIO(file())),
    ],
    ids=["clients", "proofs", "openings", "release", "certificate"],
)
def test_verified(against: Callable[..., float], work: Callable[[], object]) -> None:
    """Reports of 500 users, one relay, 7 bits; one product of a point for each."""
    work()  # what is made once
    against(work, products, rounds=3)
