"""Requests that a party does not grant, the same here and over the network."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818
    """A request that a party does not grant: the problem's name, and nothing private for people."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(detail)
        self.name = name
        self.detail = detail
