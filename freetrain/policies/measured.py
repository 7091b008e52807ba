"""What policies came to on three traces (docs/policies.md), by ``python -m benchmarks.systems``."""

MEASURED: tuple[tuple[str, str, float, int, float, float], ...] = ()
"""Policy, trace, node-hours of work, completed, mean hours until then, hours of the longest wait."""
