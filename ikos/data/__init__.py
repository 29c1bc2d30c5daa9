"""Users' values: their domains, how they become integers, and tables that hold them."""
