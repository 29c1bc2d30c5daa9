"""The options that say where vectors lie, and the domain that they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.options import check_bounds, option
from ikos.cli.types import Bound, Name, Whole

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

OWN = ("lower", "upper", "radius", "sparsity", "sizes")

RADIUS = Bound(above="0")


def domain_options(*, required: bool) -> Callable[[Any], Any]:
    """Add the options of a domain.

    Parameters
    ----------
    required : bool
        Whether there must be one.
    """
    added = (
        option(
            "--domain",
            required=required,
            type=Name(*NEEDED, listed=False),
            help="Where vectors lie. box: each coordinate between bounds; ball: within a "
            "Euclidean ball; ternary: a few entries of -1 or 1 and else 0; categories: an answer "
            "to each of several questions.",
        ),
        option("--dimension", type=Whole(low=1), help="Coordinates of each vector."),
        option("--lower", shown="0", help="Of a box: public lower bound of the coordinates."),
        option("--upper", shown="1", help="Of a box: public upper bound of the coordinates."),
        option("--radius", type=RADIUS, shown="1", help="Of a ball: the largest norm."),
        option(
            "--sparsity",
            type=Whole(low=1),
            help="Of ternary vectors: how many entries are not 0 at most.",
        ),
        option(
            "--sizes",
            callback=_sizes,
            metavar="LIST",
            help="Of categories: how many answers each question has, e.g. 2,5,12.",
        ),
    )

    def add(command: Any) -> Any:
        for one in reversed(added):
            command = one(command)
        return command

    return add


def _sizes(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[int, ...] | None:
    """Return whole numbers that commas separate."""
    if value is None:
        return None
    parts = value.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise click.UsageError(f"--sizes must be numbers such as 2,5,12, got {value[:60]!r}")
    if any(len(part) > 9 for part in parts):
        raise click.UsageError("--sizes must be at most 1048576 in all")
    return tuple(int(part) for part in parts)


def domain_of(name: str, given: Mapping[str, Any]) -> tuple[Domain, str]:
    """Return where vectors lie, and that in words; refuse options that are for another domain.

    Parameters
    ----------
    name : {"box", "ball", "ternary", "categories"}
        The domain.
    given : mapping
        Its options, all of them; None where one was not given.
    """
    from ikos.vectors import Ball, Box, Categories, SparseTernary

    for key, value in given.items():
        if value is None and key in NEEDED[name]:
            raise click.UsageError(f"--domain {name} needs --{key}")
        if value is not None and key not in NEEDED[name] + ALLOWED[name]:
            raise click.UsageError(f"--{key} is not for --domain {name}")
    options = {key: value for key, value in given.items() if value is not None}
    if name == "box":
        check_bounds(options.get("lower", 0.0), options.get("upper", 1.0))
        box = Box(**options)
        return box, f"of {_coordinates(box)} in [{box.lower:.6g}, {box.upper:.6g}]"
    if name == "ball":
        ball = Ball(**options)
        return ball, f"of {_coordinates(ball)} and norm at most {ball.radius:.6g}"
    if name == "ternary":
        sparse = SparseTernary(**options)
        return sparse, (
            f"of {_coordinates(sparse)} with at most {sparse.sparsity:,} "
            f"entr{'ies' if sparse.sparsity > 1 else 'y'} of -1 or 1"
        )
    kinds = Categories(**options)
    count = len(kinds.sizes)
    return kinds, (
        f"of answers to {count:,} question{'s' * (count > 1)} of {kinds.dimension:,} "
        f"categor{'ies' if kinds.dimension > 1 else 'y'} in all"
    )


def _coordinates(domain: Domain) -> str:
    return f"{domain.dimension:,} coordinate{'s' * (domain.dimension > 1)}"


def described(name: str, domain: Domain) -> dict[str, Any]:
    """Return what JSON says of a domain: all keys, with null for what is another domain's."""
    own = {key: getattr(domain, key, None) for key in OWN}
    return {"domain": name, "dimension": domain.dimension, **own}
