"""How many messages are enough: one module for each analysis, theorem or bound.

``secure`` counts for a level of statistical security, ``private`` for differential privacy.
``vectors`` compares ways to sum vectors, ``settings`` and ``parameters`` choose what costs least,
``inverse`` tells what given messages buy and ``remaining`` what is left of it in bad company.
"""

from ikos.counts.certificate import (
    Certificate,
    PrivateCertificate,
    certify,
    certify_private,
)
from ikos.counts.degradation import Remaining, private_remaining, remaining
from ikos.counts.parameters import Modulus, Parameters, private_parameters, wrap_modulus
from ikos.counts.partial_noise import short_noise_epsilon
from ikos.counts.private import private_message_count, private_proved
from ikos.counts.search import Setting, cheapest, cheapest_private
from ikos.counts.secure import ANALYSES, least, message_count, proved, security_level
from ikos.counts.solve import private_delta, private_epsilon, smallest_users
from ikos.counts.types import SHUFFLERS, MessageCount
from ikos.counts.vectors import Layout, private_vector_layouts, vector_layouts

__all__ = [
    "ANALYSES",
    "SHUFFLERS",
    "Certificate",
    "Layout",
    "MessageCount",
    "Modulus",
    "Parameters",
    "PrivateCertificate",
    "Remaining",
    "Setting",
    "certify",
    "certify_private",
    "cheapest",
    "cheapest_private",
    "least",
    "message_count",
    "private_delta",
    "private_epsilon",
    "private_message_count",
    "private_parameters",
    "private_proved",
    "private_remaining",
    "private_vector_layouts",
    "proved",
    "remaining",
    "security_level",
    "short_noise_epsilon",
    "smallest_users",
    "vector_layouts",
    "wrap_modulus",
]
