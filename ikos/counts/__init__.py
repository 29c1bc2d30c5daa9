"""How many messages are enough, and the guarantee for a number of messages.

``secure`` counts for a level of statistical security, ``private`` for differential privacy,
``vectors`` for sums of vectors and ``masks`` for long ones; ``planning`` chooses the cheapest
setting. ``analyses`` is the table of the analyses from which counts follow: ``published``
formulas, and the ``second_moment`` of the share graph (``share_graph``, ``recursion``,
``largest_component``), from which ``hockey_stick`` proves privacy, and, from the moments of
message tuples (``tuple_moments``), ``higher_moments`` and the ``direct_comparison`` of neighbours;
``best`` takes the best of these. ``necessary``, ``necessary_private`` and ``floor`` have the
lower bounds: how many messages are too few. ``certificate`` returns the numbers behind a count.
``exact_views`` counts the views of a few users, for the exact distance that all these bound.
"""

from ikos.counts.certificate import (
    Certificate,
    DirectCertificate,
    GivenSumCertificate,
    MomentCertificate,
    NecessaryCertificate,
    PrivateCertificate,
    certify,
    certify_necessary,
    certify_private,
)
from ikos.counts.exact_views import exact_delta, exact_private_delta, exact_total_variation
from ikos.counts.masks import MaskParameters, mask_parameters
from ikos.counts.necessary import necessary_messages, security_interval
from ikos.counts.necessary_private import necessary_private_messages, private_delta_interval
from ikos.counts.partial_noise import short_noise_epsilon
from ikos.counts.planning import Setting, cheapest
from ikos.counts.private import (
    Remaining,
    private_delta,
    private_epsilon,
    private_message_count,
    private_proved,
    private_remaining,
)
from ikos.counts.secure import (
    ANALYSES,
    message_count,
    remaining,
    security_level,
    smallest_users,
)
from ikos.counts.share_graph import SHUFFLERS
from ikos.counts.types import MessageCount
from ikos.counts.vectors import Layout, private_vector_layouts, vector_layouts

__all__ = [
    "ANALYSES", "SHUFFLERS", "Certificate", "DirectCertificate", "GivenSumCertificate",
    "Layout", "MaskParameters", "MessageCount", "MomentCertificate", "NecessaryCertificate",
    "PrivateCertificate", "Remaining", "Setting", "certify", "certify_necessary",
    "certify_private", "cheapest", "exact_delta", "exact_private_delta",
    "exact_total_variation", "mask_parameters", "message_count", "necessary_messages",
    "necessary_private_messages", "private_delta", "private_delta_interval", "private_epsilon",
    "private_message_count", "private_proved", "private_remaining", "private_vector_layouts",
    "remaining", "security_interval", "security_level", "short_noise_epsilon", "smallest_users",
    "vector_layouts",
]  # fmt: skip
