"""A private sum between programs that do not trust each other: see docs/deployment.md.

Clients report to shufflers and an analyzer, each a program with its own folder.
"""

from ikos.deployment.task import Task

__all__ = ["Task"]
