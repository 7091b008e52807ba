"""Measurements of freetrain; run them from the repository's root, as ``python -m benchmarks.solve``."""
