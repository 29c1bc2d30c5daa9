"""Where vectors lie, as the options say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import in_options
from ikos.cli.options import check_bounds

if TYPE_CHECKING:
    from ikos.vectors import Domain

NEEDED = {
    "box": ("dimension",),
    "ball": ("dimension",),
    "ternary": ("dimension", "sparsity"),
    "categories": ("sizes",),
}
"""The options that each domain needs."""

ALLOWED = {"box": ("lower", "upper"), "ball": ("radius",), "ternary": (), "categories": ()}
"""Those that it takes besides."""

OPTIONS = ("--dimension", "--radius", "--sparsity", "--sizes")
"""Those that say nothing of numbers."""

CLASSES = {
    "Box": "box", "Ball": "ball", "SparseTernary": "ternary", "Categories": "categories",
    "Bounds": "",
}  # fmt: skip
"""What options call the domains of the library: numbers have none."""

KEYS = {
    "domain": "where vectors lie: box, ball, ternary or categories; null for numbers",
    "dimension": "coordinates of a vector; 1 for numbers",
    "lower": "public lower bound of the values or coordinates, or null",
    "upper": "public upper bound, or null",
    "radius": "of a ball, or null",
    "sparsity": "of ternary vectors, or null",
    "sizes": "of categories: how many answers each question has, or null",
}


def domain_of(name: str | None, given: Mapping[str, Any]) -> Domain | None:
    """Return where vectors lie, None for numbers; refuse options that are for another domain.

    ``given`` holds the values of all options of domains, None where one was not given.
    """
    from ikos import vectors

    given = {key: given[key] for key in KEYS if key != "domain"}
    if name is None:
        for key, value in given.items():
            if value is not None and key not in ALLOWED["box"]:
                raise click.UsageError(f"--{key} needs --domain: box, ball, ternary or categories")
        return None
    for key, value in given.items():
        if value is None and key in NEEDED[name]:
            raise click.UsageError(f"--domain {name} needs --{key}")
        if value is not None and key not in NEEDED[name] + ALLOWED[name]:
            raise click.UsageError(f"--{key} is not for --domain {name}")
    if name == "box":
        check_bounds(given["lower"] or 0.0, 1.0 if given["upper"] is None else given["upper"])
    (kind,) = (kind for kind, word in CLASSES.items() if word == name)
    domain: Domain = getattr(vectors, kind)(
        **{key: value for key, value in given.items() if value is not None}
    )
    return domain


def in_words(reason: str) -> str:
    """Return why a protocol is not possible, with domains as the options call them."""
    must, got, given = in_options(reason).partition(", got ")
    if not must.startswith("--domain must be "):
        return must + got + given
    for kind, word in CLASSES.items():
        must = re.sub(rf"\b(an? )?{kind}\b", word or "left out", must)
    return f"{must}, got {CLASSES.get(given, given) or 'none'}"


def described(name: str | None, domain: Domain | None) -> dict[str, Any]:
    """Return what JSON says of a domain, of `KEYS`: null for what is another domain's."""
    found = {key: getattr(domain, key, None) for key in KEYS}
    return found | {"domain": name, "dimension": 1 if domain is None else domain.dimension}
