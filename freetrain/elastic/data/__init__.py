"""Which samples come next, and how they are fetched."""
