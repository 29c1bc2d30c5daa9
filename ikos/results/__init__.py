"""What a release returns: estimates with guarantee, error and cost, and how they are printed."""
