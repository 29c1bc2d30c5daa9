"""The parties of one sum in memory, for any transport: each keeps its parts of reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue, integer
from ikos.data.reading import Participation
from ikos.primitives.randomness import RandomSource, secure
from ikos.transports.base import ID_BYTES, Part, ReportSet, Totals, Transport, joined

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class PartyRelease:
    """A party's release for a set of reports, whose ids are in ascending order."""

    number: int
    ids: tuple[bytes, ...]
    messages: Any = field(repr=False)


@dataclass(eq=False, repr=False)
class Party:
    """A party of one sum: number 0 is the analyzer's.

    It releases one set of reports, and never another: the difference of two sets would reveal the
    reports in one of them only. ``context`` is the name of the sum that all parties know.
    """

    transport: Transport
    users: Participation
    number: int
    context: bytes = b""
    refused: frozenset[bytes] = field(default=frozenset(), init=False)
    _parts: dict[bytes, Part] = field(default_factory=dict, init=False)
    _released: PartyRelease | None = field(default=None, init=False)
    _verified: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        integer("number", self.number, low=0, high=self.transport.parties)

    @property
    def ids(self) -> frozenset[bytes]:
        """The ids of the reports whose parts this party has."""
        return frozenset(self._parts)

    def __repr__(self) -> str:
        held = f"{len(self._parts)} reports" if self._released is None else "released"
        return f"<{type(self).__name__} {self.number} of {self.transport.parties}: {held}>"

    def receive(self, id: bytes, part: Part) -> None:
        """Keep this party's part of a report; the same part again changes nothing."""
        if not isinstance(id, bytes):
            raise InvalidType("id", f"must be bytes, got {type(id).__name__}")
        if len(id) != ID_BYTES:
            raise InvalidValue("id", f"must have {ID_BYTES} bytes, got {len(id)}")
        if self._released is not None:
            raise InvalidValue("id", "must come before this party's only release")
        self.transport.check(self.number, part)
        if any(len(rows) != 1 for rows in part):
            raise InvalidValue("part", "must hold the messages of one user")
        if not all(map(np.array_equal, self._parts.setdefault(id, part), part)):
            raise InvalidValue("id", "must not be reused for a different report")
        self._verified = False

    def verify(self, receipts: Mapping[bytes, NDArray[np.uint8]]) -> frozenset[bytes]:
        """Refuse invalid reports, and those without one of the analyzer's receipts.

        Call it after the last report, where the transport is ``verified``. Returns the ids of all
        that were refused, and are no longer here.
        """
        here = sorted(self._parts.keys() & receipts.keys())
        bad = self._parts.keys() - receipts.keys()
        if here:
            rows = np.array([receipts[id] for id in here])
            parts = joined([self._parts[id] for id in here])
            of: dict[str, Any] = {"ids": here, "context": self.context, "receipts": rows}
            bad |= {here[i] for i in self.transport.refused(self.number, parts, **of)}
        for id in bad:
            del self._parts[id]
        self._verified, self.refused = True, self.refused | bad
        return self.refused

    def release(self, ids: Iterable[bytes], rng: RandomSource | None = None) -> PartyRelease:
        """Return this party's release of a set of reports; the same set has the same answer."""
        chosen = tuple(sorted(ids))
        if self._released is None:
            if len(set(chosen)) < len(chosen) or not self.ids.issuperset(chosen):
                raise InvalidValue("ids", "must be those of different reports that this party has")
            self._refuse_unverified()
            self.users.check("ids", len(chosen))
            parts = joined([self._parts[id] for id in chosen])
            of: ReportSet = {"ids": chosen, "context": self.context}
            messages = self.transport.release(self.number, parts, secure(rng), **of)
            self._released = PartyRelease(self.number, chosen, messages)
            self._parts.clear()
        if self._released.ids != chosen:
            raise InvalidValue("ids", "must be the set that was already released")
        return self._released

    def _refuse_unverified(self) -> None:
        """Refuse to go on with reports that may be invalid."""
        if self.transport.verified and not self._verified:
            raise InvalidValue("ids", "must be of reports that were verified: call verify before")


@dataclass(eq=False, repr=False)
class Analyzer(Party, Generic[_T]):
    """The analyzer of one sum, which chooses the set of reports and adds it up.

    ``decode`` makes the result of ``totals``, which it keeps.
    """

    decode: Callable[[Totals], _T] = field(kw_only=True)
    totals: Totals | None = field(default=None, init=False)
    _chosen: tuple[bytes, ...] | None = field(default=None, init=False)

    def receipts(self) -> dict[bytes, NDArray[np.uint8]]:
        """Refuse invalid reports; return what other parties verify the others with."""
        if not self._parts:
            return {}
        here = sorted(self._parts)
        rows = self.transport.receipts(joined([self._parts[id] for id in here]))
        receipts = dict(zip(here, rows, strict=True))
        self.verify(receipts)
        return {id: receipts[id] for id in self._parts}

    def choose(self, *ids: frozenset[bytes]) -> tuple[bytes, ...]:
        """Return the set of the reports that all parties have; once."""
        if self._chosen is not None:
            raise InvalidValue(
                "ids", "must not be chosen twice: the sum's only set is already fixed"
            )
        if len(ids) != self.transport.parties:
            raise InvalidValue("ids", f"must be those of {self.transport.parties} other parties")
        self._refuse_unverified()
        chosen = sorted(self.ids.intersection(*ids))
        self.users.check("ids", len(chosen))
        self._chosen = tuple(chosen)
        return self._chosen

    def analyze(self, released: Iterable[PartyRelease]) -> _T:
        """Return the result, from the other parties' releases of the set, in any order.

        Those of other sets are refused: their sum would be random, and nobody would notice.
        """
        if self._chosen is None:
            raise InvalidValue("released", "must be of a set that was chosen")
        others = list(released)
        if not all(isinstance(one, PartyRelease) for one in others):
            raise InvalidType("released", "must hold releases of parties")
        others.sort(key=attrgetter("number"))
        if [one.number for one in others] != list(range(1, self.transport.parties + 1)):
            raise InvalidValue(
                "released", f"must hold one release of each of {self.transport.parties} parties"
            )
        if any(one.ids != self._chosen for one in others):
            raise InvalidValue("released", "must be of the set that was chosen")
        messages = [one.messages for one in (self.release(self._chosen), *others)]
        totals = self.transport.totals(self.transport.view(messages), self.context)
        if totals.users != len(self._chosen):
            raise InvalidValue("released", "must hold the messages of the set that was chosen")
        refused = self.refused.difference(self._chosen)  # some were sent again, and well
        self.totals = replace(totals, refused=tuple(sorted(refused)))
        return self.decode(self.totals)
