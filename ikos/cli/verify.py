"""``ikos verify``: check the certificate of a verified sum, and say what it proves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ikos.cli.errors import Command
from ikos.cli.options import option
from ikos.cli.output import progress
from ikos.cli.types import FILE, FOLDER
from ikos.results.report import Field, Report, values

if TYPE_CHECKING:
    from ikos.deployment.task import Window
    from ikos.verified.certificate import Checked

KEYS = [
    Field("reports", "number of reports", value="users"),
    Field("min_honest", "fewest reports that may be released"),
    Field("largest", "largest value of a report in a coordinate, in steps, with noise",
          value="statement.largest"),
    Field("lower", "lower bound of the values; null for exact sums", value="units.lower"),
    Field("upper", "upper bound of the values; null for exact sums", value="units.upper"),
    Field("precision", "steps between the bounds", value="units.precision"),
    Field("keys", "public keys of the parties that signed the reports",
          value=lambda found: [key.hex() for key in found.keys]),
    Field("parameters", "hash of the parameters of the sum",
          value=lambda found: found.parameter_hash.hex()),
    Field("name", "name of the sum, in hexadecimal digits",
          value=lambda found: found.window.hex()),
]  # fmt: skip

WINDOW_KEYS = [
    Field("task", "name of the task of --task, or null"),
    Field("window", "number of its window, from 0, or null"),
]

COLUMNS = [
    Field("coordinate", "name of the coordinate in the task, or its number, from 1", "coordinate"),
    Field("sum", "the sum; of values with noise an estimate, less the mean of the noise", "sum"),
    Field("steps", "the sum of the committed values in steps, noise included", "steps"),
]

EXAMPLES = """\b
Examples
  ikos verify visits.certificate
  ikos verify visits.certificate --task visits/task.json
"""

SIGNED = (
    "Signed: all {} parties signed this list of reports. An honest one signs one list for a sum, "
    "before its release."
)
UNSIGNED = (
    "Nobody signed it: whoever made this file can list other reports for the same sum, and may "
    "have made some of them after its release."
)
NOISY = (
    "Estimated: the sum has the noise of all reports, less the noise's mean; the published result "
    "has an interval."
)
UNPROVED = (
    "Not proved: that each report is of another eligible person, that none is left out, or that "
    "values within the bounds are true."
)
ANY_TASK = (
    "Not compared with a task (--task): compare the hash of the parameters, {}, with that of the "
    "sum that was announced, and the keys with its parties'."
)
OF_TASK = "The parameters, the window and the keys are those of window {} of the task {}."


@click.command("verify", cls=Command, epilog=EXAMPLES, keys=[*KEYS, *WINDOW_KEYS], columns=COLUMNS)
@click.argument("certificate", type=FILE)
@option("--task", "folder", type=FOLDER, metavar="FILE", help="Task, or its folder: the sum must "
        "be that of one of its windows.")  # fmt: skip
def command(certificate: Path, folder: Path | None) -> Report:
    """Check the certificate of a verified sum.

    CERTIFICATE is a file from 'ikos task certificate'. Anyone can check it: every proof, the sum
    and every signature. The first line that does not fit is reported.
    """
    from ikos.verified.certificate import verify

    with certificate.open("rb") as file, progress("Verifying") as tell:
        size = certificate.stat().st_size
        found = verify(file, lambda _: tell(file.tell(), size))
    window, task = None, ANY_TASK.format(found.parameter_hash.hex())
    if folder is not None:
        window = _window(found, folder)
        task = OF_TASK.format(window.number, window.task.name)
    signed = SIGNED.format(len(found.keys)) if found.keys else UNSIGNED
    names = (window and window.task.labels) or range(1, len(found.sums) + 1)
    totals = zip(names, found.estimates or found.sums, found.sums, strict=True)
    rows = [{"coordinate": name, "sum": x, "steps": steps} for name, x, steps in totals]
    data = values(KEYS, found) | {"task": window and window.task.name}
    data["window"] = window and window.number
    title = f"A valid certificate of {found.users:,} reports"
    noisy = [NOISY] * (found.units is not None)
    return Report(title, COLUMNS, rows, [_proved(found), *noisy, signed, UNPROVED, task], data)


def _proved(found: Checked) -> str:
    """Return in words what is proved of each report."""
    what, units = f"a value from 0 to {found.statement.largest:,}", found.units
    if units is not None:
        lower, upper = (f"{float(end):.6g}" for end in (units.lower, units.upper))
        what = f"a value from {lower} to {upper}"
        if found.statement.steps:
            what = f"one of {found.statement.dimension} categories"
        each = " for each" * (len(found.sums) > 1)
        steps = f"{units.precision:,} step" + "s" * (units.precision > 1)
        what += f", in {steps}, plus noise of 0 to {units.width - 1}{each}"
    return (
        f"Proved: each of the reports commits to {what}; and the sum is theirs. This holds if "
        "discrete logarithms on secp256k1 are hard and SHA-256 and SHA-512 are random oracles."
    )


def _window(found: Checked, folder: Path) -> Window:
    """Return the window of a task of which a certificate is."""
    from ikos.deployment.party_files import read_task

    task, number = read_task(folder), int.from_bytes(found.window[-4:])
    named = number < task.windows and task.at(number).bound == found.window
    if not named or found.parameter_hash.hex() != task.parameters:
        raise click.UsageError("the certificate is not of the task, or of none of its windows")
    if found.keys != getattr(task.transport, "signing_keys", None):
        raise click.UsageError("the certificate is not signed with the keys of the task")
    if found.users < task.min_reports:
        raise click.UsageError(
            f"the certificate has {found.users} reports, and the task needs {task.min_reports}"
        )
    return task.at(number)
