"""How many messages are enough: one module for each analysis, theorem or bound.

`secure` counts for a level of statistical security, `private` for differential privacy.
"""

from ikos.counts.private import private_message_count, private_proved
from ikos.counts.secure import ANALYSES, least, message_count, proved, security_level
from ikos.counts.types import SHUFFLERS, MessageCount

__all__ = [
    "ANALYSES",
    "SHUFFLERS",
    "MessageCount",
    "least",
    "message_count",
    "private_message_count",
    "private_proved",
    "proved",
    "security_level",
]
