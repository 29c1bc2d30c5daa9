"""Programs that compute the tables and figures of the documentation from the library."""
