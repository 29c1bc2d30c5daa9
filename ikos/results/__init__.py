"""The results of a release: estimates with guarantee, error and cost, and their printed form."""
