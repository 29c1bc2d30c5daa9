"""Categories that are given as labels, and the values that are to be found among them.

Labels and values are compared as Python objects, one by one: an array of several kinds of objects
would turn them into one kind, where two labels can become one, or a number a text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import array, quote, reject_masked


def checked_labels(name: str, given: object) -> tuple[Hashable, ...]:
    """Return categories; sets have no order, and text is not many of them."""
    if isinstance(given, (str, bytes, Set, Mapping)) or not isinstance(given, Iterable):
        kind = type(given).__name__
        raise TypeError(f"{name} must be a sequence of categories, got {kind} {quote(given)}")
    labels = tuple(given)
    for label in labels:
        if not _hashable(label):
            raise TypeError(f"{name} must be hashable, got {quote(label)}")
    if not labels or len(set(labels)) != len(labels):
        raise ValueError(f"{name} must be distinct and not empty, got {quote(given)}")
    return labels


def places_among(labels: tuple[Hashable, ...], name: str, x: ArrayLike) -> NDArray[np.int64]:
    """Return the place of each value among the labels."""
    items = _items(name, x)
    places = {label: place for place, label in enumerate(labels)}
    try:
        found = np.array([places.get(item, -1) for item in items], dtype=np.int64)
    except TypeError:  # what has no hash is no category
        first = next(place for place, item in enumerate(items) if not _hashable(item))
    else:
        if (found >= 0).all():
            return found
        first = int(np.argmax(found < 0))
    raise ValueError(
        f"{name}[{first}] must be one of the categories, got another {type(items[first]).__name__}"
    )


def _items(name: str, x: ArrayLike) -> list[Any]:
    """Return values as Python objects; those of a list as they are."""
    if hasattr(x, "__array__"):
        values = array(name, x)
    else:
        values = np.asarray(reject_masked(name, x), dtype=object)
    if values.ndim != 1 or not values.size:
        raise ValueError(f"{name} must be one-dimensional and not empty, got shape {values.shape}")
    # but for dates and times, which tolist() would turn into other types
    return list(values) if values.dtype.kind in "mM" else values.tolist()


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
