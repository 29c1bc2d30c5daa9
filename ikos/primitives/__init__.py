"""What every party can do: draw randomness, compute modulo q, share, mix and shuffle."""
