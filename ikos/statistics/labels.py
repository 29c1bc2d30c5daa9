"""Labels of categories and groups, compared as Python objects, and users' places among them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import (
    InvalidValue,
    array,
    missing,
    ordered,
    quote,
    refuse_missing,
    reject_missing,
    vector,
)

NO_GROUP = -1
"""The place of a user who is in none of the groups."""


class UsersGroups(NamedTuple):
    """The groups, the place of each user's among them, and the names of the columns of labels.

    If ``by`` is a name, groups are labels of that column, and otherwise tuples of labels.
    """

    groups: tuple[Hashable, ...]
    places: NDArray[np.int64]
    by: str | tuple[str, ...]

    @classmethod
    def one(cls, users: int) -> UsersGroups:
        """Return a single group, of all users."""
        return cls((None,), np.zeros(users, dtype=np.int64), "group")


def without_groups(by: Any, groups: Any, other: Hashable) -> bool:
    """Whether there are no groups; refuse groups without the users' labels."""
    if by is None and (groups is not None or other is not None):
        raise InvalidValue("by", "must hold the users' labels where groups are listed, got None")
    return by is None


def labels_of(name: str, categories: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Return distinct categories unchanged."""
    labels: tuple[Hashable, ...] = tuple(ordered(name, categories))
    if not labels or len(set(labels)) != len(labels):
        raise InvalidValue(name, f"must be distinct and not empty, got {quote(categories)}")
    # one NaN differs from another: missing values would be split between it and their own place
    if any(label is not None and missing(label) for label in labels):
        raise InvalidValue(name, f"must not hold missing values but None, got {quote(categories)}")
    return labels


def places_of(
    labels: tuple[Hashable, ...],
    name: str,
    x: ArrayLike,
    *,
    kinds: str = "categories",
    other: bool = False,
    excluded: bool = False,
) -> NDArray[np.int64]:
    """Return the position of each value among the labels, compared as Python objects.

    As one type, two labels could be equal: a user counted twice would change more counts than the
    guarantee covers. With ``other``, the position after the last is that of all other values; if
    missing values are ``excluded``, theirs is `NO_GROUP`.
    """
    items = _items(name, x)
    places = {label: place for place, label in enumerate(labels)}
    cells = np.empty(len(items), dtype=np.int64)
    for index, item in enumerate(items):
        try:
            place = places.get(item)
        except TypeError:  # unhashable
            place = None
        if place is None and excluded and missing(item):
            place = NO_GROUP
        if place is None:  # outside of the handler: an error's context shows the value, too
            reject_missing(name, [item], f"one of the {kinds}", index)
            if not other:
                kind = type(item).__name__
                problem = f"must be one of the {kinds}, got a different {kind} (not shown)"
                raise InvalidValue(f"{name}[{index}]", problem, row=index)
            place = len(labels)
        cells[index] = place
    return cells


def named_columns(x: Any) -> dict[Hashable, ArrayLike] | None:
    """Return the columns of a mapping or a data frame by name; None for anything else."""
    # a data frame's own, as some yield columns, of which a table of Arrow also has a list
    named = getattr(x, "column_names", getattr(x, "columns", x))
    if named is x and not isinstance(x, Mapping):
        return None
    return {name: x[name] for name in named}


def column_names(x: Any, columns: int) -> tuple[Hashable, ...]:
    """Return the names of the columns of a data frame, or their numbers."""
    names = getattr(x, "column_names", getattr(x, "columns", range(columns)))
    return tuple(names)


def _items(name: str, x: ArrayLike) -> list[Any]:
    """Return values as Python objects; those of a list are unchanged."""
    if not hasattr(x, "__array__"):
        items = list(ordered(name, refuse_missing(name, x)))
    else:
        values = vector(name, x, array(name, x))
        # except dates and times, which tolist() would convert to other types
        items = list(values) if values.dtype.kind in "mM" else values.tolist()
    if not items:
        raise InvalidValue(name, "must hold at least one user's value, got none")
    return items


def places_in_groups(
    by: Any, groups: Any, other: Hashable, users: int, excluded: bool
) -> UsersGroups:
    """Return all groups, and users' places among them.

    For several columns of labels, groups are tuples: all combinations. Users with a missing label
    are in no group, if they are ``excluded``.
    """
    named = named_columns(by)
    if named is not None and (not isinstance(groups, Mapping) or set(groups) != set(named)):
        what = f"must map each of the columns {quote(list(named))} to its labels"
        raise InvalidValue("groups", f"{what}, got {quote(groups)}")
    columns = {None: by} if named is None else named
    product: list[tuple[Hashable, ...]] = [()]
    places = np.zeros(users, dtype=np.int64)
    for name, column in columns.items():
        at = "" if named is None else f"[{name!r}]"
        listed = groups if named is None else groups[name]
        if listed is None:
            raise InvalidValue(f"groups{at}", "must list the public groups, got None")
        labels = labels_of(f"groups{at}", listed)
        if other is not None and other in labels:
            raise InvalidValue("other", f"must not be one of the groups, got {quote(other)}")
        found = places_of(
            labels, f"by{at}", column, kinds="groups", other=other is not None, excluded=excluded
        )
        if found.size != users:
            what = f"must hold a label for each of {users} users, got {found.size}"
            raise InvalidValue(f"by{at}", what)
        labels += (other,) * (other is not None)
        product = [(*some, label) for some in product for label in labels]
        member = (places >= 0) & (found >= 0)
        places = np.where(member, places * len(labels) + found, NO_GROUP)
    if named is None:
        by_name = getattr(by, "name", None)  # of a column of a data frame
        return UsersGroups(tuple(label for (label,) in product), places, str(by_name or "group"))
    return UsersGroups(tuple(product), places, tuple(map(str, named)))
