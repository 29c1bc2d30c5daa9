"""A private sum between programs that do not trust each other: see docs/deployment.md.

Clients report to shufflers and an analyzer, each a program with its own folder.
"""

try:
    from ikos.deployment.task import Task
except ModuleNotFoundError as error:
    raise ImportError(
        f"parties need {error.name}: pip install 'ikos[deployment]', or 'ikos[client]' for clients"
    ) from None

__all__ = ["Task"]
