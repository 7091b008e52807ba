"""Guests: processes for code that may hang, crash or take all memory, and can be ended at any time."""
