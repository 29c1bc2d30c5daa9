"""Secure and private summation: the roles put together."""

from ikos.aggregation.private_sum import PrivateSum
from ikos.aggregation.secure_sum import SecureGuarantee, SecureSum

__all__ = ["PrivateSum", "SecureGuarantee", "SecureSum"]
