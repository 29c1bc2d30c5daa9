"""What a party does not do, in the same words to those who ask here and from afar."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(Exception):  # noqa: N818
    """A request that a party does not grant.

    Parameters
    ----------
    name : str
        Of the problem, for programs: one of those that `ikos.deployment.service` has a status for.
    detail : str
        For people; nothing private.
    """

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(detail)
        self.name = name
        self.detail = detail
