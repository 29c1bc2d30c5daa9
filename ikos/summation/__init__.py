"""Secure and private summation: the roles put together."""

from ikos.summation.private_sum import PrivateSum
from ikos.summation.secure_sum import SecureGuarantee, SecureSum

__all__ = ["PrivateSum", "SecureGuarantee", "SecureSum"]
