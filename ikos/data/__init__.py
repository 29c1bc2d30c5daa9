"""Users' values: their domains, their encoding as integers, and tables that contain them."""
