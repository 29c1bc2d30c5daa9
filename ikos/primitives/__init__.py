"""Operations common to all parties: randomness, arithmetic modulo q, sharing, mixing, shuffling."""
