"""Laws of shuffled messages by enumeration, and the divergences of views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def shuffled(laws: Iterable[Mapping[Any, Any] | Sequence[Any]]) -> Counter[tuple[Any, ...]]:
    """Return the law of the sorted messages, of which one is drawn from each law."""
    law: Counter[tuple[Any, ...]] = Counter({(): 1})
    for own in laws:
        longer: Counter[tuple[Any, ...]] = Counter()
        messages = own.items() if isinstance(own, Mapping) else list(enumerate(own))
        for seen, chance in law.items():
            for message, likely in messages:
                if likely:
                    longer[tuple(sorted((*seen, message)))] += chance * likely
        law = longer
    return law


def hockey_stick(first: Mapping[Any, Any], second: Mapping[Any, Any], odds: Any) -> Any:
    """Return the divergence of an order, exactly where laws and order are rationals."""
    return sum(max(0, chance - odds * second.get(view, 0)) for view, chance in first.items())
