"""Requests that a party does not grant, the same here and over the network."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(Exception):  # noqa: N818
    """A request that a party does not grant.

    Parameters
    ----------
    name : str
        The problem's, for programs: one that `ikos.deployment.service` has a status for.
    detail : str
        For people; nothing private.
    """

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(detail)
        self.name = name
        self.detail = detail
