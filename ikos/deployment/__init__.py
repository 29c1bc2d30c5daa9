"""A private sum between programs that do not trust each other: clients, shufflers, an analyzer.

Each party is a program with its own folder (the extra ``deployment``). A client makes a report,
encrypts every share but one to the analyzer, and sends each encrypted share to its shuffler, the
clear one to the analyzer. When the task closes, the analyzer asks the shufflers which reports are
complete; each shuffler checks that all others were asked the same and releases the envelopes of
those reports in an order that reveals nothing; the analyzer opens them and adds them up.
"""

from ikos.deployment.task import Task

__all__ = ["Task"]
