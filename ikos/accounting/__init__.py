"""Accountants: how much privacy a protocol's randomness buys, as numbers and not as protocols."""
