"""How often Slurm lets an account ask it and tell it something, and whether that is enough for a daemon. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from freetrain.durations import show_duration
from freetrain.slurm.finding import Finding
from freetrain.slurm.settings import SlurmSettings

_ORDERS_A_NODE = 2
"""A fragment is pinned and released."""
_QUESTIONS = 10
"""Of a look, and of whoever else asks as the same account."""


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
        int(value) if (value := given.get(name, "")).isdigit() and int(value) else default
        for name, default in (("rl_bucket_size", 30), ("rl_refill_rate", 2), ("rl_refill_period", 1))
    )
    return RateLimit(bucket, rate / period)


def judge_rate_limit(settings: SlurmSettings, nodes: int, account: str) -> Iterator[Finding]:
    """That all nodes cannot be lent, or given back, at once.

    Args:
        settings: Slurm's.
        nodes: how many may be lent.
        account: the daemon's; root and SlurmUser have no limit.
    """
    limit = parse_rate_limit(settings.controller_parameters)
    orders = nodes * _ORDERS_A_NODE + _QUESTIONS
    if limit is None or account in ("root", settings.slurm_user) or orders <= limit.tokens:
        return
    kept = [word for word in settings.controller_parameters.split(",") if not word.startswith("rl_bucket_size")]
    yield Finding(
        f"Slurm lets {account} ask or tell it something {limit.tokens} times at once, and {limit.tokens_per_s:g} "
        f"times a second then (rl_enable): to lend all {nodes} nodes takes "
        f"{show_duration(limit.lasts_s(orders))}, in which no other look is made.",
        f"SlurmctldParameters={','.join([*kept, f'rl_bucket_size={orders}'])}",
        False,
    )
