"""A private sum between programs that do not trust each other: clients, shufflers, an analyzer.

Each party is a program with a folder of its own (the extra ``deployment``). A client makes a
report, encrypts every share but one to the analyzer, and hands each to its shuffler, the clear one
to the analyzer. When the task closes, the analyzer asks the shufflers which reports are complete,
each shuffler makes sure that all others were asked the same and releases the envelopes of those
reports in an order that says nothing, and the analyzer opens them and adds them up.
"""

from ikos.deployment.task import Task

__all__ = ["Task"]
