"""Secure and private sums, of numbers and of vectors, and the budget of all releases."""

from ikos.results.guarantees import SecureGuarantee
from ikos.sums.private import PrivateSum, PrivateVectorSum
from ikos.sums.secure import SecureSum, SecureVectorSum

__all__ = ["PrivateSum", "PrivateVectorSum", "SecureGuarantee", "SecureSum", "SecureVectorSum"]
