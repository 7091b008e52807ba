"""How often Slurm lets an account ask it and order something. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A bucket of tokens, of which each question and each order takes one.

    Attributes:
        tokens: how many there are at most.
        tokens_per_s: how many come back.
    """

    tokens: int
    tokens_per_s: float

    def lasts_s(self, orders: int) -> float:
        """How long so many orders take at least."""
        return max(0.0, orders - self.tokens) / self.tokens_per_s


def parse_rate_limit(controller_parameters: str) -> RateLimit | None:
    """What SlurmctldParameters say of it; None: there is no limit. The defaults are Slurm's."""
    given = dict(word.partition("=")[::2] for word in controller_parameters.split(","))
    if "rl_enable" not in given:
        return None
    bucket, rate, period = (
        int(value) if re.fullmatch(r"0*[1-9][0-9]{0,17}", value := given.get(name, "")) else default
        for name, default in (("rl_bucket_size", 30), ("rl_refill_rate", 2), ("rl_refill_period", 1))
    )
    return RateLimit(bucket, rate / period)
