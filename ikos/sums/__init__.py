"""Secure and private sums, of numbers and of vectors, and the budget of all releases."""

from ikos.sums.private import PrivateSum, PrivateVectorSum
from ikos.sums.secure import SecureGuarantee, SecureSum, SecureVectorSum

__all__ = ["PrivateSum", "PrivateVectorSum", "SecureGuarantee", "SecureSum", "SecureVectorSum"]
