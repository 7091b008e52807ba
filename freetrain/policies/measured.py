"""Policies on three traces (docs/evidence/policies.md), by ``python -m benchmarks.systems``."""

MEASURED: tuple[tuple[str, str, float, int, float, float], ...] = (
    ("freetrain", "summit", 542.41, 24, 4.92, 3.30),
    ("equal-share", "summit", 508.02, 25, 4.04, 3.30),
    ("gadget", "summit", 483.80, 10, 3.60, 4.93),
    ("gadget,utility=log", "summit", 496.91, 12, 4.80, 5.03),
    ("smd", "summit", 346.27, 37, 2.18, 12.00),
    ("smd,sizes=menu", "summit", 507.40, 23, 5.12, 2.54),
    ("freetrain", "theta", 26712.51, 1620, 1.16, 0.29),
    ("equal-share", "theta", 26313.34, 1603, 1.18, 0.00),
    ("gadget", "theta", 25378.08, 1539, 1.22, 2.47),
    ("gadget,utility=log", "theta", 25384.74, 1539, 1.22, 2.47),
    ("smd", "theta", 22295.37, 1383, 1.31, 12.59),
    ("smd,sizes=menu", "theta", 25848.23, 1570, 1.21, 0.00),
    ("freetrain", "cerit", 2181.56, 131, 45.19, 62.36),
    ("equal-share", "cerit", 2178.96, 133, 46.22, 47.84),
    ("gadget", "cerit", 2171.24, 131, 45.91, 43.56),
    ("gadget,utility=log", "cerit", 2177.04, 130, 45.99, 45.51),
    ("smd", "cerit", 2009.71, 121, 49.02, 48.47),
    ("smd,sizes=menu", "cerit", 2178.42, 130, 45.97, 43.89),
)
"""Policy, trace, node-hours of work, completed, mean hours until then, hours of the longest wait."""
