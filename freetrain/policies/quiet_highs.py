"""HiGHS as it is asked here: silent, in one thread, and with the same answer to the same question."""

from __future__ import annotations

import highspy


def quiet_highs() -> highspy.Highs:
    """One without a model."""
    highs = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 1)):
        highs.setOptionValue(option, value)
    return highs
