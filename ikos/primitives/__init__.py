"""The operations of all parties: draw randomness, compute modulo q, share, mix and shuffle."""
