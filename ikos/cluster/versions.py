"""Workers must run the same version of ikos as the program that they work for."""

from __future__ import annotations

import pkgutil
from typing import Any

import ikos
from ikos.cluster.errors import ClusterError
from ikos.cluster.waiting import LIMIT


def check_versions(client: Any) -> None:
    """Refuse a cluster with a worker that has another version of ikos, or none."""
    # by a function of the standard library: a worker without ikos could not read one of ours;
    # workers that end meanwhile return other errors, and are passed over
    asked = {"on_error": "return", "callback_timeout": LIMIT}
    try:
        found = client.sync(client.run, pkgutil.resolve_name, "ikos:__version__", **asked)
    except TimeoutError:
        raise ClusterError("workers of the cluster do not answer") from None
    here = ikos.__version__
    for worker, version in found.items():
        if isinstance(version, (ImportError, AttributeError)):
            raise ClusterError(f"the worker {worker} has no ikos, and here is version {here}")
        if isinstance(version, str) and version != here:
            raise ClusterError(
                f"the worker {worker} has version {version} of ikos, and here is {here}: "
                "they must be the same"
            )
