"""Domains of numbers and vectors, from the options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import in_options
from ikos.cli.options import check_bounds
from ikos.report import Field

if TYPE_CHECKING:
    from ikos.bounds import Bounds
    from ikos.vectors import Domain

KINDS = {
    "box": ("Box", ("dimension",), ("lower", "upper")),
    "ball": ("Ball", ("dimension",), ("radius",)),
    "ternary": ("SparseTernary", ("dimension", "sparsity"), ()),
    "categories": ("Categories", ("sizes",), ()),
}
"""For each domain its class, the options that it needs, and those that it also takes."""

NAMES = {kind: name for name, (kind, _, _) in KINDS.items()} | {"Bounds": ""}
"""The options' names of the library's domains; numbers have none."""

OPTIONS = ("--dimension", "--radius", "--sparsity", "--sizes")
"""Options for vectors alone."""


def _its(key: str, meaning: str) -> Field:
    return Field(key, meaning, value=lambda found: getattr(found.domain, key, None))


KEYS = [
    Field("domain", "where vectors lie: box, ball, ternary or categories; null for numbers",
          value=lambda found: NAMES.get(type(found.domain).__name__) or None),
    Field("dimension", "coordinates of a vector; 1 for numbers"),
    _its("lower", "public lower bound of the values or coordinates, or null"),
    _its("upper", "public upper bound, or null"),
    _its("radius", "of a ball, or null"),
    _its("sparsity", "of ternary vectors, or null"),
    _its("sizes", "of categories: how many answers each question has, or null"),
]  # fmt: skip


def domain_of(name: str | None, given: Mapping[str, Any]) -> Domain | Bounds:
    """Return the domain, numbers without a name; refuse options for another domain.

    ``given`` holds the values of all options of domains, None if not given.
    """
    from ikos import vectors
    from ikos.bounds import Bounds

    chosen = {key.key: given[key.key] for key in KEYS if given.get(key.key) is not None}
    chosen.pop("domain", None)
    kind, needed, taken = KINDS[name] if name is not None else ("", (), ("lower", "upper"))
    for key in needed:
        if key not in chosen:
            raise click.UsageError(f"--domain {name} needs --{key}")
    for key in chosen:
        if key not in needed + taken:
            said = f"is not for --domain {name}" if name else f"needs --domain: {', '.join(KINDS)}"
            raise click.UsageError(f"--{key} {said}")
    lower, upper = chosen.get("lower", 0.0), chosen.get("upper", 1.0)
    check_bounds(lower, upper)
    return getattr(vectors, kind)(**chosen) if name is not None else Bounds(lower, upper)


def in_words(reason: str) -> str:
    """Return why a protocol is not possible, with domains named as in the options."""
    must, got, given = in_options(reason).partition(", got ")
    if not must.startswith("--domain must be "):
        return must + got + given
    for kind, word in NAMES.items():
        must = re.sub(rf"\b(an? )?{kind}\b", word or "left out", must)
    return f"{must}, got {NAMES.get(given, given) or 'none'}"
